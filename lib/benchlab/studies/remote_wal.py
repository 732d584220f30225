"""The published numbers of the article on a remote log, worked out again."""

import altair as alt
import polars as pl

from benchlab import stats
from benchlab.claims import published
from benchlab.numbers import DIGITS, rounded
from benchlab.repo import Repo
from benchlab.report import article_charts, theme

#: PostgreSQL's three variants differ by their standby alone, which the article does not always name.
_REMOTE_WAL = {
    ("he3db", "default"): "He3DB",
    ("postgres", "sync_standby"): "PostgreSQL, semi-synchronous standby",
    ("postgres", "async_standby"): "PostgreSQL, asynchronous standby",
    ("postgres", "not_stated"): "PostgreSQL, standby not stated",
}


_REMOTE_WAL_STYLES: article_charts.Styles = dict(
    zip(
        _REMOTE_WAL.values(),
        (
            (theme.style("he3db").color, theme.style("he3db").shape, article_charts.SOLID),
            (theme.style("postgres").color, theme.style("postgres").shape, article_charts.SOLID),
            (theme.style("postgres", "async").color, "square", article_charts.DASHED),
            (theme.SPARE_ENGINES[0][0], "diamond", article_charts.DOTTED),
        ),
        strict=True,
    )
)


def peaks(repo: Repo) -> pl.DataFrame:
    """Return He3DB's peak beside PostgreSQL's in each workload, and what is left at 512 threads."""
    throughput = published.read(repo, "remote_wal", "throughput")
    last = throughput["concurrency"].max()
    peaks = throughput.group_by("workload", "engine", "variant", maintain_order=True).agg(
        pl.col("tps").max().alias("peak"),
        pl.col("concurrency").sort_by("tps").last().alias("at"),
        pl.col("tps").filter(pl.col("concurrency") == last).first().alias("at_last"),
    )
    he3db = peaks.filter(engine="he3db").drop("engine", "variant")
    return (
        peaks.filter(engine="postgres")
        .join(he3db, on="workload", suffix="_he3db", maintain_order="left")
        .select(
            "workload",
            pl.col("variant").alias("postgres"),
            pl.col("peak_he3db").alias("he3db_peak"),
            pl.col("at_he3db").alias("he3db_peak_at"),
            pl.col("peak").alias("postgres_peak"),
            pl.col("at").alias("postgres_peak_at"),
            (pl.col("peak_he3db") / pl.col("peak")).alias("ratio_of_peaks"),
            (pl.col("at_last_he3db") / pl.col("at_last")).alias(f"ratio_at_{last}"),
        )
        .with_columns(rounded("ratio_of_peaks", f"ratio_at_{last}"))
    )


def wal_shape(repo: Repo) -> pl.DataFrame:
    """Return each point's WAL writes at a time and their part in a transaction, from the WAL tables.

    Columns: ``concurrency_published`` and ``concurrency_found`` (mean number of WAL writes under way),
    ``wal_ms`` and ``transaction_ms`` (mean times; a transaction's by Little's law), ``share`` (of the
    first in the second), ``wal_bytes_per_transaction``, ``transactions_per_write``.
    """
    seconds = published.number(repo, "remote_wal", "command_time")
    wal_us = pl.col("wal_write_time_us") / pl.col("wal_writes")
    transaction_us = pl.col("concurrency") / pl.col("tps") * 1e6
    return published.read(repo, "remote_wal", "wal").select(
        "workload",
        "concurrency",
        pl.col("wal_write_concurrency").alias("concurrency_published"),
        (pl.col("wal_write_time_us") / 1e6 / seconds).round(2).alias("concurrency_found"),
        (wal_us / 1000).round_sig_figs(DIGITS).alias("wal_ms"),
        (transaction_us / 1000).round_sig_figs(DIGITS).alias("transaction_ms"),
        (wal_us / transaction_us).round(2).alias("share"),
        (pl.col("wal_bytes") / seconds / pl.col("tps")).round().alias("wal_bytes_per_transaction"),
        (pl.col("tps") * seconds / pl.col("wal_writes"))
        .round_sig_figs(DIGITS)
        .alias("transactions_per_write"),
    )


def wal_correlations(repo: Repo) -> pl.DataFrame:
    """Return how throughput correlates with each WAL metric along the threads, with intervals.

    See :func:`benchlab.stats.pearson` for what an interval of six points along a curve can say.
    """
    wal = published.read(repo, "remote_wal", "wal")
    metrics = [name for name in wal.columns if name.startswith("wal_")]
    rows = []
    for (workload,), group in wal.group_by("workload", maintain_order=True):
        for metric in metrics:
            row = {"workload": workload, "metric": metric, "n": len(group)}
            for how in (stats.pearson, stats.spearman):
                found = how(group["tps"].to_list(), group[metric].to_list())
                row[how.__name__] = round(found.value, DIGITS)
                row[f"{how.__name__}_low"] = round(found.low, DIGITS)
                row[f"{how.__name__}_high"] = round(found.high, DIGITS)
            rows.append(row)
    return pl.DataFrame(rows)


def throughput(repo: Repo) -> alt.FacetChart:
    """Throughput of He3DB and of PostgreSQL with either standby against threads, by workload."""
    frame = published.read(repo, "remote_wal", "throughput").with_columns(
        curve=article_charts.curve(lambda engine, variant: _REMOTE_WAL[engine, variant])
    )
    base = article_charts.base(frame["concurrency"], "threads").encode(
        y=alt.Y("tps:Q", title=None),
        tooltip=["curve:N", "concurrency:Q", alt.Tooltip("tps:Q", format=",.0f")],
    )
    lines = article_charts.lines(base, "curve", _REMOTE_WAL_STYLES)
    return article_charts.facets(lines, frame, "workload", theme.axis_title("tps")).resolve_scale(
        y="independent"
    )
