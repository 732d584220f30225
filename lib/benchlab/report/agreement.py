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
    """Return one row per other rerun: how many verdicts are the same, and how many the opposite.

    Columns: ``other rerun begun``, ``its CPU``, ``its runs``, ``testable claims`` (by at least one of
    the two), ``the same verdict``, ``opposite``.
    """
    rows = []
    for other in compared:
        found = stability.compare(own.verdicts, other.verdicts)
        same = found.testable - len(found.differing)
        rows.append(
            (_day(other), other.cpu_models, other.runs, found.testable, same, found.opposite)
        )
    numbers = ("its runs", "testable claims", "the same verdict", "opposite")
    schema = {_BEGUN: pl.String, "its CPU": pl.String, **dict.fromkeys(numbers, pl.Int64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def differing(own: Judged, compared: Sequence[Judged]) -> pl.DataFrame:
    """Return one row per verdict that differs.

    Columns: ``claim``, ``here``, ``there`` (verdict, and what was found or why nothing is decided) and
    ``other rerun begun``.
    """
    rows = [
        (one.claim.claim, _shown(one), _shown(that), _day(other))
        for other in compared
        for one, that in stability.compare(own.verdicts, other.verdicts).differing
    ]
    schema = dict.fromkeys(("claim", "here", "there", _BEGUN), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _day(one: Judged) -> str:
    return one.begun.date().isoformat()


def _shown(one: Judgement) -> str:
    return f"{one.verdict}: {one.found or one.reason}"
