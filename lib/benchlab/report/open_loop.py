"""Latencies in the open loop: requests due at times of their own, at shares of an engine's peak."""

import altair as alt
import polars as pl

from benchlab.report import latencies
from benchlab.store import metrics
from benchlab.store.results import POINT, Rerun
from benchlab.study import Study


def open_loop(rerun: Rerun) -> pl.DataFrame:
    """Return the latencies at shares of each engine's peak, from the time a request was due.

    Columns: those of :func:`benchlab.report.latencies.latencies`, ``share_of_peak``, ``due_per_s`` and
    ``tps`` (medians).
    """
    per_run = metrics.of(rerun.store, rerun.open_loop)
    at = [*POINT, "share_of_peak"]
    rates = per_run.group_by(at).agg(pl.col("rate_per_s", "tps").median()).drop("envelope")
    return (
        latencies.of_runs(rerun.study, per_run, at)
        .join(rates, on=[name for name in at if name != "envelope"], how="left")
        .rename({"rate_per_s": "due_per_s"})
        .sort("curve", "share_of_peak", maintain_order=True)
    )


def chart(study: Study, found: pl.DataFrame) -> alt.FacetChart:
    """Latency against the load, a view per percentile.

    Args:
        study: whose labels and styles the curves have.
        found: see :func:`open_loop`.
    """
    shown = found.filter(pl.col("percentile").is_in(latencies.PERCENTILES))
    shares = sorted(set(shown["share_of_peak"]))
    x = alt.X(
        "share_of_peak:Q",
        title="load, of the peak",
        scale=alt.Scale(domain=[0.4, 1]),
        axis=alt.Axis(values=shares, format="%"),
    )
    due = alt.Tooltip("due_per_s:Q", format=",.0f", title="due (1/s)")
    return latencies.by_percentile(study, shown, x, due)
