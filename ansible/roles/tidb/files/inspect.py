"""Print, as one JSON object, what there is of TiDB on this host.

inspect.py TIDB_SERVER ETC_DIR PRISTINE
"""

import json
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path


def server_version(program):
    """``7.1.1``, from the line ``Release Version: v7.1.1``; None where it does not run."""
    try:
        said = subprocess.run([program, "-V"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rb"Release Version:\s*v?(\S+)", said.stdout + said.stderr)
    return found.group(1).decode() if found else None


def pristine_of(etc, pristine):
    """Version that made the pristine data directory; None where there is none to log into."""
    made_by = etc / f"{pristine.name}.version"
    there = pristine.is_dir() and (etc / "client.cnf").exists() and made_by.exists()
    return made_by.read_text().strip() if there else None


def main(server, etc, pristine):
    """Print it."""
    found = {
        "version": server_version(server),
        "client": shutil.which("mariadb") or shutil.which("mysql"),
        "pristine_of": pristine_of(Path(etc), Path(pristine)),
        "nofile_hard": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    }
    print(json.dumps(found))


main(*sys.argv[1:])
