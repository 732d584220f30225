"""End a stage early, as soon as the seconds that its processes have printed suffice."""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor


class Until:
    """Reads the output of a stage's processes as it comes, and stops them once that is enough."""

    def __init__(
        self,
        processes: int,
        second_of: Callable[[bytes], tuple[int, float] | None],
        enough: Callable[[Sequence[float]], bool],
        stop: Callable[[], None],
    ):
        """Start with nothing read.

        Args:
            processes: number of processes, which are numbered from 0.
            second_of: see :meth:`benchlab.drivers.base.Driver.second_of`.
            enough: decides whether the seconds suffice, from the throughput of all processes in each.
            stop: called once, in its own thread, when they suffice.
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
        """Wait until ``stop`` has returned, if it was called, and raise its error, if any."""
        if self._stopped:
            self._stopped.result()
        self._thread.shutdown()
