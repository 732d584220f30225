"""What bound each run, and by which evidence."""

import polars as pl

from benchlab.store import Store, results
from benchlab.study.resources import UNKNOWN


def evidence(
    store: Store, study: str, profile: str, engine: str, workload: str, target: str | None = None
) -> pl.DataFrame:
    """Return what bound each run of an engine's workload, and by which evidence."""
    return (
        results.counted(store, study, profile, target)
        .filter(engine=engine, workload=workload)
        .join(
            store.sql("SELECT run_id, resource, evidence FROM attribution WHERE binds"),
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
