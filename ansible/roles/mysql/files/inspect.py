"""Print, as one JSON object, what there is of MySQL on this host.

inspect.py SERVER_DIR DATA_DIR ETC_DIR SECRET PRISTINE
"""

import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path


def server_version(program):
    """``9.7.4``, from ``.../mysqld  Ver 9.7.4-2 for Linux on x86_64``; None where it does not run."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(rb"Ver ([\d.]+)", said)
    return found.group(1).decode() if found else None


def main(server, data_dir, etc, secret, pristine):
    """Print it."""
    login = Path(secret).exists() and (Path(etc) / "client.cnf").exists()
    found = {
        "distribution": platform.freedesktop_os_release()["ID"],
        "version": server_version(server + "/run-mysqld"),
        "client": shutil.which("mariadb") or shutil.which("mysql"),
        "data": Path(data_dir).is_dir(),
        "login": login,
        "pristine": login and Path(pristine).is_dir(),
    }
    print(json.dumps(found))


main(*sys.argv[1:])
