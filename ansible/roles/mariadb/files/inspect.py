"""Print, as one JSON object, what there is of MariaDB on this host.

inspect.py DATA_DIR ETC_DIR PRISTINE
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path


def server_version(program):
    """``10.11.19``, from ``mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for ...``."""
    said = subprocess.run([program, "--version"], capture_output=True, check=True).stdout
    return re.search(rb"Ver ([\d.]+)-MariaDB", said).group(1).decode()


def main(data_dir, etc, pristine):
    """Print it."""
    server = shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
    found = {
        "server": server,
        "version": server_version(server) if server else None,
        "client": shutil.which("mariadb"),
        "data": Path(data_dir).is_dir(),
        "pristine": Path(pristine).is_dir() and (Path(etc) / "client.cnf").exists(),
    }
    print(json.dumps(found))


main(*sys.argv[1:])
