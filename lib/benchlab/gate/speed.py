"""Speed: whether the host was as fast during a run as it usually was.

A virtual machine shares hardware with others. This may slow it down by a third for minutes, without a
trace in its own counters. Points measured in such minutes must not be compared with other points. So
the speed of the host is measured right before and right after each load. The faster of the two counts,
since the engine's own background work may slow down the other. A run does not pass if its host's speed
differs too much from what is usual on its workload's host: the one on which most runs of the workload
were made. From one boot to the next a host counts as another one, since a virtual machine may then be
on other hardware.

Claims compare what was run in one workload, so the workloads of a study may be run on several hosts. A
claim that compares two workloads needs hosts of one speed.
"""

from collections.abc import Collection

import polars as pl

#: Name of the check.
SPEED = "speed"

#: Factor by which the time in a run may differ from the median on the workload's host, either way.
WITHIN = 1.15


def uneven(speeds: pl.DataFrame) -> pl.DataFrame:
    """Return the runs during which the host was faster or slower than it usually was.

    Args:
        speeds: rows of all runs of a study: ``run_id``, ``workload``, ``node``, ``value``, the time
            that the same work took, ``cpu_model`` and ``boot_id``; one row for before the load, one
            for after it.

    Returns:
        ``run_id``, ``check``, ``value`` (the factor; with several nodes the one farthest from 1) and
        ``found``.
    """
    factor, model = pl.col("value"), pl.col("cpu_model")
    found = pl.format(
        "copying memory took {} times as long as is usual on the workload's host", factor.round(2)
    )
    other_cpu = pl.format("; the CPU was {}, and {} in most", model, "usual_model")
    runs = _by_run(speeds)
    return (
        runs.join(_usual(runs), on=["workload", "node"], maintain_order="left")
        .with_columns(factor / pl.col("usual"))
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
    """Say why some workloads cannot be compared: the host of one is faster than that of another.

    Args:
        speeds: as :func:`uneven` takes them.
        workloads: names.

    Returns:
        The reason; ``None``: they can be compared.
    """
    usual = _usual(_by_run(speeds)).filter(pl.col("workload").is_in(list(workloads)))
    ordered = usual.sort("node", "usual", "workload")
    for _, of_node in ordered.group_by("node", maintain_order=True):
        fast, slow = (of_node.row(at, named=True) for at in (0, -1))
        if (factor := slow["usual"] / fast["usual"]) > WITHIN:
            found = (
                f"copying memory took {factor:.2f} times as long on the host of {slow['workload']}"
                f" as on that of {fast['workload']}"
            )
            if slow["usual_model"] != fast["usual_model"]:
                found += f", on {slow['usual_model']} and on {fast['usual_model']}"
            return found
    return None


def _by_run(speeds: pl.DataFrame) -> pl.DataFrame:
    """Return the faster of the two measurements of each run on each node."""
    return speeds.group_by("run_id", "workload", "node", maintain_order=True).agg(
        pl.col("value").min(),
        pl.col("cpu_model").first(),
        # runs of an older benchlab did not record it
        pl.col("boot_id").first().fill_null(""),
    )


def _usual(runs: pl.DataFrame) -> pl.DataFrame:
    """Return what is usual on the host of each workload.

    Args:
        runs: see :func:`_by_run`.

    Returns:
        ``workload``, ``node``, ``usual``, the median time in all runs that were made on that host, and
        ``usual_model``, its CPU.
    """

    def most(column: str) -> pl.Expr:
        return pl.col(column).drop_nulls().mode(maintain_order=True).first()

    hosts = runs.group_by("node", "boot_id").agg(
        pl.col("value").median().alias("usual"), most("cpu_model").alias("usual_model")
    )
    of_workloads = runs.group_by("workload", "node").agg(most("boot_id"))
    return of_workloads.join(hosts, on=["node", "boot_id"]).drop("boot_id")
