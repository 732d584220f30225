"""End a stage early, as soon as the seconds that its processes have printed suffice."""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from benchlab.agent.system import use_normal_scheduling


class Until:
    """Reads the output of a stage's processes as it comes, and stops them once that is enough."""

    def __init__(
        self,
        processes: int,
        second_of: Callable[[str], tuple[int, float] | None],
        enough: Callable[[Sequence[float]], bool],
        stop: Callable[[], None],
    ):
        """Start with nothing read.

        Args:
            processes: number of processes, which are numbered from 0.
            second_of: see :meth:`benchlab.drivers.base.Driver.second_of`.
            enough: decides whether the seconds suffice, from the throughput of all processes in each.
                It is called in a thread of its own with normal scheduling, since it computes: not once
                for each second if it takes longer than a second.
            stop: called once, in the same thread, when they suffice.
        """
        self._processes, self._second_of = processes, second_of
        self._enough, self._stop = enough, stop
        self._seconds: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._tps: list[float] = []
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._is_deciding = False
        self._is_cancelled = False
        self._decided: Future[None] | None = None

    def line(self, number: int, line: str) -> None:
        """Take a line that a process printed."""
        if (found := self._second_of(line)) is None:
            return
        second, tps = found
        with self._lock:
            if self._is_cancelled:
                return
            reported = self._seconds[second]
            reported[number] = tps
            if len(reported) < self._processes:
                return
            self._tps.append(sum(reported.values()))
            if not self._is_deciding:
                self._is_deciding = True
                self._decided = self._thread.submit(self._decide)

    def cancel(self) -> None:
        """Do not call ``stop`` from now on, whatever is still printed."""
        with self._lock:
            self._is_cancelled = True
        self._thread.shutdown(wait=False)

    def finish(self) -> None:
        """Wait until ``stop`` has returned, if it was called, and raise its error, if any."""
        if self._decided:
            self._decided.result()

    def _decide(self) -> None:
        use_normal_scheduling()  # not that of the thread that reads lines and started this one
        decided = 0
        while True:
            with self._lock:
                tps = tuple(self._tps)
                if len(tps) == decided:
                    self._is_deciding = False
                    return
            decided = len(tps)
            if self._enough(tps):
                if not self._is_cancelled:
                    self._stop()
                return  # still deciding, so that ``stop`` is called once
