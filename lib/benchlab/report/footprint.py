"""Disk space of a dataset."""

import polars as pl

from benchlab.report import points
from benchlab.store.results import Rerun


def table(rerun: Rerun) -> pl.DataFrame:
    """Return the disk space of each dataset, in MB, by engine; medians over all runs.

    Columns: ``engine``, ``workload`` (the first that uses the dataset), ``article``, ``tables`` (as the
    server reports), ``data directory`` (with log, system tables and free space).
    """
    study = rerun.study
    profile = study.profiles[rerun.profile]
    first: dict[str, str] = {}  # dataset as JSON → its first workload
    for workload in study.workloads:
        first.setdefault(study.dataset(profile, workload).model_dump_json(), workload)
    found = (
        rerun.metrics.filter(pl.col("workload").is_in(list(first.values())))
        .group_by("engine", "workload")
        .agg(pl.col("dataset_bytes", "data_dir_bytes").median() / 1e6)
    )
    article = {name: study.article.dataset_of(name) for name in study.engines}
    return points.in_order(found, study).select(
        points.engine_named(study),
        points.named(study),
        (
            pl.col("engine").replace_strict(article, default=None, return_dtype=pl.Float64) / 1e6
        ).alias("article"),
        pl.col("dataset_bytes").round(1).alias("tables"),
        pl.col("data_dir_bytes").round(1).alias("data directory"),
    )
