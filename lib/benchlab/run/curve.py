"""One curve, as the run notebook executes it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import polars as pl

from benchlab import drivers, repo, target
from benchlab.errors import StoreError
from benchlab.plan import Curve, Plan
from benchlab.plan import plan as plans
from benchlab.raw.record import Record
from benchlab.repo import Repo
from benchlab.run.progress import RUN_LINE
from benchlab.run.trial import run_trial
from benchlab.store import ingest, open_store, results
from benchlab.target.external import open_session
from benchlab.target.session import Session


def open_curve(plan: str = "", trials: Sequence[str] = ()) -> "CurveRun":
    """Return one curve of a plan, ready to run on its target.

    Args:
        plan: name of a plan; empty: the one that was written last.
        trials: keys of trials of one of its curves, in the order in which they are to be run; none:
            those of its first curve.

    Raises:
        UnknownName: no plan of that name, or none of its curves has these trials.
        TargetError: the target is not provisioned.
        StoreError: an open loop, and no run of the closed loop counts, so that its peak is unknown.
    """
    checkout = repo.find()
    made = plans.read(checkout, plan or plans.last(checkout))
    curve = made.curve(trials)
    session = open_session(target.provisioned(checkout, made.target), curve.engine)
    peak_tps = _peak(checkout, made, curve) if curve.is_open else None
    return CurveRun(checkout.raw, session, curve, peak_tps)


def _peak(checkout: Repo, plan: Plan, curve: Curve) -> float:
    """Return the throughput of the closed loop with as many clients as an open one has.

    With more or fewer clients it may be another one, which these could not reach.
    """
    ingest.ingest_new(checkout)
    clients = curve.trials[0].point.concurrency
    closed = {
        trial.key
        for one in plan.curves
        if not one.is_open and not one.intervention and one.series == curve.series
        for trial in one.trials
        if trial.point.concurrency == clients
    }
    with open_store(checkout.store) as store:
        peak_tps = results.closed_loop(store, plan.target, closed)
    if peak_tps is None:
        raise StoreError(
            f"{curve.name}: no run of the closed loop with {clients} clients counts, of whose"
            " throughput it is a share"
        )
    return peak_tps


class CurveRun:
    """The trials of one curve on a provisioned target."""

    def __init__(self, raw: Path, session: Session, curve: Curve, peak_tps: float | None = None):
        self.raw, self.session, self.curve, self.peak_tps = raw, session, curve, peak_tps

    def run(self) -> Iterator[Record]:
        """Run the trials one after the other; print a line for each and yield its record."""
        self.session.bring_up()
        closing: Future[Record] | None = None
        with ThreadPoolExecutor(max_workers=1) as closer:
            for trial in self.curve.trials:
                before_load = closing.result if closing else lambda: None
                # whatever happens between its runs, a curve begins from the dataset
                restore = not closing or trial.point.dataset_reset == "restore"
                close = run_trial(
                    self.session, trial, self.raw, restore, before_load, self.peak_tps
                )
                if closing:
                    yield _reported(closing.result())
                closing = closer.submit(close)
        yield _reported(closing.result())

    def points(self) -> pl.DataFrame:
        """One row per point: what is requested."""
        return pl.DataFrame(
            [
                {
                    "concurrency": trial.point.concurrency,
                    "engine_version": trial.point.engine_version,
                    "settings": ", ".join(f"{k}={v}" for k, v in trial.point.settings.items()),
                    "rows": trial.point.dataset.rows,
                    "warmup_s": trial.point.warmup_s,
                    "measure_s": trial.point.measure_s,
                    "trial_key": trial.key,
                }
                for trial in self.curve.trials
            ]
        )

    def summary(self, records: Sequence[Record]) -> pl.DataFrame:
        """One row per run: status, throughput and latency, read from the raw files."""
        rows = []
        for record in records:
            row = {
                "concurrency": record.trial.point.concurrency,
                "run_id": record.run_id,
                "status": record.status,
            }
            if record.status == "ok":
                workload = record.trial.point.workload
                driver = drivers.driver(workload.driver)
                found = driver.measured(self.raw / record.run_id, workload).totals
                row |= {
                    "tps": found.transactions / found.seconds,
                    "latency_mean_ms": found.latency_mean_us / 1000,
                    "latency_max_ms": found.latency_max_us / 1000,
                    "errors": found.errors,
                }
            rows.append(row)
        return pl.DataFrame(rows).sort("concurrency")


def _reported(record: Record) -> Record:
    print(RUN_LINE + record.line(), flush=True)
    return record
