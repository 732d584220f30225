"""End a stage early: as soon as the seconds that its processes have printed suffice."""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor


class Until:
    """Reads along what the processes of a stage print, and stops them once that is enough."""

    def __init__(
        self,
        processes: int,
        second_of: Callable[[bytes], tuple[int, float] | None],
        enough: Callable[[Sequence[float]], bool],
        stop: Callable[[], None],
    ):
        """Begin with nothing read.

        Args:
            processes: how many there are, numbered from 0.
            second_of: see :meth:`benchlab.drivers.base.Driver.second_of`.
            enough: whether these seconds suffice, each with the throughput of all processes.
            stop: called once, in a thread of its own, when they do.
        """
        self._processes, self._second_of = processes, second_of
        self._enough, self._stop = enough, stop
        self._seconds: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._tps: list[float] = []
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._stopped: Future[None] | None = None

    def line(self, number: int, line: bytes) -> None:
        """Take a line that a process printed."""
        if (found := self._second_of(line)) is None:
            return
        second, tps = found
        with self._lock:
            reported = self._seconds[second]
            reported[number] = tps
            if len(reported) < self._processes or self._stopped:
                return
            self._tps.append(sum(reported.values()))
            if self._enough(self._tps):
                self._stopped = self._thread.submit(self._stop)

    def finish(self) -> None:
        """Wait until they have been stopped, if they were to be, and raise what went wrong in it."""
        if self._stopped:
            self._stopped.result()
        self._thread.shutdown()
