"""Metrics that a study's claims name beside throughput, at every point."""

import altair as alt
import polars as pl

from benchlab.report import points, theme
from benchlab.report.charts import concurrency, dodged, estimate_tooltips
from benchlab.report.latencies import LATENCIES
from benchlab.report.points import with_curve
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study
from benchlab.study.vocabulary import METRICS, OF_DATASET

_WIDTH, _HEIGHT = 250, 170


def metrics(study: Study) -> list[str]:
    """Return the metrics that claims name, without throughput and those of the table of latencies."""
    shown = {"tps", *LATENCIES}
    named = {series.metric for claim in study.claims for _, series in claim.series}
    return [metric for metric in METRICS if metric in named - shown]


def table(rerun: Rerun) -> pl.DataFrame:
    """Return, at every point, those of :func:`metrics` that are not in the table of costs."""
    shown = [metric for metric in metrics(rerun.study) if metric not in points.COSTS]
    return points.table(rerun, shown) if shown else pl.DataFrame()


def charted(rerun: Rerun) -> list[str]:
    """Return those of :func:`metrics` that clients can change and that have several client counts."""
    main = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
    return [
        metric
        for metric in metrics(rerun.study)
        if metric not in OF_DATASET and points.curved(main.drop_nulls(metric))
    ]


def values(rerun: Rerun, metric: str) -> pl.DataFrame:
    """Return a metric over the trials of each point, for workloads with several client counts.

    Columns: those of a point (main envelope only), ``curve``, ``n`` (trials), ``valid``, ``value``,
    ``low`` and ``high`` (95 %; null with a single trial), in the metric's unit.
    """
    main = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE).drop_nulls(metric)
    main = main.filter(pl.col("workload").is_in(points.curved(main)))
    found = points.estimates(main, metric).rename(
        {metric: "value", f"{metric}_low": "low", f"{metric}_high": "high"}
    )
    found = with_curve(found, rerun.study).drop("envelope")
    return points.in_order(found, rerun.study, "concurrency")


def chart(study: Study, values: pl.DataFrame, metric: str) -> alt.FacetChart:
    """A metric against clients, one view per workload, with 95 % intervals.

    Args:
        study: whose labels and styles the curves have.
        values: see :func:`values`.
        metric: name of the metric in ``values``.
    """
    shown = dodged(values, _WIDTH).with_columns(points.named(study))
    interval = ("low", "high")
    base = (
        alt.Chart()
        .properties(width=_WIDTH, height=_HEIGHT)
        .encode(
            x=concurrency(shown["concurrency"], study.clients, "at"),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True)),
            tooltip=estimate_tooltips(study.clients, "value", interval, ",.3~r"),
        )
    )
    styles, crossed = theme.styles_of(study, shown), not shown["valid"].all()
    curves = theme.curves(base, styles, interval=interval, crossed=crossed)
    curves.data = shown
    workloads = shown["workload"].unique(maintain_order=True).to_list()
    return curves.facet(
        alt.Facet("workload:N", title=None, sort=workloads),
        columns=2,
        title=theme.sentence(METRICS[metric].heading),
    )
