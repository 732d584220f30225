"""The first page of the paper: what came out of each article, before anything is explained."""

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

#: How many claims of a study are shown where none of them is a headline.
_CLAIMS = 3


def articles(repo: Repo) -> list[str]:
    """Return the names of all studies: in the order of the published articles, then the others."""
    known = published.articles(repo)["study"].to_list()
    names = study.names(repo)
    return [one for one in known if one in names] + [one for one in names if one not in known]


def panels(rerun: Rerun, measured: pl.DataFrame) -> list[alt.LayerChart]:
    """Return the throughput of the workloads that the study's file names, or of the first one.

    Args:
        rerun: of the study.
        measured: see :func:`benchlab.report.points.points`.
    """
    main = measured.filter(envelope=DEFAULT_ENVELOPE)
    ran = set(main["workload"])
    spec = rerun.study
    headlines = spec.headlines or [one for one in spec.workloads if one in ran][:1]
    return [charts.small_throughput(spec, main, one) for one in headlines if one in ran]


def side_by_side(panels: list[alt.LayerChart]) -> alt.ConcatChart:
    """Return the panels of all articles as one chart, two a row, each with a legend of its own."""
    return alt.concat(*panels, columns=2, spacing=28).resolve_scale(
        color="independent",
        fill="independent",
        stroke="independent",
        shape="independent",
        strokeDash="independent",
    )


def claims(judged: Iterable[Judgement]) -> list[dict[str, str]]:
    """Return the claims that are headlines of the study, or the first ones that runs decided.

    Each has ``claim``, ``verdict`` and ``found``.
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
        }
        for name in chosen
    ]


def _found(judgement: Judgement) -> str:
    is_ratio = judgement.number and words.accepted(judgement.claim.decided_by)
    return f"a ratio of {judgement.found}" if is_ratio else judgement.found


def of_article(spec: Study, judged: Iterable[Judgement], state: str = "") -> dict[str, Any]:
    """Return the page's values for one article.

    Args:
        spec: its study.
        judged: the verdicts on all its claims.
        state: why there is nothing of it; empty where it was rerun.
    """
    judged = list(judged)
    audits = [one for one in judged if isinstance(one.claim.decided_by, Audit)]
    return {
        "study": spec.study,
        "title": spec.article.title,
        "subject": spec.article.subject[:1].upper() + spec.article.subject[1:],
        "state": state,
        "verdicts": Counter(one.verdict for one in verdicts.of_runs(judged)),
        "claims": claims(judged),
        "audits": Counter(one.verdict for one in audits),
    }


def withheld(spec: Study, store: Store) -> str:
    """Say why there is nothing to show of a study that can be rerun, or is not rerun yet."""
    if not spec.is_rerun:
        return "not rerun yet"
    ended = store.sql(
        "SELECT status, error, count(*) AS runs FROM run WHERE study = ? AND status <> 'ok'"
        " GROUP BY ALL ORDER BY runs DESC, error",
        spec.study,
    )
    if ended.is_empty():
        return "not rerun here"
    status, error, _ = ended.row(0)
    return f"withheld, since no run counts: {ended['runs'].sum()} {status} ({error})"
