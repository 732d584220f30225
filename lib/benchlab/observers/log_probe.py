"""How long a durable write to an engine's log took right before a run's load."""

from __future__ import annotations

import polars as pl

from benchlab.observers._samples import of_one_value

NAME = "log-probe.json"

#: Observer, subject and metric of its row of ``os_sample``.
OBSERVER, SUBJECT, METRIC = "log_probe", "log", "durable_write_ns"


def samples(text: str) -> pl.DataFrame:
    """Return the row of ``os_sample`` of a capture: the median time to make 8 KiB durable.

    Raises:
        ParseError: the text is not what the agent's ``probe-log`` prints.
    """
    return of_one_value(text, OBSERVER, SUBJECT, METRIC)
