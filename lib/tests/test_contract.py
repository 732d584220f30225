"""The contract of an engine, held against the running server: role, agent and module together.

A new engine inherits :class:`EngineContract` and brings the few statements that are its own.
"""

import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import polars as pl
import pytest
from benchlab.engines import ENGINES
from benchlab.engines.base import Ask
from benchlab.engines.postgres import LOG_CALLS
from benchlab.engines.waits import Wait
from benchlab.errors import EngineError
from benchlab.observers import metrics
from benchlab.plan import Point, Trial
from benchlab.run import dataset, trial
from benchlab.run.trial import run_trial
from benchlab.store import ingest
from benchlab.study import Workload
from benchlab.target.session import Session
from benchlab.workloads import tables_of
from benchlab.workloads.spec_tree.dataset import SpecTree
from conftest import EVERY_ENGINE, tidb_server, wait_for

pytestmark = pytest.mark.machine


class EngineContract:
    """What benchlab rests on in every engine."""

    engine: ClassVar[str]
    #: Setting → statements that change it behind the configuration's back.
    override: ClassVar[tuple[str, list[str]]]
    #: A counter that grows with what is written.
    written: ClassVar[str]
    #: What ends a cycle of background work at once; none: any change counts as a part of one.
    cycle: ClassVar[str | None] = None

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, machine) -> Session:
        """The engine with the small dataset, running."""
        machine.up()
        session = machine.session(cls.engine)
        point = cls.point(machine)
        kept = machine.root / "answers"
        dataset.ensure(session, point, "tuned", kept, on_step=lambda text: None)
        session.cold("tuned", restore=point.dataset_key)
        yield session
        session.stop()

    @classmethod
    def point(cls, machine, variant: str = "tuned") -> Point:
        """A point of the small study of every engine."""
        (batch,) = machine.plan(EVERY_ENGINE, engines=[cls.engine], variants=[variant])
        return batch.trials[0].point

    def counters(self, session: Session) -> dict[str, float]:
        """What a run keeps of the server's counters."""
        return session.engine.counters()

    def ones(self, session: Session) -> int:
        """How many rows have k = -1, which sysbench never draws."""
        return session.engine.query("SELECT COUNT(*) AS n FROM sbtest1 WHERE k = -1")[0]["n"]

    def status(self, session: Session) -> dict:
        """Status of the server that clients connect to."""
        return session.status(session.primary.name)

    def mark(self, session: Session, first: int, last: int) -> None:
        session.engine.query(f"UPDATE sbtest1 SET k = -1 WHERE id BETWEEN {first} AND {last}")

    def test_the_version_is_the_provisioned_one(self, session):
        version = session.engine.version()
        assert version[0].isdigit()
        assert version == session.found.version

    def test_the_dataset_is_there(self, session):
        tables = session.engine.table_bytes()
        assert {"sbtest1", "sbtest2"} <= tables.keys() == session.engine.tables()
        sizes = session.engine.sizes()
        assert 0 < sizes["table_bytes.sbtest1"] < sizes["dataset_bytes"]
        for number in (1, 2):
            rows = session.engine.query(f"SELECT COUNT(*) AS n FROM sbtest{number}")
            assert rows == [{"n": 10_000}]

    def test_what_settling_replaces_is_not_counted(self, session):
        before = session.engine.sizes()["dataset_bytes"]
        session.engine.settle()
        assert session.engine.sizes()["dataset_bytes"] == pytest.approx(before, rel=0.1)

    def test_prewarming_changes_nothing(self, session, machine):
        session.engine.prewarm(self.point(machine).dataset)
        assert self.ones(session) == 0

    def test_counters_are_numbers_and_grow_with_what_is_written(self, session):
        before = self.counters(session)
        assert before
        assert {type(value) for value in before.values()} == {float}
        session.engine.query("UPDATE sbtest2 SET k = k + 1")
        # a server may count a statement only when its connection has gone
        wait_for(
            lambda: self.counters(session)[self.written] > before[self.written],
            f"{self.written} to grow",
        )
        assert self.counters(session).keys() == before.keys()

    def test_cycles_of_background_work_are_counted(self, session):
        engine = session.engine
        with engine.asking() as ask:
            before = engine.background_cycles(ask, session.metrics)
            assert before >= 0

            def counted() -> bool:
                engine.query("UPDATE sbtest2 SET k = k + 1")
                if self.cycle:
                    engine.query(self.cycle)
                # seen through one connection that stays open
                return engine.background_cycles(ask, session.metrics) > before

            # again and again: OceanBase starts its count anew within seconds of its own start
            wait_for(counted, "a cycle to be counted")

    def test_own_sessions_are_not_seen(self, session):
        engine = session.engine
        load = type(engine)(engine.endpoint, lambda: engine.reached)

        def idle(ask: Ask) -> int:
            found = [engine.wait(row) for row in engine.sample_sessions(ask)]
            return sum(one[2] for one in found if one and one[0] == Wait.CLIENT)

        with engine.asking() as ask, engine.asking() as own, load.asking() as other:
            own("SELECT 1")
            other("SELECT 1")
            wait_for(lambda: idle(ask) == 1, "the session of the load alone")

    def test_what_sessions_wait_for_is_seen(self, session):
        engine = session.engine
        load = type(engine)(engine.endpoint, lambda: engine.reached)
        with engine.asking() as ask, load.asking() as other, load.asking() as third:
            other("SELECT 1")

            def seen() -> list:
                return [found for row in engine.sample_sessions(ask) if (found := engine.wait(row))]

            # the other session waits for its client
            wait_for(lambda: any(kind == Wait.CLIENT for kind, _, _ in seen()), "an idle session")
            assert all(name and sessions > 0 for _, name, sessions in seen())
            # one of two that change the same row waits for the other, until that is reported
            for one in (other, third):
                one("BEGIN")
            other("UPDATE sbtest1 SET k = k + 1 WHERE id = 1")
            with ThreadPoolExecutor(max_workers=1) as beside:
                blocked = beside.submit(third, "UPDATE sbtest1 SET k = k + 1 WHERE id = 1")
                # InnoDB looks at its transactions anew only a tenth of a second after a query
                wait_for(lambda: any(kind == Wait.LOCK for kind, _, _ in seen()), "a lock", 0.2)
                other("ROLLBACK")
                blocked.result()
            third("ROLLBACK")

    @pytest.mark.parametrize(
        "sql", ["SELECT * FROM nosuchtable", "SELEKT", "SELECT 1 / 'a\nb' FROM nosuchtable"]
    )
    def test_a_refused_query_is_one_line(self, session, sql):
        with pytest.raises(EngineError) as raised:
            session.engine.query(sql)
        assert str(raised.value).startswith(f"{session.engine.name}: ")
        assert "\n" not in str(raised.value)

    def test_a_setting_that_did_not_take_effect_is_seen(self, session, machine):
        requested = self.point(machine).settings
        name, statements = self.override
        assert name in requested
        for sql in statements:
            session.engine.query(sql)

        def missed() -> set[str]:
            found = session.engine.settings(requested | {"nosuchsetting": 1})
            return {setting.name for setting in found if not setting.took_effect}

        wait_for(lambda: missed() == {name, "nosuchsetting"}, f"{name} to differ")

    def test_data_outlives_a_restart_and_a_snapshot_brings_it_back(self, session):
        key = f"contract-{os.getpid()}"
        self.mark(session, 1, 10)
        first = self.status(session)["pid"]
        session.stop()
        assert not self.status(session)["listening"]
        with pytest.raises(EngineError) as raised:
            self.ones(session)
        assert "\n" not in str(raised.value)
        with pytest.raises(EngineError) as raised:
            session.cold("tuned", restore=key)
        assert f": benchlab-agent: engine {self.engine} has no snapshot " in str(raised.value)
        session.snapshot(key)
        assert key in session.snapshots()
        session.cold("tuned")
        second = self.status(session)["pid"]
        assert self.ones(session) == 10
        self.mark(session, 11, 30)
        assert self.ones(session) == 30
        # from the running server
        assert session.cold("tuned", restore=key)[session.primary.name]["was_running"]
        assert self.ones(session) == 10
        assert len({first, second, self.status(session)["pid"]}) == 3

    @pytest.mark.parametrize("variant", ["default", "tuned"])
    def test_every_setting_of_a_variant_takes_effect(self, session, machine, variant):
        point = self.point(machine, variant)
        session.cold(variant, restore=self.point(machine).dataset_key)
        assert self.status(session)["variant"] == variant
        session.engine.tune(point.settings)
        found = session.engine.settings(point.settings)
        requested = [setting for setting in found if setting.requested is not None]
        assert [setting.name for setting in requested] == list(point.settings)
        assert [setting for setting in found if not setting.took_effect] == []
        known = {setting.name for setting in found if setting.effective is not None}
        assert known.issuperset(session.engine.durability_settings)
        # and nothing is left of the other variant
        other = self.point(machine, "default" if variant == "tuned" else "tuned").settings
        differing = {
            name: value for name, value in other.items() if point.settings.get(name) != value
        }
        found = session.engine.settings(differing)
        assert not any(one.took_effect for one in found if one.requested is not None)

    def test_a_port_in_use_is_reported_with_its_holder(self, session):
        session.stop()
        with (
            socket.create_server(("127.0.0.1", session.found.port)),
            pytest.raises(EngineError) as raised,
        ):
            session.cold("default")
        assert f"port {session.found.port} is in use by pid " in str(raised.value)
        assert "\n" not in str(raised.value)
        assert not self.status(session)["running"]


class RecursiveQueryContract:
    """What the study of the product catalogues rests on, in the engines that it compares."""

    @pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
    def test_the_recursive_query_is_loaded_checked_explained_and_run(
        self, session, machine, tmp_path, partitioned
    ):
        workload = Workload(driver="sysbench", script="spec_tree", writes=False)
        changes = {
            "dataset": SpecTree(operators=2, entities=500, revisions=50, partitioned=partitioned),
            "workload": workload,
            "dataset_reset": "none",
        }
        point = self.point(machine).model_copy(update=changes)
        machine.up()
        dataset.ensure(session, point, "tuned", tmp_path / "answers", on_step=lambda text: None)
        assert not (tmp_path / "answers").exists()  # every answer was as it should be
        one = Trial(point=point, number=1, profile="smoke")
        record = run_trial(session, one, tmp_path, restore=True, before_load=lambda: None).close()
        assert record.error is None
        found = ingest.rows(tmp_path / record.run_id)
        assert found["run"]["transactions"].item() > 0
        sizes = dict(found["engine_counter"].select("name", "at_begin").iter_rows())
        assert sizes["data_dir_bytes"] > 1e6
        assert found["run"]["queries"].item() == found["run"]["transactions"].item()
        accesses = session.engine.accesses(found["query_plan"]["plan"].item())
        assert len(accesses) == 2  # the two tables, each once
        assert all(one.rows >= one.loops > 0 for one in accesses)
        if session.engine.protocol == "mysql":  # PostgreSQL has no hints
            hinted = workload.model_copy(update={"options": {"hint": "IGNORE INDEX (PRIMARY)"}})
            query = tables_of(point.dataset).example_query(session.engine, hinted)
            scanned = session.engine.accesses(session.engine.explain(query))
            assert [one.index for one in scanned if one.rows > 500] == [None]


class LogContract:
    """What PostgreSQL from 14 on counts of the calls on its log, wherever a version has it."""

    def test_durable_writes_are_counted_and_timed(self, session, machine):
        def counted(what: str) -> float:
            counters = session.engine.counters()
            return sum(counters.get(name, 0.0) for name in LOG_CALLS[what])

        session.cold("tuned", restore=self.point(machine).dataset_key)
        before = {what: counted(what) for what in LOG_CALLS}
        with session.engine.asking() as ask:
            ask("SET track_wal_io_timing = on")
            for number in range(1, 21):
                ask(f"UPDATE sbtest2 SET k = k + 1 WHERE id = {number}")
        for what in ("writes", "syncs"):
            wait_for(lambda what=what: counted(what) >= before[what] + 20, f"20 {what}")
        assert counted("ms") > before["ms"]


class TestPostgres(LogContract, RecursiveQueryContract, EngineContract):
    engine = "postgres"
    override = (
        "max_wal_size",
        ["ALTER SYSTEM SET max_wal_size = '48MB'", "SELECT pg_reload_conf()"],
    )
    written = "pg_stat_wal.wal_bytes"
    cycle = "CHECKPOINT"

    def test_a_commit_waits_for_a_log_on_a_slow_disk(self, session, machine):
        session.cold("slow_log", restore=self.point(machine).dataset_key)
        took = []
        with session.engine.asking() as ask:
            for row in range(1, 11):
                began = time.monotonic()
                ask(f"UPDATE sbtest1 SET k = -1 WHERE id = {row}")
                took.append(time.monotonic() - began)
        assert min(took) >= 0.03
        session.cold("tuned")
        assert self.ones(session) == 10


class TestPostgresOfAnExactVersion(RecursiveQueryContract, EngineContract):
    engine = "postgres13"
    override = TestPostgres.override
    written = "pg_stat_database.tup_updated"  # it has no pg_stat_wal yet
    cycle = TestPostgres.cycle

    def test_it_is_that_version_and_not_the_distributions(self, session, machine):
        assert session.engine.version() == "13.4"
        packaged = machine.session("postgres").found.version
        assert int(packaged.partition(".")[0]) >= 15


class TestPostgresOfALaterVersion(LogContract, EngineContract):
    """Its calls on the log are in pg_stat_io, its checkpoints in pg_stat_checkpointer."""

    engine = "postgres18"
    override = TestPostgres.override
    written = TestPostgres.written
    cycle = TestPostgres.cycle

    def test_its_pages_carry_checksums_only_if_asked_for_as_in_earlier_versions(self, session):
        session.cold("tuned")
        assert session.engine.query("SHOW data_checksums") == [{"data_checksums": "off"}]


class TestMySQL(RecursiveQueryContract, EngineContract):
    engine = "mysql"
    override = ("innodb_lock_wait_timeout", ["SET GLOBAL innodb_lock_wait_timeout = 21"])
    written = "status.Innodb_os_log_written"


class TestMariaDB(RecursiveQueryContract, EngineContract):
    engine = "mariadb"
    override = ("innodb_lock_wait_timeout", ["SET GLOBAL innodb_lock_wait_timeout = 21"])
    written = "status.Innodb_os_log_written"

    def test_a_server_without_mysqls_newer_plans_explains_without_running(self, session, machine):
        """MariaDB does not know the variable either, as MySQL before 8.3."""
        session.cold("tuned", restore=self.point(machine).dataset_key)
        mine = session.engine
        server = ENGINES["mysql"](mine.endpoint, lambda: mine.reached)
        plan = server.explain("SELECT COUNT(*) FROM sbtest1")
        assert "query_block" in json.loads(plan)
        assert server.accesses(plan) == []


class TestOceanBase(EngineContract):
    engine = "oceanbase"
    override = ("freeze_trigger_percentage", ["ALTER SYSTEM SET freeze_trigger_percentage = 35"])
    written = "V$OB_LOG_STAT.END_LSN_bytes"
    cycle = "ALTER SYSTEM MINOR FREEZE"


@pytest.mark.skipif(not tidb_server(), reason="no TiDB: BENCHLAB_TIDB names none")
class TestTiDB(EngineContract):
    engine = "tidb"
    override = ("tidb_table_cache_lease", ["SET GLOBAL tidb_table_cache_lease = 7"])
    written = "bytes_written"

    def counters(self, session: Session) -> dict[str, float]:
        """The server's, and what its store wrote by the pages of its services."""
        (services,) = session.metrics().values()
        printed = pl.concat(metrics.counters(name, "", page) for name, page in services.items())
        of_store = pl.col("name").str.contains(self.written)
        written = printed.filter(of_store)["at_end"].sum()
        return session.engine.counters() | {self.written: written}

    def test_cycles_of_background_work_are_counted(self, session):
        session.cold("tuned")
        if session.engine.version().endswith("unistore"):
            with session.engine.asking() as ask:
                assert session.engine.background_cycles(ask, session.metrics) is None
        else:
            super().test_cycles_of_background_work_are_counted(session)


@pytest.mark.skipif(bool(tidb_server()), reason="TiDB is available here")
def test_an_engine_that_cannot_be_had_is_refused_with_the_reason(machine):
    session = machine.session("tidb")
    point = machine.plan(engines=["tidb"])[0].trials[0].point
    reason = trial.refusal(session, point)
    assert "/nonexistent/tidb-server: no tidb-server that prints its version" in reason
    with pytest.raises(EngineError) as raised:
        session.cold("default")
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_engine_is_tested_here():
    tested = {cls.engine for cls in EngineContract.__subclasses__()}
    assert tested == set(ENGINES) | {"postgres13", "postgres18"}
