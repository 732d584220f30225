"""How every chart of benchlab looks, on screen and in print.

An engine keeps its colour and its point shape in all charts. The colours are those of Okabe and
Ito (*Color Universal Design*, 2008), which stay apart under the common colour blindnesses; shape
and dash say the same once more, so that a greyscale print can be read. The variant `default` is a
solid line with filled points in the engine's colour, `tuned` a dashed one with hollow points in a
darker shade of it; points of any other variant are filled with a pale one.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from itertools import cycle
from types import MappingProxyType
from typing import Any

import altair as alt
import vl_convert
from altair.utils.plugin_registry import PluginEnabler

from benchlab.study.resources import CPU, ENGINE_CPU

#: Fonts that vl-convert carries (Liberation Sans), then those of the same widths on other systems.
FONT = "Liberation Sans, Arial, Helvetica, Noto Sans CJK SC, sans-serif"

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
#: Of engines that are not in the table above, in turn: colour, point shape. Colours of Paul Tol's muted
#: scheme (*Colour Schemes*, 2021), apart from those above.
OTHER_ENGINES = (("#595959", "triangle-right"), ("#882255", "wedge"), ("#999933", "arrow"))

PALETTE = [color for _, color, _ in ENGINES.values()] + [OTHER_ENGINES[0][0]]

#: variant → dash pattern in pixels (line, gap, …); other variants take `OTHER_DASHES` in turn.
DASHES = {"default": [1, 0], "tuned": [6, 3]}
OTHER_DASHES = ([2, 2], [8, 3, 2, 3], [12, 4], [4, 6])

#: What binds → colour of its cell in a strip, in the order of legends; apart from those of the engines.
#: Warm for the disk, violet for CPU, green for what engine and kernel make scarce themselves, greys
#: where nothing is. Darker before lighter within a family, so that a greyscale print can be read.
RESOURCE_COLORS = {
    "disk write bandwidth": "#7f3b08",
    "disk write IOPS": "#b35806",
    "disk read bandwidth": "#e08214",
    "disk read IOPS": "#fdb863",
    "commit latency": "#c51b7d",
    "CPU of the engine": "#2d004b",
    "CPU of the client": "#8073ac",
    "memory": "#01665e",
    "network": "#35978f",
    "locks": "#80cdc1",
    "the engine's own limit": "#c7eae5",
    "concurrency": "#969696",
    "none": "#d9d9d9",
    "unknown": "#ffffff",
}

#: Endings of column names, longest first, and the unit that an axis shows for them.
UNITS = {
    "_bytes_per_s": "bytes/s",
    "_mib_per_s": "MiB/s",
    "_per_s": "1/s",
    "_iops": "operations/s",
    "_bytes": "bytes",
    "_mib": "MiB",
    "_pct": "%",
    "_us": "µs",
    "_ms": "ms",
    "_s": "s",
}
WHOLE_NAMES = {"tps": "TPS (transactions/s)", "qps": "QPS (queries/s)"}


@alt.theme.register("benchlab", enable=False)
def _config() -> alt.theme.ThemeConfig:
    """The Vega-Lite configuration; sizes in pixels, legible when 680 of them span an A4 column."""
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
            # A title over the axis, read from left to right, costs no width.
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
    """Make the theme the one of all charts; as a context manager, only of those inside."""
    return alt.theme.enable("benchlab")


def enable_in_notebook() -> None:
    """Also show charts so that a stored notebook can be read anywhere and compared exactly.

    An output is a picture, which needs neither a network nor an extension, and the chart's whole
    specification as text, which nbval compares. For live charts, `altair.renderers.enable("html")`.
    """
    enable()
    alt.renderers.register("benchlab", _picture_and_text)
    alt.renderers.enable("benchlab")


def _picture_and_text(spec: dict[str, Any], **_: Any) -> dict[str, str]:
    picture = vl_convert.vegalite_to_png(spec, scale=1.2)
    return {
        "image/png": base64.b64encode(picture).decode(),
        "text/plain": json.dumps(spec, sort_keys=True),
    }


def label(
    engine: str, variant: str | None = None, labels: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Name of an engine, or of one of its variants, as tables and legends print it.

    Args:
        engine: name.
        variant: name; ``None``: the engine as such.
        labels: engine → its name in the study, which comes before ours.
    """
    name = labels.get(engine) or (ENGINES[engine][0] if engine in ENGINES else engine)
    return f"{name}, {variant}" if variant else name


def color(engine: str, variant: str = "default") -> str:
    """Colour of an engine's variant as `#rrggbb`: darker for all but `default`."""
    return _shade(looks([engine])[engine][0], variant)


def looks(engines: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and point shape of each engine; those not in the table take the spare ones in turn."""
    spare, found = cycle(OTHER_ENGINES), {}
    for engine in dict.fromkeys(engines):
        found[engine] = ENGINES[engine][1:] if engine in ENGINES else next(spare)
    return found


def _shade(of: str, variant: str) -> str:
    return of if variant == "default" else _mixed(of, 0.66, 0)


def _inside(of: str, variant: str) -> str:
    """Colour inside the points of a variant, of its engine's."""
    if variant == "tuned":
        return "#FFFFFF"
    return of if variant == "default" else _mixed(of, 0.45, 255)


def _mixed(of: str, share: float, other: int) -> str:
    """Mix a colour with a grey, black (0) to white (255)."""
    channels = (int(of[i : i + 2], 16) for i in (1, 3, 5))
    mixed = (round(share * channel + (1 - share) * other) for channel in channels)
    return "#" + "".join(f"{channel:02X}" for channel in mixed)


def shape(engine: str) -> str:
    """Point shape of an engine, by Vega's name for it."""
    return looks([engine])[engine][1]


def resource_color(name: str) -> str:
    """Colour of a resource; CPU, whose limit is that of engine and load together, has the engine's."""
    return RESOURCE_COLORS[ENGINE_CPU if name == CPU.name else name]


def dashes(variants: Iterable[str]) -> dict[str, list[int]]:
    """Dash pattern of each variant; one without its own takes the next of the spare ones."""
    known = dict(DASHES)
    for variant in variants:
        if variant not in known:
            known[variant] = OTHER_DASHES[(len(known) - len(DASHES)) % len(OTHER_DASHES)]
    return known


def curves(
    base: alt.Chart,
    named: Mapping[str, tuple[str, str]],
    field: str = "curve",
    interval: tuple[str, str] | None = None,
) -> alt.LayerChart:
    """Lines and points, one curve for each name of `named`, in the legend's order.

    `base` has the data, x and y; its column `field` holds the name. `named` says of which engine and
    variant it is.
    `interval` names the two columns that bound each value. The legend shows the points, whose
    filling tells the variants apart.
    """
    domain, pairs = list(named), list(named.values())
    patterns = dashes(variant for _, variant in pairs)
    of_engine = looks(engine for engine, _ in pairs)
    colors = [_shade(of_engine[engine][0], variant) for engine, variant in pairs]

    def channel(kind: type[Any], values: list[Any], legend: Any = alt.Undefined) -> alt.SchemaBase:
        scale = alt.Scale(domain=domain, range=values)
        return kind(field, type="nominal", title=None, scale=scale, legend=legend)

    line_color = channel(alt.Color, colors, None)
    line_dash = channel(alt.StrokeDash, [patterns[variant] for _, variant in pairs], None)
    fills = [_inside(of_engine[engine][0], variant) for engine, variant in pairs]
    layers = [
        base.mark_line().encode(color=line_color, strokeDash=line_dash),
        base.mark_point().encode(
            stroke=channel(alt.Stroke, colors),
            fill=channel(alt.Fill, fills),
            shape=channel(alt.Shape, [of_engine[engine][1] for engine, _ in pairs]),
        ),
    ]
    if interval is not None:
        low, high = interval
        rule = base.mark_rule(strokeWidth=1.25)
        layers.insert(1, rule.encode(y=f"{low}:Q", y2=f"{high}:Q", color=line_color))
    # A shared legend that one layer switches off is switched off for all.
    return alt.layer(*layers).resolve_legend(color="independent", strokeDash="independent")


def axis_title(column: str) -> str:
    """Title with the unit in brackets, out of a column name that ends in it.

    >>> axis_title("write_bytes_per_s")
    'write (bytes/s)'
    """
    if column in WHOLE_NAMES:
        return WHOLE_NAMES[column]
    for ending, unit in UNITS.items():
        if column.endswith(ending):
            return f"{column.removesuffix(ending).replace('_', ' ')} ({unit})"
    return re.sub("_+", " ", column)
