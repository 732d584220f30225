"""MySQL, and what MariaDB has in common with it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from benchlab.engines import plans
from benchlab.engines.base import Ask, EngineSetting, MySQLProtocol, Pages
from benchlab.engines.waits import Wait
from benchlab.errors import EngineError
from benchlab.study import Dataset

#: Error code of MySQL and MariaDB for a system variable that they do not have.
_UNKNOWN_VARIABLE = 1193

#: Query for the indexes of the workload's tables, each with its first column.
_INDEXES = (
    "SELECT table_name AS name, index_name AS index_, column_name AS first"
    " FROM information_schema.statistics WHERE table_schema = DATABASE() AND seq_in_index = 1"
)

#: States of a session that makes its transaction durable. The first is MySQL's, the others are
#: MariaDB's: there one thread of InnoDB synchronises the log for many sessions, and a session waits for
#: it at the very end, before the answer is sent.
_COMMITS = {"waiting for handler commit", "Commit", "Updating status"}


def sessions_of(processes: str) -> str:
    """Return the query for what the sessions in a table of processes do, and which wait for a row.

    The server reports which transaction waits for a row, not which session.
    """
    return (
        "SELECT p.command AS command, p.state AS state, t.trx_state AS trx, COUNT(*) AS sessions"
        f" FROM {processes} p"
        " LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id"
        " WHERE p.id NOT IN ({own}) GROUP BY p.command, p.state, t.trx_state"
    )


class InnoDB(MySQLProtocol):
    """A server whose tables are InnoDB's."""

    admin_user = "root"
    pool = "innodb_buffer_pool_size"
    durability_settings = (
        "innodb_flush_log_at_trx_commit",
        "innodb_doublewrite",
        "log_bin",
        "sync_binlog",
    )
    page_bytes = 16384
    #: Table of ``information_schema`` that lists the tables' files.
    tablespaces: ClassVar[str]
    #: Status variable with the bytes ever written to the redo log, and system variable with its size.
    redo_log: ClassVar[tuple[str, str]]

    def version(self) -> str:
        """See :meth:`Engine.version`; the digits of ``9.7.4-2`` or ``10.11.19-MariaDB-0+deb12u1``."""
        return self.query("SELECT VERSION() AS version")[0]["version"].split("-")[0]

    def effective_settings(self, names: list[str]) -> list[EngineSetting]:
        """See :meth:`Engine.effective_settings`; from ``SHOW GLOBAL VARIABLES``."""
        rows = {row["Variable_name"]: row["Value"] for row in self.query("SHOW GLOBAL VARIABLES")}
        return [
            EngineSetting(name=name, requested=None, effective=rows[name])
            for name in names
            if name in rows
        ]

    def counters(self) -> dict[str, float]:
        """See :meth:`Engine.counters`: every number of ``SHOW GLOBAL STATUS``."""
        return {
            f"status.{row['Variable_name']}": float(row["Value"])
            for row in self.query("SHOW GLOBAL STATUS")
            if row["Value"].replace(".", "", 1).isdigit()
        }

    def background_cycles(self, ask: Ask, pages: Pages) -> float | None:
        """See :meth:`Engine.background_cycles`: rounds of the redo log.

        InnoDB flushes pages all the time. After one round of the log it has flushed every page that
        was changed before the round.
        """
        written, size = (
            ask(f"SHOW GLOBAL {kind} LIKE '{name}'")
            for kind, name in zip(("STATUS", "VARIABLES"), self.redo_log, strict=True)
        )
        if not (written and size):
            return None
        return float(written[0]["Value"]) / float(size[0]["Value"])

    @classmethod
    def checkpoints(cls, log: str) -> str:
        """See :meth:`Engine.checkpoints`."""
        del log
        return (
            "InnoDB's checkpoints are fuzzy: it writes pages all the time, and none begins or ends"
        )

    @classmethod
    def wait(cls, row: Mapping[str, Any]) -> tuple[Wait, str, int] | None:
        """See :meth:`Engine.wait`; the name is the session's state."""
        sessions, state = row["sessions"], row["state"] or row["command"]
        if row["command"] in ("Daemon", "Binlog Dump"):
            return None
        if row["command"] == "Sleep":
            return Wait.CLIENT, "Sleep", sessions
        if row["trx"] == "LOCK WAIT":
            return Wait.LOCK, row["trx"], sessions
        if state.startswith("Waiting for") and state.endswith("lock"):
            return Wait.LOCK, state, sessions
        return Wait.LOG if state in _COMMITS else Wait.BUSY, state, sessions

    def prewarm(self, dataset: Dataset) -> None:
        """See :meth:`Engine.prewarm`: a scan of every index, the clustered one among them."""
        del dataset  # the database holds nothing else
        for row in self.query(_INDEXES):
            self.query(
                f"SELECT SUM(LENGTH({row['first']})) FROM {row['name']} FORCE INDEX ({row['index_']})"
            )

    def table_bytes(self) -> dict[str, int]:
        """See :meth:`Engine.table_bytes`: the tables' files."""
        rows = self.query(
            "SELECT SUBSTRING_INDEX(name, '/', -1) AS name, file_size AS size"
            f" FROM information_schema.{self.tablespaces} WHERE name LIKE CONCAT(DATABASE(), '/%')"
        )
        return {row["name"]: int(row["size"]) for row in rows}

    def settle(self) -> None:
        """See :meth:`Engine.settle`: statistics of every table."""
        self.analyze()


class MySQL(InnoDB):
    """MySQL from 8.0.30 on, whose redo log has a capacity."""

    name = "mysql"
    waits_query = sessions_of("performance_schema.processlist")
    tablespaces = "innodb_tablespaces"
    redo_log = ("Innodb_redo_log_current_lsn", "innodb_redo_log_capacity")
    accesses = staticmethod(plans.of_mysql)

    def explain(self, statement: str) -> str:
        """See :meth:`Engine.explain`; from 8.3 on the query is run for it."""
        try:
            with self.asking() as ask:
                ask("SET explain_json_format_version = 2")
                ((plan,),) = (
                    row.values() for row in ask(f"EXPLAIN ANALYZE FORMAT=JSON {statement}")
                )
        except EngineError as error:
            if error.code != _UNKNOWN_VARIABLE:
                raise
            return super().explain(statement)
        return plan
