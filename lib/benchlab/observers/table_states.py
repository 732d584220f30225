"""The states of tables, which a write changes for the readers, asked ten times a second.

The capture ``table_states.jsonl`` is that of a :class:`~benchlab.observers.poll.Poll`, with ``tables``,
the rows that the server returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from benchlab.observers.poll import Poll, answers

if TYPE_CHECKING:
    from benchlab.engines import Engine

NAME = "table_states.jsonl"

SCHEMA = {"t": pl.Float64, "table_name": pl.String, "state": pl.String}

_INTERVAL_S = 0.1


def poll(engine: Engine) -> Poll:
    """Start to poll an engine whose tables have states."""
    return Poll(engine, _INTERVAL_S, lambda ask: {"tables": ask(engine.table_states_query)})


def samples(text: str) -> pl.DataFrame:
    """Return rows of ``table_state``: one for each sample and table.

    Args:
        text: the capture. A sample that ended in an error has no rows.

    Raises:
        ParseError: the text is not a capture of :func:`poll`.
    """

    def states(content: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [(row["name"], row["state"]) for row in content["tables"]]

    sampled = answers(text, "table_states", "sample of the tables", states)
    rows = [(t, *of_table) for t, of_tables in sampled for of_table in of_tables]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
