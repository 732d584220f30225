"""What do the observers cost the engine that they watch?"""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from benchlab import stats
from benchlab.agent.observe import REPORT
from benchlab.agent.system import use_realtime_scheduling
from benchlab.drivers.sysbench import driver as sysbench
from benchlab.drivers.sysbench import output as parse_sysbench
from benchlab.observers import OBSERVERS, log_trace
from benchlab.observers.log_trace import LogTrace
from benchlab.plan import Trial
from benchlab.run.observe import Observers
from benchlab.run.process import Program
from benchlab.run.process import run as run_programs
from benchlab.target.session import Session
from benchlab.workloads import tables_of
from table import Row

#: Clients of the load.
THREADS = 16

#: Pairs of blocks with and without observers; the first pair warms up.
ROUNDS = 1 + 24


@dataclass(frozen=True)
class Watched:
    """A set of observers, and the load that shows its cost best.

    The cost of one set of observers is lost in the noise: on a shared machine of two cores PostgreSQL's
    throughput alone differs by a tenth from second to second, and five minutes of blocks leave an
    interval of ±3 %. Sets do not wait for each other. So the throughput ratio of n sets is the ratio of
    one set to the nth power, and the interval of the nth root is narrower by n.

    Sets also see each other's processes, so one set costs rather less than is reported. With tracers it
    may cost more: the kernel's longer way into a system call, some tenths of a µs, is taken once for
    any number of tracers.
    """

    label: str
    observers: Mapping[str, Any]
    script: str
    """Script of the load. Observers cost CPU, so a CPU-bound workload shows their cost best. Tracers
    show it best under a workload that does much of what they trace."""
    sets: int
    """Number of sets that watch at once."""
    block_s: int
    head_s: int
    """``block_s``: seconds of a block; ``head_s``: seconds at its start that do not count, since
    observers start or end in them. (In a run they start before the warm-up and end after the measured
    part.) The last second does not count either: it may reach into the next block."""
    aim: str
    seconds_of: Callable[[str], int] | None = None
    """Returns how many seconds a capture covers, for observers that may be slow to start."""

    @property
    def counted_s(self) -> int:
        """Seconds of a block that count."""
        return self.block_s - self.head_s - 1

    @property
    def steady(self) -> dict[str, SimpleNamespace]:
        """The observers of all sets, without the processing of their captures after the load."""
        return {
            f"{number}-{name}": SimpleNamespace(
                COMMAND=one.COMMAND, ENVIRONMENT=one.ENVIRONMENT, STOP_SIGNAL=one.STOP_SIGNAL
            )
            for number in range(self.sets)
            for name, one in self.observers.items()
        }


ALL = Watched("all observers", OBSERVERS, "oltp_point_select", 8, 8, 3, "≥ 0.99")


def trace(session: Session) -> Watched:
    """Return the trace of an engine's log, under inserts; bpftrace takes seconds to start."""
    observer = LogTrace(session.engine_name, session.engine.log_folder)
    observers = {log_trace.NAME: observer}
    aim = "≥ 0.98: it costs 2 % at most"
    return Watched("the log traced", observers, "oltp_insert", 2, 14, 7, aim, _traced_s)


def _traced_s(capture: str) -> int:
    return capture.count('"type": "printf"')  # the trace prints the time once a second


_DRIVER_GRACE_S = 60


def measure(session: Session, trial: Trial, watched: Watched) -> Row:
    """Return throughput with one set of observers : throughput without, from blocks of one long run.

    The blocks come in pairs in random order, and each pair gives one ratio. So neither a drift of the
    machine nor the difference between two runs counts as a cost. Several sets watch at once
    (:class:`Watched` says why); the ratio of one set is the root of theirs.
    """
    point = trial.point
    session.cold(point.variant, restore=point.dataset_key)
    session.engine.prewarm(point.dataset)
    order = random.Random(1)
    blocks = [on for _ in range(ROUNDS) for on in order.sample((True, False), 2)]
    duration_s = len(blocks) * watched.block_s
    options = {**point.workload.options, **tables_of(point.dataset).options()}
    command = sysbench.run(session.engine, watched.script, options, THREADS, duration_s, trial.seed)
    begin: Future[float] = Future()

    def on_line(number: int, line: bytes) -> None:
        del number  # there is one program
        if line.rstrip() == parse_sysbench.STARTED.encode():
            begin.set_result(time.monotonic())

    with ThreadPoolExecutor(max_workers=1) as beside:
        watching = beside.submit(_watch_in_blocks, session, watched, blocks, begin)
        try:
            program = Program(session.client_argv(command), sysbench.config_file(session.engine))
            (driver,) = run_programs([program], duration_s + _DRIVER_GRACE_S, on_line)
        finally:
            begin.cancel()  # or the thread would wait for a load that never started
        if driver.returncode:
            raise SystemExit("sysbench failed: there is nothing to compare")
        watching.result()
    tps = dict(parse_sysbench.intervals(driver.stdout.decode()).select("second", "tps").iter_rows())
    what = f"throughput with {watched.label} over without (of {watched.sets} sets at once, per set)"
    return Row(what, stats.median(ratios(tps, blocks, watched)), watched.aim)


def ratios(tps: Mapping[int, float], blocks: Sequence[bool], watched: Watched) -> list[float]:
    """Return the throughput with one set of observers over that without, for each pair but the first.

    Args:
        tps: second of the load, from 1 on → throughput.
        blocks: whether observers watched, in pairs of one block with them and one without.
        watched: see :class:`Watched`.
    """
    # under this load sysbench itself may leave a second out
    means = [
        np.mean([tps[at] for at in range(first, first + watched.counted_s) if at in tps])
        for first in range(1 + watched.head_s, len(blocks) * watched.block_s, watched.block_s)
    ]
    found = []
    for first in range(2, len(blocks), 2):
        one, other = means[first : first + 2]
        ratio = one / other if blocks[first] else other / one
        found.append(ratio ** (1 / watched.sets))
    return found


def _watch_in_blocks(
    session: Session, watched: Watched, blocks: list[bool], begin: Future[float]
) -> None:
    """Have observers watch in some of the blocks, which are counted from the start of the load."""
    use_realtime_scheduling()  # or blocks would end seconds late under this load
    ended = None
    for number, observed in enumerate(blocks, start=1):
        observers = Observers(session.primary, watched.steady) if observed else None
        if ended:
            _require_watched(ended, watched)
        time.sleep(max(0.0, begin.result() + number * watched.block_s - time.monotonic()))
        if observers:
            observers.stop()
        ended = observers
    if ended:
        _require_watched(ended, watched)


class _Captures(dict[str, bytes]):
    """The captures of a block, in memory instead of a run's folder."""

    phases: ClassVar = {}

    def write(self, name: str, content: bytes, node: str) -> None:
        del node  # there is one node
        self[name] = content

    def write_json(self, name: str, content: object, node: str) -> None:
        self.write(name, json.dumps(content).encode(), node)


def _require_watched(observers: Observers, watched: Watched) -> None:
    """Fail if observers did not watch: they would seem to cost nothing."""
    captures = _Captures()
    observers.collect(captures)
    if failed := captures.get(REPORT):
        raise SystemExit(f"an observer failed: {failed.decode()}")
    for name in watched.steady:
        if not watched.seconds_of:
            continue
        covered = watched.seconds_of(captures.get(name, b"").decode())
        if covered < watched.counted_s:
            raise SystemExit(
                f"{name} watched for {covered} s of a block, of which {watched.counted_s} s count"
            )
