"""The contract of an engine, held against the running server: role, agent and module together.

A new engine inherits :class:`EngineContract` and brings the few statements that are its own.
"""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
from benchlab import dataset, trial
from benchlab.engines import ENGINES
from benchlab.errors import EngineError
from benchlab.plan import Point
from benchlab.session import Session
from benchlab.waits import Wait
from conftest import wait_for

pytestmark = pytest.mark.root


class EngineContract:
    """What benchlab rests on in every engine."""

    engine: ClassVar[str]
    #: Setting → statements that change it behind the configuration's back.
    override: ClassVar[tuple[str, list[str]]]
    #: A counter that grows with what is written.
    written: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, machine) -> Session:
        """The engine with the small dataset, running."""
        machine.up()
        session = machine.session(cls.engine)
        point = cls.point(machine)
        dataset.ensure(session, point, "tuned", on_step=lambda text: None)
        session.cold("tuned", restore=point.dataset_key)
        yield session
        session.stop()

    @classmethod
    def point(cls, machine, variant: str = "tuned") -> Point:
        """A point of the small study."""
        return machine.plan(engines=[cls.engine], variants=[variant])[0].trials[0].point

    def ones(self, session: Session) -> int:
        """How many rows have k = -1, which sysbench never draws."""
        return session.engine.query("SELECT COUNT(*) AS n FROM sbtest1 WHERE k = -1")[0]["n"]

    def mark(self, session: Session, first: int, last: int) -> None:
        session.engine.query(f"UPDATE sbtest1 SET k = -1 WHERE id BETWEEN {first} AND {last}")

    def test_the_version_is_the_provisioned_one(self, session):
        version = session.engine.version()
        assert version[0].isdigit()
        assert version == session.found.version

    def test_the_dataset_is_there(self, session):
        assert session.engine.dataset_bytes() > 0
        for number in (1, 2):
            rows = session.engine.query(f"SELECT COUNT(*) AS n FROM sbtest{number}")
            assert rows == [{"n": 10_000}]

    def test_reading_in_changes_nothing(self, session, machine):
        session.engine.read_in(self.point(machine).dataset)
        assert self.ones(session) == 0

    def test_counters_are_numbers_and_grow_with_what_is_written(self, session):
        before = session.engine.counters()
        assert before
        assert {type(value) for value in before.values()} == {float}
        session.engine.query("UPDATE sbtest2 SET k = k + 1")
        # a server may count a statement only when its connection has gone
        wait_for(
            lambda: session.engine.counters()[self.written] > before[self.written],
            f"{self.written} to grow",
        )
        assert session.engine.counters().keys() == before.keys()

    def test_what_sessions_wait_for_is_seen(self, session):
        engine = session.engine
        with engine.asking() as ask, engine.asking() as other:
            other("SELECT 1")

            def seen() -> list:
                return [found for row in engine.look(ask) if (found := engine.wait(row))]

            # the other session waits for its client
            wait_for(lambda: any(kind == Wait.CLIENT for kind, _, _ in seen()), "an idle session")
            assert all(name and sessions > 0 for _, name, sessions in seen())
            # one of two that change the same row waits for the other, until that is told
            other("BEGIN")
            other("UPDATE sbtest1 SET k = k + 1 WHERE id = 1")
            with ThreadPoolExecutor(max_workers=1) as beside:
                blocked = beside.submit(engine.query, "UPDATE sbtest1 SET k = k + 1 WHERE id = 1")
                wait_for(lambda: any(kind == Wait.LOCK for kind, _, _ in seen()), "a lock")
                other("ROLLBACK")
                blocked.result()

    @pytest.mark.parametrize(
        "sql", ["SELECT * FROM nosuchtable", "SELEKT", "SELECT 1 / 'a\nb' FROM nosuchtable"]
    )
    def test_a_refused_query_is_one_line(self, session, sql):
        with pytest.raises(EngineError) as raised:
            session.engine.query(sql)
        assert str(raised.value).startswith(f"{self.engine}: ")
        assert "\n" not in str(raised.value)

    def test_a_setting_that_did_not_take_effect_is_seen(self, session, machine):
        asked = self.point(machine).settings
        name, statements = self.override
        assert name in asked
        for sql in statements:
            session.engine.query(sql)

        def missed() -> set[str]:
            found = session.engine.settings(asked | {"nosuchsetting": 1})
            return {setting.name for setting in found if not setting.took_effect}

        wait_for(lambda: missed() == {name, "nosuchsetting"}, f"{name} to differ")

    def test_data_outlives_a_restart_and_a_snapshot_brings_it_back(self, session):
        key = f"contract-{os.getpid()}"
        self.mark(session, 1, 10)
        first = session.status()["pid"]
        session.stop()
        assert not session.status()["listening"]
        with pytest.raises(EngineError) as raised:
            self.ones(session)
        assert "\n" not in str(raised.value)
        session.snapshot(key)
        assert key in session.snapshots()
        session.start("tuned")
        second = session.status()["pid"]
        assert self.ones(session) == 10
        self.mark(session, 11, 30)
        assert self.ones(session) == 30
        # from the running server
        assert session.cold("tuned", restore=key)["was_running"]
        assert self.ones(session) == 10
        assert len({first, second, session.status()["pid"]}) == 3

    @pytest.mark.parametrize("variant", ["default", "tuned"])
    def test_every_setting_of_a_variant_takes_effect(self, session, machine, variant):
        point = self.point(machine, variant)
        session.cold(variant, restore=point.dataset_key)
        assert session.status()["variant"] == variant
        found = session.engine.settings(point.settings)
        assert [setting.name for setting in found] == list(point.settings)
        assert [setting for setting in found if not setting.took_effect] == []
        # and nothing is left of the other variant
        other = self.point(machine, "default" if variant == "tuned" else "tuned").settings
        differing = {
            name: value for name, value in other.items() if point.settings.get(name) != value
        }
        found = session.engine.settings(differing)
        assert [setting for setting in found if setting.took_effect] == []

    def test_a_port_in_use_is_told_with_its_holder(self, session):
        session.stop()
        with (
            socket.create_server(("127.0.0.1", session.found.port)),
            pytest.raises(EngineError) as raised,
        ):
            session.cold("default")
        assert f"port {session.found.port} is in use by pid " in str(raised.value)
        assert "\n" not in str(raised.value)
        assert not session.status()["running"]


class TestPostgres(EngineContract):
    engine = "postgres"
    override = (
        "max_wal_size",
        ["ALTER SYSTEM SET max_wal_size = '48MB'", "SELECT pg_reload_conf()"],
    )
    written = "pg_stat_wal.wal_bytes"


class TestOceanBase(EngineContract):
    engine = "oceanbase"
    override = ("freeze_trigger_percentage", ["ALTER SYSTEM SET freeze_trigger_percentage = 35"])
    written = "V$OB_LOG_STAT.END_LSN_bytes"


def test_an_engine_that_cannot_be_had_is_refused_with_the_reason(machine):
    session = machine.session("tidb")
    point = machine.plan(engines=["tidb"])[0].trials[0].point
    reason = trial.refusal(session, point)
    assert "/nonexistent/tidb-server: no tidb-server that tells its version" in reason
    with pytest.raises(EngineError) as raised:
        session.cold("default")
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_engine_is_tested_here():
    tested = {cls.engine for cls in EngineContract.__subclasses__()}
    assert tested | {"tidb"} == set(ENGINES)
