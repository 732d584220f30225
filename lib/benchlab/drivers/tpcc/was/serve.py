"""Sockets and processes of the application server.

A single process serves on its own event loop. Several processes share the port: the kernel spreads
connections over their sockets (SO_REUSEPORT), and each process has its part of the pool and of the
queue. If one of them ends, all end.
"""

import asyncio
import logging
import multiprocessing
import os
import resource
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import uvicorn
import uvloop
from starlette.routing import Router

from benchlab.drivers.tpcc.was.app import router
from benchlab.drivers.tpcc.was.delivery import Deliveries
from benchlab.drivers.tpcc.was.execute import Admission, Executor, Runs
from benchlab.drivers.tpcc.was.metrics import SHARED, Metrics
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


#: Format of the lines on standard error.
LOG_FORMAT = "%(asctime)s %(message)s"


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
    workers: int
    """Processes, which share ``pool``, ``queue`` and ``delivery_workers``."""
    until_left: bool = False
    """Whether it ends when all clients have left, after a first request."""

    @property
    def shown(self) -> str:
        """Name of what answers, as the screens show it."""
        return "no database" if self.engine == NULL else f"{self.engine}, {self.form}"

    def part(self, number: int) -> "Options":
        """Return the options of one of the processes, with its part of the shared numbers."""

        def share(total: int) -> int:
            return total // self.workers + (number < total % self.workers)

        return replace(
            self,
            pool=share(self.pool),
            queue=share(self.queue),
            delivery_workers=max(1, share(self.delivery_workers)),
            workers=1,
        )


def serve(options: Options, address: Address | None) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        options: see :class:`Options`.
        address: address of the database; ``None`` if there is none.

    Raises:
        BenchlabError: the port is taken, the database does not answer, the result file cannot be
            written, or one of several processes has ended unexpectedly.
    """
    _allow_many_sockets()
    with ExitStack() as held:
        sockets = [held.enter_context(one) for one in _listen(options)]
        host, port = sockets[0].getsockname()

        def say_ready() -> None:
            print(f"ready {time.time():.6f} http://{host}:{port}", flush=True)

        if options.workers == 1:
            _serve_here(options, address, sockets[0], say_ready)
        else:
            _supervise(options, address, sockets, say_ready)


def _allow_many_sockets() -> None:
    """Raise the limit of open files to its maximum: each terminal needs a socket."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _listen(options: Options) -> list[socket.socket]:
    """Return a socket for each process; connections wait until they are served."""
    place = (options.host, options.port)
    try:
        one = socket.create_server(place, backlog=_BACKLOG)
        if options.workers == 1:
            return [one]
        # this fails if another server has the port; with reuse_port on both sides it might not
        place = one.getsockname()
        one.close()
        return [
            socket.create_server(place, backlog=_BACKLOG, reuse_port=True)
            for _ in range(options.workers)
        ]
    except OSError as error:
        said = os.strerror(error.errno) if error.errno > 0 else error.strerror
        raise BenchlabError(f"cannot listen on {options.host}:{options.port}: {said}") from error


# One process


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


def _serve_here(
    options: Options,
    address: Address | None,
    listening: socket.socket,
    on_ready: Callable[[], None],
) -> None:
    """Serve in this process. Raises BenchlabError as :func:`serve` does."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options, address, listening, on_ready))


async def _serve(
    options: Options,
    address: Address | None,
    listening: socket.socket,
    on_ready: Callable[[], None],
) -> None:
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
        server = _Server(config, on_ready, options.until_left)
        if parent := multiprocessing.parent_process():
            _end_with(parent.sentinel, server)
        await server.serve([listening])


def _end_with(sentinel: int, server: _Server) -> None:
    """Let a server end when its parent process ends; a killed parent cannot send a signal."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(sentinel)
        server.end()

    loop.add_reader(sentinel, end)


@asynccontextmanager
async def application(
    options: Options, connections: Database, transactions: Runs
) -> AsyncIterator[Router]:
    """Hold the application, with its open pool and its deliveries.

    Args:
        options: options of one process.
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
    finally:
        await connections.close()


def _of_engine(options: Options, address: Address | None) -> tuple[Database, Runs]:
    """Return the pool, not yet open, and the transactions."""
    if address is None:
        return NullDatabase(), NullTransactions()
    transactions = transactions_of(options.engine, options.form, options.statements)
    return database(options.engine, address, options.pool, options.isolation), transactions


# Several processes


def _supervise(
    options: Options,
    address: Address | None,
    sockets: list[socket.socket],
    on_ready: Callable[[], None],
) -> None:
    """Serve in several processes. Raises BenchlabError as :func:`serve` does."""
    spawn = multiprocessing.get_context("spawn")  # without this process's loops and counters
    processes: list[SpawnProcess] = []
    pipes: list[Pipe] = []
    asked = _end_on_signal(processes)
    with tempfile.TemporaryDirectory(prefix="tpcc-was-") as shared:
        os.environ[SHARED] = shared
        try:
            for number, one in enumerate(sockets):
                receiver, sender = spawn.Pipe(duplex=False)
                arguments = (options.part(number), address, one, sender)
                processes.append(spawn.Process(target=_worker, args=arguments))
                processes[-1].start()
                pipes.append(receiver)
                # only the child keeps these open, so that this process notices its end
                sender.close()
                one.close()
            for pipe in pipes:
                _wait_ready(pipe, asked)
            if not asked:
                on_ready()
            wait([process.sentinel for process in processes])
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()
    if not asked:
        codes = ", ".join(str(process.exitcode) for process in processes)
        raise BenchlabError(f"a process of the server has ended by itself; exit codes: {codes}")


def _end_on_signal(processes: list[SpawnProcess]) -> list[int]:
    """End the processes on SIGTERM or SIGINT; return a list that then holds the signal's number."""
    asked: list[int] = []

    def end(number: int, _: object) -> None:
        asked.append(number)
        for process in processes:
            process.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return asked


def _wait_ready(pipe: Pipe, asked: list[int]) -> None:
    """Wait until a process serves. Raises BenchlabError with its reason if it cannot."""
    try:
        reason = pipe.recv()
    except EOFError:
        reason = "it has ended"
    if reason and not asked:
        raise BenchlabError(reason)


def _worker(
    options: Options, address: Address | None, listening: socket.socket, ready: Pipe
) -> None:
    """Serve as one of several processes; report to the parent when it is ready, or why it cannot."""
    logging.basicConfig(format=LOG_FORMAT)
    try:
        _serve_here(options, address, listening, lambda: ready.send(None))
    except BenchlabError as error:
        ready.send(str(error))
