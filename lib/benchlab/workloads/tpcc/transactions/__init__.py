"""The five transactions of TPC-C, for each engine in two forms.

``contract``    requests of a terminal, and their answers
``statements``  as client SQL, one round trip per statement
``calls``       as stored procedures, which are in ``procedures/``, one round trip per transaction
``postgres``, ``mysql``  both forms in the dialects
"""

from dataclasses import asdict
from typing import Literal

from benchlab.errors import EngineError, UnknownName
from benchlab.workloads.tpcc.transactions.base import RepeatTransaction, Transactions
from benchlab.workloads.tpcc.transactions.calls import procedures
from benchlab.workloads.tpcc.transactions.mysql import (
    LOW_STOCK_HINTS,
    STOCK_ITEM,
    MySQLProcedures,
    MySQLStatements,
)
from benchlab.workloads.tpcc.transactions.postgres import PostgresProcedures, PostgresStatements
from benchlab.workloads.tpcc.transactions.statements import Options

__all__ = [
    "ENGINES",
    "FORMS",
    "PROCEDURES",
    "Options",
    "RepeatTransaction",
    "Transactions",
    "procedures_sql",
    "transactions_of",
    "view_sql",
]

#: Engines that the transactions are written for.
ENGINES = ("postgres", "mysql", "mariadb", "oceanbase", "tidb")

#: Forms that the transactions are written in.
PROCEDURES = "procedures"
FORMS = (PROCEDURES, "statements")

_DEFAULTS = Options()


def transactions_of(
    engine: str, form: Literal["procedures", "statements"], options: Options = _DEFAULTS
) -> Transactions:
    """Return the transactions for an engine in a form.

    Args:
        engine: one of :data:`ENGINES`.
        form: one of :data:`FORMS`.
        options: for the form ``statements``; for procedures only the default.

    Raises:
        UnknownName: the transactions are not written for the engine, or there is no such form.
        EngineError: the engine lacks what the form or an option needs.
    """
    _known(engine)
    if form not in FORMS:
        raise UnknownName("form of transactions", form, FORMS)
    if form == PROCEDURES:
        if engine == "tidb":
            raise _without_procedures()
        if options != _DEFAULTS:
            raise EngineError(
                f"{engine}: stored procedures have none of the options"
                f" {', '.join(asdict(options))}; choose the form: statements"
            )
        return PostgresProcedures() if engine == "postgres" else MySQLProcedures(engine)
    if engine == "tidb" and options.joined:
        raise EngineError("tidb: it has no updatable views; choose transactions without them")
    if engine != "postgres" and not options.prepared:
        raise EngineError(
            f"{engine}: its client (aiomysql) has no prepared statements, so all statements are text"
            " whatever the option prepared says; leave it out"
        )
    return PostgresStatements(options) if engine == "postgres" else MySQLStatements(engine, options)


def procedures_sql(engine: str) -> list[str]:
    """Return the statements that create or replace the procedures of an engine.

    Raises:
        UnknownName: the transactions are not written for the engine.
        EngineError: the engine has no procedures.
    """
    _known(engine)
    if engine == "tidb":
        raise _without_procedures()
    if engine == "postgres":
        return list(procedures("postgres").values())
    hint = LOW_STOCK_HINTS.get(engine, "")
    # MySQL has no CREATE OR REPLACE PROCEDURE
    return [
        statement
        for name, create in procedures(engine, "mysql").items()
        for statement in (f"DROP PROCEDURE IF EXISTS {name}", create.replace("/* hint */", hint))
    ]


def view_sql(engine: str) -> list[str]:
    """Return the statements that create the view of the option ``joined``; empty if it needs none.

    Raises:
        UnknownName: the transactions are not written for the engine.
    """
    _known(engine)
    return [STOCK_ITEM] if engine in ("mysql", "mariadb", "oceanbase") else []


def _known(engine: str) -> None:
    if engine not in ENGINES:
        raise UnknownName("engine of TPC-C's transactions", engine, ENGINES)


def _without_procedures() -> EngineError:
    return EngineError("tidb: it has no stored procedures; choose the form: statements")
