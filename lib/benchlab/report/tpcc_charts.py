"""The charts that a report of a TPC-C run discloses (TPC-C 5.11, clause 5.6).

The heading of each chart says how its terminals were paced.
"""

from collections.abc import Iterable

import altair as alt
import polars as pl

from benchlab.drivers.tpcc.limits import NAMES
from benchlab.numbers import number
from benchlab.report import theme, tpcc
from benchlab.report.tpcc import Run
from benchlab.study import Study

_WIDTH, _HEIGHT = 560, 220
_SMALL_WIDTH, _SMALL_HEIGHT = 150, 100
_HALF_WIDTH, _HALF_HEIGHT = 245, 130

_BAR, _INK, _FAINT = "#6baed6", "#222222", "#777777"

#: Mark of a histogram → dash pattern.
_DASHES = {"mean": [4, 3], "90th percentile": [1, 0]}

_CUMULATIVE = "since the interval began"

#: Length in s from which an interval is shown in minutes.
_LONG_S = 600


def response_times(run: Run) -> alt.ConcatChart:
    """Histograms of the response times of each type, with mean and 90th percentile."""
    histogram, found = tpcc.response_histogram(run), tpcc.responses([run])
    views = []
    for name in NAMES.values():
        bins = histogram.filter(type=name)
        if bins.is_empty():
            continue
        of_type = found.row(by_predicate=pl.col("type") == name, named=True)
        marks = {"mean": of_type["mean (s)"], "90th percentile": of_type["90th percentile (s)"]}
        lines = [
            f"mean {number(marks['mean'])} s, maximum {number(of_type['maximum (s)'])} s",
            f"90th percentile {number(marks['90th percentile'])} s",
        ]
        view = _histogram(bins, marks, "response time (s)", _heading(name, lines, bins))
        views.append(view.properties(width=_SMALL_WIDTH, height=_SMALL_HEIGHT))
    return alt.concat(*views, columns=3, spacing=14, title=_title(run.heading))


def think_times(runs: Iterable[Run]) -> alt.ConcatChart:
    """Histograms of each run's think times of New-Orders, with the mean; no view if a run has none."""
    views = []
    for run in runs:
        bins = tpcc.think_histogram(run)
        if bins.is_empty():
            continue
        of_type = tpcc.times([run]).row(
            by_predicate=pl.col("type") == NAMES["new_order"], named=True
        )
        marks = {"mean": of_type["think, mean (s)"]}
        lines = [
            tpcc.paced(run.pacing),
            f"mean {number(marks['mean'])} s, maximum {number(of_type['think, greatest (s)'])} s",
        ]
        view = _histogram(bins, marks, "think time (s)", _heading(run.curve, lines, bins))
        views.append(view.properties(width=_HALF_WIDTH, height=_HALF_HEIGHT))
    return alt.concat(*views, columns=2, spacing=18)


def _title(text: str) -> alt.Title:
    return alt.Title(text, fontSize=13, anchor="start", frame="group", offset=8)


def _heading(name: str, lines: list[str], bins: pl.DataFrame) -> alt.Title:
    """A view's name, lines about it, and how many values are beyond the axis."""
    if beyond := bins.filter(pl.col("to_s").is_null())["count"].sum():
        lines = [*lines, f"{number(beyond)} of {number(bins['count'].sum())} beyond the axis"]
    return alt.Title(
        name, subtitle=lines, fontSize=13, subtitleFontSize=11, frame="group", offset=6
    )


def _histogram(
    bins: pl.DataFrame, marks: dict[str, float], title: str, heading: alt.Title
) -> alt.LayerChart:
    shown = bins.drop_nulls("to_s")
    ends = [shown["from_s"].min(), shown["to_s"].max()]
    x = alt.X(
        "from_s:Q",
        bin="binned",
        title=title,
        scale=alt.Scale(domain=ends, nice=False, zero=False),
        axis=alt.Axis(tickCount=3, format=".4~r", labelFlush=False),
    )
    bars = (
        alt.Chart(shown)
        .mark_bar(color=_BAR, stroke="white", strokeWidth=0.4)
        .encode(
            x=x,
            x2="to_s",
            y=alt.Y(
                "count:Q",
                title="transactions",
                axis=alt.Axis(format=",d", tickCount=min(4, shown["count"].max())),
            ),
            tooltip=[
                alt.Tooltip("from_s:Q", format=".4~f"),
                alt.Tooltip("to_s:Q", format=".4~f"),
                alt.Tooltip("count:Q", format=","),
            ],
        )
    )
    lines = pl.DataFrame({"mark": list(marks), "at_s": list(marks.values())})
    rules = (
        alt.Chart(lines)
        .mark_rule(color=_INK, strokeWidth=1.5, clip=True)
        .encode(
            x="at_s:Q",
            strokeDash=alt.StrokeDash(
                "mark:N",
                title=None,
                sort=list(marks),
                scale=alt.Scale(domain=list(marks), range=[_DASHES[mark] for mark in marks]),
            ),
            tooltip=["mark", alt.Tooltip("at_s:Q", format=".4~f")],
        )
    )
    return alt.layer(bars, rules, title=heading)


def response_against_throughput(study: Study, levels: pl.DataFrame) -> alt.VConcatChart:
    """The 90th percentile of the response times of New-Orders against their throughput.

    There is one view per pacing. Labels are shares of the most terminals.

    Args:
        study: whose labels and styles the curves have.
        levels: see :func:`benchlab.report.tpcc.levels`.
    """
    views = []
    for (pacing,), of_workload in levels.group_by("pacing", maintain_order=True):
        base = alt.Chart(of_workload).encode(
            # an overloaded engine does less: the curve turns back
            order="concurrency:Q",
            x=alt.X("per_minute:Q", title="New-Orders per minute", scale=alt.Scale(zero=True)),
            y=alt.Y(
                "p90_s:Q",
                title=["90th percentile of the", "response time (s)"],
                scale=alt.Scale(zero=False, padding=16),
            ),
            tooltip=[
                "curve",
                alt.Tooltip("load:Q", format=".0%"),
                alt.Tooltip("per_minute:Q", format=",.1f"),
                alt.Tooltip("p90_s:Q", format=".3f"),
            ],
        )
        styles = theme.styles_of(study, of_workload)
        curves = theme.curves(base, styles, crossed=not of_workload["valid"].all())
        labels = base.mark_text(dy=-12, color=_INK, fontSize=11).encode(
            text=alt.Text("load:Q", format=".0%")
        )
        title = _title(theme.sentence(tpcc.paced(pacing)))
        views.append(
            alt.layer(curves, labels).properties(width=_WIDTH, height=_HEIGHT, title=title)
        )
    return alt.vconcat(*views, spacing=18)


def over_time(runs: Iterable[Run]) -> alt.ConcatChart:
    """The throughput of New-Orders over the measured part of each run, with its checkpoints.

    If the engine does not report checkpoints, cycles of its background work are shown; see
    :func:`benchlab.report.tpcc.cycles`.
    """
    return alt.concat(*map(_over_time, runs), columns=2, spacing=18)


def _over_time(run: Run) -> alt.LayerChart:
    names = {"per_minute": "within a step", "cumulative": _CUMULATIVE}
    shown = (
        tpcc.over_time(run)
        .rename(names)
        .unpivot(
            on=list(names.values()),
            index="minute",
            variable_name="throughput",
            value_name="per_minute",
        )
    )
    series = list(names.values())
    unit, of_minute = ("minutes", 1) if run.seconds >= _LONG_S else ("seconds", 60)
    x = alt.X(
        "at:Q",
        title=f"{unit} of the measured part",
        scale=alt.Scale(domain=[0, run.seconds / 60 * of_minute], nice=False),
        axis=alt.Axis(tickCount=5, labelFlush=False),
    )
    lines = [
        alt.Chart(shown.filter(throughput=name).with_columns(at=pl.col("minute") * of_minute))
        .mark_line(strokeWidth=width)
        .encode(
            x=x,
            y=alt.Y("per_minute:Q", title="New-Orders per minute", scale=alt.Scale(zero=True)),
            color=alt.Color(
                "throughput:N",
                title=None,
                sort=series,
                scale=alt.Scale(domain=series, range=[_BAR, _INK]),
            ),
            tooltip=[
                "throughput",
                alt.Tooltip("at:Q", title=unit, format=".1f"),
                alt.Tooltip("per_minute:Q", format=",.1f"),
            ],
        )
        for name, width in zip(series, (1.25, 2), strict=True)
    ]
    steps = f"steps of {tpcc.step_s(run)} s"
    layers, marked = _marks(run, x, unit, of_minute)
    said = [tpcc.paced(run.pacing), f"{steps}; {marked}"]
    title = alt.Title(run.curve, subtitle=said, fontSize=13, subtitleFontSize=11, frame="group")
    return alt.layer(*layers, *lines, title=title).properties(
        width=_HALF_WIDTH, height=_HALF_HEIGHT
    )


def _marks(run: Run, x: alt.X, unit: str, of_minute: float) -> tuple[list[alt.Chart], str]:
    """Return marks for the checkpoints, or for the cycles if there are none, and a text with the count.

    A checkpoint is a bar on the axis from its start to its end, and a line at its start. A cycle is a
    line at the time when it was first seen.
    """
    spans = tpcc.checkpoints(run)
    found = tpcc.cycles(run) if run.checkpoints.is_empty() else spans
    what = "cycles of background work" if run.checkpoints.is_empty() else "checkpoints"
    layers = []
    if len(found):
        at = (pl.col(pl.Float64) * of_minute).name.replace("minute", "at")
        base = alt.Chart(found.select(at)).encode(
            x=x, tooltip=[alt.Tooltip("at:Q", title=unit, format=".1f")]
        )
        layers.append(base.mark_rule(color=_FAINT, strokeDash=[3, 3], strokeWidth=1, clip=True))
        if "end" in found.columns:
            bars = base.mark_rect(color=_FAINT, clip=True)
            bottom, top = alt.value(_HALF_HEIGHT), alt.value(_HALF_HEIGHT - 6)
            layers.append(bars.encode(x2="end:Q", y=bottom, y2=top))
    return layers, f"{what}: {len(found)}"
