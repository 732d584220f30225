"""What a sample says of a rule that limits a share, a mean or a rate.

A rule of the standard is about the number that was measured. That of a short run is far off by chance
alone: of 100 New-Orders of which 1 % roll back, none does in every third run. So a rule is *broken*
only if the exact interval of what was measured lies outside of its range, and *kept* only if the number
lies within it and the sample is large enough to tell: if one of its size, by the rules, would have an
interval within the range. All else is *undecided*. Intervals are of 99 %.
"""

from collections.abc import Callable
from typing import Literal

from benchlab.drivers.tpcc.measured import SETTLED
from benchlab.stats.quantiles import beta, chi2, normal

#: Answer to a rule: kept; broken; the sample cannot tell.
Answer = Literal["kept", "broken", "undecided"]

_TAIL = 0.005

#: A sample of think times can tell, if it could show that a mean is this much too short, as a share.
_TELLING = 0.1

#: The cumulative throughput of a steady run varies, in 99 % of cases, by less than this over the square
#: root of its New-Orders. With answers at random moments the relative distance of N(t) / t from the
#: whole is, in the limit, a Brownian motion at (1 - t) / t. From :data:`SETTLED` on that is r at most,
#: and the motion reaches x in about 4 (1 - Φ(x / √r)) of cases.
_VARIATION = ((1 - SETTLED) / SETTLED) ** 0.5 * normal(1 - 0.01 / 4)

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
    return _answer(successes / n, expected, least, most, lambda share: _share(share * n, n))


def _share(successes: float, n: float) -> _Bounds:
    low = beta(_TAIL, successes, n - successes + 1) if successes > 0 else 0.0
    high = beta(1 - _TAIL, successes + 1, n - successes) if successes < n else 1.0
    return low, high


def of_rate(count: int, exposure: float, least: float, most: float) -> Answer:
    """Answer whether a rate per unit of ``exposure`` lies in a range, by the interval of Poisson's law.

    The counts of paced terminals scatter less than that; so what it leaves undecided may be clear.
    """
    if not exposure:
        return "undecided"
    middle = (least + most) / 2
    return _answer(
        count / exposure, middle, least, most, lambda rate: _rate(rate * exposure, exposure)
    )


def _rate(count: float, exposure: float) -> _Bounds:
    low = chi2(_TAIL, 2 * count) / 2 if count > 0 else 0.0
    return low / exposure, chi2(1 - _TAIL, 2 * count + 2) / 2 / exposure


def of_mean(mean: float, deviation: float, n: int, least: float, most: float) -> Answer:
    """Answer whether the mean of values of a known standard deviation lies in a range."""
    if not n:
        return "undecided"
    half = normal(1 - _TAIL) * deviation / n**0.5
    return _answer(
        mean, (least + most) / 2, least, most, lambda value: (value - half, value + half)
    )


def of_think_time(mean: float, n: int, least: float) -> Answer:
    """Answer whether the mean of exponential times is ``least`` at least.

    A mean that is a little less within chance is undecided: terminals draw by a mean a little above.
    """
    if not n:
        return "undecided"
    shortest = chi2(_TAIL, 2 * n) / (2 * n)  # mean of n times whose expectation is 1
    if mean < least * shortest:
        return "broken"
    return "kept" if mean >= least and shortest >= 1 - _TELLING else "undecided"


def of_variation(variation: float, n: int, most: float) -> Answer:
    """Answer whether a cumulative variation of throughput is ``most`` at most.

    Args:
        variation: see :func:`benchlab.drivers.tpcc.measured.variation`.
        n: New-Orders of the interval.
        most: as a share.
    """
    if not n:
        return "undecided"
    chance = _VARIATION / n**0.5
    if variation > most + chance:
        return "broken"
    return "kept" if variation <= most and chance <= most else "undecided"


def _answer(
    value: float,
    expected: float,
    least: float,
    most: float,
    interval: Callable[[float], _Bounds],
) -> Answer:
    """The answer to a value whose interval, and that of the value expected, are known."""
    low, high = interval(value)
    if high < least or low > most:
        return "broken"
    low, high = interval(expected)
    tells = least <= low and high <= most
    return "kept" if tells and least <= value <= most else "undecided"
