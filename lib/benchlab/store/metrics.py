"""Metrics: the numbers of one run by which runs are compared.

A metric is computed for each run separately, so that its spread over trials is known. It is null if the
run lacks the capture for it.
"""

import polars as pl

from benchlab.drivers.tpcc import limits
from benchlab.engines.postgres import LOG_CALLS
from benchlab.engines.tidb import CACHED_READS, INTERNAL, SERVER, STORAGE_READS
from benchlab.gate.checks import ALONE
from benchlab.observers import background, speed
from benchlab.observers.metrics import COUNTED_AT
from benchlab.store import Store
from benchlab.study.vocabulary import METRICS, OF_SINGLE_WRITES

# Means of samples over the measured seconds on each node, and the sums of these means over the nodes;
# one row per run. Nodes that share a kernel each count all of its threads and context switches, so of
# these the machine's are added. Values are added in the order of time: in the order in which threads
# find them, the last digits would differ from query to query.
_SAMPLED = """
    WITH of_node AS (
        SELECT run_id, node,
            avg(value ORDER BY t) FILTER (subject = 'engine' AND metric = 'cpu_us_per_s')
                AS engine_cpu_us_per_s,
            avg(value ORDER BY t) FILTER (subject = 'client' AND metric = 'cpu_us_per_s')
                AS client_cpu_us_per_s,
            avg(value ORDER BY t) FILTER (subject = 'kernel threads' AND metric = 'cpu_us_per_s')
                AS kernel_cpu_us_per_s,
            avg(value ORDER BY t) FILTER (subject = 'disk' AND metric = 'write_bytes_per_s') / 1e3
                AS written_kb_per_s,
            avg(value ORDER BY t) FILTER (subject = 'disk' AND metric = 'read_bytes_per_s') / 1e3
                AS read_kb_per_s,
            avg(value ORDER BY t) FILTER (metric = 'context_switches_per_s')
                AS context_switches_per_s
        FROM os_sample SEMI JOIN chosen USING (run_id) JOIN run USING (run_id)
        WHERE is_measured(t, measure_begin, measure_end)
            AND (observer = 'sample' OR (observer = 'vmstat' AND metric = 'context_switches_per_s'))
        GROUP BY run_id, node
    ), booted AS (
        SELECT run_id, node, any_value(value) AS boot_id
        FROM host SEMI JOIN chosen USING (run_id) WHERE fact = 'boot_id' GROUP BY run_id, node
    ), of_machine AS (
        SELECT run_id, coalesce(boot_id, node) AS machine,
            max(kernel_cpu_us_per_s) AS kernel_cpu_us_per_s,
            max(context_switches_per_s) AS context_switches_per_s,
            sum(COLUMNS(* EXCLUDE (
                run_id, node, boot_id, kernel_cpu_us_per_s, context_switches_per_s
            )) ORDER BY node)
        FROM of_node LEFT JOIN booted USING (run_id, node)
        GROUP BY run_id, machine
    )
    SELECT run_id, sum(COLUMNS(* EXCLUDE (run_id, machine)) ORDER BY machine)
    FROM of_machine GROUP BY run_id
"""

#: Query for the time that the host of each node took for the same work before and after the load of
#: each run: ``run_id``, ``workload``, ``node``, ``value`` in ns, ``cpu_model``, ``boot_id``.
SPEEDS = f"""
    SELECT run_id, workload, node, sample.value AS value, cpu.value AS cpu_model, boot.value AS boot_id
    FROM os_sample AS sample SEMI JOIN chosen USING (run_id) JOIN run USING (run_id)
    LEFT JOIN (FROM host WHERE fact = 'cpu_model') AS cpu USING (run_id, node)
    LEFT JOIN (FROM host WHERE fact = 'boot_id') AS boot USING (run_id, node)
    WHERE observer = '{speed.OBSERVER}' ORDER BY ALL
"""

_SPEED = f"""
    SELECT run_id, min(value) / 1e3 AS memory_copy_us
    FROM ({SPEEDS}) GROUP BY run_id
"""

# CPU used by others, as computed by the gate.
_FOREIGN = f"""
    SELECT run_id, 100 * value AS foreign_cpu_percent
    FROM gate SEMI JOIN chosen USING (run_id) WHERE "check" = '{ALONE}'
"""

# What TPC-C's rule about throughput is checked with.
_RULES = f"""
    SELECT run_id, value AS tpmc_per_warehouse
    FROM rule SEMI JOIN chosen USING (run_id) WHERE "check" = '{limits.THROUGHPUT}'
"""

# New-Orders that ended well, including those that rolled back on purpose.
_NEW_ORDERS = """
    SELECT run_id, transactions AS new_orders
    FROM operation SEMI JOIN chosen USING (run_id) WHERE operation = 'new_order'
"""

# Throughput in the 5 s after a new cycle of the engine's background work was first counted, compared
# with that of the other seconds. The cycle began after the answer before, so the time since that answer
# belongs to the cycle.
_AFTER_CYCLES = f"""
    WITH begun AS (
        SELECT run_id, lag(t) OVER in_time AS after_t, t + 5 AS until_t
        FROM os_sample SEMI JOIN chosen USING (run_id)
        WHERE observer = '{background.OBSERVER}' AND metric = '{background.METRIC}'
        WINDOW in_time AS (PARTITION BY run_id ORDER BY t)
        QUALIFY floor(value) > floor(lag(value) OVER in_time)
    ), seconds AS (
        SELECT run_id, measure_begin + second AS end_t, sum("interval".tps) AS tps
        FROM "interval" SEMI JOIN chosen USING (run_id) JOIN run USING (run_id)
        WHERE phase = 'measure' GROUP BY ALL
    ), held_apart AS (
        SELECT run_id, end_t, tps, EXISTS (
            FROM begun
            WHERE begun.run_id = seconds.run_id AND end_t > after_t AND end_t <= until_t
        ) AS after_cycle
        FROM seconds
    )
    SELECT run_id, 100 * avg(tps ORDER BY end_t) FILTER (after_cycle)
        / nullif(avg(tps ORDER BY end_t) FILTER (NOT after_cycle), 0) AS tps_after_cycle_percent
    FROM held_apart GROUP BY run_id
"""

# Cycles of the engine's background work a second, from the first to the last that began in the measured
# part. Over the whole part the count would depend on where in a cycle it begins and ends.
_CYCLES = f"""
    WITH counted AS (
        SELECT run_id, t, value, value > lag(value) OVER in_time AS begins
        FROM os_sample SEMI JOIN chosen USING (run_id) JOIN run USING (run_id)
        WHERE observer = '{background.OBSERVER}' AND metric = '{background.METRIC}'
            AND t BETWEEN measure_begin AND measure_end
        WINDOW in_time AS (PARTITION BY run_id ORDER BY t)
    )
    SELECT run_id, (max(value) - min(value)) / nullif(max(t) - min(t), 0) AS cycles_per_s
    FROM counted WHERE begins GROUP BY run_id
"""

# Counts of the engine, and the times between which it was counted: under load, a connection to the
# server and its answer may take a second; runs of an older benchlab lack these times. PostgreSQL's
# views have other names from version 17 on. Of TiDB's pages only the counters that changed are stored.
_COUNTED = f"""
    SELECT run_id,
        bool_or(name IN (
            'pg_stat_bgwriter.checkpoints_timed', 'pg_stat_checkpointer.num_timed'
        )) AS has_checkpoints,
        sum(at_end - at_begin) FILTER (name = 'pg_stat_wal.wal_bytes') AS wal_bytes,
        sum(at_end - at_begin) FILTER (name = 'pg_stat_wal.wal_fpi') AS full_pages,
        nullif(sum(at_end - at_begin) FILTER (name IN {LOG_CALLS["syncs"]}), 0) AS wal_writes,
        -- 0 where the server does not time them
        nullif(sum(at_end - at_begin) FILTER (name IN {LOG_CALLS["ms"]}), 0) AS wal_write_ms,
        CASE WHEN bool_or(contains(name, '{SERVER}')) THEN coalesce(
            sum(at_end - coalesce(at_begin, 0)) FILTER (
                contains(name, '{CACHED_READS}')
            ), 0) END AS cached_reads,
        CASE WHEN bool_or(contains(name, '{SERVER}')) THEN coalesce(
            sum(at_end - coalesce(at_begin, 0)) FILTER (
                regexp_matches(name, '{STORAGE_READS}') AND NOT contains(name, '{INTERNAL}')
            ), 0) END AS storage_reads,
        -- older runs of PostgreSQL have it by the name of its function
        max(at_begin) FILTER (name IN ('dataset_bytes', 'pg_database_size')) AS dataset_bytes,
        max(at_begin) FILTER (name = 'data_dir_bytes') AS data_dir_bytes,
        max(at_begin) FILTER (name = '{COUNTED_AT}') AS counted_begin,
        max(at_end) FILTER (name = '{COUNTED_AT}') AS counted_end
    FROM engine_counter SEMI JOIN chosen USING (run_id) GROUP BY run_id
"""

_QUERIES = (_SAMPLED, _SPEED, _FOREIGN, _COUNTED, _RULES, _NEW_ORDERS, _CYCLES, _AFTER_CYCLES)


def of(store: Store, runs: pl.DataFrame) -> pl.DataFrame:
    """Return every metric of the given runs, one row per run.

    Args:
        store: the store.
        runs: rows of ``run``, such as the runs of a rerun that count.

    Returns:
        The columns of ``runs``, and the columns of :data:`METRICS` that are not among them.
    """
    joined = runs
    for query in _QUERIES:
        joined = joined.join(store.sql(query, chosen=runs["run_id"]), on="run_id", how="left")
    joined = joined.join(_percentiles(store, runs), on="run_id", how="left")
    counted_s = pl.min_horizontal("counted_end", "measure_end") - pl.max_horizontal(
        "counted_begin", "measure_begin"
    )
    is_timed = pl.col("counted_begin").is_not_null() & pl.col("counted_end").is_not_null()
    joined = joined.with_columns(
        pl.when(is_timed).then(counted_s).otherwise("measured_s").alias("counted_s")
    )
    counted = pl.col("transactions") * pl.col("counted_s") / pl.col("measured_s")
    checkpoints_per_s = pl.when("has_checkpoints").then("cycles_per_s")
    return joined.with_columns(
        (pl.col("queries") / pl.col("measured_s")).alias("qps"),
        (pl.col("ignored_errors") / pl.col("transactions")).alias("errors_per_transaction"),
        (60 * pl.col("new_orders") / pl.col("measured_s")).alias("tpmc"),
        (pl.col("engine_cpu_us_per_s") / pl.col("tps")).alias("engine_cpu_us_per_transaction"),
        (
            (
                pl.col("engine_cpu_us_per_s")
                + pl.col("client_cpu_us_per_s")
                + pl.col("kernel_cpu_us_per_s")
            )
            / (1e4 * pl.col("limit_cores"))
        ).alias("cpu_percent"),
        (pl.col("engine_cpu_us_per_s") / 1e4 / pl.col("limit_cores")).alias("engine_cpu_percent"),
        (pl.col("client_cpu_us_per_s") / 1e4 / pl.col("limit_cores")).alias("client_cpu_percent"),
        (pl.col("kernel_cpu_us_per_s") / 1e4 / pl.col("limit_cores")).alias("kernel_cpu_percent"),
        (pl.col("client_cpu_us_per_s") / pl.col("tps")).alias("client_cpu_us_per_transaction"),
        (pl.col("written_kb_per_s") / pl.col("tps")).alias("written_kb_per_transaction"),
        (pl.col("read_kb_per_s") / pl.col("tps")).alias("read_kb_per_transaction"),
        (pl.col("context_switches_per_s") / pl.col("tps")).alias(
            "context_switches_per_transaction"
        ),
        checkpoints_per_s.alias("checkpoints_per_s"),
        (pl.col("wal_bytes") / counted).alias("wal_bytes_per_transaction"),
        (pl.col("wal_bytes") / pl.col("counted_s") / checkpoints_per_s).alias(
            "wal_bytes_per_checkpoint"
        ),
        (pl.col("wal_writes") / pl.col("counted_s")).alias("wal_writes_per_s"),
        (1e3 * pl.col("wal_write_ms") / pl.col("wal_writes")).alias("wal_write_mean_us"),
        (pl.col("wal_write_ms") / 1e3 / pl.col("counted_s")).alias("wal_write_concurrency"),
        (pl.col("wal_bytes") / pl.col("wal_writes")).alias("wal_bytes_per_write"),
        (pl.col("dataset_bytes") / (pl.col("tables") * pl.col("rows_per_table"))).alias(
            "dataset_bytes_per_row"
        ),
        (pl.col("cached_reads") / counted).alias("cached_reads_per_transaction"),
        (pl.col("storage_reads") / counted).alias("storage_reads_per_transaction"),
        (pl.col("full_pages") / counted).alias("full_pages_per_transaction"),
    ).select(*runs.columns, *[name for name in METRICS if name not in runs.columns])


#: Setting for the length of a read lease.
LEASE = "tidb_table_cache_lease"

#: Query for the length of a read lease of each run's server: ``run_id``, ``lease_s``.
LEASES = f"""
    SELECT run_id, try_cast(effective AS DOUBLE) AS lease_s
    FROM engine_setting SEMI JOIN chosen USING (run_id) WHERE name = '{LEASE}'
"""

# Each time for which a table stayed in a state, as it was polled (without the last one, whose end is
# not known), and the mean throughput of its whole seconds, known where readers read only this table.
_STAYS = """
    WITH polled AS (
        SELECT *, lag(state) OVER (PARTITION BY run_id, table_name ORDER BY t) AS before
        FROM table_state SEMI JOIN chosen USING (run_id)
    ), stay AS (
        SELECT run_id, table_name, state, t AS begin_s,
            lead(t) OVER (PARTITION BY run_id, table_name ORDER BY t) AS end_s
        FROM polled WHERE state IS DISTINCT FROM before
    ), of_one_table AS (
        SELECT run_id FROM table_state SEMI JOIN chosen USING (run_id)
        GROUP BY run_id HAVING count(DISTINCT table_name) = 1
    ), of_second AS (
        SELECT run_id, measure_begin + "second" AS second_end_s, sum("interval".tps) AS tps
        FROM "interval" SEMI JOIN chosen USING (run_id) SEMI JOIN of_one_table USING (run_id)
            JOIN run USING (run_id)
        WHERE phase = 'measure' GROUP BY ALL
    )
    SELECT stay.*, avg(tps ORDER BY second_end_s) AS tps
    FROM stay LEFT JOIN of_second
        ON of_second.run_id = stay.run_id
        AND second_end_s - 1 >= stay.begin_s AND second_end_s <= stay.end_s
    WHERE stay.end_s IS NOT NULL GROUP BY ALL
"""

# Each write lease: how long it lasted, and the throughput in it and in the time after it in which the
# cache may be read again, in % of the last such time before it. Each such time comes after one lease.
_WRITE_LEASES = f"""
    SELECT run_id, table_name, begin_s, end_s, end_s - begin_s AS write_lease_s,
        100 * tps / tps_before AS reads_in_write_lease_percent,
        100 * tps_after / tps_before AS reads_after_write_lease_percent
    FROM (
        SELECT *, CASE WHEN state = 'READ' THEN tps END AS tps_read,
            last_value(tps_read IGNORE NULLS) OVER (
                of_table ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS tps_before,
            first_value(tps_read IGNORE NULLS) OVER (
                PARTITION BY run_id, table_name, leases ORDER BY begin_s
                ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
            ) AS tps_after
        FROM (
            SELECT *, count(*) FILTER (state = 'WRITE') OVER of_table AS leases
            FROM ({_STAYS}) WINDOW of_table AS (PARTITION BY run_id, table_name ORDER BY begin_s)
        ) WINDOW of_table AS (PARTITION BY run_id, table_name ORDER BY begin_s)
    ) WHERE state = 'WRITE'
"""

#: Seconds from the change of a table's state to the poll that sees it, at most.
_SEEN_S = 0.2

# A write into a table whose write lease has not ended has no write lease of its own.
_SINGLE_WRITES = f"""
    WITH own AS (
        SELECT single_write.*, lease.* EXCLUDE (run_id, table_name, begin_s, end_s)
        FROM single_write SEMI JOIN chosen USING (run_id)
        ASOF JOIN ({_WRITE_LEASES}) AS lease
            ON single_write.run_id = lease.run_id AND single_write.table_name = lease.table_name
            AND single_write.end_s + {_SEEN_S} >= lease.begin_s
        WHERE single_write.end_s < lease.end_s
        QUALIFY row_number() OVER (
            PARTITION BY lease.run_id, lease.table_name, lease.begin_s ORDER BY single_write.end_s
        ) = 1
    )
    SELECT run_id, one.end_s - one.commit_s AS commit_wait_s,
        commit_wait_s - lease_s AS commit_wait_beyond_lease_s,
        write_lease_s, reads_in_write_lease_percent, reads_after_write_lease_percent
    FROM single_write AS one SEMI JOIN chosen USING (run_id) LEFT JOIN ({LEASES}) USING (run_id)
        LEFT JOIN own USING (run_id, table_name, end_s)
    ORDER BY run_id, one.end_s
"""


def of_single_writes(store: Store, runs: pl.DataFrame) -> pl.DataFrame:
    """Return every metric of the single writes in the given runs, one row per write.

    Args:
        store: the store.
        runs: rows of ``run``, such as the runs of a rerun with single writes that count.

    Returns:
        The columns of ``runs`` and those of :data:`OF_SINGLE_WRITES`.
    """
    writes = store.sql(_SINGLE_WRITES, chosen=runs["run_id"])
    return runs.join(writes, on="run_id").select(*runs.columns, *OF_SINGLE_WRITES)


#: Metric → percentile of the latencies of a run, in %.
_PERCENTILES = {"p50_us": 50, "p99_us": 99, "p999_us": 99.9}


def _percentiles(store: Store, runs: pl.DataFrame) -> pl.DataFrame:
    from benchlab import stats

    buckets = store.sql(
        "SELECT run_id, latency_us, sum(count)::BIGINT AS count FROM latency_bucket"
        " SEMI JOIN chosen USING (run_id) GROUP BY ALL ORDER BY run_id, latency_us",
        chosen=runs["run_id"],
    )
    rows = [
        (
            key[0],
            *(
                stats.percentile_of_buckets(group["latency_us"], group["count"], one)
                for one in _PERCENTILES.values()
            ),
        )
        for key, group in buckets.group_by("run_id", maintain_order=True)
    ]
    schema = {"run_id": pl.String, **dict.fromkeys(_PERCENTILES, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")
