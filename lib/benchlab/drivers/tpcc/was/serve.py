"""The application server as a process: its socket, its event loop, its end."""

import asyncio
import logging
import os
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
import uvloop
from starlette.routing import Router

from benchlab.drivers.tpcc.was import NOT_DONE
from benchlab.drivers.tpcc.was.app import router
from benchlab.drivers.tpcc.was.delivery import Deliveries
from benchlab.drivers.tpcc.was.execute import Admission, Executor, Runs
from benchlab.drivers.tpcc.was.metrics import Metrics
from benchlab.drivers.tpcc.was.null import NULL, NullDatabase, NullTransactions
from benchlab.drivers.tpcc.was.pool import Address, Database, database
from benchlab.drivers.tpcc.was.service import Service
from benchlab.errors import BenchlabError
from benchlab.workloads.tpcc.transactions import Options as StatementOptions
from benchlab.workloads.tpcc.transactions import transactions_of

#: A terminal sends nothing in its keying and think time, at most 18 s + 10 · 12 s (clause 5.2.5).
_KEEP_ALIVE_S = 600

#: Terminals may all connect at once.
_BACKLOG = 4096

#: Longest time for answers in progress when the server ends.
_ANSWERS_S = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """How an application server is started."""

    host: str
    port: int
    """0: any free port."""
    engine: str
    """Name of the engine, as in studies, or :data:`NULL`."""
    form: str
    """Form of the transactions; empty without a database."""
    statements: StatementOptions
    """Options of the form ``statements``."""
    isolation: str
    pool: int
    """Transactions that run at a time."""
    queue: int
    """Transactions that wait at a time."""
    repeats: int
    delivery_workers: int
    """Deliveries that are executed at a time, among the transactions that run."""
    delivery_results: Path
    drain_s: float
    until_left: bool = False
    """Whether it ends when all clients have left, after a first request."""

    @property
    def shown(self) -> str:
        """Name of what answers, as the screens show it."""
        return "no database" if self.engine == NULL else f"{self.engine}, {self.form}"


def serve(options: Options, address: Address | None) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        options: see :class:`Options`.
        address: address of the database; ``None`` if there is none.

    Raises:
        BenchlabError: the port is taken, the database does not answer, or the result file cannot be
            written.
    """
    _allow_many_sockets()
    with (
        _bound(options) as bound,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(options, address, bound))


def _allow_many_sockets() -> None:
    """Raise the limit of open files to its maximum: each terminal needs a socket."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _bound(options: Options) -> socket.socket:
    """Return a socket that does not listen yet: terminals begin as soon as it does."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((options.host, options.port))
    except OSError as error:
        bound.close()
        said = os.strerror(error.errno) if error.errno > 0 else error.strerror
        raise BenchlabError(f"cannot listen on {options.host}:{options.port}: {said}") from error
    return bound


class _Server(uvicorn.Server):
    """Says when it listens, and ends on a signal with exit code 0, not by that signal."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], until_left: bool
    ) -> None:
        super().__init__(config)
        self._on_ready, self._until_left = on_ready, until_left

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        state = self.server_state
        if self._until_left and state.total_requests and not state.connections:
            self.end()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)
        yield

    def end(self) -> None:
        """Let it end, after the answers in progress."""
        self.should_exit = True


async def _serve(options: Options, address: Address | None, bound: socket.socket) -> None:
    host, port = bound.getsockname()

    def say_ready() -> None:
        print(f"ready {time.time():.6f} http://{host}:{port}", flush=True)

    async with application(options, *_of_engine(options, address)) as app:
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_ANSWERS_S,
        )
        await _Server(config, say_ready, options.until_left).serve([bound])


@asynccontextmanager
async def application(
    options: Options, connections: Database, transactions: Runs
) -> AsyncIterator[Router]:
    """Hold the application, with its open pool and its deliveries.

    Args:
        options: see :class:`Options`.
        connections: pool, not yet open.
        transactions: transactions that run on the connections.

    Raises:
        BenchlabError: the database does not answer, or the result file cannot be written.
    """
    metrics = Metrics(options.engine)
    await connections.open()
    try:
        admission = Admission(options.pool, options.queue, metrics)
        executor = Executor(connections, transactions, admission, options.repeats, metrics)

        async with Deliveries(
            partial(executor.run, refusable=False),
            options.delivery_results,
            options.delivery_workers,
            options.drain_s,
            metrics,
        ) as deliveries:
            service = Service(executor, deliveries, metrics)
            yield router(service, options.shown, options.engine != NULL)
        if deliveries.not_done:
            _log.warning("%s%d of %d transactions", NOT_DONE, deliveries.not_done, executor.ended)
    finally:
        await connections.close()


def _of_engine(options: Options, address: Address | None) -> tuple[Database, Runs]:
    """Return the pool, not yet open, and the transactions."""
    if address is None:
        return NullDatabase(), NullTransactions()
    transactions = transactions_of(options.engine, options.form, options.statements)
    return database(options.engine, address, options.pool, options.isolation), transactions
