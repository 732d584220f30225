"""The remote terminal emulator (clause 6.4): ``python -m benchlab.drivers.tpcc.rte --help``.

One process drives the terminals of some warehouses, on one core. Several processes share the
warehouses of a database, because the open files of a process and the ports of an address are limited.
A process prints these lines to standard output, each at once::

    deviation: <text>
    connected <unix seconds>
    begun <unix second>
    <unix second> new_order=<n> all=<n> rolled_back=<n> refused=<n> errors=<n> lost=<n> late_p99_ms=<ms>
    emulator-bound: <text>
    {"begun": <unix second>, …}

``deviation``
    One line for each way in which the load differs from TPC-C's, before all other lines.
``connected``
    All terminals are connected. From here on they act as in the measured part.
``begun``
    The ramp-up is over. Seconds are counted from here.
``<unix second>``
    What ended from that second of the Unix clock to the next. ``all`` counts the transactions that
    ended well, ``new_order`` those of them that tpmC counts. Both include ``rolled_back``, the
    transactions that rolled back on purpose. ``late_p99_ms`` is how late the emulator itself was: the
    99th percentile over all requests that it sent.
``emulator-bound``
    The lateness since ``begun`` was 10 ms or more: the load was not what it should have been.
``{``
    The totals (:class:`Totals`), last of all, when the records are written.

After the duration, or on SIGTERM or SIGINT, terminals send nothing more. The process waits for the
answers to what they have sent, 20 s at most (a second signal ends that, too). What has not been
answered then counts as lost. The process writes the records of all transactions since its start, and
exits with code 0. An error is one line on standard error, and exit code 1.
"""

import argparse
import asyncio
import gc
import math
import re
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from benchlab.drivers.tpcc import limits, mix
from benchlab.drivers.tpcc.arguments import whole
from benchlab.drivers.tpcc.http import Connection, Messages, Server
from benchlab.drivers.tpcc.inputs import Draws, Inputs
from benchlab.drivers.tpcc.tally import Tally
from benchlab.drivers.tpcc.terminals import (
    SETTLING_S,
    Pacing,
    Shared,
    Terminal,
    unix_clock,
)
from benchlab.drivers.tpcc.timers import Timers
from benchlab.errors import BenchlabError, RunFailed
from benchlab.workloads.tpcc.rules import C_ID_A, C_LAST_A, OL_I_ID_A, Constants

#: Longest wait for the last answers.
_LAST_ANSWERS_S = max(limits.RESPONSE.values())
_CHECK_S = 0.05

#: Longest time that an application server takes to start. It first fills its pool, which may take a
#: minute.
_START_S = 75

#: Connections that are opened at the same time.
_CONNECTING = 100

#: Open files in addition to connections.
_OTHER_FILES = 64


class Options(msgspec.Struct, frozen=True):
    """What a process is to do; see :func:`parser`."""

    was: str
    warehouses: tuple[int, int]
    of_warehouses: int
    constants: Constants
    pacing: float
    mix: str
    ramp_up_s: float
    duration_s: int
    seed: int
    records: Path
    terminals: int

    @property
    def numbers(self) -> list[int]:
        """Numbers of the terminals.

        With fewer than ten terminals a warehouse, warehouses differ by one terminal at most.
        """
        first, last = self.warehouses
        homes = range(first - 1, last)
        places = range(limits.TERMINALS)
        numbers = [home * limits.TERMINALS + place for place in places for home in homes]
        return numbers[: self.terminals]

    @property
    def deviations(self) -> list[str]:
        """The ways in which the load differs from TPC-C's."""
        found = []
        if self.pacing != 1:
            found.append(f"not TPC-C pacing: keying and think times × {self.pacing:g}")
        first, last = self.warehouses
        if self.terminals != (whole := (last - first + 1) * limits.TERMINALS):
            found.append(
                f"{self.terminals} terminals, not {limits.TERMINALS} a warehouse ({whole})"
            )
        return found


class Totals(msgspec.Struct, kw_only=True):
    """The last line.

    Counts cover what ended since ``begun``, as in the lines of the seconds, and the last answers that
    the process waited for.
    """

    begun: int | None
    """Unix second; null: the process was ended before."""
    seconds: float
    """Time from ``begun`` until nothing more was sent."""
    is_early: bool
    """Whether the process was ended before its duration was over."""
    warehouses: tuple[int, int]
    of_warehouses: int
    terminals: int
    pacing: float
    mix: str
    seed: int
    new_order: int
    all: int
    rolled_back: int
    refused: int
    errors: int
    lost: int
    lost_terminals: int
    """Terminals whose connection ever broke since the start of the process."""
    late_p99_ms: float
    is_emulator_bound: bool
    deviations: list[str]
    records: str
    """Path of the file of records."""
    rows: int
    """Number of records since the start of the process."""


class Emulator:
    """The terminals of one process. It must be created within the event loop that they run in."""

    def __init__(self, options: Options, address: tuple[str, int]):
        self._options = options
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._now = unix_clock()
        self._shared = Shared(
            draws=Draws(options.seed),
            inputs=Inputs(options.constants, options.of_warehouses),
            pacing=Pacing(options.pacing),
            messages=Messages(Server.at(options.was)),
            timers=Timers(self._loop, self._now),
            now=self._now,
            connect=self._reconnect,
        )
        mix_of = mix.of_terminals(options.mix)
        self._terminals = [Terminal(self._shared, one, mix_of()) for one in options.numbers]
        self._reconnecting: set[asyncio.Task[None]] = set()
        self._total = Tally()
        self._begun: int | None = None

    async def run(self) -> Totals:
        """Drive the terminals until the duration is over or the task is cancelled, and write records.

        Raises:
            RunFailed: not all terminals could be connected.
        """
        is_early = False
        try:
            await self._ramp_up()
            await self._count()
        except asyncio.CancelledError:
            is_early = True
        ended_us = self._now()
        self._shared.timers.end()
        try:
            await self._last_answers()
        except asyncio.CancelledError:
            is_early = True
        for terminal in self._terminals:
            terminal.end()
        return self._totals(ended_us, is_early)

    async def _ramp_up(self) -> None:
        begin = self._loop.time()
        ramp_up_s, count = self._options.ramp_up_s, len(self._terminals)
        connecting_s = max(ramp_up_s / 2, ramp_up_s - SETTLING_S * self._options.pacing)
        free = asyncio.Semaphore(_CONNECTING)

        async def connect(terminal: Terminal) -> None:
            try:
                await self._connect(terminal)
            except OSError as error:
                raise RunFailed(
                    f"a terminal cannot connect to {self._options.was}: {error}"
                ) from error
            finally:
                free.release()

        try:
            async with asyncio.TaskGroup() as connecting:
                for number, terminal in enumerate(self._terminals):
                    await self._until(begin + number * connecting_s / count)
                    await free.acquire()
                    connecting.create_task(connect(terminal))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        _print(f"connected {self._now() / 1e6:.3f}")
        await self._until(begin + ramp_up_s)
        # objects that exist by now stay; if the collector went through them, terminals would be late
        gc.collect()
        gc.freeze()

    async def _connect(self, terminal: Terminal) -> None:
        host, port = self._address
        await self._loop.create_connection(lambda: Connection(terminal), host, port)

    def _reconnect(self, terminal: Terminal) -> None:
        async def connect() -> None:
            try:
                await self._connect(terminal)
            except OSError:
                terminal.unreachable()

        task = self._loop.create_task(connect())
        self._reconnecting.add(task)
        task.add_done_callback(self._reconnecting.discard)

    async def _until(self, time: float) -> None:
        await asyncio.sleep(time - self._loop.time())

    async def _count(self) -> None:
        """Print what was done in each second of the duration."""
        begun = math.ceil(self._now() / 1e6)
        await self._until_second(begun)
        self._shared.tally = Tally()
        self._begun = begun
        _print(f"begun {begun}")
        for second in range(begun, begun + self._options.duration_s):
            await self._until_second(second + 1)
            done, self._shared.tally = self._shared.tally, Tally()
            self._total.add(done)
            _print(done.line(second))

    async def _until_second(self, second: int) -> None:
        # a timer may be early by a part of a millisecond
        while (left_us := second * 1_000_000 - self._now()) > 0:
            await asyncio.sleep(left_us / 1e6)

    async def _last_answers(self) -> None:
        until = self._loop.time() + _LAST_ANSWERS_S
        while any(one.is_waiting for one in self._terminals) and self._loop.time() < until:
            await asyncio.sleep(_CHECK_S)

    def _totals(self, ended_us: int, is_early: bool) -> Totals:
        options = self._options
        first, last = options.warehouses
        path = options.records / f"terminals-{first:06}-{last:06}.parquet"
        self._shared.log.write(path)
        begun = self._begun
        if begun is not None:
            self._total.add(self._shared.tally)
        late_ms = self._total.late_p99_ms()
        return Totals(
            begun=begun,
            seconds=0 if begun is None else round(ended_us / 1e6 - begun, 3),
            is_early=is_early,
            warehouses=options.warehouses,
            of_warehouses=options.of_warehouses,
            terminals=options.terminals,
            pacing=options.pacing,
            mix=options.mix,
            seed=options.seed,
            **self._total.counts(),
            lost_terminals=sum(one.was_lost for one in self._terminals),
            late_p99_ms=late_ms,
            is_emulator_bound=late_ms >= limits.LATE,
            deviations=options.deviations,
            records=str(path),
            rows=len(self._shared.log),
        )


async def run(options: Options) -> Totals:
    """Drive the terminals of a process, as :mod:`this module <benchlab.drivers.tpcc.rte>` says.

    Raises:
        RunFailed: the application server cannot be reached; the task is cancelled before it listens;
            or there are not enough open files.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    bugs: list[BaseException] = []

    def fail(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, OSError):  # its terminal learns of it, too
            return
        # a terminal that stops because of a bug would be missing from the load
        bugs.append(error)
        task.cancel()

    loop.set_exception_handler(fail)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, task.cancel)
    _allow_files(options.terminals + _OTHER_FILES)
    options.records.mkdir(parents=True, exist_ok=True)
    address = await Server.at(options.was).address()
    try:
        await _listening(address)
    except asyncio.CancelledError:
        raise RunFailed("ended before the application server listened") from None
    totals = await Emulator(options, address).run()
    if bugs:
        raise bugs[0]
    return totals


async def _listening(address: tuple[str, int]) -> None:
    """Wait until the application server listens; it may have been started at the same time.

    Raises:
        RunFailed: it does not listen within :data:`_START_S`.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _START_S
    while True:
        try:
            transport, _ = await loop.create_connection(asyncio.Protocol, *address)
        except OSError as error:
            if loop.time() > until:
                host, port = address
                raise RunFailed(f"nothing listens on {host}:{port}: {error.strerror}") from error
        else:
            return transport.close()
        await asyncio.sleep(_CHECK_S)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchlab.drivers.tpcc.rte",
        description="Drive TPC-C's terminals of some warehouses through an application server.",
    )
    add = made.add_argument
    add("--was", required=True, metavar="URL", help="application server, http://host:port")
    add(
        "--warehouses",
        required=True,
        type=_range,
        metavar="FIRST-LAST",
        help="warehouses whose terminals this process drives",
    )
    add(
        "--of-warehouses",
        required=True,
        type=whole(1),
        metavar="N",
        help="warehouses of the whole database",
    )
    constants = {"c-last": C_LAST_A, "c-id": C_ID_A, "ol-i-id": OL_I_ID_A}
    for name, most in constants.items():
        add(
            f"--{name}",
            required=True,
            type=whole(0, most),
            metavar="C",
            help=f"C-Run of NURand for {name.upper().replace('-', '_')}, 0 to {most}",
        )
    add(
        "--pacing",
        type=_factor,
        default=1.0,
        metavar="F",
        help="factor of keying and think times; 0: none (default: %(default)s, TPC-C's)",
    )
    add("--mix", choices=mix.WAYS, default="weights", help="(default: %(default)s)")
    add(
        "--ramp-up-s",
        type=_factor,
        default=60.0,
        metavar="S",
        help="length of the ramp-up: terminals connect, then the rate of answers settles; that takes"
        " 18.2 s times the pacing, half of the ramp-up at most (default: %(default)s)",
    )
    add(
        "--duration-s",
        required=True,
        type=whole(1),
        metavar="S",
        help="seconds that are counted, after the ramp-up",
    )
    add("--seed", type=whole(0), default=1, metavar="N", help="(default: %(default)s)")
    add(
        "--records",
        required=True,
        type=Path,
        metavar="DIR",
        help="where to write the records of all transactions",
    )
    add(
        "--terminals",
        type=whole(1),
        metavar="N",
        help="number of terminals of this process (default: ten a warehouse)",
    )
    return made


def options_of(argv: list[str] | None = None) -> Options:
    """Read the command line; end the program if it is not valid."""
    made = parser()
    read = made.parse_args(argv)
    first, last = read.warehouses
    if last > read.of_warehouses:
        made.error(f"--warehouses: {last} is not within the {read.of_warehouses} of the database")
    most = (last - first + 1) * limits.TERMINALS
    if (read.terminals or 1) > most:
        made.error(f"--terminals: {read.terminals} are more than ten a warehouse, {most}")
    return Options(
        was=read.was,
        warehouses=read.warehouses,
        of_warehouses=read.of_warehouses,
        constants=Constants(read.c_last, read.c_id, read.ol_i_id),
        pacing=read.pacing,
        mix=read.mix,
        ramp_up_s=read.ramp_up_s,
        duration_s=read.duration_s,
        seed=read.seed,
        records=read.records,
        terminals=read.terminals or most,
    )


def main() -> None:
    """Run the program."""
    options = options_of()
    for deviation in options.deviations:
        _print(f"deviation: {deviation}")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            totals = runner.run(run(options))
    except BenchlabError as error:
        sys.exit(str(error))
    if totals.is_emulator_bound:
        _print(
            f"emulator-bound: late by {totals.late_p99_ms:.1f} ms in the 99th percentile, not by less"
            f" than {limits.LATE} ms: share the warehouses out among more processes or cores"
        )
    _print(msgspec.json.encode(totals).decode())


def _allow_files(count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and count > most:
        raise RunFailed(
            f"{count} open files are needed, the limit (ulimit -Hn) is {most}: share the warehouses out"
            " among several processes"
        )
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), most))


def _print(line: str) -> None:
    print(line, flush=True)


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)-(\d+)", text)
    first, last = map(int, found.groups()) if found else (0, 0)
    if not 1 <= first <= last:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST-LAST with 1 <= FIRST <= LAST")
    return first, last


def _factor(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return value


if __name__ == "__main__":
    main()
