"""The transactions on PostgreSQL from version 13 on, over psycopg."""

from collections.abc import Mapping, Sequence

import psycopg
from psycopg.rows import tuple_row

from benchlab.workloads.tpcc.transactions.base import Line, Row, Transactions, rounds
from benchlab.workloads.tpcc.transactions.calls import Procedures
from benchlab.workloads.tpcc.transactions.contract import NewOrder
from benchlab.workloads.tpcc.transactions.statements import (
    ITEM,
    LESS,
    ORDER_LINE,
    Options,
    Statements,
    less,
    line_values,
    matching,
    stock,
)

#: SQL states of a serialization failure and of a deadlock.
_REPEATED = frozenset({"40001", "40P01"})

#: Lines of a round as a table, from five parameters.
_LINES = (
    "unnest(%s::int[], %s::int[], %s::int[], %s::int[], %s::int[])"
    " AS line (number, i_id, supply_w_id, quantity, remote)"
)

#: Condition for the stock rows of the lines.
_OF_LINES = "s_w_id = line.supply_w_id AND s_i_id = line.i_id"

_ADD_LINES = (
    f"INSERT INTO order_line ({ORDER_LINE}) SELECT * FROM unnest(%s::int[], %s::int[], %s::int[],"
    " %s::int[], %s::int[], %s::int[], %s::timestamp[], %s::int[], %s::numeric[], %s::text[])"
)

_LINE_ARRAYS = ", ".join(["%s::int[]"] * 5)

#: Type → call of its procedure.
_CALLS = {
    "new_order": f"CALL tpcc_new_order(%s, %s, %s, {_LINE_ARRAYS}, %s, NULL)",
    "payment": "CALL tpcc_payment(%s, %s, %s, %s, %s, %s::int, %s::text, NULL)",
    "order_status": "CALL tpcc_order_status(%s, %s, %s::int, %s::text, NULL)",
    "delivery": "CALL tpcc_delivery(%s, %s, NULL)",
    "stock_level": "CALL tpcc_stock_level(%s, %s, %s, NULL)",
}


class Postgres(Transactions[psycopg.AsyncConnection]):
    """How a connection of psycopg runs SQL."""

    engine = "postgres"
    #: Whether statements are parsed once per connection.
    prepared = True

    async def _rows(
        self, connection: psycopg.AsyncConnection, sql: str, parameters: Sequence[object] = ()
    ) -> Sequence[Row]:
        cursor = connection.cursor(row_factory=tuple_row)
        await cursor.execute(sql, parameters, prepare=self.prepared)
        return await cursor.fetchall() if cursor.description else []

    async def _begin(self, connection: psycopg.AsyncConnection) -> None:
        await connection.execute("BEGIN")

    async def _commit(self, connection: psycopg.AsyncConnection) -> None:
        await connection.commit()

    async def _rollback(self, connection: psycopg.AsyncConnection) -> None:
        await connection.rollback()

    def _repeated(self, error: BaseException) -> str | None:
        code = error.sqlstate if isinstance(error, psycopg.Error) else None
        return code if code in _REPEATED else None


class PostgresStatements(Postgres, Statements[psycopg.AsyncConnection]):
    """See :class:`Statements`. Lines are arrays, so a statement has one text for any number of lines.

    A view that joins stock and item is not updatable here. Only a view of a single table is updatable
    without a trigger, and an INSTEAD OF trigger would run its own statements for each row. So the
    option ``joined`` uses an UPDATE that joins and returns: it does the same without a view.

    A statement that is not ``prepared`` is parsed and planned each time; its parameters are still sent
    apart from its text.
    """

    def __init__(self, options: Options):
        super().__init__(options)
        self.prepared = options.prepared

    async def _updated(
        self,
        connection: psycopg.AsyncConnection,
        table: str,
        changes: str,
        values: Sequence[object],
        key: Mapping[str, int],
        columns: str,
    ) -> Row | None:
        rows = await self._rows(
            connection,
            f"UPDATE {table} SET {changes} WHERE {matching(key)} RETURNING {columns}",
            (*values, *key.values()),
        )
        return rows[0] if rows else None

    async def _take_joined(
        self, connection: psycopg.AsyncConnection, d_id: int, line: Line
    ) -> Row | None:
        rows = await self._rows(
            connection,
            f"UPDATE stock SET {LESS} FROM item WHERE i_id = s_i_id AND s_w_id = %s AND s_i_id = %s"
            f" RETURNING {ITEM}, {stock(d_id)}",
            (*line_values(line), line.supply_w_id, line.i_id),
        )
        return rows[0] if rows else None

    async def _take_batch(
        self, connection: psycopg.AsyncConnection, d_id: int, lines: Sequence[Line]
    ) -> Mapping[int, Row]:
        rows = await self._rows(
            connection,
            f"UPDATE stock SET {less('line.quantity', 'line.remote')} FROM {_LINES}"
            f" WHERE {_OF_LINES} RETURNING line.number, {stock(d_id)}",
            _arrays(lines),
        )
        return {row[0]: row[1:] for row in rows}

    async def _take_batch_joined(
        self, connection: psycopg.AsyncConnection, d_id: int, lines: Sequence[Line]
    ) -> Mapping[int, Row]:
        rows = await self._rows(
            connection,
            f"UPDATE stock SET {less('line.quantity', 'line.remote')}"
            f" FROM {_LINES} JOIN item ON item.i_id = line.i_id"
            f" WHERE {_OF_LINES} RETURNING line.number, {ITEM}, {stock(d_id)}",
            _arrays(lines),
        )
        return {row[0]: row[1:] for row in rows}

    async def _items(
        self, connection: psycopg.AsyncConnection, ids: Sequence[int]
    ) -> Mapping[int, Row]:
        sql = f"SELECT i_id, {ITEM} FROM item WHERE i_id = ANY(%s::int[])"
        return {row[0]: row[1:] for row in await self._rows(connection, sql, (ids,))}

    async def _add_lines(self, connection: psycopg.AsyncConnection, rows: Sequence[Row]) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)]
        await self._rows(connection, _ADD_LINES, columns)


class PostgresProcedures(Postgres, Procedures[psycopg.AsyncConnection]):
    """See :class:`Procedures`; in PL/pgSQL.

    A call outside a transaction is a transaction itself. These are procedures, not functions, since
    only procedures can roll back. An error would roll back as well, but would release the locks before
    the hook.
    """

    async def _called(
        self,
        connection: psycopg.AsyncConnection,
        type_: str,
        arguments: Sequence[object],
        ends: bool,
    ) -> str:
        # the only procedure that may roll back
        end = (ends,) if type_ == NewOrder.type else ()
        ((answer,),) = await self._rows(connection, _CALLS[type_], (*arguments, *end))
        return answer

    def _lines(self, request: NewOrder) -> Sequence[object]:
        lines = [(number, line) for number, one in enumerate(rounds(request), 1) for line in one]
        return (
            [number for number, _ in lines],
            [line.number for _, line in lines],
            [line.i_id for _, line in lines],
            [line.supply_w_id for _, line in lines],
            [line.quantity for _, line in lines],
        )


def _arrays(lines: Sequence[Line]) -> Sequence[list[int]]:
    """Return the parameters of :data:`_LINES`."""
    return (
        [line.number for line in lines],
        [line.i_id for line in lines],
        [line.supply_w_id for line in lines],
        [line.quantity for line in lines],
        [line.remote for line in lines],
    )
