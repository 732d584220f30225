"""Decide a test of a claim: one function for each of :mod:`benchlab.study.claims`.

Each takes the test and the evidence, and returns what it found. It raises NotTestable if the runs could
not decide the test whatever they measured.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations, product
from math import inf, log

from benchlab import numbers, stats
from benchlab.claims import words
from benchlab.claims.evidence import Covered, Evidence, not_run_about
from benchlab.claims.finding import OPPOSITE, Finding
from benchlab.claims.runs import NotTestable
from benchlab.observers.outcomes import UNDECIDED
from benchlab.stats import Answer, Curve, Estimate, Sample
from benchlab.study.claims import (
    Above,
    Bound,
    Change,
    Level,
    Limit,
    OfCurves,
    Outcome,
    OutOfMemory,
    Peak,
    Ratio,
    Series,
    Share,
)

#: Share of runs for which attribution by evidence names the wrong bottleneck. It was wrong for none of
#: the 109 runs of the labelled set (``lib/benchmarks/attribution``), so Jeffreys' prior gives
#: (0 + ½) / (109 + 1).
_WRONGLY_ATTRIBUTED = 0.5 / 110

#: Share of the time from which resources bound a run; up to the rest of it, they did not. In between, a
#: bottleneck changes, and chance may decide which one bound for longer.
_MOSTLY = 2 / 3

#: Metric that defines the peak of a curve.
_THROUGHPUT = "tps"


def decide(test: OfCurves, evidence: Evidence) -> Finding:
    """Decide a test for each of its curves, and combine the findings.

    Raises:
        NotTestable: the runs could not decide it.
        RatioToZero: a value to which others are compared is zero.
    """
    if len(test.parts) == 1:
        return _part(test.parts[0], evidence)
    return (_each if test.take == "each" else _every)(test, evidence)


def _every(test: OfCurves, evidence: Evidence) -> Finding:
    """Return the finding that decides whether a test holds for every one of its curves.

    As in :func:`benchlab.stats.everywhere`: that it fails for one has as many chances to be wrong as
    there are curves, so it must fail with an interval that holds for all of them at once.
    """
    at_once = evidence.with_confidence(1 - (1 - evidence.confidence) / len(test.parts))

    def decided(part: OfCurves) -> Finding:
        finding = _named(test, part, evidence)
        if finding.answer is not Answer.FAILS and not finding.tends_to_fail:
            return finding
        wider = _named(test, part, at_once)
        if wider.answer is Answer.FAILS:
            return finding
        # open, as by the wider interval, which says how many trials would decide it
        return replace(
            finding,
            answer=Answer.OPEN,
            trials_needed=wider.trials_needed,
            tends_to_fail=True,
            fails_at=frozenset(),
        )

    found, missing = _of_parts(test, decided)
    if missing and not any(one.answer is Answer.FAILS for one in found):
        raise missing
    # among equal answers the one least in favour of the claim
    least = min(found, key=_in_favour(test))
    if least.answer is not Answer.OPEN:
        return least
    unsure = [one for one in found if one.answer is Answer.OPEN]
    failing = [one.trials_needed for one in unsure if one.tends_to_fail and one.trials_needed]
    needed = min(failing) if failing else _most_trials(one.trials_needed for one in unsure)
    return replace(least, trials_needed=needed, tends_to_fail=bool(failing))


def _of_parts(
    test: OfCurves, decided: Callable[[OfCurves], Finding]
) -> tuple[list[Finding], NotTestable | None]:
    """Return the findings on the parts that are testable, and why the first other one is not."""
    found: list[Finding] = []
    missing: NotTestable | None = None
    for part in test.parts:
        try:
            found.append(decided(part))
        except NotTestable as reason:
            missing = missing or reason
    return found, missing


def _part(part: OfCurves, evidence: Evidence) -> Finding:
    """Decide a test of one curve, or of one pair of curves."""
    evidence.runs.require_one_speed(*part.sides)
    return _TESTS[type(part)](part, evidence)


def _named(test: OfCurves, part: OfCurves, evidence: Evidence) -> Finding:
    """Decide a test of one curve of several, or one pair, and name what varies."""
    finding = _part(part, evidence)
    curve = f"{part.of} {part.of.metric}" if part.of.metric != _THROUGHPUT else f"{part.of}"
    compared = {str(one.sides[-1]) for one in test.parts if one.of == part.of}
    if len(compared) > 1:
        curve = f"{curve} over {part.over}"
    return replace(finding, where=", ".join(filter(None, (curve, finding.where))))


def _each(test: OfCurves, evidence: Evidence) -> Finding:
    """Return the first finding with an opposite one; without any the first open one, or the first."""
    found, missing = _of_parts(test, lambda part: _named(test, part, evidence))
    opposite = next(
        (one for one, other in combinations(found, 2) if {one.answer, other.answer} == OPPOSITE),
        None,
    )
    if missing and not opposite:
        raise missing
    by_chance = next((one for one in found if not one.is_exact), found[0])
    first = opposite or next((one for one in found if one.answer is Answer.OPEN), by_chance)
    others = "; ".join(f"{one.found} for {one.where}" for one in found if one is not first)
    return replace(first, others=others, has_opposite=opposite is not None)


def _in_favour(test: OfCurves) -> Callable[[Finding], tuple]:
    """Return a key that sorts findings on a test's parts: those least in favour of the test first.

    If all hold, those that depend on chance come first, since the whole then does, too.
    """

    def key(one: Finding) -> tuple:
        is_sure = one.answer is Answer.HOLDS and one.is_exact
        return (_PRECEDENCE.index(one.answer), is_sure, _margin(test, one))

    return key


def _margin(test: OfCurves, finding: Finding) -> float:
    """Logarithm of how far a ratio is inside the range that the claim accepts; 0: no ratio."""
    accepted = words.accepted(test)
    if accepted is None or finding.number is None or finding.number.value <= 0:
        return 0.0
    value = log(finding.number.value)
    low, high = (log(one) if one else -inf for one in accepted)
    return min(value - low, high - value)


#: Order in which the answers about several curves decide.
_PRECEDENCE = (Answer.FAILS, Answer.OPEN, Answer.HOLDS)


def _above(test: Above, evidence: Evidence) -> Finding:
    if test.at == "peak":
        return _at_peaks(test, "by", evidence, (test.by,), lambda one: stats.exceeds(one, test.by))
    above, below = _curves(test, evidence)
    if test.at == "overall":
        return _on_the_whole(
            test, above, below, evidence, (test.by,), lambda one: stats.exceeds(one, test.by)
        )
    covered = _covered(test, above, evidence)
    decision = stats.above_everywhere(
        {one: above[one] for one in covered.here},
        {one: below[one] for one in covered.here},
        test.by,
        evidence.confidence,
    )
    finding = _of_decision(decision, above, below, evidence, (test.by,))
    return finding.within(covered, decision.at)


def _ratio(test: Ratio, evidence: Evidence) -> Finding:
    bounds = (test.value / test.within, test.value * test.within)

    def answer_to(number: Estimate) -> Answer:
        return stats.equivalent(number, test.value, test.within)

    if test.at == "peak":
        return _at_peaks(test, "of", evidence, bounds, answer_to)
    above, below = _curves(test, evidence)
    if test.at == "overall":
        return _on_the_whole(test, above, below, evidence, bounds, answer_to)
    if test.at in ("greatest", "least"):
        return _extreme(test, above, below, evidence, bounds, answer_to)
    covered = _covered(test, above, evidence)
    decision = stats.everywhere(
        covered.here,
        lambda at, confidence: stats.ratio(above[at], below[at], confidence),
        answer_to,
        evidence.confidence,
    )
    finding = _of_decision(decision, above, below, evidence, bounds)
    return finding.within(covered, decision.at)


def _extreme(
    test: Ratio,
    above: Curve,
    below: Curve,
    evidence: Evidence,
    bounds: tuple[float, ...],
    answer_to: Callable[[Estimate], Answer],
) -> Finding:
    """Decide a test by the greatest or the least ratio of two curves.

    One that falls short leaves it open if not all of the article's clients were run, and so does one
    that holds if the range's far end was not run.
    """
    evidence.runs.require_whole(test.of, test.over)
    _require_several(above, evidence)
    if test.at == "greatest":
        at, number = stats.greatest_ratio(above, below, evidence.confidence)
        falls_short = number.value < test.value
    else:
        at, inverse = stats.greatest_ratio(below, above, evidence.confidence)
        number = _inverse(inverse)
        falls_short = number.value > test.value
    answer, where = answer_to(number), _clients(evidence, at)
    if rest := evidence.could_run(above):
        where = f"{where}; {_not_run(rest)}"
        beyond = answer is Answer.HOLDS and evidence.here(rest[-1]) > max(above)
        if beyond or (answer is Answer.FAILS and falls_short):
            return Finding(Answer.OPEN, words.estimated(number), number, where)
    return _of_several(answer_to, number, where, bounds)


def _change(test: Change, evidence: Evidence) -> Finding:
    curve, not_counted = evidence.runs.curve(test.of), evidence.runs.not_counted(test.of)
    start = evidence.among(curve, test.start, not_counted)
    covered = _at_each(test.end, curve, not_counted, evidence)

    def answer_to(number: Estimate) -> Answer:
        if test.direction == "level":
            return stats.equivalent(number, 1, test.by)
        return stats.exceeds(number if test.direction == "rises" else _inverse(number), test.by)

    decision = stats.everywhere(
        covered.here,
        lambda end, confidence: stats.ratio(curve[end], curve[start], confidence),
        answer_to,
        evidence.confidence,
    )
    bounds = {"level": (1 / test.by, test.by), "rises": (test.by,), "falls": (1 / test.by,)}
    starts = dict.fromkeys(covered.here, curve[start])
    finding = _of_decision(decision, curve, starts, evidence, bounds[test.direction])
    where = _clients(evidence, start, decision.at)
    return replace(finding, where=where).within(covered, decision.at)


def _peak(test: Peak, evidence: Evidence) -> Finding:
    curve = (
        evidence.runs.relative(test.of, test.over) if test.over else evidence.runs.curve(test.of)
    )
    evidence.runs.require_whole(*test.sides)
    _require_several(curve, evidence)
    low, high = evidence.here(test.first), evidence.here(test.last)
    if not any(low <= one <= high for one in curve):
        clients = words.between(test.first, test.last)
        raise NotTestable(f"no number of clients was run that stands for the article's {clients}")
    position = stats.peak(curve, evidence.confidence)

    def needed(rival: int) -> int | None:
        # one-sided bounds for all rivals at once, as in stats.peak
        confidence = 1 - 2 * (1 - evidence.confidence) / (len(curve) - 1)
        trials = stats.trials_to_tell(curve[position.value], curve[rival], confidence=confidence)
        return _more_than(len(curve[rival]), trials)

    answer = position.between(low, high)
    found = f"at {_clients(evidence, position.value)}"
    inside = low <= position.value <= high
    in_article = {one: evidence.here(one) for one in evidence.runs.study.clients_in_article}
    within, rivals = not_run_about((low, high), in_article, curve)
    if within and rivals:
        raise NotTestable(
            _not_run(sorted(within + rivals), "within the claimed range and beside it")
        )
    # those at which it may be otherwise than the trials say, or tend to say
    if rivals and inside:
        return Finding(Answer.OPEN, found, where=_not_run(rivals, "which may be as high"))
    if within and not inside:
        return Finding(Answer.OPEN, found, where=_not_run(within, "within the claimed range"))
    unsure = [one for one in position.possible if (low <= one <= high) != inside]
    possible = ", ".join(str(one) for one in position.possible)
    return Finding(
        answer,
        found,
        where=f"cannot be distinguished from {possible}" if len(position.possible) > 1 else "",
        trials_needed=_most_trials(map(needed, unsure)),
    )


def _level(test: Level, evidence: Evidence) -> Finding:
    bounds = (test.value / test.within, test.value * test.within)
    return _of_values(
        test, evidence, bounds, lambda number: stats.equivalent(number, test.value, test.within)
    )


def _limit(test: Limit, evidence: Evidence) -> Finding:
    if test.least is not None:
        return _of_values(
            test, evidence, (test.least,), lambda number: stats.exceeds(number, test.least)
        )
    return _of_values(
        test, evidence, (test.most,), lambda one: stats.exceeds(_inverse(one), 1 / test.most)
    )


def _of_values(
    test: Level | Limit,
    evidence: Evidence,
    bounds: tuple[float, ...],
    answer_to: Callable[[Estimate], Answer],
) -> Finding:
    """Decide a test of one curve's values, at every concurrency that it names."""
    curve = evidence.runs.curve(test.of)
    if isinstance(test, Limit) and test.most is not None:
        curve = {at: _without_zeros(sample, test.most) for at, sample in curve.items()}
    if test.at == "peak":
        covered = Covered([_highest(test.of, evidence, curve)])
    else:
        covered = _covered(test, curve, evidence)

    def estimate(at: int, confidence: float) -> Estimate:
        if test.at == "peak" and test.of.metric == _THROUGHPUT:
            return stats.peak_height(curve, confidence)
        return stats.median(curve[at], confidence)

    decision = stats.everywhere(covered.here, estimate, answer_to, evidence.confidence)
    number, where = decision.number, _clients(evidence, decision.at)
    if test.at == "peak" and (rest := evidence.not_run(curve)):
        where += f"; {_not_run(rest)}"
    found = words.estimated(number, test.unit)

    def needed(at: int, confidence: float) -> int | None:
        return stats.trials_to_narrow(estimate(at, confidence), bounds)

    trials = _trials(decision, needed, evidence.confidence)
    finding = Finding(decision.answer, found, number, where, trials, bool(decision.failing))
    if test.at != "peak":
        return finding.within(covered, decision.at)
    if test.of.metric != _THROUGHPUT:
        peaks = _possible_peaks(test.of, evidence)
        answers = [
            answer_to(stats.median(curve[at], evidence.confidence)) if at in curve else Answer.OPEN
            for at in peaks
        ]
        finding = _unless_elsewhere(finding, answers, _possible(peaks, test.of, evidence))
    return _unless_higher_beyond(finding, answer_to, evidence, test.of)


def _without_zeros(sample: Sample, most: float) -> Sample:
    """Count zeros, which have no logarithm, as the least positive value, but never above the limit.

    Nothing but zeros, in two trials or more, is below any limit without doubt.

    Args:
        sample: values of the trials.
        most: the limit.
    """
    positive = [value for value in sample if value]
    least = min([*positive, most]) if positive else 0
    is_exact = sample.is_exact or (not positive and len(sample) > 1)
    return Sample([value or least for value in sample], sample.prior, is_exact)


def _share(test: Share, evidence: Evidence) -> Finding:
    curve = evidence.runs.curve(test.of)
    covered = _covered(test, curve, evidence)

    def estimate(at: int, confidence: float) -> Estimate:
        return stats.share([value <= test.most for value in curve[at]], confidence)

    def answer_to(number: Estimate) -> Answer:
        return stats.exceeds(number, test.least_share)

    decision = stats.everywhere(covered.here, estimate, answer_to, evidence.confidence)
    number = decision.number
    greatest = f"{numbers.number(max(curve[decision.at]))} {test.unit}"
    found = f"{words.estimated(number)} of {number.n:,}, the greatest {greatest}"
    finding = Finding(decision.answer, found, number, _clients(evidence, decision.at))
    return finding.within(covered, decision.at)


def _bound(test: Bound, evidence: Evidence) -> Finding:
    """Decide whether the named resources, taken together, bound most trials at each concurrency.

    It fails if at one concurrency they bound no trial. One trial of a concurrency decides nothing. An
    attribution may be wrong in the same way in all trials of a concurrency, so further trials do not
    make it surer: of many concurrencies, several must fail.
    """
    bound = evidence.runs.bound(test.of)
    covered = _covered(test, bound, evidence)
    at = covered.here
    shares = {
        one: [sum(trial.get(name, 0.0) for name in test.by) for trial in bound[one]] for one in at
    }
    held = {one: [share >= _MOSTLY for share in trials] for one, trials in shares.items()}
    few = [one for one, trials in held.items() if len(trials) < 2]
    never = [one for one, trials in shares.items() if max(trials) <= 1 - _MOSTLY and one not in few]
    most = all(sum(trials) > len(trials) / 2 for trials in held.values())
    # chance that the answer is wrong, corrected for several concurrencies
    # (Simes, Biometrika 73(3), 1986)
    chance = _WRONGLY_ATTRIBUTED * (len(held) / len(never) if never else 1)
    answer = Answer.FAILS if never else Answer.HOLDS if most else Answer.OPEN
    if (few and not never) or chance > (1 - evidence.confidence) / 2:
        answer = Answer.OPEN
    otherwise = [one for one in at if not all(held[one])]
    shown = Counter(next(iter(trial)) for one in (otherwise or at) for trial in bound[one])
    where = _clients(evidence, *(otherwise or at))
    if otherwise and not never:
        of_open = [share for one in otherwise for share in shares[one]]
        where += f", where {' or '.join(test.by)} bound {words.percentages(of_open)} of the time"
    finding = Finding(
        answer,
        " or ".join(name for name, _ in shown.most_common()),
        where=where,
        trials_needed=2 if few and not never else None,
    )
    return finding.within(covered, *never)


def _outcome(test: Outcome, evidence: Evidence) -> Finding:
    """Decide whether every run had these answers; they do not depend on chance.

    It is open if all other answers only say that nothing was decided.
    """
    made = evidence.runs.outcomes(test.of)
    for check in test.answers:
        if not any(check in answers for answers in made):
            raise NotTestable(f"{test.of}: no run made the check {check!r}")
    not_checked = f"{UNDECIDED}: not checked"
    runs = [{check: one.get(check, not_checked) for check in test.answers} for one in made]

    def others(answers: dict[str, str]) -> list[str]:
        return [said for check, said in answers.items() if test.answers[check] not in said]

    undecided = [answers for answers in runs if others(answers)]
    contradicting = [
        answers
        for answers in undecided
        if not all(said.startswith(UNDECIDED) for said in others(answers))
    ]
    answer = Answer.FAILS if contradicting else Answer.OPEN if undecided else Answer.HOLDS
    shown = (contradicting or undecided or runs)[0]
    return Finding(answer, words.outcomes(shown), has_chance=False)


def _out_of_memory(test: OutOfMemory, evidence: Evidence) -> Finding:
    """Decide whether every run ran out of memory; this does not depend on chance."""
    at = evidence.here(test.at)
    ended = evidence.runs.ran_out_of_memory(test.of, at)
    found = f"{sum(ended)} of {len(ended)} runs ran out of memory"
    answer = Answer.HOLDS if all(ended) else Answer.OPEN if any(ended) else Answer.FAILS
    return Finding(answer, found, where=_clients(evidence, at), has_chance=False)


#: Test of a claim → the function that decides it.
_TESTS: dict[type, Callable[..., Finding]] = {
    Above: _above,
    Ratio: _ratio,
    Change: _change,
    Peak: _peak,
    Level: _level,
    Limit: _limit,
    Share: _share,
    Bound: _bound,
    Outcome: _outcome,
    OutOfMemory: _out_of_memory,
}


def _curves(test: Above | Ratio, evidence: Evidence) -> tuple[Curve, Curve]:
    """Return both curves of a test at the concurrencies that both have."""
    above, below = evidence.runs.curve(test.of), evidence.runs.curve(test.over)
    shared = sorted(above.keys() & below.keys())
    if not shared:
        raise NotTestable("no number of clients that both sides ran")
    return {one: above[one] for one in shared}, {one: below[one] for one in shared}


def _covered(
    test: Above | Ratio | Level | Limit | Share | Bound, curve: dict, evidence: Evidence
) -> Covered:
    """Return how far a curve covers the concurrencies that a test names."""
    if test.at == "all":
        return _whole(test, curve, evidence)
    return _at_each(test.at, curve, _not_counted(test, evidence), evidence)


def _at_each(
    in_article: int | list[int], curve: dict, not_counted: dict[int, str], evidence: Evidence
) -> Covered:
    """Return how far a curve covers one of the article's concurrencies, or several."""
    if isinstance(in_article, int):
        return Covered([evidence.among(curve, in_article, not_counted)])
    return evidence.covered(curve, in_article, not_counted)


def _require_several(curve: Curve, evidence: Evidence) -> None:
    """Check that a curve has several numbers of clients, since one shows neither a whole nor a shape.

    Raises:
        NotTestable: it has one.
    """
    if len(curve) == 1:
        raise NotTestable(
            f"only {_clients(evidence, *curve)} counted, and the claim is about the shape of the curve"
        )


def _whole(test: OfCurves, curve: dict, evidence: Evidence) -> Covered:
    """Return how far a curve covers all concurrencies at which the test's curves were run."""
    not_counted = _not_counted(test, evidence)
    reaches_end = max(curve) > max(not_counted, default=0)
    return Covered(sorted(curve), not_counted=not_counted, reaches_end=reaches_end)


def _not_counted(test: OfCurves, evidence: Evidence) -> dict[int, str]:
    """Return at which of a test's points no run counts; see :meth:`Runs.not_counted`."""
    return evidence.runs.not_counted(*test.sides, bound=isinstance(test, Bound))


def _on_the_whole(
    test: Above | Ratio,
    above: Curve,
    below: Curve,
    evidence: Evidence,
    bounds: tuple[float, ...],
    answer_to: Callable[[Estimate], Answer],
) -> Finding:
    """Decide a test by the geometric mean of the ratios of two curves."""
    _require_several(above, evidence)
    sides = [curve.values() for curve in (above, below)]
    number = stats.mean_ratio(*sides, confidence=evidence.confidence)
    where = f"on average over {_clients(evidence, *above)}"
    finding = _of_several(answer_to, number, where, bounds)
    covered = _whole(test, above, evidence)
    if not covered.reaches_end:  # where the ratio may be quite another
        finding = replace(finding, answer=Answer.OPEN, trials_needed=None)
    return finding.within(covered)


def _at_peaks(
    test: Above | Ratio,
    word: str,
    evidence: Evidence,
    bounds: tuple[float, ...],
    answer_to: Callable[[Estimate], Answer],
) -> Finding:
    """Decide a test by the ratio of two curves, each where its throughput is highest."""
    of, over = test.of, test.over
    above, below = evidence.runs.curve(of), evidence.runs.curve(over)
    sides = (above[_highest(of, evidence, above)], below[_highest(over, evidence, below)])
    is_throughput = of.metric == over.metric == _THROUGHPUT
    if is_throughput:
        number = stats.peak_ratio(above, below, evidence.confidence)
    else:
        number = stats.ratio(*sides, evidence.confidence)
    where = f"{word} their peaks"
    if rest := sorted({*evidence.not_run(above), *evidence.not_run(below)}):
        where = f"{where}; {_not_run(rest)} by both"
    finding = _of_several(answer_to, number, where, bounds)
    if not is_throughput:
        peaks, others = _possible_peaks(of, evidence), _possible_peaks(over, evidence)
        answers = [
            answer_to(stats.ratio(above[one], below[other], evidence.confidence))
            if one in above and other in below
            else Answer.OPEN
            for one, other in product(peaks, others)
        ]
        possible = [_possible(peaks, of, evidence), _possible(others, over, evidence)]
        finding = _unless_elsewhere(finding, answers, "; ".join(possible))
    return _unless_higher_beyond(finding, answer_to, evidence, of, over)


def _highest(series: Series, evidence: Evidence, curve: Curve) -> int:
    """Return the concurrency at which the throughput of a series is highest.

    Args:
        series: the series.
        evidence: the runs.
        curve: the series' metric, which is to have a value there.

    Raises:
        NotTestable: it has none, or at a point no run counts.
    """
    throughput = _throughput(series)
    evidence.runs.require_whole(throughput)
    at = stats.highest(evidence.runs.curve(throughput))
    if at not in curve:
        raise NotTestable(
            f"no capture of {series} at {at:,} clients, its peak, gives {series.metric}"
        )
    return at


def _throughput(series: Series) -> Series:
    return series.model_copy(update={"metric": _THROUGHPUT})


def _possible_peaks(series: Series, evidence: Evidence) -> tuple[int, ...]:
    """Return the concurrencies at which the throughput of a series may be highest."""
    return stats.peak(evidence.runs.curve(_throughput(series)), evidence.confidence).possible


def _possible(peaks: tuple[int, ...], series: Series, evidence: Evidence) -> str:
    return f"{series} may peak at any of {_clients(evidence, *peaks)}"


def _unless_elsewhere(finding: Finding, answers: Iterable[Answer], where: str) -> Finding:
    """Return a finding at a peak; it is open if the answer is another one where the peak may be, too.

    Args:
        finding: about another metric than throughput, where throughput was measured to be highest.
        answers: the answer at each point that may be the peak.
        where: names these points.
    """
    if all(answer is finding.answer for answer in answers):
        return finding
    where = f"{finding.where}; {where}"
    return replace(finding, answer=Answer.OPEN, where=where, trials_needed=None)


def _unless_higher_beyond(
    finding: Finding,
    answer_to: Callable[[Estimate], Answer],
    evidence: Evidence,
    of: Series,
    over: Series | None = None,
) -> Finding:
    """Return a finding about peaks; it is open if a higher one beyond the clients run would change it.

    Nothing bounds a peak from above that is at the last clients run, or the first, if the article has
    more beyond. Another metric than throughput may be anything there.
    """
    beyond = {"of": _beyond_peak(of, evidence), "over": over and _beyond_peak(over, evidence)}
    if not any(beyond.values()):
        return finding
    is_throughput = of.metric == _THROUGHPUT
    if finding.answer is not Answer.OPEN:
        low = 0 if beyond["over"] or not is_throughput else finding.number.low
        high = inf if beyond["of"] or not is_throughput else finding.number.high
        if answer_to(replace(finding.number, low=low, high=high)) is finding.answer:
            return finding
    rising = [
        _not_run(rest, f"towards which {series} rises")
        for series, rest in zip((of, over), beyond.values(), strict=True)
        if rest
    ]
    where = "; ".join([finding.where, *rising])
    return replace(finding, answer=Answer.OPEN, where=where, trials_needed=None)


def _beyond_peak(series: Series, evidence: Evidence) -> list[int]:
    """Return the article's clients beyond those run, if a series is highest at that end."""
    curve = evidence.runs.curve(_throughput(series))
    at = stats.highest(curve)
    return [
        one
        for one in evidence.could_run(curve)
        if at == max(curve) < evidence.here(one) or evidence.here(one) < min(curve) == at
    ]


def _of_several(
    answer_to: Callable[[Estimate], Answer],
    number: Estimate,
    where: str,
    bounds: tuple[float, ...],
) -> Finding:
    """Return what a number of several points shows: their mean, or the highest of them."""
    answer = answer_to(number)
    is_open = answer is Answer.OPEN
    return Finding(
        answer,
        words.estimated(number),
        number,
        where,
        stats.trials_to_narrow(number, bounds) if is_open else None,
        is_open and stats.tends_to_fail(number, answer_to),
    )


def _of_decision(
    decision: stats.Decision,
    above: Curve,
    below: Curve,
    evidence: Evidence,
    bounds: tuple[float, ...],
) -> Finding:
    """Return what the ratios of two curves show."""

    def needed(at: int, confidence: float) -> int | None:
        trials = stats.trials_to_tell(above[at], below[at], bounds, confidence)
        return _more_than(decision.unsure[at].n, trials)

    number, where = decision.number, _clients(evidence, decision.at)
    trials = _trials(decision, needed, evidence.confidence)
    found = words.estimated(number)
    return Finding(decision.answer, found, number, where, trials, bool(decision.failing))


def _trials(
    decision: stats.Decision, needed: Callable[[int, float], int | None], confidence: float
) -> int | None:
    """Return how many trials would probably decide; ``None``: unknown, or it is decided.

    To fail at one concurrency is enough. To hold, it must hold at all.

    Args:
        decision: on the numbers at all concurrencies.
        needed: concurrency and confidence of the interval → trials that would decide there.
        confidence: of the intervals that show that it holds.
    """
    if decision.failing:
        trials = [needed(at, decision.at_once) for at in decision.failing]
        return min((one for one in trials if one), default=None)
    return _most_trials(needed(at, confidence) for at in decision.unsure)


def _most_trials(trials: Iterable[int | None]) -> int | None:
    """Return the highest number of trials; ``None``: there is none, or one is unknown."""
    needed = list(trials)
    return None if None in needed else max(needed, default=None)


def _more_than(there: int, needed: int | None) -> int | None:
    """Return how many trials are needed; from few trials, the estimate may be no more than those."""
    return needed and max(needed, there + 1)


def _inverse(number: Estimate) -> Estimate:
    """Return the inverse of a number that is not negative; that of zero is infinite."""

    def inverse(value: float | None) -> float | None:
        return None if value is None else 1 / value if value else inf

    low, high = inverse(number.high), inverse(number.low)
    return replace(number, value=inverse(number.value), low=low, high=high)


def _not_run(clients: list[int], which: str = "") -> str:
    which = f", {which}," if which else ""
    return f"the article's {words.listed(clients)} clients{which} were not run"


def _clients(evidence: Evidence, *here: int) -> str:
    ours, theirs = (
        ", ".join(f"{one:,g}" for one in side) for side in (here, map(evidence.in_article, here))
    )
    text = f"{ours} {'client' if here == (1,) else 'clients'}"
    return text if ours == theirs else f"{text} (the article's {theirs})"
