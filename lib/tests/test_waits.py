"""What sessions wait for: the capture, and how each engine's names are folded (recorded answers)."""

import json
import threading
from contextlib import contextmanager

import polars as pl
import pytest
from benchlab.engines import ENGINES, Endpoint
from benchlab.engines.base import Engine
from benchlab.engines.mariadb import MariaDB
from benchlab.engines.mysql import MySQL
from benchlab.engines.oceanbase import OceanBase
from benchlab.engines.postgres import Postgres
from benchlab.engines.waits import Wait
from benchlab.errors import EngineError, ParseError
from benchlab.observers import sessions
from benchlab.observers import sessions as parse_waits

CLIENT = "client backend"

# rows as PostgreSQL 15.18 gave them under sysbench: hot row, insert, point_select, cold reads
POSTGRES = [
    ((CLIENT, "active", "Lock", "transactionid"), Wait.LOCK),
    ((CLIENT, "active", "Lock", "tuple"), Wait.LOCK),
    ((CLIENT, "active", "LWLock", "LockManager"), Wait.LATCH),
    ((CLIENT, "active", "LWLock", "WALWrite"), Wait.LOG),
    ((CLIENT, "active", "IO", "WALSync"), Wait.LOG),
    ((CLIENT, "active", "IO", "DataFileRead"), Wait.DATA),
    ((CLIENT, "active", "IPC", "BufferIO"), Wait.DATA),
    ((CLIENT, "active", None, None), Wait.CPU),
    ((CLIENT, "idle", "Client", "ClientRead"), Wait.CLIENT),
    ((CLIENT, "idle", "IO", "DataFileRead"), Wait.CLIENT),
    ((CLIENT, "idle", None, None), Wait.CLIENT),
    (("walwriter", None, "LWLock", "WALWrite"), None),
    (("checkpointer", None, "Activity", "CheckpointerMain"), None),
]
# 13.4 under spec_tree
POSTGRES += [((CLIENT, "active", "LWLock", "BufferIO"), Wait.DATA)]
# 15.20 with parallel workers, for a count with a pattern and a join
POSTGRES += [
    ((CLIENT, "active", "IPC", "ExecuteGather"), Wait.BUSY),
    ((CLIENT, "active", "IPC", "MessageQueueReceive"), Wait.BUSY),
    (("parallel worker", "active", None, None), None),
]
# and 17.5 and 18.1 under pgbench's tpcb-like, which write names otherwise
POSTGRES += [
    ((CLIENT, "active", "IO", "WalSync"), Wait.LOG),
    ((CLIENT, "active", "IPC", "BufferIo"), Wait.DATA),
    ((CLIENT, "active", "IO", "DataFileExtend"), Wait.DATA),
    ((CLIENT, "idle in transaction", "IO", "WalWrite"), Wait.CLIENT),
    (("io worker", None, "Activity", "IoWorkerMain"), None),
]

# and seekdb 1.4.0.0, the last two with writing_throttling_trigger_percentage at 5
MEMORY = {"memstore_used": 64_474_296, "memstore_limit": 536_870_912}
OCEANBASE = [
    (("Sleep", "", 0, None, "60"), Wait.CLIENT),
    (("Sleep", "ACTIVE", 0, None, "60"), Wait.CLIENT),
    (("Query", "IN_TERMINATE", 0, "INSERT", "60"), Wait.LOG),
    (("Query", "IN_TERMINATE", -6001, "UPDATE", "60"), Wait.LOG),
    (("Query", "", -6001, "UPDATE", "60"), Wait.LOCK),
    (("Query", "IMPLICIT_ACTIVE", -6001, "UPDATE", "60"), Wait.LOCK),
    (("Query", "", 0, "SELECT", "60"), Wait.BUSY),
    (("Query", "", 0, "INSERT", "5"), Wait.LIMIT),
    (("Query", "", 0, "SELECT", "5"), Wait.BUSY),
]

# MySQL 9.7.4 and MariaDB 10.11 under oltp_insert, write_only and point_select
MYSQL = [
    (("Query", "waiting for handler commit", "RUNNING"), Wait.LOG),
    (("Execute", "waiting for handler commit", None), Wait.LOG),
    (("Execute", "updating", "LOCK WAIT"), Wait.LOCK),
    (("Execute", "updating", "RUNNING"), Wait.BUSY),
    (("Execute", "System lock", "RUNNING"), Wait.BUSY),
    (("Execute", "closing tables", None), Wait.BUSY),
    (("Sleep", "", "RUNNING"), Wait.CLIENT),
    (("Sleep", "", None), Wait.CLIENT),
    (("Daemon", "Waiting on empty queue", None), None),
    (("Daemon", "Suspending", None), None),
]
MARIADB = [
    (("Query", "Updating status", None), Wait.LOG),
    (("Execute", "Commit", "RUNNING"), Wait.LOG),
    (("Execute", "Updating", "LOCK WAIT"), Wait.LOCK),
    (("Execute", "Updating", "RUNNING"), Wait.BUSY),
    (("Execute", "Writing to net", None), Wait.BUSY),
    (("Execute", "Statistics", "RUNNING"), Wait.BUSY),
    (("Sleep", "", None), Wait.CLIENT),
]


def of_postgres(row: tuple, sessions: int = 1) -> dict:
    names = ("backend_type", "state", "wait_event_type", "wait_event")
    return dict(zip(names, row, strict=True)) | {"sessions": sessions}


def of_oceanbase(row: tuple, sessions: int = 1) -> dict:
    names = ("command", "trans_state", "retry_info", "verb", "brake_percentage")
    return dict(zip(names, row, strict=True)) | MEMORY | {"sessions": sessions}


def of_innodb(row: tuple, sessions: int = 1) -> dict:
    return dict(zip(("command", "state", "trx"), row, strict=True)) | {"sessions": sessions}


@pytest.mark.parametrize(("row", "folded"), POSTGRES)
def test_postgres_names(row, folded):
    found = Postgres.wait(of_postgres(row, sessions=3))
    assert (found and found[0]) == folded
    assert found is None or (found[1] and found[2] == 3)


@pytest.mark.parametrize(("row", "folded"), OCEANBASE)
def test_oceanbase_names(row, folded):
    found = OceanBase.wait(of_oceanbase(row, sessions=3))
    assert found[0] == folded
    assert found[1]
    assert found[2] == 3


@pytest.mark.parametrize(
    ("engine", "row", "folded"),
    [(MySQL, *line) for line in MYSQL] + [(MariaDB, *line) for line in MARIADB],
)
def test_innodb_names(engine, row, folded):
    found = engine.wait(of_innodb(row, sessions=3))
    assert (found and found[0]) == folded
    assert found is None or (found[1] and found[2] == 3)


def test_every_engine_that_reports_its_waits_can_fold_them():
    for cls in ENGINES.values():
        overrides = cls.wait.__func__ is not Engine.wait.__func__
        assert overrides == bool(cls.waits_query)


def line(t: float, *sessions: dict) -> str:
    return json.dumps({"t": t, "sessions": sessions}) + "\n"


def test_a_sample_has_a_row_for_each_wait():
    text = line(
        5.5,
        of_postgres((CLIENT, "active", "IO", "WALSync"), 2),
        of_postgres((CLIENT, "idle", "Client", "ClientRead"), 3),
        of_postgres((CLIENT, "idle", None, None), 1),
        of_postgres(("walwriter", None, "LWLock", "WALWrite"), 1),
    ) + line(6.0, of_postgres((CLIENT, "active", "IO", "WALSync"), 4))
    assert parse_waits.samples(text, Postgres.wait).rows() == [
        (5.5, "log", "IO:WALSync", 2),
        (5.5, "client", "idle", 4),
        (6.0, "log", "IO:WALSync", 4),
    ]


def test_a_cut_capture_gives_its_whole_samples():
    text = line(1.0, of_postgres((CLIENT, "active", None, None))) + '{"t": 2.0, "ses'
    assert parse_waits.samples(text, Postgres.wait)["t"].to_list() == [1.0]


@pytest.mark.parametrize("text", ["hello\n", "[]\n", '{"t": 1, "sessions": [{}]}\n'])
def test_another_text_is_refused(text):
    with pytest.raises(ParseError, match="waits: line 1: "):
        parse_waits.samples(text, Postgres.wait)


def test_nothing_was_sampled():
    assert parse_waits.samples("", Postgres.wait).is_empty()
    error = json.dumps({"t": 1.0, "error": "postgres: connection refused"}) + "\n"
    assert parse_waits.samples(error, Postgres.wait).is_empty()


class Sampled(Postgres):
    """An engine that answers ``left`` times and then has gone."""

    def __init__(self, left: int):
        super().__init__(Endpoint(host="", port=0, user=""))
        self.left, self.gone = left, threading.Event()

    @contextmanager
    def asking(self):
        def ask(sql: str) -> list[dict]:
            assert sql == Postgres.waits_query.format(own="")
            self.left -= 1
            if self.left < 0:
                self.gone.set()
                raise EngineError("postgres: server closed the connection")
            return [of_postgres((CLIENT, "active", "IO", "WALSync"), 2)]

        yield ask


def test_a_lost_connection_ends_the_capture_and_is_recorded_in_it(monkeypatch):
    monkeypatch.setattr("benchlab.observers.sessions.INTERVAL_S", 0.001)
    engine = Sampled(left=3)
    sampler = sessions.poll(engine)
    assert engine.gone.wait(30)
    text = sampler.stop().decode()
    frame = parse_waits.samples(text, engine.wait)
    assert frame["t"].is_sorted()
    assert frame.drop("t").unique().rows() == [("log", "IO:WALSync", 2)]
    assert frame.height == 3
    assert json.loads(text.splitlines()[-1])["error"].endswith("closed the connection")


def test_sampling_ends_when_it_is_to():
    engine = Sampled(left=10**9)
    text = sessions.poll(engine).stop().decode()
    assert isinstance(parse_waits.samples(text, engine.wait), pl.DataFrame)
    assert isinstance(engine, Engine)
