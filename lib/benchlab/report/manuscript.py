"""What the manuscript needs: values, figures and tables out of the store and the study files.

Every study that is rerun has a section of its own, written by hand in ``paper/sections/<study>.md``.
What it places beyond the parts that all have (:mod:`.parts`) comes from the module here of that name.
"""

from collections.abc import Callable
from typing import Any

import polars as pl

from benchlab import study
from benchlab.errors import StoreError
from benchlab.repo import Repo
from benchlab.report import audits, verdict_charts, verdicts
from benchlab.report.sections import Content, Source, every_study
from benchlab.store import Store, results
from benchlab.studies import postgres_vs_tidb, spec_tree

#: Study → what its section has beyond :func:`~.parts.every_study`, in the order of the paper.
SECTIONS: dict[str, Callable[[Source], Content]] = {
    "postgres_vs_tidb": postgres_vs_tidb.section,
    "spec_tree": spec_tree.section,
}


def content(repo: Repo, own: Store, reference: Store | None) -> Content:
    """Gather everything that ``paper/paper.md`` and its sections place.

    Figures and tables of a study have its name before their own: ``spec-tree-overview``.

    Args:
        repo: the checkout, for the study files.
        own: the reader's results.
        reference: the shipped ones, if there are any.

    Raises:
        StoreError: the reader's store has no run that counts.
    """
    made = Content({"studies": []})
    judged = []
    for name, section in SECTIONS.items():
        try:
            rerun = results.open_rerun(repo, own, name)
        except StoreError:
            continue  # not rerun here
        source = Source(repo, rerun, reference)
        common, judgements = every_study(source)
        made.add(common | section(source), name)
        judged += judgements
    if not judged:
        raise StoreError("no run counts; run `benchlab run`")
    every = verdicts.every_study(repo, judged)
    made.figures["verdicts"] = verdict_charts.summary(verdicts.summary(every))
    made.context["audits"], audits = audited(repo)
    made.tables |= audits
    return made


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
        one["table"]: every.filter(study=one["study"]).select("claim", "told", found, "verdict")
        for one in listed
    }
    return listed, {"audit-summary": summary, **shown}
