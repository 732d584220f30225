"""Median over trials, and the ratio of two, with their intervals.

The interval is Student's over the logarithms, for a ratio Welch's, as is usual for few trials (Georges,
Buytaert & Eeckhout, OOPSLA 2007, section 3.2). Throughput has a lower bound and a long tail, so its
logarithms are closer to a normal distribution than the values. A percentile bootstrap cannot see beyond
its sample: with 7 to 13 trials it covers the median in only 88 to 92 % of cases. A
:class:`~benchlab.stats.spread.Sample` carries what the other points of the rerun show about the spread,
which makes the interval narrower.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchlab.stats.quantiles import clopper_pearson, student
from benchlab.stats.spread import Sample, Spread, prior_of, spread

CONFIDENCE = 0.95


class RatioToZero(ValueError):
    """A ratio to zero has no value."""


@dataclass(frozen=True)
class Estimate:
    """A statistic with its interval and the number of values that it rests on."""

    value: float
    low: float | None
    high: float | None
    n: int
    is_exact: bool = False
    """Whether it does not depend on chance, so that it has no error."""

    def excludes(self, value: float) -> bool:
        """Whether ``value`` is outside the interval.

        True: the data contradict ``value``, at the 5 % level for a 95 % interval. False: they do not,
        or there are too few of them to decide.
        """
        if self.low is None or self.high is None:
            return False
        return not self.low <= value <= self.high


def median(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Median with its interval.

    Args:
        values: one per trial, n ≥ 1. A zero leaves no interval: it has no logarithm. Nor do equal
            values without a prior: trials that read the same on a coarse scale may differ.
        confidence: confidence of the interval, below 1.

    Raises:
        ValueError: there are no values.
    """
    if not len(values):
        raise ValueError("median of no values")
    return _estimate(float(np.median(values)), [(1, values)], confidence)


def ratio(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate:
    """Ratio of two medians with its interval; ``n`` is the size of the smaller sample.

    The samples are treated as independent, since trials of different points are not paired.

    Args:
        numerator: values of the trials of one point.
        denominator: values of the trials of the other point.
        confidence: as in :func:`median`.

    Raises:
        RatioToZero: the denominator's median is zero.
        ValueError: a sample is empty.
    """
    if not len(numerator) or not len(denominator):
        raise ValueError("ratio of no values")
    base = np.median(denominator)
    if base == 0:
        raise RatioToZero("a ratio to zero")
    terms = [(1, numerator), (-1, denominator)]
    return _estimate(float(np.median(numerator) / base), terms, confidence)


def mean_ratio(
    numerators: Sequence[Sequence[float]],
    denominators: Sequence[Sequence[float]],
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Geometric mean of the ratios of several points with equal weight; ``n`` as in :func:`ratio`.

    Args:
        numerators: values of the trials of each point.
        denominators: values of the trials of the points they are compared with, in the same order.
        confidence: as in :func:`median`.

    Raises:
        ValueError: as in :func:`ratio`.
    """
    pairs = list(zip(numerators, denominators, strict=True))
    value = float(np.exp(np.mean([np.log(ratio(*pair).value) for pair in pairs])))
    share = 1 / len(pairs)
    terms = [(sign * share, one) for pair in pairs for sign, one in zip((1, -1), pair, strict=True)]
    return _estimate(value, terms, confidence)


def share(holds: Sequence[bool], confidence: float = CONFIDENCE) -> Estimate:
    """Share of the values for which something holds.

    The interval is Clopper and Pearson's (Biometrika 26(4), 1934), which covers at least as often as
    it says.

    Args:
        holds: whether it holds, for each value, n ≥ 1.
        confidence: as in :func:`median`.

    Raises:
        ValueError: there are no values.
    """
    n, yes = len(holds), sum(holds)
    if not n:
        raise ValueError("share of no values")
    return Estimate(yes / n, *clopper_pearson(yes, n, (1 - confidence) / 2), n)


def _estimate(
    value: float, terms: Sequence[tuple[float, Sequence[float]]], confidence: float
) -> Estimate:
    """Student's interval over logarithms; Welch's for a weighted sum over several samples.

    If the median is outside, as can happen with samples of very different sizes, the interval is
    extended to it.
    """
    samples = [sample for _, sample in terms]
    n = min(len(sample) for sample in samples)
    if all(map(_is_exact, samples)):
        return Estimate(value, value, value, n, is_exact=True)
    if n < 2 or any(min(sample) <= 0 for sample in samples) or not all(map(_shows_spread, samples)):
        return Estimate(value, None, None, n)
    spreads = [spread(sample) for sample in samples]
    parts = [
        weight**2 * one.variance / len(sample)
        for one, (weight, sample) in zip(spreads, terms, strict=True)
    ]
    centre = sum(weight * float(np.sort(np.log(sample)).mean()) for weight, sample in terms)
    variance = sum(parts)
    half = _quantile(confidence, parts, spreads, any(map(prior_of, samples))) * np.sqrt(variance)
    with np.errstate(over="ignore"):  # two trials that far apart allow any ratio
        low, high = float(np.exp(centre - half)), float(np.exp(centre + half))
    return Estimate(value, min(low, value), max(high, value), n)


def _is_exact(sample: Sequence[float]) -> bool:
    return isinstance(sample, Sample) and sample.is_exact


def _shows_spread(sample: Sequence[float]) -> bool:
    return _is_exact(sample) or prior_of(sample) is not None or min(sample) < max(sample)


def _quantile(
    confidence: float, parts: list[float], spreads: list[Spread], moderated: bool
) -> float:
    """Quantile for a sum of parts: Student's for one sample, an approximation for several.

    Independently estimated variances use Welch's and Satterthwaite's approximation. Variances drawn to
    a prior are like those of a posterior, and use the weighted mean of Student's quantiles (Cochran,
    Biometrics 20(1), 1964).
    """
    freedoms, tail = [one.freedom for one in spreads], (1 + confidence) / 2
    if moderated:
        return float(np.average(student(tail, np.array(freedoms)), weights=parts))
    pairs = zip(parts, freedoms, strict=True)
    return float(student(tail, sum(parts) ** 2 / sum(part**2 / one for part, one in pairs)))
