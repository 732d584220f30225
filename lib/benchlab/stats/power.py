"""How much identical configurations differ, and how many trials show a larger difference."""

from collections.abc import Sequence
from math import ceil, exp, expm1, isinf, log, log1p, sqrt

import numpy as np

from benchlab.stats.quantiles import chi2, noncentral_student_beyond, normal, student
from benchlab.stats.spread import Spread, prior_of, spread
from benchlab.stats.trials import CONFIDENCE, Estimate

#: Share of cases in which the requested ratio must be seen (Cohen, Statistical Power Analysis for the
#: Behavioral Sciences, 2nd edition, 1988, chapter 2).
_POWER = 0.8

#: Above this many trials only the order of magnitude matters; the normal distribution is enough.
_MANY = 1000

#: Most trials that a plan may name: nobody makes more.
_MOST = 1_000_000


def noise_floor(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """Ratio, above 1, that two identical configurations differ by in 95 % of cases on one target.

    A smaller measured ratio, in either direction, is no more than running the same thing twice would
    show. ``value`` is the bound for the next pair's ratio in 95 % of cases; with few pairs it is
    accordingly high. The interval is that of the bound that very many pairs would give. Both use
    Student's and χ² distributions over the logarithms of the ratios, whose mean is known to be 0 by
    symmetry (Hahn & Meeker, Statistical Intervals, 1991, chapter 4). An effect that makes each second
    run faster than its first counts as noise, too.

    Args:
        pairs: throughput of two runs of the same point (A/A). Or the medians of two sets of trials,
            with as many trials as the comparison that the noise is used for. Pairs of several points
            give the noise of their mixture. One pair leaves no interval.

    Raises:
        ValueError: no pairs, or a throughput that is not positive.
    """
    if not len(pairs) or np.min(pairs) <= 0:
        raise ValueError("noise floor of no pairs, or of a throughput that is not positive")
    n, tail = len(pairs), (1 - CONFIDENCE) / 2
    deviation = float(np.sqrt(np.mean(np.diff(np.log(pairs)) ** 2)))
    value = exp(student(1 - tail, n) * deviation)
    if n < 2:
        return Estimate(value, None, None, n)
    low, high = (
        exp(normal(1 - tail) * deviation * sqrt(n / chi2(share, n))) for share in (1 - tail, tail)
    )
    return Estimate(value, low, high, n)


def variation(pairs: Sequence[tuple[float, float]]) -> float:
    """Coefficient of variation of the runs of one point, from pairs of them (A/A).

    The runs are assumed to be lognormal: the difference of the logarithms of a pair has twice the
    variance of one run (Limpert, Stahel & Abbt, BioScience 51(5), 2001).

    Raises:
        ValueError: as in ``noise_floor``.
    """
    if not len(pairs) or np.min(pairs) <= 0:
        raise ValueError("variation of no pairs, or of a throughput that is not positive")
    return sqrt(expm1(float(np.mean(np.diff(np.log(pairs)) ** 2)) / 2))


def trials_needed(ratio: float, variation: float, confidence: float = CONFIDENCE) -> int:
    """Trials of each of two points that show a ratio between them in 80 % of cases.

    They show it if the interval of ``stats.ratio``, Welch's over logarithms, excludes 1 (noncentral t).

    Args:
        ratio: true ratio, such as 1.05 (or 1 / 1.05, which needs as many trials).
        variation: coefficient of variation from trial to trial, such as 0.03.
        confidence: confidence of the interval; higher if several must hold at once.

    Raises:
        ValueError: ``ratio`` is 1 or not positive, or ``variation`` is negative.
    """
    if ratio <= 0 or ratio == 1 or variation < 0:
        raise ValueError(f"trials to see a ratio of {ratio} at a variation of {variation}")
    return _needed(abs(log(ratio)), sqrt(log1p(variation**2)), confidence)


def trials_to_tell(
    above: Sequence[float],
    below: Sequence[float],
    bounds: Sequence[float] = (1.0,),
    confidence: float = CONFIDENCE,
) -> int | None:
    """Trials of each of two points that would decide their ratio, which is open so far.

    So many trials exclude the nearest of ``bounds`` in 80 % of cases, if ratio and spread are as seen
    so far. It is a plan, not a promise: both are known from few trials. If a point has a single trial,
    two, which show a spread. None: nothing can be planned, since the ratio seen is one of the bounds,
    or a value is zero.

    Args:
        above: throughput of the trials so far.
        below: the same for the other point.
        bounds: 1 for "above", value / tolerance and value · tolerance for ``equivalent``.
        confidence: confidence of the interval; higher if several must hold at once.
    """
    samples = (above, below)
    if any(min(sample) <= 0 for sample in samples):
        return None
    if any(len(sample) < 2 for sample in samples):
        return 2
    seen = log(np.median(above) / np.median(below))
    distance = min(abs(seen - log(bound)) for bound in bounds)
    if not distance:
        return None
    deviation = sqrt(np.mean([spread(sample).variance for sample in samples]))
    priors = [prior_of(sample) for sample in samples]
    # the less certain one
    prior = min(priors, key=lambda one: one.freedom) if all(priors) else None
    return _planned(_needed(distance, deviation, confidence, prior))


def trials_to_narrow(number: Estimate, bounds: Sequence[float]) -> int | None:
    """Trials of each point that would separate a number from some bounds, which is open so far.

    For any kind of number, for example one of several points: the width of its interval is assumed to
    fall with the square root of the number of trials. It is a plan, as in :func:`trials_to_tell`; so
    are the two trials if there was one. None: nothing can be planned, since the number is as good as
    one of the bounds, has no finite interval, or is not positive.

    Args:
        number: estimate from the trials so far.
        bounds: positive numbers.
    """
    if number.value <= 0:
        return None
    if number.n < 2:
        return 2
    if not number.low or not number.high or isinf(number.high):
        return None
    distance = min(abs(log(number.value / bound)) for bound in bounds)
    if not distance:
        return None
    half = (log(number.high) - log(number.low)) / 2
    return _planned(max(number.n + 1, ceil(number.n * (half / distance) ** 2)))


def _planned(trials: int) -> int | None:
    """Return a number of trials, or ``None`` if the point is as good as on the bound."""
    return trials if trials <= _MOST else None


def _needed(
    distance: float, deviation: float, confidence: float, prior: Spread | None = None
) -> int:
    """Trials per side that show ``distance`` between two logarithms of equal standard deviation."""
    quantiles = normal((1 + confidence) / 2) + normal(_POWER)
    n = 2 * (quantiles * deviation / distance) ** 2  # normal quantiles never give too many
    if n > _MANY:
        return ceil(n)
    n = max(2, ceil(n))
    while _seen(distance, deviation, n, confidence, prior) < _POWER:
        n += 1
    return n


def _seen(
    distance: float, deviation: float, n: int, confidence: float, prior: Spread | None
) -> float:
    """Share of cases in which the interval from ``n`` trials per side excludes a difference of 0."""
    if not deviation:
        return 1.0
    shift, freedom = distance / (deviation * sqrt(2 / n)), _freedom(n, prior)
    return noncentral_student_beyond(student((1 + confidence) / 2, freedom), freedom, shift)


def _freedom(n: int, prior: Spread | None) -> float:
    """Degrees of freedom of the variance of a ratio of two points of ``n`` trials each."""
    if prior:
        # from _MANY on the variance is practically known
        return min(n - 1 + prior.freedom, _MANY)
    # Welch's are fewer than 2(n − 1), since equal spreads never look equal: on average √2 with two
    # trials and π with three (over F, the distribution of the ratio of variances); this is near both
    return 2 * (n - 1) * (1 - 0.6 / n)
