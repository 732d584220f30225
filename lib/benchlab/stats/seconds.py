"""The seconds of one run: whether they were steady, and where they changed.

Values are evenly spaced, usually the throughput of each second. Neighbouring seconds depend on each
other, and on a throttled disk throughput comes in bursts. So seconds are not independent samples;
trials are.
"""

from collections.abc import Sequence

import numpy as np

from benchlab.stats.quantiles import chi2_beyond, f_beyond, student
from benchlab.stats.trials import CONFIDENCE, Estimate

#: Shortest stretch between two changes, in values: a shorter one is a burst or a stall, not a new
#: state. In a series of fewer than twice as many values it is half of the series.
_LEAST_STRETCH = 5

#: With fewer values even two halves without any overlap are no evidence: one order in ten has them.
_LEAST_SERIES = 6

#: With fewer values it cannot be decided whether they depend on each other.
_LEAST_FOR_DEPENDENCE = 12

#: A trend is fitted to the means of so many stretches at most and at least.
_MOST_STRETCHES, _LEAST_STRETCHES = 8, 4

#: Shortest series in which a drift can be seen.
SHORTEST_WITH_DRIFT_S = _LEAST_STRETCH * _LEAST_STRETCHES

#: Number of median absolute deviations at which values are clipped, so that a stall of one second does
#: not look like a new level.
_OUTLYING = 6 * 1.4826  # six standard deviations of a normal distribution


def drift(series: Sequence[float]) -> float:
    """Relative difference of the second half's mean from the first half's.

    0.1: the second half was 10 % faster. Where throughput comes in bursts, halves of a short steady run
    may differ as much, so :func:`steady_from` decides.

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


def trend(series: Sequence[float]) -> Estimate:
    """Factor by which a straight line through a series changes from its begin to its end.

    The line is fitted to the logarithms of the means of equal stretches, which are hardly dependent
    (batch means; Law & Kelton, Simulation Modeling and Analysis, 3rd edition, 2000, section 9.5.3).
    Bursts and dips shorter than a stretch average out in them; among single values they are noise in
    which ``change_points`` detects no slow change. The interval is Student's for the slope. There is
    none if the series is too short for four stretches of five values, or a stretch's mean is zero.

    Args:
        series: evenly spaced values, at least two.
    """
    sample = np.asarray(series, dtype=float)
    n = min(len(sample) // _LEAST_STRETCH, _MOST_STRETCHES)
    means = np.array([one.mean() for one in np.array_split(sample, max(n, 2))])
    if n < _LEAST_STRETCHES or means.min() <= 0:
        return Estimate(1 + drift(sample), None, None, n)
    at = np.arange(n) - (n - 1) / 2
    levels = np.log(means)
    slope = at @ levels / (at @ at)
    left = levels - levels.mean() - slope * at
    error = np.sqrt(left @ left / (n - 2) / (at @ at))
    half = student((1 + CONFIDENCE) / 2, n - 2) * error
    low, value, high = np.exp(n * np.array([slope - half, slope, slope + half]))
    return Estimate(float(value), float(low), float(high), n)


def change_points(series: Sequence[float]) -> list[int]:
    """Indices at which the level of a series changes: the first value of each new stretch.

    Empty: no change was seen. Among bursts a change must be large and long to be seen, and fewer than
    fifteen values have room for a single one, near their middle. Not empty: the level changed, perhaps
    by very little. A change is reported in up to 5 % of the series without one if their values are
    independent, and in up to 17 % if each value depends strongly on the one before (ρ = 0.8).
    Dependence cannot be determined from fewer than twelve values; there a wandering level looks like a
    changed one (with ρ = 0.6 in up to 28 %).

    The result is the best of all segmentations by optimal partitioning (Jackson et al., IEEE Signal
    Processing Letters 12(2), 2005) with Schwarz's penalty for each change (Yao, Statistics &
    Probability Letters 6(3), 1988). The noise is estimated from differences of neighbouring values, to
    which changes of level add little (von Neumann, Annals of Mathematical Statistics 12(4), 1941).
    """
    sample = np.asarray(series, dtype=float)
    n = len(sample)
    if n < _LEAST_SERIES or np.ptp(sample) == 0:
        return []
    middle = np.median(sample)
    # no clipping if most values are equal: their deviation says nothing about the others then
    if reach := _OUTLYING * np.median(np.abs(sample - middle)):
        sample = sample.clip(middle - reach, middle + reach)
    # χ² would treat the noise as known; the estimate is worth two thirds of as many values
    schwarz = f_beyond(chi2_beyond(2 * np.log(n), 1), 1, 2 / 3 * (n - 1))
    penalty = schwarz * _noise(sample)
    stretch = min(_LEAST_STRETCH, n // 2)
    sums = np.concatenate([[0], (sample - sample.mean()).cumsum()])
    # best[end]: sum of squares that the best segmentation of the values before `end` explains
    best = np.full(n + 1, -np.inf)
    best[0] = 0
    begin = np.zeros(n + 1, dtype=int)
    for end in range(stretch, n + 1):
        starts = np.arange(end - stretch + 1)
        explained = best[starts] + (sums[end] - sums[starts]) ** 2 / (end - starts) - penalty
        begin[end] = explained.argmax()
        best[end] = explained.max()
    found = [int(begin[n])]
    while found[-1]:
        found.append(int(begin[found[-1]]))
    return found[-2::-1]


def steady_from(series: Sequence[float], tolerance: float = 0.05) -> int | None:
    """Index from which on a series is steady.

    0: all of it is steady, as far as ``change_points`` can detect. A number above 0: the values before
    it are warm-up and should be cut. None: the series never settled, or so late that less than half of
    it would be left.

    Going back from the end, the stretches between change points are steady as long as their means are
    within ``tolerance`` of the last one's (Barrett et al., Virtual Machine Warmup Blows Hot and Cold,
    OOPSLA 2017; they define too late as a number of iterations, here it is half of the series).

    Args:
        series: evenly spaced values, from the start of the run.
        tolerance: relative difference of two means that does not matter.

    Raises:
        ValueError: fewer than six values, which are too few to decide.
    """
    sample = np.asarray(series, dtype=float)
    n = len(sample)
    if n < _LEAST_SERIES:
        raise ValueError(f"steadiness of {n} values; at least {_LEAST_SERIES} are needed")
    edges = [0, *change_points(sample), n]
    settled = sample[edges[-2] :].mean()
    start = n
    for low, high in zip(edges[-2::-1], edges[:0:-1], strict=True):
        if abs(sample[low:high].mean() - settled) > tolerance * abs(settled):
            break
        start = low
    return start if n - start >= n / 2 else None


def _noise(sample: np.ndarray) -> float:
    """Variance of a mean of values, times their number, without changes of their level.

    The model is a first-order autoregression: the mean squared differences of neighbours and of next
    neighbours are 2σ²(1 − ρ) and 2σ²(1 − ρ²). A negative ρ is taken as 0.
    """
    one, two = (np.mean((sample[lag:] - sample[:-lag]) ** 2) for lag in (1, 2))
    dependence = 0.0
    if len(sample) >= _LEAST_FOR_DEPENDENCE:
        # a change of level alone looks like ρ = 1; with this upper bound it is still detected
        dependence = np.clip(two / one - 1, 0, 1 - np.sqrt(2 / len(sample)))
    return float(one / 2 / (1 - dependence) * (1 + dependence) / (1 - dependence))
