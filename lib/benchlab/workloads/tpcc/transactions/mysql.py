"""The transactions on MySQL, MariaDB, OceanBase seekdb and TiDB, over aiomysql.

None of them has an UPDATE that returns rows (MariaDB has RETURNING only for INSERT, REPLACE and
DELETE). So a query reads the new values after the update, while the row is locked.
"""

from collections.abc import Mapping, Sequence

import aiomysql
import msgspec
import pymysql

from benchlab.workloads.tpcc.transactions.base import Line, Row, Transactions, rounds
from benchlab.workloads.tpcc.transactions.calls import Procedures
from benchlab.workloads.tpcc.transactions.contract import NewOrder
from benchlab.workloads.tpcc.transactions.statements import (
    ITEM,
    LESS,
    Options,
    Statements,
    less,
    line_values,
    matching,
    stock,
)

#: Error codes of a deadlock, and of a lock wait that timed out.
_MYSQL = frozenset({1213, 1205})

#: Engine → codes of the errors that ask for a repetition.
_REPEATED = {
    "mysql": _MYSQL,
    "mariadb": _MYSQL | {1020},  # changed since the transaction's snapshot
    # can't serialize access; transaction rolled back
    "oceanbase": _MYSQL | {6235, 6002},
    # write conflict; SELECT FOR UPDATE, commit, schema: "try again"
    "tidb": _MYSQL | {9007, 8002, 8022, 8028},
}

#: The article's view of items and their stock: one UPDATE of it changes the stock and reads the item.
STOCK_ITEM = (
    "CREATE OR REPLACE VIEW stock_item AS SELECT i_price, i_name, i_data, stock.*"
    " FROM stock, item WHERE s_i_id = i_id"
)

#: Engine → hint in the query of Stock-Level. OceanBase keeps the plan of the first call, and for some
#: calls this plan scans the stock of the warehouse (seekdb 1.4.0: 78 ms instead of 7 at 80 terminals).
LOW_STOCK_HINTS = {"oceanbase": "/*+ LEADING(order_line stock) USE_NL(stock) */"}

#: Type → call of its procedure.
_CALLS = {
    "new_order": "CALL tpcc_new_order(%s, %s, %s, %s, %s, %s, %s)",
    "payment": "CALL tpcc_payment(%s, %s, %s, %s, %s, %s, %s, %s)",
    "order_status": "CALL tpcc_order_status(%s, %s, %s, %s, %s)",
    "delivery": "CALL tpcc_delivery(%s, %s, %s)",
    "stock_level": "CALL tpcc_stock_level(%s, %s, %s, %s)",
}


class MySQL(Transactions[aiomysql.Connection]):
    """How a connection of aiomysql runs SQL: as text, since it has no prepared statements."""

    def __init__(self, engine: str):
        self.engine = engine

    async def _rows(
        self, connection: aiomysql.Connection, sql: str, parameters: Sequence[object] = ()
    ) -> Sequence[Row]:
        # when it closes, the cursor reads what follows the rows: the status of the procedure
        async with connection.cursor(aiomysql.Cursor) as cursor:
            await cursor.execute(sql, parameters)
            return await cursor.fetchall()

    async def _begin(self, connection: aiomysql.Connection) -> None:
        await connection.begin()

    async def _commit(self, connection: aiomysql.Connection) -> None:
        await connection.commit()

    async def _rollback(self, connection: aiomysql.Connection) -> None:
        # a lock wait that has timed out leaves the transaction open
        await connection.rollback()

    def _repeated(self, error: BaseException) -> int | None:
        code = error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else None
        return code if code in _REPEATED[self.engine] else None


class MySQLStatements(MySQL, Statements[aiomysql.Connection]):
    """See :class:`Statements`.

    ``joined`` goes through the view :data:`STOCK_ITEM`. TiDB has no updatable views.
    """

    def __init__(self, engine: str, options: Options):
        MySQL.__init__(self, engine)
        Statements.__init__(self, options)
        self._low_stock_hint = LOW_STOCK_HINTS.get(engine, "")

    async def _updated(
        self,
        connection: aiomysql.Connection,
        table: str,
        changes: str,
        values: Sequence[object],
        key: Mapping[str, int],
        columns: str,
    ) -> Row | None:
        found = matching(key)
        await self._rows(
            connection, f"UPDATE {table} SET {changes} WHERE {found}", (*values, *key.values())
        )
        rows = await self._rows(
            connection, f"SELECT {columns} FROM {table} WHERE {found}", tuple(key.values())
        )
        return rows[0] if rows else None

    async def _take_joined(
        self, connection: aiomysql.Connection, d_id: int, line: Line
    ) -> Row | None:
        return await self._updated(
            connection,
            "stock_item",
            LESS,
            line_values(line),
            {"s_w_id": line.supply_w_id, "s_i_id": line.i_id},
            f"{ITEM}, {stock(d_id)}",
        )

    async def _take_batch(
        self, connection: aiomysql.Connection, d_id: int, lines: Sequence[Line]
    ) -> Mapping[int, Row]:
        return await self._take_all(connection, "stock", stock(d_id), lines)

    async def _take_batch_joined(
        self, connection: aiomysql.Connection, d_id: int, lines: Sequence[Line]
    ) -> Mapping[int, Row]:
        columns = f"{ITEM}, {stock(d_id)}"
        return await self._take_all(connection, "stock_item", columns, lines)

    async def _take_all(
        self, connection: aiomysql.Connection, table: str, columns: str, lines: Sequence[Line]
    ) -> Mapping[int, Row]:
        """Take lines of one round through a table or view; return number of a line → columns."""
        first = (
            "SELECT %s AS number, %s AS line_w_id, %s AS line_i_id, %s AS quantity, %s AS remote"
        )
        further = " UNION ALL SELECT %s, %s, %s, %s, %s" * (len(lines) - 1)
        joined = (
            f"({first}{further}) AS line JOIN {table} ON s_w_id = line_w_id AND s_i_id = line_i_id"
        )
        values = [
            value
            for line in lines
            for value in (line.number, line.supply_w_id, line.i_id, line.quantity, line.remote)
        ]
        await self._rows(connection, f"UPDATE {joined} SET {less('quantity', 'remote')}", values)
        rows = await self._rows(connection, f"SELECT number, {columns} FROM {joined}", values)
        return {row[0]: row[1:] for row in rows}


class MySQLProcedures(MySQL, Procedures[aiomysql.Connection]):
    """See :class:`Procedures`. TiDB has none."""

    async def _called(
        self,
        connection: aiomysql.Connection,
        type_: str,
        arguments: Sequence[object],
        ends: bool,
    ) -> str:
        ((answer,),) = await self._rows(connection, _CALLS[type_], (*arguments, ends))
        return answer

    def _lines(self, request: NewOrder) -> Sequence[object]:
        listed = [
            [(line.number, line.i_id, line.supply_w_id, line.quantity) for line in one]
            for one in rounds(request)
        ]
        all_local = int(all(line.supply_w_id == request.w_id for line in request.lines))
        return len(request.lines), all_local, msgspec.json.encode(listed).decode()
