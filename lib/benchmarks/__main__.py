"""Measure benchlab itself, as ratios within one run: `make bench`.

Two questions. What does a sweep cost beside a shell loop that does the same restarts? And what do the
observers cost the engine that they watch? Absolute times mean nothing on a shared machine; both
sides of a ratio are measured alternately on the same one.
"""

import os
import random
import subprocess
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from benchlab import dataset, load, repo, stats, study, sweep
from benchlab.agent.system import keep_time
from benchlab.observers import OBSERVERS, Observers
from benchlab.parse import sysbench as parse_sysbench
from benchlab.plan import Curve, Trial
from benchlab.progress import SweepProgress
from benchlab.repo import Repo
from benchlab.session import Session
from benchlab.study import DEFAULT_ENVELOPE, Study
from benchlab.sweep import Selection, Sweep
from benchlab.target import Provisioned
from benchlab.workloads import sysbench, tables_of
from rich.console import Console
from rich.table import Table

SELECTION = Selection(
    "postgres_vs_tidb",
    profile="standard",
    engines=["postgres"],
    variants=["default"],
    workloads=["oltp_write_only"],
)

#: Alternations of a sweep and a shell loop.
SWEEP_ROUNDS = 3

#: Observers cost CPU, so they are seen best by a workload that is bound by it.
OBSERVED_SCRIPT, OBSERVED_THREADS = "oltp_point_select", 16

#: Sets of observers that watch at once. What one set costs is lost in the noise: on a shared machine
#: of two cores PostgreSQL's throughput alone differs by a tenth from second to second, and five
#: minutes of blocks leave an interval of 3 % to either side. Sets do not wait for each other, so that
#: n sets cost what one does to the nth power, and the interval of the nth root is narrower by n. (As
#: they see each other's processes, too, a set costs rather less than is told.)
OBSERVER_SETS = 8

#: Pairs of blocks with and without observers, of which the first one warms up; seconds of a block. Of
#: these the first ones, in which observers start or end, do not count (in a run they start before the
#: warm-up and end after the measured part), nor does the last, which may reach into the next block.
OBSERVER_ROUNDS = 1 + 24
BLOCK_S, BLOCK_HEAD_S = 8, 3

#: The observers, but for what their captures go through after the measured part.
STEADY = {
    f"{number}-{name}": SimpleNamespace(**vars(module) | {"THEN": ()})
    for number in range(OBSERVER_SETS)
    for name, module in OBSERVERS.items()
}

_DRIVER_GRACE_S = 60

SHELL_LOOP = Path(__file__).with_name("shell_loop.sh")


def main() -> None:
    """Run both comparisons on this machine and print them."""
    console = Console()
    checkout = repo.find()
    # what is measured here is benchlab; its runs must not count as results of the study
    with tempfile.TemporaryDirectory(prefix="benchlab-bench-") as data:
        os.environ["BENCHLAB_DATA"] = data
        with sweep.ready(checkout, SELECTION, _curves(checkout), console) as found:
            curve = _curves(checkout)[0]
            session = Session(found, "postgres")
            spec = study.load(checkout, SELECTION.study)
            variant, point = spec.engines["postgres"].load_variant, curve.trials[0].point
            dataset.ensure(session, point, variant, checkout.answers, console.print)
            rows = [
                _sweep_cost(checkout, spec, found, curve, console),
                _observer_cost(session, curve.trials[0]),
            ]
    table = Table(title="benchlab itself")
    for heading in ("what", "ratio", "95 % interval", "n", "aim"):
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _curves(checkout: Repo) -> list[Curve]:
    return [c for c in sweep.planned(checkout, SELECTION) if c.envelope == DEFAULT_ENVELOPE]


def _sweep_cost(
    checkout: Repo, spec: Study, found: Provisioned, curve: Curve, console: Console
) -> tuple[str, ...]:
    """Wall time of a curve, from its dataset to its rows in the store, against the shell loop's."""
    point = curve.trials[0].point
    arguments = [point.dataset_key, point.dataset.tables, point.dataset.rows_per_table]
    arguments += [point.warmup_s, point.measure_s]
    arguments += [trial.point.concurrency for trial in curve.trials]
    server = found.target.server
    ours, shell = [], []
    for _ in range(SWEEP_ROUNDS):
        command = server.argv(str(SHELL_LOOP), *map(str, arguments))
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        shell.append(float(done.stdout))
        with SweepProgress(console, list(curve.trials)) as bar:
            begin = time.monotonic()
            tally = Sweep(checkout, SELECTION, spec, found, bar).run([curve])
            ours.append(time.monotonic() - begin)
        if set(tally) != {"ok"}:
            raise SystemExit("a run failed: there is nothing to compare")
    load_s = len(curve.trials) * (point.warmup_s + point.measure_s)
    what = (
        "wall time of a sweep over a shell loop with the same restarts"
        f" ({np.median(ours) / load_s:.2f} and {np.median(shell) / load_s:.2f}"
        " of warm-up and measured time)"
    )
    return (what, *_shown(stats.ratio(ours, shell)), "≤ 1.05")


def _observer_cost(session: Session, trial: Trial) -> tuple[str, ...]:
    """Throughput under one set of observers over throughput without, from blocks of one long run.

    The blocks come in pairs of random order and each pair gives one ratio, so that neither a drift of
    the machine nor the difference between two runs counts as a cost. It is that of several sets at
    once (``OBSERVER_SETS`` says why); one set's is its root.
    """
    point = trial.point
    session.cold(point.variant, restore=point.dataset_key)
    session.engine.read_in(point.dataset)
    order = random.Random(1)
    blocks = [on for _ in range(OBSERVER_ROUNDS) for on in order.sample((True, False), 2)]
    duration_s = len(blocks) * BLOCK_S
    options = {**point.workload.options, **tables_of(point.dataset).options()}
    command = sysbench.run(
        session.engine, OBSERVED_SCRIPT, options, OBSERVED_THREADS, duration_s, trial.seed
    )
    begin: Future[float] = Future()

    def on_line(line: bytes) -> None:
        if line.rstrip() == parse_sysbench.STARTED:
            begin.set_result(time.monotonic())

    with ThreadPoolExecutor(max_workers=1) as beside:
        watching = beside.submit(_watch_in_blocks, session, blocks, begin)
        try:
            driver = load.run(
                session.client_argv(command),
                sysbench.config_file(session.engine),
                duration_s + _DRIVER_GRACE_S,
                on_line,
            )
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
        ratios.append(ratio ** (1 / OBSERVER_SETS))
    what = f"throughput with all observers over without (of {OBSERVER_SETS} sets at once, per set)"
    return (what, *_shown(stats.median(ratios)), "≥ 0.99")


def _watch_in_blocks(session: Session, blocks: list[bool], begin: Future[float]) -> None:
    """Have observers watch in some of the blocks, counted from when the load begins."""
    keep_time()  # or blocks would end seconds late under this load
    ended = None
    for number, observed in enumerate(blocks, start=1):
        observers = Observers(session.server, STEADY) if observed else None
        if ended:
            ended.discard()
        time.sleep(max(0.0, begin.result() + number * BLOCK_S - time.monotonic()))
        if observers:
            observers.stop()
        ended = observers
    if ended:
        ended.discard()


def _shown(estimate: stats.Estimate) -> tuple[str, str, str]:
    interval = "none" if estimate.low is None else f"{estimate.low:.3f} to {estimate.high:.3f}"
    return f"{estimate.value:.3f}", interval, str(estimate.n)


if __name__ == "__main__":
    main()
