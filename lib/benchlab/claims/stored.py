"""The tables ``published``, ``claim`` and ``verdict``: what articles claim, and what runs show."""

import polars as pl

from benchlab import study
from benchlab.claims import published, words
from benchlab.claims.judge import Judgement, judge
from benchlab.repo import Repo
from benchlab.store import Store, results
from benchlab.store.results import Rerun

_CLAIM = {
    "study": pl.String,
    "claim": pl.String,
    "position": pl.Int32,
    "article_where": pl.String,
    "kind": pl.String,
    "text": pl.String,
    "test": pl.String,
    "condition": pl.String,
}

_VERDICT = {
    "study": pl.String,
    "profile": pl.String,
    "target": pl.String,
    "claim": pl.String,
    "verdict": pl.String,
    "found": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int32,
    "reason": pl.String,
    "trials_needed": pl.Int32,
    "confidence": pl.Float64,
}


def write(repo: Repo, store: Store) -> None:
    """Rebuild the three tables: judge every claim for every profile and target that was run.

    A study without runs has verdicts, too; only its audits are decided. Their profile and target are
    null.

    Raises:
        ClaimError: the query of an audit does not return what it must; the tables stay as they were.
    """
    names = study.names(repo)
    store.replace(
        {
            "published": published.numbers(repo),
            "claim": claims(repo, names),
            "verdict": verdicts(repo, store, names),
        }
    )


def verdicts(repo: Repo, store: Store, names: list[str]) -> pl.DataFrame:
    """Return the table ``verdict`` of these studies, from the runs of a store.

    Raises:
        ClaimError: the query of an audit does not return what it must.
    """
    judged = [row for name in names for row in _verdicts(repo, store, name)]
    return pl.DataFrame(judged, schema=_VERDICT, orient="row")


def claims(repo: Repo, names: list[str]) -> pl.DataFrame:
    """Return every claim of these studies and its test's condition.

    ``position`` is the place of the claim in its study file, from 0.
    """
    rows = [
        (
            name,
            claim.id,
            position,
            claim.where,
            claim.kind,
            claim.claim,
            claim.decided_by.test,
            words.condition(claim.decided_by),
        )
        for name in names
        for position, claim in enumerate(study.load(repo, name).claims)
    ]
    return pl.DataFrame(rows, schema=_CLAIM, orient="row")


def _verdicts(repo: Repo, store: Store, name: str) -> list[tuple]:
    profiles = study.load(repo, name).profiles
    reruns = [
        results.open_rerun(repo, store, name, profile, target)
        for profile, target in results.ran(store, name)
        if profile in profiles  # it may have had another name when it was run
    ]
    return [_row(one, rerun) for rerun in reruns or [None] for one in judge(repo, name, rerun)]


def _row(one: Judgement, rerun: Rerun | None) -> tuple:
    number = one.number
    return (
        one.study,
        rerun and rerun.profile,
        rerun and rerun.target,
        one.claim.id,
        one.verdict,
        one.found,
        *((number.value, number.low, number.high, number.n) if number else (None,) * 4),
        one.reason,
        one.trials_needed,
        one.confidence,
    )
