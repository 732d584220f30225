"""How far each standby is behind, and whether commits wait for it, asked every second.

The capture ``replication.jsonl`` is that of a :class:`~benchlab.observers.poll.Poll`, with
``standbys``, the rows that the server returned: ``standby``, ``is_synchronous``, the bytes of log that
the standby has not yet written, flushed and applied, and those that its slot keeps for it. A value that
the server does not have is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from benchlab.observers._samples import OsSamples
from benchlab.observers.poll import Poll, answers

if TYPE_CHECKING:
    from benchlab.engines import Engine

NAME = "replication.jsonl"
OBSERVER = "replication"

#: Metrics of its rows of ``os_sample``; the subject is the standby.
METRICS = ("write_lag_bytes", "flush_lag_bytes", "replay_lag_bytes", "is_synchronous")

#: Metric for the log that a standby's slot keeps for it; captures from before this was asked lack it.
SLOT = "slot_kept_bytes"

_INTERVAL_S = 1.0


def poll(engine: Engine) -> Poll:
    """Start to poll an engine that reports its standbys."""
    return Poll(engine, _INTERVAL_S, lambda ask: {"standbys": ask(engine.standbys_query)})


def samples(text: str) -> pl.DataFrame:
    """Return rows of ``os_sample``, one for each standby, second and metric.

    Args:
        text: the capture. A second in which the server did not answer has no rows.

    Raises:
        ParseError: the text is not a capture of :func:`poll`.
    """
    found = OsSamples(OBSERVER)
    for t, standbys in answers(text, OBSERVER, "state of the standbys", _standbys):
        for standby, values in standbys.items():
            for metric, value in values.items():
                found.add(t, standby, metric, value)
    return found.frame()


def _standbys(content: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    return {
        row["standby"]: {
            name: float(value)
            for name, value in [*((name, row[name]) for name in METRICS), (SLOT, row.get(SLOT))]
            if value is not None
        }
        for row in content["standbys"]
    }
