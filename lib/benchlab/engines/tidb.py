"""TiDB, on TiKV and PD, or ``tidb-server`` alone on its embedded store."""

import re
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pymysql

from benchlab.engines.base import Ask, EngineSetting, MySQLProtocol, Pages, require_sysbench
from benchlab.engines.waits import Wait
from benchlab.errors import EngineError
from benchlab.study import Dataset, Scalar
from benchlab.study.roles import PRIMARY, STANDBY

#: Setting with which :meth:`TiDB.tune` caches all tables; not a variable of the server.
TABLE_CACHE = "table_cache"

#: What names of counters on a server's own page contain. An external server's page is not read.
SERVER = "tidb_server_"

#: Counter of the reads that were served from the cache of a table.
CACHED_READS = f"{SERVER}read_from_tablecache_total"

#: Counters of the read requests that TiDB sends to its storage. In newer versions the server's own
#: requests have the label :data:`INTERNAL`.
STORAGE_READS = (
    r"tidb_tikvclient_(cop_duration_seconds_count|"
    r'txn_cmd_duration_seconds_count\{.*type="(batch_)?get")'
)
INTERNAL = 'scope="internal"'

#: Start of the names of counters that say whether a traced read of a cached table went to the storage
#: (1) or not (0), and what such a read has in its trace.
TRACED = "traced_to_storage."
_TO_STORAGE = "regionRequest.SendReqCtx"

#: Work that a server does on its own → regular expression for the names of the counters of how often it
#: did it. Version 6.5 and later delete expired rows.
OWN_WORK = {
    "collect garbage": r'tidb_tikvclient_gc_worker_actions_total\{type="run_job"\}',
    "gather statistics": r"tidb_statistics_auto_analyze_duration_seconds_count",
    "change a schema": r"tidb_ddl_handle_job_duration_seconds_count",
    "delete expired rows": r"tidb_server_ttl_query_duration_count",
}


@dataclass(frozen=True)
class PerRequest:
    """A number that two counters of a server's page give, named by regular expressions."""

    above: str
    below: str
    factor: float = 1e3
    """What makes of their ratio the unit that its name has; seconds become milliseconds."""


#: Number → its counters: what a request to another server takes, and what Go itself takes. Version 7.0
#: and later count the latter.
ROUND_TRIPS = {
    "KV request (ms)": PerRequest(
        r"tidb_tikvclient_request_seconds_sum", r"tidb_tikvclient_request_seconds_count"
    ),
    "coprocessor request (ms)": PerRequest(
        r"tidb_tikvclient_cop_duration_seconds_sum", r"tidb_tikvclient_cop_duration_seconds_count"
    ),
    "wait for a timestamp (ms)": PerRequest(
        r'pd_client_cmd_handle_cmds_duration_seconds_sum\{type="wait"\}',
        r'pd_client_cmd_handle_cmds_duration_seconds_count\{type="wait"\}',
    ),
    "wait for a processor in Go (ms)": PerRequest(
        r"^tidb\.go_sched_latencies_seconds_sum", r"^tidb\.go_sched_latencies_seconds_count"
    ),
    "Go's garbage collector (% of its CPU)": PerRequest(
        r"^tidb\.go_cpu_classes_gc_total_cpu_seconds_total",
        r"^tidb\.go_cpu_classes_(gc_total|user|scavenge_total)_cpu_seconds_total",
        factor=100,
    ),
}

#: How a transaction is committed → counter of such transactions. With async commit the client has its
#: answer after the first of the two phases.
COMMITS = {
    "one phase": r'tidb_tikvclient_one_pc_txn_counter_total\{type="ok"\}',
    "async commit": r'tidb_tikvclient_async_commit_txn_counter_total\{type="ok"\}',
    "two phases": r'tidb_tikvclient_commit_txn_counter_total\{type="ok"\}',
}

#: Counters of the regions to which transactions write, and of these transactions.
REGIONS_WRITTEN = PerRequest(
    r'tidb_tikvclient_txn_regions_num_sum\{type="2pc_prewrite"\}',
    r'tidb_tikvclient_txn_regions_num_count\{type="2pc_prewrite"\}',
    factor=1,
)

#: Major version of the first server that has cached tables.
_FIRST_WITH_CACHED_TABLES = 6

#: Seconds after which a server has added changed rows to its statistics: 20 times its
#: ``performance.stats-lease``, which is 3 s, and some more to write them.
_CHANGES_ADDED_S = 65

#: How often TiKV looks for regions to split (``raftstore.split-region-check-tick-interval``, its
#: default), after how many looks without a split none is to be expected, and after how many at most.
_SPLIT_LOOK_S, _LOOKS_WITHOUT_SPLIT, _MOST_LOOKS = 10, 3, 60

#: Name of the embedded store, which keeps no log and does not sync what is committed.
EMBEDDED = "unistore"

#: Name of a system variable, which is set by SQL. Names of the configuration have dots or hyphens.
_VARIABLE = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")


#: Samples of TiKV's page about the two column families that hold rows: memtables flushed, bytes in
#: those not flushed yet, bytes at which one is flushed, files of flushes that are merged at once. (Most
#: locks are gone before they are flushed.)
_MEMTABLES = re.compile(
    r"""^(?:
        tikv_engine_event_total\{cf="(?P<flushed>default|write)",db="kv",type="flush"\}
        |tikv_engine_memory_bytes\{cf="(?P<filled>default|write)",db="kv",type="mem-tables"\}
        |tikv_config_rocksdb\{cf="(?P<size>default|write)",name="write_buffer_size"\}
        |tikv_config_rocksdb\{cf="(?P<merged>default|write)",name="level0_file_num_compaction_trigger"\}
    )\ (?P<value>\S+)$""",
    re.MULTILINE | re.VERBOSE,
)


class TiDB(MySQLProtocol):
    """TiDB on TiKV and PD, or ``tidb-server`` alone on its embedded store."""

    name = "tidb"
    nodes = (PRIMARY, STANDBY)
    stops_at_once = True  # a TiDB tells the PDs that it leaves, which takes a majority of them
    pool = "storage.block-cache.capacity"
    kept_settings = ("replication.max-replicas",)  # PD keeps those of its first start
    layout_settings = ("coprocessor.region-split-size",)
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"tidb_table_cache_lease": (1, 10)}
    # an index that is added later waits for those of other tables, and each takes seconds
    indexes_first = True
    admin_user = "root"
    repeated_errors = (9007,)  # write conflict, "try again later"
    waits_query = (
        # the server's own sessions have no user
        "SELECT p.command AS command, t.state AS trx, UPPER(LEFT(p.info, 6)) AS verb,"
        " COUNT(*) AS sessions"
        " FROM information_schema.processlist p"
        " LEFT JOIN information_schema.tidb_trx t ON t.session_id = p.id"
        " WHERE p.id NOT IN ({own}) AND p.user <> ''"
        " GROUP BY p.command, t.state, UPPER(LEFT(p.info, 6))"
    )
    table_states_query = (
        "SELECT t.table_name AS name, c.lock_type AS state, c.lease, c.oldReadLease"
        " FROM mysql.table_cache_meta c JOIN information_schema.tables t ON t.tidb_table_id = c.tid"
        " WHERE t.table_schema = DATABASE()"
    )

    def _session_id(self, connection: pymysql.Connection) -> int:
        # of the 8 bytes that an id may have since 6.1 the handshake has 4
        with connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID() AS id")
            return cursor.fetchone()["id"]

    def version(self) -> str:
        """See :meth:`Engine.version`; ``VERSION()`` is ``<MySQL's>-TiDB-v<TiDB's>``.

        With the embedded store, the store's name is appended.
        """
        text = self.query("SELECT VERSION() AS version")[0]["version"].rsplit("-v", 1)[-1]
        return f"{text}-{EMBEDDED}" if self._is_embedded else text

    @classmethod
    def shortcoming(cls, version: str) -> str | None:
        """See :meth:`Engine.shortcoming`."""
        if not version.endswith(EMBEDDED):
            return None
        return (
            f"its embedded store ({EMBEDDED}) is part of the server's process, and does not sync what"
            " is committed"
        )

    @property
    def _is_embedded(self) -> bool:
        rows = self.query("SHOW CONFIG WHERE type = 'tidb' AND name = 'store'")
        return any(row["Value"] == EMBEDDED for row in rows)

    @classmethod
    def render(cls, value: Scalar) -> str:
        """See :meth:`Engine.render`; switches as in TOML, which SQL takes, too."""
        return str(value).lower() if isinstance(value, bool) else super().render(value)

    def tune(self, requested: Mapping[str, Scalar]) -> None:
        """See :meth:`Engine.tune`: system variables, and whether tables are cached."""
        for name, value in requested.items():
            if name == TABLE_CACHE:
                self._cache(bool(value))
            elif _VARIABLE.fullmatch(name):
                self.query(f"SET GLOBAL {name} = {self.render(value)}")

    def _cache(self, wanted: bool) -> None:
        """Cache all tables of the dataset, or none.

        Raises:
            EngineError: the server is too old, or refused it for a table, which the message names.
        """
        first = _FIRST_WITH_CACHED_TABLES
        if wanted and int((version := self.version()).partition(".")[0]) < first:
            raise EngineError(
                f"{self.name} {version} has no cached tables: {first}.0 and later have"
            )
        for table, cached in sorted(self._cached().items()):
            if cached != wanted:
                try:
                    self.query(f"ALTER TABLE {table} {'CACHE' if wanted else 'NOCACHE'}")
                except EngineError as error:
                    raise EngineError(f"{table}: {error}", error.code) from error

    def settings(self, requested: Mapping[str, Scalar]) -> list[EngineSetting]:
        """See :meth:`Engine.settings`; beside them, what each component says of its build.

        With the embedded store, settings of TiKV and PD are left out.
        """
        if self._is_embedded:
            known = {row["Name"].split(".")[0] for row in self.query("SHOW CONFIG")}
            requested = {
                name: value
                for name, value in requested.items()
                if "." not in name or name.split(".")[0] in known
            }
        return [*super().settings(requested), *self._builds()]

    def _builds(self) -> list[EngineSetting]:
        """Return version and commit of each component, which a tarball's name does not vouch for."""
        rows = self.query(
            "SELECT type, instance, version, git_hash FROM information_schema.cluster_info"
        )
        return [
            EngineSetting(
                name=f"build of {row['type']} {row['instance']}",
                requested=None,
                effective=f"{row['version']} {row['git_hash']}",
                source="information_schema.cluster_info",
            )
            for row in rows
            if row["version"]  # the embedded store has none
        ]

    def effective_settings(self, names: list[str]) -> list[EngineSetting]:
        """See :meth:`Engine.effective_settings`; from ``SHOW CONFIG`` of all components.

        A setting for which instances of a component have different values has all of them.
        """
        values: dict[str, dict[str, str]] = {}
        for row in self.query("SHOW CONFIG"):
            values.setdefault(row["Name"], {})[row["Value"]] = row["Type"]
        for row in self.query("SHOW GLOBAL VARIABLES"):
            values.setdefault(row["Variable_name"], {})[row["Value"]] = "variable"
        states = sorted({"on" if cached else "off" for cached in self._cached().values()})
        values[TABLE_CACHE] = dict.fromkeys(states, "information_schema.tables")
        return [
            EngineSetting(
                name=name,
                requested=None,
                effective=" and ".join(of_name := values[name]),
                source=next(iter(of_name.values())),
            )
            for name in names
            if values.get(name)
        ]

    def _cached(self) -> dict[str, bool]:
        """Return whether each table is cached."""
        rows = self.query(
            "SELECT table_name AS name, create_options AS options FROM information_schema.tables"
            " WHERE table_schema = DATABASE()"
        )
        return {row["name"]: "cached=on" in (row["options"] or "") for row in rows}

    @classmethod
    def wait(cls, row: Mapping[str, Any]) -> tuple[Wait, str, int] | None:
        """See :meth:`Engine.wait`; the name is the state of the session's transaction.

        A write into a cached table waits, between COMMIT and the actual commit, for the readers' lease.
        """
        sessions, state = row["sessions"], row["trx"]
        if row["command"] == "Sleep":
            return Wait.CLIENT, "Sleep", sessions
        if state == "LockWaiting":
            return Wait.LOCK, state, sessions
        if state == "Committing":
            return Wait.LOG, state, sessions
        if row["verb"] == "COMMIT":
            return Wait.LOCK, "COMMIT, not yet Committing", sessions
        return Wait.BUSY, row["command"], sessions

    def counters(self) -> dict[str, float]:
        """See :meth:`Engine.counters`: a read of each cached table; regions.

        Regions are counted by table and leading store. The embedded store has no placement driver, and
        so reports none.
        """
        counters: dict[str, float] = {}
        for table, cached in self._cached().items():
            if cached:
                trace = self.query(f"TRACE FORMAT='row' SELECT * FROM {table} LIMIT 1")
                went = any(_TO_STORAGE in row["operation"] for row in trace)
                counters[f"{TRACED}{table}"] = float(went)
        if self._is_embedded:
            return counters
        led = self.query(
            "SELECT s.table_name AS name, p.store_id AS store,"
            " COUNT(DISTINCT s.region_id) AS regions"
            " FROM information_schema.tikv_region_status s"
            " JOIN information_schema.tikv_region_peers p"
            " ON p.region_id = s.region_id AND p.is_leader = 1"
            " WHERE s.db_name = DATABASE() GROUP BY s.table_name, p.store_id"
        )
        by_leader = {
            f"regions.{row['name']}.led by store {row['store']}": float(row["regions"])
            for row in led
        }
        return counters | {"regions": float(self._regions())} | by_leader

    def _regions(self) -> int:
        """Return how many regions hold the dataset; several tables may share one."""
        (found,) = self.query(
            "SELECT COUNT(DISTINCT region_id) AS regions FROM information_schema.tikv_region_status"
            " WHERE db_name = DATABASE()"
        )
        return int(found["regions"])

    def background_cycles(self, ask: Ask, pages: Pages) -> float | None:
        """See :meth:`Engine.background_cycles`: merges of TiKV's flushed memtables into the tree.

        A memtable is flushed when it is full, and the files of four flushes (by default) are merged.
        Most of what TiKV writes to the disk is written by merges. It is the number of the column family
        with the most and, with several stores, of the store with the most. The embedded store reports
        none.
        """
        del ask
        found = [
            _merges(page)
            for services in pages().values()
            for service, page in services.items()
            if service.startswith("tikv")
        ]
        return max(found, default=None)

    def followers(self) -> int:
        """See :meth:`Engine.followers`: other nodes whose TiDB, TiKV and PD this server knows."""
        rows = self.query("SELECT type, instance FROM information_schema.cluster_info")
        services: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            services[row["instance"].rsplit(":", 1)[0]].add(row["type"])
        return sum(found >= {"tidb", "tikv", "pd"} for found in services.values()) - 1

    def prewarm(self, dataset: Dataset) -> None:
        """See :meth:`Engine.prewarm`: a scan of every table and of its index on k."""
        require_sysbench(dataset)
        for number in range(1, dataset.tables + 1):
            self.query(f"SELECT COUNT(c), COUNT(pad) FROM sbtest{number}")
            self.query(f"SELECT SUM(k) FROM sbtest{number} USE INDEX (k_{number})")

    def table_bytes(self) -> dict[str, int]:
        """See :meth:`Engine.table_bytes`."""
        rows = self.query(
            "SELECT table_name AS name, data_length + index_length AS size"
            " FROM information_schema.tables WHERE table_schema = DATABASE()"
        )
        return {row["name"]: int(row["size"]) for row in rows}

    def settle(self) -> None:
        """See :meth:`Engine.settle`: gathers statistics, before the server does so during a run.

        The server adds changed rows to its statistics once a minute, even those that ANALYZE has
        already counted, and would then analyze again. So this waits for them and analyzes again.
        Meanwhile it waits until TiKV has split what is too large; the first runs would see that, too.
        """
        self.analyze()
        added = time.monotonic() + _CHANGES_ADDED_S
        self._wait_for_splits()
        with self.asking() as ask:
            while True:
                (changes,) = ask(
                    "SELECT SUM(m.modify_count) AS rows_changed FROM mysql.stats_meta m"
                    " JOIN information_schema.tables t ON t.tidb_table_id = m.table_id"
                    " WHERE t.table_schema = DATABASE()"
                )
                if changes["rows_changed"]:
                    break
                if time.monotonic() > added:
                    return
                time.sleep(1)
        self.analyze()

    def _wait_for_splits(self) -> None:
        """Wait until TiKV has found nothing to split for some of its looks."""
        if self._is_embedded:
            return
        regions, unchanged = self._regions(), 0
        for _ in range(_MOST_LOOKS):
            time.sleep(_SPLIT_LOOK_S)
            before, regions = regions, self._regions()
            unchanged = unchanged + 1 if regions == before else 0
            if unchanged == _LOOKS_WITHOUT_SPLIT:
                return


def _merges(page: str) -> float:
    """Return how many times flushed files were enough for a merge, with the fraction of the next.

    Raises:
        EngineError: the page does not have what it takes.
    """
    of_family: dict[str, dict[str, float]] = defaultdict(dict)
    for match in _MEMTABLES.finditer(page):
        for kind in ("flushed", "filled", "size", "merged"):
            if family := match[kind]:
                of_family[family][kind] = float(match["value"])
    found = [
        (one.get("flushed", 0.0) + one["filled"] / one["size"]) / one["merged"]
        for one in of_family.values()
        if one.keys() >= {"filled", "size", "merged"}
    ]
    if not found:
        raise EngineError("tidb: TiKV's page has no memtables of rows")
    return max(found)
