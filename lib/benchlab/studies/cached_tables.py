"""The published numbers of the article on cached tables, worked out again."""

import altair as alt
import polars as pl

from benchlab.claims import published
from benchlab.numbers import rounded
from benchlab.repo import Repo
from benchlab.report import article_charts, theme


def ratios(repo: Repo) -> pl.DataFrame:
    """Return the throughput of a cached table over that of a plain one at each of the 80 points.

    Columns: ``kind`` (reads, mixes), ``rows_per_table``, ``workload``, ``concurrency``, ``plain``,
    ``cached`` (1/s), ``ratio``, ``published`` and ``found`` (gain in %, cut off after two decimals as
    in the article), ``other`` (the same over the plain table of the other size).
    """
    reads = published.read(repo, "cached_tables", "read"), "read_gain", pl.col("workload")
    selects = pl.format("{} point selects", pl.col("point_selects"))
    mixes = published.read(repo, "cached_tables", "mixed"), "mixed_gain", selects
    frames = []
    for kind, (qps, gains, workload) in (("reads", reads), ("mixes", mixes)):
        point = ["rows_per_table", "workload", "concurrency"]
        wide = qps.with_columns(workload=workload).pivot(on="variant", index=point, values="qps")
        theirs = published.read(repo, "cached_tables", gains).with_columns(workload=workload)
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


def _gain(plain: str) -> pl.Expr:
    """Gain over a column in percent, cut off after two decimals."""
    hundredths = ((pl.col("cached") - pl.col(plain)) * 10_000 / pl.col(plain)).cast(pl.Int64)
    return (hundredths / 100).round(2)


def summary(repo: Repo) -> pl.DataFrame:
    """Return what the ratios of each workload come to: geometric mean, range, ratio of the peaks."""
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
    """Throughput of a cached over that of a plain table against threads: reads above, mixes below."""
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
            axis=alt.Axis(values=[0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6], grid=True),
        ),
        tooltip=["workload", "concurrency", "plain", "cached", alt.Tooltip("ratio", format=".2f")],
    )
    even = alt.Chart().mark_rule(strokeDash=[4, 4]).encode(y=alt.datum(1))
    named = ratios.with_columns(
        size=pl.format("{} thousand rows", pl.col("rows_per_table") // 1000)
    )
    return article_charts.facets(
        alt.layer(even, article_charts.lines(base, "workload", styles)), named, "size", title
    )
