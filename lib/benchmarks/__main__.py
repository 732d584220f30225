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
from pathlib import Path

import numpy as np
from benchlab import dataset, repo, stats, study, sweep
from benchlab.observers import Observers
from benchlab.parse import sysbench as parse_sysbench
from benchlab.plan import Curve, Trial
from benchlab.progress import SweepProgress
from benchlab.repo import Repo
from benchlab.session import Session
from benchlab.study import DEFAULT_ENVELOPE, Study
from benchlab.sweep import Selection, Sweep
from benchlab.target import Provisioned
from benchlab.workloads import sysbench
from rich.console import Console
from rich.table import Table

SELECTION = Selection(
    "postgres_vs_tidb",
    profile="standard",
    engines=["postgres"],
    variants=["default"],
    workloads=["oltp_write_only"],
)

#: Alternations of both sides of each comparison.
SWEEP_ROUNDS, OBSERVER_ROUNDS = 3, 10

#: Observers cost CPU, so they are seen best by a workload that is bound by it.
OBSERVED_SCRIPT, OBSERVED_THREADS = "oltp_point_select", 16

#: Seconds of a block with or without observers. Of these the first ones, in which observers start or
#: end, do not count, nor does the last, which may reach into the next block.
BLOCK_S, BLOCK_HEAD_S = 8, 3

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
            dataset.ensure(
                session, curve.trials[0].point, spec.engines["postgres"].load_variant, console.print
            )
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
    """Throughput with all observers over throughput without, in blocks of one long run.

    The blocks come in pairs of random order and each pair gives one ratio, so that neither a drift of
    the machine nor the difference between two runs counts as a cost.
    """
    point = trial.point
    session.cold(point.variant, restore=point.dataset_key)
    session.engine.read_in(point.dataset)
    workload = point.workload.model_copy(update={"script": OBSERVED_SCRIPT, "writes": False})
    # the first pair warms up
    order = random.Random(1)
    blocks = [on for _ in range(1 + OBSERVER_ROUNDS) for on in order.sample((True, False), 2)]
    command = sysbench.run(
        session.engine,
        workload,
        point.dataset,
        OBSERVED_THREADS,
        len(blocks) * BLOCK_S,
        trial.seed,
    )
    with subprocess.Popen(
        session.client_argv(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as driver:
        driver.stdin.write(sysbench.config_file(session.engine))
        driver.stdin.close()
        begin = time.monotonic()
        for number, observed in enumerate(blocks, start=1):
            observers = Observers(session.server) if observed else None
            time.sleep(max(0.0, begin + number * BLOCK_S - time.monotonic()))
            if observers:
                observers.discard()
        printed = driver.stdout.read().decode()
    if driver.returncode:
        raise SystemExit("sysbench failed: there is nothing to compare")
    tps = dict(parse_sysbench.intervals(printed).select("second", "tps").iter_rows())
    means = [
        np.mean([tps[begin + second] for second in range(BLOCK_HEAD_S + 1, BLOCK_S)])
        for begin in range(0, len(blocks) * BLOCK_S, BLOCK_S)
    ]
    ratios = []
    for first in range(2, len(blocks), 2):
        one, other = means[first : first + 2]
        ratios.append(one / other if blocks[first] else other / one)
    return ("throughput with all observers over without", *_shown(stats.median(ratios)), "≥ 0.99")


def _shown(estimate: stats.Estimate) -> tuple[str, str, str]:
    interval = "none" if estimate.low is None else f"{estimate.low:.3f} to {estimate.high:.3f}"
    return f"{estimate.value:.3f}", interval, str(estimate.n)


if __name__ == "__main__":
    main()
