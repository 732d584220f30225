"""Judge: decide a study's claims by the runs of one profile on one target.

The verdicts:

- *reproduced*: the test holds;
- *not reproduced*: it does not hold;
- *inconclusive*: there are too few trials to decide, and the verdict says how many would be enough; or
  nothing run here contradicts the claim, and the far end of its range was not run, or clients at
  which a curve may be as high as at its peak; or a curve still rises where it was not run further;
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

from contextlib import suppress
from dataclasses import dataclass

from benchlab import stats, study
from benchlab.claims import audit, words
from benchlab.claims.decide import decide
from benchlab.claims.evidence import Evidence
from benchlab.claims.finding import Finding
from benchlab.claims.runs import NotTestable
from benchlab.repo import Repo
from benchlab.stats import CONFIDENCE, Answer, Estimate
from benchlab.store.results import Rerun
from benchlab.study import Study
from benchlab.study.claims import ABSOLUTE, Claim, Together, Untested, Verdict

_VERDICTS: dict[Answer, Verdict] = {
    Answer.HOLDS: "reproduced",
    Answer.FAILS: "not reproduced",
    Answer.OPEN: "inconclusive",
}

#: Order in which verdicts on several claims decide what they say together.
_PRECEDENCE: tuple[Verdict, ...] = (
    "not reproduced",
    "depends",
    "not testable here",
    "inconclusive",
    "reproduced",
)

#: Verdicts that a measurement decided.
DECIDED = ("reproduced", "not reproduced", "depends")


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


def judge(repo: Repo, study_name: str, rerun: Rerun | None = None) -> list[Judgement]:
    """Judge every claim of a study, in the order of its file.

    Args:
        repo: the checkout, for the study file and the published tables.
        study_name: name.
        rerun: with the runs; ``None``: no runs, so that only audits are decided.

    Raises:
        ClaimError: the query of an audit does not return what it must.
    """
    return judge_claims(repo, study.load(repo, study_name), rerun)


def judge_claims(repo: Repo, spec: Study, rerun: Rerun | None) -> list[Judgement]:
    """Judge every claim of a study; see :func:`judge`.

    Args:
        repo: the checkout, for the published tables.
        spec: the study.
        rerun: with the runs.
    """
    audited = {one.claim.id: _audited(one) for one in audit.of_study(repo, spec)}
    together = [claim for claim in spec.claims if isinstance(claim.decided_by, Together)]
    others = [one for one in spec.claims if one.id not in audited and one not in together]
    evidence = Evidence.of(rerun) if rerun else None
    judged = audited | {one.claim.id: one for one in _family(spec.study, others, evidence)}
    for claim in together:
        of_others = [judged[name] for name in claim.decided_by.claims]
        judged[claim.id] = _together(spec.study, claim, of_others)
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
        at = evidence.with_confidence(1 - (1 - CONFIDENCE) * max(decided, 1) / testable)
        judged = [
            # without an interval nothing depends on its confidence
            one if one.confidence is None else _judged(study_name, one.claim, at)
            for one in judged
        ]
    return judged


def _is_decided(one: Judgement) -> bool:
    """Whether an interval decided the verdict, so that it may be wrong by chance."""
    return one.verdict in DECIDED and one.confidence is not None


def _together(study_name: str, claim: Claim, others: list[Judgement]) -> Judgement:
    """Judge a claim by the verdicts on others; it has no chance of its own to be wrong."""
    verdict = min((one.verdict for one in others), key=_PRECEDENCE.index)
    named = " ".join(one.claim.claim.strip() for one in others if one.verdict == verdict)
    held = sum(one.verdict == "reproduced" for one in others)
    reason = "" if verdict == "reproduced" else f"{verdict}: {named}"
    return Judgement(
        study_name, claim, verdict, f"{held} of {len(others)} are reproduced", reason=reason
    )


def _audited(audited: audit.Audited) -> Judgement:
    found = words.audited(audited.test, audited.found, more_digits=2)
    return Judgement(audited.study, audited.claim, audited.verdict, found, reason=audited.detail)


def _judged(study_name: str, claim: Claim, evidence: Evidence | None) -> Judgement:
    try:
        finding = _finding(claim, evidence)
    except NotTestable as reason:
        return Judgement(study_name, claim, "not testable here", reason=str(reason))
    verdict, found = _VERDICTS[finding.answer], finding.found
    if finding.others:
        found = f"{found}; {finding.others}"
    if finding.has_opposite:
        verdict = "depends"
    reasons = [finding.where] if finding.where else []
    for envelope, other in _elsewhere(claim, evidence).items():
        reasons.append(
            ": ".join(filter(None, (f"in the envelope {envelope}, {other.found}", other.where)))
        )
        if finding.contradicts(other):
            verdict = "depends"
    if finding.lacks_interval:
        reasons.append(finding.lacks_interval)
    reasons += evidence.runs.other_versions(claim)
    # a trial has several single writes, and the number needed would be of these
    plans_trials = finding.answer is Answer.OPEN and not claim.is_of_single_writes
    return Judgement(
        study_name,
        claim,
        verdict,
        found,
        finding.number,
        "; ".join(reasons),
        finding.trials_needed if plans_trials else None,
        None if finding.is_exact else evidence.confidence,
    )


def _elsewhere(claim: Claim, evidence: Evidence) -> dict[str, Finding]:
    """Decide a claim in every other envelope in which its curves were run."""
    found = {}
    for name, other in evidence.elsewhere().items():
        with suppress(NotTestable):
            found[name] = _finding(claim, other)
    return found


def _finding(claim: Claim, evidence: Evidence | None) -> Finding:
    test = claim.decided_by
    if isinstance(test, Untested):
        raise NotTestable(test.needs)
    if evidence is None:
        raise NotTestable("this study was not rerun here")
    if claim.kind == "absolute" and not evidence.runs.is_of_the_instance_type:
        raise NotTestable(ABSOLUTE)
    try:
        return decide(test, evidence.for_claim(claim))
    except stats.RatioToZero as reason:
        raise NotTestable(str(reason)) from reason
