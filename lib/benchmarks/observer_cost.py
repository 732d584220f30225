"""What do the observers cost the engine that they watch?"""

import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
from benchlab import stats
from benchlab.agent.system import keep_time
from benchlab.drivers.sysbench import driver as sysbench
from benchlab.drivers.sysbench import output as parse_sysbench
from benchlab.observers import OBSERVERS
from benchlab.plan import Trial
from benchlab.run.observe import Observers
from benchlab.run.process import Program
from benchlab.run.process import run as run_programs
from benchlab.target.session import Session
from benchlab.workloads import tables_of
from table import Row

#: Observers cost CPU, so they are seen best by a workload that is bound by it.
SCRIPT, THREADS = "oltp_point_select", 16

#: Sets of observers that watch at once. What one set costs is lost in the noise: on a shared machine
#: of two cores PostgreSQL's throughput alone differs by a tenth from second to second, and five
#: minutes of blocks leave an interval of 3 % to either side. Sets do not wait for each other, so that
#: n sets cost what one does to the nth power, and the interval of the nth root is narrower by n. (As
#: they see each other's processes, too, a set costs rather less than is reported.)
SETS = 8

#: Pairs of blocks with and without observers, of which the first one warms up; seconds of a block. Of
#: these the first ones, in which observers start or end, do not count (in a run they start before the
#: warm-up and end after the measured part), nor does the last, which may reach into the next block.
ROUNDS = 1 + 24
BLOCK_S, BLOCK_HEAD_S = 8, 3

#: The observers, but for what their captures go through after the measured part.
STEADY = {
    f"{number}-{name}": SimpleNamespace(**vars(module) | {"THEN": ()})
    for number in range(SETS)
    for name, module in OBSERVERS.items()
}

_DRIVER_GRACE_S = 60


def measure(session: Session, trial: Trial) -> Row:
    """Throughput under one set of observers over throughput without, from blocks of one long run.

    The blocks come in pairs of random order and each pair gives one ratio, so that neither a drift of
    the machine nor the difference between two runs counts as a cost. It is that of several sets at
    once (``SETS`` says why); one set's is its root.
    """
    point = trial.point
    session.cold(point.variant, restore=point.dataset_key)
    session.engine.prewarm(point.dataset)
    order = random.Random(1)
    blocks = [on for _ in range(ROUNDS) for on in order.sample((True, False), 2)]
    duration_s = len(blocks) * BLOCK_S
    options = {**point.workload.options, **tables_of(point.dataset).options()}
    command = sysbench.run(session.engine, SCRIPT, options, THREADS, duration_s, trial.seed)
    begin: Future[float] = Future()

    def on_line(number: int, line: bytes) -> None:
        del number  # of one
        if line.rstrip() == parse_sysbench.STARTED:
            begin.set_result(time.monotonic())

    with ThreadPoolExecutor(max_workers=1) as beside:
        watching = beside.submit(_watch_in_blocks, session, blocks, begin)
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
        np.mean([tps[at] for at in range(first + BLOCK_HEAD_S, first + BLOCK_S - 1) if at in tps])
        for first in range(1, duration_s, BLOCK_S)
    ]
    ratios = []
    for first in range(2, len(blocks), 2):
        one, other = means[first : first + 2]
        ratio = one / other if blocks[first] else other / one
        ratios.append(ratio ** (1 / SETS))
    what = f"throughput with all observers over without (of {SETS} sets at once, per set)"
    return Row(what, stats.median(ratios), "≥ 0.99")


def _watch_in_blocks(session: Session, blocks: list[bool], begin: Future[float]) -> None:
    """Have observers watch in some of the blocks, counted from when the load begins."""
    keep_time()  # or blocks would end seconds late under this load
    ended = None
    for number, observed in enumerate(blocks, start=1):
        observers = Observers(session.primary, STEADY) if observed else None
        if ended:
            ended.discard()
        time.sleep(max(0.0, begin.result() + number * BLOCK_S - time.monotonic()))
        if observers:
            observers.stop()
        ended = observers
    if ended:
        ended.discard()
