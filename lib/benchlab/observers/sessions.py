"""What an engine's sessions wait for, sampled a few times a second through its own connection.

The capture ``waits.jsonl`` is that of a :class:`~benchlab.observers.poll.Poll`, with ``sessions``, the
rows that the server returned. The engine's module interprets the rows when the capture is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from benchlab.engines.waits import Wait
from benchlab.observers.poll import Poll, answers

if TYPE_CHECKING:
    from benchlab.engines import Engine

_SCHEMA = {"t": pl.Float64, "wait_class": pl.String, "wait": pl.String, "sessions": pl.Int64}

NAME = "waits.jsonl"

#: A light query at this interval has no measurable cost. Locks and commits that matter take a share of
#: the run that a few dozen samples show.
INTERVAL_S = 0.5


def poll(engine: Engine) -> Poll:
    """Start to poll an engine for what its sessions do."""
    return Poll(engine, INTERVAL_S, lambda ask: {"sessions": engine.sample_sessions(ask)})


def samples(
    text: str,
    wait: Callable[[Mapping[str, Any]], tuple[Wait, str, int] | None],
) -> pl.DataFrame:
    """Return rows of ``engine_wait``: one for each sample and each of the engine's waits.

    Args:
        text: the capture. A sample that ended in an error has no rows.
        wait: the engine's :meth:`~benchlab.engines.Engine.wait`.

    Raises:
        ParseError: the text is not a capture of :func:`poll`.
    """

    def folded(content: Mapping[str, Any]) -> list[tuple[Wait, str, int]]:
        return [found for row in content["sessions"] if (found := wait(row))]

    sampled = answers(text, "waits", "sample of the sessions", folded)
    rows = [(t, *found) for t, waits in sampled for found in waits]
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    return frame.group_by("t", "wait_class", "wait", maintain_order=True).agg(
        pl.col("sessions").sum()
    )
