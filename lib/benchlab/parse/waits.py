"""What the engine's sessions waited for: the capture of :mod:`benchlab.waits`."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from benchlab.parse._text import fail, shown, whole_lines
from benchlab.waits import Wait

_SCHEMA = {"t": pl.Float64, "wait_class": pl.String, "wait": pl.String, "sessions": pl.Int64}


def looks(
    text: str,
    wait: Callable[[Mapping[str, Any]], tuple[Wait, str, int] | None],
    truncated_ok: bool = False,
) -> pl.DataFrame:
    """Return rows of ``engine_wait``: one for each look and each of the engine's waits.

    Args:
        text: the capture. A look that ended in an error has no rows.
        wait: the engine's :meth:`~benchlab.engines.Engine.wait`.
        truncated_ok: see :mod:`benchlab.parse`.

    Raises:
        ParseError: the text is not what :class:`benchlab.waits.Looks` writes.
    """
    rows = []
    lines = whole_lines("waits", text, truncated_ok) if text else []
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            t = float(content["t"])
            folded = [wait(session) for session in content.get("sessions", [])]
        except (AttributeError, KeyError, TypeError, ValueError):
            fail("waits", number, f"no look at the sessions: {shown(line)}")
        rows += [(t, *found) for found in folded if found is not None]
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    return frame.group_by("t", "wait_class", "wait", maintain_order=True).agg(
        pl.col("sessions").sum()
    )
