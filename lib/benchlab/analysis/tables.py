"""Tables of the analysis notebooks and the paper, each from the store and the study file."""

import polars as pl

from benchlab import metrics, results
from benchlab.analysis import points
from benchlab.analysis.points import with_curve
from benchlab.attribution import UNKNOWN
from benchlab.engines.base import canonical
from benchlab.errors import StoreError
from benchlab.results import POINT
from benchlab.store import Store
from benchlab.study import DEFAULT_ENVELOPE, Instance, Study

#: Size that the article gives for its dataset ("20 GB and more"), in bytes.
ARTICLE_DATASET_BYTES = 20e9

#: Difference of a run's second half to its first up to which it counts as settled.
SETTLED_DRIFT = 0.2

_SIMILITUDE_SCHEMA = {
    "ratio": pl.String,
    "article": pl.Float64,
    "ours": pl.Float64,
    "note": pl.String,
}

#: Size of a PostgreSQL page, in which random reads and checkpoints count.
_PAGE_BYTES = 8192


def similitude(
    store: Store, study: Study, profile: str, instance: Instance, target: str | None = None
) -> pl.DataFrame:
    """Return the dimensionless ratios of the article beside those of a profile, as measured.

    Columns: ``ratio`` (what), ``article``, ``ours``, ``note``. A ratio that the article gives no
    number for is null on its side. Ours are of PostgreSQL's runs in the main envelope.
    """
    counted = results.counted(store, study.study, profile, target).filter(
        engine="postgres", envelope=DEFAULT_ENVELOPE
    )
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


def parameters(
    store: Store, study: str, profile: str, engine: str, target: str | None = None
) -> pl.DataFrame:
    """Return what was asked of an engine and what its server reported, a column per variant.

    Settings that differ between variants come first. A variant of which no run counts, as when it is
    refused, is null.
    """
    latest = results.runs(store, study, profile, target).filter(engine=engine)
    variants = sorted(set(latest["variant"]))
    ids = latest.filter(status="ok").group_by("variant").agg(pl.col("run_id").first())
    settings = store.sql("SELECT run_id, name, asked, effective, unit FROM engine_setting").join(
        ids, on="run_id"
    )
    unit = pl.col("unit").fill_null("")
    shown = settings.with_columns(
        pl.concat_str(
            pl.col("asked"),
            pl.lit(" → "),
            pl.col("effective"),
            # PostgreSQL counts some settings in pages: 32768 × 8kB
            pl.when(unit.str.contains(r"^\d")).then(pl.lit(" × ")).otherwise(pl.lit(" ")),
            unit,
        )
        .str.strip_chars()
        .alias("value")
    )
    if shown.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(("setting", *variants), pl.String))
    wide = shown.pivot(on="variant", index="name", values="value")
    reported = [variant for variant in variants if variant in wide.columns]
    differs = pl.concat_list(reported).list.n_unique() > 1
    return wide.sort(differs, "name", descending=[True, False]).select(
        pl.col("name").alias("setting"),
        *[
            variant if variant in reported else pl.lit(None, pl.String).alias(variant)
            for variant in variants
        ],
    )


def checkpoints(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return PostgreSQL's checkpoints in the measured part of each point, and the WAL between them.

    The article explains its rebound at high concurrency by checkpoints that come later than
    ``max_wal_size`` asks for. Medians over trials.
    """
    counted = results.counted(store, study, profile, target).filter(engine="postgres")
    per_run = metrics.of(store, counted).with_columns(
        (pl.col("checkpoints_per_s") * pl.col("measured_s")).round().alias("checkpoints"),
        (pl.col("wal_bytes_per_transaction") * pl.col("transactions") / 1e6).alias("wal_mb"),
        (pl.col("wal_bytes_per_checkpoint") / 1e6).alias("wal_mb_per_checkpoint"),
    )
    shown = ["wal_mb", "wal_mb_per_checkpoint", "full_pages_per_transaction"]
    return with_curve(
        per_run.group_by(POINT)
        .agg(pl.col("checkpoints", *shown).median())
        .sort("workload", "variant", "envelope", "concurrency")
    ).select(
        "curve",
        "workload",
        "envelope",
        "concurrency",
        "checkpoints",
        pl.col(shown).round_sig_figs(3),
    )


def costs(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return what a transaction cost at every point, rounded to three digits, for reading."""
    frame = points.costs(store, study, profile, target)
    numbers = [name for name in frame.columns if name.endswith("_per_transaction")]
    return frame.select(
        "curve", "workload", "envelope", "concurrency", pl.col("tps", *numbers).round_sig_figs(3)
    ).sort("workload", "curve", "envelope", "concurrency")


def evidence(
    store: Store, study: str, profile: str, engine: str, workload: str, target: str | None = None
) -> pl.DataFrame:
    """Return what bound each run of an engine's workload, and by which evidence."""
    return (
        results.counted(store, study, profile, target)
        .filter(engine=engine, workload=workload)
        .join(
            store.sql("SELECT run_id, resource, evidence FROM attribution WHERE binds"),
            on="run_id",
            how="left",
        )
        .select(
            "variant",
            "envelope",
            "concurrency",
            "trial",
            pl.col("tps").round(),
            pl.col("resource").fill_null(UNKNOWN).alias("bound by"),
            "evidence",
        )
        .sort("variant", "envelope", "concurrency", "trial")
    )


def monitored(
    store: Store,
    study: str,
    profile: str,
    workload: str,
    concurrency: int,
    target: str | None = None,
) -> dict[str, str]:
    """Return one run of every curve of a workload at one concurrency: name to show → run."""
    found = with_curve(
        results.counted(store, study, profile, target)
        .filter(
            workload=workload,
            concurrency=concurrency,
            envelope=DEFAULT_ENVELOPE,
            trial=1,
        )
        .sort("engine", "variant", descending=[True, False])
    )
    return dict(zip(found["curve"], found["run_id"], strict=True))


def limits(store: Store, run_ids: dict[str, str]) -> tuple[float, float]:
    """Return the cores and the MB/s of disk writes that bound the chosen runs.

    Raises:
        StoreError: there is no run.
    """
    run_id = next(iter(run_ids.values()), "none")
    rows = store.sql(
        "SELECT limit_cores, limit_write_bytes_per_s / 1e6 AS mb FROM run WHERE run_id = ?", run_id
    )
    if rows.is_empty():
        raise StoreError("no run to take the limits from")
    return rows.row(0)


def unsettled(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return the points whose throughput was still moving: their mean is no steady-state value."""
    measured = points.points(store, study, profile, target)
    return (
        measured.filter(pl.col("drift").abs() > SETTLED_DRIFT)
        .select("curve", "workload", "envelope", "concurrency", pl.col("drift").round(2))
        .sort("workload", "curve", "concurrency")
    )


def monitor_samples(store: Store, run_ids: dict[str, str]) -> pl.DataFrame:
    """Return CPU and disk over the measured seconds of chosen runs, for the monitor charts.

    Args:
        store: the store.
        run_ids: name to show → run.

    Returns:
        ``run``, ``second``, ``engine_cores``, ``client_cores``, ``write_mb_per_s``,
        ``read_mb_per_s``.
    """
    frames = []
    for name, run_id in run_ids.items():
        frames.append(
            store.sql(
                """
                SELECT ? AS run, round(t - measure_begin, 1) AS second,
                    any_value(value) FILTER (subject = 'engine' AND metric = 'cpu_us_per_s') / 1e6
                        AS engine_cores,
                    any_value(value) FILTER (subject = 'client' AND metric = 'cpu_us_per_s') / 1e6
                        AS client_cores,
                    any_value(value) FILTER (metric = 'write_bytes_per_s') / 1e6 AS write_mb_per_s,
                    any_value(value) FILTER (metric = 'read_bytes_per_s') / 1e6 AS read_mb_per_s
                FROM os_sample JOIN run USING (run_id)
                WHERE run_id = ? AND observer = 'sample'
                    AND t > measure_begin + 1 AND t <= measure_end
                GROUP BY ALL ORDER BY second
                """,
                name,
                run_id,
            )
        )
    return pl.concat(frames)


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
