"""Content that only the section on PostgreSQL against TiDB has."""

from typing import Any

import altair as alt
import polars as pl

from benchlab.engines.base import canonical
from benchlab.report import charts, evidence, monitor, points
from benchlab.report import similitude as similitudes
from benchlab.report.points import with_curve
from benchlab.report.sections import Content, Source, digits
from benchlab.store.results import POINT, Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study
from benchlab.study.resources import UNKNOWN

#: Concurrency at which the text reports the effect of the tuning.
_EFFECT_CONCURRENCY = 16

#: Engine → the claim that gives the article's peak at which it saw all its cores busy.
_TUNED_PEAKS = {
    "postgres": "postgres_tuned_peak_write_only",
    "tidb": "tidb_tuned_peak_write_only",
}

#: Figure → variant of PostgreSQL whose write_only curve it shows in all envelopes.
_ENVELOPES = {"envelopes": "default", "faster-disk": "tuned"}

#: Figure → workload and variants of its curves.
_THROUGHPUT = {
    "write-only-default": ("oltp_write_only", ["default"]),
    "insert-default": ("oltp_insert", ["default"]),
    "point-select-default": ("oltp_point_select", ["default"]),
    "write-only": ("oltp_write_only", ["default", "tuned"]),
    "insert": ("oltp_insert", ["default", "tuned"]),
    "point-select": ("oltp_point_select", ["default", "tuned"]),
}


def section(source: Source) -> Content:
    """Return the content of ``paper/sections/postgres_vs_tidb.md`` beyond the common content."""
    rerun, measured = source.rerun, source.measured
    main = measured.filter(envelope=DEFAULT_ENVELOPE)
    monitored = _monitored(rerun)
    made = Content(
        {
            "disk_mb_per_s": rerun.instance.disk_bytes_per_s / 1e6,
            "envelopes": measured["envelope"].unique().to_list(),
            "cpu_ms": cpu_ms(rerun, "postgres"),
            "disk_speed": rerun.study.envelopes["faster_disk"].disk_speed,
            "effect": _effect(rerun, main),
        },
        _throughput(rerun.study, main),
    )
    for figure, variant in _ENVELOPES.items():
        curve = {"engine": "postgres", "variant": variant, "workload": "oltp_write_only"}
        if not (shown := measured.filter(**curve)).is_empty():
            made.figures[figure] = charts.envelopes(rerun.study, shown)
    if monitored:
        samples, limits = (
            monitor.samples(rerun.store, monitored),
            monitor.limits(rerun.store, monitored),
        )
        made.figures["monitor"] = charts.monitor(samples, *limits)
    made.tables = {
        "similitude": digits(similitude(rerun), "article", "here"),
        "evidence": evidence.evidence(rerun, "postgres", "oltp_write_only"),
        "evidence-tidb": evidence.evidence(rerun, "tidb", "oltp_write_only"),
        "checkpoints": checkpoints(rerun),
    }
    return made


def _throughput(study: Study, main: pl.DataFrame) -> dict[str, alt.TopLevelMixin]:
    """Return the charts of throughput that have points."""
    figures = {}
    for name, (workload, variants) in _THROUGHPUT.items():
        shown = main.filter(pl.col("variant").is_in(variants), workload=workload)
        if not shown.is_empty():
            figures[name] = charts.throughput(study, shown, workload)
    return figures


def _effect(rerun: Rerun, main: pl.DataFrame) -> dict[str, Any] | None:
    """Return what the tuning does at one point; ``None`` if a side of it did not pass the gate."""
    at = {
        "engine": "postgres",
        "workload": "oltp_write_only",
        "concurrency": _EFFECT_CONCURRENCY,
    }
    runs = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE, **at)
    ratio = points.ratios(runs, "tps", "tuned", "default").filter("valid")
    if ratio.is_empty():
        return None
    bound = main.filter(pl.col("variant").is_in(["default", "tuned"]), **at)
    known = bound.filter(pl.col("binding") != UNKNOWN)
    return {
        "concurrency": _EFFECT_CONCURRENCY,
        "bound": dict(known.select("variant", "binding").iter_rows()),
    } | ratio.select("ratio", "low", "high").row(0, named=True)


def _monitored(rerun: Rerun) -> dict[str, str]:
    """Return the runs for the monitor charts: oltp_insert at the highest concurrency that was run."""
    inserts = rerun.counted.filter(workload="oltp_insert")
    highest = inserts["concurrency"].max()
    return monitor.monitored(rerun, "oltp_insert", highest) if highest else {}


def similitude(rerun: Rerun) -> pl.DataFrame:
    """Return ratios and sizes of the article's experiment and of ours in the main envelope.

    Columns: those of :func:`benchlab.report.similitude.similitude`. Further rows compare the cores by
    the CPU time of a transaction, and give how often the WAL of a run fills ``max_wal_size``.
    """
    further = [*_cpu_rows(rerun), *_wal_rows(rerun)]
    rows = pl.DataFrame(further, schema=similitudes.SCHEMA, orient="row")
    return pl.concat([similitudes.similitude(rerun), rows])


def checkpoints(rerun: Rerun) -> pl.DataFrame:
    """Return PostgreSQL's checkpoints in the measured part of each point, and the WAL between them.

    The article explains its rebound at high concurrency by checkpoints that come later than
    ``max_wal_size`` asks for. Medians over trials.
    """
    per_run = rerun.metrics.filter(engine="postgres").with_columns(
        (pl.col("checkpoints_per_s") * pl.col("measured_s")).round().alias("checkpoints"),
        (pl.col("wal_bytes_per_transaction") * pl.col("transactions") / 1e6).alias("WAL (MB)"),
        (pl.col("wal_bytes_per_checkpoint") / 1e6).alias("WAL per checkpoint (MB)"),
    )
    shown = ["WAL (MB)", "WAL per checkpoint (MB)", "full_pages_per_transaction"]
    found = with_curve(
        per_run.group_by(*POINT, "valid").agg(pl.col("checkpoints", *shown).median()), rerun.study
    )
    return points.in_order(found, rerun.study, "envelope", "concurrency").select(
        "curve",
        points.named(rerun.study),
        "envelope",
        "concurrency",
        "checkpoints",
        pl.col(shown).round_sig_figs(3),
        points.gate_passed(),
    )


def cpu_ms(rerun: Rerun, engine: str) -> tuple[float, float] | None:
    """Return the CPU time of an engine's tuned write_only transaction in ms, the article's and ours.

    The article's follows from its peak, at which it saw all its cores busy, with its load generator on
    the same machine. Ours is of engine, load generator and kernel threads, too: the median over the
    runs of the main envelope that passed the gate. ``None``: none passed.
    """
    runs = rerun.metrics.filter(
        "valid",
        engine=engine,
        variant="tuned",
        workload="oltp_write_only",
        envelope=DEFAULT_ENVELOPE,
    )
    runs = runs.drop_nulls(["engine_cpu_percent", "client_cpu_percent"])
    # kernel threads are not counted on every host
    percent = pl.sum_horizontal("engine_cpu_percent", "client_cpu_percent", "kernel_cpu_percent")
    cores = percent / 100 * pl.col("limit_cores")
    ours = runs.select(1e3 * cores / pl.col("tps")).to_series().median()
    if ours is None:
        return None
    peak = next(
        one.decided_by.value for one in rerun.study.claims if one.id == _TUNED_PEAKS[engine]
    )
    return 1e3 * rerun.instance.cores / peak, ours


def _cpu_rows(rerun: Rerun) -> list[tuple]:
    why = (
        "of engine, load generator and kernel; the article's if all its cores were busy at its peak"
    )
    labels = {name: one.label for name, one in rerun.study.engines.items()}
    return [
        (f"CPU time of a tuned write_only transaction, {labels[engine]} (ms)", *found, why)
        for engine in _TUNED_PEAKS
        if (found := cpu_ms(rerun, engine))
    ]


def _wal_rows(rerun: Rerun) -> list[tuple]:
    rows = []
    counted = rerun.counted.filter(engine="postgres", envelope=DEFAULT_ENVELOPE)
    written = rerun.of_runs(
        "SELECT run_id, at_end - at_begin AS wal FROM engine_counter SEMI JOIN chosen USING (run_id)"
        " WHERE name = 'pg_stat_wal.wal_bytes'"
    )
    requested = rerun.of_runs(
        "SELECT run_id, requested FROM engine_setting SEMI JOIN chosen USING (run_id)"
        " WHERE name = 'max_wal_size'"
    )
    paper_s = rerun.study.profiles["paper"].measure_s
    most = rerun.instance.disk_bytes_per_s * paper_s / canonical("1GB")
    for variant, note in (
        ("default", f"no WAL volume in the article; its disk could write {most:.0f} in a run"),
        ("tuned", "the article guesses one checkpoint in a run"),
    ):
        joined = (
            counted.filter(
                (pl.col("variant") == variant) & (pl.col("workload") == "oltp_write_only")
            )
            .join(written, on="run_id")
            .join(requested, on="run_id")
        )
        if joined.is_empty():
            continue
        ratios = [
            wal / canonical(size)
            for wal, size in zip(joined["wal"], joined["requested"], strict=True)
        ]
        name = f"WAL in a write_only run, at most : max_wal_size, {variant}"
        rows.append((name, None, max(ratios), note))
    return rows
