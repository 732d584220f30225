"""Judge: decide a study's claims by the runs of one profile on one target.

One function here decides each test of :mod:`benchlab.study.claims`, with the statistics of
:mod:`benchlab.stats`. The verdicts:

- *reproduced*: the test holds;
- *not reproduced*: it does not hold;
- *inconclusive*: there are too few trials to decide, and the verdict says how many would be enough; or
  nothing run here contradicts the claim, and the far end of its range was not run;
- *depends*: the test holds in one envelope and not in another, or by one of the metrics that the
  article may have meant and not by another; both findings are given. A claim about several numbers of
  clients depends on the envelope, too, if it fails at one of them in one envelope and holds there and
  at all others that were run in another;
- *not testable here*: the runs could not decide it whatever they measured; the reason is given.

The verdicts of a rerun are one family: at most 5 % of the decided ones are expected to be wrong. So
the fewer claims can be decided, the more confidence each verdict requires (Benjamini & Hochberg,
Journal of the Royal Statistical Society B 57(1), 1995; for intervals Benjamini & Yekutieli, Journal
of the American Statistical Association 100(469), 2005).
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, log

from benchlab import stats, study
from benchlab.claims import audit, words
from benchlab.claims.evidence import Covered, Evidence, NotTestable
from benchlab.observers.outcomes import UNDECIDED
from benchlab.repo import Repo
from benchlab.stats import CONFIDENCE, Answer, Curve, Estimate
from benchlab.store.results import Rerun
from benchlab.study.claims import (
    ABSOLUTE,
    Above,
    Bound,
    Change,
    Claim,
    Knee,
    Level,
    Limit,
    OfCurves,
    Outcome,
    OutOfMemory,
    Peak,
    Ratio,
    Series,
    Share,
    Untested,
    Verdict,
)

_VERDICTS: dict[Answer, Verdict] = {
    Answer.HOLDS: "reproduced",
    Answer.FAILS: "not reproduced",
    Answer.OPEN: "inconclusive",
}

#: Verdicts that a measurement decided.
DECIDED = ("reproduced", "not reproduced", "depends")

#: Answers to what is one question that make the verdict *depends*.
_OPPOSITE = {Answer.HOLDS, Answer.FAILS}

#: Share of runs for which attribution by evidence names the wrong bottleneck. It was wrong for none of
#: the 109 runs of the labelled set (``lib/benchmarks/attribution``), so Jeffreys' prior gives
#: (0 + ½) / (109 + 1).
_WRONGLY_ATTRIBUTED = 0.5 / 110

#: Metric that defines the peak of a curve.
_THROUGHPUT = "tps"


@dataclass(frozen=True)
class Judgement:
    """A claim and its verdict."""

    study: str
    claim: Claim
    verdict: Verdict
    found: str = ""
    """What the runs show, in a few characters; empty if nothing was measured."""
    number: Estimate | None = None
    """The number that decided; ``None`` if no number did."""
    reason: str = ""
    """Where it was found, and the versions if they are not the article's; or why nothing is decided."""
    trials_needed: int | None = None
    """Trials of each point that would probably be enough, if inconclusive; ``None``: unknown."""
    confidence: float | None = None
    """Confidence of the interval that the verdict rests on; ``None``: nothing was measured, or the
    finding does not depend on chance."""


@dataclass(frozen=True)
class _Finding:
    """What one test found."""

    answer: Answer
    found: str
    number: Estimate | None = None
    where: str = ""
    trials_needed: int | None = None
    has_chance: bool = True
    """Whether another run might have found something else by chance."""
    opposite: str = ""
    """Opposite finding for what the article may have meant just as well."""
    fails_at: frozenset[int] = frozenset()
    """Our numbers of clients at which a test of several fails."""
    holds_at: frozenset[int] = frozenset()
    """Our numbers of clients, if the test holds at all that were run and is open for the others."""

    @property
    def is_exact(self) -> bool:
        """Whether the finding does not depend on chance."""
        number = self.number
        return not self.has_chance or (
            number is not None and number.low == number.value == number.high
        )

    @property
    def is_open_for_one_trial(self) -> bool:
        """Whether it is open because there is no second trial."""
        number = self.number
        return self.answer is Answer.OPEN and number is not None and number.n < 2

    def within(self, covered: Covered, *decided_at: int) -> "_Finding":
        """Return what the finding means for the whole claim, if only a part of it was run.

        Args:
            covered: what was run of it.
            decided_at: our numbers of clients of which each alone decides, if the test fails.
        """
        fails_at = decided_at if self.answer is Answer.FAILS else ()
        found = replace(self, fails_at=frozenset(fails_at))
        if covered.is_whole:
            return found
        found = replace(found, where=f"{self.where}; {covered}")
        if covered.reaches_end or self.answer is Answer.FAILS:
            return found
        holds_at = covered.here if self.answer is Answer.HOLDS else ()
        return replace(found, answer=Answer.OPEN, trials_needed=None, holds_at=frozenset(holds_at))

    def contradicts(self, other: "_Finding") -> bool:
        """Whether one of the two holds and the other fails, as far as both were run."""
        if {self.answer, other.answer} == _OPPOSITE:
            return True
        return bool(self.fails_at & other.holds_at or self.holds_at & other.fails_at)


def judge(repo: Repo, study_name: str, rerun: Rerun | None = None) -> list[Judgement]:
    """Judge every claim of a study, in the order of its file.

    Args:
        repo: the checkout, for the study file and the published tables.
        study_name: name.
        rerun: with the runs; ``None``: no runs, so that only audits are decided.

    Raises:
        ClaimError: the query of an audit does not return what it must.
    """
    spec = study.load(repo, study_name)
    audited = {one.claim.id: _audited(one) for one in audit.of_study(repo, spec)}
    others = [claim for claim in spec.claims if claim.id not in audited]
    evidence = Evidence(rerun) if rerun else None
    judged = audited | {one.claim.id: one for one in _family(spec.study, others, evidence)}
    return [judged[claim.id] for claim in spec.claims]


def _family(study_name: str, claims: list[Claim], evidence: Evidence | None) -> list[Judgement]:
    """Judge claims with intervals of the confidence that their number requires.

    The confidence is 1 − 0.05 · k / m for m testable claims, with the largest k for which intervals of
    that confidence decide k claims.
    """
    judged = [_judged(study_name, claim, evidence) for claim in claims]
    testable = sum(one.confidence is not None for one in judged)
    tried = testable
    while (decided := sum(_is_decided(one) for one in judged)) < tried:
        tried = decided
        at = evidence.at(1 - (1 - CONFIDENCE) * max(decided, 1) / testable)
        judged = [_judged(study_name, claim, at) for claim in claims]
    return judged


def _is_decided(one: Judgement) -> bool:
    """Whether an interval decided the verdict, so that it may be wrong by chance."""
    return one.verdict in DECIDED and one.confidence is not None


def _audited(audited: audit.Audited) -> Judgement:
    found = words.audited(audited.test, audited.found, more_digits=2)
    return Judgement(audited.study, audited.claim, audited.verdict, found, reason=audited.detail)


def _judged(study_name: str, claim: Claim, evidence: Evidence | None) -> Judgement:
    try:
        finding = _decide(claim, evidence)
    except NotTestable as reason:
        return Judgement(study_name, claim, "not testable here", reason=str(reason))
    verdict, found = _VERDICTS[finding.answer], finding.found
    if finding.opposite:
        verdict, found = "depends", f"{found}; {finding.opposite}"
    for envelope, other in _elsewhere(claim, evidence).items():
        found += f"; {other.found} in the envelope {envelope}"
        if finding.contradicts(other):
            verdict = "depends"
    reasons = [finding.where] if finding.where else []
    if finding.is_open_for_one_trial:
        reasons.append("a single trial has no interval")
    reasons += evidence.other_versions(claim)
    return Judgement(
        study_name,
        claim,
        verdict,
        found,
        finding.number,
        "; ".join(reasons),
        finding.trials_needed if finding.answer is Answer.OPEN else None,
        None if finding.is_exact else evidence.confidence,
    )


def _elsewhere(claim: Claim, evidence: Evidence) -> dict[str, _Finding]:
    """Decide a claim in every other envelope in which its curves were run."""
    found = {}
    for name, other in evidence.elsewhere().items():
        with suppress(NotTestable):
            found[name] = _decide(claim, other)
    return found


def _decide(claim: Claim, evidence: Evidence | None) -> _Finding:
    test = claim.decided_by
    if isinstance(test, Untested):
        raise NotTestable(test.needs)
    if evidence is None:
        raise NotTestable("this study was not rerun here")
    if claim.kind == "absolute" and not evidence.is_of_the_instance_type:
        raise NotTestable(ABSOLUTE)
    try:
        return _combined(test, evidence.counting(claim))
    except stats.RatioToZero as reason:
        raise NotTestable(str(reason)) from reason


def _combined(test: OfCurves, evidence: Evidence) -> _Finding:
    """Decide a test for each of its curves, and combine the findings."""
    if len(test.parts) == 1:
        return _TESTS[type(test)](test.parts[0], evidence)
    found: list[_Finding] = []
    missing: NotTestable | None = None
    for part in test.parts:
        try:
            finding = _TESTS[type(test)](part, evidence)
        except NotTestable as reason:
            missing = missing or reason
        else:
            curve = f"{part.of} {part.of.metric}" if part.of.metric != _THROUGHPUT else f"{part.of}"
            named = ", ".join(filter(None, (curve, finding.where)))
            found.append(replace(finding, where=named))
    if test.take in ("least", "greatest"):
        if missing:
            raise missing
        extreme = min if test.take == "least" else max
        return extreme(found, key=lambda one: one.number.value)
    if test.take == "each":
        if missing:
            raise missing
        return _each(found)
    settled, order = _SETTLED_BY[test.take]
    if missing and not any(one.answer is settled for one in found):
        raise missing
    # among equal answers "any" shows the one most in favour of the claim, "every" the one least
    sign = -1 if test.take == "any" else 1
    return min(found, key=lambda one: (order.index(one.answer), sign * _margin(test, one)))


def _each(found: list[_Finding]) -> _Finding:
    """Return the first finding, or the first one that is open, with the first opposite one."""
    first = next((one for one in found if one.answer is Answer.OPEN), found[0])
    for other in found:
        if {first.answer, other.answer} == _OPPOSITE:
            return replace(first, opposite=f"{other.found} for {other.where}")
    return first


def _margin(test: OfCurves, finding: _Finding) -> float:
    """Logarithm of how far a ratio is inside the range that the claim accepts; 0: no ratio."""
    accepted = words.accepted(test)
    if accepted is None or finding.number is None or finding.number.value <= 0:
        return 0.0
    value = log(finding.number.value)
    low, high = (log(one) if one else -inf for one in accepted)
    return min(value - low, high - value)


#: ``take`` of a test → the answer of one curve that settles the test; all answers in order of
#: precedence.
_SETTLED_BY = {
    "every": (Answer.FAILS, (Answer.FAILS, Answer.OPEN, Answer.HOLDS)),
    "any": (Answer.HOLDS, (Answer.HOLDS, Answer.OPEN, Answer.FAILS)),
}


def _above(test: Above, evidence: Evidence) -> _Finding:
    if test.at == "peak":
        number, sides = _at_peaks(test.of, test.over, evidence)
        answer = stats.exceeds(number, test.by)
        return _of_ratio(answer, number, "by their peaks", sides, (test.by,), evidence)
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
    sides, where = (above[decision.at], below[decision.at]), _clients(evidence, decision.at)
    finding = _of_ratio(decision.answer, decision.number, where, sides, (test.by,), evidence)
    return finding.within(covered, decision.at)


def _ratio(test: Ratio, evidence: Evidence) -> _Finding:
    bounds = (test.value / test.within, test.value * test.within)

    def answer_to(number: Estimate) -> Answer:
        return stats.equivalent(number, test.value, test.within)

    if test.at == "peak":
        number, sides = _at_peaks(test.of, test.over, evidence)
        return _of_ratio(answer_to(number), number, "of their peaks", sides, bounds, evidence)
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
    sides, where = (above[decision.at], below[decision.at]), _clients(evidence, decision.at)
    finding = _of_ratio(decision.answer, decision.number, where, sides, bounds, evidence)
    return finding.within(covered, decision.at)


def _extreme(
    test: Ratio,
    above: Curve,
    below: Curve,
    evidence: Evidence,
    bounds: tuple[float, ...],
    decide: Callable[[Estimate], Answer],
) -> _Finding:
    """Decide a test by the greatest or the least ratio of two curves.

    One that falls short leaves it open if not all of the article's clients were run.
    """
    evidence.require_whole(test.of, test.over)
    _require_several(above, evidence)
    if test.at == "greatest":
        at, number = stats.greatest_ratio(above, below, evidence.confidence)
        falls_short = number.value < test.value
    else:
        at, inverse = stats.greatest_ratio(below, above, evidence.confidence)
        number = _inverse(inverse)
        falls_short = number.value > test.value
    answer, where = decide(number), _clients(evidence, at)
    if answer is Answer.FAILS and falls_short and (rest := evidence.not_run(above)):
        where = f"{where}; the article's {words.listed(rest)} clients were not run"
        return _Finding(Answer.OPEN, words.estimated(number), number, where)
    return _of_ratio(answer, number, where, (above[at], below[at]), bounds, evidence)


def _change(test: Change, evidence: Evidence) -> _Finding:
    curve, not_counted = evidence.curve(test.of), evidence.not_counted(test.of)
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
    sides, where = (curve[decision.at], curve[start]), _clients(evidence, start, decision.at)
    number, accepted = decision.number, bounds[test.direction]
    finding = _of_ratio(decision.answer, number, where, sides, accepted, evidence)
    return finding.within(covered, decision.at)


def _peak(test: Peak, evidence: Evidence) -> _Finding:
    curve = evidence.relative(test.of, test.over) if test.over else evidence.curve(test.of)
    position = stats.peak(curve, evidence.confidence)

    def needed(rival: int) -> int | None:
        # one-sided bounds for all rivals at once, as in stats.peak
        confidence = 1 - 2 * (1 - evidence.confidence) / (len(curve) - 1)
        return stats.trials_to_tell(curve[position.value], curve[rival], confidence=confidence)

    return _position(test, evidence, curve, position, needed)


def _knee(test: Knee, evidence: Evidence) -> _Finding:
    curve = evidence.curve(test.of)

    def needed(rival: int) -> int | None:
        # whether it reaches that share of the peak, as in stats.knee
        confidence = 1 - (1 - evidence.confidence) / (len(curve) - 1)
        highest = curve[stats.peak(curve).value]
        return stats.trials_to_tell(curve[rival], highest, (stats.KNEE,), confidence)

    position = stats.knee(curve, confidence=evidence.confidence)
    return _position(test, evidence, curve, position, needed)


def _position(
    test: Peak | Knee,
    evidence: Evidence,
    curve: Curve,
    position: stats.Position,
    needed: Callable[[int], int | None],
) -> _Finding:
    """Decide where a peak or a knee is.

    ``needed`` returns the trials that would exclude a rival, or include it for sure.
    """
    evidence.require_whole(*test.sides)
    _require_several(curve, evidence)
    low, high = evidence.here(test.first), evidence.here(test.last)
    if not any(low <= one <= high for one in curve):
        clients = words.between(test.first, test.last)
        raise NotTestable(f"no number of clients was run that stands for the article's {clients}")

    def planned(rival: int) -> int | None:
        return _more_than(len(curve[rival]), needed(rival))

    answer = position.between(low, high)
    inside = low <= position.value <= high
    rivals = [one for one in position.possible if (low <= one <= high) != inside]
    trials = [planned(one) for one in rivals]
    possible = ", ".join(str(one) for one in position.possible)
    return _Finding(
        answer,
        f"at {_clients(evidence, position.value)}",
        where=f"cannot be distinguished from {possible}" if len(position.possible) > 1 else "",
        trials_needed=None if None in trials else max(trials, default=None),
    )


def _level(test: Level, evidence: Evidence) -> _Finding:
    bounds = (test.value / test.within, test.value * test.within)
    return _of_values(
        test, evidence, bounds, lambda number: stats.equivalent(number, test.value, test.within)
    )


def _limit(test: Limit, evidence: Evidence) -> _Finding:
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
    decide: Callable[[Estimate], Answer],
) -> _Finding:
    """Decide a test of one curve's values, at every concurrency that it names."""
    curve = evidence.curve(test.of)
    if test.at == "peak":
        covered = Covered([_highest(test.of, evidence, curve)])
    else:
        covered = _covered(test, curve, evidence)

    def estimate(at: int, confidence: float) -> Estimate:
        if test.at == "peak" and test.of.metric == _THROUGHPUT:
            return stats.peak_height(curve, confidence)
        return stats.median(curve[at], confidence)

    decision = stats.everywhere(covered.here, estimate, decide, evidence.confidence)
    number, where = decision.number, _clients(evidence, decision.at)
    if decision.answer is Answer.OPEN and not all(curve[decision.at]):
        where += "; a value of 0 has no interval"
    found = words.estimated(number, test.unit)
    needed = _trials_to_narrow(decision.answer, number, bounds)
    finding = _Finding(decision.answer, found, number, where, needed)
    return finding.within(covered, decision.at)


def _share(test: Share, evidence: Evidence) -> _Finding:
    curve = evidence.curve(test.of)
    covered = _covered(test, curve, evidence)

    def estimate(at: int, confidence: float) -> Estimate:
        return stats.share([value <= test.most for value in curve[at]], confidence)

    def decide(number: Estimate) -> Answer:
        return stats.exceeds(number, test.least_share)

    decision = stats.everywhere(covered.here, estimate, decide, evidence.confidence)
    number = decision.number
    greatest = f"{max(curve[decision.at]):.3g} {test.unit}"
    found = f"{words.estimated(number)} of {number.n:,}, the greatest {greatest}"
    finding = _Finding(decision.answer, found, number, _clients(evidence, decision.at))
    return finding.within(covered, decision.at)


def _bound(test: Bound, evidence: Evidence) -> _Finding:
    """Decide whether one of the named resources bound most trials at each concurrency.

    It fails if at one concurrency none of them bound any trial. One trial decides nothing.
    """
    bound = evidence.bound(test.of)
    covered = _covered(test, bound, evidence)
    at = covered.here
    held = {one: [resource in test.by for resource in bound[one]] for one in at}
    never = [one for one, trials in held.items() if not any(trials)]
    most = all(sum(trials) > len(trials) / 2 for trials in held.values())
    # chance that the answer is wrong, corrected for several concurrencies
    # (Simes, Biometrika 73(3), 1986)
    chance = _WRONGLY_ATTRIBUTED * (len(held) / len(never) if never else 1)
    answer = Answer.FAILS if never else Answer.HOLDS if most else Answer.OPEN
    few = min(len(trials) for trials in held.values())
    if few < 2 or chance > (1 - evidence.confidence) / 2:
        answer = Answer.OPEN
    otherwise = [one for one in at if not all(held[one])]
    shown = Counter(resource for one in (otherwise or at) for resource in bound[one])
    finding = _Finding(
        answer,
        " or ".join(name for name, _ in shown.most_common()),
        where=_clients(evidence, *(otherwise or at)),
        trials_needed=2 if few < 2 else None,
    )
    return finding.within(covered, *never)


def _outcome(test: Outcome, evidence: Evidence) -> _Finding:
    """Decide whether every run had these answers; they do not depend on chance.

    It is open if all other answers only say that nothing was decided.
    """
    runs = [
        {check: answers.get(check, "not checked") for check in test.answers}
        for answers in evidence.outcomes(test.of)
    ]
    wrong = [
        answers
        for answers in runs
        if not all(said in answers[check] for check, said in test.answers.items())
    ]
    answer = Answer.HOLDS
    if wrong:
        others = [
            said
            for answers in wrong
            for check, said in answers.items()
            if test.answers[check] not in said
        ]
        is_open = all(said.startswith(UNDECIDED) for said in others)
        answer = Answer.OPEN if is_open else Answer.FAILS
    return _Finding(answer, words.outcomes((wrong or runs)[0]), has_chance=False)


def _out_of_memory(test: OutOfMemory, evidence: Evidence) -> _Finding:
    """Decide whether every run ran out of memory; this does not depend on chance."""
    at = int(evidence.here(test.at))
    ended = evidence.ran_out_of_memory(test.of, at)
    found = f"{sum(ended)} of {len(ended)} runs ended for want of memory"
    answer = Answer.HOLDS if all(ended) else Answer.OPEN if any(ended) else Answer.FAILS
    return _Finding(answer, found, where=_clients(evidence, at), has_chance=False)


#: Test of a claim → the function that decides it.
_TESTS: dict[type, Callable[..., _Finding]] = {
    Above: _above,
    Ratio: _ratio,
    Change: _change,
    Peak: _peak,
    Knee: _knee,
    Level: _level,
    Limit: _limit,
    Share: _share,
    Bound: _bound,
    Outcome: _outcome,
    OutOfMemory: _out_of_memory,
}


def _curves(test: Above | Ratio, evidence: Evidence) -> tuple[Curve, Curve]:
    """Return both curves of a test at the concurrencies that both have."""
    above, below = evidence.curve(test.of), evidence.curve(test.over)
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
            f"{_clients(evidence, *curve)} alone, where the claim is about a whole curve"
        )


def _whole(test: OfCurves, curve: dict, evidence: Evidence) -> Covered:
    """Return how far a curve covers all concurrencies at which the test's curves were run."""
    not_counted = _not_counted(test, evidence)
    reaches_end = max(curve) > max(not_counted, default=0)
    return Covered(sorted(curve), not_counted=not_counted, reaches_end=reaches_end)


def _not_counted(test: OfCurves, evidence: Evidence) -> dict[int, str]:
    """Return at which of a test's points no run counts; see :meth:`Evidence.not_counted`."""
    return evidence.not_counted(*test.sides, bound=isinstance(test, Bound))


def _on_the_whole(
    test: Above | Ratio,
    above: Curve,
    below: Curve,
    evidence: Evidence,
    bounds: tuple[float, ...],
    decide: Callable[[Estimate], Answer],
) -> _Finding:
    """Decide a test by the geometric mean of the ratios of two curves."""
    _require_several(above, evidence)
    sides = [curve.values() for curve in (above, below)]
    number = stats.mean_ratio(*sides, confidence=evidence.confidence)
    where = f"on average over {_clients(evidence, *above)}"
    answer = decide(number)
    needed = _trials_to_narrow(answer, number, bounds)
    finding = _Finding(answer, words.estimated(number), number, where, needed)
    covered = _whole(test, above, evidence)
    if not covered.reaches_end:  # where the ratio may be quite another
        finding = replace(finding, answer=Answer.OPEN, trials_needed=None)
    return finding.within(covered)


def _at_peaks(
    of: Series, over: Series, evidence: Evidence
) -> tuple[Estimate, tuple[list[float], list[float]]]:
    """Ratio of two curves, each where its throughput is highest, and the values compared."""
    above, below = evidence.curve(of), evidence.curve(over)
    sides = (above[_highest(of, evidence, above)], below[_highest(over, evidence, below)])
    if of.metric == over.metric == _THROUGHPUT:
        return stats.peak_ratio(above, below, evidence.confidence), sides
    return stats.ratio(*sides, evidence.confidence), sides


def _highest(series: Series, evidence: Evidence, curve: Curve) -> int:
    """Return the concurrency at which the throughput of a series is highest.

    Args:
        series: the series.
        evidence: the runs.
        curve: the series' metric, which is to have a value there.

    Raises:
        NotTestable: it has none, or at a point no run counts.
    """
    throughput = series.model_copy(update={"metric": _THROUGHPUT})
    evidence.require_whole(throughput)
    at = stats.peak(evidence.curve(throughput)).value
    if at not in curve:
        raise NotTestable(
            f"no capture of {series} at {at:,} clients, its peak, gives {series.metric}"
        )
    return at


def _of_ratio(
    answer: Answer,
    number: Estimate,
    where: str,
    sides: tuple[list[float], list[float]],
    bounds: tuple[float, ...],
    evidence: Evidence,
) -> _Finding:
    needed = None
    if answer is Answer.OPEN:
        needed = stats.trials_to_tell(*sides, bounds, evidence.confidence)
        needed = _more_than(number.n, needed)
    return _Finding(answer, words.estimated(number), number, where, needed)


def _more_than(there: int, needed: int | None) -> int | None:
    """Return how many trials are needed; from few trials, the estimate may be no more than those."""
    return needed and max(needed, there + 1)


def _trials_to_narrow(answer: Answer, number: Estimate, bounds: tuple[float, ...]) -> int | None:
    return stats.trials_to_narrow(number, bounds) if answer is Answer.OPEN else None


def _inverse(number: Estimate) -> Estimate:
    """Return the inverse of a number that is not negative; that of zero is infinite."""

    def inverse(value: float | None) -> float | None:
        return None if value is None else 1 / value if value else inf

    bounds = inverse(number.high), inverse(number.low)
    return Estimate(inverse(number.value), *bounds, number.n)


def _clients(evidence: Evidence, *here: int) -> str:
    ours, theirs = (
        ", ".join(f"{one:,g}" for one in side) for side in (here, map(evidence.in_article, here))
    )
    text = f"{ours} {'client' if here == (1,) else 'clients'}"
    return text if ours == theirs else f"{text} (the article's {theirs})"
