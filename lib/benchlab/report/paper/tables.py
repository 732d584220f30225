"""Data frames as tables of the two outputs."""

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import polars as pl

from benchlab.errors import BenchlabError
from benchlab.numbers import column_texts, is_numeric

#: Length of a text that needs no second line, and about how many characters a line of the page has.
_SHORT, _LINE = 16, 100

#: Characters that the margins of a cell take.
_MARGINS = 3


@dataclass(frozen=True)
class Cells:
    """A table as text: column heads, rows, and which columns are numeric (aligned right)."""

    heads: list[str]
    rows: list[tuple[str, ...]]
    numeric: list[bool]


def cells(name: str, frame: pl.DataFrame) -> Cells:
    """Format a data frame, which may have no rows.

    Raises:
        BenchlabError: the frame has no columns.
    """
    if not frame.width:
        raise BenchlabError(f"table {name!r} has no columns")
    columns = [column_texts(column) for column in frame]
    numeric = [is_numeric(column, texts) for column, texts in zip(frame, columns, strict=True)]
    return Cells(frame.columns, list(zip(*columns, strict=True)), numeric)


def to_html(table: Cells) -> str:
    """The `table` element, in a box that scrolls sideways when the page is narrower."""
    marks = [' class="num"' if numeric else "" for numeric in table.numeric]
    head = "".join(
        f'<th scope="col"{mark}>{_html_text(text)}</th>'
        for mark, text in zip(marks, table.heads, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{mark}>{_html_text(text)}</td>" for mark, text in zip(marks, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    body = body or f'<tr><td colspan="{len(table.heads)}" class="none">no rows</td></tr>'
    size = ' class="wide"' if len(table.heads) > 6 else ""
    # The box can have the focus, so that the keyboard can scroll it.
    return (
        f'<div class="scroll" tabindex="0"><table{size}>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def to_typst(table: Cells) -> str:
    """A call of `data-table`, which the typst template defines, with all text as string literals."""
    align = ", ".join("right" if numeric else "left" for numeric in table.numeric)
    widths = ", ".join(_widths(table))
    heads = ", ".join(map(typst_string, table.heads))
    rows = "\n".join(", ".join(map(typst_string, row)) + "," for row in table.rows)
    rows = rows or f"table.cell(colspan: {len(table.heads)}, emph[no rows]),"
    return f"data-table(({widths},), ({align},), ({heads},),\n{rows}\n)"


def _widths(table: Cells) -> list[str]:
    """Return the widths of the columns for typst.

    Columns are as wide as their texts. If that is wider than the page, long texts share what the short
    ones leave. A text four times as long gets twice the width, and twice the lines. A column of text is
    at least as wide as its longest word; heads of numbers are hyphenated.
    """
    columns = list(zip(table.heads, *table.rows, strict=True))
    lengths = [list(map(len, column)) for column in columns]
    of_short = [max(column) for column in lengths if max(column) <= _SHORT]
    room = _LINE - sum(of_short)
    if sum(map(max, lengths)) <= _LINE or room < _LINE / 2:
        return ["auto"] * len(lengths)
    shares = {
        number: sqrt(sum(column) / len(column))
        for number, column in enumerate(lengths)
        if max(column) > _SHORT
    }
    character = sum(shares.values()) / room
    for number in shares:
        if not table.numeric[number]:
            narrowest = character * (_longest_word(columns[number]) + _MARGINS)
            shares[number] = max(shares[number], narrowest)
    return [f"{shares[n]:.1f}fr" if n in shares else "auto" for n in range(len(columns))]


def _longest_word(column: Sequence[str]) -> int:
    """Length of the longest part that no line break divides."""
    return max(len(part) for text in column for part in _breakable(text, " ").split())


def typst_string(text: str) -> str:
    """A typst string literal on one line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return json.dumps(_breakable(text, "\u200b"), ensure_ascii=False)


def _html_text(text: str) -> str:
    return _breakable(html.escape(text), "<wbr>")


def _breakable(text: str, mark: str) -> str:
    """Let words of 12 characters or more (paths, names of settings) break after their punctuation.

    In a table of ten columns a longer word would not fit.
    """
    return re.sub(r"\S{12,}", lambda word: re.sub(r"([_/.,:=-])", rf"\1{mark}", word[0]), text)
