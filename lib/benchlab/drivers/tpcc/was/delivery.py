"""Deferred deliveries (clause 2.7.2): queued and answered at once, executed later, logged in a file."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

import msgspec

from benchlab.drivers.tpcc.was.execute import Done, TransactionFailed
from benchlab.drivers.tpcc.was.metrics import Metrics
from benchlab.errors import BenchlabError
from benchlab.workloads.tpcc.dataset import DISTRICTS
from benchlab.workloads.tpcc.transactions.contract import Delivery

_log = logging.getLogger(__name__)

#: Executes a delivery.
Execute = Callable[[Delivery], Awaitable[Done]]


class Result(msgspec.Struct, frozen=True):
    """A line of the result file (clause 2.7.2.2). Times are Unix microseconds."""

    queued_us: int
    completed_us: int
    w_id: int
    o_carrier_id: int
    delivered: dict[int, int] = {}
    """District → number of the order that was delivered there."""
    skipped: list[int] = []
    """Districts without an open order."""
    retries: int = 0
    error: str | None = None
    """Why nothing was delivered; then ``delivered`` and ``skipped`` are empty."""


class Deliveries:
    """The queue of deliveries, the tasks that execute them, and the file of their results.

    The queue has no limit, since a delivery that was acknowledged must be executed. It grows if there
    are fewer workers than deliveries that are executed or wait for a connection at a time.
    """

    def __init__(
        self, execute: Execute, results: Path, workers: int, drain_s: float, metrics: Metrics
    ) -> None:
        """Set up the queue.

        Args:
            execute: function that executes a delivery.
            results: result file; lines are added to an existing file.
            workers: number of deliveries that are executed at a time.
            drain_s: seconds for which the queue is worked on at the end, before the rest is given up.
            metrics: metrics in which deliveries are counted.
        """
        self._execute, self._path, self._workers = execute, results, workers
        self._drain_s, self._metrics = drain_s, metrics
        self._queue: asyncio.Queue[tuple[Delivery, int]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        #: Number of deliveries that failed or were given up at the end.
        self.not_done = 0

    async def __aenter__(self) -> Self:
        """Start to execute deliveries.

        Raises:
            BenchlabError: the result file cannot be written.
        """
        try:
            # unbuffered appends: a line stays whole if the process is killed
            self._file = self._path.open("ab", buffering=0)
        except OSError as error:
            raise BenchlabError(f"delivery results {self._path}: {error.strerror}") from error
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        return self

    def put(self, request: Delivery) -> None:
        """Queue a delivery."""
        self._queue.put_nowait((request, _now_us()))
        self._metrics.deliveries_queued.inc()

    async def __aexit__(self, *_: object) -> None:
        """Execute queued deliveries for a while, then write the rest as not executed."""
        try:
            async with asyncio.timeout(self._drain_s):
                await self._queue.join()
        except TimeoutError:
            _log.warning("%d deliveries were not begun", self._queue.qsize())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while not self._queue.empty():
            request, queued_us = self._take(self._queue.get_nowait())
            self._write(request, queued_us, "not executed: the application server has ended")
        self._file.close()

    async def _work(self) -> None:
        while True:
            request, queued_us = self._take(await self._queue.get())
            await self._deliver(request, queued_us)
            self._queue.task_done()

    def _take(self, queued: tuple[Delivery, int]) -> tuple[Delivery, int]:
        self._metrics.deliveries_queued.dec()
        return queued

    async def _deliver(self, request: Delivery, queued_us: int) -> None:
        try:
            done = await self._execute(request)
        except TransactionFailed as error:
            self._write(request, queued_us, str(error))
        except asyncio.CancelledError:
            self._write(request, queued_us, "broken off: the application server has ended")
            raise
        else:
            self._write(request, queued_us, done)

    def _write(self, request: Delivery, queued_us: int, outcome: Done | str) -> None:
        """Add the line of a delivery: what was done, or why nothing was done."""
        completed_us = _now_us()
        orders, retries, error = {}, 0, None
        if isinstance(outcome, Done):
            orders, retries = outcome.answer.orders, outcome.retries
            self._metrics.delivery.observe((completed_us - queued_us) / 1e6)
        else:
            error = outcome
            self.not_done += 1
        districts = range(1, DISTRICTS + 1) if error is None else ()
        result = Result(
            queued_us=queued_us,
            completed_us=completed_us,
            w_id=request.w_id,
            o_carrier_id=request.o_carrier_id,
            delivered=orders,
            skipped=[number for number in districts if number not in orders],
            retries=retries,
            error=error,
        )
        try:
            self._file.write(msgspec.json.encode(result) + b"\n")
        except OSError as failed:  # such as a full disk; the server must go on
            _log.error("delivery results %s: %s", self._path, failed.strerror)


def _now_us() -> int:
    return time.time_ns() // 1000
