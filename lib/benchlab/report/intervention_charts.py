"""Charts of interventions: a run with lowered limits second by second, and elasticities."""

import altair as alt
import polars as pl

from benchlab.report import theme
from benchlab.report.interventions import IntervenedRun
from benchlab.study.resources import LOWERED

_WIDTH = 560

#: Axis of elasticities: the expected range is 0 to 1, with a margin on either side.
_DOMAIN = (-1, 2)

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


def over_time(run: IntervenedRun) -> alt.LayerChart:
    """Throughput of every second, with lowered limits shaded, and the mean of every block."""
    lowered = run.blocks.filter(pl.col("resource").is_not_null())
    color = _color(_names(lowered), "lowered", symbolType="square", symbolOpacity=0.35)
    x = alt.X("second:Q", title="seconds of the measured part", scale=alt.Scale(nice=False))
    shades = (
        alt.Chart(lowered)
        .mark_rect(opacity=0.35)
        .encode(
            x=alt.X("begin:Q"),
            x2="end:Q",
            color=color,
            tooltip=[
                alt.Tooltip("resource:N", title="lowered"),
                alt.Tooltip("in_force:Q", title="limit", format=",.4~g"),
                alt.Tooltip("lowered_to:Q", title="lowered to", format=",.4~g"),
                alt.Tooltip("tps:Q", title="mean TPS", format=",.0f"),
            ],
        )
    )
    seconds = (
        alt.Chart(run.seconds)
        .mark_line(color="#888888", strokeWidth=1, interpolate="step-before")
        .encode(x=x, y=alt.Y("tps:Q", title=theme.TPS_TITLE, scale=alt.Scale(zero=True)))
    )
    means = (
        alt.Chart(run.blocks.drop_nulls("tps"))
        .mark_rule(color="#111111", strokeWidth=2)
        .encode(x="begin:Q", x2="end:Q", y="tps:Q")
    )
    return alt.layer(shades, seconds, means).properties(width=_WIDTH, height=220)


def elasticities(frame: pl.DataFrame) -> alt.LayerChart:
    """Elasticity to every limit with its 95 % interval, one group of rows per point, lines at 0 and 1.

    Marks are cut off at the ends of the axis; the tooltip has the numbers. A limit without an
    elasticity has no dot.

    Args:
        frame: ``point``, ``resource``, ``elasticity``, ``low``, ``high``, ``blocks``, ``answer``; see
            :func:`benchlab.report.interventions.elasticities`.
    """
    measured = frame.drop_nulls("elasticity")
    names = _names(frame if measured.is_empty() else measured)
    base = alt.Chart(frame).encode(
        y=alt.Y("point:N", title=None, axis=alt.Axis(labelLimit=260, domain=False, ticks=False)),
        yOffset=alt.YOffset("resource:N", sort=names),
        color=_color(names, "limit"),
        tooltip=[
            alt.Tooltip("point:N"),
            alt.Tooltip("resource:N", title="limit"),
            alt.Tooltip("elasticity:Q", format=".2f"),
            alt.Tooltip("low:Q", format=".2f", title="95 % low"),
            alt.Tooltip("high:Q", format=".2f", title="95 % high"),
            alt.Tooltip("blocks:Q"),
            alt.Tooltip("answer:N"),
        ],
    )
    x = alt.X(
        "elasticity:Q",
        title="elasticity of throughput to the limit (d ln TPS / d ln limit)",
        scale=alt.Scale(domain=_DOMAIN, nice=False),
        axis=alt.Axis(grid=False, values=[-1, -0.5, 0, 0.5, 1, 1.5, 2]),
    )
    lines = [theme.reference_line(x=at) for at in (0, 1)]
    intervals = base.mark_rule(strokeWidth=2, clip=True).encode(x=alt.X("low:Q"), x2="high:Q")
    dots = base.mark_point(filled=True, size=70, clip=True).encode(
        x=x,
        shape=alt.Shape(
            "resource:N",
            title="limit",
            scale=alt.Scale(domain=names, range=_SHAPES[: len(names)]),
            legend=alt.Legend(titleOrient="left"),
        ),
    )
    rows = measured.select("point", "resource").n_unique()
    return alt.layer(*lines, intervals, dots, data=frame).properties(
        width=_WIDTH - 160, height=max(60, 18 * rows + 12 * measured["point"].n_unique())
    )


def _names(frame: pl.DataFrame) -> list[str]:
    known = set(frame["resource"])
    return [one.name for one in LOWERED.values() if one.name in known]


def _color(names: list[str], title: str, **legend: str | float) -> alt.Color:
    return alt.Color(
        "resource:N",
        title=title,
        scale=alt.Scale(domain=names, range=[theme.resource_color(name) for name in names]),
        legend=alt.Legend(titleOrient="left", **legend),
    )
