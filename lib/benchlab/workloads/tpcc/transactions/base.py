"""What the forms of the transactions have in common, whichever engine they run on.

A *form* says how a transaction reaches the server: as client SQL
(:mod:`~benchlab.workloads.tpcc.transactions.statements`), or as one call of a stored procedure
(:mod:`~benchlab.workloads.tpcc.transactions.calls`). An engine says how a connection runs SQL.
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

#: A connection of the engine's driver, which commits every statement that is in no transaction.
ConnectionT = TypeVar("ConnectionT")

AnswerT = TypeVar("AnswerT", bound=Answer)

#: A row of an answer, one value a column, as the driver converts it.
Row = tuple[Any, ...]


class RepeatTransaction(BenchlabError):
    """A transaction that the server wants repeated: a deadlock, a conflict with another one.

    It is rolled back. ``code`` is the server's own: MySQL's number or the SQL state of PostgreSQL.
    """

    def __init__(self, message: str, code: int | str):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a New-Order, with its place on the input screen from 1."""

    number: int
    i_id: int
    supply_w_id: int
    quantity: int
    remote: int
    """1: another warehouse than the order's supplies it (clause 2.4.1.5)."""


def rounds(request: NewOrder) -> list[list[Line]]:
    """Return the lines of an order in the order in which they are to be processed.

    An item may be on several lines, each of which takes from what the one before has left. So no two
    lines of a round are of the same row of stock, and a statement may change all of a round's at
    once. Within a round lines go by stock row, so that two orders lock rows in the same order.
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
    """Return the time that a transaction puts into its rows: UTC, without a zone as the columns.

    In whole seconds, as clause 1.3.1 asks for and as all that every engine's columns keep.
    """
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


class Transactions(ABC, Generic[ConnectionT]):
    """The five transactions (TPC-C 5.11, clauses 2.4 to 2.8) in one form, for one engine.

    It keeps nothing of a transaction, so one object serves all connections. Every transaction has a
    connection that is in none, and leaves it so. Its isolation level is the connection's.

    Each calls ``before_commit``, if it is given, right before it commits or rolls back. Without a hook
    a form may do all of that in the server.

    Raises:
        RepeatTransaction: the server wants the transaction repeated, which is up to the caller.
        DatasetError: a row that the request names is not there (client SQL; a procedure raises the
            driver's error for it).
        psycopg.Error, pymysql.MySQLError: anything else that the server refused. The transaction is
            rolled back, whatever was raised, by the hook too.
    """

    #: As in studies.
    engine: str

    @abstractmethod
    async def new_order(
        self, connection: ConnectionT, request: NewOrder, before_commit: Hook | None = None
    ) -> OrderTaken:
        """Take an order (clause 2.4.2). One with an unused item is rolled back at its end."""

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
        """Run a statement and return its rows; ``%s`` stands for a parameter."""

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
        """Return the code of an error by which the server asks for a repetition, or ``None``."""

    async def _row(
        self, connection: ConnectionT, sql: str, parameters: Sequence[object], what: str
    ) -> Row:
        """Run a query and return its first row; ``what`` names it where it is not there."""
        rows = await self._rows(connection, sql, parameters)
        return self._there(rows[0] if rows else None, what)

    def _there(self, row: Row | None, what: str) -> Row:
        """Return a row that there must be; ``what`` names it."""
        if row is None:
            raise DatasetError(f"{self.engine}: there is no {what}")
        return row

    async def _transaction(
        self,
        connection: ConnectionT,
        work: Callable[[], Awaitable[AnswerT]],
        before_commit: Hook | None,
    ) -> AnswerT:
        """Do the work in a transaction, which ends as its answer has it."""

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
        """Do the work, rolled back if anything is raised in it."""
        try:
            return await work()
        except BaseException as error:
            with suppress(Exception):  # a connection that is gone; what was raised says more
                await self._rollback(connection)
            if (code := self._repeated(error)) is not None:
                said = f"{self.engine} wants the transaction repeated: {error}".splitlines()[0]
                raise RepeatTransaction(said, code) from error
            raise
