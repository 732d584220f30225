"""Speed: whether the host was as fast during a run as during the other runs of its study.

What a virtual machine shares with others may make it slower by a third for minutes, without a trace in
its own counters. Points measured in such minutes are not to be held against points measured in others.
So the host is measured right before and right after each load. Of both the faster counts, since the
engine's own background work may slow down the other. A run does not pass if that differs too much from
what is usual in its study.
"""

import polars as pl

#: Name of the check.
SPEED = "speed"

#: Factor by which a run's may differ from the median of the study's, either way.
WITHIN = 1.15


def uneven(speeds: pl.DataFrame) -> pl.DataFrame:
    """Return the runs during which the host was faster or slower than it usually was.

    Args:
        speeds: of all runs of a study: ``run_id``, ``node`` and ``value``, the time that the same work
            took, once before the load and once after it.

    Returns:
        ``run_id``, ``check``, ``value`` (the factor, of several nodes the one farthest from 1) and
        ``found``.
    """
    factor = pl.col("value")
    return (
        speeds.group_by("run_id", "node")
        .agg(factor.min())
        .with_columns(factor / factor.median().over("node"))
        .filter((factor > WITHIN) | (factor < 1 / WITHIN))
        .sort("run_id", factor.log().abs(), descending=[False, True])
        .unique("run_id", keep="first", maintain_order=True)
        .select(
            "run_id",
            pl.lit(SPEED).alias("check"),
            "value",
            pl.format(
                "copying memory took {} times as long as is usual in the study's runs",
                factor.round(2),
            ).alias("found"),
        )
    )
