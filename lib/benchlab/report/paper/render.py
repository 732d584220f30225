"""Markdown to one HTML file and one PDF, through pandoc and typst."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pypandoc
import typst

from benchlab.errors import BenchlabError
from benchlab.report.paper import charts
from benchlab.report.paper.charts import Drawn
from benchlab.report.paper.template import FALLBACK, render

# Raw HTML and TeX are off, so that a computed text such as an error message is printed as it is.
# Citations are off, since "@128" is not a citation here.
MARKDOWN = "markdown-raw_html-raw_tex-native_divs-native_spans-markdown_in_html_blocks-citations"

#: Serif fonts first, as the surrounding text is serif; the first installed one is used.
CJK_FONTS = (
    "Noto Serif CJK SC",
    "Noto Serif SC",
    "Source Han Serif SC",
    "Songti SC",
    "SimSun",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Microsoft YaHei",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
)
_CJK = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True)
class Built:
    """The two files of a paper, and one line for each warning of pandoc and typst."""

    html: Path
    pdf: Path
    warnings: tuple[str, ...] = ()


def build(
    manuscript: Path,
    context: Mapping[str, Any],
    figures: Mapping[str, alt.TopLevelMixin | Drawn],
    tables: Mapping[str, pl.DataFrame],
    out: Path,
) -> Built:
    """Write `<stem of manuscript>.html` and `.pdf` into the folder `out`, which is made if missing.

    The HTML contains everything it shows and loads nothing. Both files are made before either is
    written, and each is renamed into place as a whole. Equal input gives equal files on the same
    system. Figures and tables that the manuscript does not place are left out. A figure may already be
    drawn.

    Raises:
        BenchlabError: a value is missing, a figure or table is unknown, the manuscript has no title or
            an image that no chart made, or pandoc or typst refuse their input. The message is one line.
    """
    rendered = render(manuscript, context, figures, tables)
    drawn = {name: _drawn(name, figures[name]) for name in rendered.figures}
    document, warnings = _pandoc(rendered.markdown, MARKDOWN, "json")
    _check(manuscript, json.loads(document))
    html = _html(document, drawn, rendered.figures)
    pdf, typst_warnings = _pdf(document, drawn)
    outputs = {
        out / f"{manuscript.stem}.html": html.encode(),
        out / f"{manuscript.stem}.pdf": pdf,
    }
    _write(outputs)
    return Built(*outputs, warnings=(*warnings, *typst_warnings))


def _drawn(name: str, figure: alt.TopLevelMixin | Drawn) -> Drawn:
    return figure if isinstance(figure, Drawn) else charts.draw(name, figure)


def _html(document: str, drawn: Mapping[str, Drawn], captions: Mapping[str, str]) -> str:
    options = ["--toc", "--toc-depth=3", "--number-sections", "--mathml"]
    page, _ = _pandoc(document, "json", "html5", _data("paper.html"), *options)
    # Inserted after pandoc, which would otherwise read a megabyte of script and parse every image.
    page = page.replace("<!-- style -->", f"<style>\n{_data('paper.css').read_text()}</style>", 1)
    for name, figure in drawn.items():
        image = charts.fallback_html(figure.svg, captions[name])
        page = page.replace(FALLBACK.format(name), image, 1)
    specs = {name: figure.spec for name, figure in drawn.items()}
    return page.replace("<!-- scripts -->", charts.scripts_html(specs), 1)


def _pdf(document: str, drawn: Mapping[str, Drawn]) -> tuple[bytes, list[str]]:
    fonts = typst.Fonts()
    installed = set(fonts.families())
    cjk = [family for family in CJK_FONTS if family in installed][:1]
    families = " ".join(f'"{family}",' for family in ["Libertinus Serif", *cjk])
    template = _data("paper.typ")
    text, warnings = _pandoc(document, "json", "typst", template, f"--variable=fonts={families}")
    if not cjk and _CJK.search(text):
        warnings.append(
            f"no known font for Chinese text, the PDF may show boxes; install one of: "
            f"{', '.join(CJK_FONTS)}"
        )
    with tempfile.TemporaryDirectory() as folder:
        for name, figure in drawn.items():
            Path(folder, f"{name}.pdf").write_bytes(figure.pdf)
        main = Path(folder, "paper.typ")
        main.write_text(text, encoding="utf-8")
        try:
            compiler = typst.Compiler(main, root=folder, font_paths=fonts)
            pdf, said = compiler.compile_with_warnings(format="pdf")
        except typst.TypstError as error:
            raise BenchlabError(f"typst: {' '.join(str(error).split())}") from error
    return pdf, warnings + [f"typst: {warning.message}" for warning in said]


def _pandoc(
    text: str, source: str, target: str, template: Path | None = None, *options: str
) -> tuple[str, list[str]]:
    """Convert a text with pandoc; return the result and its warnings, raise its errors."""
    command = [pypandoc.get_pandoc_path(), f"--from={source}", f"--to={target}", "--wrap=none"]
    # The document cannot make pandoc read a file or the network; code is not coloured.
    command += ["--sandbox", "--syntax-highlighting=none", *options]
    if template is not None:
        command += ["--standalone", f"--template={template}"]
    elif target == "json":
        command.append("--standalone")
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=False)
    lines = [f"pandoc: {line}" for line in done.stderr.splitlines() if line.strip()]
    if done.returncode:
        raise BenchlabError(" ".join(lines) or f"pandoc ended with {done.returncode}")
    return done.stdout, lines


def _check(manuscript: Path, document: Any) -> None:
    """Refuse a document without a title, or with an image: only charts make figures."""
    if "title" not in document["meta"]:
        raise BenchlabError(f"{manuscript.name} has no title in its YAML header")
    for node in _nodes(document["blocks"]):
        if node["t"] == "Image":
            target = node["c"][2][0]
            raise BenchlabError(
                f"{manuscript.name} shows the image {target!r}; only figure(…) places images"
            )


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every element of pandoc's JSON, at any depth."""
    if isinstance(node, list):
        for item in node:
            yield from _nodes(item)
    elif isinstance(node, dict):
        if "t" in node:
            yield node
        yield from _nodes(list(node.values()))


def _data(name: str) -> Path:
    return Path(str(files("benchlab.report.paper").joinpath(name)))


def _write(outputs: Mapping[Path, bytes]) -> None:
    """Write all files beside their places, then rename them: a reader sees only whole files."""
    parts = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in outputs}
    try:
        for path, content in outputs.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            parts[path].write_bytes(content)
        for path, part in parts.items():
            part.replace(path)
    except OSError as error:
        raise BenchlabError(f"cannot write {error.filename}: {error.strerror}") from error
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
