"""Speed: whether the host was as fast during a run as during the other runs of its workload.

A virtual machine shares hardware with others. This may slow it down by a third for minutes, without a
trace in its own counters. Points measured in such minutes must not be compared with other points. So
the speed of the host is measured right before and right after each load. The faster of the two counts,
since the engine's own background work may slow down the other. A run does not pass if its host's speed
differs too much from what is usual in its workload.

A workload is what claims compare engines in, so the workloads of a study may be run on different days
and hosts. A comparison of two workloads needs a host that was as fast in one as in the other.
"""

from collections.abc import Collection

import polars as pl

#: Name of the check.
SPEED = "speed"

#: Factor by which the time in a run may differ from the median in the workload, either way.
WITHIN = 1.15


def uneven(speeds: pl.DataFrame) -> pl.DataFrame:
    """Return the runs during which the host was faster or slower than it usually was.

    Args:
        speeds: rows of all runs of a study: ``run_id``, ``workload``, ``node``, ``value``, the time
            that the same work took, and ``cpu_model``; one row for before the load, one for after it.

    Returns:
        ``run_id``, ``check``, ``value`` (the factor; with several nodes the one farthest from 1) and
        ``found``.
    """
    factor, model = pl.col("value"), pl.col("cpu_model")
    usual = _usual_model().over("workload", "node").alias("usual_model")
    found = pl.format(
        "copying memory took {} times as long as is usual in the workload's runs", factor.round(2)
    )
    other_cpu = pl.format("; the CPU was {}, and {} in most", model, "usual_model")
    return (
        _by_run(speeds)
        .with_columns(factor / factor.median().over("workload", "node"), usual)
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


def apart(speeds: pl.DataFrame, workloads: Collection[str]) -> str | None:
    """Say why some workloads cannot be compared: the host was faster in one than in another.

    Args:
        speeds: as :func:`uneven` takes them.
        workloads: names.

    Returns:
        The reason; ``None``: they can be compared.
    """
    usual = (
        _by_run(speeds)
        .filter(pl.col("workload").is_in(list(workloads)))
        .group_by("node", "workload")
        .agg(pl.col("value").median(), _usual_model())
        .sort("node", "value", "workload")
    )
    for _, of_node in usual.group_by("node", maintain_order=True):
        fast, slow = (of_node.row(at, named=True) for at in (0, -1))
        if (factor := slow["value"] / fast["value"]) > WITHIN:
            found = (
                f"copying memory took {factor:.2f} times as long in the runs of {slow['workload']}"
                f" as in those of {fast['workload']}"
            )
            if slow["cpu_model"] != fast["cpu_model"]:
                found += f", on {slow['cpu_model']} and on {fast['cpu_model']}"
            return found
    return None


def _by_run(speeds: pl.DataFrame) -> pl.DataFrame:
    """Return the faster of the two measurements of each run on each node."""
    return speeds.group_by("run_id", "workload", "node", maintain_order=True).agg(
        pl.col("value").min(), pl.col("cpu_model").first()
    )


def _usual_model() -> pl.Expr:
    return pl.col("cpu_model").drop_nulls().mode(maintain_order=True).first()
