"""An asynchronous standby compared with a synchronous one: throughput, and use of time by node."""

import polars as pl

from benchlab.claims import published
from benchlab.claims.evidence import Evidence
from benchlab.repo import Repo
from benchlab.report import points
from benchlab.store.results import POINT, Rerun
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.study.resources import UNKNOWN
from benchlab.study.roles import PRIMARY, STANDBY

#: Variants that differ only in whether commits wait for the standby.
SYNCHRONOUS, ASYNCHRONOUS = "sync_standby", "async_standby"

#: Waits of a session whose commit waits for the standby (PostgreSQL 15, tables 28.8 and 28.12).
_FOR_STANDBY = ("IPC:SyncRep", "LWLock:SyncRep")

#: Share of one node's cores that two nodes use together if they share the CPU of one, at least.
_NEARLY = 0.9

_BOUND = """
    SELECT run_id, string_agg(DISTINCT resource || coalesce(' (' || node || ')', ''), ', '
        ORDER BY resource || coalesce(' (' || node || ')', '')) AS bound
    FROM attribution SEMI JOIN chosen USING (run_id) WHERE binds GROUP BY run_id
"""

# Each node's cores are under its own limit; this limit is the same on every database node.
_CPU = """
    SELECT run_id, role, avg(value) / 1e6 AS cores
    FROM os_sample SEMI JOIN chosen USING (run_id) JOIN node USING (run_id, node)
        JOIN run USING (run_id)
    WHERE observer = 'sample' AND subject = 'engine' AND metric = 'cpu_us_per_s'
        AND is_measured(t, measure_begin, measure_end)
    GROUP BY run_id, role
"""

_WAITS = f"""
    SELECT run_id,
        coalesce(sum(sessions) FILTER (wait IN {_FOR_STANDBY}), 0) / sum(sessions) AS for_standby,
        coalesce(sum(sessions) FILTER (wait_class = 'log' AND wait NOT IN {_FOR_STANDBY}), 0)
            / sum(sessions) AS for_log
    FROM engine_wait SEMI JOIN chosen USING (run_id) JOIN run USING (run_id)
    WHERE t > measure_begin AND t <= measure_end GROUP BY run_id
"""


def ratios(repo: Repo, rerun: Rerun) -> pl.DataFrame:
    """Return the throughput with an asynchronous standby over that with a synchronous one.

    Columns: ``workload``, ``concurrency``, ``sync`` and ``async`` (medians, transactions per second),
    ``ratio`` with ``low`` and ``high`` (95 %; null with a single trial), ``article`` (its ratio at the
    number of clients that corresponds to ours; null: it has none), ``gate passed`` (by both).
    """
    runs = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
    found = points.ratios(runs, "tps", ASYNCHRONOUS, SYNCHRONOUS).join(
        _published(repo, rerun), on=["workload", "concurrency"], how="left"
    )
    return points.in_order(found, rerun.study, "concurrency").select(
        points.named(rerun.study),
        "concurrency",
        pl.col("below").round().alias("sync"),
        pl.col("above").round().alias("async"),
        pl.col("ratio", "low", "high", "article").round(2),
        points.gate_passed(),
    )


def where(rerun: Rerun) -> pl.DataFrame:
    """Return the use of time at each point of the two variants, in workloads that have both.

    Columns: ``curve``, ``workload``, ``concurrency``, ``syncs_per_s`` and ``sync_us`` (of the primary's
    log), ``transactions_per_sync``, ``primary_cores`` and ``standby_cores`` (used by the engine),
    ``for_log`` and ``for_standby`` (share of the sessions that wait for either), ``bound`` (what bound
    the last of the runs, on which node), ``gate passed``. All numbers are medians over the point's
    runs.
    """
    both = rerun.metrics.filter(pl.col("wal_write_mean_us") > 0).sort(*POINT, "run_id")
    runs = both.filter(pl.col("variant").is_in([SYNCHRONOUS, ASYNCHRONOUS])).join(
        both.filter(variant=ASYNCHRONOUS), on=["engine", "workload"], how="semi"
    )
    cores = rerun.of_runs(_CPU).pivot("role", index="run_id", values="cores")
    for role in (PRIMARY, STANDBY):
        if role not in cores.columns:
            cores = cores.with_columns(pl.lit(None, pl.Float64).alias(role))
    joined = runs.with_columns(
        (pl.col("tps") / pl.col("wal_writes_per_s")).alias("transactions_per_sync")
    )
    for others in (cores, rerun.of_runs(_WAITS), rerun.of_runs(_BOUND)):
        joined = joined.join(others, on="run_id", how="left", maintain_order="left")
    found = joined.group_by(*POINT, "valid", maintain_order=True).agg(
        pl.col("wal_writes_per_s").median().round_sig_figs(3).alias("syncs_per_s"),
        pl.col("wal_write_mean_us").median().round_sig_figs(3).alias("sync_us"),
        pl.col("transactions_per_sync").median().round_sig_figs(3),
        pl.col(PRIMARY).median().round(2).alias("primary_cores"),
        pl.col(STANDBY).median().round(2).alias("standby_cores"),
        pl.col("for_log", "for_standby").median().round(2),
        pl.col("bound").last().fill_null(UNKNOWN),
    )
    with_curve = points.with_curve(found, rerun.study)
    return points.in_order(with_curve, rerun.study, "concurrency").select(
        "curve",
        points.named(rerun.study),
        "concurrency",
        *found.columns[len(POINT) + 1 :],
        points.gate_passed(),
    )


def shared_cores(rerun: Rerun, found: pl.DataFrame) -> float | None:
    """Return the most cores that primary and standby used together, if it is as if they shared a CPU.

    They did if both together use nearly all that one of them may use, and never more.

    Args:
        rerun: the rerun.
        found: see :func:`where`.
    """
    together = (found["primary_cores"] + found["standby_cores"]).max()
    of_one = rerun.metrics["limit_cores"].max()
    if together is None or of_one is None:
        return None
    return together if _NEARLY * of_one <= together <= of_one else None


def _published(repo: Repo, rerun: Rerun) -> pl.DataFrame:
    """Return the article's ratios asynchronous : synchronous, at our numbers of clients.

    Columns: ``workload``, ``concurrency``, ``article``.
    """
    theirs = published.points(repo, rerun.study.study).filter(metric="tps")
    sync, not_sync = (theirs.filter(variant=one) for one in (SYNCHRONOUS, ASYNCHRONOUS))
    both = sync.join(not_sync, on=["engine", "workload", "concurrency"], suffix="_async")
    here = pl.col("concurrency").map_elements(Evidence.of(rerun).here, return_dtype=pl.Float64)
    ours = both.select("workload", here, article=pl.col("value_async") / pl.col("value"))
    # a fraction of a client is run nowhere
    return ours.filter(pl.col("concurrency") % 1 == 0).cast({"concurrency": pl.Int64})
