"""Print which observers a host has and what perf may do there, as one JSON object."""

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path

TOOLS = {
    "iostat": ["-V"],
    "mpstat": ["-V"],
    "pidstat": ["-V"],
    "vmstat": ["-V"],
    "perf": ["--version"],
    "bpftrace": ["--version"],
}
OPTIONAL = {"perf", "bpftrace"}


def output(argv):
    """Return exit code and text (both streams) of a short command."""
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False
    )
    return done.returncode, done.stdout.decode(errors="replace").strip()


def version(tool):
    """Return the version that a tool prints; None where it is missing or does not run."""
    path = shutil.which(tool)
    if path is None:
        return None
    # Ubuntu's perf is a wrapper that fails where the running kernel's own is missing
    code, text = output([path, *TOOLS[tool]])
    found = re.search(r"\d+(?:\.\d+)+\S*", text)
    return found.group(0) if code == 0 and found else None


def perf_events():
    """Return which events perf can sample here: the clock's, and the processor's own."""
    works = {}
    for event in ("cpu-clock", "cycles"):
        code, text = output(["perf", "stat", "-x", ",", "-e", event, "true"])
        works[event] = code == 0 and "<not supported>" not in text and "<not counted>" not in text
    return works


def main():
    """Print it."""
    tools = {tool: version(tool) for tool in TOOLS}
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    release = platform.freedesktop_os_release()
    found = {
        "tools": tools,
        "missing": [tool for tool in TOOLS if tools[tool] is None and tool not in OPTIONAL],
        "perf_events": perf_events() if tools["perf"] else {},
        "perf_event_paranoid": int(paranoid.read_text()) if paranoid.exists() else None,
        "psi": Path("/proc/pressure/io").exists(),
        "distribution": release["ID"],
        "kernel": platform.release(),
        "systemd": Path("/run/systemd/system").is_dir(),
    }
    print(json.dumps(found))


main()
