"""Agreement: the verdicts of a rerun beside those of other reruns of its study and profile."""

from collections.abc import Sequence

import polars as pl

from benchlab.claims import reruns, stability
from benchlab.claims.judge import Judgement, judge
from benchlab.claims.reruns import Judged
from benchlab.repo import Repo
from benchlab.store.results import Rerun

#: Heading of the day on which another rerun began.
_BEGUN = "other rerun begun"


def others(repo: Repo, rerun: Rerun, shipped: Rerun | None) -> list[Judged]:
    """Return the other reruns to compare with: those recorded, and last the reference.

    Args:
        repo: the checkout.
        rerun: the reader's.
        shipped: the reference's; left out if it has another profile.
    """
    found = reruns.read(repo, rerun)
    if shipped and shipped.profile == rerun.profile:
        found.append(reruns.judged(shipped, judge(repo, shipped.study.study, shipped)))
    return found


def summary(own: Judged, compared: Sequence[Judged]) -> pl.DataFrame:
    """Return one row per other rerun: on how many claims it agrees with this one.

    Columns: ``other rerun begun``, ``its CPU``, ``its runs``, ``tested by one`` (claims that the other
    one of the two could not test), ``tested by both``, and of these ``agree``, ``same verdict`` and
    ``opposite``; see :mod:`benchlab.claims.stability`.
    """
    rows = []
    for other in compared:
        found = stability.compare(own.verdicts, other.verdicts)
        claims = (found.tested_once, len(found.pairs), found.agreeing, found.same, found.opposite)
        rows.append((_day(other), other.cpu_models, other.runs, *claims))
    of_claims = ("tested by one", "tested by both", "agree", "same verdict", "opposite")
    numbers = ("its runs", *of_claims)
    schema = {_BEGUN: pl.String, "its CPU": pl.String, **dict.fromkeys(numbers, pl.Int64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def differing(own: Judged, compared: Sequence[Judged]) -> pl.DataFrame:
    """Return one row per verdict of two reruns that differs where both tested the claim.

    Columns: ``claim``, ``here``, ``there`` (verdict, and what was found), ``agree`` (*yes* or *no*) and
    ``other rerun begun``.
    """
    rows = [
        (
            one.claim.claim,
            _shown(one),
            _shown(that),
            "yes" if stability.agree(one, that) else "no",
            _day(other),
        )
        for other in compared
        for one, that in stability.compare(own.verdicts, other.verdicts).differing
    ]
    schema = dict.fromkeys(("claim", "here", "there", "agree", _BEGUN), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _day(one: Judged) -> str:
    return one.begun.date().isoformat()


def _shown(one: Judgement) -> str:
    return f"{one.verdict}: {one.found or one.reason}"
