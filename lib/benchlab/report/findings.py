"""The first page of the paper: the results for each article, before anything is explained."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import altair as alt
import polars as pl

from benchlab import study
from benchlab.claims import published, words
from benchlab.claims.judge import DECIDED, Judgement
from benchlab.repo import Repo
from benchlab.report import charts, verdicts
from benchlab.store import Store
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study
from benchlab.study.claims import Audit

#: How many claims of a study are shown if none of them is a headline.
_CLAIMS = 3


def articles(repo: Repo) -> list[str]:
    """Return the names of all studies: those of published articles in their order, then the rest."""
    known = published.articles(repo)["study"].to_list()
    names = study.names(repo)
    return [one for one in known if one in names] + [one for one in names if one not in known]


def panels(rerun: Rerun, measured: pl.DataFrame) -> list[alt.LayerChart]:
    """Return throughput charts of the workloads that are the study's headlines, or of the first one.

    Args:
        rerun: the study's rerun.
        measured: see :func:`benchlab.report.points.points`.
    """
    main = measured.filter(envelope=DEFAULT_ENVELOPE)
    ran = set(main["workload"])
    spec = rerun.study
    headlines = spec.headlines or [one for one in spec.workloads if one in ran][:1]
    return [charts.small_throughput(spec, main, one) for one in headlines if one in ran]


def side_by_side(panels: list[alt.LayerChart]) -> alt.ConcatChart:
    """Return the panels of all articles as one chart, two per row, each with its own legend."""
    return alt.concat(*panels, columns=2, spacing=28).resolve_scale(
        color="independent",
        fill="independent",
        stroke="independent",
        shape="independent",
        strokeDash="independent",
    )


def claims(judged: Iterable[Judgement]) -> list[dict[str, str]]:
    """Return the headline claims of the study; if it has none, the first ones that runs decided.

    Keys of each: ``claim``, ``verdict``, ``found``, ``reason``.
    """
    of_runs = {one.claim.id: one for one in verdicts.of_runs(judged)}
    decided = [name for name, one in of_runs.items() if one.verdict in DECIDED]
    headlines = [name for name, one in of_runs.items() if one.claim.headline]
    chosen = headlines or decided[:_CLAIMS]
    return [
        {
            "claim": of_runs[name].claim.claim.strip(),
            "verdict": of_runs[name].verdict,
            "found": _found(of_runs[name]),
            "reason": of_runs[name].reason,
        }
        for name in chosen
    ]


def _found(judgement: Judgement) -> str:
    test = judgement.claim.decided_by
    if judgement.number and words.accepted(test):
        return f"a ratio of {judgement.found} (claimed: {words.condition(test)})"
    return judgement.found


def of_article(spec: Study, judged: Iterable[Judgement], state: str = "") -> dict[str, Any]:
    """Return the page's values for one article.

    Args:
        spec: its study.
        judged: the verdicts on all its claims.
        state: why there are no results; empty if it was rerun.
    """
    judged = list(judged)
    audits = [one for one in judged if isinstance(one.claim.decided_by, Audit)]
    return {
        "study": spec.study,
        "subject": spec.article.subject[:1].upper() + spec.article.subject[1:],
        "state": state,
        "verdicts": Counter(one.verdict for one in verdicts.of_runs(judged)),
        "claims": claims(judged),
        "audits": Counter(one.verdict for one in audits),
    }


def withheld(spec: Study, store: Store) -> str:
    """Say why there are no results of a study: not rerun, or no run counts."""
    if not spec.is_rerun:
        return "not rerun yet"
    ended = store.sql(
        "SELECT status, error, count(*) AS runs FROM run WHERE study = ? AND status <> 'ok'"
        " GROUP BY ALL ORDER BY runs DESC, error",
        spec.study,
    )
    if ended.is_empty():
        return "not rerun here"
    status, error, runs = ended.row(0)
    others = ended["runs"].sum() - runs
    more = f", and {others} for other reasons" if others else ""
    return f"withheld, since no run counts: {runs} {status} ({error}){more}"
