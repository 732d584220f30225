"""What bound each run, and by which evidence."""

import polars as pl

from benchlab.store.results import Rerun
from benchlab.study.resources import UNKNOWN


def evidence(rerun: Rerun, engine: str, workload: str) -> pl.DataFrame:
    """Return what bound each run of an engine's workload, and by which evidence."""
    return (
        rerun.counted.filter(engine=engine, workload=workload)
        .join(
            rerun.of_runs(
                "SELECT run_id, resource, evidence FROM attribution SEMI JOIN chosen USING (run_id)"
                " WHERE binds"
            ),
            on="run_id",
            how="left",
        )
        .select(
            "variant",
            "envelope",
            "concurrency",
            "trial",
            pl.col("tps").round(),
            pl.col("resource").fill_null(UNKNOWN).alias("bound by"),
            "evidence",
        )
        .sort("variant", "envelope", "concurrency", "trial")
    )
