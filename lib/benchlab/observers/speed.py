"""How fast a node's host was right before and right after a run's load, as the agent measured it."""

from __future__ import annotations

import polars as pl

from benchlab.observers._samples import of_one_value

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
    return of_one_value(text, OBSERVER, SUBJECT, METRIC)
