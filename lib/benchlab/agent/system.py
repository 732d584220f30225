"""Programs, processes and ports of the host, read from /proc."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .config import AgentError

#: Prefix of a program's argv: the program is killed when the thread that started it ends; prctl(2),
#: PR_SET_PDEATHSIG.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")

POLL_S = 0.02
#: A killed process that waits for its disk ends only when its I/O is done.
KILL_TIMEOUT_S = 30.0

_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp, include/net/tcp_states.h


def run(*argv: str | Path) -> str:
    """Run a program to its end and return its stdout; it is killed if this thread ends before.

    Raises AgentError with its last line of stderr if it fails.
    """
    words = [str(word) for word in argv]
    if not shutil.which(words[0]):
        raise AgentError(f"{words[0]} is not installed on this host")
    done = subprocess.run(
        [*DIE_WITH_PARENT, *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise AgentError(f"{' '.join(words)}: exit code {done.returncode}: {said}")
    return done.stdout


def write(path: Path, text: str) -> None:
    """Write text to a kernel file in one write(2).

    Raises AgentError that names file, text and the kernel's reason.
    """
    try:
        path.write_text(text)
    except OSError as error:
        raise AgentError(f"{path}: cannot write {text!r}: {error.strerror}") from error


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Return True as soon as the condition holds, False if it does not within the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def ends_within(source: int, timeout_s: float) -> bool:
    """Wait for the timeout; return True as soon as a file descriptor, such as a pipe, ends."""
    deadline = time.monotonic() + timeout_s
    while (left := deadline - time.monotonic()) > 0:
        readable, _, _ = select.select([source], [], [], left)
        if readable and not os.read(source, 4096):
            return True
    return False


@contextlib.contextmanager
def host_locked(etc: Path) -> Iterator[None]:
    """Lock the host, so that only one process changes it at a time.

    So a restore or start whose caller was killed completes before it is undone.
    """
    if not etc.is_dir():
        yield
        return
    folder = os.open(etc, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def use_realtime_scheduling() -> None:
    """Give the calling thread and its children real-time priority, so that they wake up on time.

    A load that used all CPUs and switched tasks 250,000 times a second has kept ordinary processes
    outside its group from waking up for 20 s (Linux 6.18). If the kernel does not allow the priority,
    nothing changes.
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def use_normal_scheduling() -> None:
    """Undo :func:`use_realtime_scheduling`: use the scheduling of ordinary processes."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


# Processes


@dataclass(frozen=True)
class Process:
    """A living process."""

    pid: int
    #: It changes when the parent ends.
    parent: int = field(compare=False)
    #: Clock ticks after boot; identifies a process together with the pid, as pids are reused.
    start_ticks: int


def stat_fields(proc: Path, pid: int | str) -> list[str] | None:
    """Return the fields after the name in /proc/PID/stat, state first; None if the process is gone.

    pid (comm) state ppid ... stime(15) ... num_threads(20) ... starttime(22) ...; comm may contain
    spaces and parentheses: proc_pid_stat(5).
    """
    try:
        return _text(proc / str(pid) / "stat").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def process(proc: Path, pid: int) -> Process | None:
    """Return the living process of this pid, or None.

    A zombie has no memory, files or ports left, so it is not living. But the main thread of a process
    is shown as a zombie, too, while other threads still run or are ending.
    """
    fields = stat_fields(proc, pid)
    if fields is None:
        return None
    state, parent, threads = fields[0], int(fields[1]), int(fields[17])
    ended = state in "ZX" and threads <= 1
    return None if ended else Process(pid, parent, start_ticks=int(fields[19]))


def processes_of(proc: Path, uid: int) -> list[Process]:
    """Return the living processes whose real user is uid."""
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = _text(entry / "status")
        except (FileNotFoundError, ProcessLookupError):
            continue
        real_uid = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
        if real_uid and int(real_uid[1]) == uid and (living := process(proc, int(entry.name))):
            found.append(living)
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to the processes that still exist."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_all(proc: Path, pids: Callable[[], list[int]], what: str) -> int:
    """Send SIGKILL until no process is left; it is repeated, as a process may fork meanwhile.

    A process leaves its cgroup before it has ended, so each process seen is waited for. Returns how
    many were seen. Raises AgentError that names each process left after KILL_TIMEOUT_S.
    """
    seen: dict[int, Process] = {}

    def left() -> set[int]:
        return {pid for pid, one in seen.items() if process(proc, pid) == one}

    def none_left() -> bool:
        found = pids()
        seen.update((pid, one) for pid in found if (one := process(proc, pid)))
        send(found, signal.SIGKILL)
        return not found and not left()

    if not wait_until(none_left, KILL_TIMEOUT_S):
        names = ", ".join(describe(proc, pid) for pid in sorted(left().union(pids())))
        raise AgentError(f"{what}: still there {KILL_TIMEOUT_S:.0f} s after SIGKILL: {names}")
    return len(seen)


def describe(proc: Path, pid: int) -> str:
    """Return a process's pid and name, such as "pid 12 (postgres)"."""
    try:
        return f"pid {pid} ({_text(proc / str(pid) / 'comm').strip()})"
    except OSError:
        return f"pid {pid}"


def _text(path: Path) -> str:
    """Return the text of a file with a process's name, which the kernel cuts within a character."""
    return path.read_text(errors="replace")


# Ports


def listener(proc: Path, port: int) -> str | None:
    """Return who listens on a TCP port, on any address: "pid 12 (postgres)"; None if it is free."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        path = proc / "net" / table
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in proc.glob("[0-9]*"):
        if not wanted.isdisjoint(_open_files(process)):
            return describe(proc, int(process.name))
    return "a process that cannot be seen from here"


def _open_files(process: Path) -> Iterator[str]:
    """Yield the targets of a process's open files; none if it is gone or not readable."""
    with contextlib.suppress(OSError):
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(link.readlink())
