"""What the forms of the transactions have in common, on any engine.

A *form* decides how a transaction reaches the server: as client SQL
(:mod:`~benchlab.workloads.tpcc.transactions.statements`), or as one call of a stored procedure
(:mod:`~benchlab.workloads.tpcc.transactions.calls`). An engine decides how a connection runs SQL.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from benchlab.errors import BenchlabError, DatasetError
from benchlab.workloads.tpcc.transactions.contract import (
    Answer,
    Delivered,
    Delivery,
    Hook,
    LowStock,
    NewOrder,
    OrderStatus,
    OrderTaken,
    Payment,
    PaymentTaken,
    Request,
    StatusOfOrder,
    StockLevel,
)

#: A connection of the engine's client library. It commits every statement outside a transaction.
ConnectionT = TypeVar("ConnectionT")

AnswerT = TypeVar("AnswerT", bound=Answer)

#: A row of an answer, one value per column, as the client library converts it.
Row = tuple[Any, ...]


class RepeatTransaction(BenchlabError):
    """The server wants a transaction repeated, after a deadlock or a conflict with another one.

    The transaction is rolled back. ``code`` is the server's: MySQL's error number or PostgreSQL's SQL
    state.
    """

    def __init__(self, message: str, code: int | str):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a New-Order. ``number`` is its place on the input screen, from 1."""

    number: int
    i_id: int
    supply_w_id: int
    quantity: int
    remote: int
    """1 if another warehouse than the order's supplies the item, else 0 (clause 2.4.1.5)."""


def rounds(request: NewOrder) -> list[list[Line]]:
    """Return the lines of an order as rounds, in the sequence in which they are to be processed.

    An item may be on several lines, and each line takes from what the line before has left. So no two
    lines of a round change the same row of stock, and one statement may process a whole round. The
    lines of a round are sorted by stock row, so that any two orders lock rows in the same sequence.
    """
    seen: Counter[tuple[int, int]] = Counter()
    found: dict[int, list[Line]] = defaultdict(list)
    for number, item in enumerate(request.lines, start=1):
        key = (item.supply_w_id, item.i_id)
        remote = int(item.supply_w_id != request.w_id)
        line = Line(number, item.i_id, item.supply_w_id, item.quantity, remote)
        found[seen[key]].append(line)
        seen[key] += 1
    return [sorted(one, key=lambda line: (line.supply_w_id, line.i_id)) for one in found.values()]


def utc_now() -> datetime:
    """Return the time that a transaction puts into its rows: UTC, without a zone, like the columns.

    It is in whole seconds: clause 1.3.1 asks for these, and the columns of some engines keep no more.
    """
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


class Transactions(ABC, Generic[ConnectionT]):
    """The five transactions (TPC-C 5.11, clauses 2.4 to 2.8) in one form, for one engine.

    An object keeps no state of a transaction, so one object serves all connections. A transaction takes
    a connection that is in no transaction, and leaves it in none. Its isolation level is the
    connection's.

    Each method calls ``before_commit``, if given, right before it commits or rolls back. Without this
    hook, a form may begin and end the transaction in the server.

    Raises:
        RepeatTransaction: the server wants the transaction repeated, which is up to the caller.
        DatasetError: a row that the request names is not there (client SQL; a procedure raises the
            client library's error for it).
        psycopg.Error, pymysql.MySQLError: the server refused anything else. The transaction is rolled
            back after any error, also after one of the hook.
    """

    #: Name of the engine, as in studies.
    engine: str

    @abstractmethod
    async def new_order(
        self, connection: ConnectionT, request: NewOrder, before_commit: Hook | None = None
    ) -> OrderTaken:
        """Take an order (clause 2.4.2). An order with an unused item is rolled back at its end."""

    @abstractmethod
    async def payment(
        self, connection: ConnectionT, request: Payment, before_commit: Hook | None = None
    ) -> PaymentTaken:
        """Take a payment (clause 2.5.2)."""

    @abstractmethod
    async def order_status(
        self, connection: ConnectionT, request: OrderStatus, before_commit: Hook | None = None
    ) -> StatusOfOrder:
        """Read a customer's last order (clause 2.6.2)."""

    @abstractmethod
    async def delivery(
        self, connection: ConnectionT, request: Delivery, before_commit: Hook | None = None
    ) -> Delivered:
        """Deliver the oldest open order of each district, all in one transaction (clause 2.7.4)."""

    @abstractmethod
    async def stock_level(
        self, connection: ConnectionT, request: StockLevel, before_commit: Hook | None = None
    ) -> LowStock:
        """Count the items of the last 20 orders that are low in stock (clause 2.8.2)."""

    async def run(
        self, connection: ConnectionT, request: Request, before_commit: Hook | None = None
    ) -> Answer:
        """Run the transaction that a request is for."""
        return await getattr(self, request.type)(connection, request, before_commit)

    @abstractmethod
    async def _rows(
        self, connection: ConnectionT, sql: str, parameters: Sequence[object] = ()
    ) -> Sequence[Row]:
        """Run a statement and return its rows; each ``%s`` is a parameter."""

    @abstractmethod
    async def _begin(self, connection: ConnectionT) -> None:
        """Begin a transaction."""

    @abstractmethod
    async def _commit(self, connection: ConnectionT) -> None:
        """Commit the transaction."""

    @abstractmethod
    async def _rollback(self, connection: ConnectionT) -> None:
        """Roll back the transaction, if there is one."""

    @abstractmethod
    def _repeated(self, error: BaseException) -> int | str | None:
        """Return the code of an error that asks for a repetition; ``None`` for other errors."""

    async def _row(
        self, connection: ConnectionT, sql: str, parameters: Sequence[object], what: str
    ) -> Row:
        """Run a query and return its first row; the error for a missing one names it ``what``."""
        rows = await self._rows(connection, sql, parameters)
        return self._there(rows[0] if rows else None, what)

    def _there(self, row: Row | None, what: str) -> Row:
        """Return a row that must exist; the error for a missing one names it ``what``."""
        if row is None:
            raise DatasetError(f"{self.engine}: there is no {what}")
        return row

    async def _transaction(
        self,
        connection: ConnectionT,
        work: Callable[[], Awaitable[AnswerT]],
        before_commit: Hook | None,
    ) -> AnswerT:
        """Do the work in a transaction, then commit it or roll it back as the answer says."""

        async def whole() -> AnswerT:
            await self._begin(connection)
            answer = await work()
            if before_commit is not None:
                await before_commit()
            rolled_back = isinstance(answer, OrderTaken) and answer.rolled_back
            await (self._rollback(connection) if rolled_back else self._commit(connection))
            return answer

        return await self._undone_on_error(connection, whole)

    async def _undone_on_error(
        self, connection: ConnectionT, work: Callable[[], Awaitable[AnswerT]]
    ) -> AnswerT:
        """Do the work; roll it back if it raises anything."""
        try:
            return await work()
        except BaseException as error:
            with suppress(Exception):  # the connection may be gone; the first error says more
                await self._rollback(connection)
            if (code := self._repeated(error)) is not None:
                said = f"{self.engine} wants the transaction repeated: {error}".splitlines()[0]
                raise RepeatTransaction(said, code) from error
            raise
