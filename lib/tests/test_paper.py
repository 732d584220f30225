"""The paper: manuscript in, one offline HTML file and one PDF out."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import altair as alt
import polars as pl
import pytest
from benchlab.errors import BenchlabError
from benchlab.numbers import MINUS, column_texts, is_numeric, number, percent
from benchlab.report import theme
from benchlab.report.paper import Built, build
from benchlab.report.paper.charts import scripts_html, specification
from benchlab.report.paper.tables import cells, to_typst
from benchlab.study import EngineSpec, Study

MANUSCRIPT = """\
---
title: A rerun of {{ study }}
author: [One, Two]
date: "{{ date }}"
abstract: PostgreSQL reached {{ peak }} transactions/s.
---

# The claim {#claim}

原文说:「磁盘带宽是瓶颈」。{{ ref("fig-tps") }} and {{ ref("tab-medians") }}, @128 threads.

{{ figure("tps", "Throughput of `oltp_write_only`, " ~ trials ~ " trials. 写入吞吐。") }}

## Evidence

It said: {{ error }}; the disk was used at {{ utilisation | pct }}, {{ ratio | num(2) }} times.

{{ table("medians", "Medians, per threads.") }}

{{ figure("disk", "Bytes written.") }}

{{ table("settings", "Settings, a table over several pages.") }}
"""

LOADING = {"src", "href", "srcset", "data", "poster", "action", "formaction", "xlink:href"}


class Page(HTMLParser):
    """Collects a page's elements, and what a browser would load for it."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def having(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            attrs
            for name, attrs in self.elements
            if name == tag and all(attrs.get(key) == wanted[key] for key in wanted)
        ]

    def loaded(self) -> list[str]:
        return [
            value or ""
            for tag, attrs in self.elements
            if tag != "a"
            for key, value in attrs.items()
            if key in LOADING
        ]


def tps_chart() -> alt.LayerChart:
    pairs = [("postgres", "default"), ("postgres", "tuned"), ("tidb", "default")]
    rows = [
        {"curve": theme.label(*pair), "threads": 4**i, "tps": 100.0 * (i + k)}
        for k, pair in enumerate(pairs, start=1)
        for i in range(4)
    ]
    frame = pl.DataFrame(rows).with_columns(low=pl.col("tps") * 0.9, high=pl.col("tps") * 1.1)
    base = alt.Chart(frame).encode(
        x=alt.X("threads:Q", scale=alt.Scale(type="log", base=2)),
        y=alt.Y("tps:Q", title=theme.TPS_TITLE),
        tooltip=["curve", "threads", "tps"],
    )
    return theme.curves(base, [theme.style(*pair) for pair in pairs], interval=("low", "high"))


def disk_chart() -> alt.Chart:
    frame = pl.DataFrame({"t_s": [0, 1, 2], "write": [1.0, math.nan, 3.0]})
    return alt.Chart(frame).mark_line().encode(x="t_s:Q", y="write:Q")


def parts() -> dict:
    return {
        "context": {
            "study": "postgres_vs_tidb",
            "date": "2000-01-01",
            "peak": 1663.4,
            "trials": 3,
            "error": "<script src=http://example.org/x.js></script> & #hash",
            "utilisation": 0.934,
            "ratio": 2.0345,
        },
        "figures": {"tps": tps_chart(), "disk": disk_chart(), "unused": disk_chart()},
        "tables": {
            "medians": pl.DataFrame(
                {
                    "engine": ["PostgreSQL <15>", 'Ti"DB\\'],
                    "tps": [1234.5, 9.0],
                    "interval": ["1,200–1,300", "8–10"],
                }
            ),
            "settings": pl.DataFrame({"name": [f"setting_{i}" for i in range(200)]}),
        },
    }


def write(folder: Path, text: str) -> Path:
    path = folder / "paper.md"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    folder = tmp_path_factory.mktemp("paper")
    return build(write(folder, MANUSCRIPT), **parts(), out=folder / "build")


@pytest.fixture(scope="module")
def html(built) -> str:
    return built.html.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html) -> Page:
    return Page(html)


def test_writes_two_whole_files_and_nothing_else(built):
    assert {path.name for path in built.html.parent.iterdir()} == {"paper.html", "paper.pdf"}
    assert (built.html.name, built.pdf.name) == ("paper.html", "paper.pdf")


def test_html_loads_nothing(page, html):
    assert [url for url in page.loaded() if not url.startswith("data:")] == []
    policy = page.having("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    style = re.search(r"<style>(.*?)</style>", html, re.S)[1]
    assert "url(" not in style and "@import" not in style


def test_html_has_the_chart_libraries_once(page, html):
    assert len(page.having("script")) == 3
    assert html.count("globalThis.vegaEmbed") + html.count("window.vegaEmbed") == 1


def test_html_has_every_placed_figure_live_and_as_an_image(page, html):
    data = re.search(r'<script type="application/json" id="chart-specs">(.*?)</script>', html)[1]
    assert list(json.loads(data)) == ["tps", "disk"]
    assert [f["id"] for f in page.having("figure")] == [
        "fig-tps",
        "tab-medians",
        "fig-disk",
        "tab-settings",
    ]
    assert html.count("<noscript><img") == 2
    assert "<!-- fallback" not in html


def test_html_numbers_and_links_figures_and_tables(html):
    assert '<a href="#fig-tps">Figure\N{NO-BREAK SPACE}1</a>' in html
    assert '<a href="#tab-medians">Table\N{NO-BREAK SPACE}1</a>' in html
    assert "<strong>Figure\N{NO-BREAK SPACE}2.</strong> Bytes written." in html


def test_html_has_contents_values_and_chinese(page, html):
    assert page.having("nav", id="toc")
    assert page.having("a", href="#claim")
    assert "PostgreSQL reached 1,663 transactions/s" in html
    assert "93\N{NO-BREAK SPACE}%, 2.03 times" in html
    assert "「磁盘带宽是瓶颈」" in html


def test_markup_in_a_value_stays_text(html):
    assert "&lt;script src=http://example.org/x.js&gt;&lt;/script&gt; &amp; #hash" in html
    assert "PostgreSQL &lt;15&gt;" in html


def test_html_sets_numbers_flush_right(html):
    assert '<th scope="col" class="num">tps</th>' in html
    assert '<td class="num">1,234</td>' in html
    assert '<td class="num">1,200–1,300</td>' in html
    assert '<th scope="col">engine</th>' in html


def test_pdf_has_pages(built):
    content = built.pdf.read_bytes()
    assert content.startswith(b"%PDF-")
    pages = [int(count) for count in re.findall(rb"/Type\s*/Pages.*?/Count (\d+)", content, re.S)]
    assert max(pages) >= 3


def test_equal_input_gives_equal_files(built, tmp_path):
    again = build(write(tmp_path, MANUSCRIPT), **parts(), out=tmp_path)
    assert again.html.read_bytes() == built.html.read_bytes()
    assert again.pdf.read_bytes() == built.pdf.read_bytes()


def test_manuscript_without_charts_has_no_script(tmp_path):
    built = build(write(tmp_path, "---\ntitle: T\n---\n\nText.\n"), {}, {}, {}, tmp_path)
    assert not Page(built.html.read_text()).having("script")


HEAD = "---\ntitle: T\n---\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ peak }} {{ peek }}", "paper.md:4: {{ peek }}: unknown value 'peek'; choose one of:"),
        ("\n{{ runs.b }}", "paper.md:5: {{ runs.b }}: unknown value 'b'; choose one of: a"),
        ("{{ nothing }}", "paper.md:4: {{ nothing }}: has no value (None)"),
        (
            '{{ figure("x", "c") }}',
            'paper.md:4: {{ figure("x", "c") }}: unknown figure \'x\'; choose one of: tps',
        ),
        ('{{ table("x", "c") }}', "unknown table 'x'; choose one of: medians"),
        ('{{ figure("tps", "a") }}{{ figure("tps", "b") }}', "figure 'tps' is placed twice"),
        ('{{ figure("tps", " ") }}', "figure 'tps' has no caption"),
        ('{{ ref("fig-y") }}', "unknown reference 'fig-y'; choose one of: fig-tps, tab-medians"),
        ('{{ ref("fig-tps") }}', "paper.md refers to fig-tps but does not place it"),
        ("\n\n{{ peak", "paper.md:6: "),
        ('{% include "other.md" %}', "paper.md includes other.md, which is not there"),
        ("![a](b.png)", "paper.md shows the image 'b.png'"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path, text, message):
    context = {"peak": 1, "runs": {"a": 1}, "nothing": None}
    tables = {"medians": parts()["tables"]["medians"]}
    out = tmp_path / "build"
    with pytest.raises(BenchlabError) as error:
        build(write(tmp_path, HEAD + text), context, {"tps": tps_chart()}, tables, out)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not out.exists()


def test_missing_title_manuscript_or_shadowed_name(tmp_path):
    with pytest.raises(BenchlabError, match="no title in its YAML header"):
        build(write(tmp_path, "Text."), {}, {}, {}, tmp_path)
    with pytest.raises(BenchlabError, match="no manuscript"):
        build(tmp_path / "none.md", {}, {}, {}, tmp_path)
    with pytest.raises(BenchlabError, match="context value 'table' hides"):
        build(write(tmp_path, HEAD), {"table": 1}, {}, {}, tmp_path)


def test_a_failed_build_keeps_the_last_paper(tmp_path):
    good = build(write(tmp_path, HEAD + "Good."), {}, {}, {}, tmp_path)
    before = good.html.read_bytes()
    with pytest.raises(BenchlabError, match="typst"):
        build(write(tmp_path, HEAD + "```{=typst}\n#nothing()\n```\n"), {}, {}, {}, tmp_path)
    assert good.html.read_bytes() == before
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*.part"))


def test_an_included_file_is_named_in_its_errors(tmp_path):
    (tmp_path / "section.md").write_text("\n{{ gone }}\n")
    with pytest.raises(BenchlabError, match=r"section.md:2: \{\{ gone \}\}: unknown value 'gone'"):
        build(write(tmp_path, HEAD + '{% include "section.md" %}'), {}, {}, {}, tmp_path)


def test_chart_data_stay_in_the_page():
    spec = specification("disk", disk_chart())
    (rows,) = spec["datasets"].values()
    assert [row["write"] for row in rows] == [1.0, None, 3.0]
    remote = alt.Chart("https://example.org/a.csv").mark_line().encode(x="a:Q")
    with pytest.raises(BenchlabError, match=r"figure 'far' reads its data from 'https://example"):
        specification("far", remote)
    assert "</script><b>" not in scripts_html({"a": {"title": "</script><b>"}})


def test_only_single_views_follow_the_page_width():
    live = scripts_html(
        {
            "single": {"mark": "line", "width": 300},
            "steps": {"mark": "bar", "width": {"step": 20}},
            "facets": {"mark": "line", "encoding": {"row": {"field": "a"}}},
            "joined": {"hconcat": []},
        }
    )
    specs = json.loads(re.search(r'id="chart-specs">(.*?)</script>', live)[1])
    assert [name for name in specs if specs[name].get("width") == "container"] == ["single"]


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1663.4, None, "1,663"),
        (2.0345, None, "2.03"),
        (0.00123456, None, "0.00123"),
        (1234567, None, "1,234,567"),
        (5.2667e24, None, "5.27e+24"),
        (-1.18e-42, None, f"{MINUS}1.18e{MINUS}42"),
        (2.0**43, None, "8,796,093,022,208"),
        (-2.5, 1, f"{MINUS}2.5"),
        (0.1 - 1e-16, None, "0.100"),
        (-0.001, 1, "0.0"),
        (math.nan, None, "n/a"),
        (-math.inf, None, f"{MINUS}∞"),
        (None, None, "–"),
    ],
)
def test_number(value, decimals, text):
    assert number(value, decimals) == text


def test_percent():
    assert percent(0.934) == "93\N{NO-BREAK SPACE}%"


def test_floats_of_a_column_share_their_decimals():
    assert column_texts(pl.Series([12.345, 1.0, None, 0.0, 0.0004])) == [
        "12.3",
        "1.0",
        "–",
        "0.0",
        "0.000400",
    ]
    assert column_texts(pl.Series([True, None, False])) == ["yes", "–", "no"]


@pytest.mark.parametrize(
    ("texts", "numeric"),
    [
        (["1,663 (1,580 to 1,702)", "–"], True),
        (["±3 %", "≥ 0.9"], True),
        (["128MB", "64MB"], False),
        (["–", ""], False),
    ],
)
def test_text_of_numerals_counts_as_numbers(texts, numeric):
    assert is_numeric(pl.Series(texts), texts) is numeric


def test_table_cells_are_typst_strings():
    frame = pl.DataFrame({"a b": ['"\\#[x]\n\x1b$']})
    assert r'"\"\\#[x] $",' in to_typst(cells("t", frame))
    assert "no rows" in to_typst(cells("t", frame.clear()))
    with pytest.raises(BenchlabError, match="table 't' has no columns"):
        cells("t", pl.DataFrame())


def test_long_texts_of_a_wide_table_share_the_line_by_their_length():
    """A text four times as long gets twice the width."""
    frame = pl.DataFrame(
        {"claim": ["c " * 50], "verdict": ["reproduced"], "why": ["w" + " w" * 15]}
    )
    claim, verdict, why = _typst_widths(frame)
    assert verdict == "auto"
    assert _fractions(claim, why) == pytest.approx(((100 + 5) / (31 + 3)) ** 0.5, abs=0.05)
    narrow = pl.DataFrame({"claim": ["c" * 40], "why": ["w" * 30]})
    assert _typst_widths(narrow) == ["auto", "auto"]


def test_no_column_of_a_wide_table_is_narrower_than_its_longest_word():
    frame = pl.DataFrame(
        {"claim": ["c " * 50] * 9, "article": ["10 to 20 transactions"] + [""] * 8}
    )
    claim, article = _typst_widths(frame)
    words = len("transactions") / (100 - len("transactions"))
    assert 1 / _fractions(claim, article) >= words


def _typst_widths(frame):
    return to_typst(cells("t", frame))[len("data-table((") :].split(",), ")[0].split(", ")


def _fractions(one, other):
    return float(one.removesuffix("fr")) / float(other.removesuffix("fr"))


def test_theme_keeps_an_engines_styles():
    styles = [theme.style(engine) for engine in theme.ENGINES]
    assert theme.style("postgres").color == "#0072B2"
    assert theme.style("postgres", "tuned").color != theme.style("postgres").color
    assert len({one.color for one in styles}) == len({one.shape for one in styles}) == len(styles)
    assert theme.style("postgres", "large").dash not in theme.DASHES.values()
    assert theme.label("tidb", "tuned") == "TiDB, tuned"
    assert theme.label("external") == "external"


@pytest.fixture
def in_notebook():
    """Charts as a notebook stores them; afterwards as before."""
    before = alt.renderers.active
    theme.enable_in_notebook()
    yield
    alt.renderers.enable(before)


def test_a_stored_chart_is_the_same_on_another_cpu(in_notebook):
    """Whose logarithms differ from others' in the last digit, and with them the datasets' hashes."""

    def text(value: float) -> str:
        layers = [
            alt.Chart(pl.DataFrame({"x": [value + layer], "y": ["a"]})).mark_point().encode(x="x:Q")
            for layer in range(6)
        ]
        return alt.layer(*layers)._repr_mimebundle_()["text/plain"]

    texts = [text(value) for value in (1441.969749958256, 1441.9697499582558, 1441.97)]
    assert texts[0] == texts[1] != texts[2]
    assert '"x": 1441.96975' in texts[0]


def study_of(engines: dict[str, list[str]]) -> Study:
    """Return a study of these engines and variants, as far as styles need one."""
    specs = {
        name: EngineSpec(
            label=f"The {name}",
            role="postgres",
            variants={one: {} for one in variants},
            load_variant=variants[0],
        )
        for name, variants in engines.items()
    }
    article = {"title": "T", "subject": "s"}
    return Study.model_construct(study="s", article=article, engines=specs, workloads={})


def test_engines_of_no_table_have_looks_and_labels_of_their_own():
    study = study_of({"pg14": ["default"], "pg16": ["default", "tuned"], "postgres": ["default"]})
    styles = theme.styles(study)
    assert styles["pg16", "tuned"].label == "The pg16, tuned"
    assert styles["postgres", "default"].color == theme.style("postgres").color
    defaults = [styles[name, "default"] for name in study.engines]
    assert len({(one.color, one.shape) for one in defaults}) == 3
    # also in a chart that lacks one of them
    frame = pl.DataFrame({"engine": ["pg16"], "variant": ["default"]})
    assert theme.styles_of(study, frame) == [styles["pg16", "default"]]


def test_variants_of_a_single_engine_are_distinguished_by_colour_and_shape():
    styles = theme.styles(study_of({"postgres": ["off", "pglz", "lz4", "zstd"]})).values()
    assert len({one.color for one in styles}) == len({one.shape for one in styles}) == 4


def test_no_two_of_many_variants_look_the_same():
    variants = ["default", "tuned", *(f"v{number}" for number in range(20))]
    styles = theme.styles(study_of({"postgres": variants, "tidb": ["default"]})).values()
    assert len({(one.color, one.fill, one.shape) for one in styles}) == len(styles) == 23


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (["off", "pglz", "lz4", "zstd"], 4),
        (["PostgreSQL, default", "PostgreSQL, tuned", "TiDB, default", "TiDB, tuned"], 2),
        (["a name that is as long as a line of text, and longer than a legend has"] * 2, 1),
        ([], 1),
    ],
)
def test_lines_of_a_legend_are_of_equal_length(labels, columns):
    assert theme.balanced_legend(labels).columns == columns


def test_what_a_study_has_lost_is_still_drawn():
    frame = pl.DataFrame({"engine": ["gone"], "variant": ["default"]})
    (style,) = theme.styles_of(study_of({"postgres": ["default"]}), frame)
    assert style.label == "gone, default"


def test_theme_is_enabled_for_a_while_or_for_good():
    before = alt.theme.active
    with theme.enable():
        assert alt.theme.active == "benchlab"
    assert alt.theme.active == before
