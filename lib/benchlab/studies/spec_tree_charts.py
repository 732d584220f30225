"""Charts of the recursive query's study, each from one frame of :mod:`benchlab.studies.spec_tree`."""

import altair as alt
import polars as pl

from benchlab.claims import published
from benchlab.repo import Repo
from benchlab.report import article_charts, theme
from benchlab.report.charts import concurrency, curves

_WIDTH, _HEIGHT = 170, 200

#: What a chart has room for; the maximum stands in the table.
_PERCENTILES = ["p50", "p99", "p99.9"]


def latency(latencies: pl.DataFrame, workload: str) -> alt.FacetChart:
    """Latency against connections, a view per percentile, with 95 % intervals.

    Args:
        latencies: see :func:`benchlab.studies.spec_tree.latencies`.
        workload: only this one.
    """
    shown = latencies.filter(pl.col("percentile").is_in(_PERCENTILES), workload=workload)
    base = (
        alt.Chart()
        .properties(width=_WIDTH, height=_HEIGHT)
        .encode(x=concurrency(shown["concurrency"], "connections"), y=_MS, tooltip=_TOOLTIP)
    )
    return _by_percentile(base, shown)


def open_loop(latencies: pl.DataFrame) -> alt.FacetChart:
    """Latency from the time at which a request was due, against the load, a view per percentile.

    Args:
        latencies: see :func:`benchlab.studies.spec_tree.open_loop`.
    """
    shown = latencies.filter(pl.col("percentile").is_in(_PERCENTILES))
    shares = sorted(set(shown["share_of_peak"]))
    base = (
        alt.Chart()
        .properties(width=_WIDTH, height=_HEIGHT)
        .encode(
            x=alt.X(
                "share_of_peak:Q",
                title="load, of the peak",
                scale=alt.Scale(domain=[0.4, 1]),
                axis=alt.Axis(values=shares, format="%"),
            ),
            y=_MS,
            tooltip=[*_TOOLTIP, alt.Tooltip("due_per_s:Q", format=",.0f", title="due (1/s)")],
        )
    )
    return _by_percentile(base, shown)


def cpu(used: pl.DataFrame) -> alt.FacetChart:
    """CPU of engine and load generator, stacked, against connections, a view per engine and layout.

    Args:
        used: see :func:`benchlab.studies.spec_tree.cpu`; of one variant.
    """
    names = {"engine_cpu_percent": "engine", "client_cpu_percent": "load generator"}
    tidy = used.unpivot(
        on=list(names),
        index=["engine", "layout", "concurrency"],
        variable_name="of",
        value_name="percent",
    ).with_columns(
        pl.col("of").replace(names),
        pl.col("engine").map_elements(theme.label, return_dtype=pl.String).alias("name"),
    )
    order = tidy["name"].unique(maintain_order=True).to_list()
    bars = (
        alt.Chart()
        .properties(width=110, height=130)
        .mark_bar()
        .encode(
            x=alt.X("concurrency:O", title="connections", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("percent:Q", title=None, scale=alt.Scale(domain=[0, 100])),
            color=alt.Color(
                "of:N",
                title=None,
                scale=alt.Scale(domain=list(names.values()), range=["#333333", "#aaaaaa"]),
            ),
            order=alt.Order("of:N"),
            tooltip=["name:N", "layout:N", "concurrency:O", "of:N", "percent:Q"],
        )
    )
    return bars.facet(
        data=tidy,
        column=alt.Column("name:N", title=None, sort=order),
        row=alt.Row("layout:N", title=None),
        title="CPU (% of all cores)",
    )


_MS = alt.Y(
    "ms:Q",
    title=None,
    scale=alt.Scale(type="log"),
    axis=alt.Axis(values=[0.1, 1, 10, 100, 1000, 10_000], format=",~g"),
)
_TOOLTIP = [
    alt.Tooltip("curve:N"),
    alt.Tooltip("concurrency:Q", title="connections"),
    alt.Tooltip("ms:Q", format=",.3~r"),
    alt.Tooltip("ms_low:Q", format=",.3~r", title="95 % low"),
    alt.Tooltip("ms_high:Q", format=",.3~r", title="95 % high"),
    alt.Tooltip("n:Q", title="trials"),
]


def _by_percentile(base: alt.Chart, shown: pl.DataFrame) -> alt.FacetChart:
    chart = theme.curves(base, curves(shown), interval=("ms_low", "ms_high"))
    chart.data = shown
    facet = alt.Facet("percentile:N", title=None, sort=_PERCENTILES)
    return chart.facet(facet, columns=len(_PERCENTILES), title="Latency (ms)")


def article_throughput(repo: Repo) -> alt.FacetChart:
    """Greatest throughput of each engine against connections, with and without partitions."""
    layout = pl.when("partitioned").then(pl.lit("partitioned by operator"))
    frame = (
        published.read(repo, "spec_tree", "results")
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
    of_article = frame.select("engine", "variant").unique(maintain_order=True).rows()
    named = {theme.label(*pair): pair for pair in of_article}
    return article_charts.facets(
        theme.curves(base, named), frame, "layout", "Greatest throughput (queries/s)"
    )
