"""Charts of the analysis notebooks and the paper, each from one frame."""

from typing import Any

import altair as alt
import polars as pl

from benchlab.report import theme
from benchlab.study import Study

_WIDTH, _HEIGHT = 560, 260


def concurrency(values: pl.Series, clients: str) -> alt.X:
    """A logarithmic axis with a tick at every concurrency that was run, and at no other.

    Args:
        values: the concurrencies.
        clients: what the article counts.
    """
    ticks = sorted(set(values.to_list()))
    return alt.X(
        "concurrency:Q",
        title=clients,
        scale=alt.Scale(type="log", base=2, nice=False, padding=16),
        axis=alt.Axis(values=ticks, format="d"),
    )


def throughput(
    study: Study, points: pl.DataFrame, workload: str, variants: list[str] | None = None
) -> alt.VConcatChart:
    """Throughput against clients, one curve per engine and variant, with 95 % intervals.

    Args:
        study: whose labels and styles the curves have.
        points: see :func:`benchlab.report.points.points`; of one envelope.
        workload: only this one.
        variants: only these; all if none are given.
    """
    shown = points.filter(pl.col("workload") == workload)
    if variants:
        shown = shown.filter(pl.col("variant").is_in(variants))
    lines = _throughput_lines(study, shown).properties(width=_WIDTH, height=_HEIGHT)
    strip = _strip(shown, [one.label for one in theme.styles_of(study, shown)], study.clients)
    return alt.vconcat(lines, strip, spacing=4).resolve_scale(color="independent")


def small_throughput(study: Study, points: pl.DataFrame, workload: str) -> alt.LayerChart:
    """Throughput of a workload as wide as half a page, without what bound each point.

    Args:
        study: whose labels and styles the curves have.
        points: see :func:`benchlab.report.points.points`; of one envelope.
        workload: only this one.
    """
    shown = points.filter(pl.col("workload") == workload)
    title = alt.Title(f"{study.study}, {study.workload_label(workload)}", fontSize=13)
    lines = _throughput_lines(study, shown, legend=alt.Legend(columns=2, labelFontSize=11))
    return lines.properties(width=250, height=80, title=title)


def _throughput_lines(
    study: Study, shown: pl.DataFrame, legend: Any = alt.Undefined
) -> alt.LayerChart:
    clients = study.clients
    base = alt.Chart(shown).encode(
        x=concurrency(shown["concurrency"], clients),
        y=alt.Y("tps:Q", title=theme.axis_title("tps"), scale=alt.Scale(zero=True)),
        tooltip=[
            alt.Tooltip("curve:N"),
            alt.Tooltip("concurrency:Q", title=clients),
            alt.Tooltip("tps:Q", format=",.0f"),
            alt.Tooltip("tps_low:Q", format=",.0f", title="95 % low"),
            alt.Tooltip("tps_high:Q", format=",.0f", title="95 % high"),
            alt.Tooltip("n:Q", title="trials"),
            alt.Tooltip("binding:N", title="bound by"),
            alt.Tooltip("binding_utilisation:Q", format=".0%", title="utilisation"),
        ],
    )
    styles = theme.styles_of(study, shown)
    return theme.curves(base, styles, interval=("tps_low", "tps_high"), legend=legend)


def _strip(points: pl.DataFrame, rows: list[str], clients: str) -> alt.Chart:
    """What bound each point: a row per curve, a cell per concurrency, coloured by resource."""
    present = [name for name in theme.RESOURCE_COLORS if name in set(points["binding"])]
    x = concurrency(points["concurrency"], clients)
    x.axis = None  # that of the chart above
    return (
        alt.Chart(points, width=_WIDTH, height=alt.Step(18))
        .mark_square(size=230, opacity=1)
        .encode(
            x=x,
            y=alt.Y("curve:N", title=None, sort=rows, axis=alt.Axis(domain=False, ticks=False)),
            color=alt.Color(
                "binding:N",
                title="bound by",
                scale=alt.Scale(
                    domain=present, range=[theme.RESOURCE_COLORS[name] for name in present]
                ),
                legend=alt.Legend(symbolType="square", titleOrient="left"),
            ),
            tooltip=[
                alt.Tooltip("curve:N"),
                alt.Tooltip("concurrency:Q", title=clients),
                alt.Tooltip("binding:N", title="bound by"),
                alt.Tooltip("binding_utilisation:Q", format=".0%", title="utilisation"),
            ],
        )
    )


def envelopes(study: Study, points: pl.DataFrame) -> alt.Chart:
    """One curve under different envelope rules, with 95 % intervals and what bound each point.

    Args:
        study: whose clients they are.
        points: of one engine, variant and workload.
    """
    shown = points.with_columns(pl.col("envelope").alias("curve"))
    base = alt.Chart(shown, width=_WIDTH, height=200).encode(
        x=concurrency(shown["concurrency"], study.clients),
        y=alt.Y("tps:Q", title=theme.axis_title("tps"), scale=alt.Scale(zero=True)),
        strokeDash=alt.StrokeDash("envelope:N", title="envelope"),
    )
    lines = alt.layer(
        base.mark_line(point=True),
        base.mark_rule().encode(y="tps_low:Q", y2="tps_high:Q", strokeDash=alt.value([1, 0])),
    )
    rules = sorted(set(points["envelope"]))
    strip = _strip(shown, rules, study.clients)
    return alt.vconcat(lines, strip, spacing=4).resolve_scale(color="independent")


def monitor(samples: pl.DataFrame, limit_cores: float, limit_write_mb_per_s: float) -> alt.Chart:
    """CPU and disk over the seconds of chosen runs, with the envelope's limits as lines.

    Args:
        samples: ``run`` (name), ``second``, ``engine_cores``, ``client_cores``, ``write_mb_per_s``.
        limit_cores: of the envelope.
        limit_write_mb_per_s: of the envelope.
    """
    return alt.vconcat(
        _over_time(
            samples,
            {"engine_cores": "engine", "client_cores": "load generator"},
            "CPU (cores); dashed: the limit",
            limit_cores,
        ),
        _over_time(
            samples,
            {"write_mb_per_s": "disk writes"},
            "Disk writes (MB/s); dashed: the limit",
            limit_write_mb_per_s,
        ),
        spacing=12,
    ).resolve_scale(color="independent")


def _over_time(
    samples: pl.DataFrame, columns: dict[str, str], title: str, limit: float
) -> alt.FacetChart:
    tidy = samples.unpivot(
        on=list(columns), index=["run", "second"], variable_name="series", value_name="value"
    ).with_columns(pl.col("series").replace(columns))
    series = list(columns.values())
    base = alt.Chart().properties(width=250, height=120)
    lines = base.mark_line().encode(
        x=alt.X("second:Q", title="seconds of the measured part"),
        y=alt.Y("value:Q", title=None),
        color=alt.Color(
            "series:N",
            title=None,
            scale=alt.Scale(domain=series, range=["#333333", "#999999"][: len(series)]),
            legend=alt.Legend() if len(series) > 1 else None,
        ),
        tooltip=["run:N", "series:N", "second:Q", alt.Tooltip("value:Q", format=",.2f")],
    )
    rule = base.mark_rule(strokeDash=[4, 4], color="#b35806").encode(y=alt.datum(limit))
    return (
        alt.layer(rule, lines, data=tidy)
        .facet(alt.Facet("run:N", title=None), columns=2, spacing=18)
        .properties(title=title)
    )


def seconds(intervals: pl.DataFrame) -> alt.Chart:
    """Throughput over the seconds of runs, warm-up shaded by a lighter line.

    Args:
        intervals: rows of ``interval`` with ``run`` (name) and ``second`` counted over both phases.
    """
    return (
        alt.Chart(intervals, width=_WIDTH, height=200)
        .mark_line(point=True)
        .encode(
            x=alt.X("second:Q", title="seconds", axis=alt.Axis(format="d", tickMinStep=1)),
            y=alt.Y("tps:Q", title=theme.axis_title("tps")),
            strokeDash=alt.StrokeDash("phase:N", title=None, sort=["measure", "warmup"]),
            color=alt.Color("run:N", title=None),
        )
    )
