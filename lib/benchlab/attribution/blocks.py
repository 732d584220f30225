"""Output of the agent's ``intervene``: the blocks of a run in which limits were lowered.

One JSON object per line. The first is a header with the limits in force. Each of the others is a
completed block: ``limit`` (the one that was lowered, null in a baseline block), ``factor``, ``value``
(of the lowered limit), ``begin_s`` and ``end_s`` (Unix seconds of the target's clock).
"""

import json

import polars as pl

from benchlab.raw.text import complete_lines, fail, shown
from benchlab.study.resources import LOWERED

#: Name of the capture.
FILE = "blocks.jsonl"

SCHEMA = {
    "number": pl.Int64,
    "resource": pl.String,
    "factor": pl.Float64,
    "in_force": pl.Float64,
    "lowered_to": pl.Float64,
    "begin_s": pl.Float64,
    "end_s": pl.Float64,
}

_NAMES = {resource.limit.agent: resource.name for resource in LOWERED.values()} | {None: None}


def blocks(text: str) -> pl.DataFrame:
    """Return one row per block, in order; ``resource`` is null in a baseline block.

    ``number`` counts from 0. ``in_force`` and ``lowered_to`` are cores, bytes per second or operations
    per second.

    Raises:
        ParseError: the text is not what the agent prints, or its clock went back.
    """
    lines = complete_lines(text)
    rows: list[dict] = []
    limits: dict[str, float | None] = {}
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            if number == 1:
                limits = dict(content["header"]["limits"])
                continue
            rows.append(_row(content, limits) | {"number": len(rows)})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            fail("intervene", number, f"no block: {type(error).__name__}: {error}: {shown(line)}")
        if len(rows) > 1 and rows[-1]["begin_s"] < rows[-2]["end_s"]:
            fail("intervene", number, "the block begins before the one before it ends")
    return pl.DataFrame(rows, schema=SCHEMA)


def _row(content: dict, limits: dict[str, float | None]) -> dict:
    limit = content["limit"]
    begin, end = float(content["begin_s"]), float(content["end_s"])
    if end <= begin:
        raise ValueError("it ends before it begins")
    return {
        "resource": _NAMES[limit],
        "factor": float(content["factor"]),
        "in_force": None if limit is None else float(limits[limit]),
        "lowered_to": None if limit is None else float(content["value"]),
        "begin_s": begin,
        "end_s": end,
    }
