"""Outcomes: the answers of a server to checks, if they are not numbers.

The capture ``outcomes.jsonl`` has one JSON object a check: ``t`` (Unix seconds of its end), ``check``,
``answer`` (in a few words, or the server's message unchanged), and ``passed``, which is null if the
check has no right answer or got none.
"""

import json
import time
from dataclasses import asdict, dataclass

import polars as pl

from benchlab.raw.text import complete_lines, fail, shown

NAME = "outcomes.jsonl"

#: Start of an answer to a check that has a right one, if an error kept the server from answering.
UNDECIDED = "undecided"

SCHEMA = {"number": pl.Int64, "check": pl.String, "passed": pl.Boolean, "answer": pl.String}


@dataclass(frozen=True)
class Outcome:
    """The answer to one check."""

    check: str
    answer: str
    passed: bool | None = None
    """``None``: the check has no right answer, or none came and ``answer`` says why."""


def line(outcome: Outcome) -> str:
    """Return an outcome as a line of the capture, with the current time."""
    return json.dumps({"t": time.time(), **asdict(outcome)}) + "\n"


def rows(text: str) -> pl.DataFrame:
    """Return rows of ``outcome``.

    Args:
        text: the capture.

    Raises:
        ParseError: a line is not an outcome.
    """
    found = []
    lines = complete_lines(text)
    for number, one in enumerate(lines, start=1):
        try:
            content = json.loads(one)
            found.append((number, *(content[name] for name in ("check", "passed", "answer"))))
        except (LookupError, TypeError, ValueError):
            fail("outcomes", number, f"no outcome: {shown(one)}")
    return pl.DataFrame(found, schema=SCHEMA, orient="row")
