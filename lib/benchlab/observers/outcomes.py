"""Outcomes: the answers of a server to checks, where these are no numbers.

The capture ``outcomes.jsonl`` has one JSON object a check: ``t`` (Unix seconds of its end), ``check``,
``answer`` (in a few words, or the server's message as it is), and ``passed``, null where no answer is
the right one.
"""

import json
import time
from dataclasses import asdict, dataclass

import polars as pl

from benchlab.raw.text import fail, shown, whole_lines

NAME = "outcomes.jsonl"

#: How an answer begins where there is a right one, but an error kept the server from giving any.
UNDECIDED = "undecided"

SCHEMA = {"number": pl.Int64, "check": pl.String, "passed": pl.Boolean, "answer": pl.String}


@dataclass(frozen=True)
class Outcome:
    """The answer to one check."""

    check: str
    answer: str
    passed: bool | None = None
    """``None``: there is no right one, or none came, and it says why."""


def line(outcome: Outcome) -> str:
    """Return an outcome that has just come as a line of the capture."""
    return json.dumps({"t": time.time(), **asdict(outcome)}) + "\n"


def rows(text: str, truncated_ok: bool = False) -> pl.DataFrame:
    """Return rows of ``outcome``.

    Args:
        text: the capture.
        truncated_ok: see :mod:`benchlab.observers`.

    Raises:
        ParseError: a line is no outcome.
    """
    found = []
    lines = whole_lines("outcomes", text, truncated_ok) if text else []
    for number, one in enumerate(lines, start=1):
        try:
            content = json.loads(one)
            found.append((number, *(content[name] for name in ("check", "passed", "answer"))))
        except (LookupError, TypeError, ValueError):
            fail("outcomes", number, f"no outcome: {shown(one)}")
    return pl.DataFrame(found, schema=SCHEMA, orient="row")
