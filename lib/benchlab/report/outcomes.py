"""Outcomes: the answers to checks that have no numbers, as tables for notebooks and paper."""

from pathlib import Path

import polars as pl

from benchlab.raw.record import Record
from benchlab.report.points import with_curve
from benchlab.store import ingest
from benchlab.store.results import Rerun

#: Result of a check as shown; empty: it has no right answer.
_PASSED = {True: "passed", False: "failed", None: ""}


def read(raw: Path, record: Record) -> pl.DataFrame:
    """Return the answers to the checks of one run, from its folder of raw captures.

    Columns: ``check``, ``answer``, ``passed``.

    Raises:
        BenchlabError: the run does not count.
    """
    return _shown(ingest.counted_rows(raw, record)["outcome"])


def table(rerun: Rerun) -> pl.DataFrame:
    """Return the answers to all checks: ``curve``, ``check``, ``answer``, ``passed``."""
    return _shown(with_curve(rerun.outcomes, rerun.study), "curve")


def _shown(found: pl.DataFrame, *columns: str) -> pl.DataFrame:
    passed = pl.col("passed").replace_strict(_PASSED, return_dtype=pl.String)
    return found.select(*columns, "check", "answer", passed)
