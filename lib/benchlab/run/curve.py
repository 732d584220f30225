"""One curve, as the run notebook executes it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import polars as pl

from benchlab import repo, study, target
from benchlab.drivers import sysbench_output as parse_sysbench
from benchlab.errors import StoreError, UnknownName
from benchlab.plan import Curve, Planner
from benchlab.raw.record import OUTPUT, Record
from benchlab.run.progress import RUN_LINE
from benchlab.run.trial import run_trial
from benchlab.store import ingest, open_store, results
from benchlab.study import Perturbed
from benchlab.study.intervention import Intervention
from benchlab.target import Provisioned
from benchlab.target.session import Session


def open_curve(
    study_name: str,
    profile: str,
    target_name: str,
    engine: str,
    variant: str,
    workload: str,
    envelope: str,
    trial: int,
    concurrency: Sequence[int] = (),
) -> "CurveRun":
    """Return one curve of a study, ready to run on a provisioned target.

    Args:
        study_name: as in ``paper/studies``.
        profile: one of the study's.
        target_name: an inventory.
        engine: of the study.
        variant: of the engine.
        workload: of the study.
        envelope: one of the study's envelope rules.
        trial: number, from 1.
        concurrency: only these, in this order; empty: the profile's, in the plan's order.

    Raises:
        UnknownName: the study has no such curve.
        StudyError: the study is not rerun.
        TargetError: the target is not provisioned.
    """
    provisioned, planner = _planner(study_name, profile, target_name)
    curves = planner.curves(engines=[engine], variants=[variant], workloads=[workload])
    curve = _named(curves, engine, variant, workload, envelope, trial).only(concurrency)
    return CurveRun(repo.find().raw, Session(provisioned, engine), curve)


def open_at_rates(
    study_name: str,
    profile: str,
    target_name: str,
    engine: str,
    variant: str,
    workload: str,
    envelope: str,
    trial: int,
    shares: Sequence[float] = (),
) -> "CurveRun":
    """Return one curve along shares of the closed loop's peak, which must have been measured before.

    Arguments and errors are those of :func:`open_curve`.

    Raises:
        StoreError: no run of the closed loop counts.
    """
    checkout = repo.find()
    provisioned, planner = _planner(study_name, profile, target_name)
    curves = planner.open_loops(engines=[engine], variants=[variant], workloads=[workload])
    curve = _named(curves, engine, variant, workload, envelope, trial).only(shares)
    ingest.ingest_new(checkout)
    with open_store(checkout.store, read_only=True) as store:
        names = (engine, variant, workload, envelope)
        peak_tps = results.peak(store, study_name, profile, target_name, *names)
    if peak_tps is None:
        raise StoreError(
            f"{curve.name}: no run of the closed loop counts, of whose peak it is a share"
        )
    return CurveRun(checkout.raw, Session(provisioned, engine), curve, peak_tps)


def open_perturbed(
    study_name: str,
    profile: str,
    target_name: str,
    where: Perturbed,
    asked: Intervention,
    trial: int = 1,
) -> "CurveRun":
    """Return one point of a study under an intervention, ready to run on a provisioned target.

    Errors are those of :func:`open_curve`, and a target on which no limit can be lowered.
    """
    provisioned, planner = _planner(study_name, profile, target_name)
    curve = planner.intervention(where, asked, trial)
    return CurveRun(repo.find().raw, Session(provisioned, where.engine), curve)


def _planner(study_name: str, profile: str, target_name: str) -> tuple[Provisioned, Planner]:
    checkout = repo.find()
    spec = study.load_rerun(checkout, study_name)
    provisioned = target.provisioned(checkout, target_name)
    instance = target.instance_type(checkout, spec.instance)
    versions = provisioned.versions(spec.engines)
    return provisioned, Planner(spec, profile, instance, versions, provisioned.target.enforce)


def _named(curves: list[Curve], *names: str | int) -> Curve:
    matching = {
        (one.engine, one.variant, one.workload, one.envelope, one.trial): one for one in curves
    }
    if names not in matching:
        raise UnknownName("curve", Curve.label(*names), [one.name for one in curves])
    return matching[names]


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
        """One row per point: what is asked of it."""
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
                output = self.raw / record.run_id / OUTPUT["measure"]
                found = parse_sysbench.summary(output.read_text())
                row |= {
                    "tps": found["transactions"] / found["total_time_s"],
                    "latency_mean_ms": found["latency_avg_ms"],
                    "latency_max_ms": found["latency_max_ms"],
                    "errors": found["ignored_errors"],
                }
            rows.append(row)
        return pl.DataFrame(rows).sort("concurrency")


def _reported(record: Record) -> Record:
    print(RUN_LINE + record.line(), flush=True)
    return record
