"""Content that only the section on the recursive query has."""

import altair as alt
import polars as pl

from benchlab.claims import published
from benchlab.numbers import DIGITS
from benchlab.repo import Repo
from benchlab.report import (
    article_charts,
    charts,
    cpu,
    footprint,
    latencies,
    open_loop,
    points,
    theme,
    waits,
)
from benchlab.report import plans as query_plans
from benchlab.report.points import with_curve
from benchlab.report.sections import Content, Source, digits
from benchlab.store.results import POINT, Rerun

STUDY = "spec_tree"

#: Number of the trial that the article reports.
_TRIAL_REPORTED = 3

#: Variant of MySQL → the version whose defaults its file access and hash index are.
_DEFAULTS = {"default": "8.0", "direct": "8.4 and later"}

#: Variant of MariaDB → its buffer pool. A small one is as small as the article's 128 MB were against
#: the dataset: against tables, or against whole data directories.
_POOLS = {
    "default": "small by tables",
    "by_directory": "small by directory",
    "tuned": "large",
}

#: Alias in a plan of MariaDB → table.
_ALIASES = {"r": "spec_relationship", "s": "specification"}


def article_table(repo: Repo, rerun: Rerun) -> pl.DataFrame:
    """Return the article's table in its own form, and a row of these runs under each of its rows.

    A cell is ``p99 / p99.9 / throughput``, in ms and queries per second. The article reports its third
    trial, with the greatest throughput in it; the values here are medians over all trials. Values that
    did not pass the gate are in square brackets.
    """
    theirs = published.read(repo, STUDY, "results").select(
        "engine",
        "variant",
        "concurrency",
        "workload",
        pl.col("latency_p99_ms").alias("p99"),
        pl.col("latency_p999_ms").alias("p999"),
        pl.col("throughput_max_per_s").cast(pl.Float64).alias("tps"),
        pl.lit("article").alias("of"),
        pl.lit(value=True).alias("valid"),
    )
    ours = (
        rerun.metrics.group_by(*POINT, "valid")
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
            "valid",
        )
    )
    both = pl.concat([theirs, ours]).with_columns(
        pl.struct("p99", "p999", "tps", "valid")
        .map_elements(_cell, return_dtype=pl.String, skip_nulls=False)
        .alias("cell")
    )
    connections = [str(one) for one in sorted(both["concurrency"].unique())]
    return (
        points.in_order(both, rerun.study, "of", "concurrency")
        .with_columns(_layout(rerun))
        .pivot(
            on="concurrency",
            index=["engine", "variant", "layout", "of"],
            values="cell",
            maintain_order=True,
        )
        .with_columns(points.engine_named(rerun.study))
        .select("engine", "variant", "layout", "of", *connections)
    )


def third_trial(rerun: Rerun) -> pl.DataFrame:
    """Return the effect of reporting the third trial: its throughput over the median of all, by curve.

    Columns: ``curve``, ``layout``, ``least`` and ``greatest`` (of the ratio over connections), ``best``
    (points at which the third is the fastest of all), ``points``.
    """
    by_point = (
        rerun.metrics.filter("valid")
        .group_by(POINT)
        .agg(
            pl.col("tps").filter(pl.col("trial") == _TRIAL_REPORTED).first().alias("third"),
            pl.col("tps").median().alias("median"),
            pl.col("tps").max().alias("most"),
        )
    )
    return (
        with_curve(by_point.drop_nulls("third"), rerun.study)
        .with_columns(_layout(rerun), (pl.col("third") / pl.col("median")).alias("ratio"))
        .group_by("curve", "layout")
        .agg(
            pl.col("ratio").min().round(3).alias("least"),
            pl.col("ratio").max().round(3).alias("greatest"),
            (pl.col("third") == pl.col("most")).sum().alias("best"),
            pl.len().alias("points"),
        )
        .sort("curve", "layout")
    )


def plans(rerun: Rerun) -> pl.DataFrame:
    """Return how each curve's plan reads the two tables; see :func:`benchlab.report.plans.table`.

    Columns: ``curve``, ``layout``, ``relationships`` and ``specifications`` (both as text), ``rows``.
    """
    names = {"spec_relationship": "relationships", "specification": "specifications"}
    found = query_plans.table(rerun, list(names), _ALIASES)
    return found.rename({**names, "workload": "layout"})


def partitions_or_plan(rerun: Rerun, plans: pl.DataFrame) -> pl.DataFrame:
    """Return PostgreSQL's throughput by layout and by plan, at the fewest connections that passed.

    Columns: ``curve``, ``layout``, ``specifications`` (how the plan reads them), ``rows`` (that it
    reads), ``queries per s``.
    """
    of_engine = rerun.metrics.filter("valid", engine="postgres")
    fewest = of_engine.filter(pl.col("concurrency") == pl.col("concurrency").min())
    tps = with_curve(fewest, rerun.study).with_columns(_layout(rerun)).group_by("curve", "layout")
    return (
        plans.join(
            tps.agg(pl.col("tps").median().round_sig_figs(4).alias("queries per s")),
            on=["curve", "layout"],
        )
        .drop("relationships")
        .sort("layout", "queries per s")
    )


def pool_or_plan(repo: Repo, rerun: Rerun) -> pl.DataFrame:
    """Return MariaDB's throughput by how it reads the table and by the pool, at the fewest connections.

    Points that did not pass the gate are left out. Columns: ``read``, the pools of :data:`_POOLS`, and
    the large one over each small one. The last row is the article's own pair, with 128 MB as the small
    pool, whatever it counted.
    """
    of_engine = rerun.metrics.filter("valid", engine="mariadb")
    fewest = of_engine.filter(pl.col("concurrency") == pl.col("concurrency").min())
    tps = {key: group["tps"].median() for key, group in fewest.group_by("workload", "variant")}
    found = [
        (how, *(tps.get((workload, variant)) for variant in _POOLS))
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
    peaks = dict(theirs.select("variant", "throughput_max_per_s").iter_rows())
    theirs = [float(peaks[variant]) for variant in ("default", "default", "tuned")]
    found.append(("article, not partitioned", *theirs))
    *small, large = _POOLS.values()
    schema = {"read": pl.String} | dict.fromkeys((*small, large), pl.Float64)
    return pl.DataFrame(found, schema=schema, orient="row").with_columns(
        pl.col(*small, large).round_sig_figs(4),
        *(
            (pl.col(large) / pl.col(name)).round_sig_figs(3).alias(f"{large} : {name}")
            for name in small
        ),
    )


def file_access(rerun: Rerun) -> pl.DataFrame:
    """Return what MySQL's file access and hash index are worth with a small pool, by connections.

    Columns: ``connections``, ``defaults of`` (the version whose defaults they are), ``queries per s``,
    ``read from disk (kB per query)``, ``CPU of the engine (%)``, ``gate passed``. Empty if the variant
    with the newer defaults was not run.
    """
    of_engine = rerun.metrics.filter(
        pl.col("variant").is_in(list(_DEFAULTS)), engine="mysql", workload="spec_tree"
    )
    both = of_engine.filter(pl.col("variant").n_unique().over("concurrency") == len(_DEFAULTS))
    medians = {
        "tps": "queries per s",
        "read_kb_per_transaction": "read from disk (kB per query)",
        "engine_cpu_percent": "CPU of the engine (%)",
    }
    return (
        both.group_by("concurrency", "variant", "valid")
        .agg(pl.col(name).median().round_sig_figs(3).alias(to) for name, to in medians.items())
        .sort("concurrency", "variant")
        .select(
            pl.col("concurrency").alias("connections"),
            pl.col("variant").replace_strict(_DEFAULTS).alias("defaults of"),
            *medians.values(),
            points.gate_passed(),
        )
    )


def _cell(row: dict[str, float | None]) -> str:
    if row["tps"] is None:
        return "N/A"
    cell = f"{row['p99']:.3f} / {row['p999']:.3f} / {row['tps']:,.0f}"
    return cell if row["valid"] else f"[{cell}]"


def _layout(rerun: Rerun) -> pl.Expr:
    return points.named(rerun.study).alias("layout")


def article_law(repo: Repo) -> pl.DataFrame:
    """Return the least mean latency of each cell by Little's law, beside the cell's own percentiles.

    In a closed loop without pauses the mean latency is connections / throughput, so the greatest
    throughput gives the least mean. ``fits``: the mean is not above the p99. ``busy``: the most
    connections that can have been at work at a time, throughput × p99.
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
    """Return throughput ratios that the article states or leaves out, a column per connection count."""
    results = published.read(repo, STUDY, "results")
    curve = {
        key: group.select("concurrency", "throughput_max_per_s")
        for key, group in results.group_by("engine", "variant", "partitioned")
    }
    ratios = {
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
    for what, (over, under) in ratios.items():
        both = curve[over].join(curve[under], on="concurrency", suffix="_under").sort("concurrency")
        above, below = both["throughput_max_per_s"], both["throughput_max_per_s_under"]
        at = dict(zip(map(str, both["concurrency"]), above / below, strict=True))
        whole = below.null_count() == 0
        rows.append(
            {"ratio": what, **at, "of the peaks": above.max() / below.max() if whole else None}
        )
    return pl.DataFrame(rows).with_columns(pl.selectors.numeric().round_sig_figs(DIGITS))


def article_throughput(repo: Repo) -> alt.FacetChart:
    """Return charts of each engine's greatest throughput against connections, by partitioning."""
    layout = pl.when("partitioned").then(pl.lit("partitioned by operator"))
    frame = (
        published.read(repo, STUDY, "results")
        .drop_nulls("throughput_max_per_s")
        .with_columns(
            curve=article_charts.curve(theme.label),
            layout=layout.otherwise(pl.lit("not partitioned")),
        )
    )
    base = article_charts.base(frame["concurrency"], "connections").encode(
        y=alt.Y("throughput_max_per_s:Q", title=None),
        tooltip=["curve:N", "concurrency:Q", alt.Tooltip("throughput_max_per_s:Q", format=",.0f")],
    )
    pairs = frame.select("engine", "variant").unique(maintain_order=True).rows()
    curves = theme.curves(base, [theme.style(*pair) for pair in pairs])
    return article_charts.facets(curves, frame, "layout", "Greatest throughput (queries/s)")


def claimed_cpu(rerun: Rerun) -> pl.DataFrame:
    """Return the CPU of the curves about whose CPU the article says something; see :func:`cpu.used`."""
    is_claimed = (pl.col("engine") == "mariadb") == (pl.col("variant") == "tuned")
    return cpu.used(rerun).filter(pl.col("variant").is_in(["default", "tuned"]) & is_claimed)


def section(source: Source) -> Content:
    """Return the content that ``paper/sections/spec_tree.md`` shows beyond the common content."""
    repo, rerun, measured = source.repo, source.rerun, source.measured
    study, latency, read = rerun.study, latencies.latencies(rerun), plans(rerun)
    due, pools = open_loop.open_loop(rerun), pool_or_plan(repo, rerun)
    made = Content({"resolution": latencies.resolution(study)})
    for workload, name in (("spec_tree", "whole"), ("spec_tree_partitioned", "partitioned")):
        if workload in measured["workload"]:
            made.figures[f"throughput-{name}"] = charts.throughput(study, measured, workload)
            made.figures[f"latency-{name}"] = latencies.chart(study, latency, workload)
    used = claimed_cpu(rerun)
    if not used.is_empty():
        made.figures["cpu"] = cpu.chart(study, used)
    if not due.is_empty():
        made.figures["open-loop"] = open_loop.chart(study, due)
    made.tables = {
        "article": article_table(repo, rerun),
        "latencies": latencies.table(rerun),
        "third-trial": third_trial(rerun),
        "missed": open_loop.missed(rerun),
        "waits": waits.table(rerun),
        "plans": read,
        "partitions-or-plan": partitions_or_plan(rerun, read),
        "pool-or-plan": digits(pools, *pools.columns[1:]),
        "file-access": file_access(rerun),
        "footprint": footprint.table(rerun),
    }
    return made
