"""Admission, execution and repetition of transactions in the application server."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Protocol

import msgspec
import psycopg
import pymysql

from benchlab.drivers.tpcc.was.metrics import Metrics
from benchlab.drivers.tpcc.was.pool import Connection, Database
from benchlab.errors import BenchlabError
from benchlab.workloads.tpcc.transactions import RepeatTransaction
from benchlab.workloads.tpcc.transactions.contract import Answer, OrderTaken, Request

#: Errors that need no traceback: those of the database, of its connections, and of benchlab.
_EXPECTED = (psycopg.Error, pymysql.MySQLError, OSError, TimeoutError, BenchlabError)

#: Most different errors that are logged, each once: a lost database gives thousands of errors.
_LOGGED = 20

#: Limit of the random pause before the first repetition, which doubles with each repetition, and its
#: greatest value.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1

_log = logging.getLogger(__name__)


class Refused(BenchlabError):
    """A transaction that is refused because too many wait."""


class TransactionFailed(BenchlabError):
    """A transaction that failed and changed nothing; the message is the database's."""


class Runs(Protocol):
    """Something that runs transactions on a connection.

    See :class:`~benchlab.workloads.tpcc.transactions.Transactions`.
    """

    async def run(self, connection: Connection, request: Request) -> Answer:
        """Run the transaction of a request."""


class Done(msgspec.Struct, frozen=True):
    """A transaction that is done. It is also the answer of the API."""

    answer: Answer | None
    """``None``: a delivery that is only queued so far."""
    retries: int = 0


class Admission:
    """Limits how many transactions run and how many wait; they wait in the order of arrival."""

    def __init__(self, running: int, waiting: int, metrics: Metrics) -> None:
        self._running = asyncio.Semaphore(running)
        self._limit, self._waiting, self._metrics = waiting, 0, metrics

    @asynccontextmanager
    async def admitted(self, *, refusable: bool) -> AsyncIterator[None]:
        """Hold one place among the transactions that run.

        Args:
            refusable: whether the transaction is refused if too many wait. Transactions that are not
                refusable do not count among those that wait.

        Raises:
            Refused: too many transactions wait.
        """
        if not self._running.locked():
            await self._running.acquire()  # at once
            self._metrics.wait.observe(0)
        elif refusable and self._waiting >= self._limit:
            raise Refused(f"{self._waiting} transactions wait already, as many as may")
        else:
            await self._wait(refusable)
        self._metrics.running.inc()
        try:
            yield
        finally:
            self._metrics.running.dec()
            self._running.release()

    async def _wait(self, counted: bool) -> None:
        begin = perf_counter()
        self._waiting += counted
        self._metrics.waiting.inc()
        try:
            await self._running.acquire()
        finally:
            self._waiting -= counted
            self._metrics.waiting.dec()
        self._metrics.wait.observe(perf_counter() - begin)


class Executor:
    """Runs transactions on the connections of a database."""

    def __init__(
        self,
        database: Database,
        transactions: Runs,
        admission: Admission,
        repeats: int,
        metrics: Metrics,
    ) -> None:
        """Set up the executor.

        Args:
            database: pool with as many connections as ``admission`` lets transactions run.
            transactions: transactions in a form for that database.
            admission: admission that all transactions share.
            repeats: most repetitions of a transaction if the database asks for them.
            metrics: metrics in which everything is counted.
        """
        self._database, self._transactions = database, transactions
        self._admission, self._repeats, self._metrics = admission, repeats, metrics
        self._logged: set[str] = set()
        #: Number of transactions that ended, however they did.
        self.ended = 0

    async def run(self, request: Request, *, refusable: bool = True) -> Done:
        """Run a transaction to its end, and count its outcome.

        Args:
            request: request of the transaction.
            refusable: see :meth:`Admission.admitted`.

        Raises:
            Refused: too many transactions wait.
            TransactionFailed: the transaction was not done, or was repeated too often.
        """
        try:
            done = await self._repeated(request, refusable)
        except Refused:
            self._count(request, "refused")
            raise
        except Exception as error:  # any error ends this transaction and not the server
            self._count(request, "error")
            self._log(request, error)
            raise TransactionFailed(_said(error)) from error
        rolled_back = isinstance(done.answer, OrderTaken) and done.answer.rolled_back
        self._count(request, "rolled_back" if rolled_back else "ok")
        return done

    def _count(self, request: Request, outcome: str) -> None:
        self.ended += 1
        self._metrics.outcomes[request.type, outcome].inc()

    def _log(self, request: Request, error: Exception) -> None:
        said = _said(error)
        if not isinstance(error, _EXPECTED):
            _log.exception("%s failed", request.type)
        elif said not in self._logged and len(self._logged) < _LOGGED:
            self._logged.add(said)
            _log.warning("%s: %s", request.type, said)

    async def _repeated(self, request: Request, refusable: bool) -> Done:
        repeats = 0
        while True:
            try:
                # what was admitted once is not refused
                async with self._admission.admitted(refusable=refusable and not repeats):
                    return Done(await self._on_a_connection(request), repeats)
            except RepeatTransaction as error:
                if repeats == self._repeats:
                    said = f"given up after {repeats} repetitions: {error}"
                    raise TransactionFailed(said) from error
            self._metrics.repeats[request.type].inc()
            # two transactions that collided must not collide again; meanwhile others run
            await asyncio.sleep(
                random.uniform(0, min(_FIRST_PAUSE_S * 2**repeats, _LONGEST_PAUSE_S))
            )
            repeats += 1

    async def _on_a_connection(self, request: Request) -> Answer:
        connection = await self._database.acquire()
        try:
            return await self._transactions.run(connection, request)
        finally:
            if connection.closed:
                self._metrics.connections_lost.inc()
            await self._database.release(connection)


def _said(error: Exception) -> str:
    """Return the first line of an error's message; an error of MySQL includes its number."""
    said = " ".join(map(str, error.args)) if isinstance(error, pymysql.MySQLError) else str(error)
    return said.strip().partition("\n")[0] or type(error).__name__
