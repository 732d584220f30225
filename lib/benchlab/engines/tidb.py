"""TiDB.

Written from TiDB's documentation (``SHOW CONFIG``, ``INFORMATION_SCHEMA.TIKV_REGION_STATUS``): no
TiDB server could be had where this was written, so no output of one is recorded in the tests.
"""

from benchlab.engines.base import EngineSetting, MySQLProtocol
from benchlab.errors import EngineError
from benchlab.study import Dataset


class TiDB(MySQLProtocol):
    """TiDB on TiKV and PD, or ``tidb-server`` alone on its embedded unistore."""

    name = "tidb"
    pool = "storage.block-cache.capacity"
    admin_user = "root"

    def version(self) -> str:
        """See :meth:`Engine.version`; ``VERSION()`` is ``<MySQL's>-TiDB-v<TiDB's>``."""
        text = self.query("SELECT VERSION() AS version")[0]["version"]
        return text.rsplit("-v", 1)[-1]

    def effective_settings(self, names: list[str]) -> list[EngineSetting]:
        """See :meth:`Engine.effective_settings`; from ``SHOW CONFIG`` of all components."""
        return [
            EngineSetting(
                name=row["Name"], requested=None, effective=row["Value"], source=row["Type"]
            )
            for row in self.query("SHOW CONFIG")
            if row["Name"] in names
        ]

    def counters(self) -> dict[str, float]:
        """See :meth:`Engine.counters`: the number of regions, or none where the store has none."""
        try:
            rows = self.query(
                "SELECT COUNT(DISTINCT region_id) AS regions, SUM(written_bytes) AS written,"
                " SUM(read_bytes) AS read_ FROM information_schema.tikv_region_status"
                " WHERE db_name = 'sbtest'"
            )
        except EngineError:
            return {}  # unistore has no placement driver to ask
        return {
            "tikv_region_status.regions": float(rows[0]["regions"]),
            "tikv_region_status.written_bytes": float(rows[0]["written"] or 0),
            "tikv_region_status.read_bytes": float(rows[0]["read_"] or 0),
        }

    def prewarm(self, dataset: Dataset) -> None:
        """See :meth:`Engine.prewarm`: a scan of every table and of its index on k."""
        for number in range(1, dataset.tables + 1):
            self.query(f"SELECT COUNT(c), COUNT(pad) FROM sbtest{number}")
            self.query(f"SELECT SUM(k) FROM sbtest{number} USE INDEX (k_{number})")

    def dataset_bytes(self) -> int:
        """See :meth:`Engine.dataset_bytes`."""
        rows = self.query(
            "SELECT SUM(data_length + index_length) AS size FROM information_schema.tables"
            " WHERE table_schema = 'sbtest'"
        )
        return int(rows[0]["size"] or 0)

    def settle(self) -> None:
        """See :meth:`Engine.settle`: nothing; TiKV compacts by itself."""

    def analyze(self) -> None:
        """See :meth:`Engine.analyze`: nothing; TiDB does it by itself."""
