"""Run load generators in parallel to their end, and read their output meanwhile."""

import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchlab.agent.system import use_realtime_scheduling
from benchlab.target.host import kill

#: Seconds to wait for the rest of the output: a killed program may leave a child that holds it open.
_LAST_WORDS_S = 5


@dataclass(frozen=True)
class Program:
    """A program and its standard input."""

    argv: Sequence[str]
    stdin: bytes = b""


class Ended(subprocess.CompletedProcess[bytes]):
    """The result of a program."""

    was_killed: bool = False
    """Whether it was killed because another program had failed."""


class TimedOut(Exception):
    """Programs did not end in time and were killed."""

    def __init__(self, ended: list[Ended]):
        """Take the result of each program, in their order."""
        super().__init__("killed after the timeout")
        self.ended = ended


def run(
    programs: Sequence[Program], timeout_s: float, on_line: Callable[[int, bytes], None]
) -> list[Ended]:
    """Run programs in parallel, each like :func:`subprocess.run`, and hand on their lines at once.

    If one of them fails, the others are killed.

    Args:
        programs: programs, in the order in which they are started.
        timeout_s: seconds after which they are killed.
        on_line: called with the number of a program and each line, in a thread for each program.

    Returns:
        The result of each program, in the order of the programs.

    Raises:
        TimedOut: they did not end in time.
    """
    running: list[_Running] = []
    ended: queue.SimpleQueue[_Running] = queue.SimpleQueue()
    deadline = time.monotonic() + timeout_s
    try:
        for number, program in enumerate(programs):
            running.append(_Running(program, number, on_line, ended.put))
        for _ in running:
            one = ended.get(timeout=max(0.0, deadline - time.monotonic()))
            if one.process.returncode:
                break  # and kill the others, whose own children may hold their output open
    except queue.Empty:
        _kill(running)
        raise TimedOut([one.done() for one in running]) from None
    finally:
        _kill(running)
    return [one.done() for one in running]


class _Running:
    """A running program."""

    def __init__(
        self,
        program: Program,
        number: int,
        on_line: Callable[[int, bytes], None],
        on_end: Callable[["_Running"], None],
    ):
        self._number, self._on_line, self._on_end = number, on_line, on_end
        self._lines: list[bytes] = []
        self._errors = b""
        self._was_killed = False
        reading, self._writing = os.pipe()
        self._reader = threading.Thread(target=self._read_along, args=(reading,), daemon=True)
        self._reader.start()
        try:
            self.process = subprocess.Popen(
                program.argv,
                stdin=subprocess.PIPE,
                stdout=self._writing,
                stderr=subprocess.PIPE,
            )
        except BaseException:
            os.close(self._writing)
            raise
        self._waiter = threading.Thread(target=self._wait, args=(program.stdin,), daemon=True)
        self._waiter.start()

    def kill(self) -> None:
        """Kill it if it is still running."""
        if self.process.poll() is None:
            self._was_killed = True
            kill(self.process)

    def done(self) -> Ended:
        """Wait for its end and return its result."""
        self.process.wait()
        self._waiter.join(_LAST_WORDS_S)
        printed = b"".join(self._lines)
        ended = Ended(self.process.args, self.process.returncode, printed, self._errors)
        ended.was_killed = self._was_killed
        return ended

    def _read_along(self, reading: int) -> None:
        use_realtime_scheduling()  # or this thread may be a second late under the load
        with os.fdopen(reading, "rb") as stream:
            for line in stream:
                self._lines.append(line)
                self._on_line(self._number, line)

    def _wait(self, stdin: bytes) -> None:
        _, self._errors = self.process.communicate(stdin)
        os.close(self._writing)
        self._reader.join(_LAST_WORDS_S)
        self._on_end(self)


def _kill(running: Sequence[_Running]) -> None:
    for one in running:
        one.kill()
