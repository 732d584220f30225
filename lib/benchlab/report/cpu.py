"""CPU of engine and load generator at every point."""

import altair as alt
import polars as pl

from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import POINT, Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study

_USERS = {"engine_cpu_percent": "engine", "client_cpu_percent": "load generator"}


def used(rerun: Rerun) -> pl.DataFrame:
    """Return the CPU of engine and load generator in each point, in percent of all cores; medians.

    Columns: ``curve``, ``engine``, ``variant``, ``workload``, ``concurrency``, ``engine_cpu_percent``,
    ``client_cpu_percent``, ``cpu_ms_per_transaction`` (of the engine). Main envelope only.
    """
    found = (
        rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
        .group_by(POINT)
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
    )


def chart(study: Study, used: pl.DataFrame) -> alt.FacetChart:
    """CPU of engine and load generator, stacked, against clients, a view per engine and workload.

    Args:
        study: whose labels the views have.
        used: see :func:`used`; of one variant.
    """
    tidy = used.unpivot(
        on=list(_USERS),
        index=["engine", "workload", "concurrency"],
        variable_name="of",
        value_name="percent",
    ).with_columns(
        points.named(study),
        pl.col("of").replace(_USERS),
        pl.col("engine").map_elements(study.label, return_dtype=pl.String).alias("name"),
    )
    engines, workloads = (
        tidy[column].unique(maintain_order=True).to_list() for column in ("name", "workload")
    )
    bars = (
        alt.Chart()
        .properties(width=110, height=130)
        .mark_bar()
        .encode(
            x=alt.X("concurrency:O", title=study.clients, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("percent:Q", title=None, scale=alt.Scale(domain=[0, 100])),
            color=alt.Color(
                "of:N",
                title=None,
                scale=alt.Scale(domain=list(_USERS.values()), range=["#333333", "#aaaaaa"]),
            ),
            order=alt.Order("of:N"),
            tooltip=["name:N", "workload:N", "concurrency:O", "of:N", "percent:Q"],
        )
    )
    return bars.facet(
        data=tidy,
        column=alt.Column("name:N", title=None, sort=engines),
        row=alt.Row("workload:N", title=None, sort=workloads),
        title="CPU (% of all cores)",
    )
