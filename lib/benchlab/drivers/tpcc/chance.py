"""Answers of a sample to a rule that limits a share, a mean or a rate.

A rule of the standard is about the number that was measured. In a short run this number may be far
off by chance alone: if 1 % of the New-Orders roll back, none of 100 does in every third run. So a
rule is *broken* only if the exact confidence interval of the measured number is outside the rule's
range. It is *kept* only if the number is within the range and the sample is large enough: if a sample
of that size, drawn by the rules, would have an interval within the range. Otherwise the rule is
*undecided*.

The interval that breaks a rule has a level of 99.9 %: a run is compared with dozens of rules, and a
run that keeps all of them should hardly ever seem to break one. The interval that shows whether a
sample is large enough has a level of 99 %.
"""

from collections.abc import Callable
from typing import Literal

from benchlab.drivers.tpcc.measured import SETTLED
from benchlab.stats.quantiles import chi2, clopper_pearson, normal

#: Answer to a rule: kept; broken; or undecided, if the sample is too small.
Answer = Literal["kept", "broken", "undecided"]

#: Share of the distribution on either side of the interval: of the interval that breaks a rule, and of
#: the one that shows whether a sample is large enough.
_BREAKS, _TELLS = 0.0005, 0.005

#: A sample of think times is large enough if it could show that a mean is too short by this share.
_TOO_SHORT = 0.1

_Bounds = tuple[float, float]


def of_share(
    successes: float,
    n: float,
    least: float,
    most: float,
    expected: float | None = None,
) -> Answer:
    """Answer whether a share is from ``least`` to ``most``, by Clopper and Pearson's interval.

    Args:
        successes: successes in the sample; need not be whole if ``n`` is an effective size.
        n: size of the sample.
        least: lower limit, as a share.
        most: upper limit, as a share.
        expected: mean share of samples that are drawn by the rules; by default the middle of the range.
    """
    expected = (least + most) / 2 if expected is None else expected
    if not n:
        return "undecided"
    return _answer(
        successes / n,
        expected,
        least,
        most,
        lambda share, tail: clopper_pearson(share * n, n, tail),
    )


def of_rate(count: int, exposure: float, least: float, most: float) -> Answer:
    """Answer whether a rate per unit of ``exposure`` is in a range, by the interval of Poisson's law.

    The counts of paced terminals scatter less than Poisson's. So some rules are undecided here that a
    narrower interval would decide.
    """
    if not exposure:
        return "undecided"
    middle = (least + most) / 2
    return _answer(
        count / exposure,
        middle,
        least,
        most,
        lambda rate, tail: _rate(rate * exposure, exposure, tail),
    )


def _rate(count: float, exposure: float, tail: float) -> _Bounds:
    low = chi2(tail, 2 * count) / 2 if count > 0 else 0.0
    return low / exposure, chi2(1 - tail, 2 * count + 2) / 2 / exposure


def of_mean(mean: float, deviation: float, n: int, least: float, most: float) -> Answer:
    """Answer whether the mean of values with a known standard deviation is in a range."""
    if not n:
        return "undecided"
    error = deviation / n**0.5

    def interval(value: float, tail: float) -> _Bounds:
        return value + normal(tail) * error, value + normal(1 - tail) * error

    return _answer(mean, (least + most) / 2, least, most, interval)


def of_think_time(mean: float, n: int, least: float) -> Answer:
    """Answer whether the mean of exponential times is at least ``least``.

    A mean that is less by no more than chance allows is undecided. Terminals draw with a mean that is
    a little above the least.
    """
    if not n:
        return "undecided"
    # for n times with expectation 1: the mean that all samples but a share of ``tail`` exceed
    breaks, tells = (chi2(tail, 2 * n) / (2 * n) for tail in (_BREAKS, _TELLS))
    if mean < least * breaks:
        return "broken"
    return "kept" if mean >= least and tells >= 1 - _TOO_SHORT else "undecided"


def of_variation(variation: float, n: int, most: float) -> Answer:
    """Answer whether a cumulative variation of throughput is at most ``most``.

    Args:
        variation: see :func:`benchlab.drivers.tpcc.measured.variation`.
        n: number of New-Orders in the interval.
        most: upper limit, as a share.
    """
    if not n:
        return "undecided"
    if variation > most + _of_steady(n, 2 * _BREAKS):
        return "broken"
    tells = _of_steady(n, 2 * _TELLS) <= most
    return "kept" if variation <= most and tells else "undecided"


def _of_steady(n: int, share: float) -> float:
    """Return the variation that a share of steady runs exceeds.

    If answers come at random moments, the relative distance of N(t) / t from the throughput of the
    whole interval (t from 0 to 1) is, in the limit, a Brownian motion at time (1 - t) / t, divided by
    √n. From t = :data:`SETTLED` on, this time is at most r = (1 - SETTLED) / SETTLED, and the motion
    reaches x in about 4 (1 - Φ(x / √r)) of the cases. Paced terminals scatter less.
    """
    longest = (1 - SETTLED) / SETTLED
    return (longest / n) ** 0.5 * normal(1 - share / 4)


def _answer(
    value: float,
    expected: float,
    least: float,
    most: float,
    interval: Callable[[float, float], _Bounds],
) -> Answer:
    """Return the answer to a value.

    Args:
        value: measured value.
        expected: mean of samples that are drawn by the rules.
        least: lower limit.
        most: upper limit.
        interval: value and tail → confidence interval, with a share of ``tail`` on either side.
    """
    low, high = interval(value, _BREAKS)
    if high < least or low > most:
        return "broken"
    low, high = interval(expected, _TELLS)
    tells = least <= low and high <= most
    return "kept" if tells and least <= value <= most else "undecided"
