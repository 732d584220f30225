"""Median over trials, and the ratio of two, with their intervals.

The interval is a percentile bootstrap where there are six trials or more. With fewer no such interval
can be of 95 %: a bootstrap cannot see beyond its sample, and the smallest and the largest of n values
enclose the median with 1 − 2·0.5ⁿ only (binomial; David & Nagaraja, Order Statistics, 2003, section
7.1): 50 % with two trials, 75 % with three, 94 % with five. There it is Student's interval over the
logarithms, for a ratio Welch's, as is the custom for few trials (Georges, Buytaert & Eeckhout, OOPSLA
2007, section 3.2): wide, and of 95 % as far as the logarithms are normal. Throughput has a floor and a
long tail, so its logarithms come nearer to that than the values do. Where the other points of the
rerun are known, too, what they show of the spread makes it narrower (see :mod:`benchlab.stats.spread`).

Where more than 95 % is requested, since several intervals must hold at once, it is Student's and
Welch's with any number of trials: that far out the bootstrap's own tails are too short. (With fifteen
trials its bound of 0.5 % is the fourth smallest, which is above the median in 1.8 % of cases.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from benchlab.stats.spread import Spread, spread

CONFIDENCE = 0.95

#: Resamples of every bootstrap. The bounds' own Monte Carlo error is then below a tenth of their
#: width (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3: 1,000 or more).
RESAMPLES = 4000

#: Trials from which the smallest and the largest enclose the median in 95 % of cases or more.
_LEAST_FOR_BOOTSTRAP = 6


@dataclass(frozen=True)
class Estimate:
    """A statistic with its interval and the number of values that it rests on."""

    value: float
    low: float | None
    high: float | None
    n: int

    def excludes(self, value: float) -> bool:
        """Whether ``value`` lies outside the interval.

        True: the data speak against ``value``, at the 5 % level where the interval is of 95 %. False:
        they don't, or there are too few of them to say.
        """
        if self.low is None or self.high is None:
            return False
        return not self.low <= value <= self.high


def median(
    values: Sequence[float],
    seed: int = 0,
    confidence: float = CONFIDENCE,
    prior: Spread | None = None,
) -> Estimate:
    """Median with its interval.

    Args:
        values: one per trial, n ≥ 1. A zero among few leaves no interval: it has no logarithm.
        seed: of the resampling; the same values, in any order, give the same interval.
        confidence: of the interval, below 1.
        prior: what the points of the rerun have in common in their spread, if that is known.

    Raises:
        ValueError: there are no values.
    """
    sample = np.sort(np.asarray(values, dtype=float))
    if not len(sample):
        raise ValueError("median of no values")
    value, n = float(np.median(sample)), len(sample)
    if not is_bootstrapped(n, confidence):
        return _few(value, n, [sample], confidence, prior)
    return Estimate(value, *bounds(_medians(sample, seed), confidence), n)


def ratio(
    numerator: Sequence[float],
    denominator: Sequence[float],
    seed: int = 0,
    confidence: float = CONFIDENCE,
    prior: Spread | None = None,
) -> Estimate:
    """Ratio of two medians with its interval; ``n`` is the smaller sample.

    The samples are taken as independent, since trials of different points are not paired. Arguments are
    those of ``median``.

    Raises:
        ValueError: a sample is empty, or the denominator's median is zero.
    """
    above, below = (np.sort(np.asarray(side, dtype=float)) for side in (numerator, denominator))
    if not len(above) or not len(below):
        raise ValueError("ratio of no values")
    base = np.median(below)
    if base == 0:
        raise ValueError("ratio to zero")
    value, n = float(np.median(above) / base), min(len(above), len(below))
    if not is_bootstrapped(n, confidence):
        return _few(value, n, [above, below], confidence, prior)
    medians = _medians(below, seed + 1)
    ratios = _medians(above, seed)[medians > 0] / medians[medians > 0]
    return Estimate(value, *bounds(ratios, confidence), n)


def is_bootstrapped(n: int, confidence: float) -> bool:
    """Whether the interval of ``n`` trials is a bootstrap's (else it is Student's)."""
    return n >= _LEAST_FOR_BOOTSTRAP and confidence <= CONFIDENCE


def bounds(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Percentiles of bootstrapped ``values`` that enclose the share ``confidence`` of them."""
    tail = (1 - confidence) / 2 * 100
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def _medians(sample: np.ndarray, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).choice(sample, size=(RESAMPLES, len(sample)))
    return np.median(drawn, axis=1)


def _few(
    value: float, n: int, samples: Sequence[np.ndarray], confidence: float, prior: Spread | None
) -> Estimate:
    """Estimate of few values: Student's interval over logarithms, Welch's for the ratio of two.

    Where the median lies outside, as it may with two samples of very different sizes, the interval is
    stretched to it.
    """
    if n < 2 or any(sample[0] <= 0 for sample in samples):
        return Estimate(value, None, None, n)
    logs = [np.log(sample) for sample in samples]
    spreads = [spread(sample).drawn_to(prior) for sample in samples]
    parts = [one.variance / len(log) for one, log in zip(spreads, logs, strict=True)]
    centre, variance = logs[0].mean() - sum(log.mean() for log in logs[1:]), sum(parts)
    half = 0.0
    if variance:
        half = _quantile(confidence, parts, spreads, prior) * np.sqrt(variance)
    with np.errstate(over="ignore"):  # two trials that far apart leave any ratio possible
        low, high = float(np.exp(centre - half)), float(np.exp(centre + half))
    return Estimate(value, min(low, value), max(high, value), n)


def _quantile(
    confidence: float, parts: list[float], spreads: list[Spread], prior: Spread | None
) -> float:
    """Quantile for a sum of parts: with one sample Student's, with two an approximation of theirs.

    Welch's and Satterthwaite's is for variances that are estimated each by itself. For those drawn to
    a prior, which are as a posterior's, it is the mean of both (Cochran, Biometrics 20(1), 1964).
    """
    freedoms, tail = [one.freedom for one in spreads], (1 + confidence) / 2
    if prior:
        return float(np.average(student.ppf(tail, freedoms), weights=parts))
    pairs = zip(parts, freedoms, strict=True)
    return float(student.ppf(tail, sum(parts) ** 2 / sum(part**2 / one for part, one in pairs)))
