"""Print, as one JSON object, what there is of PostgreSQL on this host.

inspect.py VERSION DATA_DIR PRISTINE
"""

import json
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

#: Debian and Ubuntu keep every major version in a folder of its own.
PACKAGED = Path("/usr/lib/postgresql")


def installed():
    """Major version -> folder of the server's programs."""
    return {
        path.parent.name: path for path in PACKAGED.glob("*/bin") if (path / "postgres").exists()
    }


def server_version(programs):
    """``15.18``, from ``postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)``."""
    said = subprocess.run([programs / "postgres", "-V"], capture_output=True, check=True)
    return said.stdout.decode().split()[2]


def candidates():
    """Major versions whose server package apt can install."""
    if shutil.which("apt-cache") is None:
        return []
    listing = subprocess.run(
        ["apt-cache", "pkgnames", "postgresql-"], capture_output=True, check=False
    ).stdout.decode()
    majors = (name.removeprefix("postgresql-") for name in listing.split())
    return sorted((major for major in majors if major.isdigit()), key=int)


def user_exists(name):
    """Whether the account is there."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def main(version, data_dir, pristine):
    """Print it."""
    packaged = installed()
    available = [] if version in packaged else candidates()
    # a distribution carries one major version; where that is another than asked, it is taken
    major = version if version in [*packaged, *available] else next(reversed(available), None)
    programs = packaged.get(major)
    found = {
        "bin_dir": str(programs) if programs else None,
        "version": server_version(programs) if programs else None,
        "pg_isready": str(programs / "pg_isready") if programs else None,
        "major": major,
        "user": user_exists("benchlab-postgres"),
        "data": Path(data_dir).is_dir(),
        "pristine": Path(pristine).is_dir(),
    }
    print(json.dumps(found))


main(*sys.argv[1:])
