"""Verdicts as tables: what an article claims, what the runs show, and the conclusion."""

from collections.abc import Iterable
from typing import get_args

import polars as pl

from benchlab.claims import words
from benchlab.claims.judge import Judgement
from benchlab.study.claims import Audit, Verdict

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def of_runs(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return the verdicts on claims that need runs; audits are left out."""
    return [one for one in judgements if not isinstance(one.claim.decided_by, Audit)]


def table(judgements: Iterable[Judgement]) -> pl.DataFrame:
    """Return one row per claim, in the article's order.

    Columns: ``id``, ``claim``, ``article`` (the condition of its test), ``here`` (what the runs show),
    ``verdict``, ``why`` (where the deciding number is, which versions are not the article's, or what is
    missing).
    """
    rows = [
        (
            one.claim.id,
            one.claim.claim,
            words.condition(one.claim.decided_by),
            one.found,
            one.verdict,
            _why(one),
        )
        for one in judgements
    ]
    columns = ("id", "claim", "article", "here", "verdict", "why")
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def ratios(judgements: Iterable[Judgement]) -> pl.DataFrame:
    """Return the claims whose verdicts rest on a ratio, in the article's order.

    Columns: ``claim``, ``verdict``, ``value`` with ``low`` and ``high`` (of the confidence of the
    verdict; null if there is no interval), ``from`` and ``to`` (range of ratios for which the claim
    holds; 0 or infinity if it has no bound there).
    """
    rows = []
    for one in judgements:
        accepted = words.accepted(one.claim.decided_by)
        if accepted and one.number:
            number = one.number
            rows.append(
                (one.claim.claim, one.verdict, number.value, number.low, number.high, *accepted)
            )
    numbers = dict.fromkeys(("value", "low", "high", "from", "to"), pl.Float64)
    schema = {"claim": pl.String, "verdict": pl.String, **numbers}
    return pl.DataFrame(rows, schema=schema, orient="row")


def summary(judgements: Iterable[Judgement]) -> pl.DataFrame:
    """Return how many claims of each study have which verdict, separately for runs and audits.

    Columns: ``study``, ``decided_by`` (*runs* or *audit*), ``verdict``, ``claims``.
    """
    rows = [
        (one.study, "audit" if isinstance(one.claim.decided_by, Audit) else "runs", one.verdict)
        for one in judgements
    ]
    schema = dict.fromkeys(("study", "decided_by", "verdict"), pl.String)
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return (
        frame.group_by("study", "decided_by", "verdict", maintain_order=True)
        .agg(pl.len().alias("claims"))
        .sort(pl.col("verdict").cast(pl.Enum(VERDICTS)), maintain_order=True)
    )


def _why(one: Judgement) -> str:
    if one.trials_needed:
        return f"{one.reason}; about {one.trials_needed:,} trials of each point would decide"
    return one.reason
