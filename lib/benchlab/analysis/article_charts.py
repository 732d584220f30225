"""Charts of the articles' own curves, each from published tables alone."""

from collections.abc import Callable

import altair as alt
import polars as pl

from benchlab import published, theme
from benchlab.analysis.articles import cached_ratios
from benchlab.repo import Repo

_WIDTH, _HEIGHT = 270, 170

#: A curve's colour, point shape and dash pattern, by what the legend calls it.
_Looks = dict[str, tuple[str, str, list[int]]]

_SOLID, _DASHED, _DOTTED = [1, 0], [6, 3], [2, 2]

#: Channels that tell curves apart.
_CHANNELS = ("color", "fill", "stroke", "shape", "strokeDash")

#: PostgreSQL's three variants differ by their standby alone, which the article does not always name.
_REMOTE_WAL = {
    ("he3db", "default"): "He3DB",
    ("postgres", "sync_standby"): "PostgreSQL, semi-synchronous standby",
    ("postgres", "async_standby"): "PostgreSQL, asynchronous standby",
    ("postgres", "not_stated"): "PostgreSQL, standby not stated",
}
_REMOTE_WAL_LOOKS: _Looks = dict(
    zip(
        _REMOTE_WAL.values(),
        (
            (theme.color("he3db"), theme.shape("he3db"), _SOLID),
            (theme.color("postgres"), theme.shape("postgres"), _SOLID),
            (theme.color("postgres", "async"), "square", _DASHED),
            (theme.OTHER_ENGINE[0], "diamond", _DOTTED),
        ),
        strict=True,
    )
)


def cached_gains(repo: Repo) -> alt.VConcatChart:
    """Throughput of a cached over that of a plain table against threads: reads above, mixes below."""
    ratios = cached_ratios(repo)
    return alt.vconcat(
        _cached(ratios.filter(kind="reads"), "Reads: QPS of the cached table : plain table"),
        _cached(ratios.filter(kind="mixes"), "Mixes: QPS of the cached table : plain table"),
        spacing=20,
    ).resolve_scale(**dict.fromkeys(_CHANNELS, "independent"))


def _cached(ratios: pl.DataFrame, title: str) -> alt.FacetChart:
    workloads = ratios["workload"].unique(maintain_order=True)
    shapes = ("circle", "square", "triangle-up", "diamond")
    dashes = (_SOLID, _DASHED, _DOTTED, [8, 3, 2, 3])
    looks = dict(zip(workloads, zip(theme.PALETTE, shapes, dashes, strict=False), strict=False))
    base = _base(ratios["concurrency"], "threads").encode(
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
    return _facets(alt.layer(even, _lines(base, "workload", looks)), named, "size", title)


def remote_wal_throughput(repo: Repo) -> alt.FacetChart:
    """Throughput of He3DB and of PostgreSQL with either standby against threads, by workload."""
    frame = published.read(repo, "remote_wal", "throughput").with_columns(
        curve=_curve(lambda engine, variant: _REMOTE_WAL[engine, variant])
    )
    base = _base(frame["concurrency"], "threads").encode(
        y=alt.Y("tps:Q", title=None),
        tooltip=["curve:N", "concurrency:Q", alt.Tooltip("tps:Q", format=",.0f")],
    )
    lines = _lines(base, "curve", _REMOTE_WAL_LOOKS)
    return _facets(lines, frame, "workload", theme.axis_title("tps")).resolve_scale(y="independent")


def spec_tree_throughput(repo: Repo) -> alt.FacetChart:
    """Greatest throughput of each engine against connections, with and without partitions."""
    layout = pl.when("partitioned").then(pl.lit("partitioned by operator"))
    frame = (
        published.read(repo, "spec_tree", "results")
        .drop_nulls("throughput_max_per_s")
        .with_columns(curve=_curve(theme.label), layout=layout.otherwise(pl.lit("not partitioned")))
    )
    base = _base(frame["concurrency"], "connections").encode(
        y=alt.Y("throughput_max_per_s:Q", title=None),
        tooltip=["curve:N", "concurrency:Q", alt.Tooltip("throughput_max_per_s:Q", format=",.0f")],
    )
    pairs = frame.select("engine", "variant").unique(maintain_order=True).rows()
    return _facets(theme.curves(base, pairs), frame, "layout", "Greatest throughput (queries/s)")


def _curve(label: Callable[[str, str], str]) -> pl.Expr:
    """Name of each row's curve, from its engine and variant."""
    return pl.struct("engine", "variant").map_elements(
        lambda pair: label(pair["engine"], pair["variant"]), return_dtype=pl.String
    )


def _base(concurrency: pl.Series, title: str) -> alt.Chart:
    """A small view whose logarithmic axis has a tick at every concurrency, and at no other."""
    ticks = concurrency.unique().sort().to_list()
    return (
        alt.Chart()
        .properties(width=_WIDTH, height=_HEIGHT)
        .encode(
            x=alt.X(
                "concurrency:Q",
                title=title,
                scale=alt.Scale(type="log", base=2, nice=False, padding=14),
                axis=alt.Axis(values=ticks, format="d"),
            )
        )
    )


def _lines(base: alt.Chart, field: str, looks: _Looks) -> alt.LayerChart:
    """Curves whose looks are given, since no engine or variant of its own stands for each."""

    def channel(kind: type, position: int, legend: alt.Legend | None) -> alt.SchemaBase:
        scale = alt.Scale(domain=list(looks), range=[look[position] for look in looks.values()])
        return kind(f"{field}:N", title=None, scale=scale, legend=legend)

    shown = alt.Legend(columns=2)
    lines = base.mark_line().encode(
        color=channel(alt.Color, 0, None), strokeDash=channel(alt.StrokeDash, 2, None)
    )
    points = base.mark_point().encode(
        fill=channel(alt.Fill, 0, shown),
        stroke=channel(alt.Stroke, 0, shown),
        shape=channel(alt.Shape, 1, shown),
    )
    # a shared legend that one layer switches off is switched off for all
    return alt.layer(lines, points).resolve_legend(color="independent", strokeDash="independent")


def _facets(chart: alt.TopLevelMixin, frame: pl.DataFrame, by: str, title: str) -> alt.FacetChart:
    order = frame[by].unique(maintain_order=True).to_list()
    chart.data = frame
    facet = alt.Facet(f"{by}:N", title=None, sort=order)
    return chart.facet(facet, columns=2, title=title)
