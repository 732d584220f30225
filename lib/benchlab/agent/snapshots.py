"""Snapshots: copies of an engine's data directory, by key."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from .config import AgentError, EngineConfig
from .disk import copy_tree, delete_tree
from .envelope import Envelope
from .system import run

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Snapshots:
    """The snapshots of one engine; it must be down for every method that copies or deletes."""

    def __init__(self, config: EngineConfig, envelope: Envelope) -> None:
        self.config, self.envelope = config, envelope

    def list(self) -> list[dict[str, Any]]:
        """Return key, bytes on disk and time of each complete snapshot."""
        return [_describe(path) for path in self._whole()]

    def path(self, key: str) -> Path:
        """Return the folder of a snapshot. Raises AgentError if the key has none."""
        path = self._path(key)
        if not path.is_dir():
            known = ", ".join(one.name for one in self._whole()) or "none"
            raise AgentError(
                f"engine {self.config.engine} has no snapshot {key!r}; there are: {known}"
            )
        return path

    def take(self, key: str) -> dict[str, Any]:
        """Copy the data directory, in place of the snapshot that the key may have."""
        target = self._path(key)
        delete_tree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._require_room(target.parent)
        self._copy(self.config.data_dir, target)
        return _describe(target)

    def restore(self, key: str) -> bool:
        """Replace the data directory by a snapshot; return False if it is that snapshot, unchanged."""
        source, data_dir = self.path(key), self.config.data_dir
        try:
            if self._restored.read_text().split() == [key, str(data_dir.stat().st_ino)]:
                return False
        except FileNotFoundError:
            pass
        self.touched()
        # delete before the copy, so that the envelope's disk need not hold the data twice
        delete_tree(data_dir)
        self._copy(source, data_dir)
        self._restored.write_text(f"{key} {data_dir.stat().st_ino}\n")
        return True

    def touched(self) -> None:
        """Record that the data directory is no longer an unchanged copy of a snapshot."""
        self._restored.unlink(missing_ok=True)

    @property
    def _restored(self) -> Path:
        """File with the key of the snapshot that the data directory equals; absent if there is none."""
        return self.config.data_dir.with_name(f".{self.config.engine}.restored")

    def _whole(self) -> list[Path]:
        root = self.config.snapshot_root
        found = root.iterdir() if root.is_dir() else ()
        return sorted(path for path in found if _KEY.fullmatch(path.name))

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise AgentError(
                f"snapshot key {key!r}: letters, digits, '.', '_' and '-' only, not '.' first"
            )
        return self.config.snapshot_root / key

    def _require_room(self, folder: Path) -> None:
        """Check that a copy of the data fits beside what the sparse image may still grow by.

        Otherwise the host's disk would be full in the middle of a run, and the engine's writes fail.
        """
        needed, free = disk_usage(self.config.data_dir), shutil.disk_usage(folder).free
        growth = self.envelope.image_growth()
        if free < needed + growth:
            raise AgentError(
                f"a snapshot takes {needed} bytes, and the image may grow by {growth}: {free} are free"
                f" in {folder}"
            )

    def _copy(self, source: Path, target: Path) -> None:
        if not source.is_dir():
            raise AgentError(f"engine {self.config.engine}: no folder {source}")
        with self.envelope.unthrottled():
            copy_tree(source, target)
            run("sync", "--file-system", target)


def disk_usage(folder: Path) -> int:
    """Return the bytes on disk of all files below a folder, as du counts them."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if not path.is_dir())


def _describe(snapshot: Path) -> dict[str, Any]:
    # the rename that completed the snapshot has set st_ctime
    return {
        "key": snapshot.name,
        "bytes": disk_usage(snapshot),
        "created_unix_s": round(snapshot.stat().st_ctime, 3),
    }
