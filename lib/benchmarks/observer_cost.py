"""What do the observers cost the engine that they watch?"""

import random
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from benchlab import stats
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
    processes, too, a set costs rather less than is reported.)
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
    return Watched("the log traced", observers, "oltp_insert", 2, 14, 7, "≥ 0.98")


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
    # under this load sysbench itself may leave a second out
    means = [
        np.mean(
            [
                tps[at]
                for at in range(first + watched.head_s, first + watched.block_s - 1)
                if at in tps
            ]
        )
        for first in range(1, duration_s, watched.block_s)
    ]
    ratios = []
    for first in range(2, len(blocks), 2):
        one, other = means[first : first + 2]
        ratio = one / other if blocks[first] else other / one
        ratios.append(ratio ** (1 / watched.sets))
    what = f"throughput with {watched.label} over without (of {watched.sets} sets at once, per set)"
    return Row(what, stats.median(ratios), watched.aim)


def _watch_in_blocks(
    session: Session, watched: Watched, blocks: list[bool], begin: Future[float]
) -> None:
    """Have observers watch in some of the blocks, counted from when the load begins."""
    keep_time()  # or blocks would end seconds late under this load
    ended = None
    for number, observed in enumerate(blocks, start=1):
        observers = Observers(session.primary, watched.steady) if observed else None
        if ended:
            ended.discard()
        time.sleep(max(0.0, begin.result() + number * watched.block_s - time.monotonic()))
        if observers:
            observers.stop()
        ended = observers
    if ended:
        ended.discard()
