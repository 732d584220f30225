"""Points out of runs: medians over trials with their intervals, and what a transaction cost.

Results are always of one target. The same trial has the same key on every target, since a key is made
of what is asked for and not of where; so a target is chosen here, before anything is counted. It is
the one named or, without a name, the target of the last run that counts.
"""

from typing import get_args

import polars as pl

from benchlab import stats
from benchlab.attribution.utilisation import NONE
from benchlab.capture import Status
from benchlab.errors import UnknownName
from benchlab.store import Store
from benchlab.theme import label

#: Columns that make a point within one study, profile and target.
POINT = ["engine", "variant", "workload", "envelope", "concurrency"]

_LATEST = """
    SELECT * FROM run WHERE study = ? AND profile = ? AND target = ?
    QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY started DESC) = 1
"""

# Means over the measured seconds of what the agent sampled, beside throughput; one row a run.
_COSTS = f"""
    WITH latest AS ({_LATEST}),
    sampled AS (
        SELECT run_id, subject, metric, avg(value) AS mean
        FROM os_sample JOIN latest USING (run_id)
        WHERE observer = 'sample' AND t > measure_begin + 1 AND t <= measure_end
        GROUP BY ALL
    ),
    switched AS (
        SELECT run_id, avg(value) AS mean
        FROM os_sample JOIN latest USING (run_id)
        WHERE observer = 'vmstat' AND metric = 'context_switches_per_s'
          AND t > measure_begin + 1 AND t <= measure_end
        GROUP BY ALL
    )
    SELECT run_id,
        any_value(s.mean) FILTER (s.subject = 'engine' AND s.metric = 'cpu_us_per_s') / any_value(tps)
            AS engine_cpu_us_per_transaction,
        any_value(s.mean) FILTER (s.subject = 'client' AND s.metric = 'cpu_us_per_s') / any_value(tps)
            AS client_cpu_us_per_transaction,
        any_value(s.mean) FILTER (s.subject = 'disk' AND s.metric = 'write_bytes_per_s')
            / any_value(tps) / 1000 AS written_kb_per_transaction,
        any_value(s.mean) FILTER (s.subject = 'disk' AND s.metric = 'read_bytes_per_s')
            / any_value(tps) / 1000 AS read_kb_per_transaction,
        any_value(w.mean) / any_value(tps) AS context_switches_per_transaction
    FROM latest JOIN sampled s USING (run_id) LEFT JOIN switched w USING (run_id)
    WHERE status = 'ok'
    GROUP BY run_id
"""


def runs(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return the last run of every trial of a study's profile on a target, whatever its status.

    Args:
        store: the store.
        study: name.
        profile: name.
        target: name; ``None``: the target of the last run that counts.

    Raises:
        UnknownName: the study's profile was never run on that target.
    """
    chosen = _target(store, study, profile, target)
    return store.sql(f"{_LATEST} ORDER BY ALL", study, profile, chosen)


def points(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return one row per point: median throughput with its interval, latency, drift, attribution.

    Columns: those of :data:`POINT`, ``n`` (trials that count), ``tps``, ``tps_low``, ``tps_high``
    (95 %; null with a single trial), ``p99_us`` (median over trials, of the full histogram),
    ``drift`` (second half of a run against its first, median), ``binding`` (resource that bound most
    of the trials), ``binding_utilisation`` (mean over them), and ``curve`` for legends.
    """
    counted = runs(store, study, profile, target).filter(pl.col("status") == "ok")
    if counted.is_empty():
        return with_curve(pl.DataFrame(schema=_POINT_SCHEMA))
    per_run = (
        counted.select("run_id", *POINT, "tps")
        .join(_p99(store, counted), on="run_id", how="left")
        .join(_drift(store, counted), on="run_id", how="left")
        .join(_binding(store, counted), on="run_id", how="left")
        .with_columns(pl.col("binding").fill_null(NONE))
        .sort(*POINT, "run_id")
    )
    rows = []
    for key, group in per_run.group_by(POINT, maintain_order=True):
        estimate = stats.median(group["tps"].to_list())
        binding = group["binding"].mode().sort()[0]
        rows.append(
            dict(zip(POINT, key, strict=True))
            | {
                "n": estimate.n,
                "tps": estimate.value,
                "tps_low": estimate.low,
                "tps_high": estimate.high,
                "p99_us": group["p99_us"].median(),
                "drift": group["drift"].median(),
                "binding": binding,
                "binding_utilisation": group.filter(pl.col("binding") == binding)[
                    "pressure"
                ].mean(),
            }
        )
    return with_curve(pl.DataFrame(rows, schema_overrides=_POINT_SCHEMA))


def costs(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return what a transaction cost at each point: CPU, bytes, context switches; medians."""
    chosen = _target(store, study, profile, target)
    per_run = store.sql(_COSTS, study, profile, chosen)
    counted = runs(store, study, profile, chosen).select("run_id", *POINT, "tps")
    costs = [column for column in per_run.columns if column != "run_id"]
    return with_curve(
        counted.join(per_run, on="run_id")
        .group_by(POINT)
        .agg(pl.col("tps", *costs).median())
        .sort(POINT)
    )


def overview(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return one row per curve: version of the engine, threads, trials and how the runs ended.

    As narrow as a page: threads are ``1–1024``, from the fewest to the most, and the runs are counted
    in one column: ``11 ok, 1 failed``.
    """
    threads, least, most = pl.col("concurrency"), pl.col("least"), pl.col("most")
    statuses = get_args(Status)
    return (
        runs(store, study, profile, target)
        .group_by(
            "engine", pl.col("engine_version").alias("version"), "variant", "workload", "envelope"
        )
        .agg(
            threads.min().alias("least"),
            threads.max().alias("most"),
            pl.col("trial").n_unique().alias("trials"),
            *[(pl.col("status") == status).sum().alias(status) for status in statuses],
        )
        .sort("engine", "variant", "workload", "envelope", "version")
        .select(
            "engine",
            "version",
            "variant",
            "workload",
            "envelope",
            pl.when(least < most)
            .then(pl.format("{}–{}", least, most))
            .otherwise(pl.format("{}", most))
            .alias("threads"),
            "trials",
            pl.concat_str(
                [
                    pl.when(pl.col(status) > 0).then(pl.format(f"{{}} {status}", status))
                    for status in statuses
                ],
                separator=", ",
                ignore_nulls=True,
            ).alias("runs"),
        )
    )


def seconds(store: Store, run_ids: dict[str, str]) -> pl.DataFrame:
    """Return the seconds of runs, warm-up first, for :func:`benchlab.analysis.charts.seconds`.

    Args:
        store: the store.
        run_ids: name to show → run.
    """
    frames = [
        store.sql(
            """
            SELECT ? AS run, phase, i.tps,
                i.second + CASE phase WHEN 'warmup' THEN 0 ELSE warmup_s END AS second
            FROM "interval" i JOIN run USING (run_id) WHERE run_id = ? ORDER BY 4
            """,
            name,
            run_id,
        )
        for name, run_id in run_ids.items()
    ]
    return pl.concat(frames)


def not_counted(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return which curves failed or were refused, with the reason and the number of runs."""
    return (
        runs(store, study, profile, target)
        .filter(pl.col("status") != "ok")
        .group_by("engine", "variant", "status", "error")
        .agg(pl.len().alias("runs"))
        .sort("engine", "variant", "status")
    )


def with_curve(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the column that legends show."""
    names = [
        label(engine, variant)
        for engine, variant in zip(frame["engine"], frame["variant"], strict=True)
    ]
    return frame.with_columns(pl.Series("curve", names, dtype=pl.String))


def _target(store: Store, study: str, profile: str, wanted: str | None) -> str | None:
    """Return the target to show, ``None`` if there is no run at all; see :func:`runs`."""
    found = store.sql(
        "SELECT target FROM run WHERE study = ? AND profile = ? GROUP BY target"
        " ORDER BY max(started) FILTER (status = 'ok') DESC NULLS LAST, max(started) DESC",
        study,
        profile,
    )["target"].to_list()
    if wanted is None:
        return found[0] if found else None
    if found and wanted not in found:
        raise UnknownName("target", wanted, found)
    return wanted


def _p99(store: Store, counted: pl.DataFrame) -> pl.DataFrame:
    buckets = store.sql(
        "SELECT run_id, latency_us, count FROM latency_bucket ORDER BY run_id, latency_us"
    )
    rows = [
        {
            "run_id": key[0],
            "p99_us": stats.percentile_of_buckets(group["latency_us"], group["count"], 99),
        }
        for key, group in buckets.filter(
            pl.col("run_id").is_in(counted["run_id"].implode())
        ).group_by("run_id")
    ]
    return pl.DataFrame(rows, schema={"run_id": pl.String, "p99_us": pl.Float64})


def _drift(store: Store, counted: pl.DataFrame) -> pl.DataFrame:
    seconds = store.sql(
        "SELECT run_id, tps FROM \"interval\" WHERE phase = 'measure' ORDER BY run_id, second"
    )
    rows = [
        {"run_id": key[0], "drift": stats.drift(group["tps"].to_list())}
        for key, group in seconds.filter(
            pl.col("run_id").is_in(counted["run_id"].implode())
        ).group_by("run_id", maintain_order=True)
        if len(group) > 1
    ]
    return pl.DataFrame(rows, schema={"run_id": pl.String, "drift": pl.Float64})


def _binding(store: Store, counted: pl.DataFrame) -> pl.DataFrame:
    return (
        store.sql("SELECT run_id, resource AS binding, pressure FROM attribution WHERE binds")
        .join(counted.select("run_id"), on="run_id")
        .select("run_id", "binding", "pressure")
    )


_POINT_SCHEMA = {
    "engine": pl.String,
    "variant": pl.String,
    "workload": pl.String,
    "envelope": pl.String,
    "concurrency": pl.Int64,
    "n": pl.Int64,
    "tps": pl.Float64,
    "tps_low": pl.Float64,
    "tps_high": pl.Float64,
    "p99_us": pl.Float64,
    "drift": pl.Float64,
    "binding": pl.String,
    "binding_utilisation": pl.Float64,
}
