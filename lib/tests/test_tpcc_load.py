"""TPC-C's load on real servers: the rows that were generated, whole warehouses, and no others."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest
from benchlab.engines import Engine
from benchlab.errors import DatasetError, EngineError
from benchlab.study import DatasetModel
from benchlab.target.session import Session
from benchlab.workloads import tables_of
from benchlab.workloads.tpcc import load, population, rules, schema, verify
from benchlab.workloads.tpcc.dataset import Tpcc
from benchlab.workloads.tpcc.population import Scale
from conftest import EVERY_ENGINE, tidb_server, wait_for
from test_tpcc_conditions import violations
from test_tpcc_population import NOON

pytestmark = pytest.mark.machine

TINY = Scale(items=200, districts=2, customers=30, undelivered=9)
DATASET = Tpcc(warehouses=6, seed=11)

#: Columns with the time of the load.
_TIMES = ("c_since", "h_date", "o_entry_d", "ol_delivery_d")


class Stop(Exception):
    """What ends a load from outside."""


def rows(engine: Engine) -> dict[str, list[tuple]]:
    """All rows of all tables without times, sorted by what they look like: a null has no order."""
    found = {}
    for name, table in schema.TABLES.items():
        columns = [column for column in table.columns if column not in _TIMES]
        answered = engine.query(f"SELECT {', '.join(columns)} FROM {name}")
        found[name] = sorted((tuple(row.values()) for row in answered), key=repr)
    return found


def generated(dataset: Tpcc) -> dict[str, list[tuple]]:
    """The same without a server."""
    c_last = rules.load_constants(dataset.seed).c_last
    frames = {"item": [population.items(dataset.seed, TINY)]}
    for w_id in range(1, dataset.warehouses + 1):
        for name, frame in population.warehouse(dataset.seed, w_id, c_last, NOON, TINY):
            frames.setdefault(name, []).append(frame)
    return {
        name: sorted(pl.concat(of_table).drop(_TIMES, strict=False).rows(), key=repr)
        for name, of_table in frames.items()
    }


def load_tiny(
    engine: Engine,
    dataset: DatasetModel = DATASET,
    free_bytes: int | None = None,
    on_progress: load.Progress = lambda done, of: None,
) -> None:
    load.load(engine, dataset, 2, free_bytes, on_progress, TINY)


class LoadContract:
    """What a load does on every engine."""

    name: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, machine) -> Iterator[Session]:
        """The engine, running, without any tables."""
        machine.up()
        session = machine.session(cls.name)
        (batch,) = machine.plan(EVERY_ENGINE, engines=[cls.name], variants=["tuned"])
        session.cold("tuned", restore=f"empty-{batch.trials[0].point.init_key}")
        yield session
        session.stop()

    @pytest.fixture
    def engine(self, session) -> Iterator[Engine]:
        yield session.engine
        for table in session.engine.tables():
            session.engine.query(f"DROP TABLE {table}")

    def test_the_rows_are_those_that_were_generated(self, engine):
        steps = []
        load_tiny(engine, on_progress=lambda done, of: steps.append((done, of)))
        assert [of for _, of in steps] == [6] * 7
        assert steps == sorted(steps)
        assert steps[-1] == (6, 6)
        found = rows(engine)
        for name, of_table in generated(DATASET).items():
            assert found[name] == of_table
        with engine.asking() as ask:
            assert violations(ask, scale=TINY) == []
            assert load._made(engine) == load.made_with(DATASET)
            c_load = rules.load_constants(11)
            failed = [one for one in verify.outcomes(ask, DATASET, c_load, TINY) if not one.passed]
            assert failed == []
            ask("UPDATE district SET d_ytd = d_ytd + 0.01 WHERE d_w_id = 4 AND d_id = 2")
            broken = violations(ask, scale=TINY)
            assert [(one.condition.number, one.rows[0]["w_id"]) for one in broken] == [
                (1, 4),
                (9, 4),
            ]
        # keys and indexes
        with pytest.raises(EngineError):
            engine.query("INSERT INTO tpcc_loaded (w_id) VALUES (3)")
        for table in ("item", "stock", "order_line", "customer"):
            with pytest.raises(EngineError):
                engine.query(f"INSERT INTO {table} SELECT * FROM {table}")
        assert {"customer_by_name", "orders_by_customer"} <= load._indexes(engine)

    def test_times_are_that_of_the_load_in_utc(self, engine):
        load_tiny(engine)
        for column, table in (("c_since", "customer"), ("o_entry_d", "orders")):
            (found,) = engine.query(f"SELECT MIN({column}) AS a, MAX({column}) AS b FROM {table}")
            assert found["a"] <= found["b"]
            assert found["a"].microsecond == 0
        (same,) = engine.query(
            "SELECT COUNT(*) AS n FROM orders JOIN order_line ON ol_w_id = o_w_id"
            " AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d <> o_entry_d"
        )
        assert same["n"] == 0

    def test_a_stop_waits_for_no_other_warehouse(self, engine):
        many = Tpcc(warehouses=40, seed=11)

        def stop(done: int, of: int) -> None:
            raise Stop

        def first_missing() -> list[int]:
            there = {row["w_id"] for row in engine.query("SELECT w_id FROM tpcc_loaded")}
            missing = min(set(range(41)) - there)
            try:
                with engine.transaction() as connection:
                    connection.cursor().execute(mark.format(missing))
                    connection.rollback()
            except EngineError:  # the server was still to commit what the stop had left
                return []
            return [missing]

        mark = "INSERT INTO tpcc_loaded (w_id) VALUES ({})"
        with pytest.raises(Stop):
            load_tiny(engine, many, on_progress=stop)
        (held,) = wait_for(first_missing, "the end of what the stop had left")
        with pytest.raises(Stop), engine.transaction() as connection:
            # another's lock on the mark, which is not there when the stop has undone it
            connection.cursor().execute(mark.format(held))
            load_tiny(engine, many, on_progress=stop)
        children = multiprocessing.active_children()
        assert not [one.pid for one in children if Path(f"/proc/{one.pid}").exists()]

    @pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
    def test_a_load_that_ended_early_goes_on_where_it_was(self, engine, killed):
        many = Tpcc(warehouses=40, seed=11)  # more than are done before it ends

        def end(done: int, of: int) -> None:
            if not killed:
                raise Stop
            for process in multiprocessing.active_children():
                process.kill()

        with pytest.raises(EngineError if killed else Stop) as raised:
            load_tiny(engine, many, on_progress=end)
        assert not killed or "a process that loaded it was killed" in str(raised.value)
        there = {row["w_id"] for row in engine.query("SELECT w_id FROM tpcc_loaded")}
        assert 1 <= len(there) < 41
        self.leave_rows(engine, there)
        begun = {
            row["w_id"]: row["at_"]
            for row in engine.query(
                "SELECT o_w_id AS w_id, MIN(o_entry_d) AS at_ FROM orders GROUP BY o_w_id"
            )
            if row["w_id"] in there
        }
        steps = []
        load_tiny(engine, many, on_progress=lambda done, of: steps.append(done))
        assert len(steps) == 41 - len(there)
        assert rows(engine) == generated(many)
        # what was there was not made anew
        for w_id, at in begun.items():
            (row,) = engine.query(f"SELECT MIN(o_entry_d) AS at_ FROM orders WHERE o_w_id = {w_id}")
            assert row["at_"] == at
        again = []
        load_tiny(engine, many, on_progress=lambda done, of: again.append(done))
        assert again == []

    def leave_rows(self, engine: Engine, loaded: set[int]) -> None:
        """Leave what an engine may have of a warehouse that is not whole: by default nothing."""

    def test_a_load_of_something_else_is_refused_and_changes_nothing(self, engine):
        load_tiny(engine, Tpcc(warehouses=1, seed=11))
        before = rows(engine)
        for other in (Tpcc(warehouses=2, seed=11), Tpcc(warehouses=1, seed=12)):
            with pytest.raises(DatasetError) as raised:
                load_tiny(engine, other)
            assert "has 1 warehouses of seed 11 (C-Load " in str(raised.value)
            assert "drop its tables to load anew" in str(raised.value)
        assert rows(engine) == before

    def test_too_little_space_is_told_before_anything_is_made(self, engine):
        needed = load.estimated_bytes(engine.name, 7)
        with pytest.raises(DatasetError) as raised:
            load_tiny(engine, free_bytes=needed - 1)
        assert (
            f": 6 warehouses need about {needed / 1e9:.1f} GB of the data directory's disk"
            in str(raised.value)
        )
        assert engine.tables() == set()

    def test_a_refused_row_fails_the_load(self, engine):
        load_tiny(engine, Tpcc(warehouses=1, seed=11))
        twice = population.items(11, TINY)
        with pytest.raises(EngineError), engine.transaction() as connection:
            load.copy(engine, connection, "item", twice)
        (count,) = engine.query("SELECT COUNT(*) AS n FROM item")
        assert count["n"] == len(twice)


class TestPostgres(LoadContract):
    name = "postgres"

    def test_a_warehouse_of_the_standards_size_is_loaded_and_checked(
        self, session, engine, tmp_path
    ):
        tables = tables_of(Tpcc(warehouses=1, seed=3))
        tables.load(session, 2)
        session.settle()
        estimated = load.estimated_bytes("postgres", 1)
        # with the items, and the catalogue
        assert 0.8 < engine.sizes()["dataset_bytes"] / estimated < 1.6
        tables.check(engine, tmp_path / "kept.json")
        assert not (tmp_path / "kept.json").exists()
        assert [one.passed for one in tables.outcomes("consistency", engine)] == [True] * 12
        engine.query("UPDATE stock SET s_quantity = 9 WHERE s_w_id = 1")
        with pytest.raises(DatasetError, match="S_QUANTITY"):
            tables.check(engine, tmp_path / "kept.json")
        assert (tmp_path / "kept.json").exists()


class TestMySQL(LoadContract):
    name = "mysql"


class TestMariaDB(LoadContract):
    name = "mariadb"


class CommitsInBetween(LoadContract):
    """An engine that may have kept a part of a warehouse."""

    def leave_rows(self, engine: Engine, loaded: set[int]) -> None:
        missing = next(one for one in range(1, 41) if one not in loaded)
        for name, frame in population.warehouse(11, missing, 0, NOON, TINY):
            if name in ("warehouse", "history", "stock"):
                engine.query(f"DELETE FROM {name} WHERE {schema.WAREHOUSE_OF[name]} = {missing}")
                with engine.transaction() as connection:
                    load.copy(engine, connection, name, frame)


class TestOceanBase(CommitsInBetween):
    name = "oceanbase"

    def test_a_refused_row_fails_the_load(self, engine):
        """It says that it took rows which it left out, so only the check of the population counts."""
        load_tiny(engine, Tpcc(warehouses=1, seed=11))
        twice = population.items(11, TINY)
        with engine.transaction() as connection:
            load.copy(engine, connection, "item", twice)
        (count,) = engine.query("SELECT COUNT(*) AS n FROM item")
        assert count["n"] == len(twice)


@pytest.mark.skipif(not tidb_server(), reason="no TiDB: BENCHLAB_TIDB names none")
class TestTiDB(CommitsInBetween):
    name = "tidb"
