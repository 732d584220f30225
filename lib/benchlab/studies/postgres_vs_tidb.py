"""What the section on PostgreSQL against TiDB has beyond those of all studies."""

from typing import Any

import altair as alt
import polars as pl

from benchlab.engines.base import canonical
from benchlab.report import charts, evidence, monitor, points
from benchlab.report.points import with_curve
from benchlab.report.sections import Content, Source, digits
from benchlab.store import Store
from benchlab.store.results import POINT, Rerun
from benchlab.study import DEFAULT_ENVELOPE

#: Concurrency at which the effect of the tuning is told in the text.
_EFFECT_CONCURRENCY = 16

#: Figure → workload and variants of its curves.
_THROUGHPUT = {
    "write-only-default": ("oltp_write_only", ["default"]),
    "insert-default": ("oltp_insert", ["default"]),
    "point-select-default": ("oltp_point_select", ["default"]),
    "write-only": ("oltp_write_only", ["default", "tuned"]),
    "insert": ("oltp_insert", ["default", "tuned"]),
    "point-select": ("oltp_point_select", ["default", "tuned"]),
}

#: Size that the article gives for its dataset ("20 GB and more"), in bytes.
ARTICLE_DATASET_BYTES = 20e9

_SIMILITUDE_SCHEMA = {
    "ratio": pl.String,
    "article": pl.Float64,
    "ours": pl.Float64,
    "note": pl.String,
}

#: Size of a PostgreSQL page, in which random reads and checkpoints count.
_PAGE_BYTES = 8192


def section(source: Source) -> Content:
    """Gather what ``paper/sections/postgres_vs_tidb.md`` places of its own."""
    rerun, measured = source.rerun, source.measured
    main = measured.filter(envelope="main")
    monitored = _monitored(rerun)
    made = Content(
        {
            "disk_mb_per_s": rerun.instance.disk_bytes_per_s / 1e6,
            "as_sold": "as_sold" in measured["envelope"],
            "effect": _effect(main),
        },
        _throughput(main),
    )
    made.figures["envelopes"] = charts.envelopes(
        measured.filter(engine="postgres", variant="default", workload="oltp_write_only")
    )
    if monitored:
        samples, limits = (
            monitor.samples(rerun.store, monitored),
            monitor.limits(rerun.store, monitored),
        )
        made.figures["monitor"] = charts.monitor(samples, *limits)
    made.tables = {
        # ratios of different sizes: three digits each, not the same decimals for all
        "similitude": digits(similitude(rerun), "article", "ours"),
        "evidence": evidence.evidence(rerun, "postgres", "oltp_write_only"),
        "checkpoints": checkpoints(rerun),
        "costs": points.cost_table(rerun),
    }
    return made


def _throughput(main: pl.DataFrame) -> dict[str, alt.TopLevelMixin]:
    """Return the charts of throughput that there are points for."""
    figures = {}
    for name, (workload, variants) in _THROUGHPUT.items():
        shown = main.filter(pl.col("variant").is_in(variants), workload=workload)
        if not shown.is_empty():
            figures[name] = charts.throughput(shown, workload)
    return figures


def _effect(main: pl.DataFrame) -> dict[str, Any] | None:
    at = main.filter(engine="postgres", workload="oltp_write_only", concurrency=_EFFECT_CONCURRENCY)
    by_variant = {row["variant"]: row for row in at.iter_rows(named=True)}
    if by_variant.keys() != {"default", "tuned"}:
        return None
    default, tuned = by_variant["default"], by_variant["tuned"]
    return {
        "concurrency": _EFFECT_CONCURRENCY,
        "ratio": tuned["tps"] / default["tps"],
        "default_binding": default["binding"],
        "default_utilisation": default["binding_utilisation"] or 0.0,
        "tuned_binding": tuned["binding"],
    }


def _monitored(rerun: Rerun) -> dict[str, str]:
    """Return the runs for the monitor charts: oltp_insert under as many threads as were run."""
    inserts = rerun.counted.filter(workload="oltp_insert")
    highest = inserts["concurrency"].max()
    return monitor.monitored(rerun, "oltp_insert", highest) if highest else {}


def similitude(rerun: Rerun) -> pl.DataFrame:
    """Return the dimensionless ratios of the article beside those of a profile, as measured.

    Columns: ``ratio`` (what), ``article``, ``ours``, ``note``. A ratio that the article gives no
    number for is null on its side. Ours are of PostgreSQL's runs in the main envelope.
    """
    store, study, instance = rerun.store, rerun.study, rerun.instance
    counted = rerun.counted.filter(engine="postgres", envelope=DEFAULT_ENVELOPE)
    if counted.is_empty():
        return pl.DataFrame(schema=_SIMILITUDE_SCHEMA)
    run = counted.row(0, named=True)
    dataset = _counter(store, run["run_id"], "pg_database_size")
    buffers = _setting(store, run["run_id"], "shared_buffers")
    cores, memory = run["limit_cores"], run["limit_memory_bytes"]
    article = {
        "memory": instance.memory_bytes,
        "cores": instance.cores,
        "duration": study.profiles["paper"].measure_s,
    }
    rows = [
        ("dataset : memory", ARTICLE_DATASET_BYTES / article["memory"], dataset / memory, ""),
        (
            "buffer pool : memory",
            study.engines["postgres"].settings["shared_buffers"].of_memory,
            buffers / memory,
            "",
        ),
        (
            "memory per client at the most threads (MB)",
            instance.memory_bytes / max(study.profiles["paper"].concurrency) / 1e6,
            memory / counted["concurrency"].max() / 1e6,
            "what a connection takes is the same on every scale",
        ),
        (
            "max_wal_size : dataset, default",
            study.engines["postgres"].variants["default"]["max_wal_size"].of_memory
            * article["memory"]
            / ARTICLE_DATASET_BYTES,
            study.engines["postgres"].variants["default"]["max_wal_size"].of_memory
            * memory
            / dataset,
            "how often a page is logged in full",
        ),
        *_wal_rows(store, counted),
        (
            "disk bandwidth per core (MB/s)",
            instance.disk_bytes_per_s / instance.cores / 1e6,
            run["limit_write_bytes_per_s"] / cores / 1e6,
            "",
        ),
        (
            "disk operations per core (1/s)",
            instance.disk_iops / instance.cores,
            run["limit_write_iops"] / cores,
            study.envelopes[run["envelope"]].why.strip(),
        ),
        (
            "time to read the dataset at random : run",
            ARTICLE_DATASET_BYTES / _PAGE_BYTES / instance.disk_iops / article["duration"],
            dataset / _PAGE_BYTES / run["limit_read_iops"] / run["measure_s"],
            "a scaled run is too short for that, so it begins with the data read in",
        ),
    ]
    return pl.DataFrame(rows, schema=_SIMILITUDE_SCHEMA, orient="row")


def checkpoints(rerun: Rerun) -> pl.DataFrame:
    """Return PostgreSQL's checkpoints in the measured part of each point, and the WAL between them.

    The article explains its rebound at high concurrency by checkpoints that come later than
    ``max_wal_size`` asks for. Medians over trials.
    """
    per_run = rerun.metrics.filter(engine="postgres").with_columns(
        (pl.col("checkpoints_per_s") * pl.col("measured_s")).round().alias("checkpoints"),
        (pl.col("wal_bytes_per_transaction") * pl.col("transactions") / 1e6).alias("wal_mb"),
        (pl.col("wal_bytes_per_checkpoint") / 1e6).alias("wal_mb_per_checkpoint"),
    )
    shown = ["wal_mb", "wal_mb_per_checkpoint", "full_pages_per_transaction"]
    return with_curve(
        per_run.group_by(POINT)
        .agg(pl.col("checkpoints", *shown).median())
        .sort("workload", "variant", "envelope", "concurrency"),
        rerun.study.labels,
    ).select(
        "curve",
        "workload",
        "envelope",
        "concurrency",
        "checkpoints",
        pl.col(shown).round_sig_figs(3),
    )


def _counter(store: Store, run_id: str, name: str) -> float:
    found = store.sql(
        "SELECT at_begin FROM engine_counter WHERE run_id = ? AND name = ?", run_id, name
    )
    return found["at_begin"][0]


def _setting(store: Store, run_id: str, name: str) -> float:
    row = store.sql(
        "SELECT effective, unit FROM engine_setting WHERE run_id = ? AND name = ?", run_id, name
    ).row(0)
    return canonical(*row)


def _wal_rows(store: Store, counted: pl.DataFrame) -> list[tuple]:
    rows = []
    written = store.sql(
        "SELECT run_id, at_end - at_begin AS wal FROM engine_counter"
        " WHERE name = 'pg_stat_wal.wal_bytes'"
    )
    asked = store.sql("SELECT run_id, asked FROM engine_setting WHERE name = 'max_wal_size'")
    for variant, note in (
        ("default", "no WAL volume in the article; its disk could write 84 in a run at most"),
        ("tuned", "the article guesses one checkpoint in a run"),
    ):
        joined = (
            counted.filter(
                (pl.col("variant") == variant) & (pl.col("workload") == "oltp_write_only")
            )
            .join(written, on="run_id")
            .join(asked, on="run_id")
        )
        if joined.is_empty():
            continue
        ratios = [
            wal / canonical(size) for wal, size in zip(joined["wal"], joined["asked"], strict=True)
        ]
        rows.append((f"WAL in a write_only run : max_wal_size, {variant}", None, max(ratios), note))
    return rows
