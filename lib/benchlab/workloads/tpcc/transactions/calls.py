"""The five transactions as stored procedures: one call, and so one round trip, for each.

A procedure answers with one row of one value: a JSON document in the contract's terms. That costs a
client less than one row per line. The document maps the numbers of the lines to the lines, since not
every engine can aggregate in an order.
"""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from benchlab.workloads.tpcc.dataset import TYPES
from benchlab.workloads.tpcc.transactions.base import AnswerT, ConnectionT, Transactions
from benchlab.workloads.tpcc.transactions.contract import (
    Delivered,
    Delivery,
    Hook,
    LowStock,
    NewOrder,
    OrderedLine,
    OrderStatus,
    OrderTaken,
    Payment,
    PaymentTaken,
    PricedItem,
    Request,
    StatusOfOrder,
    StockLevel,
)

_FOLDER = Path(__file__).with_name("procedures")

NumberedT = TypeVar("NumberedT", OrderTaken, StatusOfOrder)


class _OrderTaken(OrderTaken):
    lines: dict[int, PricedItem] = msgspec.field(default_factory=dict)


class _StatusOfOrder(StatusOfOrder):
    lines: dict[int, OrderedLine]


def procedures(*dialects: str) -> dict[str, str]:
    """Return name of a procedure → statement that creates it, from the first dialect that has it."""
    return {f"tpcc_{one}": _text(dialects, one) for one in TYPES}


def _text(dialects: Sequence[str], type_: str) -> str:
    paths = (_FOLDER / dialect / f"{type_}.sql" for dialect in dialects)
    return next(path for path in paths if path.exists()).read_text().strip()


class Procedures(Transactions[ConnectionT]):
    """See :class:`~benchlab.workloads.tpcc.transactions.base.Transactions`.

    Without a hook, the procedure begins and ends the transaction, in one round trip. With a hook, the
    client does.
    """

    @abstractmethod
    async def _called(
        self, connection: ConnectionT, type_: str, arguments: Sequence[object], ends: bool
    ) -> str:
        """Call the procedure of a type and return its answer.

        Args:
            connection: in a transaction unless ``ends``.
            type_: type of the transaction.
            arguments: arguments from the request.
            ends: whether the procedure commits or rolls back.
        """

    @abstractmethod
    def _lines(self, request: NewOrder) -> Sequence[object]:
        """Return the order lines of a New-Order as arguments of its procedure."""

    async def new_order(
        self, connection: ConnectionT, request: NewOrder, before_commit: Hook | None = None
    ) -> OrderTaken:
        """See :meth:`Transactions.new_order`."""
        arguments = (request.w_id, request.d_id, request.c_id, *self._lines(request))
        answer = await self._answer(connection, request, arguments, _OrderTaken, before_commit)
        return _in_order(answer, OrderTaken)

    async def payment(
        self, connection: ConnectionT, request: Payment, before_commit: Hook | None = None
    ) -> PaymentTaken:
        """See :meth:`Transactions.payment`."""
        arguments = (
            *(request.w_id, request.d_id, request.c_w_id, request.c_d_id),
            *(request.h_amount, request.c_id, request.c_last),
        )
        return await self._answer(connection, request, arguments, PaymentTaken, before_commit)

    async def order_status(
        self, connection: ConnectionT, request: OrderStatus, before_commit: Hook | None = None
    ) -> StatusOfOrder:
        """See :meth:`Transactions.order_status`."""
        arguments = (request.w_id, request.d_id, request.c_id, request.c_last)
        answer = await self._answer(connection, request, arguments, _StatusOfOrder, before_commit)
        return _in_order(answer, StatusOfOrder)

    async def delivery(
        self, connection: ConnectionT, request: Delivery, before_commit: Hook | None = None
    ) -> Delivered:
        """See :meth:`Transactions.delivery`."""
        arguments = (request.w_id, request.o_carrier_id)
        return await self._answer(connection, request, arguments, Delivered, before_commit)

    async def stock_level(
        self, connection: ConnectionT, request: StockLevel, before_commit: Hook | None = None
    ) -> LowStock:
        """See :meth:`Transactions.stock_level`."""
        arguments = (request.w_id, request.d_id, request.threshold)
        return await self._answer(connection, request, arguments, LowStock, before_commit)

    async def _answer(
        self,
        connection: ConnectionT,
        request: Request,
        arguments: Sequence[object],
        type_: type[AnswerT],
        before_commit: Hook | None,
    ) -> AnswerT:
        async def work() -> AnswerT:
            ends = before_commit is None
            text = await self._called(connection, request.type, arguments, ends)
            # not strict: MySQL's family writes a boolean as 0 or 1
            return msgspec.json.decode(text, type=type_, strict=False)

        if before_commit is None:
            return await self._undone_on_error(connection, work)
        return await self._transaction(connection, work, before_commit)


def _in_order(answer: NumberedT, type_: type[NumberedT]) -> NumberedT:
    """Return an answer as the contract defines it, with its lines in the order of their numbers."""
    lines = [line for _, line in sorted(answer.lines.items())]
    return type_(**(msgspec.structs.asdict(answer) | {"lines": lines}))
