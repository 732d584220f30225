"""The envelope: a host limited to the size of an instance type.

The engines' data is on an ext4 file system on a loop device, whose bandwidth and operations are limited
by cgroup. The parent group limits CPU and memory of engine and client together. With
``enforce: false`` there is no file system and no limit, only the groups, to count what is used.
"""

from __future__ import annotations

import math
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .cgroup import open_cgroups, whole_quota
from .config import (
    ETC,
    NO_DISK_LIMITS,
    AgentError,
    NoSuchUser,
    Roots,
    engine_names,
    load_engine,
    load_envelope,
)
from .disk import (
    Loop,
    Mount,
    attach,
    delete_tree,
    delete_unfinished,
    detach,
    loops,
    make_ext4,
    mount,
    mounts_at,
    unmount,
)
from .log_disk import LogDisk
from .system import kill_all, processes_of

_DELETED = " (deleted)"


class Envelope:
    """The verbs on the envelope of ETC/envelope.json; each returns the object that the agent prints."""

    def __init__(self, etc: Path = ETC, roots: Roots | None = None) -> None:
        """Raises AgentError if the configuration is wrong or the host has no cgroups."""
        self.etc, self.roots = etc, roots or Roots()
        self.config = load_envelope(etc)
        self.cgroups = open_cgroups(self.roots.cgroup, self.config.cgroup)

    # The verbs

    def up(self) -> dict[str, Any]:
        """Bring everything but the disk limits into force, and reuse what exists.

        Returns the status with "changed", which is False if everything was in force already.
        """
        config = self.config
        for folder in (config.home, config.snapshots, config.mount):
            folder.mkdir(parents=True, exist_ok=True)
        changed = self.cgroups.create()
        changed |= self._delete_unfinished_snapshots()
        if config.enforce:
            changed |= self._mount()
        elif self._our_mounts():
            raise AgentError(
                f"enforce is false but {config.image} is mounted: run 'envelope down' first"
            )
        changed |= self.cgroups.yield_cpu()
        changed |= self._hold_cpu()
        changed |= self.hold_memory(self._own_memory())
        return {"changed": changed, **self.status()}

    def limit(self, on: bool, overrides: dict[str, int] | None = None) -> dict[str, Any]:
        """Set the disk limits, or lift them.

        overrides: limits that replace configured ones, by the names of DISK_LIMITS; 0 is no limit.
        Without "enforce" there are no disk limits. The CPU limit is restored, too, as a killed
        intervention may have left it lowered.
        """
        self.require_up()
        changed = self._hold_cpu()
        if self.config.enforce:
            limits = {**self.config.disk_limits, **(overrides or {})}
            device = self._device()
            wanted = {name: value or None for name, value in limits.items()}
            wanted = wanted if on else NO_DISK_LIMITS
            changed |= self.cgroups.disk_limits(device) != wanted
            self.cgroups.set_disk(device, wanted)
        return {"changed": changed, **self.status()}

    def down(self, wipe: bool = False) -> dict[str, Any]:
        """Take everything down, from any half-built state; wipe deletes image and snapshots, too.

        Each step is tried, even if others failed. Raises AgentError that names all that failed.
        """
        errors: list[str] = []
        changed = False

        def attempt(step: str, action: Callable[[], bool]) -> None:
            nonlocal changed
            try:
                changed |= action()
            except (AgentError, OSError) as error:
                errors.append(f"{step}: {error}")

        attempt("lift the disk limits", self._lift_disk_limits)
        attempt("kill the group's processes", lambda: self._kill_groups() > 0)
        for name in engine_names(self.etc):
            attempt(f"kill engine {name}", lambda name=name: self._kill_engine(name))
            attempt(f"remove {name}'s log disk", lambda name=name: self._remove_log_disk(name))
        attempt(f"unmount {self.config.mount}", self._unmount)
        for loop in self._loops() + self._loops(deleted=True):
            attempt(f"detach {loop.path}", lambda loop=loop: self._detach(loop))
        attempt("remove the cgroups", self._remove_cgroups)
        if wipe:
            attempt(f"delete {self.config.image}", self._delete_image)
            attempt(f"delete {self.config.snapshots}", lambda: delete_tree(self.config.snapshots))
        if errors:
            raise AgentError(f"envelope down: {len(errors)} step(s) failed: {'; '.join(errors)}")
        return {"changed": changed, **self.status()}

    def status(self) -> dict[str, Any]:
        """Return what is in force, read from the kernel; the configuration only says where to look."""
        config, mounts = self.config, self._mounts()
        loop = next(iter(self._loops()), None)
        exists = self.cgroups.exists()
        device = self.disk_device()
        disk_limits = self.cgroups.disk_limits(loop.device) if loop and exists else NO_DISK_LIMITS
        return {
            "up": exists and (not config.enforce or self._is_up(mounts)),
            "enforce": config.enforce,
            "cgroup_version": self.cgroups.version,
            "cgroup": config.cgroup,
            "cgroup_paths": [str(parent) for parent in self.cgroups.parents() if parent.is_dir()],
            "image": str(config.image),
            "image_bytes": config.image.stat().st_size if config.image.exists() else None,
            "mount": str(config.mount),
            "mounted": bool(mounts),
            "file_system": mounts[-1].type if mounts else None,
            "mount_options": mounts[-1].options if mounts else None,
            "loop": str(loop.path) if loop else None,
            "direct_io": loop.direct_io if loop else None,
            "device": device,
            "limits": {
                "cores": self.cgroups.cpu_limit() if exists else None,
                "memory_bytes": self.cgroups.memory_limit() if exists else None,
                **disk_limits,
            },
            "pids": {child: self.cgroups.pids(child) for child in ("engine", "client")},
        }

    # For the other subcommands

    def hold_memory(self, own: int) -> bool:
        """Set the memory limit to the envelope's plus ``own`` bytes; return False if it was in force.

        Raises AgentError if more memory than the limit is in use.
        """
        limit = None
        if self.config.enforce and self.config.memory_bytes is not None:
            limit = _whole_pages(self.config.memory_bytes + own)
        if self.cgroups.memory_limit() == limit:
            return False
        self.cgroups.set_memory(limit)
        return True

    def rates(self) -> dict[str, Any]:
        """Return the limits of rates, as read from the kernel: "cores", and those of DISK_LIMITS."""
        disk = self.cgroups.disk_limits(self._device()) if self.config.enforce else NO_DISK_LIMITS
        return {"cores": self.cgroups.cpu_limit(), **disk}

    def set_rates(self, rates: dict[str, Any]) -> None:
        """Set the limits of rates(); None removes a limit. Without "enforce" only "cores" is set."""
        self.cgroups.set_cpu(rates["cores"])
        if self.config.enforce:
            self.cgroups.set_disk(self._device(), {name: rates[name] for name in NO_DISK_LIMITS})

    def require_up(self) -> None:
        """Raise AgentError if the groups or, with "enforce", the file system do not exist."""
        if not self.cgroups.exists():
            raise AgentError(
                f"the envelope is not up (no cgroup {self.config.cgroup}): run 'envelope up' first"
            )
        if self.config.enforce and not self._is_up(self._mounts()):
            raise AgentError(
                f"the envelope is not up (nothing on {self.config.mount}): run 'envelope up' first"
            )

    def enter(self, child: str, service: str | None = None) -> None:
        """Move the calling process into a group, or a service's, and raise its open-file limit."""
        self.cgroups.join(child, service)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if self.config.enforce and self.config.cores is not None:
            # programs size their thread pools by the CPUs that they may run on, and do not see a
            # quota there
            os.sched_setaffinity(0, self._cpus(sorted(os.sched_getaffinity(0))))

    def disk_device(self) -> str | None:
        """Return MAJ:MIN of the device that holds the data.

        It is the loop device or, without "enforce", the device of the mount folder's file system. None
        if it does not exist, or if the file system has no block device (overlay, btrfs).
        """
        if self.config.enforce:
            return next((loop.device for loop in self._loops()), None)
        if not self.config.mount.is_dir():
            return None
        number = self.config.mount.stat().st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        return device if (self.roots.sys / "dev" / "block" / device).exists() else None

    @contextmanager
    def unthrottled(self) -> Iterator[None]:
        """Lift the disk limits for the time of a copy, which is not measured, then restore them."""
        device = self.disk_device() if self.config.enforce else None
        in_force = self.cgroups.disk_limits(device) if device else NO_DISK_LIMITS
        if in_force == NO_DISK_LIMITS:
            yield
            return
        self.cgroups.set_disk(device, NO_DISK_LIMITS)
        try:
            yield
        finally:
            self.cgroups.set_disk(device, in_force)

    def _cpus(self, allowed: list[int]) -> set[int]:
        """Return as many of the allowed CPUs as the envelope has cores, counted cyclically.

        The hardware threads of one core follow each other, however the kernel numbers them: an instance
        type has both, and two hosts of a lab should not share one.
        """
        by_core = sorted(allowed, key=lambda cpu: (self._first_thread(cpu), cpu))
        first = self.config.first_cpu
        wanted = range(first, first + math.ceil(self.config.cores))
        return {by_core[index % len(by_core)] for index in wanted}

    def _first_thread(self, cpu: int) -> int:
        """Return the first CPU of those that are threads of the same core."""
        topology = self.roots.sys / f"devices/system/cpu/cpu{cpu}/topology"
        try:
            # such as 0,4 or 0-1
            return int(re.split("[,-]", (topology / "thread_siblings_list").read_text())[0])
        except FileNotFoundError:
            return cpu

    # Steps up

    def _hold_cpu(self) -> bool:
        """Set the configured CPU limit; return False if it was in force already."""
        cores = self.config.cores if self.config.enforce else None
        if self.cgroups.cpu_limit() == (cores and whole_quota(cores)):
            return False
        self.cgroups.set_cpu(cores)
        return True

    def _own_memory(self) -> int:
        """Return the memory of running engines that is added to the envelope's."""
        own = 0
        for name in engine_names(self.etc):
            with suppress(AgentError):  # an engine that cannot be started does not run
                engine = load_engine(self.etc, name, self.config)
                if processes_of(self.roots.proc, engine.account.pw_uid):
                    own += engine.own_memory_bytes
        return own

    def _mount(self) -> bool:
        """Make image, loop device and mount; return False if the image was mounted already."""
        config = self.config
        mounts = self._mounts()
        if self._is_up(mounts):
            self._check_image_size()
            return False
        if len(self._our_mounts()) < len(mounts):
            raise AgentError(f"{config.mount} is occupied: {mounts[-1].source} is mounted there")
        self._unmount()  # mounts of a deleted image
        self._delete_other_image()
        for loop in self._loops(deleted=True):
            self._detach(loop)
        # one without direct I/O would have its pages in the host's cache, outside the memory limit
        usable = [loop for loop in self._loops() if loop.direct_io][:1]
        for loop in self._loops():
            if loop not in usable:
                self._detach(loop)
        self._make_image()
        loop = usable[0] if usable else attach(self.roots.sys, config.image)
        if not loop.direct_io:
            self._detach(loop)
            raise AgentError(f"{config.image}: the disk below does not allow direct I/O")
        # a loop device keeps its limits when its file is detached, so it may have those of its last
        # user
        self.cgroups.set_disk(loop.device, NO_DISK_LIMITS)
        mount(loop.path, config.mount)
        return True

    def _delete_unfinished_snapshots(self) -> bool:
        """Delete what killed agents left of snapshots; return whether there was anything.

        The caller has locked the host, so nobody is making a snapshot.
        """
        changed = [delete_unfinished(folder) for folder in self.config.snapshots.glob("*/")]
        return any(changed)

    def _delete_other_image(self) -> None:
        """Delete another profile's image, of another size; the engines' data is in their snapshots."""
        image = self.config.image
        if image.exists() and image.stat().st_size != self.config.image_bytes:
            image.unlink()

    def _make_image(self) -> None:
        """Make the image, unless it exists."""
        config = self.config
        if config.image.exists():
            return
        config.image.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(config.image.parent).free
        if free < config.image_bytes:
            raise AgentError(
                f"image {config.image}: {config.image_bytes} bytes requested, {free} free there"
            )
        partial = config.image.with_name(config.image.name + ".partial")
        partial.unlink(missing_ok=True)
        make_ext4(partial, config.image_bytes)
        partial.rename(config.image)

    def image_growth(self) -> int:
        """Return the bytes by which the sparse image may still grow; 0 if there is none."""
        try:
            used = self.config.image.stat().st_blocks * 512
        except FileNotFoundError:
            return 0
        return max(0, self.config.image_bytes - used)

    def _check_image_size(self) -> None:
        size = self.config.image.stat().st_size
        if size != self.config.image_bytes:
            raise AgentError(
                f"image {self.config.image} has {size} bytes, {self.config.image_bytes} are requested: "
                "run 'envelope down' first"
            )

    # Steps down: each returns whether there was anything to do

    def _lift_disk_limits(self) -> bool:
        lifted = False
        for loop in self._loops() + self._loops(deleted=True):
            try:
                limited = self.cgroups.disk_limits(loop.device) != NO_DISK_LIMITS
            except FileNotFoundError:
                continue  # v2: the limits went with the group
            if limited:
                self.cgroups.set_disk(loop.device, NO_DISK_LIMITS)
                lifted = True
        return lifted

    def _kill_groups(self) -> int:
        return kill_all(self.roots.proc, self.cgroups.all_pids, f"cgroup {self.config.cgroup}")

    def _kill_engine(self, name: str) -> bool:
        engine = load_engine(self.etc, name, self.config)
        try:
            uid = engine.account.pw_uid
        except NoSuchUser:
            return False
        proc = self.roots.proc
        killed = kill_all(
            proc, lambda: [one.pid for one in processes_of(proc, uid)], f"engine {name}"
        )
        engine.pid_file.unlink(missing_ok=True)
        return killed > 0

    def _unmount(self) -> bool:
        mounts = self._our_mounts()
        for _ in mounts:
            unmount(self.roots.proc, self.config.mount)
        return bool(mounts)

    def _detach(self, loop: Loop) -> bool:
        detach(self.roots.sys, loop)
        return True

    def _remove_log_disk(self, name: str) -> bool:
        engine = load_engine(self.etc, name, self.config)
        disk = LogDisk(engine, self)
        try:
            return disk.detach()
        except AgentError:  # no room for the log; snapshots have one of their own
            disk.discard()
            raise

    def _remove_cgroups(self) -> bool:
        there = any(parent.is_dir() for parent in self.cgroups.parents())
        # a client whose agent was slow to start may have joined since the others were killed
        self.cgroups.remove(self._kill_groups)
        return there

    def _delete_image(self) -> bool:
        there = self.config.image.exists()
        self.config.image.unlink(missing_ok=True)
        self.config.image.with_name(self.config.image.name + ".partial").unlink(missing_ok=True)
        return there

    # What is there

    @property
    def _image(self) -> str:
        """The image's path as the kernel reports it."""
        return str(self.config.image.parent.resolve() / self.config.image.name)

    def _mounts(self) -> list[Mount]:
        point = self.config.mount
        return mounts_at(self.roots.proc, point.parent.resolve() / point.name)

    def _our_mounts(self, deleted: bool = True) -> list[Mount]:
        """Return the mounts of our image.

        Another mount there is somebody's data disk and is not touched.
        """
        devices = {
            loop.device for loop in self._loops() + (self._loops(deleted=True) if deleted else [])
        }
        return [mount for mount in self._mounts() if mount.device in devices]

    def _is_up(self, mounts: list[Mount]) -> bool:
        return bool(mounts) and mounts[-1] in self._our_mounts(deleted=False)

    def _loops(self, deleted: bool = False) -> list[Loop]:
        """Return the loop devices on our image, or on a deleted file with its name."""
        wanted = self._image + (_DELETED if deleted else "")
        return [loop for loop in loops(self.roots.sys) if loop.backing_file == wanted]

    def _device(self) -> str:
        device = self.disk_device()
        if device is None:
            raise AgentError(f"no loop device on {self.config.image}: run 'envelope up' first")
        return device


def _whole_pages(size: int) -> int:
    """Return bytes as the kernel rounds a memory limit: down to whole pages."""
    page = resource.getpagesize()
    return size // page * page
