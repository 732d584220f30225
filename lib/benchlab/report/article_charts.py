"""Charts of the articles' own curves, from published tables only."""

from collections.abc import Callable

import altair as alt
import polars as pl

from benchlab.report import theme

_WIDTH, _HEIGHT = 270, 170

#: Label of a curve → its colour, point shape and dash pattern.
Styles = dict[str, tuple[str, str, list[int]]]

SOLID, DASHED, DOTTED = [1, 0], [6, 3], [2, 2]

#: Channels that distinguish curves.
CHANNELS = ("color", "fill", "stroke", "shape", "strokeDash")


def curve(label: Callable[[str, str], str]) -> pl.Expr:
    """Name of each row's curve, from its engine and variant."""
    return pl.struct("engine", "variant").map_elements(
        lambda pair: label(pair["engine"], pair["variant"]), return_dtype=pl.String
    )


def base(concurrency: pl.Series, title: str) -> alt.Chart:
    """A small view with an axis of concurrencies."""
    return view(theme.log_axis("concurrency", concurrency, title))


def view(x: alt.X) -> alt.Chart:
    """A small view with a given horizontal axis."""
    return alt.Chart().properties(width=_WIDTH, height=_HEIGHT).encode(x=x)


def lines(base: alt.Chart, field: str, styles: Styles) -> alt.LayerChart:
    """Curves with given styles, for curves that do not each have their own engine or variant."""

    def channel(kind: type, position: int, legend: alt.Legend | None) -> alt.SchemaBase:
        scale = alt.Scale(domain=list(styles), range=[style[position] for style in styles.values()])
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
    # with a shared legend, a layer that switches it off would switch it off for all
    return alt.layer(lines, points).resolve_legend(color="independent", strokeDash="independent")


def facets(chart: alt.TopLevelMixin, frame: pl.DataFrame, by: str, title: str) -> alt.FacetChart:
    """Draw one view per value of a column, two per row, under a title."""
    order = frame[by].unique(maintain_order=True).to_list()
    chart.data = frame
    facet = alt.Facet(f"{by}:N", title=None, sort=order)
    return chart.facet(facet, columns=2, title=title)
