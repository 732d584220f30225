"""What TiDB's servers say of themselves: work that nobody asked for, what a request waits for, and how
transactions are committed."""

import polars as pl

from benchlab.engines.tidb import COMMITS, OWN_WORK, REGIONS_WRITTEN, ROUND_TRIPS, PerRequest, TiDB
from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import Rerun

_GREW = (
    "SELECT run_id, name, at_end - coalesce(at_begin, 0) AS grew FROM engine_counter"
    " SEMI JOIN chosen USING (run_id) WHERE at_end IS NOT NULL"
)


_REGIONS = (
    'SELECT run_id, at_end AS "regions of the dataset" FROM engine_counter'
    " SEMI JOIN chosen USING (run_id) WHERE name = 'regions'"
)

#: What names the curve of a run.
_CURVE = ("engine", "variant", "workload")


def own_work(rerun: Rerun) -> pl.DataFrame:
    """Return the work that TiDB did on its own during the runs that count, by what was run.

    Columns: ``workload`` (its kind: *reads*, *writes*, *single writes*), ``runs`` (with stored
    counters), and for each kind of work the number of these runs in which it was done.
    """
    writing = [name for name, one in rerun.study.workloads.items() if one.writes]
    kind = pl.when(pl.col("intervention").is_not_null()).then(pl.lit("single writes"))
    kind = kind.when(pl.col("workload").is_in(writing)).then(pl.lit("writes"))
    runs = _of_tidb(rerun, pl.concat([rerun.counted, rerun.single_writes]))
    runs = runs.select("run_id", kind.otherwise(pl.lit("reads")).alias("workload"))
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
        .group_by("workload")
        .agg(pl.col("run_id").n_unique().alias("runs"), *done)
        .sort("workload")
    )


def round_trips(rerun: Rerun) -> pl.DataFrame:
    """Return how long TiDB's requests to its other servers take, and what Go itself takes.

    Medians over the runs that represent a curve's points. Columns: ``curve``, ``workload``, and those
    of :data:`~benchlab.engines.tidb.ROUND_TRIPS` that any run has counted; null: a run without such
    requests.
    """
    runs = _of_tidb(rerun, rerun.metrics)
    per_run = (
        rerun.of_runs(_GREW, runs)
        .group_by("run_id")
        .agg(_ratio(one).alias(name) for name, one in ROUND_TRIPS.items())
    )
    return _medians(rerun, per_run, runs, list(ROUND_TRIPS))


def commits(rerun: Rerun) -> pl.DataFrame:
    """Return to how many regions TiDB's transactions write, and how they are committed.

    Transactions of the server's own are among them. Medians over the runs that represent the points of
    a curve that writes. Columns: ``curve``, ``workload``, ``regions of the dataset``,
    ``regions of a transaction``, and the share of transactions (%) for each of
    :data:`~benchlab.engines.tidb.COMMITS`.
    """
    writing = [name for name, one in rerun.study.workloads.items() if one.writes]
    runs = _of_tidb(rerun, rerun.metrics).filter(pl.col("workload").is_in(writing))
    committed = pl.sum_horizontal(_growth(pattern) for pattern in COMMITS.values())
    shares = {f"{how} (%)": 100 * _growth(pattern) / committed for how, pattern in COMMITS.items()}
    regions = {"regions of a transaction": _ratio(REGIONS_WRITTEN)}
    per_run = (
        rerun.of_runs(_GREW, runs)
        .group_by("run_id")
        .agg(one.alias(name) for name, one in (regions | shares).items())
        .join(rerun.of_runs(_REGIONS, runs), on="run_id", how="left")
    )
    return _medians(rerun, per_run, runs, ["regions of the dataset", *regions, *shares])


def _growth(pattern: str) -> pl.Expr:
    """Return by how much the counters grew whose name matches a regular expression."""
    return pl.col("grew").filter(pl.col("name").str.contains(pattern)).sum()


def _ratio(one: PerRequest) -> pl.Expr:
    return one.factor * _growth(one.above) / _growth(one.below)


def _medians(
    rerun: Rerun, per_run: pl.DataFrame, runs: pl.DataFrame, names: list[str]
) -> pl.DataFrame:
    """Return the medians over the runs of each curve, of the numbers that any run has."""
    of_curves = per_run.join(runs.select("run_id", *_CURVE), on="run_id").with_columns(
        pl.col(names).fill_nan(None)
    )
    counted = [name for name in names if of_curves[name].count()]
    medians = of_curves.group_by(_CURVE).agg(pl.col(counted).median().round_sig_figs(3))
    found = points.in_order(with_curve(medians, rerun.study), rerun.study)
    return found.select("curve", points.named(rerun.study), *counted) if counted else found.clear()


def _of_tidb(rerun: Rerun, runs: pl.DataFrame) -> pl.DataFrame:
    engines = [name for name in rerun.study.engines if rerun.study.role(name) == TiDB.name]
    return runs.filter(pl.col("engine").is_in(engines))
