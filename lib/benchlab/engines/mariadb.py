"""MariaDB."""

from benchlab.engines import plans
from benchlab.engines.mysql import InnoDB, sessions_of


class MariaDB(InnoDB):
    """MariaDB, any version from 10.6."""

    name = "mariadb"
    waits_query = sessions_of("information_schema.processlist")
    tablespaces = "innodb_sys_tablespaces"
    redo_log = ("Innodb_lsn_current", "innodb_log_file_size")
    accesses = staticmethod(plans.of_mariadb)

    def explain(self, statement: str) -> str:
        """See :meth:`Engine.explain`; the query is run for it."""
        ((plan,),) = (row.values() for row in self.query(f"ANALYZE FORMAT=JSON {statement}"))
        return plan
