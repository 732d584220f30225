"""The tables of sysbench's own OLTP scripts, which sysbench loads."""

import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchlab.drivers.sysbench import driver, output
from benchlab.engines import Engine
from benchlab.errors import EngineError
from benchlab.observers.outcomes import Outcome
from benchlab.study import Scalar
from benchlab.study.roles import LOAD
from benchlab.target.session import Session
from benchlab.workloads.base import MESSAGE_LIMIT, Tables
from benchlab.workloads.sysbench_oltp import cache_limits
from benchlab.workloads.sysbench_oltp.dataset import SysbenchTables

#: Script that loads the tables with their index there before the rows.
_INDEXED = Path(__file__).with_name("indexed.lua")

#: Words by which servers mark a line of their log that reports an error.
_ERROR = re.compile(r"\b(ERROR|FATAL|PANIC)\b")


class OltpTables(Tables[SysbenchTables]):
    """See :class:`~benchlab.workloads.base.Tables`."""

    def load(self, session: Session, jobs: int) -> None:
        """See :meth:`Tables.load`."""
        script = {}
        if session.engine.indexes_first:
            file = self.folder / _INDEXED.name
            session.node(LOAD).write(file, _INDEXED.read_bytes())
            script = {"script": str(file)}
        argv = driver.prepare(session.engine, self.options(), jobs, **script)
        code, said = self.run(session, argv, driver.config_file(session.engine))
        # sysbench 1.0.20 ends with 0 when one of its loading threads fails
        if fatal := output.errors(said):
            raise EngineError(f"{session.engine_name}: loading failed: {fatal[0][:MESSAGE_LIMIT]}")
        if code:
            # if the server refuses to go on, sysbench may crash without a message
            raise EngineError(
                f"{session.engine_name}: loading failed: sysbench ended with exit code"
                f" {code}; the engine's log: {_last_error(session.log())[:MESSAGE_LIMIT]}"
            )

    def options(self) -> Mapping[str, Scalar]:
        """See :meth:`Tables.options`."""
        return {"tables": self.dataset.tables, "table-size": self.dataset.rows_per_table}

    def single_writes(self, seed: int) -> Mapping[str, Iterator[str]]:
        """See :meth:`Tables.single_writes`: updates of a column without an index."""

        def statements(table: str) -> Iterator[str]:
            draw = random.Random(f"row {seed} {table}")
            while True:
                row = draw.randint(1, self.dataset.rows_per_table)
                yield f"UPDATE {table} SET pad = '{draw.randbytes(30).hex()}' WHERE id = {row}"

        names = [f"sbtest{number}" for number in range(1, self.dataset.tables + 1)]
        return {name: statements(name) for name in names}

    def outcomes(self, check: str, engine: Engine) -> Iterator[Outcome]:
        """See :meth:`Tables.outcomes`: the check ``cache_limits``."""
        if check == "cache_limits":
            return cache_limits.outcomes(engine)
        return super().outcomes(check, engine)


def _last_error(log: bytes) -> str:
    """Return the last line of an engine's log that reports an error, else its last line."""
    lines = log.decode(errors="replace").strip().splitlines() or ["nothing"]
    return ([line for line in lines if _ERROR.search(line)] or lines)[-1]


TABLES = OltpTables
