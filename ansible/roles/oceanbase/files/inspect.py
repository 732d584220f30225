"""Print, as one JSON object, what there is of seekdb on this host.

inspect.py SERVER_DIR DATA_DIR ETC_DIR SECRET PRISTINE
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path


def server_version(folder):
    """``1.4.0.0``, from ``seekdb (OceanBase seekdb 1.4.0.0)``; None where it does not run."""
    try:
        said = subprocess.run(
            [folder / "seekdb", "-V"], capture_output=True, cwd="/tmp", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rb"seekdb \(\S+ \S+ ([\d.]+)\)", said.stdout + said.stderr)
    return found.group(1).decode() if found else None


def main(server, data_dir, etc, secret, pristine):
    """Print it."""
    defaults = Path(etc) / "defaults.json"
    login = Path(secret).exists() and (Path(etc) / "client.cnf").exists()
    whole = login and defaults.exists()
    found = {
        "version": server_version(Path(server)),
        "client": shutil.which("mariadb") or shutil.which("mysql"),
        "data": Path(data_dir).is_dir(),
        "configured": Path(etc + ".json").exists(),
        "login": login,
        "pristine": whole and Path(pristine).is_dir(),
        "defaults": json.loads(defaults.read_text()) if whole else {},
    }
    print(json.dumps(found))


main(*sys.argv[1:])
