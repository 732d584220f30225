"""Print, as one JSON object, what there is of MariaDB on this host.

inspect.py DATA_DIR ETC_DIR SECRET PRISTINE
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


def main(data_dir, etc, secret, pristine):
    """Print it."""
    login = Path(secret).exists() and (Path(etc) / "client.cnf").exists()
    server = shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
    found = {
        "server": server,
        "version": server_version(server) if server else None,
        "client": shutil.which("mariadb"),
        "data": Path(data_dir).is_dir(),
        "login": login,
        "pristine": login and Path(pristine).is_dir(),
    }
    print(json.dumps(found))


main(*sys.argv[1:])
