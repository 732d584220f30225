"""How fast a node's host was right before and right after a run's load, as the agent measured it."""

from __future__ import annotations

import json

import polars as pl

from benchlab.errors import ParseError
from benchlab.observers._samples import OsSamples

#: Moments at which the speed is measured.
MOMENTS = ("before", "after")

#: Observer, subject and metric of its rows of ``os_sample``.
OBSERVER, SUBJECT, METRIC = "speed", "host", "memory_copy_ns"


def name(moment: str) -> str:
    """Return the name of the capture of one of :data:`MOMENTS`."""
    return f"speed-{moment}.json"


def samples(text: str) -> pl.DataFrame:
    """Return the row of ``os_sample`` of one capture: the CPU time that a core took to copy 8 MiB.

    Raises:
        ParseError: the text is not what the agent's ``speed`` prints.
    """
    found = OsSamples(OBSERVER)
    try:
        content = json.loads(text)
        found.add(float(content["t"]), SUBJECT, METRIC, float(content[METRIC]))
    except (ValueError, TypeError, KeyError) as error:
        raise ParseError(f"{OBSERVER}: {error!r}") from error
    return found.frame()
