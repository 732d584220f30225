"""An application server that answers at once, with fixed bytes: `tpcc_null_was.py ADDRESS PORT`.

It prints a line when it listens, and ends when its standard input ends.
"""

import asyncio
import resource
import sys
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import uvloop
from benchlab.drivers.tpcc.inputs import UNUSED_ITEM
from benchlab.workloads.tpcc.dataset import TYPES
from benchlab.workloads.tpcc.transactions.contract import (
    Address,
    Answer,
    LowStock,
    OrderedLine,
    OrderTaken,
    PaymentTaken,
    PricedItem,
    StatusOfOrder,
)

_NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_MONEY = Decimal("1234.56")
_ADDRESS = Address("x" * 15, "x" * 15, "x" * 15, "XX", "123411111")

#: Type → an answer of the usual size; a Delivery is only queued.
ANSWERS: dict[str, Answer | None] = {
    "new_order": OrderTaken(
        o_id=3001,
        c_last="BARBARBAR",
        c_credit="GC",
        o_entry_d=_NOW,
        c_discount=_MONEY,
        w_tax=_MONEY,
        d_tax=_MONEY,
        total_amount=_MONEY,
        lines=[PricedItem("x" * 20, 50, "G", _MONEY, _MONEY)] * 10,
    ),
    "payment": PaymentTaken(
        warehouse=_ADDRESS,
        district=_ADDRESS,
        customer=_ADDRESS,
        c_id=1,
        c_first="x" * 12,
        c_middle="OE",
        c_last="BARBARBAR",
        c_phone="1" * 16,
        c_since=_NOW,
        c_credit="GC",
        c_credit_lim=_MONEY,
        c_discount=_MONEY,
        c_balance=_MONEY,
        h_date=_NOW,
    ),
    "order_status": StatusOfOrder(
        c_id=1,
        c_first="x" * 12,
        c_middle="OE",
        c_last="BARBARBAR",
        c_balance=_MONEY,
        o_id=3001,
        o_entry_d=_NOW,
        o_carrier_id=None,
        lines=[OrderedLine(1, 1, 5, _MONEY, None)] * 10,
    ),
    "delivery": None,
    "stock_level": LowStock(3),
}
ROLLED_BACK = OrderTaken(o_id=3001, c_last="BARBARBAR", c_credit="GC", rolled_back=True)


def _response(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def _reply(answer: Answer | None) -> bytes:
    return _response(msgspec.json.encode({"answer": answer, "retries": 0}))


_MENU = _response(b"{}")
_REPLIES = {f"POST /api/{name} ".encode(): _reply(ANSWERS[name]) for name in TYPES}
_ROLLED_BACK = _reply(ROLLED_BACK)
_UNUSED = b'"i_id":%d,' % UNUSED_ITEM


class NullServer(asyncio.Protocol):
    """One connection; its terminal sends one request at a time."""

    __slots__ = ("_request", "_transport")

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._request = b""

    def data_received(self, data: bytes) -> None:
        self._request += data
        head, end, body = self._request.partition(b"\r\n\r\n")
        if not end:
            return
        if head.startswith(b"GET"):
            self._answer(_MENU)
        elif len(body) == int(head[head.rindex(b" ") :]):  # the header of its length comes last
            path = head[: head.index(b" ", len("POST ")) + 1]
            self._answer(_ROLLED_BACK if _UNUSED in body else _REPLIES[path])

    def _answer(self, reply: bytes) -> None:
        self._request = b""
        self._transport.write(reply)


async def main(address: str, port: int) -> None:
    """Serve until standard input ends."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    await loop.create_server(NullServer, address, port, backlog=4096)
    loop.add_reader(sys.stdin, ended.set)
    print("listens", flush=True)
    await ended.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2])))
