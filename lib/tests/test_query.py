"""Queries to an engine's server: rows, or one line with its error. No server is needed."""

import socket
import struct
import threading

import psycopg
import pymysql
import pytest
from benchlab.engines import ENGINES, Endpoint, base
from benchlab.errors import EngineError

DRIVERS = {"postgres": psycopg, "mysql": pymysql}


class Connection:
    """A connection and its cursor, as PEP 249 has them, with the id of its session."""

    backend_pid = 7

    def __init__(self, answer: list[dict] | Exception | None):
        self.answer, self.closed = answer, False

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def cursor(self) -> "Connection":
        return self

    @property
    def info(self) -> "Connection":
        return self

    def thread_id(self) -> int:
        return self.backend_pid

    def execute(self, sql: str, parameters: tuple | None = None) -> None:
        if "CONNECTION_ID" in sql:
            return
        self.statement = (sql, parameters)
        if isinstance(self.answer, Exception):
            raise self.answer

    @property
    def description(self) -> list | None:
        return None if self.answer is None else ["a"]

    def fetchone(self) -> dict:
        return {"id": self.backend_pid}

    def fetchall(self) -> tuple:
        assert self.description, "there are no rows to fetch"
        return tuple(self.answer)


@pytest.fixture(params=sorted(ENGINES))
def connected(request, monkeypatch):
    """Return an engine whose server gives this answer, the connection, and the driver's module."""

    def connect(answer=None):
        endpoint = Endpoint(host="192.0.2.1", port=1, user="a", password="s3cret", database="b")
        engine, connection = ENGINES[request.param](endpoint), Connection(answer)

        def open_connection(**options: object) -> Connection:
            assert {"192.0.2.1", 1, "a", "s3cret", "b"} <= set(options.values())
            # a statement that stays in a transaction would be lost, or lock
            assert options["autocommit"] is True
            return connection

        driver = DRIVERS[engine.protocol]
        opens = psycopg.Connection if driver is psycopg else driver
        monkeypatch.setattr(opens, "connect", open_connection)
        return engine, connection, driver

    return connect


def test_a_query_gives_its_rows_and_leaves_no_connection(connected):
    engine, connection, _ = connected([{"a": 1}, {"a": 2}])
    assert engine.query("SELECT %s AS a", (1,)) == [{"a": 1}, {"a": 2}]
    assert connection.statement == ("SELECT %s AS a", (1,))
    assert connection.closed


def test_a_statement_without_rows_gives_none(connected):
    engine, connection, _ = connected(None)
    assert engine.query("CHECKPOINT") == []
    # no parameters: a percent sign in the statement is one
    assert connection.statement == ("CHECKPOINT", None)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("syntax error near 'a\nb'\nLINE 1: a", "syntax error near 'a"),
        ("\n went away \n", "went away"),
        ("", "OperationalError"),
    ],
)
def test_what_the_server_says_is_one_line(connected, said, line):
    engine, connection, driver = connected()
    numbered = (1064, said) if driver is pymysql else (said,)
    connection.answer = driver.OperationalError(*numbered)
    with pytest.raises(EngineError) as raised:
        engine.query("SELEKT")
    assert str(raised.value) == f"{engine.name}: {line}"
    assert connection.closed


def test_a_server_that_hangs_does_not_hang_its_client(monkeypatch):
    """The kernel still accepts connections for a process that is stopped."""
    monkeypatch.setattr(base, "_SILENT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        endpoint = Endpoint(host="127.0.0.1", port=hung.getsockname()[1], user="u", password="p")
        with pytest.raises(EngineError, match="timed out"):
            ENGINES["mariadb"](endpoint).query("SELECT 1")


#: Codes of the requests for encryption, which come before the startup (protocol 3.0 of PostgreSQL).
ENCRYPTIONS = (80877103, 80877104)


def greet(server: socket.socket) -> None:
    """Take a client of PostgreSQL, and answer none of its statements until it leaves."""

    def message(kind: bytes, content: bytes) -> bytes:
        return kind + struct.pack("!i", 4 + len(content)) + content

    client, _ = server.accept()
    with client:
        while struct.unpack("!ii", client.recv(4096)[:8])[1] in ENCRYPTIONS:
            client.sendall(b"N")
        client.sendall(
            message(b"R", struct.pack("!i", 0))  # AuthenticationOk
            + message(b"S", b"server_version\x0015.18\x00")
            + message(b"S", b"client_encoding\x00UTF8\x00")
            + message(b"K", struct.pack("!ii", 7, 1))  # BackendKeyData
            + message(b"Z", b"I")  # ReadyForQuery
        )
        while client.recv(4096):
            pass


def test_a_server_that_hangs_in_a_statement_does_not_hang_its_client(monkeypatch):
    monkeypatch.setattr(base, "_SILENT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        answering = threading.Thread(target=greet, args=(hung,))
        answering.start()
        endpoint = Endpoint(host="127.0.0.1", port=hung.getsockname()[1], user="u", password="p")
        with pytest.raises(EngineError, match="postgres: timed out after"):
            ENGINES["postgres"](endpoint).query("SELECT 1")
        answering.join()  # the client has closed its connection
