"""What does a sweep cost, compared with a shell loop that does the same restarts?"""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchlab import stats
from benchlab.plan import Batch, Trial
from benchlab.repo import Repo
from benchlab.run import planning
from benchlab.run.planning import Selection
from benchlab.run.progress import SweepProgress
from benchlab.run.sweep import Sweep
from benchlab.study import Study
from benchlab.target import Provisioned
from rich.console import Console
from table import Row

#: Rounds of a shell loop and a sweep.
ROUNDS = 3

SHELL_LOOP = Path(__file__).with_name("shell_loop.sh")


def measure(
    checkout: Repo,
    selection: Selection,
    spec: Study,
    found: Provisioned,
    trials: Sequence[Trial],
    console: Console,
) -> Row:
    """Return the wall time of a curve's trials, from dataset to stored rows, over the shell loop's."""
    point = trials[0].point
    arguments = [point.dataset_key, point.dataset.tables, point.dataset.rows_per_table]
    arguments += [point.warmup_s, point.measure_s]
    arguments += [trial.point.concurrency for trial in trials]
    primary, *_ = found.deployment.nodes
    batch = Batch(engine=point.engine, trial=trials[0].number, trials=tuple(trials))
    part = {"batches": (batch,), "whole": False}
    plan = planning.planned(checkout, selection, spec).model_copy(update=part).save(checkout)
    ours, shell = [], []
    load_s = len(trials) * (point.warmup_s + point.measure_s)
    for _ in range(ROUNDS):
        command = primary.argv(str(SHELL_LOOP), *map(str, arguments))
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        shell.append(float(done.stdout))
        with SweepProgress(console, [load_s / len(trials)] * len(trials)) as bar:
            begin = time.monotonic()
            tally = Sweep(checkout, plan, spec, found, bar).run([batch])
            ours.append(time.monotonic() - begin)
        if set(tally) != {"ok"}:
            raise SystemExit("a run failed: there is nothing to compare")
    what = (
        "wall time of a sweep over a shell loop with the same restarts"
        f" ({np.median(ours) / load_s:.2f} and {np.median(shell) / load_s:.2f}"
        " of warm-up and measured time)"
    )
    return Row(what, stats.ratio(ours, shell), "≤ 1.05")
