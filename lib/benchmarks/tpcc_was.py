"""How much CPU does TPC-C's application server take for a transaction, without the database?"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import cycle
from pathlib import Path

import msgspec
import uvloop
from benchlab import stats
from benchlab.repo import Repo
from benchlab.workloads.tpcc.transactions.contract import (
    Delivery,
    NewOrder,
    OrderedItem,
    OrderStatus,
    Payment,
    Request,
    StockLevel,
)
from rich.console import Console
from table import Row

#: Measurements, seconds of each, and connections, which send as soon as they are answered.
ROUNDS, SECONDS, CONNECTIONS = 5, 3, 64

#: The deck of clause 5.2.4.2: requests, and how many of 23 transactions are of this type.
DECK: list[tuple[Request, int]] = [
    (NewOrder(1, 1, 1, [OrderedItem(number, 1, 5) for number in range(1, 11)]), 10),
    (Payment(1, 1, 1, 1, Decimal("12.50"), c_id=1), 10),
    (OrderStatus(1, 1, c_last="BARBARBAR"), 1),
    (Delivery(1, 1), 1),
    (StockLevel(1, 1, 15), 1),
]


def measure(checkout: Repo, console: Console) -> Iterator[Row]:
    """Yield transactions per CPU second of a server that answers them without a database.

    This process makes the load, on another core if there is one.
    """
    del checkout, console  # not needed
    rates = []
    with _server() as (pid, port):
        _load(port)  # warm-up
        for _ in range(ROUNDS):
            before = _cpu_s(pid)
            transactions = _load(port)
            rates.append(transactions / (_cpu_s(pid) - before))
    yield Row(
        "TPC-C transactions per second and core of the application server, without a database",
        stats.median(rates),
        "≥ 4000",
    )


@contextmanager
def _server() -> Iterator[tuple[int, int]]:
    """Run a server with the null database; provide its process id and its port."""
    with tempfile.TemporaryDirectory(prefix="benchlab-bench-") as folder:
        results = str(Path(folder) / "deliveries.jsonl")
        command = ["benchlab.drivers.tpcc.was", "--database", "null", "--port", "0"]
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--delivery-results", results],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            line = process.stdout.readline()
            if not line.startswith("ready "):
                raise SystemExit("the application server has not started")
            yield process.pid, int(line.rpartition(":")[2])
        finally:
            process.terminate()
            process.wait()


def _cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _load(port: int) -> int:
    """Load the server for a while; return the transactions that it has answered."""

    async def load() -> int:
        loop, until = asyncio.get_running_loop(), time.monotonic() + SECONDS
        clients = [_Client(until) for _ in range(CONNECTIONS)]
        for client in clients:
            await loop.create_connection(lambda client=client: client, "127.0.0.1", port)
        return sum([await client.done for client in clients])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(load())


class _Client(asyncio.Protocol):
    """Sends one transaction after the other on one connection.

    An answer comes in two parts: first its headers, with the length of the body, then the body.
    """

    def __init__(self, until: float) -> None:
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._until, self._requests = until, cycle(_requests())
        self._answered, self._received = 0, b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.partition(b"content-length: ")[2].split()[0]):
            return
        if not head.startswith(b"HTTP/1.1 200 "):
            self.done.set_exception(SystemExit(f"a transaction failed: {body.decode()}"))
            return
        self._answered, self._received = self._answered + 1, b""
        if time.monotonic() < self._until:
            self._transport.write(next(self._requests))
        else:
            self._transport.close()
            self.done.set_result(self._answered)


def _requests() -> list[bytes]:
    """Return the requests of a deck in the order of sending; each type is spread over the deck."""
    shares = [((position + 0.5) / times, form) for form, times in DECK for position in range(times)]
    sent = []
    for _, form in sorted(shares, key=lambda share: share[0]):
        body = msgspec.json.encode(form)
        head = f"POST /api/{form.type} HTTP/1.1\r\nhost: was\r\ncontent-length: {len(body)}\r\n\r\n"
        sent.append(head.encode() + body)
    return sent
