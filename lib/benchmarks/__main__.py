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

from benchlab import dataset, repo, stats, study, sweep
from benchlab.observers import Observers
from benchlab.parse import sysbench as parse_sysbench
from benchlab.plan import Curve, Trial
from benchlab.progress import SweepProgress
from benchlab.session import Session
from benchlab.sweep import Selection
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
SWEEP_ROUNDS, OBSERVER_ROUNDS = 2, 10

#: The workload and concurrency at which observers cost most: CPU is what they use.
OBSERVED_THREADS, OBSERVED_S = 16, 6

SHELL_LOOP = Path(__file__).with_name("shell_loop.sh")


def main() -> None:
    """Run both comparisons on this machine and print them."""
    console = Console()
    checkout = repo.find()
    # what is measured here is benchlab; its runs must not count as results of the study
    with tempfile.TemporaryDirectory(prefix="benchlab-bench-") as data:
        os.environ["BENCHLAB_DATA"] = data
        curves = [c for c in sweep.planned(checkout, SELECTION) if c.envelope == "main"]
        with sweep.ready(checkout, SELECTION, curves, console) as found:
            session = Session(found, "postgres")
            curve = next(c for c in sweep.planned(checkout, SELECTION) if c.envelope == "main")
            spec = study.load(checkout, SELECTION.study)
            dataset.ensure(
                session, curve.trials[0].point, spec.engines["postgres"].load_variant, console.print
            )
            rows = [_sweep_cost(checkout, found, curve, console), _observer_cost(session, curve)]
    table = Table(title="benchlab itself")
    for heading in ("what", "ratio", "95 % interval", "n", "aim"):
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _sweep_cost(checkout, found, curve: Curve, console: Console) -> tuple[str, ...]:
    """Wall time of one curve's notebook against the shell loop's, alternating."""
    point = curve.trials[0].point
    threads = [str(trial.point.concurrency) for trial in curve.trials]
    ours, shell = [], []
    for _ in range(SWEEP_ROUNDS):
        session = Session(found, "postgres")
        session.cold(point.variant, restore=point.dataset_key)
        session.stop()
        arguments = [point.dataset.tables, point.dataset.rows_per_table]
        arguments += [point.warmup_s, point.measure_s]
        command = session.server.argv(str(SHELL_LOOP), *map(str, arguments), *threads)
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        shell.append(float(done.stdout))
        with SweepProgress(console, list(curve.trials)) as bar:
            begin = time.monotonic()
            sweep.execute_notebook(checkout, SELECTION, curve, bar)
            ours.append(time.monotonic() - begin)
    estimate = stats.ratio(ours, shell)
    load_s = len(threads) * (point.warmup_s + point.measure_s)
    what = (
        f"wall time of a sweep over a shell loop with the same restarts"
        f" ({sum(ours) / len(ours) / load_s:.2f} and {sum(shell) / len(shell) / load_s:.2f}"
        " of warm-up and measured time)"
    )
    return (what, *_shown(estimate), "≤ 1.05")


def _observer_cost(session: Session, curve: Curve) -> tuple[str, ...]:
    """Throughput with all observers over throughput without, in pairs of random order."""
    trial = curve.trials[0]
    session.cold(trial.point.variant, restore=trial.point.dataset_key)
    session.engine.read_in(trial.point.dataset)
    order = random.Random(1)
    with_observers, without = [], []
    _throughput(session, trial, seed=1)
    for number in range(OBSERVER_ROUNDS):
        for observed in order.sample((True, False), 2):
            observers = Observers(session.server) if observed else None
            tps = _throughput(session, trial, seed=number + 2)
            if observers:
                observers.discard()
            (with_observers if observed else without).append(tps)
    estimate = stats.ratio(with_observers, without)
    return ("throughput with all observers over without", *_shown(estimate), "≥ 0.99")


def _throughput(session: Session, trial: Trial, seed: int) -> float:
    point_select = trial.point.workload.model_copy(
        update={"script": "oltp_point_select", "writes": False}
    )
    command = sysbench.run(
        session.engine, point_select, trial.point.dataset, OBSERVED_THREADS, OBSERVED_S, seed
    )
    done = subprocess.run(
        session.client_argv(command),
        input=sysbench.config_file(session.engine),
        capture_output=True,
        check=True,
    )
    summary = parse_sysbench.summary(done.stdout.decode())
    return summary["transactions"] / summary["total_time_s"]


def _shown(estimate: stats.Estimate) -> tuple[str, str, str]:
    interval = "none" if estimate.low is None else f"{estimate.low:.3f} to {estimate.high:.3f}"
    return f"{estimate.value:.3f}", interval, str(estimate.n)


if __name__ == "__main__":
    main()
