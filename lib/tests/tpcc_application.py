"""The application server of TPC-C as the tests serve and ask it: in a thread, or as a process."""

import asyncio
import http.client
import json
import re
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import msgspec
import uvicorn
from benchlab.drivers.tpcc.was import serve
from benchlab.drivers.tpcc.was.delivery import Result
from benchlab.drivers.tpcc.was.null import NULL, NullDatabase
from benchlab.drivers.tpcc.was.serve import Options
from benchlab.workloads.tpcc.transactions import Options as StatementOptions
from benchlab.workloads.tpcc.transactions.contract import (
    Delivery,
    NewOrder,
    OrderedItem,
    OrderStatus,
    Payment,
    Request,
    StockLevel,
)
from prometheus_client.parser import text_string_to_metric_families

#: A form of each type.
FORMS: dict[str, Request] = {
    "new_order": NewOrder(
        w_id=1, d_id=2, c_id=3, lines=[OrderedItem(7, 1, 5), OrderedItem(9, 2, 1)]
    ),
    "payment": Payment(w_id=1, d_id=2, c_w_id=1, c_d_id=2, h_amount=Decimal("12.50"), c_id=3),
    "order_status": OrderStatus(w_id=1, d_id=2, c_last="BARBARBAR"),
    "delivery": Delivery(w_id=1, o_carrier_id=4),
    "stock_level": StockLevel(w_id=1, d_id=2, threshold=15),
}


@dataclass
class Server:
    """A server under test."""

    port: int
    results: Path

    def ask(
        self, method: str, path: str, sent: bytes | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, path, sent)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def api(self, name: str, form: Request | bytes | None = None) -> tuple[int, dict]:
        form = FORMS[name] if form is None else form
        sent = form if isinstance(form, bytes) else msgspec.json.encode(form)
        status, _, said = self.ask("POST", f"/api/{name}", sent)
        return status, json.loads(said)

    def screen(self, name: str, fields: object) -> tuple[int, str]:
        sent = urllib.parse.urlencode(fields, doseq=True).encode()
        status, headers, said = self.ask("POST", f"/{name}", sent)
        assert headers["content-type"] == "text/html; charset=utf-8"
        return status, said.decode()

    def metric(self, name: str, /, **labels: str) -> float:
        _, _, page = self.ask("GET", "/metrics")
        samples = (
            sample
            for family in text_string_to_metric_families(page.decode())
            for sample in family.samples
        )
        found = {
            tuple(sorted(one.labels.items())): one.value
            for one in samples
            if one.name == f"tpcc_was_{name}"
        }
        return found[tuple(sorted(labels.items()))]

    def outcome(self, name: str, outcome: str) -> float:
        return self.metric("transactions_total", type=name, outcome=outcome)

    def delivered(self) -> list[Result]:
        lines = self.results.read_bytes().splitlines(keepends=True)
        assert all(line.endswith(b"\n") for line in lines)
        return [msgspec.json.decode(line, type=Result) for line in lines]


def options(folder: Path, **given: object) -> Options:
    every = Options(
        host="127.0.0.1",
        port=0,
        engine=NULL,
        form="statements",
        statements=StatementOptions(),
        isolation="serializable",
        pool=4,
        queue=4,
        repeats=3,
        delivery_workers=1,
        delivery_results=folder / "deliveries.jsonl",
        drain_s=600,
    )
    return replace(every, **given)


@contextmanager
def served(given: Options, transactions: object, database: object = None) -> Iterator[Server]:
    """Serve in a thread of this process, on a real socket."""
    listening = socket.create_server(("127.0.0.1", 0))
    started: Future[uvicorn.Server] = Future()

    async def main() -> None:
        try:
            async with serve.application(given, database or NullDatabase(), transactions) as app:
                config = uvicorn.Config(app, lifespan="off", log_config=None, log_level="warning")
                server = uvicorn.Server(config)
                started.set_result(server)
                await server.serve([listening])
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(asyncio.run, main())
        server = started.result()
        try:
            yield Server(listening.getsockname()[1], given.delivery_results)
        finally:
            server.should_exit = True
            ended.result()


class Program:
    """The application server as a process."""

    def __init__(self, results: Path, *arguments: str, stdin: bytes = b""):
        self.results = results
        command = [sys.executable, "-m", "benchlab.drivers.tpcc.was"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--delivery-results", str(results), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.process.stdin.write(stdin)
        self.process.stdin.close()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ready(self) -> Server:
        """Wait until it says that it serves."""
        line = self.process.stdout.readline().decode()
        found = re.fullmatch(r"ready \d+\.\d+ http://127\.0\.0\.1:(\d+)\n", line)
        assert found, (line, self.process.stderr.read())
        return Server(int(found[1]), self.results)

    def end(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it said."""
        said = self.process.stderr.read().decode()
        return self.process.wait(), said
