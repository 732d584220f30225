"""Charts of single writes: their effect on the readers, and how long they wait."""

import altair as alt
import polars as pl

from benchlab.report import theme
from benchlab.report.leases import LeaseRun

_WIDTH = 560

#: State of a table → its colour in a strip: cool if readers can use the cache, warm if not.
_STATES = {"NONE": "#d9d9d9", "READ": "#56B4E9", "INTEND": "#E69F00", "WRITE": "#D55E00"}


def over_time(run: LeaseRun) -> alt.VConcatChart:
    """Throughput and latency of every second, above the states of the tables, with writes marked.

    A thin line marks when a write's COMMIT is sent, a thick line when it is answered.
    """
    marks = [
        alt.Chart(run.writes)
        .mark_rule(color="#111111", strokeWidth=width, strokeDash=dash)
        .encode(x=f"{moment}:Q", tooltip=["table_name", "commit", "end"])
        for moment, width, dash in (("commit", 1, [3, 3]), ("end", 1.5, [1, 0]))
    ]
    percentile = run.seconds["percentile"].drop_nulls().first()
    latency = f"{percentile:g}th percentile of latency" if percentile else "latency"
    lines = [
        alt.layer(
            alt.Chart(run.seconds)
            .mark_line(interpolate="step-before", strokeWidth=1.5, color=theme.style("tidb").color)
            .encode(x=_time(run), y=alt.Y(f"{column}:Q", title=title, scale=alt.Scale(zero=True))),
            *marks,
        ).properties(width=_WIDTH, height=height)
        for column, title, height in (
            ("tps", theme.TPS_TITLE, 180),
            ("latency_ms", f"{latency} (ms)", 110),
        )
    ]
    views = [*lines, *([_strip(run)] if len(run.states) else [])]
    return alt.vconcat(*views, spacing=14, title=run.label)


def _strip(run: LeaseRun) -> alt.Chart:
    tables = run.states["table_name"].unique(maintain_order=True).to_list()
    return (
        alt.Chart(run.states)
        .mark_rect(stroke="white", strokeWidth=0.3, clip=True)
        .encode(
            x=_time(run, "begin"),
            x2="end:Q",
            y=alt.Y("table_name:N", sort=tables, title=None),
            color=alt.Color(
                "state:N",
                title="state of the table",
                legend=alt.Legend(columns=len(_STATES)),
                scale=alt.Scale(domain=list(_STATES), range=list(_STATES.values())),
            ),
            tooltip=["table_name", "state", "begin", "end"],
        )
        .properties(width=_WIDTH, height=max(18, 12 * len(tables)))
    )


def _time(run: LeaseRun, column: str = "second") -> alt.X:
    title = "seconds of the measured part"
    end = run.seconds["second"].max()
    return alt.X(f"{column}:Q", title=title, scale=alt.Scale(domain=[0, end], nice=False))


def waits(frame: pl.DataFrame) -> alt.LayerChart:
    """Cumulative distribution of the time that a write's COMMIT took, one curve per lease.

    Dashed: waits that are spread evenly from half the lease to the whole lease.

    Args:
        frame: see :func:`benchlab.report.leases.waits`.
    """
    known = frame.drop_nulls("lease_s").sort("lease_s", "wait_s")
    shares = known.with_columns(
        (pl.int_range(1, pl.len() + 1) / pl.len()).over("lease_s").alias("share"),
        pl.format("{} s", pl.col("lease_s").cast(pl.Int64)).alias("lease"),
    )
    even = pl.concat(
        [
            shares.select("lease", "lease_s")
            .unique(maintain_order=True)
            .with_columns(wait_s=pl.col("lease_s") * (1 + share) / 2, share=pl.lit(float(share)))
            for share in (0, 1)
        ]
    )
    color = theme.colors("lease", shares, "lease")
    x = alt.X("wait_s:Q", title="time from COMMIT to its answer (s)", scale=alt.Scale(zero=True))
    y = alt.Y(
        "share:Q",
        title="share of the writes that took at most this long",
        axis=alt.Axis(format="%"),
    )
    measured = (
        alt.Chart(shares)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=color,
            strokeDash=theme.dashes("lease", shares, "lease"),
            tooltip=["lease", "wait_s", alt.Tooltip("share", format=".0%")],
        )
    )
    evenly = (
        alt.Chart(even).mark_line(strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y, color=color)
    )
    return alt.layer(evenly, measured).properties(width=_WIDTH, height=260)
