"""The hosts on which the server of a rerun ran: several, if its workloads ran on different ones."""

from typing import Any

import polars as pl

from benchlab.gate import speed
from benchlab.plan.envelope import GIB
from benchlab.report import points
from benchlab.store.results import Rerun
from benchlab.study.roles import PRIMARY

#: What identifies a host to a reader: the columns of :func:`of_runs` that describe it.
_FACTS = ("cpu_model", "cores", "memory_gib", "kernel")

# If somebody else runs the server, the facts are those of a host of the load.
_OF_RUNS = f"""
    WITH found AS (
        PIVOT (FROM host SEMI JOIN chosen USING (run_id))
        ON fact IN ('cpu_model', 'cores', 'memory_bytes', 'kernel')
        USING any_value(value) GROUP BY run_id, node
    )
    SELECT run_id, workload, started, cpu_model, cores::INTEGER AS cores,
        memory_bytes::BIGINT / {GIB} AS memory_gib, kernel
    FROM found JOIN node USING (run_id, node) JOIN run USING (run_id)
    QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY role <> '{PRIMARY}', node) = 1
    ORDER BY started
"""


def of_runs(rerun: Rerun) -> pl.DataFrame:
    """Return the host of the server in each run that counts, in the order in which they ran.

    Columns: ``run_id``, ``workload``, ``started``, ``cpu_model``, ``cores``, ``memory_gib`` and
    ``kernel``.
    """
    return rerun.of_runs(_OF_RUNS, rerun.counted)


def first(rerun: Rerun) -> dict[str, Any]:
    """Return ``cpu_model``, ``cores``, ``memory_gib`` and ``kernel`` of the first run's host."""
    return of_runs(rerun).select(_FACTS).row(0, named=True)


def table(rerun: Rerun) -> pl.DataFrame:
    """Return one row per workload and host; none if all workloads ran on one host of one speed.

    Columns: ``workload``, ``CPU``, ``cores``, ``memory (GiB)``, ``Linux``, ``runs``, ``first run``,
    ``last run`` and ``copying memory (µs)``, the median of the time by which the gate compares hosts.
    """
    found = of_runs(rerun)
    workloads = found["workload"].unique()
    if found.select(_FACTS).n_unique() <= 1 and not speed.apart(rerun.speeds, workloads):
        return pl.DataFrame()
    copying = rerun.speeds.group_by("run_id").agg(pl.col("value").min() / 1e3)
    by_workload = (
        found.join(copying, on="run_id", how="left")
        .group_by("workload", *_FACTS)
        .agg(
            pl.len().alias("runs"),
            pl.col("started").min().dt.date().cast(pl.String).alias("first run"),
            pl.col("started").max().dt.date().cast(pl.String).alias("last run"),
            pl.col("value").median().round(0).cast(pl.Int64).alias("copying memory (µs)"),
        )
        .with_columns(pl.col("memory_gib").round(1))
        .rename({"cpu_model": "CPU", "memory_gib": "memory (GiB)", "kernel": "Linux"})
    )
    ordered = points.in_order(by_workload, rerun.study, "first run")
    return ordered.with_columns(points.named(rerun.study))
