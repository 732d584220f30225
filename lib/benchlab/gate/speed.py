"""Speed: whether the host was as fast during a run as during the other runs of its study.

A virtual machine shares hardware with others. This may slow it down by a third for minutes, without a
trace in its own counters. Points measured in such minutes must not be compared with other points. So
the speed of the host is measured right before and right after each load. The faster of the two counts,
since the engine's own background work may slow down the other. A run does not pass if its host's speed
differs too much from what is usual in its study.
"""

import polars as pl

#: Name of the check.
SPEED = "speed"

#: Factor by which the time in a run may differ from the median in the study, either way.
WITHIN = 1.15


def uneven(speeds: pl.DataFrame) -> pl.DataFrame:
    """Return the runs during which the host was faster or slower than it usually was.

    Args:
        speeds: rows of all runs of a study: ``run_id``, ``node``, ``value``, the time that the same
            work took, and ``cpu_model``; one row for before the load and one for after it.

    Returns:
        ``run_id``, ``check``, ``value`` (the factor; with several nodes the one farthest from 1) and
        ``found``.
    """
    factor, model = pl.col("value"), pl.col("cpu_model")
    usual = model.drop_nulls().mode(maintain_order=True).first().over("node").alias("usual_model")
    found = pl.format(
        "copying memory took {} times as long as is usual in the study's runs", factor.round(2)
    )
    other_cpu = pl.format("; the CPU was {}, and {} in most", model, "usual_model")
    return (
        speeds.group_by("run_id", "node", maintain_order=True)
        .agg(factor.min(), model.first())
        .with_columns(factor / factor.median().over("node"), usual)
        .filter((factor > WITHIN) | (factor < 1 / WITHIN))
        .sort("run_id", factor.log().abs(), descending=[False, True])
        .unique("run_id", keep="first", maintain_order=True)
        .select(
            "run_id",
            pl.lit(SPEED).alias("check"),
            "value",
            (
                found
                + pl.when(model != pl.col("usual_model")).then(other_cpu).otherwise(pl.lit(""))
            ).alias("found"),
        )
    )
