"""Other reruns: verdicts in ``data/reruns.csv``, to compare those of a rerun with.

The file keeps them as judged when they were recorded: those of a rerun that was the reference before,
and those that `benchlab verdicts --record` added. So reruns on several machines can be compared without
the runs of all of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from benchlab.claims.judge import Judgement, judge
from benchlab.errors import NoRuns
from benchlab.repo import Repo
from benchlab.stats import Estimate
from benchlab.store import Store, metrics, open_any, results
from benchlab.store.results import Rerun
from benchlab.study.claims import Audit, Claim, OutOfMemory

_RERUN = ("study", "profile", "begun", "cpu_models", "runs")
_CLAIM = ("claim", "test", "verdict", "found", "reason")
#: Columns of the number that decided; null without one.
_NUMBER = ("value", "low", "high", "n")
_SCHEMA = {
    **dict.fromkeys(_RERUN + _CLAIM, pl.String),
    **dict.fromkeys(_NUMBER, pl.Float64),
    "runs": pl.Int64,
    "n": pl.Int64,
}


@dataclass(frozen=True)
class Judged:
    """A rerun's verdicts on the claims that need runs, about curves that it has."""

    begun: datetime
    """When its first run began."""
    cpu_models: str
    """Of its hosts, separated by commas."""
    runs: int
    """How many ended well."""
    verdicts: list[Judgement]


def judged(rerun: Rerun, judgements: Iterable[Judgement]) -> Judged:
    """Leave out audits, and claims about curves of which a rerun has no run.

    A claim about running out of memory also uses runs that ended that way.

    Args:
        rerun: the rerun.
        judgements: the verdicts on all claims of its study.
    """
    ended_well = rerun.last.filter(status="ok")
    models = rerun.of_runs(metrics.SPEEDS, ended_well)["cpu_model"].drop_nulls().unique().sort()
    curves, ended_curves = (
        set(runs.select("engine", "variant", "workload").rows())
        for runs in (rerun.last, ended_well)
    )

    def was_run(claim: Claim) -> bool:
        run = curves if isinstance(claim.decided_by, OutOfMemory) else ended_curves
        return run.issuperset((one.engine, one.variant, one.workload) for _, one in claim.series)

    of_runs = {
        claim.id
        for claim in rerun.study.claims
        if not isinstance(claim.decided_by, Audit) and was_run(claim)
    }
    return Judged(
        rerun.began,
        ", ".join(models),
        ended_well.height,
        [
            one
            for one in judgements
            if one.claim.id in of_runs
            and of_runs.issuperset(getattr(one.claim.decided_by, "claims", ()))
        ],
    )


def record(repo: Repo, reruns: Iterable[tuple[Rerun, Iterable[Judgement]]]) -> None:
    """Add the verdicts of reruns, in place of those that were recorded of the same reruns.

    Args:
        repo: the checkout.
        reruns: each with the verdicts on all claims of its study.
    """
    rows = [row for one in reruns for row in _rows(*one)]
    if not rows:
        return
    added = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    others = _read(repo).join(added, on=["study", "profile", "begun"], how="anti")
    found = pl.concat([others, added]).sort("study", "profile", "begun", maintain_order=True)
    found.write_csv(repo.reruns)


def record_replaced(repo: Repo, own: Store) -> None:
    """Record the reference's reruns that a store's reruns are about to replace.

    A rerun that has a run of the reference's continues it, so it is not another one.
    """
    try:
        reference = open_any(repo.reference)
    except NoRuns:
        return
    with reference:
        record(
            repo,
            [
                (old, judge(repo, name, old))
                for name in results.studies(own)
                if (now := results.find_rerun(repo, own, name))
                if (old := results.find_rerun(repo, reference, name))
                if not share_runs(old, now)
            ],
        )


def read(repo: Repo, rerun: Rerun) -> list[Judged]:
    """Return the recorded reruns of a rerun's study and profile except itself, oldest first.

    Their verdicts are only those on claims whose test is the present one.
    """
    name, claims = rerun.study.study, {one.id: one for one in rerun.study.claims}
    rows = _read(repo).filter(study=name, profile=rerun.profile)
    others = rows.filter(pl.col("begun") != _begun(rerun)).sort("begun", maintain_order=True)
    return [
        Judged(
            datetime.fromisoformat(begun),
            cpu_models,
            runs,
            [
                Judgement(
                    name,
                    claims[claim],
                    verdict,
                    found,
                    Estimate(*number) if number[0] is not None else None,
                    reason,
                )
                for claim, test, verdict, found, reason, *number in of_rerun.select(
                    _CLAIM + _NUMBER
                ).iter_rows()
                if claim in claims and _test(claims[claim]) == test
            ],
        )
        for (begun, cpu_models, runs), of_rerun in others.group_by(_RERUN[2:], maintain_order=True)
    ]


def share_runs(one: Rerun, other: Rerun) -> bool:
    """Whether two reruns have a run in common, so that one continues the other."""
    return not one.last.join(other.last, on="run_id", how="semi").is_empty()


def _rows(rerun: Rerun, judgements: Iterable[Judgement]) -> list[tuple]:
    found = judged(rerun, judgements)
    of_rerun = (rerun.study.study, rerun.profile, _begun(rerun), found.cpu_models, found.runs)
    return [
        (
            *of_rerun,
            *(one.claim.id, _test(one.claim), one.verdict, one.found, one.reason),
            *(getattr(one.number, name, None) for name in _NUMBER),
        )
        for one in found.verdicts
    ]


def _begun(rerun: Rerun) -> str:
    """When a rerun began, to the microsecond: this tells it from others of its study and profile."""
    return rerun.began.astimezone(UTC).isoformat(timespec="microseconds")


def _test(claim: Claim) -> str:
    """Write a claim's test, to see whether it has changed."""
    return claim.decided_by.model_dump_json(exclude_defaults=True)


def _read(repo: Repo) -> pl.DataFrame:
    if not repo.reruns.is_file():
        return pl.DataFrame(schema=_SCHEMA)
    return pl.read_csv(repo.reruns, schema=_SCHEMA).with_columns(pl.col(pl.String).fill_null(""))
