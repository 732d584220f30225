"""Decisions with three values: it holds, it does not hold, the data cannot say."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchlab.stats.trials import CONFIDENCE, Estimate, ratio

#: Throughput of the trials at each concurrency: sequences, or :class:`~benchlab.stats.Sample`.
Curve = Mapping[int, Sequence[float]]


class Answer(StrEnum):
    """What data show about a statement."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be said"


@dataclass(frozen=True)
class Decision:
    """An answer about several ratios at once, with the one that it hangs on.

    ``at`` is its concurrency. The interval of a FAILS is one of several that hold at once, and so a
    wider one.

    HOLDS: the ratio ``at`` is the one that comes nearest to the contrary. FAILS: it speaks against the
    statement most clearly. OPEN: it is the one that says least for it.
    """

    answer: Answer
    at: int
    ratio: Estimate


def equivalent(estimate: Estimate, value: float, tolerance: float) -> Answer:
    """Whether what is estimated is ``value``, give or take the factor ``tolerance``.

    HOLDS: the interval lies within value / tolerance … value · tolerance. FAILS: it lies outside.
    OPEN: it lies across, or there is none. A wrong HOLDS comes in 2.5 % of cases at most, and so does
    a wrong FAILS (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987, whose 5 %
    take an interval of 90 %; this one is of 95 % as everywhere).

    Raises:
        ValueError: ``value`` is not positive, or ``tolerance`` is below 1.
    """
    if value <= 0 or tolerance < 1:
        raise ValueError(f"{value} give or take a factor of {tolerance}")
    if estimate.low is None or estimate.high is None:
        return Answer.OPEN
    low, high = value / tolerance, value * tolerance
    if low <= estimate.low and estimate.high <= high:
        return Answer.HOLDS
    return Answer.FAILS if estimate.high < low or high < estimate.low else Answer.OPEN


def exceeds(estimate: Estimate, least: float) -> Answer:
    """Whether what is estimated is above ``least``.

    HOLDS: the interval lies above it. FAILS: below. OPEN: across, or there is none. Errors as in
    ``equivalent``. How much two runs of the same thing differ is in the interval already.
    """
    if estimate.low is None or estimate.high is None:
        return Answer.OPEN
    if estimate.low > least:
        return Answer.HOLDS
    return Answer.FAILS if estimate.high < least else Answer.OPEN


def everywhere(
    places: Iterable[int],
    estimate: Callable[[int, float], Estimate],
    decide: Callable[[Estimate], Answer],
    confidence: float = CONFIDENCE,
) -> Decision:
    """Whether the same holds at every one of several concurrencies; errors as in ``above_everywhere``.

    Args:
        places: the concurrencies, one at least.
        estimate: gives what is decided on at one of them, by its interval's confidence.
        decide: answers for one.
        confidence: of an interval.
    """
    places = list(places)
    at_once = 1 - (1 - confidence) / len(places)
    for at in places:
        if decide(number := estimate(at, at_once)) is Answer.FAILS:
            return Decision(Answer.FAILS, at, number)
    numbers = {at: estimate(at, confidence) for at in places}
    unsure = [at for at, number in numbers.items() if decide(number) is not Answer.HOLDS]
    at = (unsure or places)[0]
    return Decision(Answer.OPEN if unsure else Answer.HOLDS, at, numbers[at])


def above_everywhere(
    above: Curve, below: Curve, least: float = 1, confidence: float = CONFIDENCE
) -> Decision:
    """Whether one curve is above another at every concurrency that both have.

    HOLDS: every ratio is above ``least``. FAILS: at least one is below. OPEN: neither is shown.

    HOLDS takes an interval of ``confidence`` at each concurrency, with nothing to correct: it is
    wrong only if the one ratio is that is not above, so all of them together err no more often than
    that one does (intersection-union test; Berger, Technometrics 24(4), 1982). FAILS has as many
    chances to be wrong as there are concurrencies, so its intervals hold all at once (Bonferroni,
    which for the first rejection is also Holm's: Scandinavian Journal of Statistics 6(2), 1979).

    Args:
        above: throughput of the trials at each concurrency.
        below: the same of the other curve.
        least: how many times ``below`` the other one is said to be.
        confidence: of an interval.

    Raises:
        ValueError: no concurrency in common, or a median of zero.
    """
    shared = sorted(above.keys() & below.keys())
    if not shared:
        raise ValueError("two curves with no concurrency in common")
    at_once = 1 - (1 - confidence) / len(shared)
    lower = {at: ratio(above[at], below[at], at_once) for at in shared}
    lower = {at: one for at, one in lower.items() if exceeds(one, least) is Answer.FAILS}
    if lower:
        at = min(lower, key=lambda at: lower[at].high)
        return Decision(Answer.FAILS, at, lower[at])
    ratios = {at: ratio(above[at], below[at], confidence) for at in shared}
    lows = {at: float("-inf") if one.low is None else one.low for at, one in ratios.items()}
    unsure = [at for at in lows if exceeds(ratios[at], least) is not Answer.HOLDS]
    at = min(unsure or lows, key=lows.get)
    return Decision(Answer.OPEN if unsure else Answer.HOLDS, at, ratios[at])
