"""Percentiles of latency histograms."""

from collections.abc import Sequence

import numpy as np


def percentile_of_buckets(
    values: Sequence[float], counts: Sequence[int], percentile: float
) -> float:
    """Return the smallest bucket value that at least ``percentile`` % of the events do not exceed.

    Args:
        values: value that stands for each bucket, ascending.
        counts: events per bucket.
        percentile: 0 < percentile ≤ 100.

    Raises:
        ValueError: there are no events.
    """
    cumulative = np.cumsum(counts)
    if not len(cumulative) or not cumulative[-1]:
        raise ValueError("percentile of no events")
    # multiply first: in binary 7 / 100 * 100 is more than 7, which would select the next bucket
    rank = np.searchsorted(cumulative, percentile * cumulative[-1] / 100, side="left")
    return float(values[min(int(rank), len(values) - 1)])
