"""Terminals go round their cycle, whatever the application server does, and leave whole records.

The state machine runs in a time of its own, in which an hour takes no time; the program itself runs
against a server of a few lines.
"""

import asyncio
import heapq
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path

import msgspec
import polars as pl
import pytest
from benchlab.drivers.tpcc import limits, log, mix, rte
from benchlab.drivers.tpcc.http import Connection, Messages, Server
from benchlab.drivers.tpcc.inputs import UNUSED_ITEM, Draws, Inputs
from benchlab.drivers.tpcc.records import RECORDS, STATUSES
from benchlab.drivers.tpcc.tally import Status, Tally
from benchlab.drivers.tpcc.terminals import (
    LONGER,
    SETTLING_S,
    Pacing,
    Shared,
    Terminal,
)
from benchlab.drivers.tpcc.timers import Timers
from benchlab.errors import RunFailed
from benchlab.workloads.tpcc.dataset import TYPES
from benchlab.workloads.tpcc.rules import Constants
from benchlab.workloads.tpcc.transactions.contract import NewOrder
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

BEGIN_US = 1_700_000_000_000_000
MENU_US, ANSWER_US = 3_000, 250_000
MINUTE_US = 60_000_000

#: Statuses where all is well.
WELL = {"ok", "rolled_back"}

#: What a server does with a request: an answer's status and body, or one of these.
BREAKS, HANGS, GARBLES = "breaks", "hangs", "garbles"
Reply = tuple[int, bytes] | str


class World:
    """Time, an event loop of timers alone, connections and an application server.

    ``menu`` and ``form`` are what the server does with requests; ``refuses`` says that it takes no
    connection.
    """

    def __init__(self, pacing: float = 1.0, terminals: int = 1, mix_way: str = "decks"):
        self.now = BEGIN_US
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self.menu: Callable[[str], Reply] = lambda name: (200, b"{}")
        self.form: Callable[[str, bytes], Reply] = done
        self.refuses = False
        self.late_us = 0
        self.requests: list[tuple[int, bytes]] = []
        self.connects: list[int] = []
        self.connections: list[FakeConnection] = []
        self.shared = Shared(
            draws=Draws(1),
            inputs=Inputs(Constants(1, 2, 3), 10),
            pacing=Pacing(pacing),
            messages=Messages(Server("was", 80)),
            timers=Timers(self, lambda: self.now),
            now=lambda: self.now,
            connect=self.connect,
        )
        mix_of = mix.of_terminals(mix_way)
        self.terminals = [Terminal(self.shared, number, mix_of()) for number in range(terminals)]
        for one in self.terminals:
            self.connect(one)

    def connect(self, terminal: Terminal) -> None:
        self.connects.append(self.now)
        if self.refuses:
            self.after(0, terminal.unreachable)
        else:
            connection = FakeConnection(self, terminal)
            self.connections.append(connection)
            terminal.connected(connection)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "Event":
        return self.after(round(delay_s * 1e6) + self.late_us, callback)

    def after(self, delay_us: int, callback: Callable[[], None]) -> "Event":
        event = Event(callback)
        heapq.heappush(self._events, (self.now + delay_us, next(self._order), event))
        return event

    def run(self, minutes: float) -> pl.DataFrame:
        """Let some time pass; return all rows."""
        until = self.now + round(minutes * MINUTE_US)
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event.callback()
        self.now = until
        return self.shared.log.frame()

    def run_to_request(self) -> bytes:
        """Let time pass until the next request; return it."""
        have = len(self.requests)
        while len(self.requests) == have:
            self.now, _, event = heapq.heappop(self._events)
            event.callback()
        return self.requests[-1][1]


class Event:
    """A timer's handle."""

    def __init__(self, callback: Callable[[], None]):
        self.callback = callback

    def cancel(self) -> None:
        self.callback = lambda: None


class FakeConnection:
    """The server's answers come after a fixed time."""

    def __init__(self, world: World, client: Terminal):
        self._world = world
        self._client: Terminal | None = client
        self.is_closed = False
        self.first_us: int | None = None

    def request(self, message: bytes) -> None:
        world = self._world
        self.first_us = self.first_us or world.now
        world.requests.append((world.now, message))
        name = re.match(rb"[A-Z]+ /api/(?:menu/)?(\w+) ", message).group(1).decode()
        if message.startswith(b"GET"):
            reply, delay = world.menu(name), MENU_US
        else:
            reply, delay = world.form(name, message.partition(b"\r\n\r\n")[2]), ANSWER_US
        world.after(delay, lambda: self._answer(reply))

    def break_(self) -> None:
        client, self._client = self._client, None
        client.broken()

    def close(self) -> None:
        self._client = None
        self.is_closed = True

    def _answer(self, reply: Reply) -> None:
        if self._client is None or reply == HANGS:
            return
        if reply == BREAKS:
            self.break_()
        elif reply == GARBLES:
            client = self._client
            self.close()
            client.garbled()
        else:
            self._client.answered(*reply)


def done(name: str, body: bytes) -> Reply:
    """Answer as the application server does where all is well."""
    answer: dict | None = {"low_stock": 3}
    if name == "new_order":
        lines = json.loads(body)["lines"]
        answer = {"o_id": 3001, "rolled_back": lines[-1]["i_id"] == UNUSED_ITEM, "lines": []}
    elif name == "delivery":
        answer = None
    return 200, json.dumps({"answer": answer, "retries": 2}).encode()


# the cycle


def test_a_cycle_is_menu_keying_answer_and_think_time():
    world = World()
    rows = world.run(30)
    assert len(rows) > 60
    assert set(rows["status"]) <= WELL
    assert rows["menu_us"].is_between(MENU_US, MENU_US + 999).all()  # timers count milliseconds
    assert (rows["sent_us"] - rows["due_us"]).is_between(0, 999).all()
    assert ((rows["answered_us"] - rows["sent_us"]) == ANSWER_US).all()
    keying = {name: round(seconds * 1e6) for name, seconds in limits.KEYING.items()}
    assert rows["keying_us"].to_list() == [keying[name] for name in rows["type"]]
    # from an answer to the end of the next keying time, with two screens that are shown
    between = rows["due_us"].shift(-1) - rows["answered_us"]
    waits = rows["think_us"] + rows["menu_us"].shift(-1) + rows["keying_us"].shift(-1) + 200_000
    assert (between == waits).drop_nulls().all()


def test_a_request_is_the_screen_that_was_chosen_filled_in():
    world = World()
    for _ in range(30):
        chosen, sent = world.run_to_request(), world.run_to_request()
        name = re.match(rb"GET /api/menu/(\w+) HTTP/1.1\r\nHost: was:80\r\n\r\n$", chosen).group(1)
        head, _, body = sent.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /api/%b HTTP/1.1\r\nHost: was:80\r\n" % name)
        assert int(re.search(rb"\r\nContent-Length: (\d+)", head).group(1)) == len(body)
        assert json.loads(body)["w_id"] == 1


def test_a_terminal_keeps_its_warehouse_and_its_stock_level_s_district():
    world = World(terminals=30)
    rows = world.run(30)
    assert (rows["w_id"] == rows["terminal"] // 10 + 1).all()
    places = set()
    for _, message in world.requests:
        if message.startswith(b"POST /api/stock_level"):
            body = json.loads(message.partition(b"\r\n\r\n")[2])
            places.add((body["w_id"], body["d_id"]))
    assert places == {(w_id, d_id) for w_id in range(1, 4) for d_id in range(1, 11)}


def test_think_times_are_exponential_and_cut_at_ten_means():
    pacing, draws = Pacing(1), Draws(1)
    for number, name in enumerate(TYPES):
        found = [pacing.think_us(number, draws.of(0, cycle)) / 1e6 for cycle in range(5000)]
        mean_s = limits.THINK[name] * LONGER
        assert max(found) <= 10 * mean_s
        assert stats.kstest(found, "expon", args=(0, mean_s)).pvalue > 0.001

    class Last:
        def random(self) -> float:
            return 1 - 2**-53

    assert pacing.think_us(0, Last()) == 120_600_000


def test_ten_terminals_do_as_many_new_orders_as_the_standard_has_them():
    world = World(terminals=100, mix_way="weights")
    minutes = 30
    rows = world.run(5 + minutes).filter(pl.col("answered_us") > BEGIN_US + 5 * MINUTE_US)
    tpmc = len(rows.filter(pl.col("type") == "new_order")) / minutes / 10
    # 12.80 with the least think times, and without answers and screens, which take 0.45 s of 21
    assert 12.3 < tpmc < 12.8
    assert world.shared.tally.new_order > len(rows.filter(pl.col("type") == "new_order"))


def test_terminals_begin_anywhere_in_their_cycles_so_that_the_load_is_even_at_once():
    world = World(terminals=2000, mix_way="weights")
    rows = world.run(2).filter(pl.col("type") == "new_order")
    chosen = [at - BEGIN_US for at, message in world.requests if message.startswith(b"GET")]
    first = [one.first_us - BEGIN_US for one in world.connections]
    assert len(chosen) > 10_000
    assert max(first) < 120e6
    windows = Counter(at // 10_000_000 for at in chosen)
    assert stats.chisquare([windows[one] for one in range(12)]).pvalue > 0.001
    settled = (rows["answered_us"] - BEGIN_US) / 1e6 - SETTLING_S
    windows = Counter(int(at // 10) for at in settled if at >= 0.5)
    assert stats.chisquare([windows[one] for one in range(1, 10)]).pvalue > 0.001


def test_without_waits_nothing_but_the_answers_takes_time():
    rows = World(pacing=0).run(0.1)
    assert set(rows["keying_us"]) == set(rows["think_us"]) == {0}
    assert len(rows) == 6_000_000 // (MENU_US + ANSWER_US)


def test_what_the_emulator_is_late_by_is_counted_and_in_the_response_time():
    world = World()
    world.late_us = 12_340
    rows = world.run(30)
    assert ((rows["sent_us"] - rows["due_us"]) >= 12_340).all()
    # the timer of the first menu was set before
    assert rows["menu_late_us"][1:].is_between(12_340, 13_400).all()
    assert ((rows["answered_us"] - rows["due_us"]) >= ANSWER_US + 12_340).all()
    assert 12.3 <= world.shared.tally.late_p99_ms() <= 13.4


@pytest.mark.parametrize("way", mix.WAYS)
def test_a_run_is_repeatable(way):
    one, other = World(terminals=20, mix_way=way), World(terminals=20, mix_way=way)
    assert one.run(10).equals(other.run(10))
    assert one.requests == other.requests


# what the records keep


def test_a_row_has_what_its_type_has():
    rows = World(terminals=100).run(30)
    kept = {"new_order": {"lines", "remote_lines", "o_id"}, "payment": {"remote", "by_name"}}
    kept |= {"order_status": {"by_name"}, "delivery": set(), "stock_level": set()}
    columns = set.union(*kept.values())
    for name, own in kept.items():
        of_type = rows.filter(pl.col("type") == name)
        assert len(of_type)
        for column in columns:
            assert of_type[column].null_count() == (0 if column in own else len(of_type)), column
    assert set(rows["retries"]) == {2}
    rolled_back = rows.filter(pl.col("status") == "rolled_back")
    assert set(rolled_back["type"]) == {"new_order"}
    assert (
        stats.binomtest(
            len(rolled_back), len(rows.filter(pl.col("type") == "new_order")), 0.01
        ).pvalue
        > 0.001
    )


def test_rows_are_packed_and_unpacked_with_their_types(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "_ROWS_OF_A_BLOCK", 3)
    made = log.Log()
    assert made.frame().schema == RECORDS
    row = (9, 1, 0, 2**50, 2**50 + 1, 2**50 + 9, 5, 4, 6, 2**31 - 1, 1, 2, 15, 3, 1, 0, 2**31 - 1)
    for number in range(8):
        made.add(number, *row[1:])
    made.add(8, 1, 4, 7, *[log.NONE] * 5, 9, 4, *[log.NONE] * 6)
    made.write(tmp_path / "rows.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["rows.parquet"]
    found = pl.read_parquet(tmp_path / "rows.parquet")
    assert found.schema == RECORDS
    assert len(found) == len(made) == 9
    texts = ("new_order", *row[3:10], "rolled_back", *row[11:14], True, False, row[16])
    assert found.row(7) == (7, 1, *texts)
    assert found.row(8) == (8, 1, "stock_level", 7, *[None] * 5, 9, "lost", *[None] * 6)


def test_statuses_are_those_of_the_records():
    assert tuple(one.name.lower() for one in Status) == STATUSES


def test_a_line_counts_what_ended_in_its_second():
    tally = Tally()
    for status, times in zip(Status, (5, 1, 2, 3, 4), strict=True):
        for _ in range(times):
            tally.ended(TYPES.index("new_order"), status)
    tally.ended(TYPES.index("payment"), Status.OK)
    for late_us in (*[50] * 98, 12_345, 99_999):
        tally.sent(late_us)
    whole = Tally()
    whole.add(tally)
    whole.add(tally)
    assert tally.line(1_700_000_000) == (
        "1700000000 new_order=6 all=7 rolled_back=1 refused=2 errors=3 lost=4 late_p99_ms=12.4"
    )
    assert whole.counts() == {name: 2 * one for name, one in tally.counts().items()}
    assert whole.late_p99_ms() == 12.4
    assert Tally().line(1).endswith("lost=0 late_p99_ms=0.0")


# what may go wrong


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ((503, b'{"error": "too many wait"}'), "refused"),
        ((500, b'{"error": "deadlock"}'), "error"),
        ((404, b""), "error"),
        ((200, b""), "error"),
        ((200, b"<html>"), "error"),
        ((200, b"[]"), "error"),
        ((200, b'{"retries": 0}'), "error"),
        ((200, b'{"answer": {"o_id": 0}, "retries": 0}'), "error"),
        ((200, b'{"answer": {"o_id": "1"}, "retries": 0}'), "error"),
        ((200, b'{"answer": {"o_id": 1}, "retries": -1}'), "error"),
        (GARBLES, "error"),
        (BREAKS, "lost"),
    ],
)
def test_whatever_is_answered_is_in_the_row_and_the_terminal_goes_on(reply, status):
    world = World()
    world.form = lambda name, body: reply
    rows = world.run(10)
    assert set(rows["status"]) == {status}
    assert set(rows["type"]) == set(TYPES)
    assert rows["sent_us"].null_count() == rows["keying_us"].null_count() == 0
    assert rows["o_id"].null_count() == len(rows)
    assert rows["answered_us"].null_count() == (len(rows) if status == "lost" else 0)
    assert world.terminals[0].was_lost is (status == "lost")
    broken = reply in (BREAKS, GARBLES)
    assert len(world.connects) - 1 in ((len(rows) - 1, len(rows)) if broken else (0,))
    world.form = done
    assert set(world.run(10)["status"][len(rows) + 1 :]) <= WELL


@pytest.mark.parametrize("is_due", [True, False])
def test_a_rollback_must_be_one_and_nothing_else_may_be(is_due):
    world = World(terminals=50)
    wrong = {"answer": {"o_id": 1, "rolled_back": not is_due}, "retries": 0}

    def form(name: str, body: bytes) -> Reply:
        if name != "new_order":
            return done(name, body)
        rolls_back = msgspec.json.decode(body, type=NewOrder).lines[-1].i_id == UNUSED_ITEM
        return (200, json.dumps(wrong).encode()) if rolls_back is is_due else done(name, body)

    world.form = form
    rows = world.run(20).filter(pl.col("type") == "new_order")
    assert set(rows["status"]) == {"error", "ok" if is_due else "rolled_back"}


def test_only_a_delivery_may_be_answered_by_nothing():
    world = World()
    world.form = lambda name, body: (200, b'{"answer": null, "retries": 0}')
    rows = world.run(30)
    assert set(rows.filter(pl.col("type") == "delivery")["status"]) == {"ok"}
    assert set(rows.filter(pl.col("type") != "delivery")["status"]) == {"error"}


@pytest.mark.parametrize(
    ("reply", "status"),
    [((503, b""), "refused"), ((500, b""), "error"), (GARBLES, "error"), (BREAKS, "lost")],
)
def test_a_menu_that_fails_ends_the_cycle(reply, status):
    world = World()
    world.menu = lambda name: reply
    rows = world.run(10)
    assert set(rows["status"]) == {status}
    assert rows["menu_us"].null_count() == rows["keying_us"].null_count() == len(rows)
    assert ((rows["sent_us"] - rows["due_us"]) < 1000).all()
    assert not any(message.startswith(b"POST") for _, message in world.requests)


def test_a_terminal_notices_while_keying_when_it_wants_to_send():
    world = World()
    world.run_to_request()
    world.after(1_000_000, lambda: world.connections[0].break_())
    rows = world.run(5)
    lost = rows.row(0, named=True)
    assert (lost["status"], lost["sent_us"], lost["answered_us"]) == ("lost", None, None)
    assert lost["keying_us"] == limits.KEYING[lost["type"]] * 1e6
    assert set(rows["status"][1:]) <= WELL
    # it thinks, then connects
    (_, again) = world.connects
    noticed = again - max(lost["think_us"], 1_000_000) - lost["due_us"]
    assert 0 <= noticed < 2000


def test_a_terminal_notices_while_thinking_when_it_chooses():
    world = World()
    world.connections[0].break_()
    rows = world.run(10)
    lost = rows.row(0, named=True)
    assert (lost["status"], lost["sent_us"], lost["keying_us"]) == ("lost", None, None)
    assert not world.requests or world.requests[0][0] > world.connects[1] - 1
    assert set(rows["status"][1:]) <= WELL


def test_a_lost_terminal_connects_as_often_as_it_takes():
    world = World(pacing=0)
    world.run(0.01)
    world.refuses = True
    world.connections[0].break_()
    rows = world.run(0.5)
    assert Counter(rows["status"])["lost"] == 1
    assert 28 <= len(world.connects) <= 31  # no more than once a second, however little it thinks
    world.refuses = False
    assert set(world.run(0.5)["status"][len(rows) :]) <= WELL


def test_at_the_end_what_has_not_been_answered_is_lost():
    world = World(terminals=20)
    world.form = lambda name, body: HANGS
    assert len(world.run(5)) == 0
    world.shared.timers.end()
    assert all(one.is_waiting for one in world.terminals)
    for one in world.terminals:
        one.end()
    rows = world.shared.log.frame()
    assert set(rows["status"]) == {"lost"}
    assert sorted(rows["terminal"]) == list(range(20))
    assert all(one.is_closed for one in world.connections)
    assert len(world.run(5)) == 20


# HTTP


class Heard:
    """A client that takes note."""

    def __init__(self) -> None:
        self.heard: list = []

    def connected(self, connection: Connection) -> None:
        self.heard.append("connected")

    def answered(self, status: int, body: bytes) -> None:
        self.heard.append((status, body))

    def garbled(self) -> None:
        self.heard.append("garbled")

    def broken(self) -> None:
        self.heard.append("broken")


class FakeTransport:
    def __init__(self) -> None:
        self.written = b""
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.is_aborted = True


def connection() -> tuple[Connection, Heard, FakeTransport]:
    client, transport = Heard(), FakeTransport()
    made = Connection(client)
    made.connection_made(transport)
    return made, client, transport


ANSWERS = [
    (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", (200, b"{}")),
    (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", (503, b"")),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n1\r\n \r\n0\r\n\r\n",
        (200, b"{}\n "),
    ),
]


@given(st.lists(st.tuples(st.sampled_from(ANSWERS), st.sets(st.integers(1, 80))), min_size=1))
def test_an_answer_is_taken_in_whatever_pieces_it_comes(answers):
    made, client, transport = connection()
    for (text, expected), cuts in answers:
        made.request(b"GET / HTTP/1.1\r\n\r\n")
        at = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
        for first, last in pairwise(at):
            made.data_received(text[first:last])
        assert client.heard[-1] == expected
    assert client.heard == ["connected", *(expected for (_, expected), _ in answers)]
    assert transport.written == b"GET / HTTP/1.1\r\n\r\n" * len(answers)


@pytest.mark.parametrize(
    "text",
    [
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}and more",
    ],
)
def test_what_is_no_answer_closes_the_connection(text):
    made, client, transport = connection()
    made.request(b"GET / HTTP/1.1\r\n\r\n")
    made.data_received(text)
    made.data_received(text)
    made.connection_lost(None)
    assert client.heard == ["connected", "garbled"]
    assert transport.is_aborted


def test_an_answer_that_nothing_was_asked_for_closes_the_connection():
    made, client, transport = connection()
    made.data_received(ANSWERS[0][0])
    assert client.heard == ["connected", "garbled"]
    assert transport.is_aborted


def test_a_connection_that_breaks_within_an_answer_is_broken():
    made, client, _ = connection()
    made.request(b"GET / HTTP/1.1\r\n\r\n")
    made.data_received(ANSWERS[0][0][:20])
    made.connection_lost(ConnectionResetError())
    assert client.heard == ["connected", "broken"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8080", Server("127.0.0.1", 8080)),
        ("http://was/", Server("was", 80)),
        ("http://[::1]:81/", Server("::1", 81)),
    ],
)
def test_a_server_s_url(url, expected):
    assert Server.at(url) == expected


@pytest.mark.parametrize(
    "url", ["was:8080", "https://was", "http://", "http://was:x", "http://a?b", "http://was/tpcc"]
)
def test_a_url_that_is_none_is_named(url):
    with pytest.raises(RunFailed, match=re.escape(url)):
        Server.at(url)


# the program


class Answering:
    """An application server in a thread.

    ``reply`` says what it does with a POST; HANGS: it never answers.
    """

    def __init__(self) -> None:
        self.reply: Callable[[str, bytes], Reply] = done
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"Content-Length: (\d+)", head)
                body = await reader.readexactly(int(length.group(1)) if length else 0)
                name = re.match(rb"[A-Z]+ /api/(?:menu/)?(\w+) ", head).group(1).decode()
                reply = (200, b"{}") if head.startswith(b"GET") else self.reply(name, body)
                if reply == BREAKS:
                    return
                if reply == GARBLES:
                    writer.write(b"garbage\r\n\r\n")
                elif reply != HANGS:
                    status, text = reply
                    writer.write(
                        b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text)
                    )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
def was() -> Iterator[tuple[Answering, str]]:
    """A server and its URL."""
    answering, loop = Answering(), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(answering.serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield answering, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def end() -> None:
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.call_soon(loop.stop)

    loop.call_soon_threadsafe(end)
    thread.join()
    loop.close()


def argv(url: str, records: Path, *others: str) -> list[str]:
    required = {
        "was": url,
        "warehouses": "2-3",
        "of-warehouses": "3",
        "c-last": "1",
        "c-id": "2",
        "ol-i-id": "3",
        "pacing": "0.002",
        "ramp-up-s": "0.1",
        "duration-s": "2",
        "records": str(records),
    }
    return [*(f"--{name}={value}" for name, value in required.items()), *others]


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen(
        [sys.executable, "-m", rte.__name__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with program:
        try:
            yield program
        finally:
            program.kill()


def rows_of(records: Path) -> pl.DataFrame:
    """Rows of a process whose folder has one whole file and nothing else."""
    (path,) = records.iterdir()
    assert path.name == "terminals-000002-000003.parquet"
    rows = pl.read_parquet(path)
    assert rows.schema == RECORDS
    return rows


LINE = re.compile(
    r"(\d+) new_order=(\d+) all=(\d+) rolled_back=(\d+) refused=(\d+) errors=(\d+) lost=(\d+)"
    r" late_p99_ms=(\d+\.\d)"
)


def test_the_program_prints_seconds_and_totals_and_writes_records(was, tmp_path):
    answering, url = was
    with running(*argv(url, tmp_path / "made" / "records")) as program:
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "deviation: not TPC-C pacing: keying and think times × 0.002"
    connected = float(re.fullmatch(r"connected (\d+\.\d{3})", lines[1]).group(1))
    begun = int(re.fullmatch(r"begun (\d+)", lines[2]).group(1))
    assert connected < begun
    seconds = [[float(one) for one in LINE.fullmatch(line).groups()] for line in lines[3:5]]
    assert [one[0] for one in seconds] == [begun, begun + 1]
    totals = json.loads(lines[-1])
    assert answering.connections == 1 + 20  # the first one looks whether the server listens

    rows = rows_of(tmp_path / "made" / "records")
    assert set(rows["w_id"]) == {2, 3}
    assert set(rows["terminal"]) == set(range(10, 30))
    assert totals["rows"] == len(rows)
    counted = rows.filter(pl.col("answered_us") >= begun * 1_000_000)
    assert abs(totals["all"] - len(counted)) <= 20  # of about the time at which it begins
    assert sum(one[2] for one in seconds) <= totals["all"]
    assert totals["new_order"] == pytest.approx(
        len(counted.filter(pl.col("type") == "new_order")), abs=20
    )
    assert (totals["refused"], totals["errors"], totals["lost"], totals["lost_terminals"]) == (
        (0,) * 4
    )
    assert totals["begun"] == begun
    assert totals["is_early"] is False
    assert totals["seconds"] >= 2
    assert len(totals["deviations"]) == 1


@pytest.mark.parametrize(
    ("reply", "column", "status"),
    [
        ((503, b"{}"), "refused", "refused"),
        ((500, b"{}"), "errors", "error"),
        (GARBLES, "errors", "error"),
        (BREAKS, "lost", "lost"),
    ],
)
def test_what_goes_wrong_is_counted_and_the_program_ends_well(was, tmp_path, reply, column, status):
    answering, url = was
    answering.reply = lambda name, body: reply
    with running(*argv(url, tmp_path, "--duration-s=1", "--terminals=5")) as program:
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (0, "")
    assert "deviation: 5 terminals, not 10 a warehouse (20)" in out.splitlines()
    assert set(rows_of(tmp_path)["status"]) == {status}
    totals = json.loads(out.splitlines()[-1])
    assert totals["all"] == 0
    assert totals["lost_terminals"] == (5 if status == "lost" else 0)
    # one that lost its connection has another only a second later
    assert totals[column] > 0 or reply in (BREAKS, GARBLES)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_signal_ends_it_early_and_well(was, tmp_path, name, has_begun):
    _, url = was
    ramp_up = "--ramp-up-s=0.1" if has_begun else "--ramp-up-s=3600"
    with running(*argv(url, tmp_path, "--duration-s=3600", ramp_up)) as program:
        for line in program.stdout:
            if LINE.match(line) or (not has_begun and line.startswith("deviation")):
                break
        if not has_begun:
            while was[0].connections < 2:  # that of a terminal
                time.sleep(0.01)
        program.send_signal(getattr(signal, name))
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (0, "")
    totals = json.loads(out.splitlines()[-1])
    assert totals["is_early"] is True
    assert (totals["begun"] is not None) is has_begun
    rows = rows_of(tmp_path)
    assert len(rows) == totals["rows"]
    assert set(rows["status"]) <= WELL


def test_a_second_signal_ends_the_wait_for_answers(was, tmp_path):
    answering, url = was
    answering.reply = lambda name, body: HANGS
    with running(*argv(url, tmp_path, "--duration-s=3600")) as program:
        for line in program.stdout:
            if LINE.match(line):
                break
        program.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(timeout=1)
        program.send_signal(signal.SIGTERM)
        out, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (0, "")
    rows = rows_of(tmp_path)
    assert set(rows["status"]) == {"lost"}
    assert rows["terminal"].n_unique() == len(rows) == json.loads(out.splitlines()[-1])["lost"]


def test_a_server_that_does_not_come_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(rte, "_START_S", 0.1)
    options = rte.options_of(argv("http://127.0.0.1:1", tmp_path))
    with pytest.raises(RunFailed, match=r"nothing listens on 127\.0\.0\.1:1: "):
        asyncio.run(rte.run(options))


def test_the_wait_for_a_server_can_be_ended(tmp_path, monkeypatch):
    async def end() -> None:
        waits = asyncio.Event()

        async def listening(address: tuple[str, int]) -> None:
            waits.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(rte, "_listening", listening)
        task = asyncio.create_task(rte.run(rte.options_of(argv("http://127.0.0.1:1", tmp_path))))
        await waits.wait()
        task.cancel()
        await task

    with pytest.raises(RunFailed, match="ended before the application server listened"):
        asyncio.run(end())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--warehouses=3-2", "'3-2' is not FIRST-LAST"),
        ("--warehouses=2-4", "4 is not within the 3 of the database"),
        ("--terminals=21", "21 are more than ten a warehouse, 20"),
        ("--c-last=256", "not a whole number of 0 to 255: '256'"),
        ("--pacing=-1", "'-1' is not a number of 0 or more"),
        ("--mix=cards", "invalid choice: 'cards'"),
    ],
)
def test_an_option_that_cannot_be_is_named(option, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        rte.options_of(argv("http://was", tmp_path, option))
    assert message in capsys.readouterr().err


def test_fewer_terminals_are_shared_out_among_the_warehouses(tmp_path):
    options = rte.options_of(argv("http://was", tmp_path, "--warehouses=1-3", "--terminals=7"))
    assert sorted(options.numbers) == [0, 1, 2, 10, 11, 20, 21]


def test_ten_terminals_a_warehouse_at_their_pace_are_no_deviation(tmp_path):
    options = rte.options_of(argv("http://was", tmp_path, "--pacing=1"))
    assert options.deviations == []
    assert sorted(options.numbers) == list(range(10, 30))
