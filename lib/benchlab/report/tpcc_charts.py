"""The charts that a report of a TPC-C run discloses (TPC-C 5.11, clause 5.6), each from one frame."""

import altair as alt
import polars as pl

from benchlab.drivers.tpcc.limits import NAMES
from benchlab.drivers.tpcc.measured import Interval
from benchlab.numbers import number
from benchlab.report import theme

_WIDTH, _HEIGHT = 560, 220
_SMALL_WIDTH, _SMALL_HEIGHT = 235, 110

_BAR, _INK, _FAINT, _LABEL = "#6baed6", "#222222", "#777777", "#555555"

#: Marks of a histogram → dash.
_DASHES = {"mean": [4, 3], "p90": [1, 0]}

_CUMULATIVE = "since the interval began"


def response_times(histogram: pl.DataFrame, responses: pl.DataFrame) -> alt.ConcatChart:
    """The response times of each type, with their mean and their 90th percentile (p90).

    Args:
        histogram: see :func:`benchlab.report.tpcc.response_histogram`.
        responses: see :func:`benchlab.report.tpcc.responses`.
    """
    views = []
    for name in NAMES.values():
        bins = histogram.filter(type=name)
        if bins.is_empty():
            continue
        of_type = responses.row(by_predicate=pl.col("type") == name, named=True)
        marks = {"mean": of_type["mean (s)"], "p90": of_type["90th percentile (s)"]}
        title = _heading(name, bins, marks | {"maximum": of_type["maximum (s)"]})
        view = _histogram(bins, marks, "response time (s)", title)
        views.append(view.properties(width=_SMALL_WIDTH, height=_SMALL_HEIGHT))
    return alt.concat(*views, columns=2, spacing=18)


def think_times(histogram: pl.DataFrame, times: pl.DataFrame) -> alt.LayerChart:
    """The think times of New-Orders, with their mean.

    Args:
        histogram: see :func:`benchlab.report.tpcc.think_histogram`.
        times: see :func:`benchlab.report.tpcc.times`.
    """
    of_type = times.row(by_predicate=pl.col("type") == NAMES["new_order"], named=True)
    marks = {"mean": of_type["think, mean (s)"]}
    title = _heading("New-Order", histogram, marks | {"maximum": of_type["think, greatest (s)"]})
    view = _histogram(histogram, marks, "think time (s)", title)
    return view.properties(width=_WIDTH, height=_HEIGHT)


def _heading(name: str, bins: pl.DataFrame, seconds: dict[str, float]) -> alt.Title:
    """A view's name, the numbers that it marks, and how many are not shown."""
    lines = [", ".join(f"{what} {number(value)}" for what, value in seconds.items()) + " s"]
    if beyond := bins.filter(pl.col("to_s").is_null())["count"].sum():
        lines.append(f"{number(beyond)} of {number(bins['count'].sum())} beyond the axis")
    return alt.Title(name, subtitle=lines, fontSize=13, frame="group", offset=6)


def _histogram(
    bins: pl.DataFrame, marks: dict[str, float], title: str, heading: alt.Title
) -> alt.LayerChart:
    shown = bins.drop_nulls("to_s")
    end = shown["to_s"].max()
    x = alt.X("from_s:Q", bin="binned", title=title, scale=alt.Scale(domain=[0, end], nice=False))
    bars = (
        alt.Chart(shown)
        .mark_bar(color=_BAR, stroke="white", strokeWidth=0.4)
        .encode(
            x=x,
            x2="to_s",
            y=alt.Y(
                "count:Q",
                title="transactions",
                axis=alt.Axis(format=",d", tickCount=4, tickMinStep=1),
            ),
            tooltip=[
                alt.Tooltip("from_s:Q", format=".4~f"),
                alt.Tooltip("to_s:Q", format=".4~f"),
                alt.Tooltip("count:Q", format=","),
            ],
        )
    )
    lines = pl.DataFrame({"mark": list(marks), "at_s": list(marks.values())})
    dashes = {mark: _DASHES[mark] for mark in marks}
    rules = (
        alt.Chart(lines)
        .mark_rule(color=_INK, strokeWidth=1.5)
        .encode(
            x="at_s:Q",
            strokeDash=alt.StrokeDash(
                "mark:N",
                title=None,
                sort=list(dashes),
                scale=alt.Scale(domain=list(dashes), range=list(dashes.values())),
            ),
            tooltip=["mark", alt.Tooltip("at_s:Q", format=".4~f")],
        )
    )
    return alt.layer(bars, rules, title=heading)


def response_against_throughput(levels: pl.DataFrame) -> alt.LayerChart:
    """The 90th percentile of the response times of New-Orders against their throughput.

    Args:
        levels: a row per run, of :func:`benchlab.report.tpcc.level`, with ``curve``: whose it is.
    """
    base = alt.Chart(levels).encode(
        x=alt.X("per_minute:Q", title="New-Orders per minute", scale=alt.Scale(zero=True)),
        y=alt.Y("p90_s:Q", title="90th percentile of the response time (s)"),
    )
    color = theme.colors("curve", levels)
    curves = levels["curve"].unique(maintain_order=True).to_list()
    shape = alt.Shape("curve:N", title=None, sort=curves, scale=alt.Scale(domain=curves))
    lines = base.mark_line().encode(color=color)
    points = base.mark_point(filled=True).encode(
        color=color,
        shape=shape,
        tooltip=[
            "curve",
            alt.Tooltip("load:Q", format=".0%"),
            alt.Tooltip("per_minute:Q", format=",.1f"),
            alt.Tooltip("p90_s:Q", format=".3f"),
        ],
    )
    labels = base.mark_text(dy=-12, color=_INK, fontSize=11).encode(
        text=alt.Text("load:Q", format=".0%")
    )
    return alt.layer(lines, points, labels).properties(width=_WIDTH, height=_HEIGHT)


def over_time(
    steps: pl.DataFrame, interval: Interval, step_s: float, checkpoints: pl.DataFrame | None
) -> alt.LayerChart:
    """The throughput of New-Orders over the run, with the interval and the checkpoints.

    Args:
        steps: see :func:`benchlab.drivers.tpcc.measured.over_time`.
        interval: of measurement, which is shaded.
        step_s: length of a step.
        checkpoints: see :data:`benchlab.engines.base.CHECKPOINTS`, if there are any; a bar
            over the axis each.
    """
    series = [f"of each {step_s:g} s", _CUMULATIVE]
    shown = steps.rename(dict(zip(("per_minute", "cumulative"), series, strict=True))).unpivot(
        on=series, index="minute", variable_name="throughput", value_name="per_minute"
    )
    x = alt.X("minute:Q", title="minutes since the interval began", scale=alt.Scale(nice=False))
    color = alt.Color(
        "throughput:N",
        title=None,
        sort=series,
        scale=alt.Scale(domain=series, range=[_BAR, _INK]),
    )
    lines = [
        alt.Chart(shown.filter(throughput=name).drop_nulls("per_minute"))
        .mark_line(strokeWidth=width)
        .encode(
            x=x,
            y=alt.Y("per_minute:Q", title="New-Orders per minute", scale=alt.Scale(zero=True)),
            color=color,
            tooltip=[
                "throughput",
                alt.Tooltip("minute:Q", format=".2f"),
                alt.Tooltip("per_minute:Q", format=",.1f"),
            ],
        )
        for name, width in zip(series, (1.25, 2), strict=True)
    ]
    layers = [*_interval(interval), *lines]
    if checkpoints is not None and len(checkpoints):
        layers += _checkpoints(checkpoints, interval, steps["minute"].max())
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT)


def _interval(interval: Interval) -> list[alt.Chart]:
    """A shade behind the interval, with its name in the upper corner."""
    part = alt.Chart(pl.DataFrame({"minute": [0.0], "end": [interval.minutes]})).encode(
        x="minute:Q"
    )
    name = part.mark_text(align="left", baseline="bottom", dx=4, dy=-24, color=_LABEL, fontSize=11)
    return [
        part.mark_rect(color="black", opacity=0.06).encode(x2="end:Q"),
        name.encode(y=alt.value(_HEIGHT), text=alt.value("measurement interval")),
    ]


def _checkpoints(checkpoints: pl.DataFrame, interval: Interval, last: float) -> list[alt.Chart]:
    """A bar over the axis for each checkpoint, from its begin to its end, and a line at its begin."""
    at = [
        ((pl.col(column) - interval.begin_us) / 60e6).alias(name)
        for column, name in (("begin_us", "minute"), ("end_us", "end"))
    ]
    spans = checkpoints.select(at).with_columns(pl.col("end").fill_null(last))
    bottom, x = alt.value(_HEIGHT), alt.X("minute:Q")
    tooltip = [alt.Tooltip("minute:Q", format=".2f"), alt.Tooltip("end:Q", format=".2f")]
    return [
        alt.Chart(spans)
        .mark_rule(color=_FAINT, strokeDash=[3, 3], strokeWidth=1)
        .encode(x=x, tooltip=tooltip),
        alt.Chart(spans)
        .mark_rect(color=_FAINT)
        .encode(x=x, x2="end:Q", y=bottom, y2=alt.value(_HEIGHT - 7), tooltip=tooltip),
        alt.Chart(spans.head(1))
        .mark_text(align="left", baseline="bottom", dx=3, dy=-9, color=_LABEL, fontSize=11)
        .encode(x=x, y=bottom, text=alt.value("checkpoints")),
    ]
