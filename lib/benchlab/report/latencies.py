"""Latencies over trials with their intervals: as a frame, a table, and a chart of every percentile."""

import altair as alt
import polars as pl

from benchlab import drivers
from benchlab.numbers import with_interval
from benchlab.report import points, theme
from benchlab.report.charts import concurrency, dodged, estimate_tooltips
from benchlab.report.points import with_curve
from benchlab.store.results import POINT, Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study

#: Metric of a latency → its name in tables and charts.
LATENCIES = {"p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9", "latency_max_us": "max"}

#: Percentiles that a chart has room for; the maximum is only in the table.
PERCENTILES = ["p50", "p99", "p99.9"]

_WIDTH, _HEIGHT = 170, 200


def resolution(study: Study) -> float:
    """Return the relative resolution of percentiles in a study's runs: that of its coarsest driver."""
    names = {workload.driver for workload in study.workloads.values()}
    return max(drivers.driver(name).resolution for name in names)


def latencies(rerun: Rerun) -> pl.DataFrame:
    """Return the latencies of each point over its trials, one row per point and percentile.

    Columns: those of a point in the main envelope, ``curve``, ``percentile`` (one of
    :data:`LATENCIES`), ``ms``, ``ms_low``, ``ms_high`` (95 %; null with a single trial), ``n``,
    ``valid``.
    """
    return of_runs(rerun.study, rerun.metrics.filter(envelope=DEFAULT_ENVELOPE), POINT)


def of_runs(study: Study, per_run: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Return the latencies of runs; see :func:`latencies`.

    Args:
        study: the study of the runs.
        per_run: metrics of the runs.
        by: columns that distinguish points.
    """
    frames = [
        points.estimates(per_run, metric, by).select(
            *by,
            "n",
            "valid",
            pl.lit(name).alias("percentile"),
            *(
                (pl.col(f"{metric}{bound}") / 1000).alias(f"ms{bound}")
                for bound in ("", "_low", "_high")
            ),
        )
        for metric, name in LATENCIES.items()
    ]
    found = with_curve(pl.concat(frames), study).drop("envelope")
    return points.in_order(found, study, "concurrency")


def table(rerun: Rerun) -> pl.DataFrame:
    """Return :func:`latencies` for reading: one row per point, ``1.23 (1.10 to 1.38)`` per percentile.

    The last column, ``gate passed``, says whether the point passed the gate.
    """
    found = latencies(rerun).with_columns(
        points.named(rerun.study),
        pl.struct("ms", "ms_low", "ms_high")
        .map_elements(lambda row: with_interval(*row.values()), return_dtype=pl.String)
        .alias("text"),
    )
    index = ["curve", "workload", "concurrency"]
    if found.is_empty():
        return pl.DataFrame(schema=dict.fromkeys((*index, *LATENCIES.values()), pl.String))
    wide = found.pivot(on="percentile", index=[*index, "valid"], values="text", maintain_order=True)
    return wide.select(pl.exclude("valid"), points.gate_passed())


def chart(study: Study, latencies: pl.DataFrame, workload: str) -> alt.FacetChart:
    """Latency against clients, one view per percentile, with 95 % intervals.

    Args:
        study: whose labels and styles the curves have.
        latencies: see :func:`latencies`.
        workload: only this one.
    """
    shown = latencies.filter(pl.col("percentile").is_in(PERCENTILES), workload=workload)
    x = concurrency(shown["concurrency"], study.clients, "at")
    return by_percentile(study, dodged(shown, _WIDTH), x)


def by_percentile(study: Study, shown: pl.DataFrame, x: alt.X, *tooltip: alt.Tooltip) -> alt.Chart:
    """Latency against any quantity, one view per percentile, with 95 % intervals.

    Args:
        study: whose labels and styles the curves have.
        shown: rows of :func:`latencies`, with percentiles of :data:`PERCENTILES` only.
        x: axis of the quantity.
        tooltip: shown for a point beside its latency.
    """
    interval = ("ms_low", "ms_high")
    base = (
        alt.Chart()
        .properties(width=_WIDTH, height=_HEIGHT)
        .encode(
            x=x,
            y=alt.Y(
                "ms:Q",
                title=None,
                scale=alt.Scale(type="log"),
                axis=alt.Axis(values=[0.1, 1, 10, 100, 1000, 10_000], format=",~g"),
            ),
            tooltip=[*estimate_tooltips(study.clients, "ms", interval, ",.3~r"), *tooltip],
        )
    )
    styles, crossed = theme.styles_of(study, shown), not shown["valid"].all()
    curves = theme.curves(base, styles, interval=interval, crossed=crossed)
    curves.data = shown
    facet = alt.Facet("percentile:N", title=None, sort=PERCENTILES)
    return curves.facet(facet, columns=len(PERCENTILES), title="Latency (ms)")
