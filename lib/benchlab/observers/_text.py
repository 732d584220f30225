"""What the parsers share: whole lines, errors that name the line, rows of ``os_sample``."""

from typing import NoReturn

import polars as pl

from benchlab.errors import ParseError

OS_SAMPLE_SCHEMA = {
    "t": pl.Float64,
    "observer": pl.String,
    "subject": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
}

KIB = 1024


def fail(program: str, line: int, problem: str) -> NoReturn:
    """Raise the error for line ``line``, counted from 1."""
    raise ParseError(f"{program}: line {line}: {problem}")


def whole_lines(program: str, text: str, truncated_ok: bool = False) -> list[str]:
    """Return the lines that end in a newline, without it.

    Only ``\\n`` ends a line: a process may have any other character in its name.

    Raises:
        ParseError: there is no text, or its last line has no end, and ``truncated_ok`` is False.
    """
    *lines, rest = text.split("\n")
    if not truncated_ok and not lines:
        fail(program, 1, "the text is empty" if not rest else "cut in the middle of the line")
    if not truncated_ok and rest:
        fail(program, len(lines) + 1, "cut in the middle of the line")
    return lines


def shown(line: str) -> str:
    """Return a line as an error message quotes it."""
    return repr(line if len(line) <= 120 else line[:117] + "...")


class OsSamples:
    """Collects rows of ``os_sample`` from one observer."""

    def __init__(self, observer: str):
        self._observer = observer
        self._rows: list[tuple[float, str, str, float]] = []

    def add(self, t: float, subject: str, metric: str, value: float) -> None:
        """Add one row."""
        self._rows.append((t, subject, metric, value))

    def frame(self) -> pl.DataFrame:
        """Return the rows in the order in which they were added."""
        schema = {name: OS_SAMPLE_SCHEMA[name] for name in ("t", "subject", "metric", "value")}
        rows = pl.DataFrame(self._rows, schema=schema, orient="row")
        return rows.with_columns(pl.lit(self._observer).alias("observer")).select(*OS_SAMPLE_SCHEMA)
