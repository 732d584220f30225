"""PostgreSQL."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from benchlab.engines import plans
from benchlab.engines.base import CHECKPOINTS, Ask, EngineSetting, Pages, PostgresProtocol
from benchlab.engines.waits import Wait
from benchlab.study import Dataset, Scalar
from benchlab.study.roles import PRIMARY, STANDBY

#: Type of a wait → class (PostgreSQL 15 documentation, tables 28.4 to 28.12). The name of an ``IO``
#: wait shows whether it is for the log or the data. ``Activity`` and ``Extension`` are not waits of a
#: client's session.
_WAITS = {
    "Client": Wait.CLIENT,
    "Lock": Wait.LOCK,
    "LWLock": Wait.LATCH,
    "BufferPin": Wait.LATCH,
    "IO": Wait.DATA,
    "IPC": Wait.LIMIT,
    "Timeout": Wait.LIMIT,
}

#: Waits whose class is not that of their type. Names are in lower case, because PostgreSQL 17 changed
#: the case of some (WalSync, BufferIo). WALInsert is missing: it guards the buffer, not the disk.
_OTHER_WAITS = {
    "lwlock:walwrite": Wait.LOG,
    "lwlock:walbufmapping": Wait.LOG,
    "ipc:bufferio": Wait.DATA,
    "lwlock:bufferio": Wait.DATA,  # before version 14
    "ipc:syncrep": Wait.LOG,
    "ipc:procarraygroupupdate": Wait.LATCH,
    "ipc:xactgroupupdate": Wait.LATCH,
    "timeout:spindelay": Wait.LATCH,
}

#: Begin of the names of waits of a backend for its parallel workers, whose own waits are not sampled
#: (the manual's table of wait events of type IPC).
_OF_WORKERS = ("ipc:executegather", "ipc:messagequeue", "ipc:parallel", "ipc:hash", "ipc:bgworker")

#: Line of the log about a checkpoint: date, time, and whether it starts or ends. The role sets UTC.
_CHECKPOINT = re.compile(
    r"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d\.\d{3}) UTC \[\d+\] LOG:  checkpoint"
    r" (starting|complete):",
    re.MULTILINE,
)

# PostgreSQL 17 moved the checkpoint columns of pg_stat_bgwriter to pg_stat_checkpointer
# (release notes of 17, E.1.3.1.7).
_COUNTER_VIEWS = ("pg_stat_bgwriter", "pg_stat_checkpointer", "pg_stat_wal")

#: Figure for the system calls on a server's log → names of the counters that add up to it. PostgreSQL
#: 18 has them in pg_stat_io, not in pg_stat_wal, which never counted those that make a new segment.
LOG_CALLS = {
    "writes": ("pg_stat_wal.wal_write", "pg_stat_io.wal.normal.writes"),
    "syncs": ("pg_stat_wal.wal_sync", "pg_stat_io.wal.normal.fsyncs"),
    "ms": (
        "pg_stat_wal.wal_write_time",
        "pg_stat_wal.wal_sync_time",
        "pg_stat_io.wal.normal.write_time",
        "pg_stat_io.wal.normal.fsync_time",
    ),
}

#: Measure of how far a standby is behind → the position in the log that is compared with the current
#: one. The server keeps no log for a standby without a slot.
_LAGS = {
    **{f"{step}_lag_bytes": f"{step}_lsn" for step in ("write", "flush", "replay")},
    "slot_kept_bytes": "slot.restart_lsn",
}


class Postgres(PostgresProtocol):
    """PostgreSQL, any version from 13; 14 and later report the WAL of a run (pg_stat_wal)."""

    name = "postgres"
    pool = "shared_buffers"
    page_bytes = 8192
    durability_settings = ("fsync", "synchronous_commit", "full_page_writes")
    log_folder = "pg_wal"
    admin_user = "benchlab"
    nodes = (PRIMARY, STANDBY)
    accesses = staticmethod(plans.of_postgres)
    # the capture also has the background processes, for its readers
    waits_query = (
        "SELECT backend_type, state, wait_event_type, wait_event, count(*) AS sessions"
        " FROM pg_stat_activity WHERE pid NOT IN ({own}) GROUP BY 1, 2, 3, 4"
    )

    standbys_query = (
        "SELECT application_name AS standby,"
        " (sync_state IN ('sync', 'quorum'))::int AS is_synchronous, "
        + ", ".join(
            f"pg_wal_lsn_diff(pg_current_wal_lsn(), {lsn}) AS {name}" for name, lsn in _LAGS.items()
        )
        + " FROM pg_stat_replication AS standby"
        " LEFT JOIN pg_replication_slots AS slot ON slot.active_pid = standby.pid"
        " WHERE state = 'streaming'"
    )

    def version(self) -> str:
        """See :meth:`Engine.version`; from ``server_version``, for example ``15.18``."""
        return self.query("SHOW server_version")[0]["server_version"].split()[0]

    def effective_settings(self, names: list[str]) -> list[EngineSetting]:
        """See :meth:`Engine.effective_settings`; from ``pg_settings``."""
        rows = self.query(
            "SELECT name, setting, unit, source FROM pg_settings WHERE name = ANY(%s)", (names,)
        )
        return [
            EngineSetting(
                name=row["name"],
                requested=None,
                effective=row["setting"],
                unit=row["unit"],
                source=row["source"],
            )
            for row in rows
        ]

    @classmethod
    def wait(cls, row: Mapping[str, Any]) -> tuple[Wait, str, int] | None:
        """See :meth:`Engine.wait`; the name is ``type:event``."""
        if row["backend_type"] != "client backend":
            return None
        kind, event = row["wait_event_type"], row["wait_event"]
        if row["state"] != "active":
            return Wait.CLIENT, row["state"] or "starting", row["sessions"]
        if kind is None:
            return Wait.CPU, "running or ready", row["sessions"]
        name = f"{kind}:{event}"
        if kind == "IO" and event.upper().startswith("WAL"):
            return Wait.LOG, name, row["sessions"]
        if name.lower().startswith(_OF_WORKERS):
            return Wait.BUSY, name, row["sessions"]
        wait = _OTHER_WAITS.get(name.lower(), _WAITS.get(kind, Wait.LIMIT))
        return wait, name, row["sessions"]

    @classmethod
    def render(cls, value: Scalar) -> str:
        """See :meth:`Engine.render`; whole MiB are written ``MB``, PostgreSQL's name for them."""
        mib = 1 << 20
        if isinstance(value, int) and not isinstance(value, bool) and value and value % mib == 0:
            return f"{value // mib}MB"
        return super().render(value)

    def counters(self) -> dict[str, float]:
        """See :meth:`Engine.counters`: checkpoints, WAL, and the database's own statistics."""
        existing = self.query(
            "SELECT viewname FROM pg_views WHERE schemaname = 'pg_catalog' AND viewname = ANY(%s)",
            ([*_COUNTER_VIEWS, "pg_stat_io"],),
        )
        names = [row["viewname"] for row in existing]
        views = {view: f"SELECT * FROM {view}" for view in names if view in _COUNTER_VIEWS}
        views["pg_stat_database"] = (
            "SELECT * FROM pg_stat_database WHERE datname = current_database()"
        )
        counters = {
            f"{view}.{column}": float(value)
            for view, sql in views.items()
            for column, value in self.query(sql)[0].items()
            if column not in ("datid", "datname", "stats_reset") and _is_number(value)
        }
        if "pg_stat_io" in names:
            counters |= self._log_calls()
        return counters | self._lags()

    def _log_calls(self) -> dict[str, float]:
        """Return pg_stat_io's counters of the log, summed over kinds of processes; empty before 18."""
        calls: Counter[str] = Counter()
        for row in self.query("SELECT * FROM pg_stat_io WHERE object = 'wal'"):
            for column, value in row.items():
                if _is_number(value):
                    calls[f"pg_stat_io.wal.{row['context']}.{column}"] += float(value)
        return dict(calls)

    def background_cycles(self, ask: Ask, pages: Pages) -> float:
        """See :meth:`Engine.background_cycles`: checkpoints, each counted when it starts."""
        (row,) = ask(self._checkpoints(ask))
        return float(row["checkpoints"])

    @classmethod
    def checkpoints(cls, log: str) -> pl.DataFrame | str:
        """See :meth:`Engine.checkpoints`; ``log_checkpoints`` logs the start and the end of each."""
        found: list[tuple[int, int | None]] = []
        for date, time, what in _CHECKPOINT.findall(log):
            at = datetime.fromisoformat(f"{date} {time}+00:00")
            at_us = round(at.timestamp() * 1e6)
            if what == "starting":
                found.append((at_us, None))
            elif found:
                found[-1] = (found[-1][0], at_us)
        if not found:
            return "no checkpoint is in the server's log"
        return pl.DataFrame(found, schema=CHECKPOINTS, orient="row")

    def _checkpoints(self, ask: Ask) -> str:
        """Return the query for the number of checkpoints that suits the server's version."""
        (new,) = ask("SELECT to_regclass('pg_catalog.pg_stat_checkpointer') AS view")
        if new["view"]:
            return "SELECT num_timed + num_requested AS checkpoints FROM pg_stat_checkpointer"
        return "SELECT checkpoints_timed + checkpoints_req AS checkpoints FROM pg_stat_bgwriter"

    def followers(self) -> int:
        """See :meth:`Engine.followers`: standbys that stream."""
        return self.query(
            "SELECT count(*) AS standbys FROM pg_stat_replication WHERE state = 'streaming'"
        )[0]["standbys"]

    def _lags(self) -> dict[str, float]:
        """Return how far each standby is behind: bytes of log that it has not written, flushed, ..."""
        return {
            f"pg_stat_replication.{row['standby']}.{name}": float(row[name])
            for row in self.query(self.standbys_query)
            for name in _LAGS
            if row[name] is not None
        }

    def prewarm(self, dataset: Dataset) -> None:
        """See :meth:`Engine.prewarm`; ``pg_prewarm`` fills the server's own pool.

        If not all pages fit, the first ones stay in the operating system's cache.
        """
        del dataset  # the database holds nothing else
        self.query("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        self.query(
            "SELECT sum(pg_prewarm(oid)) FROM pg_class"
            " WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace"
        )

    def settle(self) -> None:
        """See :meth:`Engine.settle`; does what autovacuum would otherwise do in the first runs."""
        self.analyze()
        self.query("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        self.query("CHECKPOINT")

    def analyze(self) -> None:
        """See :meth:`Engine.analyze`; the server skips tables of other owners with a warning."""
        self.query("VACUUM (ANALYZE)")

    def table_bytes(self) -> dict[str, int]:
        """See :meth:`Engine.table_bytes`."""
        rows = self.query(
            "SELECT relname AS name, pg_total_relation_size(oid) AS size FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        return {row["name"]: row["size"] for row in rows}

    def sizes(self) -> dict[str, float]:
        """See :meth:`Engine.sizes`; that of the dataset includes the catalogue."""
        (database,) = self.query("SELECT pg_database_size(current_database()) AS size")
        return super().sizes() | {"dataset_bytes": float(database["size"])}


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
