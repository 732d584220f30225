"""Charts of the analysis notebooks and the paper, each from one frame."""

import itertools
import math

import altair as alt
import polars as pl

from benchlab.report import theme
from benchlab.study import DEFAULT_ENVELOPE, Study

_WIDTH, _HEIGHT = 560, 260
_SMALL_WIDTH = 250

#: The axis of throughput ends at this many times the highest point if intervals reach further: an
#: interval of two trials may be many times as long as the curves are high.
_HEADROOM = 2

#: Columns of the ends of the intervals of throughput as drawn.
_DRAWN = ("tps_low", "drawn_high")

#: Pixels between the points of two curves at one concurrency.
_DODGE = 4


def concurrency(values: pl.Series, clients: str, field: str = "concurrency") -> alt.X:
    """A logarithmic axis with ticks at exactly the concurrencies that were run.

    Args:
        values: the concurrencies.
        clients: the article's word for clients, as title.
        field: column on the axis: ``concurrency`` itself, or ``at`` of :func:`dodged`.
    """
    return theme.log_axis(field, values, clients, _domain(values) if len(values) else None)


def dodged(shown: pl.DataFrame, width: int) -> pl.DataFrame:
    """Add a position on the axis of concurrencies that sets the curves side by side.

    Otherwise intervals at the same concurrency would hide each other.

    Args:
        shown: ``curve``, ``concurrency``; the curves from left to right.
        width: of the view, in pixels.

    Returns:
        The rows with ``at``, as a concurrency. The positions of all curves at one concurrency span at
        most a third of the distance to the next concurrency.
    """
    if shown.is_empty():
        return shown.with_columns(pl.col("concurrency").cast(pl.Float64).alias("at"))
    ticks = sorted(set(shown["concurrency"].to_list()))
    low, high = map(math.log2, _domain(shown["concurrency"]))
    curves = shown["curve"].unique(maintain_order=True).to_list()
    gaps = [math.log2(b / a) for a, b in itertools.pairwise(ticks)]
    step = min(
        _DODGE * (high - low) / (width - 2 * theme.PADDING),
        min(gaps, default=high - low) / 3 / len(curves),
    )
    middle = (len(curves) - 1) / 2
    factors = {curve: 2 ** (step * (place - middle)) for place, curve in enumerate(curves)}
    at = pl.col("concurrency") * pl.col("curve").replace_strict(factors, return_dtype=pl.Float64)
    return shown.with_columns(at.round_sig_figs(6).alias("at"))


def _domain(concurrencies: pl.Series) -> list[float]:
    """Ends of the axis; a single concurrency is in the middle."""
    least, most = concurrencies.min(), concurrencies.max()
    return [least, most] if least < most else [least / 2, 2 * most]


def throughput(
    study: Study, points: pl.DataFrame, workload: str, variants: list[str] | None = None
) -> alt.VConcatChart:
    """Throughput against clients, one curve per engine and variant, with 95 % intervals.

    A triangle marks an interval that goes on beyond the axis.

    Args:
        study: whose labels and styles the curves have.
        points: see :func:`benchlab.report.points.points`; of one envelope.
        workload: only this one.
        variants: only these; ``None``: all.
    """
    shown = points.filter(pl.col("workload") == workload)
    if variants:
        shown = shown.filter(pl.col("variant").is_in(variants))
    shown = dodged(shown, _WIDTH)
    lines = _throughput_lines(study, shown).properties(width=_WIDTH, height=_HEIGHT)
    strip = _strip(shown, [one.label for one in theme.styles_of(study, shown)], study.clients)
    return alt.vconcat(lines, strip, spacing=4).resolve_scale(color="independent")


def small_throughput(study: Study, points: pl.DataFrame, workload: str) -> alt.LayerChart:
    """Throughput of a workload, half a page wide, without the strip of what bound each point.

    Args:
        study: whose labels and styles the curves have.
        points: see :func:`benchlab.report.points.points`; of one envelope.
        workload: only this one.
    """
    shown = dodged(points.filter(pl.col("workload") == workload), _SMALL_WIDTH)
    title = alt.Title(f"{study.study}, {study.workload_label(workload)}", fontSize=13)
    legend = alt.Legend(columns=2, labelFontSize=11)
    lines = _throughput_lines(study, shown, legend)
    return lines.properties(width=_SMALL_WIDTH, height=80, title=title)


def estimate_tooltips(
    clients: str, value: str, interval: tuple[str, str], form: str
) -> list[alt.Tooltip]:
    """Return the tooltips of an estimate: curve, clients, value, 95 % interval, trials, gate.

    Args:
        clients: the study's word for clients.
        value: column of the value.
        interval: columns of its bounds.
        form: D3 format of the numbers.
    """
    low, high = interval
    return [
        alt.Tooltip("curve:N"),
        alt.Tooltip("concurrency:Q", title=clients),
        alt.Tooltip(f"{value}:Q", format=form),
        alt.Tooltip(f"{low}:Q", format=form, title="95 % low"),
        alt.Tooltip(f"{high}:Q", format=form, title="95 % high"),
        alt.Tooltip("n:Q", title="trials"),
        alt.Tooltip("valid:N", title="passed the gate"),
    ]


def _throughput_lines(
    study: Study, shown: pl.DataFrame, legend: alt.Legend | None = None
) -> alt.LayerChart:
    clients, interval = study.clients, ("tps_low", "tps_high")
    drawn, scale, top = _cut(shown)
    base = alt.Chart(drawn).encode(
        x=concurrency(shown["concurrency"], clients, "at"),
        y=alt.Y("tps:Q", title=theme.TPS_TITLE, scale=scale),
        tooltip=[
            *estimate_tooltips(clients, "tps", interval, ",.0f"),
            alt.Tooltip("binding:N", title="bound by"),
            alt.Tooltip("binding_utilisation:Q", format=".0%", title="utilisation"),
            alt.Tooltip("client_cpu_percent:Q", format=".0f", title="CPU of the load (%)"),
        ],
    )
    styles, crossed = theme.styles_of(study, shown), not shown["valid"].all()
    curves = theme.curves(base, styles, interval=_DRAWN, legend=legend, crossed=crossed)
    return sum(_going_on(base, drawn, top), start=curves)


def _cut(shown: pl.DataFrame) -> tuple[pl.DataFrame, alt.Scale, float]:
    """Return the points with ``drawn_high``, the scale of throughput and its end.

    Intervals are cut in the data: the ids of a chart's clip paths differ from build to build.
    """
    top = _HEADROOM * (shown["tps"].max() or 0)
    is_cut = pl.col("tps_high") > top
    drawn = shown.with_columns(pl.when(is_cut).then(top).otherwise("tps_high").alias("drawn_high"))
    has_cut = not drawn.filter(is_cut).is_empty()
    return drawn, alt.Scale(domain=[0, top], nice=False) if has_cut else alt.Scale(zero=True), top


def _going_on(base: alt.Chart, drawn: pl.DataFrame, top: float) -> list[alt.Chart]:
    """Return the layer of triangles that mark the cut intervals; none if none is cut."""
    cut = drawn.filter(pl.col("tps_high") > top)
    if cut.is_empty():
        return []
    mark = base.mark_point(shape="triangle-up", filled=True, size=50, color="#333333")
    return [mark.properties(data=cut).encode(y=alt.datum(top))]


def _strip(points: pl.DataFrame, rows: list[str], clients: str) -> alt.Chart:
    """What bound each point: a row per curve, a cell per concurrency, coloured by resource."""
    present = [name for name in theme.RESOURCE_COLORS if name in set(points["binding"])]
    x = concurrency(points["concurrency"], clients)
    x.axis = None  # the chart above shows it
    return (
        alt.Chart(points, width=_WIDTH, height=alt.Step(18))
        .mark_square(size=230, opacity=1, stroke="#999999", strokeWidth=0.5)
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

    A triangle marks an interval that goes on beyond the axis.

    Args:
        study: the study of the points.
        points: points of one engine, variant and workload.
    """
    ordered = points.sort(pl.col("envelope") != DEFAULT_ENVELOPE, "envelope", maintain_order=True)
    shown, scale, top = _cut(ordered.with_columns(pl.col("envelope").alias("curve")))
    colors = [one.color for one in theme.styles_of(study, points)]
    color = alt.Color("engine:N", legend=None, scale=alt.Scale(range=colors))
    low, high = _DRAWN
    base = alt.Chart(shown, width=_WIDTH, height=200).encode(
        x=concurrency(shown["concurrency"], study.clients),
        y=alt.Y("tps:Q", title=theme.TPS_TITLE, scale=scale),
        strokeDash=theme.dashes("envelope", shown, "envelope"),
    )
    solid = alt.value([1, 0])
    lines = alt.layer(
        base.mark_line(point=True).encode(color=color),
        base.mark_rule().encode(y=f"{low}:Q", y2=f"{high}:Q", strokeDash=solid),
        theme.crosses(base).encode(strokeDash=solid),
        *(one.encode(strokeDash=solid) for one in _going_on(base, shown, top)),
    )
    rules = shown["envelope"].unique(maintain_order=True).to_list()
    strip = _strip(shown, rules, study.clients)
    return alt.vconcat(lines, strip, spacing=4).resolve_scale(color="independent")


def monitor(samples: pl.DataFrame, limit_cores: float, limit_write_mb_per_s: float) -> alt.Chart:
    """CPU and disk over the seconds of chosen runs, with the envelope's limits as lines.

    Args:
        samples: ``run`` (name), ``second``, ``engine_cores``, ``client_cores``, ``write_mb_per_s``.
        limit_cores: the envelope's limit of CPU.
        limit_write_mb_per_s: the envelope's limit of disk writes.
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
    tidy = tidy.drop_nulls("value")  # a line breaks off at a null
    series = list(columns.values())
    base = alt.Chart().properties(width=250, height=120)
    lines = base.mark_line().encode(
        x=alt.X("second:Q", title="seconds of the measured part", axis=alt.Axis(tickCount=5)),
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
    """Throughput over the seconds of runs; the warm-up has another dash.

    Args:
        intervals: rows of ``interval`` with ``run`` (name) and ``second`` counted over both phases.
    """
    return (
        alt.Chart(intervals, width=_WIDTH, height=200)
        .mark_line(point=True)
        .encode(
            x=alt.X("second:Q", title="seconds", axis=alt.Axis(format="d", tickMinStep=1)),
            y=alt.Y("tps:Q", title=theme.TPS_TITLE),
            strokeDash=alt.StrokeDash("phase:N", title=None, sort=["measure", "warmup"]),
            color=alt.Color("run:N", title=None),
        )
    )
