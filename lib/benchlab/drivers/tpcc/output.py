"""Parsers of what the terminals' program prints, and of the records that it leaves.

:mod:`benchlab.drivers.tpcc.rte` describes the lines, :mod:`benchlab.drivers.tpcc.records` the records.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import polars as pl

from benchlab.drivers.base import MEASURE, SECONDS, TIMES
from benchlab.drivers.seconds import of_every_operation
from benchlab.drivers.tpcc.measured import ENDED_WELL, Interval, within
from benchlab.drivers.tpcc.records import RECORDS
from benchlab.drivers.tpcc.validity import CARDINALITIES, DELIVERIES
from benchlab.drivers.tpcc.was.delivery import Result
from benchlab.errors import ParseError
from benchlab.raw.text import complete_lines

#: Percentile of the latencies in a second.
PERCENTILE = 90  # the percentile of the standard's limits on response times (clause 5.2.5.7)

#: Columns that records before 30 November 2026 lack.
_ADDED = {"menu_late_us": RECORDS["menu_late_us"]}

_BEGUN = re.compile(r"begun (\d+)")
_CONNECTED = re.compile(r"connected (\d+\.\d{3})")
_SECOND = re.compile(
    r"(\d+) new_order=(\d+) all=(\d+) rolled_back=(\d+) refused=(\d+) errors=(\d+) lost=(\d+)"
    r" late_p99_ms=(\d+\.\d+)"
)


class Totals(msgspec.Struct):
    """The last line of a process; only the fields that are used."""

    begun: int | None
    seconds: float
    of_warehouses: int
    all: int
    refused: int
    errors: int
    lost: int
    lost_terminals: int


def begun(line: str) -> float | None:
    """Return when the ramp-up of a process was over, in Unix seconds, if a line reports it."""
    found = _BEGUN.fullmatch(line)
    return float(found[1]) if found else None


def second_of(line: str) -> tuple[int, float] | None:
    """Return the second of the Unix clock that a line reports, and its transactions that ended well."""
    found = _SECOND.fullmatch(line)
    return (int(found[1]), float(found[3])) if found else None


def totals(printed: str) -> Totals:
    """Return the totals of a process.

    Raises:
        ParseError: the process has not printed its totals, or not as a whole.
    """
    last = (complete_lines(printed) or [""])[-1]
    try:
        return msgspec.json.decode(last, type=Totals)
    except msgspec.DecodeError as error:
        raise ParseError(f"tpcc: no totals in the last line {last[:80]!r}: {error}") from error


def seconds(printed: Iterable[str]) -> pl.DataFrame:
    """Return the seconds that all of several processes have reported, added up.

    Columns: those of :data:`~benchlab.drivers.base.SECONDS` that are known.

    Args:
        printed: output of each process, including processes that were broken off.
    """
    of_processes = []
    for text in printed:
        lines = filter(None, map(_SECOND.fullmatch, complete_lines(text)))
        of_processes.append(
            pl.DataFrame(
                [
                    (int(one[1]), float(one[3]), sum(map(float, one.group(5, 6, 7))))
                    for one in lines
                ],
                schema={"at": pl.Int64, "tps": pl.Float64, "errors_per_s": pl.Float64},
                orient="row",
            )
        )
    if not of_processes:
        return pl.DataFrame(schema=SECONDS)
    count = len(of_processes)
    added = (
        pl.concat(of_processes)
        .group_by("at")
        .agg(pl.len().alias("processes"), pl.col("tps", "errors_per_s").sum())
        .filter(processes=count)
        .sort("at")
    )
    return added.select(
        (pl.col("at") - pl.col("at").min() + 1).alias("second"),
        "tps",
        "errors_per_s",
        phase=pl.lit(MEASURE),
    )


def records(files: Sequence[Path]) -> pl.LazyFrame:
    """Return the records of the terminals of some processes; the files are read lazily.

    Columns that older records lack are null.

    Raises:
        ParseError: a file does not have the columns of records.
    """
    for path in files:
        found = pl.read_parquet_schema(path)
        if {**_ADDED, **found} != RECORDS:
            raise ParseError(f"tpcc: {path.name} has the columns {', '.join(found)}")
    empty = pl.LazyFrame(schema=RECORDS)
    return pl.concat([empty, *map(pl.scan_parquet, files)], how="diagonal")


def measured_part(printed: Iterable[str]) -> Interval:
    """Return the whole seconds that all processes counted.

    Args:
        printed: output of each process.

    Raises:
        ParseError: a process was broken off, or ended before its ramp-up was over.
    """
    counted = [totals(text) for text in printed]
    if any(one.begun is None for one in counted):
        raise ParseError("tpcc: ended before the ramp-up was")
    begin = max(one.begun for one in counted)
    end = min(one.begun + int(one.seconds) for one in counted)
    return Interval(begin * 1_000_000, end * 1_000_000)


def ramp_up(printed: Iterable[str]) -> Interval | None:
    """Return the part of the ramp-up in which the terminals of all processes were connected.

    ``None``: a process does not report when its terminals were connected.

    Args:
        printed: output of each process.

    Raises:
        ParseError: see :func:`measured_part`.
    """
    begun = []
    for text in printed:
        lines = map(_CONNECTED.fullmatch, complete_lines(text))
        if (found := next(filter(None, lines), None)) is None:
            return None
        begun.append(round(float(found[1]) * 1e6))
    return Interval(max(begun), measured_part(printed).begin_us)


def deliveries(content: bytes) -> pl.DataFrame:
    """Return the results of deferred deliveries (:data:`~benchlab.drivers.tpcc.validity.DELIVERIES`).

    Raises:
        ParseError: a line is not the application server's.
    """
    try:
        found = [msgspec.json.decode(line, type=Result) for line in content.splitlines()]
    except msgspec.DecodeError as error:
        raise ParseError(f"tpcc: results of deliveries: {error}") from error
    return pl.DataFrame(
        [
            (
                one.w_id,
                one.o_carrier_id,
                one.queued_us,
                None if one.error else one.completed_us,
                len(one.delivered),
                len(one.skipped),
                one.retries,
            )
            for one in found
        ],
        schema=DELIVERIES,
        orient="row",
    )


def cardinalities(content: bytes) -> pl.DataFrame:
    """Return the numbers of rows of the tables before a run, from the file that a trial keeps.

    Columns: :data:`~benchlab.drivers.tpcc.validity.CARDINALITIES`.

    Raises:
        ParseError: the content is not that of such a file.
    """
    try:
        rows = msgspec.json.decode(content, type=dict[str, int])
    except msgspec.DecodeError as error:
        raise ParseError(f"tpcc: rows of the tables: {error}") from error
    return pl.DataFrame(list(rows.items()), schema=CARDINALITIES, orient="row")


def of_seconds(kept: pl.LazyFrame, interval: Interval) -> pl.DataFrame:
    """Return the whole seconds of an interval by type of transaction, as :func:`seconds` does.

    A transaction counts in the second in which it was answered.
    """
    last = (interval.end_us - interval.begin_us) // 1_000_000
    second = (pl.coalesce("answered_us", "due_us") - interval.begin_us) // 1_000_000 + 1
    found = (
        within(kept, interval)
        .group_by(second=second, operation="type")
        .agg(
            tps=ENDED_WELL.sum().cast(pl.Float64),
            latency_us=response_us().filter(ENDED_WELL).quantile(PERCENTILE / 100, "nearest"),
            errors_per_s=(~ENDED_WELL).sum().cast(pl.Float64),
        )
        .collect()
    )
    names = kept.select(operation=pl.col("type").unique().sort()).collect()
    return of_every_operation(found, names, last, PERCENTILE)


def times(
    kept: pl.LazyFrame, deliveries: pl.DataFrame | None, interval: Interval, digits: int
) -> pl.DataFrame:
    """Return the terminals' own times, of the transactions that ended well in the interval.

    Columns: :data:`~benchlab.drivers.base.TIMES`. A menu's time does not include the browser's delay. A
    delivery belongs to the interval in which it was queued; one that was never done has no time.

    Args:
        kept: see :func:`records`.
        deliveries: see :data:`~benchlab.drivers.tpcc.validity.DELIVERIES`, if there are any.
        interval: measurement interval.
        digits: significant digits to which a time is rounded.
    """
    columns = {
        "keying": pl.col("keying_us"),
        "think": pl.col("think_us"),
        "menu": pl.col("menu_us"),
        "late": pl.col("sent_us") - pl.col("due_us"),
    }
    ended = kept.filter(interval.has("answered_us"), ENDED_WELL)
    found = [
        ended.select(operation="type", what=pl.lit(what), us=us) for what, us in columns.items()
    ]
    if deliveries is not None:
        took = pl.col("completed_us") - pl.col("queued_us")
        done = deliveries.lazy().filter(interval.has("queued_us"))
        found.append(done.select(operation=pl.lit("delivery"), what=pl.lit("deferred"), us=took))
    return (
        pl.concat(found, how="vertical_relaxed")
        .drop_nulls("us")
        .group_by("operation", "what", time_us=pl.col("us").cast(pl.Float64).round_sig_figs(digits))
        .agg(count=pl.len().cast(pl.Int64))
        .sort("operation", "what", "time_us")
        .select(*TIMES)
        .collect()
    )


def response_us() -> pl.Expr:
    """Return the response time in µs, from when the request was due to the last byte."""
    return (pl.col("answered_us") - pl.col("due_us")).cast(pl.Float64)
