"""What terminals measured: response times, and the throughput of New-Orders over the interval.

A transaction belongs to the measurement interval in which it was answered (TPC-C 5.11, clause 5.4).
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl

from benchlab.drivers.tpcc import limits

#: What an emulated browser takes to show an answer, in addition to what is measured.
BROWSER_DELAY_US = round(limits.SHOWN * 1e6)

#: Whether a record ended as the standard wants it to; a rollback on purpose counts (clause 5.4).
ENDED_WELL = pl.col("status").is_in(("ok", "rolled_back"))

#: Share of the interval after which cumulative throughput is held against that of the whole. Of the
#: least interval, 120 minutes, these are the 30 within which each system has had a checkpoint
#: (clause 5.5), so that no moment is judged by less than a cycle of the work in the background.
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
        """Its length."""
        return (self.end_us - self.begin_us) / _MINUTE_US

    def has(self, column: str) -> pl.Expr:
        """Whether a column of Unix microseconds lies in it; false where that is null."""
        return pl.col(column).is_between(self.begin_us, self.end_us, closed="left").fill_null(False)


def within(records: _Frame, interval: Interval) -> _Frame:
    """Return the transactions of an interval, those that were never answered by when they were due."""
    at_us = pl.coalesce("answered_us", "due_us")
    return records.filter(at_us.is_between(interval.begin_us, interval.end_us, closed="left"))


def ended(records: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return the transactions that ended well in the interval, with ``response_us``.

    The response time is from when the send was due to the last byte, and the browser's delay.

    Args:
        records: see :data:`benchlab.drivers.tpcc.records.RECORDS`.
        interval: of measurement.
    """
    response = pl.col("answered_us") - pl.col("due_us") + BROWSER_DELAY_US
    return within(records, interval).filter(ENDED_WELL).with_columns(response.alias("response_us"))


def unended(records: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return the transactions of the interval that did not end well."""
    return within(records, interval).filter(~ENDED_WELL)


def percentile(values: pl.Series, percent: int) -> float | None:
    """Return the smallest of the values at or below which ``percent`` % of them lie.

    Args:
        values: in any order, without nulls; of none there is no percentile.
        percent: from 1 to 100.
    """
    if values.is_empty():
        return None
    rank = -(-percent * len(values) // 100)  # rounded up, without a float's error
    return float(values.sort()[rank - 1])


def new_orders_us(records: pl.DataFrame, interval: Interval) -> np.ndarray:
    """Return when the New-Orders of the interval were answered, in µs from its begin, ascending."""
    found = ended(records.filter(type="new_order"), interval)["answered_us"]
    return np.sort(found.to_numpy()) - interval.begin_us


def tpmc(new_orders: int, interval: Interval) -> int:
    """Return the New-Orders per minute, truncated (clause 5.4).

    It is the *tpmC* only of a run that keeps the standard's keying and think times.
    """
    return new_orders * _MINUTE_US // (interval.end_us - interval.begin_us)


def variation(at_us: np.ndarray, interval: Interval) -> float | None:
    """Return the cumulative variation of throughput (clause 5.5), as a share.

    With N(t) New-Orders answered up to a moment t of the interval, cumulative throughput is N(t) / t;
    its variation is the greatest relative distance from that of the whole interval at any moment
    after :data:`SETTLED` of it.

    Args:
        at_us: see :func:`new_orders_us`; of none there is no variation.
        interval: of measurement.
    """
    total, length = len(at_us), interval.end_us - interval.begin_us
    if not total:
        return None
    settled = length * SETTLED
    before = np.searchsorted(at_us, settled, side="right")
    # extremes are at its begin and, for each later answer, right before and right at it
    moments = np.concatenate([[settled], at_us[before:], at_us[before:], [length]])
    counts = np.concatenate(
        [[before], np.arange(before, total), np.arange(before, total) + 1, [total]]
    )
    return float(np.abs(counts / moments * (length / total) - 1).max())
