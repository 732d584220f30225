"""Times at which terminals are to wake."""

import asyncio
import heapq
import math
from collections.abc import Callable
from itertools import count
from typing import Protocol


class Sleeper(Protocol):
    """Something that a timer wakes."""

    def wake(self) -> None:
        """Go on."""


class Timers:
    """One heap for all sleepers, and one timer of the event loop, set to the next sleeper.

    The loop's own timers count whole milliseconds. The timer is set to the next whole millisecond. So
    no sleeper is woken early, and sleepers that are due within one millisecond are woken together.

    Args:
        loop: event loop that wakes the sleepers.
        now: clock, in microseconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], int]):
        self._loop = loop
        self._now = now
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._order = count()  # order of sleepers with the same time
        self._set_to = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    def at(self, time_us: int, sleeper: Sleeper) -> None:
        """Wake a sleeper at a time, or at once if the time has passed."""
        heapq.heappush(self._heap, (time_us, next(self._order), sleeper))
        if time_us < self._set_to:
            self._set()

    def end(self) -> None:
        """Wake no more sleepers."""
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
        # sleepers that are added meanwhile must not each set the timer
        self._set_to = -math.inf
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2].wake()
        self._set_to = math.inf
        if self._heap:
            self._set()
