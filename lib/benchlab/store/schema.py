"""The schema of the store: version, tables and columns."""

from functools import cache
from importlib.resources import files

import duckdb

# History of the schema: see the head of schema.sql.
SCHEMA_VERSION = 11

#: Table → columns that exports of older schemas lack; they are null there.
ADDED = {
    "run": {"intervention", "dataset", "share_of_peak", "rate_per_s", "longest_s", "options"},
    "host": {"node"},
    "interval": {"operation"},
    "latency_bucket": {"operation"},
    "os_sample": {"node"},
    "attribution": {"node", "saturation", "share", "confidence"},
    "verdict": {"confidence"},
}

#: Table → column → its name in exports of schemas before version 5.
RENAMED = {"engine_setting": {"requested": "asked"}, "claim": {"condition": "told"}}

#: Every table that runs fill, in an order suited to exploring a run.
RUN_TABLES = (
    "run",
    "phase",
    "node",
    "host",
    "engine_setting",
    "operation",
    "outcome",
    "rule",
    "interval",
    "latency_bucket",
    "time_bucket",
    "os_sample",
    "perf_stack",
    "log_latency",
    "engine_counter",
    "engine_wait",
    "checkpoint",
    "query_plan",
    "attribution",
    "gate",
    "intervention_block",
    "single_write",
    "table_state",
    "elasticity",
    "raw_file",
)

#: Options with which Parquet files are written.
PARQUET = "(FORMAT parquet, COMPRESSION zstd)"

#: Table of the trials of plans.
PLANNED = "planned_trial"

#: Tables of the articles' claims and the conclusions on them; always replaced as a whole.
CONCLUSIONS = ("published", "claim", "verdict")

#: Tables with rows of a study that belong to no run.
STUDY_TABLES = (PLANNED, *CONCLUSIONS)


def sql() -> str:
    """Return the statements that create all tables."""
    return files("benchlab.store").joinpath("schema.sql").read_text()


def views() -> str:
    """Return the statements that create or replace the views over these tables."""
    return files("benchlab.store").joinpath("views.sql").read_text()


@cache
def columns() -> dict[str, dict[str, str]]:
    """Return table → column → type, in the order of the schema."""
    found: dict[str, dict[str, str]] = {}
    with duckdb.connect() as connection:
        execute(connection, sql())
        rows = execute(
            connection,
            "SELECT table_name, column_name, data_type FROM duckdb_columns()"
            " WHERE NOT internal ORDER BY table_oid, column_index",
        )
    for table, column, kind in rows:
        found.setdefault(table, {})[column] = kind
    return found


def execute(connection: duckdb.DuckDBPyConnection, statement: str) -> list[tuple]:
    """Run a statement and return its rows; DuckDB 2 starts no other while a result is unread."""
    return connection.execute(statement).fetchall()


def quoted(text: object) -> str:
    """Return a text as an SQL string literal."""
    doubled = str(text).replace("'", "''")
    return f"'{doubled}'"
