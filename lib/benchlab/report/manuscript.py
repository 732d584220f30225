"""What the manuscript needs: values, figures and tables from the store and the study files."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from benchlab import study
from benchlab.claims.judge import Judgement, judge
from benchlab.errors import NoRuns
from benchlab.repo import Repo
from benchlab.report import audits, findings, sections, simulated, verdict_charts, verdicts
from benchlab.report.sections import Content, Source
from benchlab.store import Store, results

#: Study → what its section places, and the verdicts on its claims.
Sections = Mapping[str, tuple[Content, list[Judgement]]]


def counted(repo: Repo, own: Store) -> list[str]:
    """Return the names of the studies that have a counted run, in the order of the paper.

    Raises:
        NoRuns: there is none.
    """
    found = []
    for name in findings.articles(repo):
        try:
            results.largest_profile(own, name)
        except NoRuns:
            continue
        found.append(name)
    if not found:
        raise NoRuns("no run counts; run `benchlab run`")
    return found


def section(
    repo: Repo, own: Store, reference: Store | None, name: str
) -> tuple[Content, list[Judgement]]:
    """Gather what one study's section places; see :func:`benchlab.report.sections.section`."""
    return sections.section(Source(repo, results.open_rerun(repo, own, name), reference))


def whole(repo: Repo, own: Store, made: Sections) -> Content:
    """Join the sections, and add what covers all studies: findings, verdicts, audits, simulations.

    Args:
        repo: the checkout, for the study files.
        own: the reader's results.
        made: the sections of the studies that have a counted run.
    """
    judged = {
        name: made[name][1] if name in made else judge(repo, name)
        for name in findings.articles(repo)
    }
    specs = {name: study.load(repo, name) for name in judged}
    every = Content(
        {
            "studies": [section.context["study"] for section, _ in made.values()],
            "articles": [
                findings.of_article(
                    spec, judged[name], "" if name in made else findings.withheld(spec, own)
                )
                for name, spec in specs.items()
            ],
        }
    )
    for section, _ in made.values():
        every.figures |= section.figures
        every.tables |= section.tables
        every.panels += section.panels
    every.figures["findings"] = findings.side_by_side(every.panels)
    of_all = [one for of_study in judged.values() for one in of_study]
    every.figures["verdicts"] = verdict_charts.summary(verdicts.summary(of_all))
    every.context["audits"], tables = audited(repo)
    every.tables |= tables
    return every | simulated.content(repo)


def audited(repo: Repo) -> tuple[list[dict[str, Any]], dict[str, pl.DataFrame]]:
    """Return every article with its audits, as values and as tables."""
    every = audits.audits(repo)
    summary = audits.audit_summary(repo, every)
    listed = [
        {
            "study": row["study"],
            "subject": study.load(repo, row["study"]).article.subject,
            "table": f"audit-{row['study'].replace('_', '-')}",
            "audits": row["audits"],
            "not_reproduced": row["not reproduced"],
        }
        for row in summary.iter_rows(named=True)
    ]
    # the source of a fact explains what was found
    explained = pl.concat_str("found", pl.lit(" ("), "source", pl.lit(")"))
    found = pl.when(pl.col("source") == "").then("found").otherwise(explained)
    shown = {
        one["table"]: every.filter(study=one["study"]).select(
            "claim", "published", found, "verdict"
        )
        for one in listed
    }
    return listed, {"audit-summary": summary, **shown}
