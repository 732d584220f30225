"""A separate disk for an engine's log, on which each write is delayed.

It shows on one host how a remote log affects an engine. nbdkit serves an image file through filters:
they delay each write by a fixed time, whatever its size, and may limit the bandwidth of all writes.
nbdfuse mounts the result as a file, on which a loop device has an ext4 file system. The engine's log
folder moves there before a start and back after a stop, so that snapshots contain it as usual.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from .config import NO_DISK_LIMITS, AgentError, EngineConfig, LogDiskConfig
from .disk import (
    attach,
    delete_tree,
    detach,
    loops,
    make_ext4,
    mount,
    mounts_at,
    move_tree,
    release,
    unmount,
)
from .system import wait_until

if TYPE_CHECKING:
    from .envelope import Envelope

START_TIMEOUT_S = 10.0


class LogDisk:
    """The log disk of one engine; it exists from :meth:`attach` to :meth:`detach`."""

    def __init__(self, engine: EngineConfig, envelope: Envelope) -> None:
        self.engine, self.envelope, self.roots = engine, envelope, envelope.roots
        self.folder = envelope.config.home.resolve() / "log-disk" / engine.engine
        self.image, self.slow = self.folder / "image", self.folder / "slow"
        self.mount, self.moved_from = self.folder / "mount", self.folder / "moved-from"

    @property
    def attached(self) -> bool:
        """Whether any part of it exists."""
        return self.folder.exists()

    def attach(self, config: LogDiskConfig) -> None:
        """Make the disk, as large as the envelope's, and move the engine's log folder there.

        Raises AgentError, and leaves the folder in its place, if that fails.
        """
        log = self.engine.data_dir / config.folder
        there = self.mount / config.folder
        try:
            self._make(config)
            # before the move, so that a moved log is always found
            self.moved_from.write_text(str(log))
            move_tree(log, there)
            log.symlink_to(there)
        except BaseException:
            self.detach()
            raise

    def detach(self) -> bool:
        """Move the log folder back, and remove the disk; return False if there was none.

        A log that cannot be read any more is lost, as on a broken disk. Raises AgentError, and keeps
        the disk with the log, if there is no room for the log where it belongs.
        """
        if not self.attached:
            return False
        if self.moved_from.exists():
            log = Path(self.moved_from.read_text())
            if log.is_symlink():
                log.unlink()
            # it still exists if the move was not completed
            if not log.exists() and self._is_readable():
                move_tree(self.mount / log.name, log)
        self.discard()
        return True

    def _is_readable(self) -> bool:
        if not self._served():  # after a reboot an empty file is left there
            return False
        try:
            self.slow.stat()  # fails for a broken disk, whose files may be in the page cache
        except OSError:
            return False
        return True

    def _make(self, config: LogDiskConfig) -> None:
        self.mount.mkdir(parents=True)
        self.slow.touch()
        make_ext4(self.image, self.envelope.config.image_bytes)
        self._serve(config)
        loop = attach(self.roots.sys, self.slow)
        # a loop device keeps the limits of its last user
        self.envelope.cgroups.set_disk(loop.device, NO_DISK_LIMITS)
        mount(loop.path, self.mount)
        release(loop)  # a killed host's namespaces end without a stop

    def _serve(self, config: LogDiskConfig) -> None:
        """Mount the image as a slow file; the processes for it end when it is unmounted."""
        filters, parameters = ["--filter=delay"], [f"wdelay={config.write_delay_ms}ms"]
        if config.bytes_per_s is not None:
            filters.append("--filter=rate")
            parameters.append(f"rate={8 * config.bytes_per_s}")
        command = ["nbdkit", "-s", "--exit-with-parent", *filters, "file", str(self.image)]
        output = self.folder / "nbdkit.log"
        with output.open("wb") as log:
            try:
                server = subprocess.Popen(
                    ["nbdfuse", str(self.slow), "--command", *command, *parameters],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise AgentError("nbdfuse is not installed on this host") from None
        wait_until(lambda: self._served() or server.poll() is not None, START_TIMEOUT_S)
        if not self._served():
            server.kill()
            said = output.read_text(errors="replace").strip().splitlines() or ["no message"]
            raise AgentError(
                f"engine {self.engine.engine}: its log disk does not start: {said[-1]}"
            )

    def _served(self) -> bool:
        return bool(mounts_at(self.roots.proc, self.slow))

    def discard(self) -> None:
        """Remove the disk, and the log that is on it."""
        for _ in mounts_at(self.roots.proc, self.mount):
            unmount(self.roots.proc, self.mount)
        for loop in loops(self.roots.sys):
            if loop.backing_file == str(self.slow):
                detach(self.roots.sys, loop)
        for _ in mounts_at(self.roots.proc, self.slow):
            unmount(self.roots.proc, self.slow)
        delete_tree(self.folder)
