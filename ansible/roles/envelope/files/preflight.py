"""Print, as one JSON object, what the envelope needs to know of the host before it is made.

preflight.py HOME IMAGE
"""

import json
import os
import sys
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
UNIFIED = CGROUP / "cgroup.controllers"


def missing_controllers():
    """Controllers that neither cgroup version offers, by the names of the version in use."""
    if UNIFIED.exists():
        return sorted({"cpu", "memory", "io"} - set(UNIFIED.read_text().split()))
    wanted = ("blkio", "cpu", "cpuacct", "memory")
    return [name for name in wanted if not (CGROUP / name / "cgroup.procs").exists()]


def in_force():
    """The envelope that was requested last; None where there is none or it cannot be read."""
    try:
        return json.loads(Path("/etc/benchlab/envelope.json").read_text())
    except (OSError, ValueError):
        return None


def main(home, image):
    """Print it."""
    folder = Path(home)
    while not folder.is_dir():
        folder = folder.parent
    room = os.statvfs(folder)
    allocated = Path(image).stat().st_blocks * 512 if Path(image).exists() else 0
    found = {
        "uid": os.geteuid(),
        "free_bytes": room.f_bavail * room.f_frsize,
        "image_allocated_bytes": allocated,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "cores": os.cpu_count(),
        "loop": Path("/dev/loop-control").exists(),
        "cgroup": "v2" if UNIFIED.exists() else "v1",
        "missing_controllers": missing_controllers(),
        "config": in_force(),
    }
    print(json.dumps(found))


main(*sys.argv[1:])
