"""The application server of TPC-C, over real sockets: its API, screens, limits, faults and its end."""

import asyncio
import html
import http.client
import json
import re
import signal
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psycopg
import pymysql
import pytest
from benchlab.drivers.tpcc.was import LOST, NOT_DONE, forms, pool, serve
from benchlab.drivers.tpcc.was.delivery import Result
from benchlab.drivers.tpcc.was.forms import MalformedForm
from benchlab.drivers.tpcc.was.null import NullDatabase, NullTransactions
from benchlab.drivers.tpcc.was.pool import Address, MySQLDatabase
from benchlab.drivers.tpcc.was.screens import TITLES
from benchlab.errors import EngineError
from benchlab.workloads.tpcc.transactions import RepeatTransaction
from benchlab.workloads.tpcc.transactions.contract import (
    REQUESTS,
    Delivered,
    LowStock,
    NewOrder,
    OrderedItem,
    OrderTaken,
    PaymentTaken,
    Request,
    StatusOfOrder,
)
from conftest import unused_port, wait_for
from hypothesis import given
from hypothesis import strategies as st
from tpcc_application import FORMS, Program, Server, options, served

ANSWERS = {
    "new_order": OrderTaken,
    "payment": PaymentTaken,
    "order_status": StatusOfOrder,
    "stock_level": LowStock,
}


@dataclass
class Fake:
    """Transactions that do what a test tells them to, and count how many of them run."""

    act: Callable[[Request], object] = lambda request: None
    held: threading.Event | None = None
    running: int = 0
    most: int = 0
    seen: list[Request] = field(default_factory=list)

    async def run(self, connection: object, request: Request) -> object:
        self.seen.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            while self.held and not self.held.is_set():
                await asyncio.sleep(0.001)
            return self.act(request) or await NullTransactions().run(connection, request)
        finally:
            self.running -= 1


@pytest.fixture
def null(tmp_path) -> Iterator[Server]:
    with served(options(tmp_path), NullTransactions()) as server:
        yield server


# The API


@pytest.mark.parametrize("name", REQUESTS)
def test_each_type_has_a_menu_and_an_answer_of_its_own(null, name):
    assert null.ask("GET", f"/api/menu/{name}")[::2] == (200, b"{}")
    status, headers, said = null.ask("POST", f"/api/{name}", msgspec.json.encode(FORMS[name]))
    assert (status, headers["content-type"]) == (200, "application/json")
    if name == "delivery":
        assert json.loads(said) == {"answer": None, "retries": 0}
        wait_for(lambda: null.outcome(name, "ok") == 1, "the delivery to be executed")
    else:
        answer = json.loads(said)
        assert answer["retries"] == 0
        msgspec.convert(answer["answer"], ANSWERS[name], strict=False)
        assert null.outcome(name, "ok") == 1
    assert null.metric("response_seconds_count", type=name) == 1


def test_a_new_order_with_an_unused_item_is_told_as_rolled_back(null):
    form = NewOrder(w_id=1, d_id=1, c_id=1, lines=[OrderedItem(100_001, 1, 5)])
    status, said = null.api("new_order", form)
    assert (status, said["answer"]["rolled_back"], said["answer"]["lines"]) == (200, True, [])
    assert null.outcome("new_order", "rolled_back") == 1


def test_connections_are_kept(null):
    connection = http.client.HTTPConnection("127.0.0.1", null.port, timeout=600)
    sockets = set()
    for name in ("payment", "nothing", "stock_level"):
        connection.request("POST", f"/api/{name}", msgspec.json.encode(FORMS.get(name, {})))
        connection.getresponse().read()
        sockets.add(connection.sock.getsockname())
    assert len(sockets) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/nothing", 404),
        ("GET", "/api/menu/nothing", 404),
        ("GET", "/nothing", 404),
        ("GET", "/api/new_order", 405),
        ("POST", "/api/menu/new_order", 405),
        ("GET", "/a/b/c", 404),
    ],
)
def test_what_there_is_not(null, method, path, status):
    found, _, said = null.ask(method, path, b"{}")
    assert found == status
    if path.startswith("/api") and status == 404:
        assert json.loads(said)["error"] == (
            "unknown transaction 'nothing'; choose one of:"
            " delivery, new_order, order_status, payment, stock_level"
        )


def changed(name: str, **fields: object) -> bytes:
    """The form of a type with other fields; ``...`` is one that is missing."""
    form = msgspec.to_builtins(FORMS[name]) | fields
    return msgspec.json.encode({key: value for key, value in form.items() if value is not ...})


@pytest.mark.parametrize(
    ("name", "sent", "reason"),
    [
        ("payment", b"", "Input data was truncated"),
        ("payment", b"{]", "JSON is malformed: object keys must be strings (byte 1)"),
        ("payment", b"\xff", "JSON is malformed: invalid character (byte 0)"),
        ("payment", b"[]", "Expected `object`, got `array`"),
        ("payment", b"x" * 70_000, "a form has 65536 bytes at most"),
        ("payment", b"[" * 60_000, "Expected `object`, got `array`"),
        ("payment", changed("payment", d_id=...), "Object missing required field `d_id`"),
        ("payment", changed("payment", d_id="2"), "Expected `int`, got `str` - at `$.d_id`"),
        ("payment", changed("payment", x=1), "Object contains unknown field `x`"),
        ("payment", changed("payment", d_id=11), "d_id must be from 1 to 10, not 11"),
        ("payment", changed("payment", w_id=1 << 40), "w_id must be from 1 to 2147483647"),
        ("payment", changed("payment", c_id=...), "either c_id or c_last must name the customer"),
        ("payment", changed("payment", c_last="A"), "either c_id or c_last must name"),
        ("payment", changed("payment", h_amount="NaN"), "h_amount must be from 0.01 to 9999.99"),
        ("payment", changed("payment", h_amount="-1"), "h_amount must be from 0.01 to 9999.99"),
        ("payment", changed("payment", h_amount="0.001"), "h_amount must be from 0.01 to 9999.99"),
        ("payment", changed("payment", h_amount="1e999"), "h_amount must be from 0.01 to 9999.99"),
        ("order_status", changed("order_status", c_last=""), "c_last must be of 1 to 16"),
        ("order_status", changed("order_status", c_last="A\0"), "c_last must be of 1 to 16"),
        ("new_order", changed("new_order", lines=[]), "number of lines must be from 1 to 15"),
        (
            "new_order",
            changed("new_order", lines=[OrderedItem(1, 1, 100)]),
            "quantity of line 1 must be from 1 to 99, not 100",
        ),
        ("delivery", changed("delivery", o_carrier_id=0), "o_carrier_id must be from 1 to 10"),
        ("stock_level", changed("stock_level", threshold=-1), "threshold must be from 0 to 99"),
    ],
)
def test_a_malformed_form_is_refused_with_the_reason(null, name, sent, reason):
    status, said = null.api(name, sent)
    assert status == 400
    assert said["error"].startswith(reason)
    assert null.outcome(name, "malformed") == 1
    assert null.api("payment")[0] == 200  # the connection's server goes on


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
_NUMBERS = st.integers(-(2**70), 2**70) | st.integers(-1, 20) | _JSON
_NEARLY = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("w_id", "d_id", "c_id", "c_w_id", "c_d_id", "threshold"), _NUMBERS),
        "o_carrier_id": _NUMBERS,
        "c_last": st.text(max_size=20) | _JSON,
        "h_amount": st.decimals().map(str) | st.floats() | st.text(),
        "lines": st.lists(
            st.fixed_dictionaries(
                {"i_id": _NUMBERS, "supply_w_id": _NUMBERS, "quantity": _NUMBERS}
            ),
            max_size=17,
        )
        | _JSON,
    },
)


@given(
    name=st.sampled_from(sorted(REQUESTS)),
    sent=st.binary()
    | _JSON.map(json.dumps).map(str.encode)
    | _NEARLY.map(json.dumps).map(str.encode),
)
def test_whatever_bytes_are_a_request_or_malformed(name, sent):
    with suppress(MalformedForm):
        request = forms.of_json(name, sent)
        assert isinstance(request, REQUESTS[name])
        # and of what is one, the null database takes every answer to its end
        asyncio.run(NullTransactions().run(None, request))
        assert 1 <= request.w_id < 2**31


@given(name=st.text(alphabet=st.characters(codec="ascii"), max_size=12), sent=st.binary())
def test_whatever_path_and_bytes_never_fail_the_server(name, sent):
    """Of the API and of the screens, by the application itself."""
    statuses = asyncio.run(_answered(name, sent))
    assert set(statuses) <= {200, 400, 404, 405}


@given(
    name=st.sampled_from(sorted(REQUESTS)),
    sent=st.binary()
    | st.lists(st.tuples(st.sampled_from(["w_id", "d_id", "c_id", "i_id", "x"]), st.text())).map(
        lambda fields: urllib.parse.urlencode(fields).encode()
    ),
)
def test_whatever_bytes_never_fail_a_screen(name, sent):
    assert set(asyncio.run(_answered(name, sent))) <= {200, 400}


async def _answered(name: str, sent: bytes) -> list[int]:
    """What the API and the screens answer to bytes, without a socket."""
    path = f"/{urllib.parse.quote(name, safe='')}"
    statuses = []
    async with serve.application(
        options(Path("/dev"), delivery_results=Path("/dev/null")),
        NullDatabase(),
        NullTransactions(),
    ) as app:
        for method, where in (("POST", f"/api{path}"), ("POST", path), ("GET", path)):
            scope = {
                "type": "http",
                "method": method,
                "path": urllib.parse.unquote(where),
                "root_path": "",
                "query_string": sent if method == "GET" else b"",
                "headers": [],
            }
            chunks = [sent[:3], sent[3:]]

            async def receive(chunks: list[bytes] = chunks) -> dict:
                body = chunks.pop(0)
                return {"type": "http.request", "body": body, "more_body": bool(chunks)}

            async def send(message: dict) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            await app(scope, receive, send)
    return statuses


# Limits


def test_so_many_run_so_many_wait_and_others_are_turned_away(tmp_path):
    fake = Fake(held=threading.Event())
    with (
        served(options(tmp_path, pool=2, queue=3), fake) as server,
        ThreadPoolExecutor(9) as clients,
    ):
        first = [clients.submit(server.api, "payment") for _ in range(5)]
        wait_for(lambda: server.metric("queue_length") == 3, "three to wait")
        assert server.metric("pool_in_use") == 2
        refused = list(clients.map(server.api, ["payment"] * 4))
        assert {status for status, _ in refused} == {503}
        assert refused[0][1] == {"error": "3 transactions wait already, as many as may"}
        # a delivery is queued beside them
        assert server.api("delivery")[0] == 200
        fake.held.set()
        assert [one.result()[0] for one in first] == [200] * 5
        wait_for(lambda: server.delivered(), "the delivery to be executed")
        assert fake.most == 2
        assert (server.outcome("payment", "ok"), server.outcome("payment", "refused")) == (5, 4)
        assert server.metric("queue_length") == server.metric("pool_in_use") == 0
        assert server.metric("pool_wait_seconds_count") == 6


def test_those_that_wait_run_in_the_order_of_their_coming(tmp_path):
    fake = Fake(held=threading.Event())
    with (
        served(options(tmp_path, pool=1, queue=3), fake) as server,
        ThreadPoolExecutor(4) as clients,
    ):
        sent = []
        for number in range(1, 5):
            form = replaced(FORMS["stock_level"], threshold=number)
            sent.append(clients.submit(server.api, "stock_level", form))
            wait_for(
                lambda number=number: server.metric("queue_length") == number - 1, "it to wait"
            )
        fake.held.set()
        assert {one.result()[0] for one in sent} == {200}
    assert [request.threshold for request in fake.seen] == [1, 2, 3, 4]


def replaced(request: Request, **fields: object) -> Request:
    return msgspec.structs.replace(request, **fields)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_what_the_database_wants_repeated_is_repeated_and_told(tmp_path, times):
    fake = Fake(act=repeated(times))
    with served(options(tmp_path, repeats=3), fake) as server:
        status, said = server.api("stock_level")
        assert (status, said["retries"]) == (200, times)
        assert server.metric("repeats_total", type="stock_level") == times
    assert len(fake.seen) == 1 + times


def test_what_is_repeated_too_often_has_failed(tmp_path):
    with served(options(tmp_path, repeats=3), Fake(act=repeated(4))) as server:
        status, said = server.api("stock_level")
        assert (status, said) == (500, {"error": "given up after 3 repetitions: deadlock"})
        assert server.outcome("stock_level", "error") == 1
        assert server.metric("repeats_total", type="stock_level") == 3


def test_a_transaction_that_waits_for_its_repetition_lets_others_run(tmp_path):
    fake = Fake(act=repeated(1), held=threading.Event())
    with (
        served(options(tmp_path, pool=1, queue=1), fake) as server,
        ThreadPoolExecutor(2) as clients,
    ):
        sent = [clients.submit(server.api, "stock_level")]
        wait_for(lambda: fake.running, "the first to run")
        sent.append(clients.submit(server.api, "payment"))
        wait_for(lambda: server.metric("queue_length") == 1, "the second to wait")
        fake.held.set()
        assert [one.result()[0] for one in sent] == [200, 200]
    assert [request.type for request in fake.seen] == ["stock_level", "payment", "stock_level"]


def repeated(times: int) -> Callable[[Request], None]:
    """Be asked for so many repetitions."""
    left = iter(range(times))

    def act(_: Request) -> None:
        if next(left, None) is not None:
            raise RepeatTransaction("deadlock", "40P01")

    return act


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (psycopg.errors.DiskFull("no space left\nHINT:  buy"), "no space left"),
        (psycopg.OperationalError(), "OperationalError"),
        (EngineError("there is no customer 9"), "there is no customer 9"),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "[Errno 104] Connection reset by peer",
        ),
        (ZeroDivisionError("a bug"), "a bug"),
    ],
)
def test_an_error_ends_its_transaction_alone(tmp_path, error, said):
    def fail(_: Request) -> None:
        raise error

    fake = Fake(act=fail)
    with served(options(tmp_path, pool=1), fake) as server:
        assert server.api("payment") == (500, {"error": said})
        assert server.outcome("payment", "error") == 1
        fake.act = lambda request: None
        assert server.api("payment")[0] == 200


# Deferred deliveries


def test_a_delivery_is_answered_when_it_is_queued_and_told_when_it_is_done(tmp_path):
    fake = Fake(held=threading.Event(), act=lambda request: Delivered({1: 2101, 3: 2107}))
    with served(options(tmp_path), fake) as server:
        assert server.api("delivery") == (200, {"answer": None, "retries": 0})
        wait_for(lambda: fake.running, "it to be executed")
        server.api("delivery")
        assert server.metric("deliveries_queued") == 1
        assert server.delivered() == []
        fake.held.set()
        first, second = wait_for(
            lambda: len(found := server.delivered()) == 2 and found, "two deliveries"
        )
        assert (first.w_id, first.o_carrier_id, first.error) == (1, 4, None)
        assert first.delivered == {1: 2101, 3: 2107}
        assert first.skipped == [2, 4, 5, 6, 7, 8, 9, 10]
        assert first.queued_us <= first.completed_us <= second.completed_us
        assert server.metric("delivery_seconds_count") == 2
        assert server.metric("deliveries_queued") == 0


def test_a_delivery_that_fails_is_told_with_the_reason(tmp_path, caplog):
    def fail(_: Request) -> None:
        raise EngineError("disk full")

    with served(options(tmp_path), Fake(act=fail)) as server:
        assert server.api("delivery")[0] == 200
        (result,) = wait_for(server.delivered, "its line")
        assert (result.error, result.delivered, result.skipped) == ("disk full", {}, [])
        assert server.outcome("delivery", "error") == 1
        server.api("payment")
    assert f"{NOT_DONE}1 of 2 transactions" in caplog.messages


def test_what_is_queued_at_the_end_is_executed(tmp_path):
    fake = Fake(held=threading.Event())
    with served(options(tmp_path), fake) as server:
        for _ in range(5):
            server.api("delivery")
        fake.held.set()
    assert [result.error for result in server.delivered()] == [None] * 5


def test_what_the_end_leaves_no_time_for_is_told_as_not_executed(tmp_path):
    fake = Fake(held=threading.Event())
    with served(options(tmp_path, drain_s=0), fake) as server:
        for _ in range(3):
            server.api("delivery")
        wait_for(lambda: fake.running, "one to be executed")
    assert [result.error for result in server.delivered()] == [
        "broken off: the application server has ended",
        *["not executed: the application server has ended"] * 2,
    ]


def test_a_result_file_that_is_there_is_kept(tmp_path):
    (tmp_path / "deliveries.jsonl").write_bytes(msgspec.json.encode(Result(1, 2, 3, 4)) + b"\n")
    with served(options(tmp_path), NullTransactions()) as server:
        server.api("delivery")
    before, after = server.delivered()
    assert (before.w_id, after.w_id) == (3, 1)


# The screens


#: What a person enters: the fields of an order, its lines below each other.
ORDER = {
    "w_id": "1",
    "d_id": "2",
    "c_id": "3",
    "i_id": ["7", "", "9"],
    "supply_w_id": ["", "", " 2 "],
    "quantity": ["5", "", "1"],
}


def test_a_person_enters_an_order_and_sees_it(tmp_path):
    fake = Fake()
    with served(options(tmp_path), fake) as server:
        status, page = server.screen("new_order", ORDER)
    assert status == 200
    # blank lines are none; a blank warehouse is the home
    assert fake.seen == [FORMS["new_order"]]
    assert "The order is taken." in page
    # 5 + 1 items at 42 dollars
    assert "252.00" in page
    assert 'href="/order_status?w_id=1&amp;d_id=2&amp;c_id=3"' in page


@pytest.mark.parametrize("name", REQUESTS)
def test_each_screen_takes_its_own_form(null, name):
    fields = {key: value for key, value in msgspec.to_builtins(FORMS[name]).items() if value}
    lines = fields.pop("lines", [])
    for column in OrderedItem.__struct_fields__ if lines else ():
        fields[column] = [line[column] for line in lines]
    status, page = null.screen(name, fields)
    assert (status, f"<h1>{TITLES[name][0]}</h1>" in page) == (200, True)
    assert "card error" not in page


def test_a_form_in_error_is_shown_again_as_it_was_entered(null):
    status, page = null.screen("new_order", ORDER | {"d_id": "eleven", "c_id": '"><script>x'})
    assert status == 400
    assert 'role="alert">District must be a number, not &#39;eleven&#39;<' in page
    assert 'name="d_id" value="eleven"' in page
    assert 'value="&#34;&gt;&lt;script&gt;x"' in page
    assert re.findall(r'name="i_id" value="(\d*)"', page) == ["7", "", "9", *[""] * 12]


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("stock_level", {"w_id": 1, "d_id": 11, "threshold": 9}, "District must be from 1 to 10"),
        ("stock_level", {"w_id": 1, "d_id": "", "threshold": 9}, "District is missing"),
        ("stock_level", {"w_id": "1.5", "d_id": 1, "threshold": 9}, "Expected `int`, got `str`"),
        ("order_status", {"w_id": 1, "d_id": 1}, "either Customer number or Last name must name"),
        ("new_order", ORDER | {"quantity": ["5"]}, "Quantity must be a number, not &#39;&#39;"),
        ("new_order", ORDER | {"i_id": ["1"] * 16, "quantity": ["1"] * 16}, "number of lines must"),
        ("new_order", {"x": ["1"] * 101}, "Max number of fields exceeded"),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_the_screen(null, name, fields, said):
    status, page = null.screen(name, fields)
    assert (status, f'role="alert">{said}' in page) == (400, True), page
    assert null.outcome(name, "malformed") == 1


def test_what_is_shown_is_escaped(tmp_path):
    def act(request: Request) -> StatusOfOrder:
        answer = asyncio.run(NullTransactions().run(None, request))
        return msgspec.structs.replace(answer, c_first="<script>alert(1)</script>", c_last="O'X&Y")

    with (
        ThreadPoolExecutor(1) as aside,
        served(
            options(tmp_path), Fake(act=lambda request: aside.submit(act, request).result())
        ) as server,
    ):
        _, page = server.screen("order_status", {"w_id": 1, "d_id": 2, "c_last": "<b>"})
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; OE O&#39;X&amp;Y" in page


def test_a_failed_and_a_refused_transaction_are_told_on_the_screen(tmp_path):
    def fail(_: Request) -> None:
        raise EngineError("disk <full>")

    fake = Fake(act=fail)
    with served(options(tmp_path, pool=1, queue=0), fake) as server:
        status, page = server.screen("stock_level", {"w_id": 1, "d_id": 2, "threshold": 15})
        assert (status, 'role="alert">disk &lt;full&gt;<' in page) == (500, True)
        fake.held = threading.Event()
        with ThreadPoolExecutor(1) as client:
            running = client.submit(server.api, "payment")
            wait_for(lambda: server.metric("pool_in_use") == 1, "one to run")
            status, page = server.screen("stock_level", {"w_id": 1, "d_id": 2, "threshold": 15})
            assert (status, "0 transactions wait already" in page) == (503, True)
            fake.held.set()
            running.result()


def test_an_order_with_an_unused_item_is_told_on_the_screen(null):
    _, page = null.screen("new_order", ORDER | {"i_id": ["100001", "", "9"]})
    assert "Item number is not valid" in page


@pytest.mark.parametrize("path", ["/", *(f"/{name}" for name in REQUESTS)])
def test_a_screen_needs_nothing_else_and_names_its_fields(null, path):
    status, _, said = null.ask("GET", path)
    page = said.decode()
    assert status == 200
    assert not re.search(r"<script|https?://|src=|url\(|@import", page)
    labelled = set(re.findall(r'<label for="(\w+)"', page))
    inputs = re.findall(r"<input[^>]*>", page)
    assert all(
        "aria-label=" in one or re.search(r' id="(\w+)"', one)[1] in labelled for one in inputs
    )
    # every screen says that nothing is kept
    assert "<strong>No database.</strong>" in page


def test_a_form_is_filled_in_from_its_address(null):
    _, _, said = null.ask("GET", "/order_status?w_id=1&d_id=2&c_last=%22%3E")
    page = said.decode()
    assert 'name="w_id" value="1"' in page
    assert f'name="c_last" value="{html.escape(chr(34) + ">").replace("quot", "#34")}"' in page


def test_a_database_is_named_and_not_denied(tmp_path):
    given = options(tmp_path, engine="postgres", form="procedures")
    with served(given, NullTransactions()) as server:
        page = server.ask("GET", "/")[2].decode()
        assert ("No database" in page, "postgres, procedures" in page) == (False, True)
        assert server.metric("database", name="postgres") == 1


# The program


@pytest.fixture
def program(tmp_path) -> Iterator[Callable[..., Program]]:
    with ExitStack() as started:

        def start(*arguments: str, stdin: bytes = b"") -> Program:
            results = tmp_path / "deliveries.jsonl"
            return started.enter_context(Program(results, *arguments, stdin=stdin))

        yield start


def test_it_says_when_it_serves_and_ends_well(program):
    one = program("--database", "null", "--delivery-workers", "2")
    server = one.ready()
    for name in REQUESTS:
        assert server.api(name)[0] == 200
    for _ in range(20):
        server.api("delivery")
    one.process.send_signal(signal.SIGTERM)
    assert one.end() == (0, "")
    results = server.delivered()
    assert [result.error for result in results] == [None] * 21


def test_a_port_that_is_taken(program):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        one = program("--database", "null", "--port", str(port))
        code, said = one.end()
    assert (code, said.splitlines()) == (
        1,
        [
            "python -m benchlab.drivers.tpcc.was:"
            f" cannot listen on 127.0.0.1:{port}: Address already in use"
        ],
    )


@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_a_database_that_does_not_answer(program, engine):
    port = unused_port()
    address = {"host": "127.0.0.1", "port": port, "user": "u", "password": "s3cret"}
    one = program(
        *("--engine", engine, "--form", "statements"),
        stdin=json.dumps(address | {"database": "tpcc"}).encode() + b"\n",
    )
    code, said = one.end()
    assert code == 1
    (line,) = said.splitlines()
    assert line.startswith("python -m benchlab.drivers.tpcc.was: ")
    assert f"tpcc on 127.0.0.1:{port}: " in line
    assert "s3cret" not in line


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["--engine", "postgres"], b"", 2, "--engine and --form are needed, or --database null"),
        (["--database", "null", "--pool", "0"], b"", 2, "not a whole number of 1 or more: '0'"),
        (["--database", "null", "--queue", "x"], b"", 2, "not a whole number of 0 or more: 'x'"),
        (
            ["--engine", "postgres", "--form", "statements"],
            b'{"host": "h", "password": "s3cret"}\n',
            1,
            "standard input: where the database is: Object missing required field `port`",
        ),
        (
            ["--engine", "tidb", "--form", "procedures"],
            b'{"host": "h", "port": 1, "user": "u", "password": "", "database": "d"}\n',
            1,
            "tidb: it has no stored procedures; choose the form: statements",
        ),
        (
            ["--database", "null", "--delivery-results", "/nowhere/at/all"],
            b"",
            1,
            "delivery results /nowhere/at/all: No such file or directory",
        ),
    ],
)
def test_what_cannot_be_served(program, arguments, stdin, code, said):
    one = program(*arguments, stdin=stdin)
    found, line = one.end()
    assert (found, line.splitlines()[-1].endswith(said)) == (code, True), line
    assert "s3cret" not in line


# A MySQL that is lost


@dataclass
class MySQLPool:
    """aiomysql's pool, of one connection on a real socket, whose server can be lost."""

    end: socket.socket
    is_lost: bool = False

    async def acquire(self) -> "MySQLPool":
        if self.is_lost:
            raise pymysql.OperationalError(2003, "Can't connect to MySQL server on '192.0.2.1'")
        return self

    async def release(self, connection: "MySQLPool") -> None:
        assert connection is self

    def terminate(self) -> None:
        pass

    async def wait_closed(self) -> None:
        pass

    @property
    def _writer(self) -> "MySQLPool":
        return self

    transport = _writer

    def get_extra_info(self, name: str) -> object:
        return getattr(self, {"socket": "end"}[name])

    __hash__ = object.__hash__


def test_a_mysql_that_is_lost_is_told_and_fails_requests_until_it_is_back(caplog, monkeypatch):
    monkeypatch.setattr(pool, "_PAUSE_S", 0)

    async def run(end: socket.socket) -> None:
        database = MySQLDatabase(Address("192.0.2.1", 1, "u", "s3cret", "tpcc"), 1, "serializable")
        database._pool = server = MySQLPool(end)
        assert await database.acquire() is server
        server.is_lost = True
        with pytest.raises(pymysql.OperationalError):
            await database.acquire()
        with pytest.raises(EngineError, match=r"the database is lost: .*Can't connect"):
            await database.acquire()
        server.is_lost = False
        await database._recovery
        assert await database.acquire() is server
        await database.close()

    with socket.socket() as end:
        asyncio.run(run(end))
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [end.getsockopt(socket.IPPROTO_TCP, one) for one in options] == [5, 2, 3]
    lost, back = (record.getMessage() for record in caplog.records)
    assert lost.startswith(f"tpcc on 192.0.2.1:1: {LOST}")
    assert back == "tpcc on 192.0.2.1:1: the database is back"


def test_mysql_that_is_not_there_is_told(tmp_path):
    address = Address("127.0.0.1", unused_port(), "u", "s3cret", "tpcc")
    with pytest.raises(EngineError, match=r"tpcc on 127.0.0.1:\d+: .*Can't connect"):
        asyncio.run(MySQLDatabase(address, 1, "serializable").open())
    assert "s3cret" not in repr(address)
