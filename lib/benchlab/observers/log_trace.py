"""The system calls that write an engine's log, traced by bpftrace under the agent.

The capture is bpftrace's JSON, one object a line. Every second it prints the time (``printf``), then a
histogram in µs for each call made in that second (``hist``), and sums (``map``). ``write`` is pwrite64
and ``sync`` is fdatasync. A ``flush`` is what a commit waits for: both, from the start of the first
write to the end of the sync.

On a busy machine bpftrace may skip the end of a second; what it then prints is of several.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from benchlab.observers._samples import OsSamples
from benchlab.observers.sample import AGENT
from benchlab.raw.text import complete_lines, fail, shown

NAME = "log-trace.json"
OBSERVER = "log_trace"

_CALLS = ("write", "sync", "flush")

#: bpftrace's map with a sum of each second → call, metric and factor for the row of ``os_sample``.
_SUMS = {
    "@write_ns": ("write", "us_per_s", 1e-3),
    "@sync_ns": ("sync", "us_per_s", 1e-3),
    "@bytes": ("write", "bytes_per_s", 1.0),
}

_SCHEMA = {
    "call": pl.String,
    "from_us": pl.Int64,
    "to_us": pl.Int64,
    "calls": pl.Int64,
}


@dataclass(frozen=True)
class LogTrace:
    """The observer of one engine's log; see :mod:`benchlab.observers`."""

    engine: str
    folder: str
    """Folder of the log in the data directory."""

    ENVIRONMENT: ClassVar = {"LC_ALL": "C", "TZ": "UTC"}
    STOP_SIGNAL: ClassVar = "SIGINT"
    BEGUN: ClassVar = '"printf"'

    @property
    def COMMAND(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return (*AGENT, "engine", self.engine, "trace-log", "--folder", self.folder)


@dataclass(frozen=True)
class _Interval:
    """What the trace printed at once: its end and whole seconds, a histogram of each call, and sums."""

    t: float
    seconds: int
    histograms: dict[str, list[tuple[int, int | None, int]]]
    sums: dict[str, float]


def samples(text: str) -> pl.DataFrame:
    """Return rows of ``os_sample``: each second's calls, time in them, and bytes.

    If several seconds were printed at once, each has their mean.

    Args:
        text: the capture.

    Raises:
        ParseError: the text is not bpftrace's.
    """
    found = OsSamples(OBSERVER)
    for interval in _intervals(text):
        totals = {
            (call, "calls_per_s"): sum(count for _, _, count in interval.histograms.get(call, []))
            for call in _CALLS
        }
        for name, (call, metric, scale) in _SUMS.items():
            totals[call, metric] = scale * interval.sums.get(name, 0.0)
        for before in reversed(range(interval.seconds)):
            for (call, metric), total in totals.items():
                found.add(interval.t - before, call, metric, total / interval.seconds)
    return found.frame()


def latencies(text: str, begin: float, end: float) -> pl.DataFrame:
    """Return rows of ``log_latency``: the calls of the whole seconds within a phase, by duration.

    Args:
        text: the capture.
        begin: start of the phase, Unix seconds.
        end: end of the phase, Unix seconds.

    Raises:
        ParseError: the text is not bpftrace's.
    """
    total: Counter[tuple[str, int, int | None]] = Counter()
    for interval in _intervals(text):
        if begin + interval.seconds <= interval.t <= end:
            for call, histogram in interval.histograms.items():
                for low, high, count in histogram:
                    if count:
                        total[call, low, high] += count
    rows = [(*bucket, count) for bucket, count in total.items()]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort("call", "from_us")


def _intervals(text: str) -> Iterator[_Interval]:
    """Yield the intervals but the first, which begins with tracing, and the last, which may be cut."""
    now: _Interval | None = None
    for number, line in enumerate(complete_lines(text), start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            kind, data = content["type"], content["data"]
            match kind:
                case "printf":
                    t = float(data)
                    if now and now.seconds > 0:
                        yield now
                    now = _Interval(t, round(t - now.t) if now else 0, {}, {})
                case "hist":
                    ((name, buckets),) = data.items()
                    if now:
                        now.histograms[name.removeprefix("@")] = [_bucket(one) for one in buckets]
                case "map":
                    for name, value in data.items():
                        if now:
                            now.sums[name] = float(value)
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
            fail(OBSERVER, number, f"not bpftrace's JSON: {shown(line)}")


def _bucket(one: dict[str, int]) -> tuple[int, int | None, int]:
    """Return lower bound, upper bound (``None``: open) and count; bpftrace's ``max`` is inclusive."""
    return one["min"], one["max"] + 1 if "max" in one else None, one["count"]
