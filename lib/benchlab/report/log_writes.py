"""How an engine writes its log: how often, how long, how much; and how long each write took.

The sources are the server's own counters and, if they were traced, its system calls.
"""

import altair as alt
import polars as pl

from benchlab.engines.postgres import LOG_CALLS
from benchlab.report import points, theme
from benchlab.store.results import POINT, Rerun
from benchlab.study import Study

#: Metrics of the log's writes.
METRICS = (
    "wal_writes_per_s",
    "wal_write_mean_us",
    "wal_write_concurrency",
    "wal_bytes_per_write",
    "wal_bytes_per_transaction",
)

#: Class of the time that a write took → upper bound in µs, as in the article on a remote log.
CLASSES = {"<1 ms": 1000} | {f"{n}–{n + 1} ms": 1000 * (n + 1) for n in range(1, 9)}
LAST_CLASS = ">9 ms"

#: Greatest relative difference between the traced calls and the server's own counts.
AGREEMENT = 0.05

#: Colours from fast to slow; classes above 2 ms are warm.
_CLASS_COLORS = (
    "#9ecae1",
    "#4292c6",
    "#fee391",
    "#fec44f",
    "#fe9929",
    "#ec7014",
    "#cc4c02",
    "#a63603",
    "#7f2704",
    "#4d1600",
)

_TRACED = """
    SELECT run_id,
        avg(value) FILTER (subject = 'write' AND metric = 'calls_per_s') AS writes_per_s,
        avg(value) FILTER (subject = 'sync' AND metric = 'calls_per_s') AS syncs_per_s,
        sum(value) FILTER (metric = 'us_per_s') / count(DISTINCT t) AS us_per_s,
        avg(value) FILTER (metric = 'bytes_per_s') AS bytes_per_s
    FROM (
        SELECT * FROM os_sample SEMI JOIN chosen USING (run_id) JOIN run USING (run_id)
        WHERE observer = 'log_trace' AND is_measured(t, measure_begin, measure_end)
        ORDER BY run_id, t, subject, metric
    ) GROUP BY run_id
"""

_COUNTED = f"""
    SELECT run_id,
        sum(at_end - at_begin) FILTER (name IN {LOG_CALLS["writes"]}) AS writes,
        sum(at_end - at_begin) FILTER (name IN {LOG_CALLS["syncs"]}) AS syncs,
        1e3 * sum(at_end - at_begin) FILTER (name IN {LOG_CALLS["ms"]}) AS us
    FROM engine_counter SEMI JOIN chosen USING (run_id) GROUP BY run_id
"""

_LATENCIES = "SELECT * FROM log_latency SEMI JOIN chosen USING (run_id) WHERE call = 'flush'"

_PROBED = """
    SELECT run_id, value / 1e3 AS probe_us FROM os_sample SEMI JOIN chosen USING (run_id)
    WHERE observer = 'log_probe'
"""


def table(rerun: Rerun) -> pl.DataFrame:
    """Return each point's log writes by the server's counters: medians over trials.

    Columns: ``curve``, ``workload``, ``concurrency``, ``tps``, ``probe (µs)`` (a durable write of 8 KiB
    before the load), :data:`METRICS` and ``gate passed``. Points whose server does not time its writes
    are left out.
    """
    runs = rerun.metrics.join(probed(rerun), on="run_id", how="left")
    found = runs.group_by(*POINT, "valid").agg(pl.col("tps", "probe_us", *METRICS).median())
    found = points.with_curve(found.filter(pl.col("wal_write_mean_us") > 0), rerun.study)
    return points.in_order(found, rerun.study, "envelope", "concurrency").select(
        "curve",
        points.named(rerun.study),
        "concurrency",
        pl.col("tps").round(),
        pl.col("probe_us").round_sig_figs(3).alias("probe (µs)"),
        pl.col(METRICS).round_sig_figs(3),
        points.gate_passed(),
    )


def probed(rerun: Rerun) -> pl.DataFrame:
    """Return the time of a durable write to the log before each run: ``run_id``, ``probe_us``."""
    return rerun.of_runs(_PROBED)


def classes(rerun: Rerun) -> pl.DataFrame:
    """Return how many of each point's log writes are in each class of time, over all of its runs.

    A write here is what a commit waits for: from the first byte to the end of the sync.

    Columns: ``curve``, ``engine``, ``variant``, ``workload``, ``concurrency``, ``class``, ``position``
    (of the class), ``writes``, ``share``.
    """
    bound = pl.col("from_us")
    named = pl.lit(LAST_CLASS)
    for name, upper in reversed(CLASSES.items()):
        named = pl.when(bound < upper).then(pl.lit(name)).otherwise(named)
    order = [*CLASSES, LAST_CLASS]
    runs = rerun.metrics.select("run_id", *POINT)
    found = (
        rerun.of_runs(_LATENCIES)
        .join(runs, on="run_id")
        .with_columns(named.alias("class"))
        .group_by(*POINT, "class")
        .agg(pl.col("calls").sum().alias("writes"))
        .with_columns(
            (pl.col("writes") / pl.col("writes").sum().over(POINT)).alias("share"),
            pl.col("class")
            .replace_strict(order, range(len(order)), return_dtype=pl.Int64)
            .alias("position"),
        )
    )
    return points.in_order(
        points.with_curve(found, rerun.study), rerun.study, "envelope", "concurrency", "position"
    )


def class_chart(shares: pl.DataFrame, clients: str, title: str) -> alt.FacetChart:
    """The share of each class among a point's writes: a stacked bar per point, one view per curve.

    Args:
        shares: ``curve``, ``concurrency``, ``class``, ``position``, ``writes``, ``share``.
        clients: the article's word for clients.
        title: of the chart.
    """
    order = [*CLASSES, LAST_CLASS]
    bars = (
        alt.Chart()
        .mark_bar(stroke="white", strokeWidth=0.3)
        .encode(
            x=alt.X("concurrency:O", title=clients, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title=None, axis=alt.Axis(format="%")),
            color=alt.Color(
                "class:N",
                title="time of a durable write",
                sort=order,
                scale=alt.Scale(domain=order, range=list(_CLASS_COLORS)),
                legend=alt.Legend(columns=5),
            ),
            order=alt.Order("position:Q"),
            tooltip=[
                "curve",
                "concurrency",
                "class",
                alt.Tooltip("writes:Q", format=","),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
        .properties(width=190, height=150)
    )
    curves = shares["curve"].unique(maintain_order=True).to_list()
    facet = alt.Facet("curve:N", title=None, sort=curves)
    columns = 2 if len(curves) in (2, 4) else 3
    return alt.layer(bars, data=shares).facet(
        facet, columns=columns, title=f"{title}: share of the writes"
    )


def traced(rerun: Rerun) -> pl.DataFrame:
    """Return the ratio of traced calls to the server's own counts at each point that passed the gate.

    Columns: ``curve``, ``workload``, ``concurrency``, and the ratios trace : counters of ``writes``,
    ``syncs`` and the ``time`` in both, medians over the runs. The seconds of the two do not coincide,
    so they differ if the throughput of a run varies.
    """
    both = (
        rerun.metrics.filter("valid")
        .select("run_id", *POINT, "measured_s")
        .join(rerun.of_runs(_TRACED), on="run_id")
        .join(rerun.of_runs(_COUNTED), on="run_id")
        .with_columns(
            (pl.col("writes_per_s") * pl.col("measured_s") / pl.col("writes")).alias("writes"),
            (pl.col("syncs_per_s") * pl.col("measured_s") / pl.col("syncs")).alias("syncs"),
            (pl.col("us_per_s") * pl.col("measured_s") / pl.col("us")).alias("time"),
        )
        .filter(pl.col("syncs").is_finite())
    )
    found = both.group_by(POINT).agg(pl.col("writes", "syncs", "time").median())
    return points.in_order(
        points.with_curve(found, rerun.study), rerun.study, "envelope", "concurrency"
    ).select(
        "curve",
        points.named(rerun.study),
        "concurrency",
        pl.col("writes", "syncs", "time").round(3),
    )


_WIDTH = 560


def agreement(found: pl.DataFrame) -> dict[str, float]:
    """Return at how many points the trace agrees with the server's counters.

    Keys: ``points``; ``tolerance`` (:data:`AGREEMENT`); ``writes``, ``syncs``, ``time`` (number of
    points at which the ratio is within ``tolerance`` of 1).

    Args:
        found: see :func:`traced`.
    """
    within = found.select((pl.col("writes", "syncs", "time") - 1).abs() <= AGREEMENT).sum()
    counts = within.row(0, named=True)
    return {"points": len(found), "tolerance": AGREEMENT} | counts


def lags(rerun: Rerun) -> pl.DataFrame:
    """Return the lag of the standbys, second by second, at each curve's highest number of clients.

    It is that of the point's first trial among those that represent it.

    Columns: ``curve``, ``workload``, ``concurrency``, ``standby``, ``second`` (of the measured part),
    ``lag_mb`` (MB of log not yet applied), ``is_synchronous``.
    """
    most = pl.col("concurrency") == pl.col("concurrency").max().over(
        "engine", "variant", "workload"
    )
    runs = points.first_trials(rerun.metrics.filter(most))
    runs = runs.select("run_id", *POINT, "measure_begin")
    found = (
        rerun.of_runs(
            "SELECT run_id, t, subject AS standby, metric, value FROM os_sample"
            " SEMI JOIN chosen USING (run_id) WHERE observer = 'replication'"
        )
        .join(runs, on="run_id")
        .pivot(
            on="metric",
            index=["run_id", *POINT, "measure_begin", "standby", "t"],
            values="value",
        )
    )
    if found.is_empty():
        return pl.DataFrame(schema=_LAGS)
    found = found.with_columns(
        (pl.col("t") - pl.col("measure_begin")).round(1).alias("second"),
        (pl.col("replay_lag_bytes") / 1e6).alias("lag_mb"),
        pl.col("is_synchronous") > 0,
    ).filter(pl.col("second") >= 0)
    return points.in_order(points.with_curve(found, rerun.study), rerun.study, "second").select(
        *_LAGS
    )


_LAGS = {
    "curve": pl.String,
    "workload": pl.String,
    "concurrency": pl.Int32,
    "standby": pl.String,
    "second": pl.Float64,
    "lag_mb": pl.Float64,
    "is_synchronous": pl.Boolean,
}


def lag_chart(study: Study, lags: pl.DataFrame) -> alt.Chart:
    """The log that the standby has not applied yet, over the measured part, one line per standby.

    Args:
        study: whose styles the curves have.
        lags: see :func:`lags`.
    """
    color, dash = theme.of_curves(study, lags)
    return (
        alt.Chart(lags)
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X(
                "second:Q",
                title="seconds of the measured part",
                axis=alt.Axis(format="d", tickMinStep=1),
            ),
            y=alt.Y("lag_mb:Q", title="log not applied by the standby (MB)"),
            color=color,
            strokeDash=dash,
            detail="standby:N",
            tooltip=[
                "curve",
                "standby",
                "workload",
                "second",
                alt.Tooltip("lag_mb:Q", format=".2f"),
            ],
        )
        .properties(width=_WIDTH, height=200)
    )
