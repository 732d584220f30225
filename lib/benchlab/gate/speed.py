"""Speed: whether the host was as fast during a run as during the runs that it is compared with.

A virtual machine shares hardware with others. This may slow it down by a third for minutes, without a
trace in its own counters. Points measured in such minutes must not be compared with other points. So
the speed of the host is measured right before and right after each load. The faster of the two counts,
since the engine's own background work may slow down the other. A run does not pass if that differs too
much from the other runs on its host.

A host counts as another one after each boot, since a virtual machine may then be on other hardware.
Unlike a slow minute, a slower host slows down all trials, so no interval contains it. Claims compare
what was run in one workload; the workloads of a study may be run on several hosts. A run does not pass
if its host is unlike the one on which most runs of its workload were made, and a claim that compares
two workloads needs hosts that are alike.
"""

from collections.abc import Collection

import polars as pl

#: Name of the check.
SPEED = "speed"

#: Factor by which the time in a run may differ from the median of the other runs on its host.
WITHIN = 1.15

#: Factor by which the medians of two hosts may differ that are alike; they have the same CPU model.
ALIKE = 1.05


def uneven(speeds: pl.DataFrame) -> pl.DataFrame:
    """Return the runs during which the host was faster or slower than during those of their workload.

    Args:
        speeds: rows of all runs of a study: ``run_id``, ``workload``, ``node``, ``value``, the time
            that the same work took, ``cpu_model`` and ``boot_id``; one row for before the load, one
            for after it.

    Returns:
        ``run_id``, ``check``, ``value`` (the factor; with several nodes the one farthest from 1) and
        ``found``.
    """
    runs = _by_run(speeds)
    found = pl.concat([_on_another_host(runs), _in_another_minute(runs)])
    return (
        found.sort("run_id", pl.col("value").log().abs(), descending=[False, True])
        .unique("run_id", keep="first", maintain_order=True)
        .select("run_id", pl.lit(SPEED).alias("check"), "value", "found")
    )


def apart(speeds: pl.DataFrame, workloads: Collection[str]) -> str | None:
    """Say why some workloads cannot be compared: their hosts are not alike.

    Args:
        speeds: as :func:`uneven` takes them.
        workloads: names.

    Returns:
        The reason; ``None``: they can be compared.
    """
    hosts = _of_workloads(_by_run(speeds)).filter(pl.col("workload").is_in(list(workloads)))
    ordered = hosts.sort("node", "usual", "workload")
    for _, of_node in ordered.group_by("node", maintain_order=True):
        fast, slow = (of_node.row(at, named=True) for at in (0, -1))
        if (factor := slow["usual"] / fast["usual"]) > ALIKE:
            return (
                f"copying memory took {factor:.2f} times as long on the host of {slow['workload']}"
                f" as on that of {fast['workload']}"
            )
        if of_node["model"].drop_nulls().n_unique() > 1:
            models = of_node.drop_nulls("model").unique("model", keep="first", maintain_order=True)
            return "; ".join(
                f"{one['workload']} ran on {one['model']}" for one in models.iter_rows(named=True)
            )
    return None


def _in_another_minute(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that differ from the median of the other runs on their host."""
    factor = pl.col("value") / pl.col("other").median()
    others = runs.select("node", "host", other_id="run_id", other="value")
    return (
        runs.join(others, on=["node", "host"])
        .filter(pl.col("run_id") != pl.col("other_id"))
        .group_by("run_id", "node")
        .agg(factor.first().alias("value"))
        .filter((pl.col("value") > WITHIN) | (pl.col("value") < 1 / WITHIN))
        .select(
            "run_id",
            "value",
            pl.format(
                "copying memory took {} times as long as in the other runs on its host",
                pl.col("value").round(2),
            ).alias("found"),
        )
    )


def _on_another_host(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs whose host is unlike the one on which most runs of their workload were made."""
    factor, model, usual = pl.col("value"), pl.col("model"), pl.col("model_there")
    said = pl.format(
        "copying memory took {} times as long on its host as where most of its workload was run",
        factor.round(2),
    )
    on = pl.format("; the CPU was {}, and {} there", model, usual)
    other_cpu = (model != usual).fill_null(value=False)
    return (
        runs.join(_hosts(runs).drop("model"), on=["node", "host"])
        .join(_of_workloads(runs), on=["workload", "node"], suffix="_there")
        .with_columns((pl.col("usual") / pl.col("usual_there")).alias("value"))
        .filter((factor > ALIKE) | (factor < 1 / ALIKE) | other_cpu)
        .select(
            "run_id",
            "value",
            (said + pl.when(other_cpu).then(on).otherwise(pl.lit(""))).alias("found"),
        )
    )


def _by_run(speeds: pl.DataFrame) -> pl.DataFrame:
    """Return the faster of the two measurements of each run on each node.

    Columns: ``run_id``, ``workload``, ``node``, ``value``, ``model`` and ``host``, which identifies it.
    """
    # runs of an older benchlab recorded no boot
    host = pl.concat_str(pl.col("boot_id", "cpu_model").fill_null(""), separator=" ")
    return speeds.group_by("run_id", "workload", "node", maintain_order=True).agg(
        pl.col("value").min(),
        pl.col("cpu_model").first().alias("model"),
        host.first().alias("host"),
    )


def _hosts(runs: pl.DataFrame) -> pl.DataFrame:
    """Return ``node``, ``host``, ``usual``, the median time of all runs there, and ``model``."""
    return runs.group_by("node", "host").agg(
        pl.col("value").median().alias("usual"), pl.col("model").first()
    )


def _of_workloads(runs: pl.DataFrame) -> pl.DataFrame:
    """Return ``workload`` and the columns of :func:`_hosts` of the host of most of its runs."""
    most = pl.col("host").mode(maintain_order=True).first()
    hosts = _hosts(runs)
    return runs.group_by("workload", "node").agg(most).join(hosts, on=["node", "host"])
