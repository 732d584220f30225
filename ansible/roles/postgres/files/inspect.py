"""Print, as one JSON object, what there is of PostgreSQL on this host.

inspect.py VERSION DIR DATA_DIR SECRET PRISTINE

DIR is where the programs of an exact version lie; empty: the distribution's are meant.
"""

import json
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
    """``15.18``, from ``postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)``.

    None: it does not run.
    """
    try:
        said = subprocess.run([programs / "postgres", "-V"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.decode().split()[2]


def probe(programs):
    """``pg_isready`` of these programs, else the distribution's newest: an artifact has none."""
    own = [programs / "pg_isready"] if programs else []
    known = [*sorted(PACKAGED.glob("*/bin/pg_isready")), *own]
    return next((str(path) for path in reversed(known) if path.exists()), None)


def candidates():
    """Major versions whose server package apt can install."""
    if shutil.which("apt-cache") is None:
        return []
    listing = subprocess.run(
        ["apt-cache", "pkgnames", "postgresql-"], capture_output=True, check=False
    ).stdout.decode()
    majors = (name.removeprefix("postgresql-") for name in listing.split())
    return sorted((major for major in majors if major.isdigit()), key=int)


def main(version, exact, data_dir, secret, pristine):
    """Print it."""
    packaged = installed()
    if exact:
        major, programs = None, Path(exact) / "bin" if Path(exact).is_dir() else None
    else:
        available = [] if version in packaged else candidates()
        # a distribution carries one major version; where that is not the requested one, it is taken
        major = version if version in [*packaged, *available] else next(reversed(available), None)
        programs = packaged.get(major)
    runs = server_version(programs) if programs else None
    found = {
        "bin_dir": str(programs) if runs else None,
        "version": runs,
        "pg_isready": probe(programs),
        "major": major,
        "data": Path(data_dir).is_dir(),
        "login": Path(secret).exists(),
        "pristine": Path(pristine).is_dir(),
    }
    print(json.dumps(found))


main(*sys.argv[1:])
