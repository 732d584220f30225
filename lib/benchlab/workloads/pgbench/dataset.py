"""What pgbench's tables hold at the start."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from benchlab.study.kinds import DatasetModel

#: Rows per unit of scale in pgbench_accounts, pgbench_tellers, pgbench_branches (pgbench(1), -s).
ROWS = (100_000, 10, 1)

#: Names of the script files beside this module.
FILES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.sql")))

#: pgbench's own scripts (``pgbench --builtin=list``).
BUILT_IN = ("select-only", "simple-update", "tpcb-like")


class PgbenchTables(DatasetModel):
    """The tables of ``pgbench --initialize``."""

    drivers: ClassVar = ("pgbench",)
    scripts: ClassVar = (*BUILT_IN, *FILES)

    kind: Literal["pgbench"] = "pgbench"
    scale: Annotated[int, Field(gt=0)]

    @property
    def rows(self) -> int:
        """Rows of all tables; the history is empty."""
        return self.scale * sum(ROWS)


DATASET = PgbenchTables
