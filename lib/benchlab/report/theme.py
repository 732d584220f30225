"""The appearance of every chart of benchlab, on screen and in print.

An engine keeps its colour and its point shape in all charts. The colours are those of Okabe and
Ito (*Color Universal Design*, 2008), which remain distinct under the common colour blindnesses. Shape
and dash repeat the distinction, so that a greyscale print can be read. The variant `default` is a
solid line with filled points in the engine's colour. `tuned` is a dashed line with hollow points in a
darker shade of that colour. Points of any other variant are filled with a pale shade. Engines and
variants that no table here names have their own style within their study, and the labels of its file.
"""

import base64
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl
import vl_convert
from altair.utils.plugin_registry import PluginEnabler

from benchlab.study import Study
from benchlab.study.resources import CPU, ENGINE_CPU

#: The fonts that vl-convert includes (Liberation Sans), then fonts of equal widths on other systems.
FONT = "Liberation Sans, Arial, Helvetica, Noto Sans CJK SC, sans-serif"

#: Rows of a table that a notebook shows; a longer one is cut in the middle.
_ROWS = 200

#: engine → (name in prose, colour, point shape)
ENGINES = {
    "postgres": ("PostgreSQL", "#0072B2", "circle"),
    "postgres15": ("PostgreSQL 15", "#332288", "triangle-left"),
    "tidb": ("TiDB", "#D55E00", "square"),
    "oceanbase": ("OceanBase", "#009E73", "triangle-up"),
    "mysql": ("MySQL", "#E69F00", "diamond"),
    "mariadb": ("MariaDB", "#CC79A7", "cross"),
    "he3db": ("He3DB", "#56B4E9", "triangle-down"),
}
#: Colour and point shape of engines that are not in the table above, in turn.
SPARE_ENGINES = (
    ("#595959", "triangle-right"),
    ("#882255", "square"),
    ("#999933", "diamond"),
    ("#44AA99", "circle"),
)

PALETTE = [color for _, color, _ in ENGINES.values()] + [SPARE_ENGINES[0][0]]

#: Colours of series that are no engines: the two dark blues are not next to each other.
_SERIES = sorted(PALETTE, key=lambda color: color == ENGINES["postgres15"][1])

_SHAPES = [shape for _, _, shape in ENGINES.values()]

#: Widths in pixels: of a chart's legend, of an entry's symbol, of a letter.
_LEGEND_WIDTH, _SYMBOL_WIDTH, _LETTER_WIDTH = 560, 34, 6

#: variant → dash pattern in pixels (line, gap, …); other variants take `OTHER_DASHES` in turn.
DASHES = {"default": [1, 0], "tuned": [6, 3]}
OTHER_DASHES = ([2, 2], [8, 3, 2, 3], [12, 4], [4, 6])

#: Shades of the engine's colour for other variants in turn: the colour's share, and the grey mixed in.
#: Each turn has another shape.
_SHADES = ((0.66, 0), (0.7, 255), (0.4, 0), (0.5, 255))

#: Resource that binds → colour of its cell in a strip, in the order of legends. The colours differ from
#: those of the engines: warm for the disk, violet for CPU and application server, green for what engine
#: and kernel themselves make scarce, grey if nothing is scarce. Within a family, darker colours come
#: before lighter ones, so that a greyscale print can be read.
RESOURCE_COLORS = {
    "disk write bandwidth": "#7f3b08",
    "disk write IOPS": "#b35806",
    "disk read bandwidth": "#e08214",
    "disk read IOPS": "#fdb863",
    "commit latency": "#c51b7d",
    "CPU of the engine": "#2d004b",
    "CPU of the client": "#8073ac",
    "application server": "#b2abd2",
    "memory": "#01665e",
    "network": "#35978f",
    "locks": "#80cdc1",
    "the engine's own limit": "#c7eae5",
    "concurrency": "#969696",
    "none": "#d9d9d9",
    "unknown": "#ffffff",
}

#: Free space on both sides of a logarithmic axis, in pixels.
PADDING = 16

#: Title of an axis of throughput.
TPS_TITLE = "TPS (transactions/s)"

#: Significant digits of a number in the text of a chart.
_DIGITS = 9

#: Two lines from corner to corner, as an SVG path.
_CROSS = "M-1,-1L1,1M1,-1L-1,1"


@alt.theme.register("benchlab", enable=False)
def _config() -> alt.theme.ThemeConfig:
    """The Vega-Lite configuration; sizes in pixels, legible if 680 pixels span an A4 column."""
    text = {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"}
    ink, faint = "#222222", "#dddddd"
    return {
        "config": {
            "font": FONT,
            "background": "white",
            "padding": 6,
            "view": {"continuousWidth": 600, "continuousHeight": 300, "stroke": None},
            "title": {"anchor": "start", "fontSize": 14, "color": ink, "offset": 10},
            "axis": {
                **text,
                "labelColor": ink,
                "titleColor": ink,
                "titlePadding": 8,
                "labelPadding": 4,
                "domainColor": "#777777",
                "tickColor": "#777777",
                "gridColor": faint,
                "gridWidth": 0.75,
                "labelOverlap": True,
            },
            "axisX": {"grid": False},
            # A horizontal title above the axis takes no width from the chart.
            "axisY": {
                "titleAngle": 0,
                "titleAlign": "left",
                "titleAnchor": "end",
                "titleBaseline": "bottom",
                "titleX": 0,
                "titleY": -8,
                "domain": False,
                "ticks": False,
                "labelPadding": 9,
            },
            "legend": {
                **text,
                "orient": "bottom",
                "direction": "horizontal",
                "columns": 3,
                "symbolSize": 100,
                "symbolStrokeWidth": 2,
                "labelColor": ink,
                "titleColor": ink,
                "labelLimit": 260,
            },
            "header": {
                **text,
                "title": None,
                "labelFontWeight": "bold",
                "labelColor": ink,
                "titleColor": ink,
            },
            "line": {"strokeWidth": 2},
            "point": {"size": 55, "strokeWidth": 1.75, "opacity": 1},
            "rule": {"color": "#555555"},
            "area": {"opacity": 0.25, "line": False},
            "errorbar": {"ticks": True},
            "range": {"category": PALETTE, "heatmap": {"scheme": "cividis"}},
        }
    }


def enable() -> PluginEnabler:
    """Use this theme for all charts; as a context manager, only for those inside."""
    return alt.theme.enable("benchlab")


def enable_in_notebook() -> None:
    """Use this theme; show charts so that stored notebooks are readable anywhere and comparable.

    Tables are shown whole, up to :data:`_ROWS` rows. The output of a chart is a picture, which needs
    neither a network nor an extension, and the chart's whole specification as text, which nbval
    compares. Numbers in that text have nine digits, because the last digits of a double differ from CPU
    to CPU. For live charts, `altair.renderers.enable("html")`.
    """
    enable()
    alt.renderers.register("benchlab", _picture_and_text)
    alt.renderers.enable("benchlab")
    pl.Config(tbl_rows=_ROWS, tbl_cols=-1, fmt_str_lengths=400, tbl_width_chars=200)


def _picture_and_text(spec: dict[str, Any], **_: Any) -> dict[str, str]:
    picture = vl_convert.vegalite_to_png(spec, scale=1.2)
    return {
        "image/png": base64.b64encode(picture).decode(),
        "text/plain": _text(spec),
    }


def _text(spec: dict[str, Any]) -> str:
    text = json.dumps(_rounded(spec))
    for number, name in enumerate(spec.get("datasets", {}), start=1):  # a hash of unrounded data
        text = text.replace(name, f"data-{number}")
    # sorted by the new names: the order of the hashes differs from CPU to CPU, too
    return json.dumps(json.loads(text), sort_keys=True)


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.{_DIGITS}g}")
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
        case list():
            return [_rounded(one) for one in value]
    return value


def label(engine: str, variant: str | None = None) -> str:
    """Name of an engine, or of one of its variants, for charts without a study."""
    name = ENGINES[engine][0] if engine in ENGINES else engine
    return f"{name}, {variant}" if variant else name


@dataclass(frozen=True)
class Style:
    """How one curve is drawn."""

    label: str
    color: str
    """Colour of the line, as ``#rrggbb``."""
    fill: str
    """Colour inside the points, as ``#rrggbb``."""
    shape: str
    """Shape of the points, by Vega's name."""
    dash: list[int]
    """Dash pattern of the line in pixels: line, gap, …"""


def style(engine: str, variant: str = "default", label: str | None = None) -> Style:
    """Return the style of an engine's variant from the tables here alone, as for published numbers.

    An engine that is not among :data:`ENGINES` is grey.
    """
    name, color, shape = ENGINES.get(engine, (engine, *SPARE_ENGINES[0]))
    return _style(label or f"{name}, {variant}", color, shape, variant, number=0)


def styles(study: Study) -> dict[tuple[str, str], Style]:
    """Return the style of every engine and variant of a study, in the order of its file.

    An engine that is not among :data:`ENGINES` takes the next of the spare styles, and keeps it in all
    charts of the study. If the study has a single engine with several variants that are not among
    :data:`DASHES`, the engine's colour would distinguish nothing, so each of them has its own colour
    and shape.
    """
    spare = itertools.cycle(SPARE_ENGINES)
    found = {}
    for engine, spec in study.engines.items():
        _, color, shape = ENGINES[engine] if engine in ENGINES else (engine, *next(spare))
        others = [variant for variant in spec.variants if variant not in DASHES]
        colorful = len(study.engines) == 1 and len(others) > 1
        others_colors = [one for one in PALETTE if one != color]
        for variant in spec.variants:
            label = study.curve_label(engine, variant)
            number = others.index(variant) if variant in others else 0
            if colorful and variant in others:
                own = others_colors[number % len(others_colors)]
                dash = (DASHES["default"], *OTHER_DASHES)[number % (1 + len(OTHER_DASHES))]
                found[engine, variant] = Style(
                    label, own, own, _SHAPES[number % len(_SHAPES)], dash
                )
            else:
                found[engine, variant] = _style(label, color, shape, variant, number)
    return found


def styles_of(study: Study, frame: pl.DataFrame) -> list[Style]:
    """Return the styles of the curves that a frame with ``engine`` and ``variant`` has, in order."""
    known, present = styles(study), set(frame.select("engine", "variant").unique().rows())
    # a run may have an engine or variant that the study's file no longer has
    lost = {pair: style(*pair, study.curve_label(*pair)) for pair in sorted(present - known.keys())}
    return [one for pair, one in (known | lost).items() if pair in present]


def _style(label: str, color: str, shape: str, variant: str, number: int) -> Style:
    """The style of a variant in its engine's colour; ``number``: place among others."""
    if variant == "default":
        return Style(label, color, color, shape, DASHES[variant])
    if variant in DASHES:
        return Style(label, _mixed(color, 0.66, 0), "#FFFFFF", shape, DASHES[variant])
    turn, place = divmod(number, len(_SHADES))
    shapes = [shape, *(one for one in _SHAPES if one != shape)]
    dash = OTHER_DASHES[number % len(OTHER_DASHES)]
    of_turn = shapes[turn % len(shapes)]
    return Style(label, _mixed(color, *_SHADES[place]), _mixed(color, 0.45, 255), of_turn, dash)


def _mixed(of: str, share: float, other: int) -> str:
    """Mix a colour with a grey, black (0) to white (255)."""
    channels = (int(of[i : i + 2], 16) for i in (1, 3, 5))
    mixed = (round(share * channel + (1 - share) * other) for channel in channels)
    return "#" + "".join(f"{channel:02X}" for channel in mixed)


def reference_line(**at: float) -> alt.Chart:
    """Dashed line at a value of an axis that others are compared with, such as ``y=1``."""
    where = {axis: alt.datum(value) for axis, value in at.items()}
    return alt.Chart().mark_rule(strokeDash=[4, 4]).encode(**where)


def resource_color(name: str) -> str:
    """Colour of a resource; CPU, the joint limit of engine and load, has that of the engine's CPU."""
    return RESOURCE_COLORS[ENGINE_CPU if name == CPU.name else name]


def curves(
    base: alt.Chart,
    styles: Iterable[Style],
    interval: tuple[str, str] | None = None,
    legend: alt.Legend | None = None,
    crossed: bool = False,
) -> alt.LayerChart:
    """Lines and points: one curve per style, in the legend's order.

    `base` has the data, x and y; its column `curve` holds the styles' labels. `interval` names the two
    columns that bound each value. The legend shows the points, whose fill depends on the variant; the
    default is :func:`balanced_legend`. With `crossed`, points that are not `valid` are crossed out.
    """
    styles = list({one.label: one for one in styles}.values())
    domain = [one.label for one in styles]
    legend = legend or balanced_legend(domain)

    def channel(kind: type[Any], values: list[Any], legend: Any = alt.Undefined) -> alt.SchemaBase:
        scale = alt.Scale(domain=domain, range=values)
        return kind("curve", type="nominal", title=None, scale=scale, legend=legend)

    line_color = channel(alt.Color, [one.color for one in styles], None)
    line_dash = channel(alt.StrokeDash, [one.dash for one in styles], None)
    layers = [
        base.mark_line().encode(color=line_color, strokeDash=line_dash),
        base.mark_point().encode(
            stroke=channel(alt.Stroke, [one.color for one in styles], legend),
            fill=channel(alt.Fill, [one.fill for one in styles], legend),
            shape=channel(alt.Shape, [one.shape for one in styles], legend),
        ),
    ]
    if interval is not None:
        low, high = interval
        rule = base.mark_rule(strokeWidth=1.25)
        layers.insert(1, rule.encode(y=f"{low}:Q", y2=f"{high}:Q", color=line_color))
    if crossed:
        layers.append(crosses(base))
    # With a shared legend, a layer that switches it off would switch it off for all.
    return alt.layer(*layers).resolve_legend(color="independent", strokeDash="independent")


def colors(column: str, frame: pl.DataFrame, title: str | None = None) -> alt.Color:
    """Encode each value of a column as a colour, in the order of the rows."""
    values = frame[column].unique(maintain_order=True).to_list()
    return _of_values(alt.Color, column, values, _SERIES, title)


def dashes(column: str, frame: pl.DataFrame, title: str | None = None) -> alt.StrokeDash:
    """Encode each value of a column as a dash pattern, in the order of the rows."""
    values = frame[column].unique(maintain_order=True).to_list()
    return _of_values(alt.StrokeDash, column, values, [*DASHES.values(), *OTHER_DASHES], title)


def of_curves(study: Study, frame: pl.DataFrame) -> tuple[alt.Color, alt.StrokeDash]:
    """Encode the column ``curve``, a label of each curve, as its colour and its dash pattern."""
    present = set(frame["curve"])
    shown = [one for one in styles(study).values() if one.label in present]
    labels = [one.label for one in shown]
    return (
        _of_values(alt.Color, "curve", labels, [one.color for one in shown]),
        _of_values(alt.StrokeDash, "curve", labels, [one.dash for one in shown]),
    )


def _of_values(
    kind: type[Any], column: str, values: list[str], looks: Sequence[Any], title: str | None = None
) -> Any:
    """Encode each value of a column by one of the looks, in their order."""
    scale = alt.Scale(domain=values, range=looks[: len(values)])
    return kind(f"{column}:N", title=title, sort=values, scale=scale)


def log_axis(
    field: str, values: pl.Series, title: str, domain: Sequence[float] | None = None
) -> alt.X:
    """A logarithmic axis with ticks at exactly the given values.

    Args:
        field: column on the axis.
        values: the values.
        title: title of the axis.
        domain: ends of the axis; ``None``: the least and greatest on it.
    """
    ends = alt.Undefined if domain is None else domain
    return alt.X(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(type="log", base=2, nice=False, padding=PADDING, domain=ends),
        axis=alt.Axis(values=values.unique().sort().to_list(), format="~f"),
    )


def crosses(base: alt.Chart) -> alt.Chart:
    """Cross out the points of a chart that did not pass the gate: rows whose ``valid`` is false."""
    mark = base.mark_point(shape=_CROSS, size=300, strokeWidth=1.75, stroke="#222222")
    return mark.transform_filter("datum.valid === false")


def sentence(text: str) -> str:
    """Return a text with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def balanced_legend(labels: Sequence[str]) -> alt.Legend:
    """A legend as wide as a chart, with the entries spread evenly over as few lines as possible."""
    longest = max(map(len, labels), default=0)
    fitting = max(1, _LEGEND_WIDTH // (_SYMBOL_WIDTH + _LETTER_WIDTH * longest))
    lines = math.ceil(len(labels) / fitting)
    return alt.Legend(columns=math.ceil(len(labels) / lines) if lines else 1)
