"""The article on cached tables: its numbers computed again, and those of the rerun beside them."""

from statistics import mean

import altair as alt
import numpy as np
import polars as pl

from benchlab import stats
from benchlab.claims import published
from benchlab.numbers import MINUS, NOTHING, rounded
from benchlab.repo import Repo
from benchlab.report import (
    article_charts,
    evidence,
    lease_charts,
    leases,
    outcomes,
    points,
    theme,
)
from benchlab.report.sections import Content, Source, digits
from benchlab.store import metrics
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE

STUDY = "cached_tables"

#: Statements of a mix's transaction besides its point selects: inserts and deletes; range queries.
_WRITES, _RANGES = 20, 4

#: Axis of ratios, whose marks are about equally spaced on a logarithmic scale.
_RATIOS = alt.Axis(values=[0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6], grid=True)


def ratios(repo: Repo) -> pl.DataFrame:
    """Return the throughput of a cached table over that of a plain one at each of the 80 points.

    Columns: ``kind`` (reads, mixes), ``rows_per_table``, ``workload``, ``concurrency``, ``plain``,
    ``cached`` (1/s), ``ratio``, ``published`` and ``found`` (gain in %, cut off after two decimals as
    in the article), ``other`` (gain over the plain table of the other size).
    """
    reads = published.read(repo, STUDY, "read"), "read_gain", pl.col("script")
    selects = pl.format("{} point selects", pl.col("point_selects"))
    mixes = published.read(repo, STUDY, "mixed"), "mixed_gain", selects
    frames = []
    for kind, (qps, gains, workload) in (("reads", reads), ("mixes", mixes)):
        point = ["rows_per_table", "workload", "concurrency"]
        wide = qps.with_columns(workload=workload).pivot(on="variant", index=point, values="qps")
        theirs = published.read(repo, STUDY, gains).with_columns(workload=workload)
        sizes = wide["rows_per_table"].unique().sort().to_list()
        other = wide.select(
            pl.col("rows_per_table").replace(sizes, sizes[::-1]), *point[1:], other="plain"
        )
        frames.append(
            wide.join(
                theirs.select(*point, published="gain_percent"), on=point, maintain_order="left"
            )
            .join(other, on=point, maintain_order="left")
            .select(
                pl.lit(kind).alias("kind"),
                *point,
                "plain",
                "cached",
                (pl.col("cached") / pl.col("plain")).alias("ratio"),
                "published",
                _gain("plain").alias("found"),
                _gain("other").alias("other"),
            )
        )
    return pl.concat(frames)


def _size() -> pl.Expr:
    """Return the rows of the table as text: ``50,000 rows``."""
    return pl.format("{},000 rows", pl.col("rows_per_table") // 1000)


def _gain(plain: str) -> pl.Expr:
    """Return the gain over a column in percent, cut off after two decimals."""
    hundredths = ((pl.col("cached") - pl.col(plain)) * 10_000 / pl.col(plain)).cast(pl.Int64)
    return (hundredths / 100).round(2)


def summary(repo: Repo) -> pl.DataFrame:
    """Return a summary of each workload's ratios: geometric mean, range, ratio of the peaks."""
    return (
        ratios(repo)
        .group_by("kind", "rows_per_table", "workload", maintain_order=True)
        .agg(
            pl.col("ratio").log().mean().exp().alias("geometric_mean"),
            pl.col("ratio").min().alias("least"),
            pl.col("ratio").max().alias("greatest"),
            (pl.col("cached").max() / pl.col("plain").max()).alias("ratio_of_peaks"),
        )
        .with_columns(rounded("geometric_mean", "least", "greatest", "ratio_of_peaks"))
    )


def gains(repo: Repo) -> alt.VConcatChart:
    """Return charts of throughput, cached : plain table, against threads: reads above, mixes below."""
    both = ratios(repo)
    return alt.vconcat(
        _cached(both.filter(kind="reads"), "Reads: QPS of the cached table : plain table"),
        _cached(both.filter(kind="mixes"), "Mixes: QPS of the cached table : plain table"),
        spacing=20,
    ).resolve_scale(**dict.fromkeys(article_charts.CHANNELS, "independent"))


def _cached(ratios: pl.DataFrame, title: str) -> alt.FacetChart:
    workloads = ratios["workload"].unique(maintain_order=True)
    shapes = ("circle", "square", "triangle-up", "diamond")
    dashes = (article_charts.SOLID, article_charts.DASHED, article_charts.DOTTED, [8, 3, 2, 3])
    styles = dict(zip(workloads, zip(theme.PALETTE, shapes, dashes, strict=False), strict=False))
    base = article_charts.base(ratios["concurrency"], "threads").encode(
        y=alt.Y(
            "ratio:Q",
            title=None,
            scale=alt.Scale(type="log", base=2, nice=False, padding=8),
            axis=_RATIOS,
        ),
        tooltip=["workload", "concurrency", "plain", "cached", alt.Tooltip("ratio", format=".2f")],
    )
    even = theme.reference_line(y=1)
    named = ratios.with_columns(size=_size())
    return article_charts.facets(
        alt.layer(even, article_charts.lines(base, "workload", styles)), named, "size", title
    )


def improvements(repo: Repo, rerun: Rerun) -> pl.DataFrame:
    """Return the gain of a cached table over a plain one at each point, published and here, in percent.

    The gain is in queries per second, as in the article; queries of repeated transactions count, too.

    Columns: ``kind``, ``rows_per_table``, ``workload``, ``concurrency`` as in :func:`ratios`;
    ``article``; ``here``, ``low`` and ``high`` (95 %; null with a single trial); ``valid`` (whether
    both sides passed the gate). The last four are null at points that only the article has.
    """
    runs = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
    found = points.ratios(runs, "qps", "cached", "plain")
    names = [_named_as_published(rerun, name) for name in found["workload"]]
    named = {"kind": pl.String, "rows_per_table": pl.Int64, "workload": pl.String}
    gains = ((pl.col("ratio", "low", "high") - 1) * 100).name.replace("ratio", "here")
    here = pl.concat(
        [
            pl.DataFrame(names, schema=named, orient="row"),
            found.select("concurrency", gains, "valid"),
        ],
        how="horizontal",
    )
    point = ["kind", "rows_per_table", "workload", "concurrency"]
    selects = pl.col("workload").str.extract(r"^(\d+) ").cast(pl.Int64)  # of a mix
    theirs = ratios(repo).select(*point, article=100 * (pl.col("ratio") - 1))
    return (
        here.join(
            theirs.cast({"rows_per_table": pl.Int64, "concurrency": pl.Int64}),
            on=point,
            how="full",
            coalesce=True,
        )
        .select(*point, "article", "here", "low", "high", "valid")
        .sort(pl.col("kind") == "mixes", "rows_per_table", selects, "workload", "concurrency")
    )


def _named_as_published(rerun: Rerun, name: str) -> tuple[str, int, str]:
    """Return kind, rows and name of a workload as in :func:`ratios`."""
    workload = rerun.study.workloads[name]
    rows = rerun.study.dataset(rerun.study.profiles[rerun.profile], name).rows_per_table
    if selects := workload.options.get("point_selects"):
        return "mixes", rows, f"{selects} point selects"
    return "reads", rows, workload.script


def improvement_table(improvements: pl.DataFrame) -> pl.DataFrame:
    """Return :func:`improvements` as text: a row per workload and size, a column per thread count.

    A cell is ``article / here``, in percent, with the 95 % interval of ours if there are several
    trials. Values that did not pass the gate are in square brackets. A dash is a point that was not
    run.
    """
    value, low, high = (pl.col(name).round(0).cast(pl.Int64) for name in ("here", "low", "high"))
    interval = pl.format(" ({} to {})", low, high).fill_null("")
    here = pl.format("{} %{}", value, interval)
    cell = pl.concat_str(
        pl.format("{} %", pl.col("article").round(0).cast(pl.Int64)).fill_null(NOTHING),
        pl.when("valid").then(here).otherwise(pl.format("[{}]", here)).fill_null(NOTHING),
        separator=" / ",
    ).str.replace_all("-", MINUS)
    return improvements.with_columns(cell.alias("cell")).pivot(
        on="concurrency",
        index=["rows_per_table", "workload"],
        values="cell",
        maintain_order=True,
        sort_columns=True,
    )


def gains_beside(improvements: pl.DataFrame) -> alt.FacetChart:
    """Return charts of throughput, cached : plain table, against threads, one for each read workload.

    The article's curves are dashed and hollow; those measured here are solid, with 95 % intervals.
    """
    reads = _as_ratios(improvements.filter(kind="reads"))
    x = article_charts.base(reads["concurrency"], "threads")
    title = "Reads: QPS of the cached table : plain table"
    return article_charts.facets(_beside_article(x, reads), reads, "workload", title)


def break_even(improvements: pl.DataFrame) -> alt.FacetChart:
    """Return charts of a cached table's gain against the share of writes, for each number of threads.

    A cached table pays left of the point where a curve crosses the dashed line. The article's curves
    are dashed and hollow; those measured here are solid, with 95 % intervals.
    """
    selects = pl.col("workload").str.extract(r"(\d+)").cast(pl.Int64)
    mixes = _as_ratios(improvements.filter(kind="mixes").sort("concurrency")).with_columns(
        share=_WRITES / (_WRITES + _RANGES + selects)
    )
    x = alt.X(
        "share:Q",
        title="share of writes",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(format=".0%", values=sorted(set(mixes["share"].to_list()))),
    )
    title = "Mixes: QPS of the cached table : plain table"
    return article_charts.facets(
        _beside_article(article_charts.view(x), mixes), mixes, "threads", title
    )


def conflicts(rerun: Rerun) -> pl.DataFrame:
    """Return how often the mixes' transactions were repeated: medians over the runs of each point.

    Columns: ``mix``, ``variant``, ``threads``, ``transactions (1/s)``, ``queries (1/s)``, ``repeats per
    transaction``, ``gate passed``.
    """
    labels = {name: one.label for name, one in rerun.study.workloads.items() if one.writes}
    order = list(labels)
    medians = {
        "tps": "transactions (1/s)",
        "qps": "queries (1/s)",
        "errors_per_transaction": "repeats per transaction",
    }
    return (
        rerun.metrics.filter(pl.col("workload").is_in(order), envelope=DEFAULT_ENVELOPE)
        .group_by("workload", "variant", "concurrency", "valid")
        .agg(pl.col(name).median().round_sig_figs(3).alias(to) for name, to in medians.items())
        .sort(
            pl.col("workload").replace_strict(order, range(len(order))),
            "concurrency",
            "variant",
            descending=[False, False, True],
        )
        .select(
            pl.col("workload").replace(labels).alias("mix"),
            "variant",
            pl.col("concurrency").alias("threads"),
            *medians.values(),
            points.gate_passed(),
        )
    )


def between_writes(rerun: Rerun) -> pl.DataFrame:
    """Return what readers gain from a cached table that is written to at regular intervals.

    A run's throughput is its mean over whole periods with one write each. It is compared with that of a
    plain table of as many rows, whatever the time between its writes: it is run with one. The interval
    is over runs: the periods of one run share its host and its server.

    Columns: ``rows_per_table``, ``lease_s``, ``every_s``; ``runs``; ``ratio`` of the throughputs,
    cached : plain, with ``low``, ``high`` (95 %; null with a single run on a side); ``write_share``,
    that of writes among all statements; ``wait_s``, the median time from COMMIT to its answer.
    """
    runs = leases.runs(rerun).filter(pl.col("tables") == 1)
    by_period = [
        leases.throughput_by_period(leases.stored(rerun.store, run_id), every_s)
        for run_id, every_s in runs.select("run_id", "every_s").iter_rows()
    ]
    throughputs = [mean(of_run) if of_run else None for of_run in by_period]
    waited = metrics.of_single_writes(rerun.store, runs).group_by("run_id")
    whole = (
        runs.with_columns(pl.Series("whole_tps", throughputs, dtype=pl.Float64))
        .drop_nulls("whole_tps")
        .join(waited.agg(pl.col("commit_wait_s").median()), on="run_id", how="left")
    )
    plain = whole.filter(variant="plain").group_by("rows_per_table").agg(plain_tps="whole_tps")
    point = ["rows_per_table", "lease_s", "every_s"]
    found = []
    for row in (
        whole.filter(pl.col("variant") != "plain")
        .group_by(point)
        .agg("whole_tps", pl.col("commit_wait_s").median())
        .join(plain, on="rows_per_table")
        .sort(point)
        .iter_rows(named=True)
    ):
        of, tps = stats.ratio(row["whole_tps"], row["plain_tps"]), mean(row["whole_tps"])
        share = 1 / (1 + tps * row["every_s"])
        here = (*(row[name] for name in point), len(row["whole_tps"]))
        found.append((*here, of.value, of.low, of.high, share, row["commit_wait_s"]))
    schema = {
        "rows_per_table": pl.Int64,
        "lease_s": pl.Float64,
        "every_s": pl.Int64,
        "runs": pl.Int64,
        **dict.fromkeys(("ratio", "low", "high", "write_share", "wait_s"), pl.Float64),
    }
    return pl.DataFrame(found, schema=schema, orient="row")


def pays_from(between: pl.DataFrame) -> pl.DataFrame:
    """Return from how many seconds between two writes on a cached table pays, by its rows and lease.

    The ratio is interpolated along the logarithm of the seconds. The interval is where the bounds of
    the ratio cross 1. ``≤ 4`` or ``> 32``: it crosses before or beyond what was run.

    Args:
        between: see :func:`between_writes`.

    Returns:
        Columns ``rows``, ``lease (s)``, ``pays from (s between writes)``, ``95 % interval`` (empty if a
        ratio has none), ``writes among statements there`` (``1 in 120,000``).
    """
    rows = []
    for (size, lease_s), of in between.group_by("rows_per_table", "lease_s", maintain_order=True):
        seconds = of["every_s"].to_list()
        value, low, high = (
            _crossing(seconds, of[name].to_list()) for name in ("ratio", "low", "high")
        )
        known = of["low"].null_count() == 0
        interval = f"{_seconds(high, seconds)} to {_seconds(low, seconds)}" if known else ""
        share = ""
        if value is not None and seconds[0] < value:
            per_s = float(np.interp(value, seconds, 1 / (of["write_share"] * of["every_s"])))
            share = f"1 in {round(per_s * value, -3):,.0f}"
        rows.append((size, lease_s, _seconds(value, seconds), interval, share))
    schema = {
        "rows": pl.Int64,
        "lease (s)": pl.Float64,
        "pays from (s between writes)": pl.String,
        "95 % interval": pl.String,
        "writes among statements there": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _crossing(seconds: list[int], ratios: list[float | None]) -> float | None:
    """Return from where on the ratios are 1 or more; ``None``: beyond the last of the seconds."""
    if None in ratios or ratios[-1] < 1:
        return None
    for at in range(len(ratios) - 1, 0, -1):
        if ratios[at - 1] < 1:
            part = (1 - ratios[at - 1]) / (ratios[at] - ratios[at - 1])
            return seconds[at - 1] * (seconds[at] / seconds[at - 1]) ** part
    return seconds[0]


def _seconds(crossing: float | None, seconds: list[int]) -> str:
    if crossing is None:
        return f"> {seconds[-1]}"
    return f"{crossing:.2g}" if crossing > seconds[0] else f"≤ {seconds[0]}"


def pays(between: pl.DataFrame) -> alt.LayerChart:
    """Return a chart of readers' throughput, cached : plain table, against the time between writes.

    Above the dashed line a cached table pays. The bars are 95 % intervals over runs.

    Args:
        between: see :func:`between_writes`.
    """
    named = between.with_columns(
        table=pl.format("{}, lease {} s", _size(), pl.col("lease_s").cast(pl.Int64))
    )
    base = alt.Chart(named).encode(
        x=theme.log_axis("every_s", named["every_s"], "seconds between two writes"),
        color=theme.colors("table", named),
        tooltip=[
            "table",
            "every_s",
            "runs",
            *(
                alt.Tooltip(f"{name}:Q", format=".2f")
                for name in ("ratio", "low", "high", "wait_s")
            ),
        ],
    )
    y = alt.Y("ratio:Q", title="throughput of the readers, cached : plain")
    even = theme.reference_line(y=1)
    return alt.layer(
        even,
        _intervals(base).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line().encode(y=y, strokeDash=theme.dashes("table", named)),
        base.mark_point(filled=True, size=50).encode(y=y),
    ).properties(width=560, height=280)


def _as_ratios(improvements: pl.DataFrame) -> pl.DataFrame:
    """Return percentages as ratios, with columns for the size and the threads as text."""
    return improvements.with_columns(
        *((1 + pl.col(name) / 100).alias(name) for name in ("article", "here", "low", "high")),
        size=_size(),
        threads=pl.format("{} threads", "concurrency"),
    )


def _beside_article(base: alt.Chart, ratios: pl.DataFrame) -> alt.LayerChart:
    """Return a chart of the article's ratios and ours over an axis, by size of the table."""
    tooltip = [
        "workload",
        "size",
        "threads",
        *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("article", "here", "low", "high")),
        alt.Tooltip("valid:N", title="passed the gate"),
    ]
    base = base.encode(color=theme.colors("size", ratios), tooltip=tooltip)

    def y(column: str) -> alt.Y:
        scale = alt.Scale(type="log", base=2, nice=False, padding=8)
        return alt.Y(f"{column}:Q", title=None, scale=scale, axis=_RATIOS)

    published = base.encode(y=y("article"))
    # a line would end at a point that was not run
    measured = base.transform_filter("isValid(datum.here)").encode(y=y("here"))
    even = theme.reference_line(y=1)
    return alt.layer(
        even,
        published.mark_line(strokeDash=article_charts.DASHED, strokeWidth=1),
        published.mark_point(filled=False),
        _intervals(base).encode(y=y("low"), y2="high:Q"),
        measured.mark_line(),
        measured.mark_point(filled=True, size=50),
        theme.crosses(measured),
    )


def _intervals(base: alt.Chart) -> alt.Chart:
    """Return rules from ``low`` to ``high``; a point of one trial has none, and 0 has no logarithm."""
    return base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)


def section(source: Source) -> Content:
    """Return the content that ``paper/sections/cached_tables.md`` shows beyond the common content."""
    repo, rerun = source.repo, source.rerun
    gained, waited = improvements(repo, rerun), leases.waits(rerun)
    written = between_writes(rerun)
    made = Content(
        tables={
            "improvements": improvement_table(gained),
            "conflicts": conflicts(rerun),
            "outcomes": outcomes.table(rerun),
            "waits": leases.summary(waited),
            "between-writes": digits(written, "ratio", "low", "high", "write_share", "wait_s"),
            "pays-from": pays_from(written),
            "by-state": leases.by_state(rerun),
            "write-leases": leases.write_leases(rerun),
            "evidence": evidence.of_curves(rerun),
        }
    )
    made.figures["gains"] = gains_beside(gained)
    made.figures["break-even"] = break_even(gained)
    if len(written):
        made.figures["pays"] = pays(written)
    if len(waited):
        made.figures["waits"] = lease_charts.waits(waited)
    if demonstration := leases.demonstration(rerun):
        made.figures["demonstration"] = lease_charts.over_time(demonstration)
    return made
