"""Times at which terminals are to wake."""

import asyncio
import heapq
import math
from collections.abc import Callable
from itertools import count
from typing import Protocol


class Sleeper(Protocol):
    """Whoever is woken."""

    def wake(self) -> None:
        """Go on."""


class Timers:
    """One heap for all sleepers, and one timer of the event loop, set to the next of them.

    The loop's own timers count whole milliseconds. They are set to the next one, so nobody is woken
    early, and those who are due within one are woken together.

    Args:
        loop: that wakes.
        now: clock, in microseconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], int]):
        self._loop = loop
        self._now = now
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._order = count()  # of those with one time
        self._set_to = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    def at(self, time_us: int, sleeper: Sleeper) -> None:
        """Wake somebody at a time, at once if it has passed."""
        heapq.heappush(self._heap, (time_us, next(self._order), sleeper))
        if time_us < self._set_to:
            self._set()

    def end(self) -> None:
        """Wake nobody any more."""
        self._has_ended = True
        self._heap.clear()

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._set_to = self._heap[0][0]
        delay_ms = max(0, math.ceil((self._set_to - self._now()) / 1000))
        self._timer = self._loop.call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        if self._has_ended:
            return
        self._timer = None
        # those who go to sleep meanwhile do not set it for each of them
        self._set_to = -math.inf
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2].wake()
        self._set_to = math.inf
        if self._heap:
            self._set()
