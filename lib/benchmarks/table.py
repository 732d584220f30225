"""The table that `make bench` prints."""

from dataclasses import dataclass

from benchlab.stats import Estimate
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One ratio that was measured."""

    what: str
    ratio: Estimate
    aim: str
    """The required value; empty if there is none."""


def table(rows: list[Row]) -> Table:
    """Return the rows as they are printed."""
    made = Table(title="benchlab itself")
    for heading in ("what", "ratio", "95 % interval", "n", "aim"):
        made.add_column(heading)
    for row in rows:
        one = row.ratio
        interval = "none" if one.low is None else f"{one.low:.3f} to {one.high:.3f}"
        made.add_row(row.what, f"{one.value:.3f}", interval, str(one.n), row.aim)
    return made
