"""sysbench 1.0.20: the load generator's intervals, latency histogram, totals and errors.

Written for ``sysbench … --report-interval=1 --histogram --percentile=99 run``. What to know about it:

- Everything, error messages included, goes to standard output, unbuffered (``sb_logger.c``).
- The histogram has 1,024 buckets spaced evenly in the logarithm over 0.001 to 100,000 ms. A value
  counts for the *nearest* bucket. The printed value is the geometric centre of the bucket.
  Neighbours are 1.8 % apart, so a latency is known to ±0.9 %. The first and last bucket also take
  all values beyond them (``sb_histogram.c``). Three decimals are printed, so that below 0.03 ms
  several buckets have the same value: these are joined.
- Percentiles are read from that histogram, so they have its resolution; min, avg, max and sum do
  not depend on it.
- An interval in which no event ended has no latency; sysbench prints 0.00.
- With ``--rate``, a latency counts from when sysbench's own generator queued the event. That may be
  later than the event was due, if the generator is late (``eventgen_thread_proc`` in ``sysbench.c``).
- sysbench waits for the events in flight at the end. So totals may cover more than the requested
  time, and more events than the intervals show.
- When its PostgreSQL driver loses the connection, 1.0.20 as packaged by Debian dies of a
  segmentation fault without a message: the exit status must be checked, too.
"""

import math
import re
from collections.abc import Mapping

import polars as pl

from benchlab.drivers.base import SECONDS
from benchlab.raw.text import complete_lines, fail, shown, whole_lines

#: Line that is printed when the clients start; the seconds are counted from there.
STARTED = "Threads started!"

#: Ratio of the values of neighbouring buckets of the histogram.
BUCKET_RATIO = math.exp(math.log(100_000 / 0.001) / 1023)

#: Columns of a second that sysbench prints.
_INTERVAL_SCHEMA = {
    name: kind for name, kind in SECONDS.items() if name not in ("phase", "operation")
}
_BUCKET_SCHEMA = {"latency_us": pl.Float64, "count": pl.Int64}

_NUMBER = r"(\d+\.\d\d)"
_INTERVAL = re.compile(
    rf"\[ (\d+)s \] thds: (\d+) tps: {_NUMBER} qps: {_NUMBER}"
    rf" \(r/w/o: {_NUMBER}/{_NUMBER}/{_NUMBER}\) lat \(ms,(\d+)%\): {_NUMBER}"
    rf" err/s: {_NUMBER} reconn/s: {_NUMBER}"
)
# with --rate, and with --report-checkpoints
_OTHER_TIMED = re.compile(r"\[ \d+s \] (?:queue length: \d+, concurrency: \d+|Checkpoint report:)")
_BUCKET = re.compile(r" *(\d+\.\d{3}) \|(?=.{40} )\** * (\d+)")
# printed by the wrapper for each thread, before all of them start
_WARMED = re.compile(
    r"warmed up: (\d+)/(\d+)/(\d+) queries \(r/w/o\), (\d+) errors, (\d+) reconnects"
)
_COUNTED = ("queries_read", "queries_write", "queries_other", "ignored_errors", "reconnects")
_RATES_OF_QUERIES = (
    "qps",
    "read_qps",
    "write_qps",
    "other_qps",
    "errors_per_s",
    "reconnects_per_s",
)
_HISTOGRAM = "Latency histogram (values are in milliseconds)"
_COLUMNS = "       value  ------------- distribution ------------- count"
_SUMMARY = "SQL statistics:"
_ERROR = re.compile(r"(?:FATAL|ALERT|PANIC): ")  # PANIC is LuaJIT's
_REPEATED = re.compile(r"\(last message repeated \d+ times\)")
_AFTER_AN_ERROR = ("[ ", STARTED, _HISTOGRAM, _SUMMARY)

_COUNT, _RATE, _REAL = r"(\d+)", r"\((\d+\.\d\d) per sec\.\)", r"(\d+\.\d+)"
# the lines of the totals, in order: pattern, then name and type of each group
_TOTALS: tuple[tuple[str, tuple[tuple[str, type], ...]], ...] = (
    (r"queries performed:", ()),
    (rf"read: {_COUNT}", (("queries_read", int),)),
    (rf"write: {_COUNT}", (("queries_write", int),)),
    (rf"other: {_COUNT}", (("queries_other", int),)),
    (rf"total: {_COUNT}", (("queries_total", int),)),
    (rf"transactions: {_COUNT} {_RATE}", (("transactions", int), ("transactions_per_s", float))),
    (rf"queries: {_COUNT} {_RATE}", (("queries", int), ("queries_per_s", float))),
    (
        rf"ignored errors: {_COUNT} {_RATE}",
        (("ignored_errors", int), ("ignored_errors_per_s", float)),
    ),
    (rf"reconnects: {_COUNT} {_RATE}", (("reconnects", int), ("reconnects_per_s", float))),
    (r"General statistics:", ()),
    (rf"total time: {_REAL}s", (("total_time_s", float),)),
    (rf"total number of events: {_COUNT}", (("events", int),)),
    (r"Latency \(ms\):", ()),
    (rf"min: {_REAL}", (("latency_min_ms", float),)),
    (rf"avg: {_REAL}", (("latency_avg_ms", float),)),
    (rf"max: {_REAL}", (("latency_max_ms", float),)),
    (
        rf"(?:(\d+)th percentile: {_REAL}|percentile stats: disabled)",
        (("percentile", int), ("latency_percentile_ms", float)),
    ),
    (rf"sum: {_REAL}", (("latency_sum_ms", float),)),
    (r"Threads fairness:", ()),
    (
        rf"events \(avg/stddev\): {_REAL}/{_REAL}",
        (("thread_events_avg", float), ("thread_events_stddev", float)),
    ),
    (
        rf"execution time \(avg/stddev\): {_REAL}/{_REAL}",
        (("thread_time_avg_s", float), ("thread_time_stddev_s", float)),
    ),
)


def intervals(text: str) -> pl.DataFrame:
    """Return one row per interval.

    ``second`` counts from the start of the threads to the interval's end. ``latency_us`` is the
    latency at ``percentile`` of the events that ended in the interval; null if none did. A run that
    ended before its first interval has no rows. In the first interval after a warm-up, the rates of
    queries and errors are null: they include those of the warm-up. The text may be cut anywhere.

    Raises:
        ParseError: the text is not sysbench's, or a line that starts like an interval is none.
    """
    rows: list[tuple[float | None, ...]] = []
    lines = _of_sysbench(complete_lines(text))
    for number, line in enumerate(lines, start=1):
        match = _INTERVAL.fullmatch(line)
        if match is None:
            if line.startswith("[ ") and not _OTHER_TIMED.fullmatch(line):
                fail("sysbench", number, f"no interval: {shown(line)}")
            continue
        second, threads, *rates, percentile, latency, errors, reconnects = match.groups()
        rows.append(
            (
                *(int(second), int(threads), *map(float, rates)),
                *(_latency_us(latency), int(percentile), float(errors), float(reconnects)),
            )
        )
    found = pl.DataFrame(rows, schema=_INTERVAL_SCHEMA, orient="row")
    if not any(map(_WARMED.fullmatch, lines)):
        return found
    within = pl.when(pl.int_range(pl.len()) > 0)
    return found.with_columns(within.then(pl.col(name)) for name in _RATES_OF_QUERIES)


def second_of(line: str) -> tuple[int, float] | None:
    """Return the second at which an interval ends and its transactions per second.

    ``None`` if the line is not that of an interval.
    """
    match = _INTERVAL.fullmatch(line)
    return match and (int(match[1]), float(match[3]))


def histogram(text: str) -> pl.DataFrame:
    """Return the buckets of the latency histogram that hold an event, smallest first.

    ``latency_us`` is the bucket's geometric centre: its events are between that value divided by and
    multiplied by the square root of :data:`BUCKET_RATIO`.

    Raises:
        ParseError: there is no whole histogram; a part of it would show a false distribution.
    """
    lines = _of_sysbench(whole_lines("sysbench", text))
    begin = _only(lines, _HISTOGRAM)
    if lines[begin + 1 : begin + 2] != [_COLUMNS]:
        fail("sysbench", begin + 2, "the histogram has no buckets")
    rows: list[tuple[float, int]] = []
    for number, line in enumerate(lines[begin + 2 :], start=begin + 3):
        match = _BUCKET.fullmatch(line)
        if match is None:
            if line != " ":
                fail("sysbench", number, f"no bucket of the histogram: {shown(line)}")
            break
        latency_us = _microseconds(match[1])
        if rows and latency_us < rows[-1][0]:
            fail("sysbench", number, f"bucket {match[1]} ms after a larger one")
        rows.append((latency_us, int(match[2])))
    else:
        fail("sysbench", len(lines), "cut in the middle of the histogram")
    frame = pl.DataFrame(rows, schema=_BUCKET_SCHEMA, orient="row")
    return frame.group_by("latency_us", maintain_order=True).agg(pl.col("count").sum())


def summary(text: str) -> dict[str, int | float | None]:
    """Return the totals, with the units in their names.

    ``percentile`` and ``latency_percentile_ms`` are ``None`` for a run with ``--percentile=0``.
    ``latency_sum_ms`` is the sum over all threads. The counts of a warm-up are subtracted.

    Raises:
        ParseError: there are no whole totals (the run did not end), or several. Checkpoints print
            several and reset the counters, so the last totals do not cover the whole run.
    """
    lines = _of_sysbench(whole_lines("sysbench", text))
    begin = _only(lines, _SUMMARY) + 1
    rest = ((number, line) for number, line in enumerate(lines[begin:], start=begin + 1) if line)
    found: dict[str, int | float | None] = {}
    for pattern, groups in _TOTALS:
        number, line = next(rest, (len(lines), ""))
        match = re.fullmatch(pattern, " ".join(line.split()))
        if match is None:
            fail("sysbench", number, f"{shown(line)} where the totals have {pattern!r}")
        for (name, kind), value in zip(groups, match.groups(), strict=True):
            found[name] = None if value is None else kind(value)
    return found | _without(_warmed(lines), found)


def errors(text: str) -> list[str]:
    """Return the error messages, one line each, in order.

    Errors that sysbench is configured to ignore are counted in its intervals and totals, not printed. A
    server's message of several lines is joined into one.
    """
    found: list[str] = []
    inside = False
    for line in text.split("\n"):
        if _ERROR.match(line):
            found.append(line.strip())
            inside = True
        elif found and _REPEATED.fullmatch(line):
            found[-1] += f" {line}"
            inside = False
        elif inside and line.strip() and not line.startswith(_AFTER_AN_ERROR):
            if line.strip("\t ^"):
                found[-1] += f" {line.strip()}"
        else:
            inside = False
    return found


def _of_sysbench(lines: list[str]) -> list[str]:
    """Return the lines, once it is known that sysbench printed them."""
    # warnings about options may come before the program's name
    if lines and not any(line.startswith("sysbench 1.") for line in lines):
        fail("sysbench", 1, f"no output of sysbench 1.x: {shown(lines[0])}")
    return lines


def _warmed(lines: list[str]) -> list[int]:
    """Return the counts of the warm-up of all connections, in the order of :data:`_COUNTED`."""
    of_threads = [match.groups() for line in lines if (match := _WARMED.fullmatch(line))]
    return [sum(map(int, counts)) for counts in zip(*of_threads, strict=True)]


def _without(warmed: list[int], totals: Mapping[str, float]) -> dict[str, float]:
    """Return the totals that include the counts of the warm-up, without these counts."""
    if not warmed:
        return {}
    found = {name: totals[name] - count for name, count in zip(_COUNTED, warmed, strict=True)}
    queries = totals["queries"] - sum(warmed[:3])
    found |= {"queries": queries, "queries_total": queries}
    rates = {
        f"{name}_per_s": round(found[name] / totals["total_time_s"], 2)
        for name in ("queries", "ignored_errors", "reconnects")
    }
    return found | rates


def _only(lines: list[str], heading: str) -> int:
    """Return the index of the only line that is ``heading``."""
    found = [index for index, line in enumerate(lines) if line == heading]
    if len(found) != 1:
        number = found[1] + 1 if found else len(lines)
        fail("sysbench", number, f"{len(found)} times {heading!r}, not once")
    return found[0]


def _latency_us(milliseconds: str) -> float | None:
    return _microseconds(milliseconds) or None


def _microseconds(milliseconds: str) -> float:
    """Return decimal milliseconds as microseconds, free of binary rounding."""
    return float(f"{milliseconds}e3")
