"""Fill a manuscript's placeholders: Jinja in Markdown, with every mistake reported with its line.

Figures and tables become a pair of raw blocks around their caption, one for HTML and one for typst;
pandoc keeps the blocks of its output format, so both outputs come from the same Markdown.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from jinja2.utils import missing

from benchlab.errors import BenchlabError, UnknownName
from benchlab.numbers import number, percent
from benchlab.report.paper import tables as table_text

#: Place of a figure's image in the HTML; the image is put in after pandoc, which need not parse it.
FALLBACK = "<!-- fallback {} -->"

_ID = re.compile(r"[A-Za-z][\w-]*")
_REF = re.compile("\ue000(.+?)\ue001")


@dataclass
class Rendered:
    """Markdown without placeholders, and its figures in order: id → caption."""

    markdown: str
    figures: dict[str, str]


def render(
    manuscript: Path,
    context: Mapping[str, Any],
    figures: Iterable[str],
    tables: Mapping[str, pl.DataFrame],
) -> Rendered:
    """Fill the placeholders of a manuscript, and of the files beside it that it includes.

    A float is printed with three significant digits, or as the filters `num(decimals)` and
    `pct(decimals)` say. Comments are `{## … ##}`, since `{#id}` is pandoc's.

    Raises:
        BenchlabError: there is no manuscript, a context value has the name of a helper, a placeholder
            has no value or the value None, a template has an error, or an included file is missing.
            The error names file, line and placeholder as far as they are known.
    """
    blocks = _Blocks(frozenset(figures), tables)
    helpers = {"figure": blocks.figure, "table": blocks.table, "ref": blocks.ref}
    if taken := sorted(helpers.keys() & context.keys()):
        raise BenchlabError(f"context value {taken[0]!r} hides the manuscript's {taken[0]}(…)")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(manuscript.parent),
        undefined=_undefined(context.keys() | helpers.keys()),
        finalize=_printed,
        comment_start_string="{##",
        comment_end_string="##}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"num": number, "pct": percent}
    environment.globals = {**environment.globals, **helpers}
    try:
        text = environment.get_template(manuscript.name).render(context)
    except jinja2.TemplateSyntaxError as error:
        place = Path(error.filename or manuscript).name
        raise BenchlabError(f"{place}:{error.lineno}: {error.message}") from error
    except jinja2.TemplateNotFound as error:
        if not manuscript.is_file():
            raise BenchlabError(f"no manuscript {manuscript}") from error
        raise BenchlabError(
            f"{manuscript.name} includes {error.name}, which is not there"
        ) from error
    except Exception as error:
        raise BenchlabError(_located(error, manuscript)) from error
    return Rendered(blocks.link(text, manuscript), blocks.figures)


@dataclass
class _Blocks:
    """What a manuscript may place, and what it has placed so far."""

    known_figures: frozenset[str]
    known_tables: Mapping[str, pl.DataFrame]
    figures: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)

    def figure(self, name: str, caption: str) -> str:
        """Markdown of a chart with its caption below."""
        _place("figure", name, caption, self.known_figures, self.figures)
        caption = " ".join(caption.split())
        plain = self.figures[name] = re.sub(r"[*`]", "", caption)
        drawn = f'chart("{name}.pdf", {table_text.typst_string(plain)})'
        return _block(
            f'<figure id="fig-{name}">\n<div class="chart" id="chart-{name}"></div>\n'
            f"{FALLBACK.format(name)}\n<figcaption>",
            f"#figure(kind: image, {drawn}, caption: [",
            f"**{_numbered('Figure', len(self.figures))}.** {caption}",
            "</figcaption>\n</figure>",
            f"]) <fig-{name}>",
        )

    def table(self, name: str, caption: str) -> str:
        """Markdown of a data frame with its caption above."""
        _place("table", name, caption, self.known_tables, self.tables)
        self.tables[name] = caption = " ".join(caption.split())
        cells = table_text.cells(name, self.known_tables[name])
        return _block(
            f'<figure id="tab-{name}" class="table">\n<figcaption>',
            f"#figure(kind: table, {table_text.to_typst(cells)}, caption: [",
            f"**{_numbered('Table', len(self.tables))}.** {caption}",
            f"</figcaption>\n{table_text.to_html(cells)}\n</figure>",
            f"]) <tab-{name}>",
        )

    def ref(self, anchor: str) -> str:
        """A mark that `link` turns into a link, since numbers are known only at the end."""
        anchors = {f"fig-{name}" for name in self.known_figures}
        anchors |= {f"tab-{name}" for name in self.known_tables}
        if anchor not in anchors:
            raise UnknownName("reference", anchor, anchors)
        return f"\ue000{anchor}\ue001"

    def link(self, text: str, manuscript: Path) -> str:
        """Replace all marks of `ref` by links; a mark for something never placed is an error."""
        numbers = {
            f"{prefix}-{name}": _numbered(kind, position)
            for prefix, kind, names in (
                ("fig", "Figure", self.figures),
                ("tab", "Table", self.tables),
            )
            for position, name in enumerate(names, start=1)
        }

        def linked(mark: re.Match[str]) -> str:
            if mark[1] not in numbers:
                raise BenchlabError(f"{manuscript.name} refers to {mark[1]} but does not place it")
            return f"[{numbers[mark[1]]}](#{mark[1]})"

        return _REF.sub(linked, text)


def _numbered(kind: str, position: int) -> str:
    return f"{kind}\N{NO-BREAK SPACE}{position}"


def _place(kind: str, name: str, caption: str, known: Iterable[str], placed: Iterable[str]) -> None:
    if name not in known:
        raise UnknownName(kind, name, known)
    if not _ID.fullmatch(name):
        raise BenchlabError(f"{kind} id {name!r} cannot be an anchor; use letters, digits, - and _")
    if name in placed:
        raise BenchlabError(f"{kind} {name!r} is placed twice")
    if not caption.strip():
        raise BenchlabError(f"{kind} {name!r} has no caption")


def _block(html_start: str, typst_start: str, caption: str, html_end: str, typst_end: str) -> str:
    """Raw blocks around a caption; the fences are longer than any run of backticks inside."""
    raw = (("html", html_start), ("typst", typst_start), ("html", html_end), ("typst", typst_end))
    runs = re.findall("`+", "".join(text for _, text in raw))
    fence = "`" * max(3, 1 + max(map(len, runs), default=0))
    parts = [f"{fence}{{={language}}}\n{text}\n{fence}" for language, text in raw]
    return "\n\n" + "\n\n".join([*parts[:2], caption, *parts[2:]]) + "\n\n"


def _printed(value: Any) -> Any:
    """Return the printed form of a value that no filter has made text."""
    if value is None:
        raise BenchlabError("has no value (None)")
    return number(value) if isinstance(value, float) else value


def _undefined(names: Iterable[str]) -> type[jinja2.StrictUndefined]:
    """Return a StrictUndefined whose message lists the names that exist."""

    class Missing(jinja2.StrictUndefined):
        @property
        def _undefined_message(self) -> str:
            name, owner = self._undefined_name, self._undefined_obj
            if owner is missing:
                return str(UnknownName("value", str(name), names))
            if isinstance(owner, Mapping):
                return str(UnknownName("value", str(name), map(str, owner)))
            return f"{type(owner).__name__} has no value {name!r}"

    return Missing


def _located(error: Exception, manuscript: Path) -> str:
    """Return one line with file, line and placeholder of an error raised during rendering."""
    place, line, trace = manuscript, None, error.__traceback__
    while trace is not None:
        # Jinja puts the template's own file and line into the traceback.
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.suffix == manuscript.suffix:
            place, line = file, trace.tb_lineno
        trace = trace.tb_next
    said = " ".join(str(error).split()) or type(error).__name__
    if line is None:
        return f"{manuscript.name}: {said}"
    source = place.read_text(encoding="utf-8").splitlines()[line - 1]
    placeholders = re.findall(r"\{\{.*?(?:\}\}|$)|\{%.*?(?:%\}|$)", source) or [source.strip()]
    named = re.search(r"'([^']+)'", said)
    likely = [text for text in placeholders if named and named[1] in text]
    placeholder = (likely or placeholders)[0]
    return f"{place.name}:{line}: {placeholder}: {said}"
