"""Who else used the host: runs that shared its CPU with others than engine and load generator."""

import polars as pl

from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import POINT, Rerun

#: Percent of the host's CPU up to which others count as none. On a quiet host the kernel's threads and
#: interrupts and benchlab's own observers take up to 24 % in the runs of the reference.
LEAST = 25

_PERCENT = pl.col("foreign_cpu_percent")


def shared_runs(rerun: Rerun) -> int:
    """Return how many of the runs that count shared the CPU with others."""
    return (rerun.metrics["foreign_cpu_percent"] > LEAST).sum()


def table(rerun: Rerun) -> pl.DataFrame:
    """Return the points of which runs shared the CPU with others.

    Columns: ``curve``, ``workload``, ``envelope``, ``concurrency``, ``trials`` (numbers of these runs),
    ``foreign_cpu_percent`` (of each of them, in that order).
    """
    shared = rerun.metrics.filter(_PERCENT > LEAST).sort("trial")
    listed = pl.col("trial", "foreign_cpu_percent")
    found = with_curve(
        shared.with_columns(
            _PERCENT.round().cast(pl.Int64).cast(pl.String), pl.col("trial").cast(pl.String)
        )
        .group_by(POINT, maintain_order=True)
        .agg(listed.str.join(", ")),
        rerun.study,
    )
    return points.in_order(found, rerun.study, "envelope", "concurrency").select(
        "curve",
        points.named(rerun.study),
        "envelope",
        "concurrency",
        pl.col("trial").alias("trials"),
        "foreign_cpu_percent",
    )
