"""The lock of this machine: two sweeps at the same time would disturb each other."""

import fcntl
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

from benchlab.errors import TargetError

PATH = Path("/tmp/benchlab.lock")

#: How often the lock is asked for, and the pause in between.
_ATTEMPTS, _PAUSE_S = 5, 0.02


@contextmanager
def locked() -> Iterator[None]:
    """Lock the machine.

    Raises:
        TargetError: another benchlab holds the lock, and the message names it; or the lock file cannot
            be used.
    """
    with opened() as lock:
        if not _taken(lock):
            raise TargetError(
                f"this machine is in use by {lock.read() or 'another benchlab'}: wait until it ends"
            )
        lock.truncate(0)
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        lock.write(f"`{command}`, process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S}")
        lock.flush()
        yield


def user() -> str | None:
    """Return which benchlab uses this machine now; ``None`` if none does, or it is unknown."""
    with suppress(OSError), open(PATH, opener=_no_link) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read() or "another benchlab"
    return None


def _taken(lock: TextIO) -> bool:
    """Take the lock, unless it is another's; :func:`user` has it for a moment, too."""
    for _ in range(_ATTEMPTS):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_PAUSE_S)
    return False


def opened() -> TextIO:
    """Open the file that is locked; the sweeps of all users can open it.

    Raises:
        TargetError: another user has made a file or a link of that name.
    """
    with suppress(FileExistsError):
        PATH.touch(exist_ok=False)
        PATH.chmod(0o666)
    try:
        # not "a+": nobody may create what another user has in /tmp (sysctl fs.protected_regular)
        return open(PATH, "r+", opener=_no_link)
    except OSError as error:
        raise TargetError(f"{PATH} cannot be used ({error.strerror}): remove it") from error


def _no_link(path: str, flags: int) -> int:
    """Open a file, but not through a symbolic link that another user may have put there."""
    return os.open(path, flags | os.O_NOFOLLOW)
