"""How many cycles of its background work an engine has gone through, asked repeatedly.

The capture ``background.jsonl`` is that of a :class:`~benchlab.observers.poll.Poll`, with ``cycles``.
Only differences of ``cycles`` are meaningful.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from benchlab.observers._samples import OsSamples
from benchlab.observers.poll import Poll, answers

if TYPE_CHECKING:
    from benchlab.target.session import Session

NAME = "background.jsonl"

#: Observer, subject and metric of its rows of ``os_sample``.
OBSERVER, SUBJECT, METRIC = "background", "server", "cycles"

_INTERVAL_S = 1.0

#: For engines whose services print pages of counters, which takes them longer than a query.
_PAGES_INTERVAL_S = 5.0


def poll(session: Session) -> Poll:
    """Start to poll an engine that reports its background work."""
    engine = session.engine
    return Poll(
        engine,
        _PAGES_INTERVAL_S if session.found.has_metrics else _INTERVAL_S,
        lambda ask: {"cycles": engine.background_cycles(ask, session.metrics)},
    )


def samples(text: str) -> pl.DataFrame:
    """Return rows of ``os_sample``: the number of cycles as the engine reported it.

    Args:
        text: the capture. Errors, and answers without a number, have no row.

    Raises:
        ParseError: the text is not a capture of :func:`poll`.
    """
    found = OsSamples(OBSERVER)
    for t, cycles in answers(text, OBSERVER, "number of cycles", _cycles):
        found.add(t, SUBJECT, METRIC, cycles)
    return found.frame()


def _cycles(content: Mapping[str, Any]) -> float | None:
    return None if content["cycles"] is None else float(content["cycles"])
