"""The tables of sysbench's own OLTP scripts, which sysbench loads."""

import re
import subprocess
from collections.abc import Mapping

from benchlab.drivers import sysbench
from benchlab.drivers import sysbench_output as parse_sysbench
from benchlab.errors import EngineError
from benchlab.study import Scalar, SysbenchTables
from benchlab.target.session import Session
from benchlab.workloads.base import Tables

_LOAD_TIMEOUT_S = 6 * 3600

#: How servers mark a line of their log that tells an error.
_ERROR = re.compile(r"\b(ERROR|FATAL|PANIC)\b")

#: A failed INSERT is quoted whole, with its thousand rows.
_MESSAGE_LIMIT = 200


class OltpTables(Tables[SysbenchTables]):
    """See :class:`~benchlab.workloads.base.Tables`."""

    def load(self, session: Session) -> None:
        """See :meth:`Tables.load`."""
        done = subprocess.run(
            session.client_argv(sysbench.prepare(session.engine, self.options())),
            input=sysbench.config_file(session.engine),
            capture_output=True,
            timeout=_LOAD_TIMEOUT_S,
            check=False,
        )
        said = (done.stdout + done.stderr).decode(errors="replace")
        # sysbench 1.0.20 ends with 0 when one of its loading threads fails
        if fatal := parse_sysbench.errors(said):
            raise EngineError(f"{session.engine_name}: loading failed: {fatal[0][:_MESSAGE_LIMIT]}")
        if done.returncode:
            # where the server refuses to go on, sysbench may crash without a word
            raise EngineError(
                f"{session.engine_name}: loading failed: sysbench ended with exit code"
                f" {done.returncode}; the engine's log: {_last_error(session.log())[:_MESSAGE_LIMIT]}"
            )

    def options(self) -> Mapping[str, Scalar]:
        """See :meth:`Tables.options`."""
        return {"tables": self.dataset.tables, "table-size": self.dataset.rows_per_table}


def _last_error(log: bytes) -> str:
    """Return the last line of an engine's log that tells an error, else its last line."""
    lines = log.decode(errors="replace").strip().splitlines() or ["nothing"]
    return ([line for line in lines if _ERROR.search(line)] or lines)[-1]
