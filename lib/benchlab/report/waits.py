"""What sessions waited for, as the session sampler saw them."""

import polars as pl

from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE

#: Waits with a smaller share are left out.
_LEAST_SHARE = 0.02


def table(rerun: Rerun) -> pl.DataFrame:
    """Return the share of the sessions' samples by wait, at each curve's most clients.

    Main envelope only. Columns: ``curve``, ``workload``, ``concurrency``, ``wait_class``, ``wait`` (as
    the engine names it), ``share``, ``gate passed``.
    """
    most_clients = pl.col("concurrency").max().over("engine", "variant", "workload")
    main = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
    most = main.filter(pl.col("concurrency") == most_clients)
    sampled = rerun.of_runs(
        "SELECT run_id, wait_class, wait, sessions FROM engine_wait SEMI JOIN chosen USING (run_id)"
        " JOIN run USING (run_id) WHERE t > measure_begin AND t <= measure_end",
        most,
    )
    of_point = ["engine", "variant", "workload", "concurrency", "valid"]
    shares = (
        sampled.join(most.select("run_id", *of_point), on="run_id")
        .group_by(*of_point, "wait_class", "wait")
        .agg(pl.col("sessions").sum())
        .with_columns((pl.col("sessions") / pl.col("sessions").sum().over(of_point)).alias("share"))
        .filter(pl.col("share") >= _LEAST_SHARE)
        .sort("share", "wait", descending=[True, False])
    )
    return points.in_order(with_curve(shares, rerun.study), rerun.study).select(
        "curve",
        points.named(rerun.study),
        "concurrency",
        "wait_class",
        "wait",
        pl.col("share").round(2),
        points.gate_passed(),
    )
