"""Single writes during a load that reads, with their times.

The capture ``single_writes.jsonl`` has one JSON object a write: ``table``, ``due``, ``begin`` (of the
transaction), ``commit`` (sent) and ``end`` (answered), in Unix seconds of the machine that writes. If
the server refused the write or was gone, the object has ``error`` and no ``end``.
"""

from __future__ import annotations

import json

import polars as pl

from benchlab.raw.text import complete_lines, fail, shown

NAME = "single_writes.jsonl"

SCHEMA = {
    "table_name": pl.String,
    "due_s": pl.Float64,
    "begin_s": pl.Float64,
    "commit_s": pl.Float64,
    "end_s": pl.Float64,
}


def rows(text: str) -> pl.DataFrame:
    """Return rows of ``single_write``: one for each write that was answered.

    Args:
        text: the capture.

    Raises:
        ParseError: a line is not such an object, or its times are out of order.
    """
    found = []
    lines = complete_lines(text)
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            if "error" in content:
                continue
            times = [float(content[name]) for name in ("due", "begin", "commit", "end")]
            found.append((str(content["table"]), *times))
        except (KeyError, TypeError, ValueError):
            fail("single_writes", number, f"no write: {shown(line)}")
        if times != sorted(times):
            fail("single_writes", number, f"its times are out of order: {shown(line)}")
    return pl.DataFrame(found, schema=SCHEMA, orient="row")
