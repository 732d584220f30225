"""Results that terminals measured: response times, and the throughput of New-Orders.

A transaction belongs to the measurement interval in which it was answered (TPC-C 5.11, clause 5.4).
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl

from benchlab.drivers.tpcc import limits

#: Time that an emulated browser takes to show an answer, in addition to the measured time.
BROWSER_DELAY_US = round(limits.SHOWN * 1e6)

#: Whether a transaction ended as the standard wants it to; a rollback on purpose counts (clause 5.4).
ENDED_WELL = pl.col("status").is_in(("ok", "rolled_back"))

#: Share of the interval after which cumulative throughput is compared with that of the whole interval.
#: For the shortest interval, 120 minutes, it is 30 minutes. By then each system has had a checkpoint
#: (clause 5.5), so every moment is judged by at least one cycle of the background work.
SETTLED = 0.25

_MINUTE_US = 60_000_000

_Frame = TypeVar("_Frame", pl.DataFrame, pl.LazyFrame)


@dataclass(frozen=True)
class Interval:
    """A measurement interval: from ``begin_us`` on, before ``end_us``, in Unix microseconds."""

    begin_us: int
    end_us: int

    @property
    def minutes(self) -> float:
        """Length of the interval."""
        return (self.end_us - self.begin_us) / _MINUTE_US

    def has(self, column: str) -> pl.Expr:
        """Return whether a column of Unix microseconds is in the interval; false for null."""
        return pl.col(column).is_between(self.begin_us, self.end_us, closed="left").fill_null(False)


def within(records: _Frame, interval: Interval) -> _Frame:
    """Return the transactions that were answered in an interval or, if never answered, due in it."""
    at_us = pl.coalesce("answered_us", "due_us")
    return records.filter(at_us.is_between(interval.begin_us, interval.end_us, closed="left"))


def ended(records: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return the transactions that ended well in the interval, with ``response_us``.

    The response time counts from when the send was due to the last byte, plus the browser's delay.

    Args:
        records: see :data:`benchlab.drivers.tpcc.records.RECORDS`.
        interval: measurement interval.
    """
    response = pl.col("answered_us") - pl.col("due_us") + BROWSER_DELAY_US
    return within(records, interval).filter(ENDED_WELL).with_columns(response.alias("response_us"))


def unended(records: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return the transactions of the interval that did not end well."""
    return within(records, interval).filter(~ENDED_WELL)


def percentile(values: pl.Series, percent: int) -> float | None:
    """Return the smallest value that at least ``percent`` % of the values do not exceed.

    Args:
        values: values in any order, without nulls; no values have no percentile.
        percent: from 1 to 100.
    """
    if values.is_empty():
        return None
    rank = -(-percent * len(values) // 100)  # rounded up, without a float's error
    return float(values.sort()[rank - 1])


def new_orders_us(records: pl.DataFrame, interval: Interval) -> np.ndarray:
    """Return when the New-Orders of the interval were answered, in µs from its start, ascending."""
    found = ended(records.filter(type="new_order"), interval)["answered_us"]
    return np.sort(found.to_numpy()) - interval.begin_us


def tpmc(new_orders: int, interval: Interval) -> int:
    """Return the New-Orders per minute, truncated (clause 5.4).

    It is the *tpmC* only if the run keeps the standard's keying and think times.
    """
    return new_orders * _MINUTE_US // (interval.end_us - interval.begin_us)


def variation(at_us: np.ndarray, interval: Interval) -> float | None:
    """Return the cumulative variation of throughput (clause 5.5), as a share.

    N(t) is the number of New-Orders answered up to a moment t of the interval, and N(t) / t the
    cumulative throughput. Its variation is the greatest relative distance from the throughput of the
    whole interval, over all moments after the share :data:`SETTLED` of the interval.

    Args:
        at_us: see :func:`new_orders_us`; without New-Orders there is no variation.
        interval: measurement interval.
    """
    total, length = len(at_us), interval.end_us - interval.begin_us
    if not total:
        return None
    settled = length * SETTLED
    before = np.searchsorted(at_us, settled, side="right")
    # extremes are at ``settled`` and, for each later answer, right before and right at it
    moments = np.concatenate([[settled], at_us[before:], at_us[before:], [length]])
    counts = np.concatenate(
        [[before], np.arange(before, total), np.arange(before, total) + 1, [total]]
    )
    return float(np.abs(counts / moments * (length / total) - 1).max())
