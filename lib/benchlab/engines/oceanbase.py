"""OceanBase seekdb, OceanBase's single-node engine."""

import time
from collections.abc import Mapping
from typing import Any

from benchlab.engines.base import Ask, EngineSetting, MySQLProtocol, Pages, require_sysbench
from benchlab.engines.waits import Wait
from benchlab.errors import EngineError
from benchlab.study import Dataset, Scalar

#: OceanBase's error codes for which it retries a statement because of another transaction: that one
#: wrote a newer version of the row, or holds a lock on it.
_ROW_IS_TAKEN = (-6001, -6003, -6004, -6005)

#: The engine does not report how many statements it throttles, only the limit above which it does: a
#: share of its memory for new rows. (A query that names a column of this table fails with error 4019.)
_MEMSTORE = "SELECT * FROM oceanbase.__all_virtual_memstore_info LIMIT 1"
_BRAKE = (
    "SELECT value AS brake_percentage FROM oceanbase.V$OB_PARAMETERS"
    " WHERE name = 'writing_throttling_trigger_percentage'"
)
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLAC")

#: A merge leaves its input on disk for half an hour (undo_retention), so that older reads find it. The
#: query counts only the newest merged version of each tablet, and what later transactions flushed.
#: Tablets of the server's own tables are not in __all_tablet_to_table.
_TABLE_BYTES = """
    SELECT its_table.table_name AS name, SUM(size) AS size
    FROM (
        SELECT tablet_id, table_type, size, end_log_scn, upper_trans_version,
            MAX(CASE WHEN table_type = 'MAJOR' THEN end_log_scn END)
                OVER (PARTITION BY tablet_id) AS merged_scn
        FROM oceanbase.V$OB_SSTABLES
    ) AS sstable
    JOIN oceanbase.__all_tablet_to_table AS its_tablet ON its_tablet.tablet_id = sstable.tablet_id
    JOIN oceanbase.__all_table AS its_index ON its_index.table_id = its_tablet.table_id
    JOIN oceanbase.__all_table AS its_table
        ON its_table.table_id = COALESCE(NULLIF(its_index.data_table_id, 0), its_index.table_id)
    WHERE sstable.table_type = 'MAJOR' AND end_log_scn = merged_scn
        OR sstable.table_type IN ('MINI', 'MINOR') AND upper_trans_version > merged_scn
    GROUP BY its_table.table_name
"""

_MERGE_TIMEOUT_S = 1800

#: Fewer rows than a block of 16 KiB (default of block_size) holds, at 190 bytes a row.
_ROWS_PER_BLOCK = 40


class OceanBase(MySQLProtocol):
    """OceanBase seekdb, with its LSM tree and its log in one process."""

    name = "oceanbase"
    admin_user = "root"
    kept_settings = ("log_disk_size",)
    # by default it gives up a query after 10 s, which a catalogue query may take on a throttled disk
    session = "SET ob_query_timeout = 600000000"
    waits_query = (
        "SELECT command, trans_state, retry_info, UPPER(LEFT(info, 6)) AS verb, COUNT(*) AS sessions"
        " FROM oceanbase.__all_virtual_processlist WHERE id NOT IN ({own}) GROUP BY 1, 2, 3, 4"
    )

    def version(self) -> str:
        """See :meth:`Engine.version`; ``VERSION()`` is ``<MySQL's>-OceanBase seekdb-v<its own>``."""
        return self.query("SELECT VERSION() AS version")[0]["version"].rsplit("-v", 1)[-1]

    def effective_settings(self, names: list[str]) -> list[EngineSetting]:
        """See :meth:`Engine.effective_settings`; from ``V$OB_PARAMETERS``."""
        return [
            EngineSetting(
                name=row["NAME"],
                requested=None,
                effective=row["VALUE"],
                source="default" if row["ISDEFAULT"] == "YES" else "configured",
            )
            for row in self.query(
                "SELECT name AS NAME, value AS VALUE, isdefault AS ISDEFAULT"
                " FROM oceanbase.V$OB_PARAMETERS"
            )
            if row["NAME"] in names
        ]

    def background_cycles(self, ask: Ask, pages: Pages) -> float:
        """See :meth:`Engine.background_cycles`: freezes of the memory for new rows, before each flush.

        The fraction of the next one is the memory in use, as a share of the size that triggers it.
        The server counts from its last merge. It learns of that merge within seconds of its start, and
        counts from 0 again then, which a warm-up outlasts.
        """
        memory = ask(_MEMSTORE)[0]
        return memory["freeze_cnt"] + memory["active_span"] / memory["freeze_trigger"]

    @classmethod
    def checkpoints(cls, log: str) -> str:
        """See :meth:`Engine.checkpoints`; each tablet's memory is frozen and flushed separately."""
        del log
        return (
            "OceanBase freezes and flushes the memory of one tablet after the other, and reports no"
            " moment at which all of it was"
        )

    def sample_sessions(self, ask: Ask) -> list[dict[str, Any]]:
        """See :meth:`Engine.sample_sessions`.

        If a session writes, every row also has how full the memory for new rows is.
        """
        rows = super().sample_sessions(ask)
        if not any(row["verb"] in _WRITES for row in rows):
            return rows
        memory = ask(_MEMSTORE)[0] | ask(_BRAKE)[0]
        return [row | memory for row in rows]

    @classmethod
    def wait(cls, row: Mapping[str, Any]) -> tuple[Wait, str, int] | None:
        """See :meth:`Engine.wait`. A transaction that commits has the state ``IN_TERMINATE``."""
        sessions, retried = row["sessions"], row["retry_info"]
        if row["command"] == "Sleep":
            return Wait.CLIENT, "Sleep", sessions
        if row["trans_state"] == "IN_TERMINATE":
            return Wait.LOG, "IN_TERMINATE", sessions
        if retried in _ROW_IS_TAKEN:
            return Wait.LOCK, f"retried for error {retried}", sessions
        if row["verb"] in _WRITES and (
            row["memstore_used"] >= row["memstore_limit"] * int(row["brake_percentage"]) / 100
        ):
            return Wait.LIMIT, "write above writing_throttling_trigger_percentage", sessions
        return Wait.BUSY, row["command"], sessions

    @classmethod
    def render(cls, value: Scalar) -> str:
        """See :meth:`Engine.render`; whole MiB are written ``M``, switches ``True`` or ``False``."""
        mib = 1 << 20
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, int) and value and value % mib == 0:
            return f"{value // mib}M"
        return super().render(value)

    def counters(self) -> dict[str, float]:
        """See :meth:`Engine.counters`: log written, memstore, caches, disk, log pressure."""
        log = self.query("SELECT END_LSN FROM oceanbase.V$OB_LOG_STAT")[0]
        server = self.query(
            "SELECT LOG_DISK_IN_USE, DATA_DISK_IN_USE FROM oceanbase.V$OB_SERVER_STAT"
        )[0]
        memstore = self.query(
            "SELECT SUM(mem_used) AS used_bytes FROM oceanbase.__all_virtual_tablet_memstore_info"
        )[0]
        compactions = self.query(
            "SELECT COUNT(*) AS compactions FROM oceanbase.V$OB_TABLET_COMPACTION_HISTORY"
        )[0]
        counters = {"V$OB_LOG_STAT.END_LSN_bytes": float(log["END_LSN"])}
        counters |= {f"V$OB_SERVER_STAT.{name}": float(value) for name, value in server.items()}
        counters["memstore.used_bytes"] = float(memstore["used_bytes"] or 0)
        counters["V$OB_TABLET_COMPACTION_HISTORY.count"] = float(compactions["compactions"])
        for row in self.query(
            # the table also has total_miss_cnt, which is always 0
            "SELECT cache_name, cache_size, total_hit_cnt, total_put_cnt"
            " FROM oceanbase.__all_virtual_kvcache_info"
            " WHERE cache_name IN ('user_block_cache', 'user_row_cache', 'index_block_cache')"
        ):
            for column in ("cache_size", "total_hit_cnt", "total_put_cnt"):
                counters[f"kvcache.{row['cache_name']}.{column}"] = float(row[column])
        return counters

    def prewarm(self, dataset: Dataset) -> None:
        """See :meth:`Engine.prewarm`: reads rows of every block by their keys.

        A scan would be faster, but leaves nothing in the block cache.
        """
        require_sysbench(dataset)
        ids = ",".join(map(str, range(1, dataset.rows_per_table + 1, _ROWS_PER_BLOCK)))
        for number in range(1, dataset.tables + 1):
            self.query(f"SELECT COUNT(c) FROM sbtest{number} WHERE id IN ({ids})")

    def table_bytes(self) -> dict[str, int]:
        """See :meth:`Engine.table_bytes`: flushed rows of tables and indexes, each once."""
        return {row["name"]: int(row["size"]) for row in self.query(_TABLE_BYTES)}

    def analyze(self) -> None:
        """See :meth:`Engine.analyze`: nothing; a merge does it, which an owner cannot request."""

    def settle(self) -> None:
        """See :meth:`Engine.settle`: merges the loaded rows, as a day of operation would.

        Raises:
            EngineError: the merge did not end within half an hour.
        """
        self.query("ALTER SYSTEM SET enable_major_freeze = True")
        self.query("ALTER SYSTEM MAJOR FREEZE")
        deadline = time.monotonic() + _MERGE_TIMEOUT_S
        while not self._merged():
            if time.monotonic() > deadline:
                raise EngineError(f"oceanbase: merge not done after {_MERGE_TIMEOUT_S} s")
            time.sleep(0.5)
        self.query("ALTER SYSTEM MINOR FREEZE")
        # a merge that the server starts on its own would disturb a measurement
        self.query("ALTER SYSTEM SET enable_major_freeze = False")

    def _merged(self) -> bool:
        state = self.query(
            "SELECT STATUS, FROZEN_SCN, LAST_SCN FROM oceanbase.DBA_OB_MAJOR_COMPACTION"
        )[0]
        return state["STATUS"] == "IDLE" and 1 < state["FROZEN_SCN"] == state["LAST_SCN"]
