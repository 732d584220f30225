"""Print what a measurement depends on of this host, as one JSON object.

    host_facts.py --home DIR [--out FILE]

With ``--out`` the object is written to FILE, if it differs, and ``changed`` or ``unchanged`` is
printed instead. Values that the host does not have (a frequency governor in a virtual machine) are
null. Standard library only: it runs under the target's own Python.
"""

import argparse
import json
import os
import platform
import re
import resource
from pathlib import Path

PROC = Path("/proc")
SYS = Path("/sys")

# Kernel settings that move a database's throughput (Documentation/admin-guide/sysctl/vm.rst).
VM_SETTINGS = (
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "nr_hugepages",
    "overcommit_memory",
    "overcommit_ratio",
    "swappiness",
    "zone_reclaim_mode",
)


def collect_cpu():
    """CPU model, logical CPUs online, threads per core, frequency governor of the first CPU."""
    info = (PROC / "cpuinfo").read_text()
    model = re.search(r"^(?:model name|CPU part|cpu model)\s*:\s*(.+)$", info, re.MULTILINE)
    cpu0 = SYS / "devices/system/cpu/cpu0"
    siblings = _text(cpu0 / "topology/thread_siblings_list")
    return {
        "cpu_model": model.group(1).strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "threads_per_core": _list_length(siblings) if siblings else None,
        "governor": _text(cpu0 / "cpufreq/scaling_governor"),
    }


def collect_memory():
    """Memory and swap, in bytes."""
    lines = (line.split() for line in (PROC / "meminfo").read_text().splitlines())
    kib = {words[0].rstrip(":"): int(words[1]) for words in lines}
    return {"memory_bytes": kib["MemTotal"] * 1024, "swap_bytes": kib["SwapTotal"] * 1024}


def collect_system():
    """Kernel release, architecture, distribution, clock source; which start of which machine it is."""
    clock = SYS / "devices/system/clocksource/clocksource0/current_clocksource"
    release = platform.freedesktop_os_release()
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "distribution": release.get("PRETTY_NAME", release["NAME"]),
        "clock_source": _text(clock),
        # hosts that are namespaces of one machine have it in common
        "boot_id": _text(PROC / "sys/kernel/random/boot_id"),
    }


def collect_disk(home):
    """Model, size, kind and I/O scheduler of the disk below ``home``."""
    number = Path(home).stat().st_dev
    device = SYS / f"dev/block/{os.major(number)}:{os.minor(number)}"
    device = device.resolve() if device.exists() else None
    if device and (device / "partition").exists():
        device = device.parent
    queue = device / "queue" if device else Path("/nonexistent")
    rotational = _text(queue / "rotational")
    sectors = _text(device / "size") if device else None
    return {
        "disk_device": device.name if device else None,
        "disk_model": _text(device / "device/model") if device else None,
        "disk_rotational": None if rotational is None else rotational == "1",
        "disk_scheduler": _chosen(_text(queue / "scheduler")),
        # sysfs counts in 512-byte sectors whatever the device's own are
        "disk_bytes": None if sectors is None else int(sectors) * 512,
    }


def collect_filesystem(home):
    """Type, mount point and mount options of the file system that holds ``home``."""
    number = Path(home).stat().st_dev
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for line in reversed((PROC / "self/mountinfo").read_text(errors="replace").splitlines()):
        own, _, common = line.partition(" - ")
        _, _, device, _, point, options, *_ = own.split()
        kind, _, super_options = common.split(" ")[:3]  # the second one may be empty
        if device == wanted and Path(home).is_relative_to(point):
            every = dict.fromkeys([*options.split(","), *super_options.split(",")])
            return {
                "filesystem": kind,
                "mount_point": point,
                "mount_options": ",".join(every),
            }
    return {"filesystem": None, "mount_point": None, "mount_options": None}


def collect_huge_pages():
    """Transparent huge pages, the mode in force."""
    return {"thp": _chosen(_text(SYS / "kernel/mm/transparent_hugepage/enabled"))}


def collect_cgroup():
    """Which cgroup hierarchies are mounted: ``v1``, ``v2``, or both (``hybrid``)."""
    kinds = {line.split()[2] for line in (PROC / "mounts").read_text().splitlines()}
    v1, v2 = "cgroup" in kinds, "cgroup2" in kinds
    return {"cgroup": "hybrid" if v1 and v2 else "v1" if v1 else "v2" if v2 else None}


def collect_virtualization():
    """Vendor and product of a virtual machine's firmware; null on bare metal."""
    guest = " hypervisor" in (PROC / "cpuinfo").read_text()
    dmi = SYS / "class/dmi/id"
    names = [_text(dmi / "sys_vendor"), _text(dmi / "product_name")]
    return {"virtualization": " ".join(filter(None, names)) or "unnamed" if guest else None}


def collect_limits():
    """Open files a process may have: the limit in force and the highest it may ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {"nofile_soft": soft, "nofile_hard": hard}


def collect_vm_settings():
    """The kernel's memory and writeback settings (``VM_SETTINGS``)."""
    read = {name: _text(PROC / "sys/vm" / name) for name in VM_SETTINGS}
    return {"vm": {name: None if text is None else int(text) for name, text in read.items()}}


def collect(home):
    """Return everything; ``home`` need not exist yet, its nearest existing parent counts."""
    home = Path(home)
    while not home.exists():
        home = home.parent
    home = home.resolve()
    return {
        **collect_system(),
        **collect_cpu(),
        **collect_memory(),
        **collect_disk(home),
        **collect_filesystem(home),
        **collect_huge_pages(),
        **collect_cgroup(),
        **collect_virtualization(),
        **collect_limits(),
        **collect_vm_settings(),
    }


def _text(path):
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _chosen(choices):
    """Return the bracketed word of ``always [madvise] never``; a text without any as it is."""
    if choices is None:
        return None
    found = re.search(r"\[(\S+)\]", choices)
    return found.group(1) if found else choices


def _list_length(cpus):
    """Number of CPUs in a kernel list such as ``0,4`` or ``0-1``."""
    spans = (part.split("-") for part in cpus.split(","))
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def main():
    """Print or write the facts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", default="/var/lib/benchlab")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    text = json.dumps(collect(arguments.home), indent=1, sort_keys=True) + "\n"
    if arguments.out is None:
        print(text, end="")
    elif arguments.out.exists() and arguments.out.read_text() == text:
        print("unchanged")
    else:
        draft = arguments.out.with_suffix(".tmp")
        draft.write_text(text)
        draft.replace(arguments.out)
        print("changed")


if __name__ == "__main__":
    main()
