"""The article on a remote log: its numbers computed again, and how a slow log affects PostgreSQL."""

from dataclasses import dataclass

import altair as alt
import polars as pl

from benchlab import stats
from benchlab.claims import published
from benchlab.numbers import DIGITS, rounded
from benchlab.repo import Repo
from benchlab.report import article_charts, log_writes, points, sections, standbys, theme
from benchlab.report.sections import Content, Source
from benchlab.stats import CommitModel
from benchlab.stats.commits import LOG_WAITS
from benchlab.store.results import Rerun
from benchlab.study import Study
from benchlab.study.vocabulary import METRICS

STUDY = "remote_wal"

#: PostgreSQL without a standby; its variant with the log beside the data; that with a slow log disk.
ALONE, LOCAL, REMOTE = "remote_log", "local", "remote"

#: Metric of the correlations → its name in the paper.
_LABELS = {name: metric.label for name, metric in METRICS.items()} | {
    "wal_bytes": "WAL of the run",
    "wal_bytes_per_s": "WAL a second",
    "wal_write_time_us": "time of all durable writes of the WAL",
    "wal_writes": "durable writes of the WAL in the run",
}

#: Workload whose curves the model of a slow log is fitted to.
MODELLED = "oltp_insert"

#: Latencies of a durable write that the model is drawn for, in ms; the most clients in its charts.
LATENCIES_MS = (0.1, 0.3, 1.0, 3.0, 10.0)
MOST_CLIENTS = 512

#: Share of the local log's throughput from which on a slower log counts as good enough; all shares that
#: a chart shows.
ENOUGH = 0.9
SHARES = (0.8, ENOUGH, 0.95)

#: PostgreSQL's three variants differ only in their standby, which the article does not always name.
_LABEL_OF_CURVE = {
    ("he3db", "default"): "He3DB",
    ("postgres", "sync_standby"): "PostgreSQL, semi-synchronous standby",
    ("postgres", "async_standby"): "PostgreSQL, asynchronous standby",
    ("postgres", "not_stated"): "PostgreSQL, standby not stated",
}


_STYLES: article_charts.Styles = dict(
    zip(
        _LABEL_OF_CURVE.values(),
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
    """Return He3DB's peak : PostgreSQL's in each workload, and their ratio at 512 threads."""
    throughput = published.read(repo, STUDY, "throughput")
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
    """Return each point's concurrency of WAL writes and their share of a transaction.

    The values are from the published WAL tables.

    Columns: ``concurrency_published`` and ``concurrency_found`` (mean number of WAL writes under way),
    ``wal_ms`` and ``transaction_ms`` (mean times; a transaction's by Little's law), ``share`` (of the
    first time in the second), ``wal_bytes_per_transaction``, ``transactions_per_write``.
    """
    seconds = published.number(repo, STUDY, "command_time")
    wal_us = pl.col("wal_write_time_us") / pl.col("wal_writes")
    transaction_us = pl.col("concurrency") / pl.col("tps") * 1e6
    return published.read(repo, STUDY, "wal").select(
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
    """Return how throughput correlates with each WAL metric over the threads, with intervals.

    See :func:`benchlab.stats.pearson` for what an interval of six points of a curve can show.
    """
    wal = published.read(repo, STUDY, "wal")
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
    """Return charts of He3DB's and PostgreSQL's throughput against threads, one per workload."""
    frame = published.read(repo, STUDY, "throughput").with_columns(
        curve=article_charts.curve(lambda engine, variant: _LABEL_OF_CURVE[engine, variant])
    )
    base = article_charts.base(frame["concurrency"], "threads").encode(
        y=alt.Y("tps:Q", title=None),
        tooltip=["curve:N", "concurrency:Q", alt.Tooltip("tps:Q", format=",.0f")],
    )
    lines = article_charts.lines(base, "curve", _STYLES)
    return article_charts.facets(lines, frame, "workload", theme.TPS_TITLE).resolve_scale(
        y="independent"
    )


def wal_classes(repo: Repo) -> pl.DataFrame:
    """Return the published classes of He3DB's WAL writes by time; see :func:`log_writes.classes`.

    Columns: ``curve`` (the workload), ``workload``, ``concurrency``, ``class``, ``position``,
    ``writes``, ``share``.
    """
    order = [*log_writes.CLASSES, log_writes.LAST_CLASS]
    position = pl.col("from_ms").cast(pl.Int64)
    return (
        published.read(repo, STUDY, "wal_latency")
        .with_columns(
            pl.format("He3DB, {}", pl.col("workload").str.strip_prefix("oltp_")).alias("curve"),
            position.alias("position"),
            position.replace_strict(range(len(order)), order, return_dtype=pl.String).alias(
                "class"
            ),
            (pl.col("writes") / pl.col("writes").sum().over("workload", "concurrency")).alias(
                "share"
            ),
        )
        .select("curve", "workload", "concurrency", "class", "position", "writes", "share")
    )


def correlations(rerun: Rerun) -> pl.DataFrame:
    """Return how throughput correlates with each WAL metric along each measured curve.

    Columns: ``curve``, ``workload``, ``metric``, ``n`` (points), ``pearson``, ``low``, ``high``. Points
    that did not pass the gate are left out, and curves of fewer than four points, whose correlation
    shows nothing.
    """
    passed = log_writes.table(rerun).filter(pl.col("gate passed") == "yes")
    table = passed.with_columns(
        wal_bytes_per_s=pl.col("wal_writes_per_s") * pl.col("wal_bytes_per_write")
    )
    rows = []
    for (curve, workload), group in table.group_by("curve", "workload", maintain_order=True):
        if len(group) < 4:
            continue
        for metric in ("wal_bytes_per_s", *log_writes.METRICS[:4]):
            if group[metric].n_unique() < 2:
                continue
            found = stats.pearson(group["tps"].to_list(), group[metric].to_list())
            rows.append(
                {
                    "curve": curve,
                    "workload": workload,
                    "metric": metric,
                    "n": len(group),
                    "pearson": round(found.value, DIGITS),
                    "low": round(found.low, DIGITS),
                    "high": round(found.high, DIGITS),
                }
            )
    return pl.DataFrame(rows)


@dataclass(frozen=True)
class SlowLog:
    """A model of throughput with a local and a remote log, and the measured points."""

    model: CommitModel
    points: pl.DataFrame
    """``curve``, ``variant``, ``concurrency``, ``tps``, ``tps_low``, ``tps_high``, ``latency_us`` (of a
    durable write at rest), ``fitted`` (whether the model was fitted to it), ``predicted``."""

    @property
    def error(self) -> float:
        """Median relative error at the points that the model was not fitted to."""
        others = self.points.filter(~pl.col("fitted"))
        return (others["predicted"] / others["tps"] - 1).abs().median()

    @property
    def local_s(self) -> float:
        """Latency of the local log, s."""
        return self.points.filter(variant=LOCAL)["latency_us"].median() / 1e6

    @property
    def slower_ms(self) -> list[float]:
        """Those of :data:`LATENCIES_MS` that are above the local log's; none where that is slow."""
        return [one for one in LATENCIES_MS if one / 1e3 > self.local_s]

    def needed(self) -> pl.DataFrame:
        """Return the clients from which on a log of each latency is nearly as good as the local one.

        Columns: ``latency_ms``, ``clients`` (null: more than :data:`MOST_CLIENTS`), ``share_of_one``
        (throughput of a single client, as a share of that with the local log).
        """
        rows = []
        for latency_ms in self.slower_ms:
            slow_s = latency_ms / 1e3
            clients = self.model.enough_clients(slow_s, self.local_s, ENOUGH, MOST_CLIENTS)
            one = self.model.tps([1], slow_s) / self.model.tps([1], self.local_s)
            rows.append((latency_ms, clients, round(float(one[0]), 2)))
        schema = {"latency_ms": pl.Float64, "clients": pl.Int64, "share_of_one": pl.Float64}
        return pl.DataFrame(rows, schema=schema, orient="row")


def slow_log(rerun: Rerun) -> SlowLog | None:
    """Fit the model to every other number of clients; ``None`` if too few points passed the gate."""
    probes = (
        rerun.metrics.join(log_writes.probed(rerun), on="run_id")
        .filter(engine=ALONE, workload=MODELLED)
        .group_by("variant")
        .agg(pl.col("probe_us").median().alias("latency_us"))
    )
    measured = (
        points.points(rerun)
        .filter(pl.col("variant").is_in([LOCAL, REMOTE]), "valid", engine=ALONE, workload=MODELLED)
        .join(probes, on="variant", maintain_order="left")
        .sort("variant", "concurrency")
    )
    numbers = measured["concurrency"].unique().sort().to_list()
    fitted = measured.with_columns(pl.col("concurrency").is_in(numbers[::2]).alias("fitted"))
    half = fitted.filter("fitted")
    if measured["variant"].n_unique() < 2 or len(numbers) < 4 or len(half) < stats.LEAST_POINTS:
        return None
    cores = rerun.counted["limit_cores"].first()
    latency = half["latency_us"] / 1e6
    model = stats.fit_commits(half["concurrency"], latency, half["tps"], cores)
    predicted = model.tps(fitted["concurrency"], fitted["latency_us"] / 1e6)
    chosen = ("curve", "variant", "concurrency", "tps", "tps_low", "tps_high", "latency_us")
    return SlowLog(model, fitted.select(*chosen, "fitted", pl.Series("predicted", predicted)))


def model_chart(study: Study, slow: SlowLog, clients: str) -> alt.LayerChart:
    """Return a chart of measured throughput and the model by log; points not in the fit are hollow."""
    measured = slow.points
    most = measured["concurrency"].max()
    numbers = [2 ** (n / 8) for n in range(0, 8 * most.bit_length()) if 2 ** (n / 8) <= most]
    lines = pl.concat(
        [
            pl.DataFrame(
                {
                    "curve": row["curve"],
                    "concurrency": numbers,
                    "tps": slow.model.tps(numbers, row["latency_us"] / 1e6),
                }
            )
            for row in measured.unique("variant", maintain_order=True).iter_rows(named=True)
        ]
    )
    x = theme.log_axis("concurrency", measured["concurrency"], clients)
    y = alt.Y("tps:Q", title=theme.TPS_TITLE, scale=alt.Scale(zero=True))
    color, dash = theme.of_curves(study, measured)
    tooltip = ["curve", "concurrency", "fitted"] + [
        alt.Tooltip(f"{name}:Q", format=",.0f") for name in ("tps", "predicted")
    ]
    base = alt.Chart(measured).encode(x=x, color=color, tooltip=tooltip)
    return alt.layer(
        alt.Chart(lines).mark_line(strokeWidth=1.5).encode(x=x, y=y, color=color, strokeDash=dash),
        base.transform_filter("isValid(datum.tps_low)")
        .mark_rule(strokeWidth=1.25)
        .encode(y=alt.Y("tps_low:Q"), y2="tps_high:Q"),
        base.transform_filter("datum.fitted").mark_point(filled=True, size=55).encode(y=y),
        base.transform_filter("!datum.fitted").mark_point(filled=False, size=55).encode(y=y),
    ).properties(width=560, height=280)


def decision_chart(slow: SlowLog, clients: str) -> alt.LayerChart:
    """Return a chart of the model's throughput at several latencies of the log : with the local log.

    Above the dashed line a slow log hardly matters any more.
    """
    ticks = [2**n for n in range(MOST_CLIENTS.bit_length())]
    numbers = [2 ** (n / 8) for n in range(8 * (len(ticks) - 1) + 1)]
    local = slow.model.tps(numbers, slow.local_s)
    rows = pl.concat(
        [
            pl.DataFrame(
                {
                    "latency": f"{latency_ms:g} ms",
                    "concurrency": numbers,
                    "share": slow.model.tps(numbers, latency_ms / 1e3) / local,
                }
            )
            for latency_ms in slow.slower_ms
        ]
    )
    lines = (
        alt.Chart(rows)
        .mark_line()
        .encode(
            x=theme.log_axis("concurrency", pl.Series(ticks), clients),
            y=alt.Y(
                "share:Q",
                title="throughput, of that with the local log",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=[0, 1]),
            ),
            color=theme.colors("latency", rows, "latency of the log"),
            strokeDash=theme.dashes("latency", rows, "latency of the log"),
            tooltip=["latency", "concurrency", alt.Tooltip("share:Q", format=".0%")],
        )
    )
    enough = theme.reference_line(y=ENOUGH)
    return alt.layer(lines, enough).properties(width=560, height=260)


def needed_chart(slow: SlowLog, clients: str) -> alt.LayerChart:
    """Return a chart of the clients from which on a slow log is nearly as good as the local one.

    The curves are the model's. The dashed lines are the measured latencies; the model was fitted there.
    """
    latencies_ms = [10 ** (n / 12 - 1) for n in range(25)]
    rows = pl.DataFrame(
        [
            {
                "share": f"{share:.0%}",
                "latency_ms": latency_ms,
                "clients": slow.model.enough_clients(
                    latency_ms / 1e3, slow.local_s, share, MOST_CLIENTS
                ),
            }
            for share in SHARES
            for latency_ms in latencies_ms
        ]
    ).drop_nulls()
    title = "latency of a durable write (ms)"
    x = alt.X(
        "latency_ms:Q",
        title=title,
        scale=alt.Scale(type="log", domain=[LATENCIES_MS[0], LATENCIES_MS[-1]]),
        axis=alt.Axis(values=list(LATENCIES_MS), format="~g"),
    )
    y = alt.Y(
        "clients:Q",
        title=clients,
        scale=alt.Scale(type="log", base=2, domain=[1, MOST_CLIENTS], nice=False),
        axis=alt.Axis(values=[2**n for n in range(MOST_CLIENTS.bit_length())], format="d"),
    )
    lines = (
        alt.Chart(rows)
        .mark_line()
        .encode(
            x=x,
            y=y,
            color=theme.colors("share", rows, "of the local log's throughput"),
            strokeDash=theme.dashes("share", rows, "of the local log's throughput"),
            tooltip=["share", alt.Tooltip("latency_ms:Q", format=".2f"), "clients"],
        )
    )
    measured = slow.points.group_by("variant").agg(
        (pl.col("latency_us").median() / 1e3).alias("ms")
    )
    rules = (
        alt.Chart(measured.sort("ms"))
        .mark_rule(strokeDash=[4, 4], color="#555555")
        .encode(x=alt.X("ms:Q", title=title))
    )
    return alt.layer(lines, rules).properties(width=560, height=260)


def full_pages(rerun: Rerun) -> pl.DataFrame:
    """Return what full pages cost, by pair of variants that differ only in ``full_page_writes``.

    Columns: ``engine``, ``workload``, ``concurrency``, ``with`` and ``without`` (variants),
    ``tps_with``, ``tps_without``, ``without : with`` (of these), ``wal_with`` and ``wal_without``
    (bytes per transaction), ``gate passed`` (by both).
    """
    costs = rerun.metrics.group_by("engine", "variant", "workload", "concurrency").agg(
        pl.col("tps", "wal_bytes_per_transaction").median(), pl.col("valid").all()
    )
    pairs = {
        "sync_no_full_pages": "sync_standby",
        "remote_no_full_pages": "remote",
        "narrow_no_full_pages": "narrow",
    }
    without = costs.filter(pl.col("variant").is_in(list(pairs))).with_columns(
        pl.col("variant").replace_strict(pairs, return_dtype=pl.String).alias("with")
    )
    both = without.join(
        costs.rename({"variant": "with"}),
        on=["engine", "with", "workload", "concurrency"],
        suffix="_with",
    )
    both = both.with_columns(pl.col("valid") & pl.col("valid_with"))
    return points.in_order(both, rerun.study, "concurrency").select(
        points.engine_named(rerun.study),
        points.named(rerun.study),
        "concurrency",
        "with",
        pl.col("variant").alias("without"),
        pl.col("tps_with").round(),
        pl.col("tps").round().alias("tps_without"),
        (pl.col("tps") / pl.col("tps_with")).round(2).alias("without : with"),
        pl.col("wal_bytes_per_transaction_with").round().alias("wal_with"),
        pl.col("wal_bytes_per_transaction").round().alias("wal_without"),
        points.gate_passed(),
    )


def _labelled(found: pl.DataFrame) -> pl.DataFrame:
    """Name the metrics of a table of correlations for readers; it may have no row and no column."""
    return found.with_columns(pl.col("metric").replace(_LABELS)) if len(found) else found


def section(source: Source) -> Content:
    """Return the content that ``paper/sections/remote_wal.md`` shows beyond the common content."""
    repo, rerun = source.repo, source.rerun
    made = sections.default(source)
    shares, slow = log_writes.classes(rerun), slow_log(rerun)
    made.tables |= {
        "wal": log_writes.table(rerun),
        "traced": log_writes.traced(rerun),
        "full-pages": full_pages(rerun),
        "correlations": _labelled(correlations(rerun)),
        "correlations-published": _labelled(
            wal_correlations(repo).select("workload", "metric", "n", "^pearson.*$")
        ),
        "standbys": standbys.ratios(repo, rerun),
        "standbys-where": standbys.where(rerun),
    }
    where = made.tables["standbys-where"]
    made.context["shared_cores"] = standbys.shared_cores(rerun, where)
    made.context["node_cores"] = rerun.metrics["limit_cores"].max()
    made.context["traced"] = log_writes.agreement(made.tables["traced"])
    made.context["most_concurrent_writes"] = wal_shape(repo)["concurrency_published"].max()
    made.figures["classes-published"] = log_writes.class_chart(
        wal_classes(repo), rerun.study.clients, "He3DB, as published"
    )
    inserts = shares.filter(workload=MODELLED)
    if len(inserts):
        made.figures["classes"] = log_writes.class_chart(inserts, rerun.study.clients, "insert")
    lags = log_writes.lags(rerun).filter(workload=MODELLED)
    if len(lags):
        made.figures["lags"] = log_writes.lag_chart(rerun.study, lags)
    if slow:
        made.figures["model"] = model_chart(rerun.study, slow, rerun.study.clients)
        if slow.slower_ms:
            made.figures["decision"] = decision_chart(slow, rerun.study.clients)
        made.figures["needed-clients"] = needed_chart(slow, rerun.study.clients)
        made.tables["needed"] = slow.needed()
        made.context["slow_log"] = {
            "error": slow.error,
            "local_ms": 1e3 * slow.local_s,
            "remote_ms": slow.points.filter(variant=REMOTE)["latency_us"].median() / 1e3,
            "enough": ENOUGH,
            "cores": slow.model.cores,
            "waits": slow.model.log_waits,
            "waits_limits": LOG_WAITS,
            "least": slow.points["concurrency"].min(),
            "most": slow.points["concurrency"].max(),
        }
    return made
