"""Latencies in the open loop: requests are due at given times.

Their rate is a share of the throughput that the same number of clients reached in the closed loop.
"""

import altair as alt
import polars as pl

from benchlab.gate.checks import OFFERED
from benchlab.report import latencies, points
from benchlab.report.points import with_curve
from benchlab.store import metrics
from benchlab.store.results import POINT, Rerun
from benchlab.study import Study

_AT = [*POINT, "share_of_peak"]


def open_loop(rerun: Rerun) -> pl.DataFrame:
    """Return the latencies in the open loop, which include the wait in the load generator's queue.

    Runs that did not keep their rate are left out: their requests waited ever longer.

    Columns: those of :func:`benchlab.report.latencies.latencies`, ``share_of_peak`` (of the throughput
    of the same number of clients in the closed loop), ``due_per_s`` and ``tps`` (medians).
    """
    met = rerun.open_loop.filter(~pl.col("run_id").is_in(_missed(rerun)["run_id"].to_list()))
    per_run = metrics.of(rerun.store, rerun.representing(met))
    rates = per_run.group_by(_AT).agg(pl.col("rate_per_s", "tps").median()).drop("envelope")
    return (
        latencies.of_runs(rerun.study, per_run, _AT)
        .join(rates, on=[name for name in _AT if name != "envelope"], how="left")
        .rename({"rate_per_s": "due_per_s"})
        .sort("curve", "share_of_peak", maintain_order=True)
    )


def missed(rerun: Rerun) -> pl.DataFrame:
    """Return the loads that runs did not keep.

    Columns: ``curve``, ``workload``, ``load`` (share of the throughput of the same number of clients in
    the closed loop), ``missed`` (``1 of 3`` runs), and of these runs the medians of ``due (1/s)`` and
    ``ended (1/s)``.
    """
    missed = pl.col("run_id").is_in(_missed(rerun)["run_id"].to_list())
    of_load = rerun.open_loop.group_by(_AT).agg(
        pl.format("{} of {}", missed.sum(), pl.len()).alias("missed"),
        pl.col("rate_per_s", "tps").filter(missed).median().round(),
    )
    found = with_curve(of_load.drop_nulls("tps"), rerun.study)
    return points.in_order(found, rerun.study, "concurrency", "share_of_peak").select(
        "curve",
        points.named(rerun.study),
        pl.format("{} %", (pl.col("share_of_peak") * 100).round().cast(pl.Int64)).alias("load"),
        "missed",
        pl.col("rate_per_s").alias("due (1/s)"),
        pl.col("tps").alias("ended (1/s)"),
    )


def _missed(rerun: Rerun) -> pl.DataFrame:
    return rerun.gate.filter(check=OFFERED)


def chart(study: Study, found: pl.DataFrame) -> alt.FacetChart:
    """Latency against the load, one view per percentile.

    Args:
        study: whose labels and styles the curves have.
        found: see :func:`open_loop`.
    """
    shown = found.filter(pl.col("percentile").is_in(latencies.PERCENTILES))
    shares = sorted(set(shown["share_of_peak"]))
    x = alt.X(
        "share_of_peak:Q",
        title="load (share of closed loop)",
        scale=alt.Scale(domain=[min(shares) - 0.1, 1]),
        axis=alt.Axis(values=shares, format="%"),
    )
    due = alt.Tooltip("due_per_s:Q", format=",.0f", title="due (1/s)")
    return latencies.by_percentile(study, shown, x, due)
