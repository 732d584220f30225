"""File systems, mounts and loop devices of the host, and folders on them."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .config import AgentError
from .system import describe, run, wait_until

UNMOUNT_TIMEOUT_S = 5.0
DETACH_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo."""

    device: str  # MAJ:MIN
    point: Path
    source: str
    type: str
    options: str


def mounts_at(proc: Path, point: Path) -> list[Mount]:
    """Return the mounts at exactly this path, lowest first."""
    found = []
    for line in (proc / "self" / "mountinfo").read_text(errors="replace").splitlines():
        # id parent MAJ:MIN root point options [fields...] - type source superblock-options, where the
        # source may be empty: proc_pid_mountinfo(5)
        left, _, right = line.partition(" - ")
        fields, (type_, source, super_options) = left.split(), right.split(" ")[:3]
        if _unescape(fields[4]) == str(point):
            found.append(Mount(fields[2], point, source, type_, f"{fields[5]},{super_options}"))
    return found


def _unescape(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


@dataclass(frozen=True)
class Loop:
    """A loop device that has a file."""

    path: Path  # /dev/loopN
    device: str  # MAJ:MIN
    backing_file: str  # ends in " (deleted)" if the file was deleted
    direct_io: bool


def loops(sys: Path) -> list[Loop]:
    """Return the loop devices that have a file."""
    found = []
    for folder in sorted(sys.glob("block/loop*/loop")):
        try:
            found.append(
                Loop(
                    Path("/dev") / folder.parent.name,
                    (folder.parent / "dev").read_text().strip(),
                    (folder / "backing_file").read_text().strip(),
                    (folder / "dio").read_text().strip() == "1",
                )
            )
        except FileNotFoundError:
            continue  # detached meanwhile
    return found


def make_ext4(file: Path, size: int) -> None:
    """Make a sparse file with an ext4 that is fully initialised, with no work left for later."""
    with file.open("wb") as image:
        image.truncate(size)
    options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", options, file)


def attach(sys: Path, file: Path) -> Loop:
    """Attach a file to a loop device with direct I/O, and return the device."""
    path = Path(run("losetup", "--find", "--show", "--direct-io=on", file).strip())
    return next(loop for loop in loops(sys) if loop.path == path)


def release(loop: Loop) -> None:
    """Let the kernel detach a loop device after its last use, at once if it is not in use."""
    run("losetup", "--detach", loop.path)


def detach(sys: Path, loop: Loop) -> None:
    """Detach a loop device from its file. Raises AgentError if it is still in use."""
    with suppress(AgentError):  # it was released before, and may be detached right now
        release(loop)
    if not wait_until(lambda: loop not in loops(sys), DETACH_TIMEOUT_S):
        raise AgentError(f"{loop.path} is still in use")


def mount(device: Path, point: Path) -> None:
    """Mount an ext4 file system."""
    run("mount", "-t", "ext4", "-o", "nodiscard", device, point)


def unmount(proc: Path, point: Path) -> None:
    """Unmount the topmost mount at a path. Raises AgentError that names processes that use it."""
    reason = ""

    def unmounted() -> bool:
        nonlocal reason
        try:
            run("umount", point)
        except AgentError as error:
            reason = str(error)
            return False
        return True

    if not wait_until(unmounted, UNMOUNT_TIMEOUT_S):
        users = ", ".join(holders(proc, point)) or "nobody that can be seen"
        raise AgentError(f"{reason} (in use by {users})")


def holders(proc: Path, folder: Path) -> list[str]:
    """Describe processes that use a mount: their open file, working directory or program is there."""
    found = {}
    for pattern in ("cwd", "exe", "fd/*"):
        for link in proc.glob(f"[0-9]*/{pattern}"):
            try:
                if link.readlink().is_relative_to(folder):
                    pid = int(link.relative_to(proc).parts[0])
                    found[pid] = describe(proc, pid)
            except OSError:
                continue
    return [found[pid] for pid in sorted(found)]


def delete_tree(folder: Path) -> bool:
    """Delete a folder; it is renamed first, so that a partly deleted one is not taken as complete.

    Returns whether the folder existed.
    """
    there = folder.exists()
    doomed = folder.with_name(f".{folder.name}.deleted")
    if there:
        if doomed.exists():
            shutil.rmtree(doomed)
        folder.rename(doomed)
    if doomed.exists():
        shutil.rmtree(doomed)
    return there


def delete_unfinished(folder: Path) -> bool:
    """Delete what copy_tree() and delete_tree() have left in a folder if they were killed.

    Returns whether there was anything.
    """
    left = [path for path in folder.glob(".*") if path.suffix in (".partial", ".deleted")]
    for path in left:
        shutil.rmtree(path)
    return bool(left)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder, under a hidden name until the copy is complete and on disk."""
    partial = target.with_name(f".{target.name}.partial")
    delete_tree(partial)
    try:
        run("cp", "--archive", "--no-target-directory", source, partial)
        run("sync", "--file-system", partial)
    except AgentError:
        delete_tree(partial)
        raise
    partial.rename(target)


def move_tree(source: Path, target: Path) -> None:
    """Move a folder to another file system."""
    copy_tree(source, target)
    delete_tree(source)
