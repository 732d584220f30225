"""The schema of the store: its version, its tables and their columns."""

from functools import cache
from importlib.resources import files

import duckdb

# History of the schema: see the head of schema.sql.
SCHEMA_VERSION = 10

#: Columns that exports of older schemas lack; they are null there.
ADDED = {
    "run": {"intervention", "dataset", "share_of_peak", "rate_per_s", "longest_s"},
    "host": {"node"},
    "interval": {"operation"},
    "latency_bucket": {"operation"},
    "os_sample": {"node"},
    "attribution": {"node", "saturation", "share", "confidence"},
    "verdict": {"confidence"},
}

#: Columns that exports of schemas before version 5 name otherwise: name → that name.
RENAMED = {"engine_setting": {"requested": "asked"}, "claim": {"condition": "told"}}

#: Every table that runs fill, in the order in which an explorer would meet them.
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

#: How files of rows are written.
PARQUET = "(FORMAT parquet, COMPRESSION zstd)"

#: The table that plans fill.
PLANNED = "planned_trial"

#: Tables of what articles claim and what was concluded of it: whole, or replaced as a whole.
CONCLUSIONS = ("published", "claim", "verdict")

#: Tables of studies.
STUDY_TABLES = (PLANNED, *CONCLUSIONS)


def sql() -> str:
    """Return the statements that make all tables."""
    return files("benchlab.store").joinpath("schema.sql").read_text()


def views() -> str:
    """Return the statements that make the views over these tables, anew if there are any."""
    return files("benchlab.store").joinpath("views.sql").read_text()


@cache
def columns() -> dict[str, dict[str, str]]:
    """Return table → column → type, in order."""
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
    """Run a statement to its end; DuckDB 2 begins nothing new while a result is unread."""
    return connection.execute(statement).fetchall()


def quoted(text: object) -> str:
    """Return a text as an SQL literal."""
    doubled = str(text).replace("'", "''")
    return f"'{doubled}'"
