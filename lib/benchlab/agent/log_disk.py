"""The disk of an engine's log: one of its own, on which each write takes a while longer.

It shows on one host what a remote log does to an engine. A file is behind nbdkit's filters: they hold
each write for a fixed time, whatever its size, and may pace all of them to a bandwidth. nbdfuse shows
it as a file again; a loop device and ext4 make a file system of it. The engine's log folder moves
there before a start and back after a stop, so that snapshots hold it as ever.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
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
    unmount,
)
from .system import wait_until

if TYPE_CHECKING:
    from .envelope import Envelope

START_TIMEOUT_S = 10.0


class LogDisk:
    """The log disk of one engine: there from :meth:`attach` to :meth:`detach`."""

    def __init__(self, engine: EngineConfig, envelope: Envelope) -> None:
        self.engine, self.envelope, self.roots = engine, envelope, envelope.roots
        self.folder = envelope.config.home.resolve() / "log-disk" / engine.engine
        self.image, self.slow = self.folder / "image", self.folder / "slow"
        self.mount, self.moved_from = self.folder / "mount", self.folder / "moved-from"

    @property
    def attached(self) -> bool:
        """Whether anything of it is there."""
        return self.folder.exists()

    def attach(self, config: LogDiskConfig) -> None:
        """Make the disk, as large as the envelope's, and move the engine's log folder there.

        Raises AgentError, and leaves the folder where it was, where that cannot be done.
        """
        log = self.engine.data_dir / config.folder
        there = self.mount / config.folder
        try:
            self._make(config)
            self.moved_from.write_text(str(log))  # first: a log that was moved is always found
            move_tree(log, there)
            log.symlink_to(there)
        except BaseException:
            self.detach()
            raise

    def detach(self) -> bool:
        """Move the log folder back, and remove the disk; False where there was none.

        A log that cannot be read any more is lost, as that of a broken disk is.
        """
        if not self.attached:
            return False
        if self.moved_from.exists():
            log = Path(self.moved_from.read_text())
            if log.is_symlink():
                log.unlink()
            if not log.exists():  # it is there where the move has not come to its end
                with suppress(AgentError, OSError):
                    self.slow.stat()  # a broken disk's files may still be in the page cache
                    move_tree(self.mount / log.name, log)
        self._remove()
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

    def _serve(self, config: LogDiskConfig) -> None:
        """Show the image as a slow file, by processes that end when it is unmounted."""
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

    def _remove(self) -> None:
        for _ in mounts_at(self.roots.proc, self.mount):
            unmount(self.roots.proc, self.mount)
        for loop in loops(self.roots.sys):
            if loop.backing_file == str(self.slow):
                detach(self.roots.sys, loop)
        for _ in mounts_at(self.roots.proc, self.slow):
            unmount(self.roots.proc, self.slow)
        delete_tree(self.folder)
