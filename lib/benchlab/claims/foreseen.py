"""Foreseen: which claims a plan cannot decide, whatever its runs will measure.

They are reported before anything runs, so that hours of measuring do not end with *not testable
here*.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from benchlab.claims.evidence import not_run_about
from benchlab.gate.steady import LEAST_S, WRITEBACK_S
from benchlab.plan import Batch, Plan
from benchlab.study import DEFAULT_ENVELOPE, PROFILES, Instance, Study
from benchlab.study.claims import (
    ABSOLUTE,
    Above,
    Audit,
    Bound,
    Change,
    Claim,
    Level,
    Limit,
    OfCurves,
    Outcome,
    OutOfMemory,
    Peak,
    Ratio,
    Series,
    Share,
    Together,
    Untested,
    clients_here,
    of_other_load,
)
from benchlab.study.intervention import LimitBlocks, OutcomeChecks, SingleWrites
from benchlab.study.vocabulary import OF_CLAIMS
from benchlab.workloads import tables_of

#: Engine, variant, workload, and type of what is done in the run (``type(None)``: nothing).
_Key = tuple[str, str, str, type]


@dataclass
class _CurveRuns:
    """The runs of a curve in a plan: numbers of clients, lengths of warm-ups and measured parts.

    A run that goes on until it is steady warms up and is measured for as long as it takes.
    """

    clients: set[int] = field(default_factory=set)
    warmups_s: set[float] = field(default_factory=set)
    measured_s: set[float] = field(default_factory=set)


def undecidable(study: Study, instance: Instance, plan: Plan) -> Iterator[tuple[Claim, str]]:
    """Yield every claim that no run of a plan will decide, with the reason.

    Left out are claims that no run of any plan decides: audits, claims that others decide together, and
    claims whose test needs what benchlab does not measure yet.

    Args:
        study: with the claims.
        instance: the instance type that the study names.
        plan: of the study.
    """
    for claim, reason, can_refute in _not_confirmed(study, instance, plan):
        if not can_refute:
            yield claim, reason


def only_refutable(study: Study, instance: Instance, plan: Plan) -> Iterator[tuple[Claim, str]]:
    """Yield every claim that runs of a plan can refute but not confirm, with the reason.

    These are claims about several curves, some of which cannot be judged.

    Args:
        study: see :func:`undecidable`.
        instance: see :func:`undecidable`.
        plan: see :func:`undecidable`.
    """
    for claim, reason, can_refute in _not_confirmed(study, instance, plan):
        if can_refute:
            yield claim, reason


def _not_confirmed(
    study: Study, instance: Instance, plan: Plan
) -> Iterator[tuple[Claim, str, bool]]:
    """Yield every claim that no run can confirm, with the reason, and whether one can refute it."""
    run = _by_curve(plan)
    limits = plan.trials[0].point.envelope if plan.trials else None
    cores = limits.cores if limits else instance.cores
    scaled = limits and (limits.enforce or cores != instance.cores)
    for claim in study.claims:
        if isinstance(claim.decided_by, Audit | Together | Untested):
            continue
        if claim.kind == "absolute" and scaled:
            yield claim, ABSOLUTE, False
            continue
        scale = scale_of(study, claim, cores / instance.cores)
        if reason := of_other_load(claim, scale != 1, cores, instance.cores):
            yield claim, reason, False
            continue
        parts = _reasons(study, claim, run, scale, plan.profile)
        if reasons := [reason for reason in parts if reason]:
            # one curve of several that contradicts settles it alone
            is_of_every = claim.decided_by.take == "every"
            yield claim, reasons[0], is_of_every and len(reasons) < len(parts)


def scale_of(study: Study, claim: Claim, share_of_cores: float) -> float:
    """Return how many clients here correspond to one of a claim's; see :func:`clients_here`.

    Args:
        study: with the claim.
        claim: names the article's numbers of clients.
        share_of_cores: cores here as a share of the instance type's cores.
    """
    return share_of_cores if claim.counts_per_core(study.clients_per_core) else 1.0


def _by_curve(plan: Plan) -> dict[_Key, _CurveRuns]:
    """Return the runs in the main envelope, by the key of a series."""
    found: dict[_Key, _CurveRuns] = {}
    for batch in plan.batches:
        if not batch.is_open and not isinstance(batch.intervention, LimitBlocks):
            for trial in batch.trials:
                point = trial.point
                *curve, envelope = point.curve
                if envelope == DEFAULT_ENVELOPE:
                    for done in _done_by(batch):
                        of_curve = found.setdefault((*curve, done), _CurveRuns())
                        of_curve.clients.add(point.concurrency)
                        of_curve.warmups_s.add(inf if point.longest_s else point.warmup_s)
                        of_curve.measured_s.add(inf if point.longest_s else point.measure_s)
    return found


def _reasons(
    study: Study,
    claim: Claim,
    run: dict[_Key, _CurveRuns],
    scale: float,
    profile: str,
) -> list[str | None]:
    """Return for each part of a claim's test why a plan cannot decide it; ``None`` if it can."""
    done = _done_in(claim)
    return [
        _reason_of_part(study, part, run, scale, profile, done) for part in claim.decided_by.parts
    ]


def _reason_of_part(
    study: Study,
    test: OfCurves,
    run: dict[_Key, _CurveRuns],
    scale: float,
    profile: str,
    done: type,
) -> str | None:
    for series in test.sides:
        if _key(series, done) not in run:
            return f"profile {profile} does not run {series}"
        if not _needs_steady(test, series, done):
            continue
        curve = run[_key(series, done)]
        if (measured_s := max(curve.measured_s)) < LEAST_S:
            return (
                f"profile {profile} measures for {measured_s} s, which are too short to tell whether a"
                f" run was steady: that takes {LEAST_S} s"
            )
        warmup_s = max(curve.warmups_s)
        if warmup_s < WRITEBACK_S and study.workloads[series.workload].writes:
            return (
                f"profile {profile} warms up for {warmup_s} s; a workload that writes needs"
                f" {WRITEBACK_S} s"
            )
    there = set.intersection(*(run[_key(one, done)].clients for one in test.sides))
    if lacking := _lacking(study, test, there, scale):
        who = "no profile runs" if _in_none(study, test, scale) else f"{profile} does not run"
        return f"{_clients(lacking, scale)}, which {who}"
    if _is_of_a_whole_curve(test) and len(there) == 1:
        return f"a claim about a whole curve; {profile} runs one number of clients ({min(there):,})"
    return None


def _needs_steady(test: OfCurves, series: Series, done: type) -> bool:
    """Whether only steady runs count for a series."""
    return not (
        isinstance(test, OutOfMemory)
        or done is not type(None)
        or OF_CLAIMS[series.metric].is_of_the_dataset
    )


def _is_of_a_whole_curve(test: OfCurves) -> bool:
    """Whether a test is about a curve as a whole, so that one number of clients decides nothing."""
    at = getattr(test, "at", None)
    return isinstance(test, Peak) or at in ("overall", "greatest", "least")


def _lacking(study: Study, test: OfCurves, there: set[int], scale: float) -> list[int]:
    """Return the article's concurrencies that a test needs and that are missing."""
    match test:
        case Change():
            lacking = [test.start] if clients_here(test.start, scale) not in there else []
            return lacking + _none_of(test.end, there, scale)
        case Peak():
            first, last = (clients_here(one, scale) for one in (test.first, test.last))
            if not any(first <= one <= last for one in there):
                return sorted({test.first, test.last})
            in_article = {one: clients_here(one, scale) for one in study.clients_in_article}
            within, rivals = not_run_about((first, last), in_article, there)
            # a peak within the range could not be confirmed, nor one elsewhere refute the claim
            return sorted(rivals + within) if rivals and within else []
        case OutOfMemory():
            return _none_of(test.at, there, scale)
        case Above() | Ratio() | Level() | Limit() | Share() | Bound() if not isinstance(
            test.at, str
        ):
            return _none_of(test.at, there, scale)
    return []


def _none_of(in_article: int | list[int], there: set[int], scale: float) -> list[int]:
    """Return the article's concurrencies if none of them is there, else an empty list."""
    listed = [in_article] if isinstance(in_article, int) else in_article
    return [] if any(clients_here(one, scale) in there for one in listed) else listed


def _clients(in_article: list[int], scale: float) -> str:
    """Name the numbers of clients here, and the article's if they differ."""
    theirs, here = (
        ", ".join(f"{one:,g}" for one in side)
        for side in (in_article, [clients_here(one, scale) for one in in_article])
    )
    return f"{here} clients" + (f" (the article's {theirs})" if here != theirs else "")


def _in_none(study: Study, test: OfCurves, scale: float) -> bool:
    """Whether no profile runs the concurrencies that a test needs."""
    every = set()
    for name in PROFILES:
        if name in study.profiles:
            every.update(study.profiles[name].concurrency)
    every.update(one for block in study.matrix for one in block.concurrency or ())
    return bool(_lacking(study, test, every, scale))


def _done_by(batch: Batch) -> Iterator[type]:
    """Yield the types of what is done in the runs of a batch; checks may follow a plain load."""
    yield type(batch.intervention)
    if batch.intervention is None and tables_of(batch.trials[0].point.dataset).checks_after_load:
        yield OutcomeChecks


def _done_in(claim: Claim) -> type:
    """Return the type of what is done in the runs that a claim's test uses."""
    if isinstance(claim.decided_by, Outcome):
        return OutcomeChecks
    return SingleWrites if claim.is_of_single_writes else type(None)


def _key(series: Series, done: type) -> _Key:
    return series.engine, series.variant, series.workload, done
