"""Audits: what the articles derive from their own numbers, computed again; they need no run.

Ratios and correlations are rounded to three digits for reading. Audits are decided before rounding.
"""

import polars as pl

from benchlab.claims import audit, published, words
from benchlab.repo import Repo

_COLUMNS = ("study", "where", "claim", "published", "found", "verdict", "source")


def tables(repo: Repo) -> pl.DataFrame:
    """Return every published table.

    Columns: ``study``, ``table``, ``where`` (in the article), ``rows``, ``numbers`` (how many it has).
    """
    numbers = published.numbers(repo).group_by("study", "table").agg(pl.len().alias("numbers"))
    return (
        published.sources(repo)
        .with_columns(pl.col("file").str.extract(r"/(\w+)\.csv$").alias("table"))
        .join(numbers, on=["study", "table"], how="left", maintain_order="left")
        .select("study", "table", "where", "rows", pl.col("numbers").fill_null(0))
    )


def audits(repo: Repo) -> pl.DataFrame:
    """Return every audit, beginning with those that the article's numbers contradict.

    Columns: ``study``, ``where``, ``claim``, ``published``, ``found``, ``verdict``, ``source`` (of a
    fact that is in no published table). A truth value is published as "yes"; ``found`` gives details.
    """
    return (
        pl.DataFrame(
            [
                {
                    "study": one.study,
                    "where": one.claim.where,
                    "claim": one.claim.claim,
                    "published": words.condition(one.test),
                    "found": words.audited(one.test, one.found, more_digits=2)
                    + (f"; {one.detail}" if one.detail else ""),
                    "verdict": one.verdict,
                    "source": one.test.source,
                }
                for one in audit.audit(repo)
            ],
            schema=dict.fromkeys(_COLUMNS, pl.String),
        )
        # "not reproduced" before "reproduced", then in the order of the articles
        .sort("verdict", maintain_order=True)
    )


def audit_summary(repo: Repo, audited: pl.DataFrame) -> pl.DataFrame:
    """Return how many audits of each study had which verdict.

    Args:
        repo: the checkout.
        audited: see :func:`audits`.
    """
    return (
        audited.group_by("study")
        .agg(
            pl.len().alias("audits"),
            *((pl.col("verdict") == name).sum().alias(name) for name in _DECIDED),
        )
        .join(published.articles(repo).select("study"), on="study", maintain_order="right")
        .select("study", "audits", *_DECIDED)
    )


_DECIDED = ("reproduced", "not reproduced")
