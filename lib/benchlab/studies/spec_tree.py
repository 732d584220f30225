"""Tables of the recursive query's study, most from :func:`runs`, many beside what the article tells."""

from typing import Any

import polars as pl

from benchlab import drivers
from benchlab.claims import published
from benchlab.engines import engine_class
from benchlab.numbers import DIGITS, number
from benchlab.repo import Repo
from benchlab.report import charts, points
from benchlab.report.points import with_curve
from benchlab.report.sections import Content, Source, digits
from benchlab.report.theme import label
from benchlab.store import metrics
from benchlab.store.results import POINT, Rerun
from benchlab.studies import spec_tree_charts

STUDY = "spec_tree"

#: Workload → how the tables are laid out, and read.
LAYOUTS = {
    "spec_tree": "not partitioned",
    "spec_tree_partitioned": "partitioned",
    "spec_tree_scan": "not partitioned, scanned",
}

#: Metric of a latency → its name in tables and charts.
LATENCIES = {"p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9", "latency_max_us": "max"}

#: Relative width of a bucket of the histogram, which percentiles are no finer than.
RESOLUTION = drivers.driver("sysbench").resolution

#: Number of the trial that the article tells.
_TRIAL_REPORTED = 3

#: Table by what a plan of MariaDB calls it.
_ALIASES = {"r": "spec_relationship", "s": "specification"}


def scale(repo: Repo, rerun: Rerun) -> pl.DataFrame:
    """Return the ratios of the article's experiment beside those of a profile, as measured.

    Columns: ``ratio``, ``article``, ``ours``; null where the article does not tell.
    """
    runs = rerun.metrics
    if runs.is_empty():
        return pl.DataFrame(schema={"ratio": pl.String, "article": pl.Float64, "ours": pl.Float64})
    sizes = _sizes(repo, runs)
    most = runs["concurrency"].max()
    cores = runs["limit_cores"].max()
    dataset = rerun.study.profiles[rerun.profile].dataset
    rows: list[tuple[str, float | None, float | None]] = [
        (
            "rows of specification",
            published.number(repo, STUDY, "specification_rows"),
            dataset.rows,
        ),
        ("operators", published.number(repo, STUDY, "operators"), dataset.operators),
        (
            "connections : cores, at the most connections",
            published.read(repo, STUDY, "results")["concurrency"].max() / rerun.instance.cores,
            most / cores,
        ),
    ]
    pool = 128 << 20
    for row in sizes.filter(layout=LAYOUTS["spec_tree"]).iter_rows(named=True):
        told = row["article_mb"]
        rows.append(
            (
                f"dataset : pool of 128 MB, {label(row['engine'])}",
                told and told * 1e6 / pool,
                row["server_mb"] and row["server_mb"] * 1e6 / pool,
            )
        )
    return pl.DataFrame(rows, schema=["ratio", "article", "ours"], orient="row", strict=False)


def article_table(repo: Repo, runs: pl.DataFrame) -> pl.DataFrame:
    """Return the article's table in its own form, and under each of its rows these runs'.

    A cell is ``p99 / p99.9 / throughput``, in ms and queries per second: of the article's third trial
    its greatest throughput, here medians over all trials.
    """
    theirs = published.read(repo, STUDY, "results").select(
        "engine",
        "variant",
        "concurrency",
        pl.when("partitioned")
        .then(pl.lit("spec_tree_partitioned"))
        .otherwise(pl.lit("spec_tree"))
        .alias("workload"),
        pl.col("latency_p99_ms").alias("p99"),
        pl.col("latency_p999_ms").alias("p999"),
        pl.col("throughput_max_per_s").cast(pl.Float64).alias("tps"),
        pl.lit("article").alias("of"),
    )
    ours = (
        runs.group_by(POINT)
        .agg(pl.col("p99_us", "p999_us", "tps").median())
        .select(
            "engine",
            "variant",
            pl.col("concurrency").cast(theirs["concurrency"].dtype),
            "workload",
            (pl.col("p99_us") / 1000).alias("p99"),
            (pl.col("p999_us") / 1000).alias("p999"),
            "tps",
            pl.lit("here").alias("of"),
        )
    )
    both = pl.concat([theirs, ours]).with_columns(
        pl.struct("p99", "p999", "tps")
        .map_elements(_cell, return_dtype=pl.String, skip_nulls=False)
        .alias("cell")
    )
    connections = [str(one) for one in sorted(both["concurrency"].unique())]
    return (
        both.with_columns(_order(both), _layout())
        .sort("order", "workload", "variant", "of", "concurrency")
        .pivot(
            on="concurrency",
            index=["engine", "variant", "layout", "of"],
            values="cell",
            maintain_order=True,
        )
        .with_columns(_named("engine"))
        .select("engine", "variant", "layout", "of", *connections)
    )


def latencies(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the latencies of each point over its trials, a row per point and percentile.

    Columns: ``curve``, ``engine``, ``variant``, ``workload``, ``layout``, ``concurrency``,
    ``percentile`` (one of :data:`LATENCIES`), ``ms``, ``ms_low``, ``ms_high`` (95 %; null with a single
    trial), ``n``.
    """
    return _latencies(runs, POINT)


def latency_table(latencies: pl.DataFrame) -> pl.DataFrame:
    """Return :func:`latencies` for reading: a row per point, ``1.23 [1.10–1.38]`` per percentile."""
    found = latencies.with_columns(
        pl.struct("ms", "ms_low", "ms_high")
        .map_elements(_with_interval, return_dtype=pl.String)
        .alias("text")
    )
    index = ["curve", "layout", "concurrency"]
    if found.is_empty():
        return pl.DataFrame(schema=dict.fromkeys((*index, *LATENCIES.values()), pl.String))
    return found.pivot(on="percentile", index=index, values="text", maintain_order=True)


def third_trial(runs: pl.DataFrame) -> pl.DataFrame:
    """Return what taking the third trial does: its throughput over the median of all, by curve.

    Columns: ``curve``, ``layout``, ``least`` and ``greatest`` (of the ratio over connections), ``best``
    (points at which the third is the fastest of all), ``points``.
    """
    by_point = runs.group_by(POINT).agg(
        pl.col("tps").filter(pl.col("trial") == _TRIAL_REPORTED).first().alias("third"),
        pl.col("tps").median().alias("median"),
        pl.col("tps").max().alias("most"),
    )
    return (
        with_curve(by_point.drop_nulls("third"))
        .with_columns(_layout(), (pl.col("third") / pl.col("median")).alias("ratio"))
        .group_by("curve", "layout")
        .agg(
            pl.col("ratio").min().round(3).alias("least"),
            pl.col("ratio").max().round(3).alias("greatest"),
            (pl.col("third") == pl.col("most")).sum().alias("best"),
            pl.len().alias("points"),
        )
        .sort("curve", "layout")
    )


def cpu(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the CPU of engine and load generator in each point, in percent of all cores; medians.

    Columns: ``curve``, ``engine``, ``variant``, ``layout``, ``concurrency``, ``engine_cpu_percent``,
    ``client_cpu_percent``, ``cpu_ms_per_query`` (of the engine).
    """
    found = runs.group_by(POINT).agg(
        pl.col("engine_cpu_percent", "client_cpu_percent", "engine_cpu_us_per_transaction").median()
    )
    return (
        with_curve(found)
        .with_columns(_layout(), _order(found))
        .sort("order", "workload", "variant", "concurrency")
        .select(
            "curve",
            "engine",
            "variant",
            "layout",
            "concurrency",
            pl.col("engine_cpu_percent", "client_cpu_percent").round(1),
            (pl.col("engine_cpu_us_per_transaction") / 1000).alias("cpu_ms_per_query"),
        )
    )


def waits(rerun: Rerun) -> pl.DataFrame:
    """Return what the sessions were seen to do at the most connections: share of looks by class.

    One row per engine, variant, layout, class and name of the wait as the engine tells it; those of
    less than 2 % are left out.
    """
    most = rerun.counted.filter(pl.col("concurrency") == pl.col("concurrency").max())
    looks = rerun.of_runs(
        "SELECT run_id, wait_class, wait, sessions FROM engine_wait SEMI JOIN chosen USING (run_id)",
        most,
    )
    joined = looks.join(most.select("run_id", *POINT), on="run_id")
    of_point = ["engine", "variant", "workload"]
    shares = (
        joined.group_by(*of_point, "wait_class", "wait")
        .agg(pl.col("sessions").sum())
        .with_columns((pl.col("sessions") / pl.col("sessions").sum().over(of_point)).alias("share"))
        .filter(pl.col("share") >= 0.02)
    )
    return (
        with_curve(shares)
        .with_columns(_layout(), _order(shares))
        .sort("order", "workload", "variant", "share", descending=[False] * 3 + [True])
        .select("curve", "layout", "wait_class", "wait", pl.col("share").round(2))
    )


def footprint(repo: Repo, runs: pl.DataFrame) -> pl.DataFrame:
    """Return what the dataset takes of the disk, in MB, by engine and layout.

    Columns: ``engine``, ``layout``, ``article``; ``tables`` (as the server tells), ``data directory``
    (log, system tables and free space included, as the disk tells).
    """
    found = _sizes(repo, runs)
    return found.with_columns(_named("engine")).select(
        "engine",
        "layout",
        pl.col("article_mb").alias("article"),
        pl.col("server_mb").round(1).alias("tables"),
        pl.col("directory_mb").round(1).alias("data directory"),
    )


def plans(rerun: Rerun) -> pl.DataFrame:
    """Return how each curve's plan reads the two tables: by which index, how often, how many rows.

    The query whose plan is kept is the same for all. Columns: ``curve``, ``layout``, ``relationships``
    and ``specifications`` (for reading), ``rows`` (that the query reads of both).
    """
    counted = rerun.counted.select("run_id", "engine", *POINT[1:])
    kept = rerun.of_runs("SELECT run_id, plan FROM query_plan SEMI JOIN chosen USING (run_id)")
    joined = kept.join(counted, on="run_id").sort("run_id")
    rows = []
    for key, group in joined.group_by("engine", "variant", "workload", maintain_order=True):
        run = group.row(0, named=True)
        accesses = engine_class(rerun.study.role(run["engine"])).accesses(run["plan"])
        of_table: dict[str, Any] = {"spec_relationship": [], "specification": []}
        for one in accesses:
            table = _ALIASES.get(one.table, one.table)
            name = next(name for name in of_table if table.startswith(name))
            how = f"index {one.index}" if one.index else "scan"
            of_table[name].append(f"{how}, {one.loops:,} × {one.rows / one.loops:,.0f} rows")
        rows.append(
            dict(zip(("engine", "variant", "workload"), key, strict=True))
            | {
                "relationships": "; ".join(of_table["spec_relationship"]),
                "specifications": "; ".join(of_table["specification"]),
                "rows": sum(one.rows for one in accesses),
            }
        )
    schema = dict.fromkeys(
        ("engine", "variant", "workload", "relationships", "specifications"), pl.String
    )
    frame = pl.DataFrame(rows, schema={**schema, "rows": pl.Int64})
    return (
        with_curve(frame)
        .with_columns(_layout(), _order(frame))
        .sort("order", "workload", "variant")
        .select("curve", "layout", "relationships", "specifications", "rows")
    )


def partitions_or_plan(runs: pl.DataFrame, plans: pl.DataFrame) -> pl.DataFrame:
    """Return PostgreSQL's throughput by layout and by plan, at the fewest connections.

    Columns: ``curve``, ``layout``, ``specifications`` (how the plan reads them), ``rows`` (that it
    reads), ``queries per s``.
    """
    of_engine = runs.filter(engine="postgres")
    fewest = of_engine.filter(pl.col("concurrency") == pl.col("concurrency").min())
    tps = with_curve(fewest).with_columns(_layout()).group_by("curve", "layout")
    return (
        plans.join(tps.agg(pl.col("tps").median().alias("queries per s")), on=["curve", "layout"])
        .drop("relationships")
        .sort("layout", "queries per s")
    )


def pool_or_plan(repo: Repo, runs: pl.DataFrame) -> pl.DataFrame:
    """Return MariaDB's throughput by how the table is read and by the pool, at the fewest connections.

    Columns: ``read``, ``pool of 128 MB``, ``large pool``, ``large : small``; the article's own pair is
    the last row.
    """
    of_engine = runs.filter(engine="mariadb")
    fewest = of_engine.filter(pl.col("concurrency") == pl.col("concurrency").min())
    tps = {key: group["tps"].median() for key, group in fewest.group_by("workload", "variant")}
    found = [
        (how, tps.get((workload, "default")), tps.get((workload, "tuned")))
        for workload, how in (
            ("spec_tree", "by index"),
            ("spec_tree_partitioned", "by index, partitioned"),
            ("spec_tree_scan", "by a scan of the whole table"),
        )
        if (workload, "default") in tps
    ]
    theirs = published.read(repo, STUDY, "results").filter(
        engine="mariadb", partitioned=False, concurrency=10
    )
    told = dict(theirs.select("variant", "throughput_max_per_s").iter_rows())
    found.append(("article, not partitioned", float(told["default"]), float(told["tuned"])))
    schema = {"read": pl.String, "pool of 128 MB": pl.Float64, "large pool": pl.Float64}
    return pl.DataFrame(found, schema=schema, orient="row").with_columns(
        (pl.col("large pool") / pl.col("pool of 128 MB")).alias("large : small")
    )


def open_loop(rerun: Rerun) -> pl.DataFrame:
    """Return the latencies at shares of each engine's peak, requests due at times of their own.

    Columns: those of :func:`latencies`, ``share_of_peak``, ``due_per_s`` and ``tps`` (medians).
    """
    per_run = metrics.of(rerun.store, rerun.open_loop)
    at = [*POINT, "share_of_peak"]
    rates = per_run.group_by(at).agg(pl.col("rate_per_s", "tps").median())
    return (
        _latencies(per_run, at)
        .join(
            rates, on=["engine", "variant", "workload", "concurrency", "share_of_peak"], how="left"
        )
        .rename({"rate_per_s": "due_per_s"})
        .sort("curve", "share_of_peak", maintain_order=True)
    )


def _latencies(per_run: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    frames = [
        points.estimates(per_run, metric, by).select(
            *by,
            "n",
            pl.lit(name).alias("percentile"),
            *(
                (pl.col(f"{metric}{bound}") / 1000).alias(f"ms{bound}")
                for bound in ("", "_low", "_high")
            ),
        )
        for metric, name in LATENCIES.items()
    ]
    found = pl.concat(frames)
    return (
        with_curve(found)
        .with_columns(_layout(), _order(found))
        .sort("order", "workload", "variant", "concurrency", maintain_order=True)
        .drop("order", "envelope")
    )


def _sizes(repo: Repo, runs: pl.DataFrame) -> pl.DataFrame:
    told = {
        engine: published.number(repo, STUDY, f"{engine}_footprint")
        for engine in ("postgres", "mysql", "mariadb")
    }
    found = (
        runs.filter(pl.col("workload").is_in(list(LAYOUTS)[:2]))
        .group_by("engine", "workload")
        .agg(
            (pl.col("dataset_bytes").median() / 1e6).alias("server_mb"),
            (pl.col("data_dir_bytes").median() / 1e6).alias("directory_mb"),
        )
    )
    return (
        found.with_columns(
            _layout(),
            _order(found),
            pl.col("engine").replace_strict(told, default=None).alias("article_mb"),
        )
        .sort("order", "workload")
        .drop("order", "workload")
    )


def _cell(row: dict[str, float | None]) -> str:
    if row["tps"] is None:
        return "N/A"
    return f"{row['p99']:.3f} / {row['p999']:.3f} / {row['tps']:,.0f}"


def _with_interval(row: dict[str, float | None]) -> str:
    text = number(row["ms"])
    if row["ms_low"] is None:
        return text
    return f"{text} [{number(row['ms_low'])}–{number(row['ms_high'])}]"


def _layout() -> pl.Expr:
    return pl.col("workload").replace_strict(LAYOUTS).alias("layout")


def _order(frame: pl.DataFrame) -> pl.Series:
    """Where each row's engine stands: as in the article, PostgreSQL first."""
    order = {name: rank for rank, name in enumerate(("postgres", "postgres15", "mysql", "mariadb"))}
    return pl.Series("order", [order[engine] for engine in frame["engine"]], dtype=pl.Int64)


def _named(column: str) -> pl.Expr:
    return pl.col(column).map_elements(label, return_dtype=pl.String)


def article_law(repo: Repo) -> pl.DataFrame:
    """Return each cell's least mean latency by Little's law beside its own percentiles.

    In a closed loop without pauses the mean latency is connections / throughput; of the greatest
    throughput it is the least that the mean can be. ``fits``: the mean does not lie above the p99.
    ``busy``: connections that can have been at work at a time, throughput × p99 at most.
    """
    mean = 1000 * pl.col("concurrency") / pl.col("throughput_max_per_s")
    return (
        published.read(repo, STUDY, "results")
        .drop_nulls("throughput_max_per_s")
        .select(
            "engine",
            "variant",
            "partitioned",
            pl.col("concurrency").alias("connections"),
            pl.col("throughput_max_per_s").alias("per_s"),
            mean.round_sig_figs(DIGITS).alias("mean_ms"),
            pl.col("latency_p99_ms").alias("p99_ms"),
            pl.col("latency_p999_ms").alias("p999_ms"),
            (mean <= pl.col("latency_p99_ms")).alias("fits"),
            pl.min_horizontal(
                "concurrency", pl.col("throughput_max_per_s") * pl.col("latency_p99_ms") / 1000
            )
            .round(1)
            .alias("busy"),
        )
    )


def article_ratios(repo: Repo) -> pl.DataFrame:
    """Return ratios of throughput that the article tells or leaves out, a column per connections."""
    results = published.read(repo, STUDY, "results")
    curve = {
        key: group.select("concurrency", "throughput_max_per_s")
        for key, group in results.group_by("engine", "variant", "partitioned")
    }
    asked = {
        "PostgreSQL : MariaDB tuned, not partitioned": (
            ("postgres", "default", False),
            ("mariadb", "tuned", False),
        ),
        "MariaDB : PostgreSQL, partitioned": (
            ("mariadb", "default", True),
            ("postgres", "default", True),
        ),
        "PostgreSQL, partitioned : not": (
            ("postgres", "default", True),
            ("postgres", "default", False),
        ),
        "MySQL, partitioned : not": (("mysql", "default", True), ("mysql", "default", False)),
        "MariaDB, partitioned : not": (
            ("mariadb", "default", True),
            ("mariadb", "default", False),
        ),
    }
    rows = []
    for what, (over, under) in asked.items():
        both = curve[over].join(curve[under], on="concurrency", suffix="_under").sort("concurrency")
        above, below = both["throughput_max_per_s"], both["throughput_max_per_s_under"]
        at = dict(zip(map(str, both["concurrency"]), above / below, strict=True))
        whole = below.null_count() == 0
        rows.append(
            {"ratio": what, **at, "of the peaks": above.max() / below.max() if whole else None}
        )
    return pl.DataFrame(rows).with_columns(pl.selectors.numeric().round_sig_figs(DIGITS))


def section(source: Source) -> Content:
    """Gather what ``paper/sections/spec_tree.md`` places of its own."""
    repo, rerun, measured = source.repo, source.rerun, source.measured
    counted = rerun.metrics
    used, latency = cpu(counted), latencies(counted)
    read = plans(rerun)
    due = open_loop(rerun)
    made = Content({"resolution": RESOLUTION})
    for workload, name in (("spec_tree", "whole"), ("spec_tree_partitioned", "partitioned")):
        if workload in measured["workload"]:
            made.figures[f"throughput-{name}"] = charts.throughput(
                measured, workload, clients="connections"
            )
            made.figures[f"latency-{name}"] = spec_tree_charts.latency(latency, workload)
    made.figures["cpu"] = spec_tree_charts.cpu(used.filter(variant="default"))
    if not due.is_empty():
        made.figures["open-loop"] = spec_tree_charts.open_loop(due)
    made.tables = {
        "scale": digits(scale(repo, rerun), "article", "ours"),
        "article": article_table(repo, counted),
        "latencies": latency_table(latency),
        "third-trial": third_trial(counted),
        "waits": waits(rerun),
        "plans": read,
        "partitions-or-plan": partitions_or_plan(counted, read),
        "pool-or-plan": digits(
            pool_or_plan(repo, counted),
            "pool of 128 MB",
            "large pool",
            "large : small",
        ),
        "footprint": footprint(repo, counted),
    }
    return made
