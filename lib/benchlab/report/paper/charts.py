"""Charts for the two outputs: a live Vega chart in the HTML, a drawn one in the PDF."""

import base64
import html
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert

from benchlab.errors import BenchlabError
from benchlab.report import theme

#: Vega-Lite as Altair writes it, in vl-convert's notation: "v6.4.1" → "6.4".
VEGALITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])

# The reader's menu has nothing that leaves the page: no editor, no link to a server.
EMBED = """
const specs = JSON.parse(document.getElementById("chart-specs").textContent);
const actions = {export: true, source: false, compiled: false, editor: false};
for (const [id, spec] of Object.entries(specs)) {
  const place = document.getElementById(`chart-${id}`);
  vegaEmbed(place, spec, {
    mode: "vega-lite", renderer: "svg", tooltip: {theme: "light"}, actions, downloadFileName: id,
  }).catch((error) => { place.textContent = `This chart cannot be drawn: ${error.message}`; });
}
"""


@dataclass(frozen=True)
class Drawn:
    """A chart with its pictures, which take longer than all other parts of building a paper."""

    spec: dict[str, Any]
    svg: str
    pdf: bytes


def draw(name: str, chart: alt.TopLevelMixin) -> Drawn:
    """Draw a chart for both outputs; see :func:`specification` for its errors."""
    spec = specification(name, chart)
    return Drawn(spec, to_svg(spec), to_pdf(spec))


def specification(name: str, chart: alt.Chart) -> dict[str, Any]:
    """Vega-Lite specification of a chart with all its data, in benchlab's theme.

    Values that JSON cannot represent (NaN, infinity) become null.

    Raises:
        BenchlabError: data is behind a URL; the paper has to open without a network.
    """
    with theme.enable(), alt.data_transformers.enable("default", max_rows=None):
        spec = _without_nan(chart.to_dict())
    for source in _data_sources(spec):
        if "url" in source:
            raise BenchlabError(
                f"figure {name!r} reads its data from {source['url']!r}; give the chart the data"
            )
    return spec


def to_svg(spec: dict[str, Any]) -> str:
    """The chart as an SVG image."""
    return vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VEGALITE)


def to_pdf(spec: dict[str, Any]) -> bytes:
    """The chart as a one-page PDF with its fonts embedded.

    typst would set an SVG in its own fonts, which include no sans-serif. vl-convert lists a page's
    fonts in a random order. They are sorted here (no other byte moves), so that equal charts give
    equal files.
    """
    pdf = vl_convert.vegalite_to_pdf(json.dumps(spec), vl_version=VEGALITE)
    fonts = re.compile(rb"(?<=/Font <<\n)(?:[ ]*/fo\d+ \d+ 0 R\n)+")
    return fonts.sub(lambda match: b"".join(sorted(match[0].splitlines(keepends=True))), pdf)


def fallback_html(svg: str, alternative: str) -> str:
    """Image that a browser without JavaScript shows; the SVG's ids do not clash with the page's."""
    data = base64.b64encode(svg.encode()).decode()
    text = html.escape(alternative)
    return f'<noscript><img alt="{text}" src="data:image/svg+xml;base64,{data}"></noscript>'


def scripts_html(specs: Mapping[str, dict[str, Any]]) -> str:
    """Script elements that draw all charts: the libraries once, the specifications, the call."""
    if not specs:
        return ""
    live = {name: _as_wide_as_the_page(spec) for name, spec in specs.items()}
    # "<" would let a data value such as "</script>" end the element.
    data = json.dumps(live, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    bundle = vl_convert.javascript_bundle(vl_version=VEGALITE)
    return (
        f"<script>{bundle}</script>\n"
        f'<script type="application/json" id="chart-specs">{data}</script>\n'
        f"<script>{EMBED}</script>"
    )


def _as_wide_as_the_page(spec: dict[str, Any]) -> dict[str, Any]:
    """Let a single view follow the width of its container; facets and steps keep their own width."""
    single = "mark" in spec or "layer" in spec
    faceted = {"row", "column", "facet"} & spec.get("encoding", {}).keys()
    if not single or faceted or isinstance(spec.get("width"), dict):
        return spec
    return {**spec, "width": "container"}


def _data_sources(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every `data` object of a specification, without searching inline values and data sets."""
    if isinstance(node, list):
        for item in node:
            yield from _data_sources(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "data" and isinstance(value, dict):
                yield value
            elif key not in {"datasets", "values"}:
                yield from _data_sources(value)


def _without_nan(node: Any) -> Any:
    if isinstance(node, float):
        return node if math.isfinite(node) else None
    if isinstance(node, dict):
        return {key: _without_nan(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_without_nan(item) for item in node]
    return node
