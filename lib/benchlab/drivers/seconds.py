"""Seconds of each operation, including those in which none of its transactions ended."""

import polars as pl

from benchlab.drivers.base import MEASURE


def of_every_operation(
    found: pl.DataFrame, operations: pl.DataFrame, last: int, percentile: int
) -> pl.DataFrame:
    """Return each second of each operation, ordered by second and operation.

    Columns: those of :data:`~benchlab.drivers.base.SECONDS` that are known.

    Args:
        found: ``operation``, ``second`` and the counts of that second; only seconds with transactions.
        operations: ``operation``, each once.
        last: last second.
        percentile: percentile that ``latency_us`` is.
    """
    every = pl.DataFrame({"second": range(1, last + 1)}, schema={"second": pl.Int64})
    return (
        operations.join(every, how="cross")
        .join(found, on=["operation", "second"], how="left")
        .with_columns(
            pl.col("tps", "errors_per_s").fill_null(0.0),
            phase=pl.lit(MEASURE),
            percentile=pl.lit(percentile, pl.Int64),
        )
        .sort("second", "operation")
    )
