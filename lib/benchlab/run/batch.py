"""One batch, as the run notebook executes it."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from benchlab import drivers, repo, target
from benchlab.plan import Batch, Point
from benchlab.plan import plan as plans
from benchlab.raw.record import Record
from benchlab.run.peak import peak
from benchlab.run.progress import RUN_LINE
from benchlab.run.trial import run_trial
from benchlab.store import ingest
from benchlab.target.external import open_session
from benchlab.target.session import Session


def open_batch(plan: str = "", trials: Sequence[str] = ()) -> "BatchRun":
    """Return one batch of a plan, ready to run on its target.

    Args:
        plan: name of a plan; empty: the plan that was written last.
        trials: keys of trials of one of its batches, in the order in which they are to be run; none:
            all trials of its first batch.

    Raises:
        UnknownName: no plan of that name, or none of its batches has these trials.
        TargetError: the target is not provisioned.
        StoreError: the peak for an open loop is unknown, since no run of the closed loop counts.
    """
    checkout = repo.find()
    made = plans.read(checkout, plan or plans.last(checkout))
    batch = made.batch(trials)
    session = open_session(target.provisioned(checkout, made.target), batch.engine)
    peaks_tps = {}
    if batch.is_open:
        ingest.ingest_new(checkout)
        peaks_tps = {trial.key: peak(checkout, made, trial) for trial in batch.trials}
    return BatchRun(checkout.raw, session, batch, peaks_tps)


def restores(point: Point, since: Sequence[Point]) -> bool:
    """Return whether a run starts from the restored dataset, not from the state after the runs before.

    Those runs may belong to any curve, so their writes must not change what this run reads. If the
    profile says so, runs that write follow each other without a restore.

    Args:
        point: point of the run.
        since: points of the runs of the batch since the dataset was last restored, starting with the
            run that restored it; empty: it was not restored yet.
    """
    if not since or point.dataset_key != since[-1].dataset_key:
        return True
    written = any(one.workload.writes for one in since)
    return point.dataset_reset == "restore" or (written and not point.workload.writes)


class BatchRun:
    """The trials of one batch on a provisioned target."""

    def __init__(
        self,
        raw: Path,
        session: Session,
        batch: Batch,
        peaks_tps: Mapping[str, float],
    ):
        """Take a batch to run.

        Args:
            raw: folder of all raw run folders.
            session: the batch's engine.
            batch: the batch.
            peaks_tps: key of a trial of an open loop → throughput of the closed loop.
        """
        self.raw, self.session, self.batch, self.peaks_tps = raw, session, batch, peaks_tps

    def run(self) -> Iterator[Record]:
        """Run the trials one after the other; print one line for each and yield its record."""
        self.session.bring_up()
        closing: Future[Record] | None = None
        since: list[Point] = []
        with ThreadPoolExecutor(max_workers=1) as closer:
            for trial in self.batch.trials:
                before_load = closing.result if closing else lambda: None
                restore = restores(trial.point, since)
                peak_tps = self.peaks_tps.get(trial.key)
                ended = run_trial(self.session, trial, self.raw, restore, before_load, peak_tps)
                # what a start that failed has left is restored before the next one
                since = [*([] if restore else since), trial.point] if ended.began else []
                if closing:
                    yield _reported(closing.result())
                closing = closer.submit(ended.close)
        yield _reported(closing.result())

    def points(self) -> pl.DataFrame:
        """Return one row per point with what is requested."""
        return pl.DataFrame(
            [
                self._place(trial.point)
                | {
                    "engine_version": trial.point.engine_version,
                    "settings": ", ".join(f"{k}={v}" for k, v in trial.point.settings.items()),
                    "rows": trial.point.dataset.rows,
                    "warmup_s": trial.point.warmup_s,
                    "measure_s": trial.point.measure_s,
                    "trial_key": trial.key,
                }
                for trial in self.batch.trials
            ]
        )

    def summary(self, records: Sequence[Record]) -> pl.DataFrame:
        """Return one row per run: status, throughput and latency, read from the raw files."""
        rows = []
        for record in records:
            row = self._place(record.trial.point) | {
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
        return pl.DataFrame(rows).sort(*self._place(self.batch.trials[0].point))

    def _place(self, point: Point) -> dict[str, Any]:
        """Return the columns that identify a point of its engine."""
        _, variant, workload, envelope = point.curve
        place = {
            "variant": variant,
            "workload": workload,
            "envelope": envelope,
            "concurrency": point.concurrency,
        }
        return place | ({"share_of_peak": point.share_of_peak} if self.batch.is_open else {})


def _reported(record: Record) -> Record:
    print(RUN_LINE + record.line(), flush=True)
    return record
