"""MariaDB."""

from benchlab.engines.mysql import InnoDB, sessions_of


class MariaDB(InnoDB):
    """MariaDB, any version from 10.6."""

    name = "mariadb"
    waits_query = sessions_of("information_schema.processlist")

    def explain(self, statement: str) -> str:
        """See :meth:`Engine.explain`; the query is run for it."""
        ((plan,),) = (row.values() for row in self.query(f"ANALYZE FORMAT=JSON {statement}"))
        return plan

    def dataset_bytes(self) -> int:
        """See :meth:`Engine.dataset_bytes`: the tables' files."""
        rows = self.query(
            "SELECT SUM(file_size) AS size FROM information_schema.innodb_sys_tablespaces"
            " WHERE name LIKE CONCAT(DATABASE(), '/%')"
        )
        return int(rows[0]["size"] or 0)
