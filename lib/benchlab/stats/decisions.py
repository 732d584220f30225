"""Decisions with three values: it holds, it does not hold, the data cannot say."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import hypot, log

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
    """An answer about several numbers at once, with the one that decides it.

    ``at`` is the concurrency of that number. A FAILS is decided by wider intervals, which hold all at
    once; the number has the interval that was asked for.

    From :func:`above_everywhere`, the number is a ratio: for HOLDS the one nearest to failing, for
    FAILS the one that contradicts the statement most clearly, and for OPEN the one that supports it
    least. From :func:`everywhere`, it is the first one with the answer; for OPEN, the first without
    HOLDS. For HOLDS it is one that depends on chance if any does, since the whole then does.
    """

    answer: Answer
    at: int
    number: Estimate
    unsure: Mapping[int, Estimate] = field(default_factory=dict)
    """If OPEN, the number at each concurrency where HOLDS is not shown."""
    failing: Sequence[int] = ()
    """Those of ``unsure`` whose number tends to fail: one of them would be enough for FAILS."""
    at_once: float = CONFIDENCE
    """Confidence of the intervals that show FAILS."""


def equivalent(estimate: Estimate, value: float, tolerance: float) -> Answer:
    """Whether the estimated number is ``value`` to within the factor ``tolerance``.

    HOLDS: the interval is within value / tolerance … value · tolerance. FAILS: it is outside. OPEN: it
    overlaps a bound, or there is none. A wrong HOLDS occurs in at most 2.5 % of cases, and so does a
    wrong FAILS (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987; his 5 % level
    corresponds to a 90 % interval, this one has 95 % like all others).

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


def compatible(one: Estimate, other: Estimate) -> bool:
    """Whether two independent estimates of a positive number differ by no more than chance explains.

    True: the interval of their ratio, from the sides of their intervals that face each other, contains
    1 (Zou & Donner, Statistics in Medicine 27(10), 2008); or one of them has no bound there, or it is
    zero. The interval is as confident as theirs are.
    """
    lower, higher = sorted((one, other), key=lambda estimate: estimate.value)
    if lower.high is None or not lower.value or not higher.low:
        return True
    sides = log(lower.high / lower.value), log(higher.value / higher.low)
    return log(higher.value / lower.value) <= hypot(*sides)


def exceeds(estimate: Estimate, least: float) -> Answer:
    """Whether the estimated number is above ``least``.

    HOLDS: the whole interval is above ``least``. FAILS: it is below. OPEN: it contains ``least``, or
    there is no interval. Error probabilities as in ``equivalent``. The interval already includes how
    much two runs of the same thing differ.
    """
    if estimate.low is None or estimate.high is None:
        return Answer.OPEN
    if estimate.low > least:
        return Answer.HOLDS
    return Answer.FAILS if estimate.high < least else Answer.OPEN


def tends_to_fail(estimate: Estimate, decide: Callable[[Estimate], Answer]) -> bool:
    """Whether the value of an estimate would fail if it were certain."""
    return decide(replace(estimate, low=estimate.value, high=estimate.value)) is Answer.FAILS


def everywhere(
    places: Iterable[int],
    estimate: Callable[[int, float], Estimate],
    decide: Callable[[Estimate], Answer],
    confidence: float = CONFIDENCE,
) -> Decision:
    """Whether a statement holds at every one of several concurrencies.

    Error probabilities as in ``above_everywhere``.

    Args:
        places: the concurrencies, at least one.
        estimate: concurrency and confidence of the interval → the number to decide on.
        decide: number → answer.
        confidence: of each interval.
    """
    places = list(places)
    at_once = 1 - (1 - confidence) / len(places)
    for at in places:
        if decide(estimate(at, at_once)) is Answer.FAILS:
            return Decision(Answer.FAILS, at, estimate(at, confidence))
    numbers = {at: estimate(at, confidence) for at in places}
    return _by_unsure(numbers, decide, at_once, key=places.index)


def above_everywhere(
    above: Curve, below: Curve, least: float = 1, confidence: float = CONFIDENCE
) -> Decision:
    """Whether one curve is above another at every concurrency that both have.

    HOLDS: every ratio is above ``least``. FAILS: at least one is below. OPEN: neither is shown.

    HOLDS uses an interval of ``confidence`` at each concurrency, without correction. It is wrong only
    if a ratio that is not above ``least`` is decided wrongly, so all of them together err no more often
    than that one (intersection-union test; Berger, Technometrics 24(4), 1982). FAILS has as many
    chances to be wrong as there are concurrencies, so its intervals hold all at once (Bonferroni; for
    the first rejection this equals Holm, Scandinavian Journal of Statistics 6(2), 1979).

    Args:
        above: throughput of the trials at each concurrency.
        below: the same for the other curve.
        least: factor of ``below`` that ``above`` must exceed.
        confidence: of each interval.

    Raises:
        ValueError: no concurrency in common, or a median of zero.
    """
    shared = sorted(above.keys() & below.keys())
    if not shared:
        raise ValueError("two curves with no concurrency in common")

    def decide(one: Estimate) -> Answer:
        return exceeds(one, least)

    at_once = 1 - (1 - confidence) / len(shared)
    lower = {at: ratio(above[at], below[at], at_once) for at in shared}
    lower = {at: one for at, one in lower.items() if decide(one) is Answer.FAILS}
    if lower:
        at = min(lower, key=lambda at: lower[at].high)
        return Decision(Answer.FAILS, at, ratio(above[at], below[at], confidence))
    ratios = {at: ratio(above[at], below[at], confidence) for at in shared}
    lows = {at: float("-inf") if one.low is None else one.low for at, one in ratios.items()}
    return _by_unsure(ratios, decide, at_once, key=lows.get)


def _by_unsure(
    numbers: Mapping[int, Estimate],
    decide: Callable[[Estimate], Answer],
    at_once: float,
    key: Callable[[int], float],
) -> Decision:
    """Decide by the numbers for which a statement does not hold; it fails for none for sure.

    Of those that decide, the result has the one with the least ``key``.
    """
    unsure = {at: one for at, one in numbers.items() if decide(one) is not Answer.HOLDS}
    by_chance = [at for at, number in numbers.items() if not number.is_exact]
    at = min(unsure or by_chance or numbers, key=key)
    return Decision(
        Answer.OPEN if unsure else Answer.HOLDS,
        at,
        numbers[at],
        unsure,
        [at for at, one in unsure.items() if tends_to_fail(one, decide)],
        at_once,
    )
