"""Peak of a throughput curve, with the alternatives that the trials cannot exclude.

A curve is the throughput of the trials at each concurrency; trials are independent samples. A peak is
always at a measured concurrency; concurrencies between them are not considered.
"""

from dataclasses import dataclass
from math import inf

from benchlab.stats.decisions import Answer, Curve
from benchlab.stats.trials import CONFIDENCE, Estimate, RatioToZero, median, ratio


@dataclass(frozen=True)
class Position:
    """A concurrency, with all others that it cannot be distinguished from.

    ``possible`` contains the true one in at least 95 % of cases (or in the requested share). It need
    not be a contiguous range. With only one trial at each concurrency it is all of them.
    """

    value: int
    possible: tuple[int, ...]

    def between(self, low: int, high: int) -> Answer:
        """Whether the concurrency is within ``low`` … ``high``, both included.

        HOLDS: all possible ones are. FAILS: none is. OPEN: some are.
        """
        inside = [low <= one <= high for one in self.possible]
        return Answer.HOLDS if all(inside) else Answer.OPEN if any(inside) else Answer.FAILS


def peak(curve: Curve, confidence: float = CONFIDENCE) -> Position:
    """Concurrency with the highest median throughput.

    A concurrency is possible unless another one's throughput is shown to be higher. This selects the
    subset that contains the best (Gupta, Technometrics 7(2), 1965; Hsu, Multiple Comparisons, 1996,
    chapter 4), here by one-sided intervals of ratios, corrected for the number of rivals (Bonferroni).
    Neither equal variances nor equal numbers of trials are assumed. If several are equally high, each
    stays possible in at least 95 % of cases.

    Raises:
        ValueError: no concurrencies, or a median of zero.
    """
    order = sorted(curve)
    rivals = len(order) - 1
    # a one-sided bound is the lower bound of a two-sided interval with twice the error
    lows = _lows(curve, 1 - 2 * (1 - confidence) / rivals) if rivals else {}
    possible = [
        one for one in order if not any(lows[other, one] > 1 for other in order if other != one)
    ]
    return Position(highest(curve), tuple(possible))


def peak_height(curve: Curve, confidence: float = CONFIDENCE) -> Estimate:
    """Highest median throughput of a curve, wherever it is; ``n`` is the smallest number of trials.

    The highest of several medians tends to be too high, since chance helps to select it. The interval
    takes this into account. Its upper bound is the highest of the medians' own upper bounds, which errs
    only if the bound at the true peak does. Its lower bound is the highest of lower bounds that hold
    all at once (Bonferroni). There is no interval if a concurrency has a single trial: it could be the
    peak.

    Raises:
        ValueError: no concurrencies, or one without trials.
    """
    n = min(len(values) for values in curve.values())
    value = median(curve[highest(curve)]).value
    at_once = 1 - (1 - confidence) / len(curve)
    lows = [median(values, at_once).low for values in curve.values()]
    highs = [median(values, confidence).high for values in curve.values()]
    if None in lows or None in highs:
        return Estimate(value, None, None, n)
    return Estimate(value, max(lows), max(highs), n)


def peak_ratio(above: Curve, below: Curve, confidence: float = CONFIDENCE) -> Estimate:
    """Ratio of the heights of two peaks, wherever each is.

    The interval is between the extreme ratios of the bounds of the two heights. The interval of each
    height gets half of the error probability (Bonferroni). It covers at least as often as it says, and
    is wider than an interval at a known concurrency.

    Raises:
        RatioToZero: the other peak is zero.
        ValueError: no concurrencies, or one without trials.
    """
    each = 1 - (1 - confidence) / 2
    high, low = peak_height(above, each), peak_height(below, each)
    if low.value == 0:
        raise RatioToZero("a ratio to a peak of zero")
    value, n = high.value / low.value, min(high.n, low.n)
    if high.low is None or low.low is None:
        return Estimate(value, None, None, n)
    # with two trials the lower bound may be as small as that
    most = high.high / low.low if low.low else inf
    return Estimate(value, high.low / low.high, most, n)


def greatest_ratio(
    above: Curve, below: Curve, confidence: float = CONFIDENCE
) -> tuple[int, Estimate]:
    """Concurrency at which the ratio of two curves is greatest, and that ratio.

    The interval takes into account that the concurrency was selected for its ratio, as in
    ``peak_height``.

    Raises:
        RatioToZero: a median is zero.
        ValueError: no concurrency in common.
    """
    shared = sorted(above.keys() & below.keys())
    if not shared:
        raise ValueError("two curves with no concurrency in common")
    ratios = {one: ratio(above[one], below[one], confidence) for one in shared}
    at = max(shared, key=lambda one: ratios[one].value)
    at_once = 1 - (1 - confidence) / len(shared)
    lows = [ratio(above[one], below[one], at_once).low for one in shared]
    highs = [ratios[one].high for one in shared]
    n = min(one.n for one in ratios.values())
    if None in lows or None in highs:
        return at, Estimate(ratios[at].value, None, None, n)
    return at, Estimate(ratios[at].value, max(lows), max(highs), n)


def highest(curve: Curve) -> int:
    """Return the concurrency with the highest median.

    Raises:
        ValueError: no concurrencies.
    """
    if not curve:
        raise ValueError("a curve of no concurrencies")
    return max(sorted(curve), key=lambda one: median(curve[one]).value)


def _lows(curve: Curve, confidence: float) -> dict[tuple[int, int], float]:
    """Lower bounds of the ratio of throughput for each pair of concurrencies; 0 if unknown."""
    return {
        (one, other): ratio(curve[one], curve[other], confidence).low or 0
        for one in curve
        for other in curve
        if one != other
    }
