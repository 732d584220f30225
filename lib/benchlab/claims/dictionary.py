"""The dictionary of the published numbers: the part that follows from the files themselves.

``sources.csv`` and ``columns.csv`` describe the files of ``data/published``. This module counts rows,
filled cells and sums. The source of a file and the meaning of a column stay as written by hand.
"""

import csv
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path

from benchlab.claims import published
from benchlab.errors import BenchlabError
from benchlab.repo import Repo

#: File → its columns that are written by hand; ``article`` only if a study has several.
_BY_HAND = {"sources.csv": ("article", "where"), "columns.csv": ("kind", "what")}

#: Columns that follow from the files.
_COUNTED = ("rows", "type", "filled", "sum")

_NUMERIC = ("int", "decimal")

_Rows = list[dict[str, str]]


def counted(repo: Repo) -> dict[str, _Rows]:
    """Return ``sources.csv`` and ``columns.csv`` as they should be; cells not yet written are empty.

    Files are in the order of ``articles.csv``, then of their names, each study's prose last. A new
    column gets the description of the column of the same name in another study's table of the same
    name.

    Raises:
        BenchlabError: a study is not in ``articles.csv``, or a numeric column has a cell that is no
            number.
    """
    folder = published.folder(repo)
    articles: dict[str, list[str]] = {}
    for row in _rows(folder / "articles.csv"):
        articles.setdefault(row["study"], []).append(row["article"])
    sources = {row["file"]: row for row in _rows(folder / "sources.csv")}
    columns = {(row["file"], row["column"]): row for row in _rows(folder / "columns.csv")}
    alike = {(Path(file).name, column): row for (file, column), row in columns.items()}
    made: dict[str, _Rows] = {"sources.csv": [], "columns.csv": []}
    for path in _files(folder, list(articles)):
        file, study = f"{path.parent.name}/{path.name}", path.parent.name
        with path.open(newline="") as stream:
            reader = csv.DictReader(stream)
            names, rows = reader.fieldnames or [], list(reader)
        made["sources.csv"].append(
            {
                "file": file,
                "study": study,
                "article": _article(articles[study], sources.get(file, {}).get("article", "")),
                "where": sources.get(file, {}).get("where", ""),
                "rows": str(len(rows)),
            }
        )
        for name in names:
            cells = [row[name] for row in rows if row[name]]
            known = columns.get((file, name)) or alike.get((path.name, name)) or {}
            kind = known.get("type") or _type(cells)
            made["columns.csv"].append(
                {
                    "file": file,
                    "column": name,
                    "kind": known.get("kind", ""),
                    "type": kind,
                    "unit": known.get("unit", ""),
                    "metric": known.get("metric", ""),
                    "filled": str(len(cells)),
                    "sum": _sum(cells, file, name) if kind in _NUMERIC else "",
                    "what": known.get("what", ""),
                }
            )
    return made


def _article(of_study: list[str], written: str) -> str:
    if len(of_study) == 1:
        return of_study[0]
    return written if written in of_study else ""


def differences(repo: Repo) -> list[str]:
    """Return one line for every row of the two files that differs from :func:`counted`."""
    found = []
    for name, rows in counted(repo).items():
        there = _rows(published.folder(repo) / name)
        listed = {_named(row) for row in rows}
        of_file = [f"{_named(row)}: {_text(row)}" for row in rows if row not in there]
        of_file += [f"{_named(row)}: not there" for row in there if _named(row) not in listed]
        if rows != there:
            found += [f"{name}: {one}" for one in of_file or ["its rows are in another order"]]
    return found


def write(repo: Repo) -> list[str]:
    """Rewrite the two files; return one line for every cell that must still be written by hand."""
    left = []
    for name, rows in counted(repo).items():
        with (published.folder(repo) / name).open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        for row in rows:
            by_hand = [*_BY_HAND[name], *(["unit"] if row.get("type") in _NUMERIC else [])]
            left += [f"{name}: {_named(row)}: {cell}" for cell in by_hand if not row[cell]]
    return left


def _files(folder: Path, studies: list[str]) -> Iterator[Path]:
    there = sorted(path for path in folder.iterdir() if path.is_dir())
    for path in there:
        if path.name not in studies:
            raise BenchlabError(
                f"{path}: articles.csv names no study {path.name!r}: add a line for its article"
            )
    for study in studies:
        paths = (folder / study).glob("*.csv")
        yield from sorted(paths, key=lambda path: (path.stem == published.NUMBERS, path.stem))


def _type(cells: list[str]) -> str:
    for kind, pattern in (("int", r"-?\d+"), ("decimal", r"-?\d+\.?\d*"), ("bool", "true|false")):
        if cells and all(re.fullmatch(pattern, cell) for cell in cells):
            return kind
    return "text"


def _sum(cells: list[str], file: str, column: str) -> str:
    try:
        return str(sum(map(Decimal, cells)))
    except InvalidOperation as error:
        raise BenchlabError(f"{file}: column {column} has a cell that is no number") from error


def _rows(path: Path) -> _Rows:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def _named(row: dict[str, str]) -> str:
    return " ".join(row[name] for name in ("file", "column") if name in row)


def _text(row: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if name in _COUNTED and value)
