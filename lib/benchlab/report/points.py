"""Points from runs: medians over trials with their intervals, and the costs of a transaction."""

from collections.abc import Sequence
from typing import get_args

import polars as pl

from benchlab import stats
from benchlab.raw.record import Status
from benchlab.store import Store, results
from benchlab.store.results import POINT, Rerun
from benchlab.study import Study
from benchlab.study.resources import UNKNOWN

#: Metrics of the cost of a transaction.
COSTS = [
    "engine_cpu_us_per_transaction",
    "client_cpu_us_per_transaction",
    "written_kb_per_transaction",
    "read_kb_per_transaction",
    "context_switches_per_transaction",
]


def points(rerun: Rerun) -> pl.DataFrame:
    """Return one row per point: median throughput with its interval, latency, attribution.

    Columns: those of :data:`~benchlab.store.results.POINT`, ``n`` (trials that count for it),
    ``valid`` (whether they passed the gate), ``tps``, ``tps_low``, ``tps_high`` (95 %; null with a
    single trial), ``p99_us`` and ``client_cpu_percent`` (medians over trials), ``binding`` (resource
    that bound most of the trials; see :func:`bound_most`), ``binding_utilisation`` (mean over those
    trials), and ``curve`` for legends.
    """
    if rerun.counted.is_empty():
        return with_curve(pl.DataFrame(schema=_POINT_SCHEMA), rerun.study)
    per_run = (
        rerun.metrics.select("run_id", *POINT, "valid", "tps", "p99_us", "client_cpu_percent")
        .join(bound_by(rerun), on="run_id", how="left")
        .with_columns(pl.col("binding").fill_null(UNKNOWN))
        .sort(*POINT, "run_id")
    )
    rows = []
    for key, group in per_run.group_by(POINT, maintain_order=True):
        binding = bound_most(group)
        rows.append(
            dict(zip(POINT, key, strict=True))
            | {
                "p99_us": group["p99_us"].median(),
                "client_cpu_percent": group["client_cpu_percent"].median(),
                "binding": binding,
                "binding_utilisation": group.filter(pl.col("binding") == binding)[
                    "pressure"
                ].mean(),
            }
        )
    others = pl.DataFrame(rows, schema_overrides=_POINT_SCHEMA)
    joined = estimates(per_run, "tps").join(others, on=POINT, maintain_order="left")
    found = with_curve(joined.select(*_POINT_SCHEMA).cast(_POINT_SCHEMA), rerun.study)
    return in_order(found, rerun.study, "envelope", "concurrency")


def estimates(per_run: pl.DataFrame, metric: str, by: Sequence[str] = POINT) -> pl.DataFrame:
    """Return the median of a metric over the trials of each point, with its 95 % interval.

    Args:
        per_run: rows of runs, with the metric and ``valid``.
        metric: name of its column; runs without a value are left out.
        by: columns that distinguish points.

    Returns:
        The columns of ``by``, ``valid``, ``n`` (trials), the metric, and ``<metric>_low`` and
        ``<metric>_high``, null with a single trial.
    """
    groups = results.trials(per_run, metric, [*by, "valid"])
    priors = results.spreads(groups, metric)
    found = [
        stats.median(stats.Sample(values, priors[engine]))
        for engine, values in groups.select("engine", metric).iter_rows()
    ]
    return groups.select(
        *by,
        "valid",
        pl.Series("n", [one.n for one in found], pl.Int64),
        pl.Series(metric, [one.value for one in found], pl.Float64),
        pl.Series(f"{metric}_low", [one.low for one in found], pl.Float64),
        pl.Series(f"{metric}_high", [one.high for one in found], pl.Float64),
    )


def ratios(per_run: pl.DataFrame, metric: str, above: str, below: str) -> pl.DataFrame:
    """Return the ratio of a metric of two variants at each point that both have, with 95 % intervals.

    Args:
        per_run: rows of runs, with the metric and ``valid``; runs without a value are left out.
        metric: name of its column.
        above: variant of the numerator.
        below: variant of the denominator.

    Returns:
        The columns of a point without the variant; ``above`` and ``below`` (medians),
        ``ratio`` with ``low`` and ``high`` (null with a single trial); ``valid`` (both sides').
    """
    groups = results.trials(per_run, metric, [*POINT, "valid"])
    priors = results.spreads(groups, metric)
    on = [name for name in POINT if name != "variant"]
    both = (
        groups.filter(variant=above)
        .join(groups.filter(variant=below), on=on, suffix="_below", maintain_order="left")
        .cast({"concurrency": pl.Int64})
    )
    sides = [
        [
            stats.Sample(values, priors[engine])
            for engine, values in both.select("engine", of).rows()
        ]
        for of in (metric, f"{metric}_below")
    ]
    found = [stats.ratio(*pair) for pair in zip(*sides, strict=True)]
    return both.select(
        *on,
        pl.col(metric).list.median().alias("above"),
        pl.col(f"{metric}_below").list.median().alias("below"),
        pl.Series("ratio", [one.value for one in found], pl.Float64),
        pl.Series("low", [one.low for one in found], pl.Float64),
        pl.Series("high", [one.high for one in found], pl.Float64),
        pl.col("valid") & pl.col("valid_below"),
    )


def table(rerun: Rerun, metrics: Sequence[str]) -> pl.DataFrame:
    """Return the medians of metrics over the trials of each point, for reading, to three digits."""
    found = rerun.metrics.group_by(*POINT, "valid").agg(pl.col(*metrics).median()).sort(POINT)
    found = with_curve(found, rerun.study)
    return in_order(found, rerun.study, "envelope", "concurrency").select(
        "curve",
        named(rerun.study),
        "envelope",
        "concurrency",
        pl.col(*metrics).round_sig_figs(3),
        gate_passed(),
    )


def gate_passed() -> pl.Expr:
    """Return the column of tables that says whether a point passed the gate, from ``valid``."""
    return pl.col("valid").replace_strict({True: "yes", False: "no"}).alias("gate passed")


def cost_table(rerun: Rerun) -> pl.DataFrame:
    """Return :data:`COSTS` at every point for reading, with throughput and the CPU of the load."""
    return table(rerun, ("tps", "client_cpu_percent", *COSTS))


def overview(rerun: Rerun) -> pl.DataFrame:
    """Return one row per curve: version of the engine, clients, trials and how the runs ended.

    The table fits the width of a page. The column ``clients`` is a range, ``1–1024``. The column
    ``runs`` counts the runs by status: ``11 ok, 1 failed``.
    """
    clients, least, most = pl.col("concurrency"), pl.col("least"), pl.col("most")
    statuses = get_args(Status)
    curves = rerun.runs.group_by(
        "engine", pl.col("engine_version").alias("version"), "variant", "workload", "envelope"
    ).agg(
        clients.min().alias("least"),
        clients.max().alias("most"),
        pl.col("trial").n_unique().alias("trials"),
        *[(pl.col("status") == status).sum().alias(status) for status in statuses],
    )
    return in_order(curves, rerun.study, "envelope", "version").select(
        engine_named(rerun.study),
        "version",
        "variant",
        named(rerun.study),
        "envelope",
        pl.when(least < most)
        .then(pl.format("{}–{}", least, most))
        .otherwise(pl.format("{}", most))
        .alias("clients"),
        "trials",
        pl.concat_str(
            [
                pl.when(pl.col(status) > 0).then(pl.format(f"{{}} {status}", status))
                for status in statuses
            ],
            separator=", ",
            ignore_nulls=True,
        ).alias("runs"),
    )


def seconds(store: Store, run_ids: dict[str, str]) -> pl.DataFrame:
    """Return the seconds of runs, warm-up first, for :func:`benchlab.report.charts.seconds`.

    Args:
        store: the store.
        run_ids: name to show → run.
    """
    frames = [
        store.sql(
            """
            WITH warmup AS (
                SELECT run_id, round(min(begin_s) FILTER (phase = 'measure')
                    - min(begin_s) FILTER (phase = 'warmup'))::INTEGER AS seconds
                FROM phase GROUP BY run_id
            )
            SELECT ? AS run, phase, sum(tps) AS tps,
                "second" + CASE phase WHEN 'warmup' THEN 0 ELSE coalesce(seconds, 0) END AS "second"
            FROM "interval" LEFT JOIN warmup USING (run_id) WHERE run_id = ? GROUP BY ALL ORDER BY 4
            """,
            name,
            run_id,
        )
        for name, run_id in run_ids.items()
    ]
    return pl.concat(frames)


def not_counted(rerun: Rerun) -> pl.DataFrame:
    """Return the curves that lack runs, with the reason and the number of such runs.

    The ``status`` is *failed*, *refused*, *not run* if planned runs are missing, or *failed the gate*
    for runs with single writes, which no chart of points shows.
    """
    missing = pl.lit("the sweep was stopped, is still running, or left it out")
    not_run = rerun.not_run.select("engine", "variant", status=pl.lit("not run"), error=missing)
    columns = not_run.columns
    first_found = rerun.invalid_single_writes.unique("run_id", keep="first", maintain_order=True)
    invalid = rerun.last.join(first_found, on="run_id").select(
        "engine", "variant", status=pl.lit("failed the gate"), error=pl.col("found")
    )
    unfinished = rerun.last.filter(pl.col("status") != "ok").select(columns)
    found = pl.concat([unfinished, not_run, invalid]).group_by(columns).agg(pl.len().alias("runs"))
    return in_order(found, rerun.study, "status", "error").with_columns(engine_named(rerun.study))


def curved(rows: pl.DataFrame) -> list[str]:
    """Return the workloads with several client counts, for which a chart shows more than a table.

    Args:
        rows: points or runs of one envelope.
    """
    sizes = rows.group_by("workload", maintain_order=True).agg(
        pl.col("concurrency").n_unique().alias("clients")
    )
    return sizes.filter(pl.col("clients") > 1)["workload"].to_list()


def first_trials(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the run of the lowest trial number of each point."""
    return runs.sort("trial").unique(POINT, keep="first", maintain_order=True)


def with_curve(frame: pl.DataFrame, study: Study) -> pl.DataFrame:
    """Add the column that legends show: ``curve``, from ``engine`` and ``variant``."""
    names = [study.curve_label(*pair) for pair in frame.select("engine", "variant").iter_rows()]
    return frame.with_columns(pl.Series("curve", names, dtype=pl.String))


def in_order(frame: pl.DataFrame, study: Study, *then: str) -> pl.DataFrame:
    """Sort by engine, workload and variant in the order of the study's file, then by other columns."""
    variants = [name for spec in study.engines.values() for name in spec.variants]
    ranks = [
        pl.col(column).replace_strict(_ranks(names), default=len(names), return_dtype=pl.Int64)
        for column, names in (
            ("engine", list(study.engines)),
            ("workload", list(study.workloads)),
            ("variant", variants),
        )
        if column in frame.columns
    ]
    return frame.sort(*ranks, *then, maintain_order=True)


def engine_named(study: Study) -> pl.Expr:
    """Column ``engine`` as tables and charts print it."""
    return pl.col("engine").map_elements(study.label, return_dtype=pl.String)


def named(study: Study) -> pl.Expr:
    """Column ``workload`` as tables and charts print it."""
    return pl.col("workload").map_elements(study.workload_label, return_dtype=pl.String)


def _ranks(names: Sequence[str]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(dict.fromkeys(names))}


def bound_by(rerun: Rerun, runs: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return what bound each run: ``run_id``, ``binding``, ``pressure``, ``share``, ``evidence``.

    ``share`` is that of the measured time in which the resource bound.

    Args:
        rerun: the rerun.
        runs: rows of the runs; ``None``: the runs that count.
    """
    return rerun.of_runs(
        "SELECT run_id, resource AS binding, pressure, share, evidence FROM attribution"
        " SEMI JOIN chosen USING (run_id) WHERE binds ORDER BY run_id, resource",
        runs,
    )


def bound_most(trials: pl.DataFrame) -> str:
    """Return the resource that bound most trials of a point; of several, the one that bound longest.

    Args:
        trials: runs of the point, with ``binding`` and ``share``; see :func:`bound_by`.
    """
    by_resource = trials.group_by("binding").agg(pl.len().alias("trials"), pl.col("share").sum())
    order = ("trials", "share", "binding")
    return by_resource.sort(order, descending=[True, True, False])["binding"][0]


_POINT_SCHEMA = {
    "engine": pl.String,
    "variant": pl.String,
    "workload": pl.String,
    "envelope": pl.String,
    "concurrency": pl.Int64,
    "n": pl.Int64,
    "valid": pl.Boolean,
    "tps": pl.Float64,
    "tps_low": pl.Float64,
    "tps_high": pl.Float64,
    "p99_us": pl.Float64,
    "client_cpu_percent": pl.Float64,
    "binding": pl.String,
    "binding_utilisation": pl.Float64,
}
