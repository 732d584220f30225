"""Charts of verdicts."""

import textwrap

import altair as alt
import polars as pl

from benchlab.report import theme
from benchlab.report.verdicts import VERDICTS

#: The colours of Okabe and Ito, as everywhere, but for a darker red, so that in greyscale it differs
#: from the green; *not testable here*, which says nothing, is grey.
_COLORS = alt.Scale(domain=VERDICTS, range=["#009E73", "#9C4400", "#CC79A7", "#E69F00", "#BBBBBB"])

#: Shape of a ratio's point by its verdict.
_SHAPES = alt.Scale(domain=VERDICTS, range=["circle", "square", "diamond", "triangle-up", "cross"])

_WIDTH = 420

#: Height of a line of text, and width that a number in a bar takes, in pixels.
_LINE, _NUMBER = 13, 12


def summary(frame: pl.DataFrame) -> alt.HConcatChart:
    """How many claims of each study have which verdict: one bar per study, for runs and for audits.

    Args:
        frame: see :func:`benchlab.report.verdicts.summary`.
    """
    position = {name: number for number, name in enumerate(VERDICTS)}
    shown = frame.with_columns(pl.col("verdict").replace_strict(position).alias("position"))
    studies = frame["study"].unique(maintain_order=True).to_list()
    views = []
    for decided_by, title in (
        ("runs", "Claims that need runs"),
        ("audit", "Audits, which need none"),
    ):
        axis = alt.Axis(labelLimit=200) if not views else None
        of_view = shown.filter(decided_by=decided_by)
        longest = of_view.group_by("study").agg(pl.col("claims").sum())["claims"].max() or 1
        fits = pl.col("claims") * (_WIDTH / 2 / longest) >= _NUMBER
        number = pl.when(fits).then(pl.col("claims").cast(pl.String)).otherwise(pl.lit(""))
        base = alt.Chart(of_view.with_columns(number=number)).encode(
            y=alt.Y("study:N", scale=alt.Scale(domain=studies), title=None, axis=axis),
            x=alt.X("claims:Q", stack="zero", title=None, axis=None),
            order=alt.Order("position:Q"),
            tooltip=["study", "verdict", "claims"],
        )
        bars = base.mark_bar(stroke="white", strokeWidth=1).encode(
            color=alt.Color(
                "verdict:N",
                scale=_COLORS,
                title=None,
                legend=alt.Legend(columns=5, symbolType="square", values=list(VERDICTS)),
            )
        )
        numbers = base.mark_text(fontSize=11, color="#222222").encode(
            x=alt.X("claims:Q", stack="zero", bandPosition=0.5), text="number:N"
        )
        layered = alt.layer(bars, numbers)
        views.append(layered.properties(width=_WIDTH / 2, height=alt.Step(16), title=title))
    return alt.hconcat(*views, spacing=16)


def ratios(frame: pl.DataFrame) -> alt.LayerChart:
    """Ratios that decided claims, with their intervals, on the range for which the claim holds.

    Args:
        frame: see :func:`benchlab.report.verdicts.ratios`.
    """
    least, most = _extent(frame)
    shown = frame.with_columns(
        # values beyond the axis would stretch it
        pl.col("low", "high", "from", "to").clip(least, most),
        lines=pl.Series([textwrap.wrap(text, 80) for text in frame["claim"]]),
    )
    most_lines = shown["lines"].list.len().max()
    y = alt.Y("claim:N", sort=frame["claim"].to_list(), title=None, axis=None)
    x = alt.Scale(type="log", domain=[least, most], nice=False)
    base = alt.Chart(shown).encode(y=y, tooltip=["claim", "verdict", "value", "low", "high"])
    decided = [name for name in VERDICTS if name in set(frame["verdict"])]
    legend = alt.Legend(values=decided, columns=2)  # beside long names the view is narrow
    color = alt.Color("verdict:N", scale=_COLORS, title=None, legend=legend)
    shape = alt.Shape("verdict:N", scale=_SHAPES, title=None, legend=legend)
    band = base.mark_bar(color="#DDDDDD", height=22).encode(
        x=alt.X("from:Q", scale=x, title="ratio (grey: for which the claim holds)"), x2="to:Q"
    )
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", color=color)
    point = base.mark_point(filled=True, size=80).encode(
        x=alt.X("value:Q"), color=color, shape=shape
    )
    even = theme.reference_line(x=1)
    return (
        alt.layer(band, even, interval, point, *_names(base, most_lines))
        .properties(width=_WIDTH - 100, height=alt.Step(most_lines * _LINE + 8))
        .configure_axisX(grid=True)
    )


def _extent(frame: pl.DataFrame) -> tuple[float, float]:
    """Ends of the axis: they include all ratios, the finite bounds of the claims, 1, and a margin."""
    values = pl.concat([frame["value"], frame["from"], frame["to"]])
    inner = values.filter(values.is_finite() & (values > 0))
    return min(inner.min(), 1) / 1.5, max(inner.max(), 1) * 1.5


def _names(base: alt.Chart, most_lines: int) -> list[alt.Chart]:
    """Claims beside the axis; text of several lines is moved up, as it would only extend downwards."""
    return [
        base.transform_filter(f"length(datum.lines) == {lines}")
        .mark_text(
            align="right",
            baseline="middle",
            lineHeight=_LINE,
            dy=-(lines - 1) * _LINE / 2,
            fontSize=12,
        )
        .encode(x=alt.value(-10), text="lines:N")
        for lines in range(1, most_lines + 1)
    ]
