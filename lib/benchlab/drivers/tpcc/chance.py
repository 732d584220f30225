"""What a sample says of a rule that limits a share, a mean or a rate.

A rule of the standard is about the number that was measured. That of a short run is far off by chance
alone: of 100 New-Orders of which 1 % roll back, none does in every third run. So a rule is *broken*
only if the exact interval of what was measured lies outside of its range, and *kept* only if the number
lies within it and the sample is large enough to tell: if one of its size, by the rules, would have an
interval within the range. All else is *undecided*.

A rule is broken by an interval of 99.9 %: a run is held to dozens of rules, and one that keeps all of
them should hardly ever be told to break one. A sample tells by an interval of 99 %.
"""

from collections.abc import Callable
from typing import Literal

from benchlab.drivers.tpcc.measured import SETTLED
from benchlab.stats.quantiles import beta, chi2, normal

#: Answer to a rule: kept; broken; the sample cannot tell.
Answer = Literal["kept", "broken", "undecided"]

#: Of a distribution, on either side of an interval by which a rule is broken, or a sample tells.
_BREAKS, _TELLS = 0.0005, 0.005

#: A sample of think times can tell if it could show that a mean is too short by this share of it.
_TOO_SHORT = 0.1

_Bounds = tuple[float, float]


def of_share(
    successes: float,
    n: float,
    least: float,
    most: float,
    expected: float | None = None,
) -> Answer:
    """Answer whether a share lies from ``least`` to ``most``, by Clopper and Pearson's interval.

    Args:
        successes: of the sample; need not be whole, where ``n`` is an effective size.
        n: size of the sample.
        least: the lower limit, as a share.
        most: the upper limit.
        expected: share that a sample by the rules has on average; by default the middle of the range.
    """
    expected = (least + most) / 2 if expected is None else expected
    if not n:
        return "undecided"
    return _answer(
        successes / n, expected, least, most, lambda share, tail: _share(share * n, n, tail)
    )


def _share(successes: float, n: float, tail: float) -> _Bounds:
    low = beta(tail, successes, n - successes + 1) if successes > 0 else 0.0
    high = beta(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    return low, high


def of_rate(count: int, exposure: float, least: float, most: float) -> Answer:
    """Answer whether a rate per unit of ``exposure`` lies in a range, by the interval of Poisson's law.

    The counts of paced terminals scatter less than that; so what it leaves undecided may be clear.
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
    """Answer whether the mean of values of a known standard deviation lies in a range."""
    if not n:
        return "undecided"
    error = deviation / n**0.5

    def interval(value: float, tail: float) -> _Bounds:
        return value + normal(tail) * error, value + normal(1 - tail) * error

    return _answer(mean, (least + most) / 2, least, most, interval)


def of_think_time(mean: float, n: int, least: float) -> Answer:
    """Answer whether the mean of exponential times is ``least`` at least.

    A mean that is a little less within chance is undecided: terminals draw by a mean a little above.
    """
    if not n:
        return "undecided"
    # of n times whose expectation is 1: the mean that all but so few samples exceed
    breaks, tells = (chi2(tail, 2 * n) / (2 * n) for tail in (_BREAKS, _TELLS))
    if mean < least * breaks:
        return "broken"
    return "kept" if mean >= least and tells >= 1 - _TOO_SHORT else "undecided"


def of_variation(variation: float, n: int, most: float) -> Answer:
    """Answer whether a cumulative variation of throughput is ``most`` at most.

    Args:
        variation: see :func:`benchlab.drivers.tpcc.measured.variation`.
        n: New-Orders of the interval.
        most: as a share.
    """
    if not n:
        return "undecided"
    if variation > most + _of_steady(n, 2 * _BREAKS):
        return "broken"
    tells = _of_steady(n, 2 * _TELLS) <= most
    return "kept" if variation <= most and tells else "undecided"


def _of_steady(n: int, share: float) -> float:
    """The variation that a share of steady runs exceeds.

    With answers at random moments the relative distance of N(t) / t from the whole is, in the limit, a
    Brownian motion at (1 - t) / t, over √n. From :data:`SETTLED` on that is r at most, and the motion
    reaches x in about 4 (1 - Φ(x / √r)) of cases. Paced terminals scatter less.
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
    """The answer to a value, by the intervals that it and the one expected have with a tail of each."""
    low, high = interval(value, _BREAKS)
    if high < least or low > most:
        return "broken"
    low, high = interval(expected, _TELLS)
    tells = least <= low and high <= most
    return "kept" if tells and least <= value <= most else "undecided"
