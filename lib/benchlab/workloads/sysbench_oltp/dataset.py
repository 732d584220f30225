"""What the tables of sysbench's OLTP scripts hold at the start."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from benchlab.study.kinds import DatasetModel


class SysbenchTables(DatasetModel):
    """Tables that all have the same number of rows."""

    drivers: ClassVar = ("sysbench",)

    kind: Literal["sysbench_oltp"] = "sysbench_oltp"
    tables: Annotated[int, Field(gt=0)]
    rows_per_table: Annotated[int, Field(gt=0)]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return self.tables * self.rows_per_table


DATASET = SysbenchTables
