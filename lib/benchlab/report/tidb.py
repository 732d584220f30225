"""What TiDB's servers say of themselves: work that nobody asked for, and what a request waits for."""

import polars as pl

from benchlab.engines.tidb import OWN_WORK, ROUND_TRIPS, TiDB
from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import Rerun

_GREW = (
    "SELECT run_id, name, at_end - coalesce(at_begin, 0) AS grew FROM engine_counter"
    " SEMI JOIN chosen USING (run_id) WHERE at_end IS NOT NULL"
)


def own_work(rerun: Rerun) -> pl.DataFrame:
    """Return the work that TiDB did on its own during the runs that count, by what was run.

    Columns: ``load`` (*reads*, *writes*, *single writes*), ``runs`` (with stored counters), and for
    each kind of work the number of these runs in which it was done.
    """
    writing = [name for name, one in rerun.study.workloads.items() if one.writes]
    load = pl.when(pl.col("intervention").is_not_null()).then(pl.lit("single writes"))
    load = load.when(pl.col("workload").is_in(writing)).then(pl.lit("writes"))
    runs = _of_tidb(rerun, pl.concat([rerun.counted, rerun.single_writes]))
    runs = runs.select("run_id", load.otherwise(pl.lit("reads")).alias("load"))
    done = [
        pl.col("run_id")
        .filter(pl.col("name").str.contains(pattern), pl.col("grew") > 0)
        .n_unique()
        .alias(work)
        for work, pattern in OWN_WORK.items()
    ]
    return (
        rerun.of_runs(_GREW, runs)
        .join(runs, on="run_id")
        .group_by("load")
        .agg(pl.col("run_id").n_unique().alias("runs"), *done)
        .sort("load")
    )


def round_trips(rerun: Rerun) -> pl.DataFrame:
    """Return how long TiDB's requests to its other servers take, and what Go itself takes.

    Medians over the runs of a curve. Columns: ``curve``, ``workload``, and those of
    :data:`~benchlab.engines.tidb.ROUND_TRIPS` that any run has counted; null: a run without such
    requests.
    """
    runs = _of_tidb(rerun, rerun.counted)
    curve = ["engine", "variant", "workload"]
    per_run = (
        rerun.of_runs(_GREW, runs)
        .group_by("run_id")
        .agg(
            (
                one.factor
                * pl.col("grew").filter(pl.col("name").str.contains(one.above)).sum()
                / pl.col("grew").filter(pl.col("name").str.contains(one.below)).sum()
            ).alias(name)
            for name, one in ROUND_TRIPS.items()
        )
        .join(runs.select("run_id", *curve), on="run_id")
        .with_columns(pl.col(*ROUND_TRIPS).fill_nan(None))
    )
    counted = [name for name in ROUND_TRIPS if per_run[name].count()]
    medians = per_run.group_by(curve).agg(pl.col(counted).median().round_sig_figs(3))
    found = points.in_order(with_curve(medians, rerun.study), rerun.study)
    return found.select("curve", points.named(rerun.study), *counted) if counted else found.clear()


def _of_tidb(rerun: Rerun, runs: pl.DataFrame) -> pl.DataFrame:
    engines = [name for name in rerun.study.engines if rerun.study.role(name) == TiDB.name]
    return runs.filter(pl.col("engine").is_in(engines))
