"""Control groups: one interface over cgroup v1 and v2.

There are three groups: the parent (``benchlab``) has the CPU and memory limits, and contains ``engine``
and ``client``. If an engine has several services, each has a group in ``engine``, without limits, to
count the service's CPU time.

v1 (each controller has its own hierarchy; kernel: Documentation/admin-guide/cgroup-v1/):
  * The disk limit is set in the *root* group of blkio. The v1 throttle is flat: a parent's limit does
    not apply to its children. Kernel threads issue buffered writeback and the file system's journal,
    and they are in the root group. So the limit and the engine must be there, too: no blkio groups are
    made, and joining moves a process to blkio's root.
  * ``memory.oom_control`` counts a kill in the victim's own group, not in its parent.
  * A v2 hierarchy without controllers beside v1 (at ``unified``) gives pressure per group.

v2 (one hierarchy; kernel: Documentation/admin-guide/cgroup-v2.rst):
  * The disk limit is ``io.max`` of the engine's group, which limits its buffered writeback, too.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from .config import NO_DISK_LIMITS, AgentError
from .system import wait_until, write

CHILDREN = ("engine", "client")
#: Short, so that a small quota causes many short pauses and not a few long ones (the kernel's default
#: is 100 ms).
CPU_PERIOD_US = 20_000
REMOVE_TIMEOUT_S = 10.0

#: memory.limit_in_bytes of an unlimited v1 group: LONG_MAX rounded down to a page.
_V1_UNLIMITED = 1 << 62


def open_cgroups(root: Path, name: str) -> CgroupsV1 | CgroupsV2:
    """Return the host's cgroups. Raises AgentError if no cgroup file system is mounted at root."""
    if (root / "cgroup.controllers").exists():
        return CgroupsV2(root, name)
    if any((root / controller / "cgroup.procs").exists() for controller in CgroupsV1.CONTROLLERS):
        return CgroupsV1(root, name)
    raise AgentError(
        f"no cgroup hierarchy at {root}: neither v2 nor v1 ({', '.join(CgroupsV1.CONTROLLERS)})"
    )


def whole_quota(cores: float) -> float:
    """Return the cores that a quota in whole microseconds gives."""
    return round(cores * CPU_PERIOD_US) / CPU_PERIOD_US


class _Cgroups:
    """The common part of both versions: the folders, and the processes in them."""

    version: int

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name

    def parents(self) -> list[Path]:
        """Return the parent's folder in each hierarchy that has one."""
        raise NotImplementedError

    def create(self) -> bool:
        """Make the groups; return False if all existed.

        Raises AgentError if the host does not allow it.
        """
        missing = [folder for folder in self._folders() if not folder.is_dir()]
        for folder in missing:
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise AgentError(f"cannot make cgroup {folder}: {error.strerror}") from error
        return bool(missing)

    def yield_cpu(self) -> bool:
        """Let all other processes of the host have the CPU first; return False if they did already.

        With equal shares, processes outside the groups waited up to 45 s for the CPU while engine and
        load kept it busy (Linux 6.18), among them benchlab when it asks the server during a run. The
        throughput varied by a third within a run. The gate checks how much others use.
        """
        share, least = self._cpu_share()
        if share.read_text().strip() == least:
            return False
        write(share, least)
        return True

    def exists(self) -> bool:
        return all(folder.is_dir() for folder in self._folders())

    def remove(self, empty: Callable[[], object]) -> None:
        """Remove the groups that exist; ``empty`` ends the processes in them.

        Tries all groups, then raises AgentError that names those left.
        """
        left: list[str] = []

        def gone(folder: Path) -> bool:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                empty()
                return False
            return True

        for folder in reversed(self._folders()):
            if not wait_until(lambda folder=folder: gone(folder), REMOVE_TIMEOUT_S):
                left.append(str(folder))
        if left:
            raise AgentError(f"cgroups still in use: {', '.join(left)}")

    def join(self, child: str, service: str | None = None) -> None:
        """Move the calling process with all its threads into a child group, or a service's group."""
        joined = self._joined(child)
        if service:
            of_service = self._counting() / child / service
            of_service.mkdir(exist_ok=True)
            joined.append(of_service)
        for folder in joined:
            try:
                write(folder / "cgroup.procs", "0")
            except AgentError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    raise AgentError(
                        f"cgroup {folder} does not exist: run 'envelope up' first"
                    ) from None
                raise

    def leave_services(self) -> None:
        """Remove the groups of services that have ended, also those of another engine."""
        for folder in self._service_folders():
            with suppress(OSError):  # one that has processes is in use
                folder.rmdir()

    def pids(self, child: str) -> list[int]:
        """Return the processes in a child group of any hierarchy, and in groups below it."""
        found: set[int] = set()
        for parent in self.parents():
            for path in (parent / child).rglob("cgroup.procs"):
                try:
                    found.update(int(line) for line in path.read_text().split())
                except OSError as error:  # a group that was removed meanwhile has none
                    if error.errno not in (errno.ENODEV, errno.ENOENT):
                        raise
        return sorted(found)

    def services(self) -> list[str]:
        """Return the engine's services that have groups."""
        return sorted(path.name for path in self._service_folders())

    def all_pids(self) -> list[int]:
        return sorted({pid for child in CHILDREN for pid in self.pids(child)})

    def _folders(self) -> list[Path]:
        """Return all folders, parents before children."""
        groups = [
            folder
            for parent in self.parents()
            for folder in (parent, *(parent / child for child in CHILDREN))
        ]
        return groups + self._service_folders()

    def _service_folders(self) -> list[Path]:
        engine = self._counting() / "engine"
        return [path for path in engine.iterdir() if path.is_dir()] if engine.is_dir() else []

    def _counting(self) -> Path:
        """Return the parent's folder in the hierarchy that counts CPU time."""
        raise NotImplementedError

    def _cpu_share(self) -> tuple[Path, str]:
        """Return the file of the parent's share of a wanted CPU, and the least share."""
        raise NotImplementedError

    def _joined(self, child: str) -> list[Path]:
        return [parent / child for parent in self.parents()]


class CgroupsV1(_Cgroups):
    """Version 1: a hierarchy per controller; the disk limit is in the root group of blkio."""

    version = 1
    CONTROLLERS = ("cpu", "cpuacct", "memory")
    _THROTTLE: ClassVar = {
        "read_bytes_per_s": "blkio.throttle.read_bps_device",
        "write_bytes_per_s": "blkio.throttle.write_bps_device",
        "read_iops": "blkio.throttle.read_iops_device",
        "write_iops": "blkio.throttle.write_iops_device",
    }

    def parents(self) -> list[Path]:
        """See :meth:`_Cgroups.parents`."""
        return [
            self.root / hierarchy / self.name for hierarchy in (*self.CONTROLLERS, *self._unified())
        ]

    def create(self) -> bool:
        """Make the groups; return False if all existed."""
        for controller in (*self.CONTROLLERS, "blkio"):
            if not (self.root / controller / "cgroup.procs").exists():
                raise AgentError(
                    f"cgroup v1 controller {controller} is not mounted at {self.root / controller}"
                )
        return super().create()

    def set_cpu(self, cores: float | None) -> None:
        """Limit engine and client together to a number of cores; None removes the limit."""
        cpu = self._group("cpu")
        write(cpu / "cpu.cfs_period_us", str(CPU_PERIOD_US))
        write(cpu / "cpu.cfs_quota_us", str(-1 if cores is None else round(cores * CPU_PERIOD_US)))

    def cpu_limit(self) -> float | None:
        """Return the limit in cores; None if unlimited."""
        cpu = self._group("cpu")
        quota = _integer(cpu / "cpu.cfs_quota_us")
        return None if quota < 0 else quota / _integer(cpu / "cpu.cfs_period_us")

    def set_memory(self, limit: int | None) -> None:
        """Limit the memory of engine and client together, page cache included; None removes the limit.

        Raises AgentError if more than limit is in use (the kernel refuses it).
        """
        memory = self._group("memory")
        try:
            write(memory / "memory.limit_in_bytes", str(-1 if limit is None else limit))
        except AgentError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EBUSY:
                raise
            used = _integer(memory / "memory.usage_in_bytes")
            raise AgentError(_limit_below_use(memory, limit, used)) from error
        # The envelope has no swap: with 0, reclaim because of the limit never swaps. (A memory.memsw
        # limit has the same effect, but is then reached first, and current kernels do not count that
        # in failcnt.)
        for child in ("", *CHILDREN):
            write(memory / child / "memory.swappiness", "0")

    def memory_limit(self) -> int | None:
        """Return the limit in bytes; None if unlimited."""
        limit = _integer(self._group("memory") / "memory.limit_in_bytes")
        return None if limit >= _V1_UNLIMITED else limit

    def set_disk(self, device: str, limits: dict[str, int | None]) -> None:
        """Set the device's limits; None removes a limit.

        The first write of any limit also makes the kernel start to count the device's I/O.
        """
        for name, file in self._THROTTLE.items():
            write(self.root / "blkio" / file, f"{device} {limits[name] or 0}")

    def disk_limits(self, device: str) -> dict[str, int | None]:
        """Return the device's limits, by the names of DISK_LIMITS; None if unlimited."""
        limits = dict(NO_DISK_LIMITS)
        for name, file in self._THROTTLE.items():
            for line in (self.root / "blkio" / file).read_text().splitlines():
                key, value = line.split()
                if key == device:
                    limits[name] = int(value)
        return limits

    def cpu_usage_us(self, child: str) -> int:
        """Return the CPU time of a group and its children in µs; ``engine/<service>`` for a service."""
        return _integer(self._group("cpuacct") / child / "cpuacct.usage") // 1000

    def throttled(self) -> dict[str, int]:
        """Return how long and how often quotas paused the envelope, and how often the client."""
        stat, client = (
            _flat(folder / "cpu.stat")
            for folder in (self._group("cpu"), self._group("cpu") / "client")
        )
        return {
            "total_throttled_us": stat["throttled_time"] // 1000,
            **_paused(stat, client),
        }

    def memory(self) -> dict[str, int | None]:
        """Return the bytes in use (page cache included), the limit, and its effects.

        The effects are how often the limit was reached, processes killed, major faults (those that had
        to read), and refaults: pages that were evicted and soon read again.
        """
        memory = self._group("memory")
        return {
            "engine_bytes": _integer(memory / "engine" / "memory.usage_in_bytes"),
            "total_bytes": _integer(memory / "memory.usage_in_bytes"),
            "limit_bytes": self.memory_limit(),
            "failcnt": _integer(memory / "memory.failcnt"),
            "oom_kill": sum(
                _flat(memory / child / "memory.oom_control")["oom_kill"]
                for child in ("", *CHILDREN)
            ),
            **_faults(memory / "memory.stat", prefix="total_"),
        }

    def disk_source(self) -> Path:
        """Return the file that disk() reads the bytes from."""
        return self.root / "blkio" / "blkio.throttle.io_service_bytes"

    def disk(self, device: str) -> dict[str, int]:
        """Return bytes and operations that the throttle counts, before the block layer merges any."""
        bytes_, ios = (
            self._by_direction(file, device) for file in ("io_service_bytes", "io_serviced")
        )
        return {
            "read_bytes": bytes_["Read"],
            "write_bytes": bytes_["Write"],
            "read_ios": ios["Read"],
            "write_ios": ios["Write"],
        }

    def pressure(self) -> Path | None:
        """Return the folder with the engine's *.pressure files; None if the kernel has none."""
        folder = self.root / "unified" / self.name / "engine"
        return folder if (folder / "cpu.pressure").exists() else None

    def _by_direction(self, counter: str, device: str) -> dict[str, int]:
        found = {"Read": 0, "Write": 0}  # a device without any I/O has no line
        for line in (self.root / "blkio" / f"blkio.throttle.{counter}").read_text().splitlines():
            fields = line.split()  # MAJ:MIN DIRECTION n; the last line is "Total n"
            if fields[0] == device and fields[1] in found:
                found[fields[1]] = int(fields[2])
        return found

    def _counting(self) -> Path:
        return self._group("cpuacct")

    def _cpu_share(self) -> tuple[Path, str]:
        return self._group("cpu") / "cpu.shares", "2"

    def _group(self, controller: str) -> Path:
        return self.root / controller / self.name

    def _joined(self, child: str) -> list[Path]:
        return [*super()._joined(child), self.root / "blkio"]

    def _unified(self) -> tuple[str, ...]:
        return ("unified",) if (self.root / "unified" / "cgroup.controllers").exists() else ()


class CgroupsV2(_Cgroups):
    """Version 2: one hierarchy; the disk limit is on the engine's group."""

    version = 2
    CONTROLLERS = ("cpu", "memory", "io")
    _IO_MAX: ClassVar = {
        "read_bytes_per_s": "rbps",
        "write_bytes_per_s": "wbps",
        "read_iops": "riops",
        "write_iops": "wiops",
    }

    def parents(self) -> list[Path]:
        """See :meth:`_Cgroups.parents`."""
        return [self.root / self.name]

    def create(self) -> bool:
        """Make the groups and enable their controllers; return False if there was nothing to do."""
        offered = (self.root / "cgroup.controllers").read_text().split()
        if missing := [controller for controller in self.CONTROLLERS if controller not in offered]:
            raise AgentError(
                f"cgroup v2 controllers missing at {self.root}: {', '.join(missing)}; "
                f"offered: {', '.join(offered)}"
            )
        # A group that enables controllers for its children may not have processes itself (the
        # no-internal-process rule). The parent never has any.
        changed = self._delegate(self.root)
        changed |= super().create()
        return self._delegate(self._parent) or changed

    def set_cpu(self, cores: float | None) -> None:
        """Limit engine and client together to a number of cores; None removes the limit."""
        quota = "max" if cores is None else str(round(cores * CPU_PERIOD_US))
        write(self._parent / "cpu.max", f"{quota} {CPU_PERIOD_US}")

    def cpu_limit(self) -> float | None:
        """Return the limit in cores; None if unlimited."""
        quota, period = (self._parent / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)

    def set_memory(self, limit: int | None) -> None:
        """Limit the memory of engine and client together, page cache included; None removes the limit.

        Raises AgentError if more than limit is in use: the kernel would accept it and kill the engine.
        """
        if limit is not None and (used := self._memory_in_use(above=limit)) > limit:
            raise AgentError(_limit_below_use(self._parent, limit, used))
        swap = self._parent / "memory.swap.max"
        if swap.exists():
            write(swap, "max" if limit is None else "0")
        write(self._parent / "memory.max", "max" if limit is None else str(limit))

    def _memory_in_use(self, above: int) -> int:
        """Return the bytes in use; if they are above a number, the kernel gives back page cache first.

        It does so when memory.high is written (memory_high_write in mm/memcontrol.c).
        """
        if _integer(self._parent / "memory.current") > above:
            write(self._parent / "memory.high", str(above))
            write(self._parent / "memory.high", "max")
        return _integer(self._parent / "memory.current")

    def memory_limit(self) -> int | None:
        """Return the limit in bytes; None if unlimited."""
        limit = (self._parent / "memory.max").read_text().strip()
        return None if limit == "max" else int(limit)

    def set_disk(self, device: str, limits: dict[str, int | None]) -> None:
        """Set the device's limits for the engine; None removes a limit."""
        words = (f"{key}={limits[name] or 'max'}" for name, key in self._IO_MAX.items())
        write(self._parent / "engine" / "io.max", f"{device} {' '.join(words)}")

    def disk_limits(self, device: str) -> dict[str, int | None]:
        """Return the device's limits, by the names of DISK_LIMITS; None if unlimited."""
        entry = _nested(self._parent / "engine" / "io.max", device)
        return {
            name: None if entry.get(key, "max") == "max" else int(entry[key])
            for name, key in self._IO_MAX.items()
        }

    def cpu_usage_us(self, child: str) -> int:
        """Return the CPU time of a group and its children in µs; ``engine/<service>`` for a service."""
        return _flat(self._parent / child / "cpu.stat")["usage_usec"]

    def throttled(self) -> dict[str, int]:
        """Return how long and how often quotas paused the envelope, and how often the client."""
        stat, client = (
            _flat(folder / "cpu.stat") for folder in (self._parent, self._parent / "client")
        )
        return {"total_throttled_us": stat["throttled_usec"], **_paused(stat, client)}

    def memory(self) -> dict[str, int | None]:
        """Return the bytes in use (page cache included), the limit, and its effects.

        The effects are how often the limit was reached, processes killed, major faults (those that had
        to read), and refaults: pages that were evicted and soon read again.
        """
        events = _flat(self._parent / "memory.events")
        return {
            "engine_bytes": _integer(self._parent / "engine" / "memory.current"),
            "total_bytes": _integer(self._parent / "memory.current"),
            "limit_bytes": self.memory_limit(),
            "failcnt": events["max"],
            "oom_kill": events["oom_kill"],
            **_faults(self._parent / "memory.stat"),
        }

    def disk_source(self) -> Path:
        """Return the file that disk() reads the bytes from."""
        return self._parent / "engine" / "io.stat"

    def disk(self, device: str) -> dict[str, int]:
        """Return bytes and operations of the engine's group."""
        # a device without I/O of the group has no line, or a line without keys
        entry = _nested(self.disk_source(), device)
        return {
            "read_bytes": int(entry.get("rbytes", 0)),
            "write_bytes": int(entry.get("wbytes", 0)),
            "read_ios": int(entry.get("rios", 0)),
            "write_ios": int(entry.get("wios", 0)),
        }

    def pressure(self) -> Path | None:
        """Return the folder with the engine's *.pressure files; None if the kernel has none."""
        folder = self._parent / "engine"
        return folder if (folder / "cpu.pressure").exists() else None

    def _counting(self) -> Path:
        return self._parent

    def _cpu_share(self) -> tuple[Path, str]:
        return self._parent / "cpu.weight", "1"

    @property
    def _parent(self) -> Path:
        return self.root / self.name

    def _delegate(self, folder: Path) -> bool:
        control = folder / "cgroup.subtree_control"
        enabled = control.read_text().split()
        wanted = [f"+{controller}" for controller in self.CONTROLLERS if controller not in enabled]
        if wanted:
            write(control, " ".join(wanted))
        return bool(wanted)


def _limit_below_use(group: Path, limit: int | None, used: int) -> str:
    return f"cgroup {group}: memory limit {limit} not set, {used} bytes are in use: stop the engine"


def _paused(stat: dict[str, int], client: dict[str, int]) -> dict[str, int]:
    """Return how many periods of the CPU quota the groups ran in, and in how many they had to pause."""
    return {
        "nr_periods": stat["nr_periods"],
        "nr_throttled": stat["nr_throttled"],
        "client_nr_periods": client["nr_periods"],
        "client_nr_throttled": client["nr_throttled"],
    }


def _faults(stat: Path, prefix: str = "") -> dict[str, int]:
    """Return the faults of a group and those below it; v1 has a prefix before the keys.

    Kernels before 5.9 count the refaults of files and of other memory together.
    """
    values = _flat(stat)
    refaults = (
        values.get(f"{prefix}workingset_refault{kind}", 0) for kind in ("", "_anon", "_file")
    )
    return {"major_faults": values[f"{prefix}pgmajfault"], "refaults": sum(refaults)}


def _integer(path: Path) -> int:
    return int(path.read_text())


def _flat(path: Path) -> dict[str, int]:
    """Parse lines of the form "key value"."""
    return {
        key: int(value) for key, value in (line.split() for line in path.read_text().splitlines())
    }


def _nested(path: Path, key: str) -> dict[str, str]:
    """Parse one key's line of "key name=value name=value" lines; empty if the key has none."""
    for line in path.read_text().splitlines():
        fields = line.split()
        if fields and fields[0] == key:
            return dict(field.split("=", 1) for field in fields[1:])
    return {}
