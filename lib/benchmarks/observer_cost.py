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
from benchlab.agent.system import keep_time
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

#: Pairs of blocks with and without observers, of which the first one warms up.
ROUNDS = 1 + 24


@dataclass(frozen=True)
class Watched:
    """What watches, and which load shows best what that costs.

    What one set of observers costs is lost in the noise: on a shared machine of two cores PostgreSQL's
    throughput alone differs by a tenth from second to second, and five minutes of blocks leave an
    interval of 3 % to either side. Sets do not wait for each other, so that n sets cost what one does
    to the nth power, and the interval of the nth root is narrower by n. (As they see each other's
    processes, too, a set costs rather less than is reported. Of tracers it may be more: the kernel's
    longer way into a system call, some tenths of a µs, is taken once however many trace.)
    """

    label: str
    observers: Mapping[str, Any]
    script: str
    """Observers cost CPU, so they are seen best by a workload that is bound by it; or, if they trace
    what it does, by one that does much of that."""
    sets: int
    """That watch at once."""
    block_s: int
    head_s: int
    """Seconds of a block, and those at its begin that do not count: observers start or end in them.
    (In a run they start before the warm-up and end after the measured part.) Nor does the last second,
    which may reach into the next block."""
    aim: str
    seconds_of: Callable[[str], int] | None = None
    """How many seconds a capture covers, where observers may be slow to begin."""

    @property
    def counted_s(self) -> int:
        """Seconds of a block that count."""
        return self.block_s - self.head_s - 1

    @property
    def steady(self) -> dict[str, SimpleNamespace]:
        """The observers of all sets, but for what their captures go through after the load."""
        return {
            f"{number}-{name}": SimpleNamespace(
                COMMAND=one.COMMAND, ENVIRONMENT=one.ENVIRONMENT, STOP_SIGNAL=one.STOP_SIGNAL
            )
            for number in range(self.sets)
            for name, one in self.observers.items()
        }


ALL = Watched("all observers", OBSERVERS, "oltp_point_select", 8, 8, 3, "≥ 0.99")


def trace(session: Session) -> Watched:
    """Return the trace of an engine's log, under inserts; bpftrace takes seconds to begin."""
    observer = LogTrace(session.engine_name, session.engine.log_folder)
    observers = {log_trace.NAME: observer}
    aim = "≥ 0.98: it costs 2 % at most"
    return Watched("the log traced", observers, "oltp_insert", 2, 14, 7, aim, _traced_s)


def _traced_s(capture: str) -> int:
    return capture.count('"type": "printf"')  # the time, once a second from when it has begun


_DRIVER_GRACE_S = 60


def measure(session: Session, trial: Trial, watched: Watched) -> Row:
    """Throughput under one set of observers over throughput without, from blocks of one long run.

    The blocks come in pairs of random order and each pair gives one ratio, so that neither a drift of
    the machine nor the difference between two runs counts as a cost. It is that of several sets at
    once (:class:`Watched` says why); one set's is its root.
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
        del number  # of one
        if line.rstrip() == parse_sysbench.STARTED:
            begin.set_result(time.monotonic())

    with ThreadPoolExecutor(max_workers=1) as beside:
        watching = beside.submit(_watch_in_blocks, session, watched, blocks, begin)
        try:
            program = Program(session.client_argv(command), sysbench.config_file(session.engine))
            (driver,) = run_programs([program], duration_s + _DRIVER_GRACE_S, on_line)
        finally:
            begin.cancel()  # or a load that never began would be waited for
        if driver.returncode:
            raise SystemExit("sysbench failed: there is nothing to compare")
        watching.result()
    tps = dict(parse_sysbench.intervals(driver.stdout.decode()).select("second", "tps").iter_rows())
    what = f"throughput with {watched.label} over without (of {watched.sets} sets at once, per set)"
    return Row(what, stats.median(ratios(tps, blocks, watched)), watched.aim)


def ratios(tps: Mapping[int, float], blocks: Sequence[bool], watched: Watched) -> list[float]:
    """Return the throughput with one set of observers over that without, for each pair but the first.

    Args:
        tps: by second of the load, from 1 on.
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
    """Have observers watch in some of the blocks, counted from when the load begins."""
    keep_time()  # or blocks would end seconds late under this load
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
    """In place of a run's folder: what observers captured in a block."""

    phases: ClassVar = {}

    def write(self, name: str, content: bytes, node: str) -> None:
        del node  # of one
        self[name] = content

    def write_json(self, name: str, content: object, node: str) -> None:
        self.write(name, json.dumps(content).encode(), node)


def _require_watched(observers: Observers, watched: Watched) -> None:
    """Let the measurement fail where observers did not watch: they would seem to cost nothing."""
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
