"""Statistics over trials and over the seconds of a run.

Every interval is a bootstrap interval: throughput under a throttled disk is neither normal nor
symmetric, and the samples are small. With fewer than two values there is no interval, and none is
made up: the bounds are ``None``.

A bootstrap cannot see beyond its sample: the interval of a median is nominally of 95 %, but covers it
with 1 − 2·0.5ⁿ at most, since it ends at the smallest and the largest value (binomial; David &
Nagaraja, Order Statistics, 2003, section 7.1): 50 % with two trials, 75 % with three, 94 % with five.
The interval of a ratio of two medians covers 90 % with three trials on either side and 95 % from five
on (simulated in the tests).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Resamples of every bootstrap. The bounds' own Monte Carlo error is then below a tenth of their
#: width (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3: 1,000 or more).
_RESAMPLES = 4000

_CONFIDENCE = 0.95

#: With fewer blocks than that a block bootstrap's interval is far too narrow: with two of them it
#: covers the mean in little more than half of the cases.
_LEAST_BLOCKS = 10


@dataclass(frozen=True)
class Estimate:
    """A statistic with its nominal 95 % interval and the number of values that it rests on."""

    value: float
    low: float | None
    high: float | None
    n: int

    def excludes(self, value: float) -> bool:
        """Whether ``value`` lies outside the interval.

        True: the data speak against ``value``, at the 5 % level from five values on; with fewer, an
        interval covers less (see the head of this module). False: they don't, or there are too few
        of them to say.
        """
        if self.low is None or self.high is None:
            return False
        return not self.low <= value <= self.high


def median(values: Sequence[float], seed: int = 0) -> Estimate:
    """Median with its percentile-bootstrap interval.

    Args:
        values: one per trial, n ≥ 1.
        seed: of the resampling; the same values, in any order, give the same interval.
    """
    sample = np.sort(np.asarray(values, dtype=float))
    if not len(sample):
        raise ValueError("median of no values")
    if len(sample) < 2:
        return Estimate(float(sample[0]), None, None, 1)
    low, high = _bounds(np.median(_resample(sample, seed), axis=1))
    return Estimate(float(np.median(sample)), low, high, len(sample))


def ratio(numerator: Sequence[float], denominator: Sequence[float], seed: int = 0) -> Estimate:
    """Ratio of two medians with its percentile-bootstrap interval; ``n`` is the smaller sample.

    Both samples are resampled independently, since trials of different points are not paired.

    Raises:
        ValueError: a sample is empty, or the denominator's median is zero.
    """
    above, below = (np.sort(np.asarray(side, dtype=float)) for side in (numerator, denominator))
    if not len(above) or not len(below):
        raise ValueError("ratio of no values")
    base = np.median(below)
    if base == 0:
        raise ValueError("ratio to zero")
    value = float(np.median(above) / base)
    n = min(len(above), len(below))
    if n < 2:
        return Estimate(value, None, None, n)
    medians = np.median(_resample(below, seed + 1), axis=1)
    ratios = np.median(_resample(above, seed), axis=1)[medians > 0] / medians[medians > 0]
    low, high = _bounds(ratios)
    return Estimate(value, low, high, n)


def block_mean(series: Sequence[float], block: int = 3, seed: int = 0) -> Estimate:
    """Mean of a time series with its moving-block-bootstrap interval.

    Neighbouring seconds are not independent, so blocks of them are resampled (Künsch, Annals of
    Statistics 17(3), 1989). The interval covers the noise within one run, not between runs; a series
    of fewer than ten blocks has none.

    Args:
        series: evenly spaced values.
        block: length of the blocks, in values.
        seed: of the resampling.
    """
    sample = np.asarray(series, dtype=float)
    if not len(sample):
        raise ValueError("mean of no values")
    mean = float(sample.mean())
    if len(sample) < _LEAST_BLOCKS * block:
        return Estimate(mean, None, None, len(sample))
    starts = np.arange(len(sample) - block + 1)
    count = -(-len(sample) // block)
    drawn = np.random.default_rng(seed).choice(starts, size=(_RESAMPLES, count))
    resampled = sample[drawn[:, :, None] + np.arange(block)].reshape(_RESAMPLES, -1)
    low, high = _bounds(resampled[:, : len(sample)].mean(axis=1))
    return Estimate(mean, low, high, len(sample))


def drift(series: Sequence[float]) -> float:
    """Relative difference of the second half's mean to the first half's.

    Near 0: the run was steady. ±0.1 and more: it was still warming up, or slowing down, and its mean
    is no steady-state throughput.

    Raises:
        ValueError: fewer than two values.
    """
    sample = np.asarray(series, dtype=float)
    if len(sample) < 2:
        raise ValueError("drift of fewer than two values")
    middle = len(sample) // 2
    first, second = sample[:middle].mean(), sample[-middle:].mean()
    if first == second:
        return 0.0
    return float((second - first) / first) if first else float("inf")


def percentile_of_buckets(
    edges: Sequence[float], counts: Sequence[int], percentile: float
) -> float:
    """Return the smallest bucket edge at or below which ``percentile`` % of the events lie.

    Args:
        edges: of the buckets, ascending.
        counts: events per bucket.
        percentile: 0 < percentile ≤ 100.
    """
    cumulative = np.cumsum(counts)
    if not len(cumulative) or not cumulative[-1]:
        raise ValueError("percentile of no events")
    # multiplied first: 7 / 100 * 100 is more than 7 in binary, and would be the next bucket's
    rank = np.searchsorted(cumulative, percentile * cumulative[-1] / 100, side="left")
    return float(edges[min(int(rank), len(edges) - 1)])


def _resample(sample: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice(sample, size=(_RESAMPLES, len(sample)))


def _bounds(values: np.ndarray) -> tuple[float, float]:
    tail = (1 - _CONFIDENCE) / 2 * 100
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)
