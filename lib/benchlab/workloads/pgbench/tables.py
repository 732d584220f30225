"""The tables of pgbench's built-in scripts, which pgbench loads; our own script files for them."""

import json
from collections.abc import Mapping
from pathlib import Path

from benchlab.drivers.pgbench import driver, output
from benchlab.engines import Engine
from benchlab.errors import DatasetError, EngineError
from benchlab.study import Scalar
from benchlab.target.session import Session
from benchlab.workloads.base import MESSAGE_LIMIT, Tables
from benchlab.workloads.pgbench.dataset import BUILT_IN, FILES, ROWS, PgbenchTables

_TABLES = ("pgbench_accounts", "pgbench_tellers", "pgbench_branches")


class LoadedTables(Tables[PgbenchTables]):
    """See :class:`~benchlab.workloads.base.Tables`."""

    def load(self, session: Session, jobs: int) -> None:
        """See :meth:`Tables.load`."""
        del jobs  # pgbench loads on one connection
        process = driver.initialize(session.engine, self.dataset.scale)
        code, said = self.run(session, process.argv, process.stdin)
        if fatal := output.errors(said):
            raise EngineError(f"{session.engine_name}: loading failed: {fatal[0][:MESSAGE_LIMIT]}")
        if code:
            last = (said.strip().splitlines() or ["no message"])[-1]
            raise EngineError(
                f"{session.engine_name}: loading failed: pgbench ended with exit code {code}:"
                f" {last[:MESSAGE_LIMIT]}"
            )

    def check(self, engine: Engine, kept: Path) -> None:
        """See :meth:`Tables.check`: the rows of each table, and the sum of its balances, which is 0."""
        sums = {"pgbench_accounts": "abalance", "pgbench_tellers": "tbalance"}
        expected = {
            table: [self.dataset.scale * rows, 0] for table, rows in zip(_TABLES, ROWS, strict=True)
        }
        answered = {}
        for table in _TABLES:
            balance = sums.get(table, "bbalance")
            (row,) = engine.query(f"SELECT count(*) AS n, sum({balance}) AS total FROM {table}")
            answered[table] = [int(row["n"]), int(row["total"] or 0)]
        if answered != expected:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"expected": expected, "answered": answered}, indent=1))
            raise DatasetError(f"{engine.name} answers {answered}, not {expected}: see {kept}")

    def options(self) -> Mapping[str, Scalar]:
        """See :meth:`Tables.options`."""
        return {"scale": self.dataset.scale}

    def script(self, name: str) -> str:
        """See :meth:`Tables.script`; one of pgbench's by name, or a file beside this module."""
        return name if name in BUILT_IN else str(self.folder / f"{name}.sql")

    def files(self, engine: Engine) -> Mapping[str, bytes]:
        """See :meth:`Tables.files`."""
        del engine
        names = [f"{name}.sql" for name in FILES]
        return {name: Path(__file__).with_name(name).read_bytes() for name in names}


TABLES = LoadedTables
