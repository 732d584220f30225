"""Findings of the gate: points and curves that no verdict uses, with the reason."""

import polars as pl

from benchlab import stats
from benchlab.gate.checks import ALONE
from benchlab.gate.similar import SIMILAR, dissimilar
from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import POINT, Rerun

# Trials with more than one completed run.
_REPEATED = """
    SELECT trial_key FROM run WHERE study = ? AND target = ? AND status = 'ok'
    GROUP BY trial_key HAVING count(*) > 1
"""

_CHECKED_ALONE = f"""
    SELECT run_id FROM gate SEMI JOIN chosen USING (run_id) WHERE "check" = '{ALONE}'
"""

_CHECKS = 'SELECT DISTINCT "check" FROM gate SEMI JOIN chosen USING (run_id) ORDER BY ALL'


def summary(rerun: Rerun) -> dict[str, int]:
    """Return how many runs and points of the curves there are, and how many of each passed.

    Keys: ``runs``, ``runs_passed``, ``points``, ``points_passed``; ``repeated`` (trials that were run
    more than once); ``not_known_alone`` (runs for which it is unknown whether others used their hosts);
    ``too_short_for_drift`` (runs whose measured part is too short to see a drift).
    A point passed if one of its runs did.
    """
    counted = rerun.counted
    repeated = rerun.store.sql(_REPEATED, rerun.study.study, rerun.target)["trial_key"]
    of_points = rerun.metrics.select(*POINT, "valid").unique()
    return {
        "runs": len(counted),
        "runs_passed": len(_passed(rerun, counted)),
        "points": len(of_points),
        "points_passed": of_points["valid"].sum(),
        "repeated": len(counted.filter(pl.col("trial_key").is_in(repeated.implode()))),
        "not_known_alone": len(counted) - len(rerun.of_runs(_CHECKED_ALONE)),
        "too_short_for_drift": len(
            counted.filter(pl.col("measured_s") < stats.SHORTEST_WITH_DRIFT_S)
        ),
    }


def applied(rerun: Rerun) -> list[str]:
    """Return the names of the checks that apply to some of the runs."""
    return rerun.of_runs(_CHECKS)["check"].to_list()


def most_client_cpu(rerun: Rerun) -> dict[str, object] | None:
    """Return the point that passed at which the load generator used most CPU; ``None``: unknown.

    Keys: ``percent`` (in % of the envelope's cores, median over the trials), ``concurrency``,
    ``workload``, ``curve``.
    """
    valid = points.points(rerun).filter("valid")
    known = valid.drop_nulls("client_cpu_percent").sort("client_cpu_percent")
    if known.is_empty():
        return None
    most = known.with_columns(points.named(rerun.study)).row(-1, named=True)
    names = ("concurrency", "workload", "curve")
    return {"percent": most["client_cpu_percent"]} | {name: most[name] for name in names}


def table(rerun: Rerun) -> pl.DataFrame:
    """Return the points with runs that did not pass the gate, one row per point and failed check.

    A curve that is not similar has one row for all of its points.

    Columns: ``curve``, ``workload``, ``envelope``, ``concurrency`` (null: all points of the
    curve), ``check``, ``runs`` (``2 of 3``: two of three failed it), ``found`` (in the first of these).
    """
    trials = rerun.counted.group_by(POINT).agg(pl.len().alias("of"))
    failed = (
        rerun.counted.join(rerun.gate, on="run_id")
        .sort("trial")
        .group_by(*POINT, "check", maintain_order=True)
        .agg(pl.len().alias("failed"), pl.col("found").first())
        .join(trials, on=POINT)
    )
    both = pl.concat([failed, _dissimilar(rerun)], how="diagonal")
    found = points.in_order(
        with_curve(both, rerun.study), rerun.study, "envelope", "concurrency", "check"
    )
    return found.select(
        "curve",
        points.named(rerun.study),
        "envelope",
        "concurrency",
        "check",
        pl.format("{} of {}", "failed", "of").alias("runs"),
        "found",
    )


def _dissimilar(rerun: Rerun) -> pl.DataFrame:
    """Return the curves that are not similar, with their number of runs."""
    rows = [(*curve, SIMILAR, found) for curve, found in dissimilar(rerun).items()]
    columns = dict.fromkeys(("engine", "variant", "check", "found"), pl.String)
    runs = rerun.counted.group_by("engine", "variant").agg(pl.len().alias("of"))
    found = pl.DataFrame(rows, schema=columns, orient="row").join(runs, on=["engine", "variant"])
    return found.with_columns(pl.col("of").alias("failed"))


def _passed(rerun: Rerun, runs: pl.DataFrame) -> pl.DataFrame:
    return runs.join(rerun.gate, on="run_id", how="anti")
