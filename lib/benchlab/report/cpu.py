"""CPU of engine, load generator and kernel threads at every point."""

import altair as alt
import polars as pl

from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import POINT, Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study

#: Size of all views together, in pixels.
_WIDTH, _HEIGHT = 480, 720

#: Metric → who used the CPU, in the order of the bars from below.
_USERS = {
    "engine_cpu_percent": "engine",
    "client_cpu_percent": "load generator",
    "kernel_cpu_percent": "kernel threads",
}


# Cores of each service: the mean over the measured seconds, the sum over nodes.
_OF_SERVICES = """
    SELECT run_id, service, sum(cores ORDER BY node) AS cores FROM (
        SELECT run_id, node, replace(subject, 'engine ', '') AS service,
            avg(value ORDER BY t) / 1e6 AS cores
        FROM os_sample SEMI JOIN chosen USING (run_id) JOIN run USING (run_id)
        WHERE subject LIKE 'engine %' AND metric = 'cpu_us_per_s'
            AND is_measured(t, measure_begin, measure_end)
        GROUP BY ALL
    ) GROUP BY ALL
"""


def used(rerun: Rerun) -> pl.DataFrame:
    """Return who used the CPU at each point, in percent of the envelope's cores.

    Columns: ``curve``, ``engine``, ``variant``, ``workload``, ``concurrency``, ``engine_cpu_percent``,
    ``client_cpu_percent``, ``kernel_cpu_percent``, ``cpu_ms_per_transaction`` (of the engine), ``gate
    passed``. Medians over the trials; main envelope only.
    """
    found = (
        rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
        .group_by(*POINT, "valid")
        .agg(pl.col(*_USERS, "engine_cpu_us_per_transaction").median())
    )
    return points.in_order(with_curve(found, rerun.study), rerun.study, "concurrency").select(
        "curve",
        "engine",
        "variant",
        "workload",
        "concurrency",
        pl.col(*_USERS).round(1),
        (pl.col("engine_cpu_us_per_transaction") / 1000).alias("cpu_ms_per_transaction"),
        points.gate_passed(),
    )


def by_service(rerun: Rerun) -> pl.DataFrame:
    """Return the cores that each service of an engine uses at each point; empty: each is one service.

    Columns: ``curve``, ``workload``, ``concurrency``, one per service (medians over the trials of the
    means over the measured seconds), ``gate passed``. Main envelope only.
    """
    runs = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
    found = rerun.of_runs(_OF_SERVICES, runs).join(
        runs.select("run_id", *POINT, "valid"), on="run_id"
    )
    if found.is_empty():
        return pl.DataFrame()
    by = [*POINT, "valid"]
    wide = found.pivot(
        on="service", index=by, values="cores", aggregate_function="median", sort_columns=True
    )
    services = wide.drop(by).columns
    shown = points.in_order(with_curve(wide, rerun.study), rerun.study, "concurrency")
    return shown.select(
        "curve",
        points.named(rerun.study),
        "concurrency",
        pl.col(services).round(2),
        points.gate_passed(),
    )


def chart(study: Study, used: pl.DataFrame) -> alt.FacetChart:
    """CPU by who used it, stacked: one row of views per curve, one column per workload.

    Args:
        study: whose labels the views have.
        used: see :func:`used`.
    """
    at = ["curve", "workload", "concurrency"]
    curves, workloads, concurrencies = (
        used.select(column).unique(maintain_order=True) for column in at
    )
    # Vega-Lite moves views up if the grid lacks one, or if all values of one are dropped
    every = curves.join(workloads, how="cross").join(concurrencies, how="cross")
    tidy = (
        every.join(used, on=at, how="left", maintain_order="left")
        .unpivot(on=list(_USERS), index=at, variable_name="of", value_name="percent")
        .with_columns(
            points.named(study),
            pl.col("of").replace(_USERS),
            rank=pl.col("of").replace_strict(list(_USERS), range(len(_USERS))),
        )
    )
    # their sum exceeds 100 % if the load generator has cores outside the envelope, or clocks differ
    most = max(100, used.select(pl.sum_horizontal(*_USERS).max()).item() or 0)
    labels = tidy["workload"].unique(maintain_order=True).to_list()
    bars = (
        alt.Chart()
        .properties(
            width=min(160, _WIDTH // len(workloads)),
            height=max(36, min(110, _HEIGHT // len(curves))),
        )
        .mark_bar(invalid="show")
        .encode(
            x=alt.X("concurrency:O", title=study.clients, axis=alt.Axis(labelAngle=0)),
            y=alt.Y(
                "percent:Q",
                title=None,
                scale=alt.Scale(domain=[0, most]),
                axis=alt.Axis(values=[0, 50, 100]),
            ),
            color=alt.Color(
                "of:N",
                title=None,
                scale=alt.Scale(
                    domain=list(_USERS.values()), range=["#333333", "#999999", "#d9d9d9"]
                ),
            ),
            order=alt.Order("rank:Q"),
            tooltip=["curve:N", "workload:N", "concurrency:O", "of:N", "percent:Q"],
        )
    )
    return bars.facet(
        data=tidy,
        column=alt.Column("workload:N", title=None, sort=labels),
        row=alt.Row(
            "curve:N",
            title=None,
            sort=curves["curve"].to_list(),
            header=alt.Header(labelAngle=0, labelAlign="left", labelAnchor="middle"),
        ),
        spacing={"row": 18, "column": 12},
        title="CPU (% of the envelope's cores)",
    )
