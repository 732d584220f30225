"""Sample the kernel's counters of the envelope on an absolute schedule, one JSON line per tick.

The first line is {"header": {...}}: what is sampled, and from where. All counters are cumulative, as
in the kernel; a reader takes differences. The kernel's files are read in the order of a line's keys.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from .config import AgentError
from .envelope import Envelope
from .system import stat_fields

RESOURCES = ("cpu", "io", "memory")
_STOP = (signal.SIGTERM, signal.SIGINT)
_SECTOR = 512  # of /sys/dev/block/*/stat, for every device: Documentation/block/stat.rst


class Sampler:
    """Reads one sample at a time.

    Without "enforce" no throttle counts the I/O. Then "disk" is the I/O of the whole device below the
    data directory, which others may use, too, or null without such a device. "psi" is null if the
    kernel has no PSI.
    """

    def __init__(self, envelope: Envelope) -> None:
        """Raises AgentError if the envelope is not up."""
        envelope.require_up()
        self.envelope, self.cgroups = envelope, envelope.cgroups
        self.device = envelope.disk_device()
        self.throttled = envelope.config.enforce
        self.disk_source: Path | None = None
        if self.throttled:
            self.disk_source = self.cgroups.disk_source()
        elif self.device:
            self.disk_source = envelope.roots.sys / "dev" / "block" / self.device / "stat"
        self.pressure = self._pressure_files()
        self.links = _links(envelope.roots.sys / "class" / "net")
        roots = envelope.roots
        self.kernel = KernelThreads(
            roots.machine_proc if roots.machine_proc.is_dir() else roots.proc
        )

    def header(self, interval_s: float) -> dict[str, Any]:
        """Return the header: what is sampled, from where, and the limits in force."""
        status = self.envelope.status()
        psi = next(iter(self.pressure.values()), None)
        return {
            "header": {
                "interval_s": interval_s,
                "cgroup_version": status["cgroup_version"],
                "cgroup": status["cgroup"],
                "enforce": status["enforce"],
                "device": self.device,
                "limits": status["limits"],
                "disk_source": str(self.disk_source) if self.disk_source else None,
                "psi_source": str(psi.parent) if psi else None,
            }
        }

    def sample(self) -> dict[str, Any]:
        """Read all counters."""
        return {
            "t": round(time.time(), 6),
            "cpu": {
                "engine": self.cgroups.cpu_usage_us("engine"),
                "client": self.cgroups.cpu_usage_us("client"),
                **self.cgroups.throttled(),
            },
            "services": {
                name: self.cgroups.cpu_usage_us(f"engine/{name}")
                for name in self.cgroups.services()
            },
            "memory": self.cgroups.memory(),
            "disk": self._disk(),
            "psi": {name: _psi(path) for name, path in self.pressure.items()} or None,
            "host": {
                **_host(self.envelope.roots.proc / "stat"),
                "kernel_threads_us": self.kernel.used_us(),
            },
            "network": self._network(),
        }

    def _disk(self) -> dict[str, int] | None:
        if self.throttled:
            return self.cgroups.disk(self.device)
        return _device_stat(self.disk_source) if self.disk_source else None

    def _network(self) -> dict[str, int | None]:
        """Return the total bytes of the host's links, and the speed of those that are connected.

        The speed is null if one of these has none.
        """
        speeds = [_speed(link) for link in self.links if _is_connected(link)]
        return {
            **{
                name: sum(int((link / "statistics" / name).read_text()) for link in self.links)
                for name in ("rx_bytes", "tx_bytes")
            },
            "speed_bytes_per_s": sum(speeds) if speeds and None not in speeds else None,
        }

    def _pressure_files(self) -> dict[str, Path]:
        """Return the pressure files of the engine's group if the kernel fills them, else the host's."""
        host = self.envelope.roots.proc / "pressure"
        found = [{name: host / name for name in RESOURCES}]
        if folder := self.cgroups.pressure():
            found.insert(0, {name: folder / f"{name}.pressure" for name in RESOURCES})
        for files in found:
            # a kernel with psi=0 may have files that cannot be read
            with suppress(OSError):
                for path in files.values():
                    path.read_text()
                return files
        return {}


class KernelThreads:
    """CPU time of the kernel's threads: it is the host's, but mostly caused by the engine.

    For example, a loop device's thread uses 0.4 cores if an engine reads 3,000 pages a second.
    """

    _PARENT = "2"  # kthreadd
    _STIME = 12  # index in stat_fields(); these threads have no user time

    def __init__(self, proc: Path) -> None:
        """Count all kernel threads of the host, read from ``proc``."""
        self.proc = proc
        self.ticks: dict[str, int] = {}
        self.used = 0

    def used_us(self) -> int | None:
        """Return the CPU time since the first call in µs; None if the threads are not visible.

        A thread's time between two calls counts if both calls saw the thread.
        """
        parent = self.proc / self._PARENT
        try:
            if (parent / "comm").read_text() != "kthreadd\n":
                return None  # not the host's pid namespace
            threads = (parent / "task" / self._PARENT / "children").read_text().split()
        except OSError:
            return None
        before, self.ticks = self.ticks, dict(self._read(threads))
        self.used += sum(max(0, now - before.get(of, now)) for of, now in self.ticks.items())
        return self.used * 1_000_000 // os.sysconf("SC_CLK_TCK")

    def _read(self, threads: list[str]) -> Iterator[tuple[str, int]]:
        for thread in threads:
            if fields := stat_fields(self.proc, thread):
                yield thread, int(fields[self._STIME])


def record(envelope: Envelope, interval_s: float, out: TextIO) -> None:
    """Sample at start + n * interval until SIGTERM or SIGINT, and once more then.

    Missed ticks are skipped. The last sample counts what ended the load, such as a kill for memory.

    Raises AgentError if the envelope is taken down meanwhile; all lines until then are written.
    """
    if interval_s <= 0:
        raise AgentError(f"--interval must be above 0 s, not {interval_s:g}")
    sampler = Sampler(envelope)
    # blocked, so that sigtimedwait below receives them and they never interrupt a line
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    print(json.dumps(sampler.header(interval_s)), file=out, flush=True)
    tick, began, stopped = 0, time.monotonic(), None
    while True:
        try:
            line = sampler.sample()
        except OSError as error:
            raise AgentError(f"sampling ended at tick {tick}: {error}") from None
        print(json.dumps(line), file=out, flush=True)
        if stopped:
            return
        tick = int((time.monotonic() - began) / interval_s) + 1
        wait_s = max(0.0, began + tick * interval_s - time.monotonic())
        stopped = signal.sigtimedwait(_STOP, wait_s)


def _psi(path: Path) -> dict[str, int]:
    """Return stall times, {"some_us": n, "full_us": n}: Documentation/accounting/psi.rst.

    Kernels before 5.13 have no "full" for cpu.
    """
    lines = (line.split() for line in path.read_text().splitlines())
    return {f"{kind}_us": int(total.removeprefix("total=")) for kind, *_, total in lines}


def _host(path: Path) -> dict[str, int]:
    """Return the host's used CPU time, and its number of running and runnable tasks.

    Source: Documentation/filesystems/proc.rst. Time that the hypervisor gave to other machines counts
    as used. So does that of niced programs: engine and load yield to them, too (``yield_cpu``).
    """
    lines = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, lines["cpu"].split())
    ticks = user + nice + system + irq + softirq + steal
    return {
        "busy_us": ticks * 1_000_000 // os.sysconf("SC_CLK_TCK"),
        "runnable_tasks": int(lines["procs_running"]),
    }


def _links(root: Path) -> list[Path]:
    """Return the interfaces with a device; if there are none (in a namespace), all but loopback."""
    # bonding puts a file beside the interfaces
    found = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    every = [path for path in found if path.name != "lo"]
    return [path for path in every if (path / "device").exists()] or every


def _is_connected(link: Path) -> bool:
    try:
        return (link / "operstate").read_text().strip() not in ("down", "lowerlayerdown")
    except OSError:
        return True


def _speed(link: Path) -> int | None:
    """Return bytes per second in each direction; None for virtual interfaces that report none or -1."""
    try:
        mbit = int((link / "speed").read_text())
    except OSError:
        return None
    return mbit * 125_000 if mbit > 0 else None


def _device_stat(path: Path) -> dict[str, int]:
    """Return the device's I/O, requests counted after merging: Documentation/block/stat.rst."""
    fields = [int(word) for word in path.read_text().split()]
    return {
        "read_bytes": fields[2] * _SECTOR,
        "write_bytes": fields[6] * _SECTOR,
        "read_ios": fields[0],
        "write_ios": fields[4],
    }
