"""Foreseen: which claims a plan cannot decide, whatever its runs will measure.

Said before anything runs, so that hours of measuring do not end with *not testable here*.
"""

from collections.abc import Iterator

from benchlab.plan import Plan
from benchlab.study import DEFAULT_ENVELOPE, PROFILES, Instance, Study
from benchlab.study.claims import (
    Above,
    Audit,
    Bound,
    Change,
    Claim,
    Knee,
    Level,
    OfCurves,
    Peak,
    Ratio,
    Series,
    Untested,
)


def undecidable(study: Study, instance: Instance, plan: Plan) -> Iterator[tuple[Claim, str]]:
    """Yield every claim that no run of a plan will decide, with the reason.

    Claims that no run of any plan decides (audits, and those whose test needs what benchlab does not
    measure yet) are none of these.

    Args:
        study: with the claims.
        instance: the instance type that the study names.
        plan: of the study.
    """
    run = _concurrencies(plan)
    limits = plan.trials[0].point.envelope if plan.trials else None
    cores = limits.cores if limits else instance.cores
    scaled = limits and (limits.enforce or cores != instance.cores)
    for claim in study.claims:
        if isinstance(claim.decided_by, Audit | Untested):
            continue
        if claim.kind == "absolute" and scaled:
            yield claim, "an absolute number, judged on the article's instance type only"
        elif reason := _reason(study, claim, run, cores / instance.cores, plan.profile):
            yield claim, reason


def _concurrencies(plan: Plan) -> dict[tuple[str, str, str], set[int]]:
    """Engine, variant and workload → the numbers of clients that are run in the main envelope."""
    found: dict[tuple[str, str, str], set[int]] = {}
    for curve in plan.curves:
        if curve.envelope == DEFAULT_ENVELOPE and not curve.is_open and not curve.intervention:
            of_curve = found.setdefault((curve.engine, curve.variant, curve.workload), set())
            of_curve.update(trial.point.concurrency for trial in curve.trials)
    return found


def _reason(
    study: Study,
    claim: Claim,
    run: dict[tuple[str, str, str], set[int]],
    share_of_cores: float,
    profile: str,
) -> str | None:
    for _, series in claim.series:
        if _key(series) not in run:
            return f"profile {profile} does not run {series}"
    per_core = study.clients_per_core if claim.clients_per_core is None else claim.clients_per_core
    scale = share_of_cores if per_core else 1.0
    for part in claim.decided_by.parts:
        sides = [run[_key(one)] for one in (part.of, getattr(part, "over", None)) if one]
        if lacking := _lacking(part, set.intersection(*sides), scale):
            who = "no profile runs" if _in_none(study, part, scale) else f"{profile} does not run"
            return f"{_clients(lacking, scale)}, which {who}"
    return None


def _lacking(test: OfCurves, there: set[int], scale: float) -> list[int]:
    """Return the article's concurrencies without which a test is not decided, if they are missing."""
    match test:
        case Change():
            return [one for one in (test.start, test.end) if one * scale not in there]
        case Peak() | Knee():
            first, last = test.first * scale, test.last * scale
            inside = any(first <= one <= last for one in there)
            return [] if inside else sorted({test.first, test.last})
        case Above() | Bound() if isinstance(test.at, list):
            return [] if any(one * scale in there for one in test.at) else test.at
        case Ratio() | Level() if isinstance(test.at, int):
            return [] if test.at * scale in there else [test.at]
    return []


def _clients(in_article: list[int], scale: float) -> str:
    """Name the article's clients, and how many these are here."""
    theirs, here = (
        ", ".join(f"{one:,g}" for one in side)
        for side in (in_article, [one * scale for one in in_article])
    )
    return f"{here} clients" + (f" (the article's {theirs})" if here != theirs else "")


def _in_none(study: Study, test: OfCurves, scale: float) -> bool:
    """Whether no profile runs what a test lacks."""
    every = set()
    for name in PROFILES:
        if name in study.profiles:
            every.update(study.profiles[name].concurrency)
    every.update(one for block in study.matrix for one in block.concurrency or ())
    return bool(_lacking(test, every, scale))


def _key(series: Series) -> tuple[str, str, str]:
    return series.engine, series.variant, series.workload
