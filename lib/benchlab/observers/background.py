"""How many cycles of its background work an engine has finished, asked once a second.

The capture ``background.jsonl`` is that of a :class:`~benchlab.observers.poll.Poll`, with ``cycles``,
of which only the differences mean something.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from benchlab.observers._samples import OsSamples
from benchlab.observers.poll import Poll
from benchlab.raw.text import fail, shown, whole_lines

if TYPE_CHECKING:
    from benchlab.engines import Engine

NAME = "background.jsonl"

#: Observer, subject and metric of its rows of ``os_sample``.
OBSERVER, SUBJECT, METRIC = "background", "server", "cycles"

_INTERVAL_S = 1.0


def poll(engine: Engine) -> Poll:
    """Begin to ask an engine that reports its background work."""
    return Poll(engine, _INTERVAL_S, lambda ask: {"cycles": engine.background_cycles(ask)})


def samples(text: str, truncated_ok: bool = False) -> pl.DataFrame:
    """Return rows of ``os_sample``: the cycles as they stand.

    Args:
        text: the capture. An error has no row, nor has what the server does not report.
        truncated_ok: see :mod:`benchlab.observers`.

    Raises:
        ParseError: the text is not what :func:`poll` gives.
    """
    found = OsSamples(OBSERVER)
    lines = whole_lines(OBSERVER, text, truncated_ok) if text else []
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            t, cycles = float(content["t"]), None if "error" in content else content["cycles"]
            if cycles is not None:
                found.add(t, SUBJECT, METRIC, float(cycles))
        except (KeyError, TypeError, ValueError):
            fail(OBSERVER, number, f"no number of cycles: {shown(line)}")
    return found.frame()
