"""No database: made-up answers of the right form, to measure emulator and application server alone."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

from benchlab.drivers.tpcc.was.pool import Connection, Database
from benchlab.workloads.tpcc.dataset import DISTRICTS, ITEMS
from benchlab.workloads.tpcc.transactions.contract import (
    Address,
    Answer,
    Delivered,
    Delivery,
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
)

#: Name of the missing database, in place of an engine's name.
NULL = "null"

_PRICE, _ZERO = Decimal("42.00"), Decimal("0.00")
_ADDRESS = Address("Made-up Street 1", "second line", "Made-up City", "MU", "123411111")
_NAME = {"c_first": "Made", "c_middle": "OE", "c_last": "BARBARBAR"}


class _NoConnection:
    """Placeholder for a connection."""

    closed = False


class NullDatabase(Database):
    """A pool without a database."""

    _connection = _NoConnection()

    async def open(self) -> None:
        """See :meth:`Database.open`."""

    async def acquire(self) -> Connection:
        """See :meth:`Database.acquire`."""
        return self._connection

    async def release(self, connection: Connection) -> None:
        """See :meth:`Database.release`."""

    async def close(self) -> None:
        """See :meth:`Database.close`."""


class NullTransactions:
    """Makes up answers without transactions; orders are not stored."""

    def __init__(self) -> None:
        # number of the first order after the initial population (clause 4.3.3.1)
        self._o_id = count(3001)

    async def run(self, connection: Connection, request: Request) -> Answer:
        """Make up the answer to a request."""
        del connection
        match request:
            case NewOrder():
                return self._order(request)
            case Payment():
                return _payment(request)
            case OrderStatus():
                return _status(request)
            case Delivery():
                return Delivered(dict.fromkeys(range(1, DISTRICTS + 1), next(self._o_id)))
            case _:
                return LowStock(0)

    def _order(self, request: NewOrder) -> OrderTaken:
        o_id = next(self._o_id)
        if any(line.i_id > ITEMS for line in request.lines):
            return OrderTaken(o_id, _NAME["c_last"], "GC", rolled_back=True)
        lines = [
            PricedItem("made-up item", 50, "G", _PRICE, _PRICE * line.quantity)
            for line in request.lines
        ]
        return OrderTaken(
            o_id=o_id,
            c_last=_NAME["c_last"],
            c_credit="GC",
            o_entry_d=_now(),
            c_discount=_ZERO,
            w_tax=_ZERO,
            d_tax=_ZERO,
            total_amount=sum((line.ol_amount for line in lines), _ZERO),
            lines=lines,
        )


def _payment(request: Payment) -> PaymentTaken:
    now = _now()
    return PaymentTaken(
        warehouse=_ADDRESS,
        district=_ADDRESS,
        customer=_ADDRESS,
        c_id=request.c_id or 1,
        c_first=_NAME["c_first"],
        c_middle=_NAME["c_middle"],
        c_last=request.c_last or _NAME["c_last"],
        c_phone="0" * 16,
        c_since=now,
        c_credit="GC",
        c_credit_lim=Decimal("50000.00"),
        c_discount=_ZERO,
        c_balance=-request.h_amount,
        h_date=now,
    )


def _status(request: OrderStatus) -> StatusOfOrder:
    return StatusOfOrder(
        c_id=request.c_id or 1,
        c_first=_NAME["c_first"],
        c_middle=_NAME["c_middle"],
        c_last=request.c_last or _NAME["c_last"],
        c_balance=_ZERO,
        o_id=3000,
        o_entry_d=_now(),
        o_carrier_id=None,
        lines=[OrderedLine(number, request.w_id, 5, _PRICE, None) for number in range(1, 11)],
    )


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
