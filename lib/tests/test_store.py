"""The store: schema versions, whole runs or none, and exports that are as good as the store."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest
from benchlab.errors import StoreError
from benchlab.store import RUN_TABLES, SCHEMA_VERSION, ingest, open_any, open_store


@pytest.fixture
def store(checkout, curves, close_run):
    """A store with a run that counts, a failed one and one of another engine."""
    close_run(trial=curves(engines=["postgres"])[0].trials[0])
    close_run("failed", "it died", trial=curves(engines=["postgres"])[0].trials[1])
    close_run(trial=curves(engines=["oceanbase"])[0].trials[0])
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as opened:
        yield opened


def everything(store) -> dict[str, list[tuple]]:
    return {name: store.sql(f'FROM "{name}" ORDER BY ALL').rows() for name in RUN_TABLES}


@pytest.mark.parametrize(
    ("version", "todo"),
    [(SCHEMA_VERSION + 1, "upgrade benchlab"), (SCHEMA_VERSION - 1, "benchlab ingest --rebuild")],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_of_another_schema_is_refused_untouched(tmp_path, version, todo, read_only):
    path = tmp_path / "benchlab.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE meta (schema_version INTEGER)")
        connection.execute("INSERT INTO meta VALUES (?)", [version])
    before = path.read_bytes()
    with pytest.raises(StoreError, match=todo):
        open_store(path, read_only)
    assert path.read_bytes() == before
    # and it is not left open: rebuilding replaces it
    duckdb.connect(str(path)).close()


def foreign(*statements: str):
    def make(path: Path) -> None:
        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)

    return make


def sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE meta (schema_version INTEGER)")


# what lies in the store's place, and what the line must name
NO_STORES = {
    "text": (lambda path: path.write_text("not a database, but long enough\n" * 999), "no DuckDB"),
    "short text": (lambda path: path.write_text("no"), "no DuckDB file"),
    "nothing": (Path.touch, "no DuckDB file"),
    "SQLite": (sqlite, "no DuckDB file"),
    "another's tables": (foreign("CREATE TABLE t (a INTEGER)"), "not benchlab's"),
    "another's view": (foreign("CREATE VIEW v AS SELECT 1"), "not benchlab's"),
    "another's schema": (
        foreign("CREATE SCHEMA s", "CREATE TABLE s.t (a INTEGER)"),
        "not benchlab's",
    ),
    "another's meta": (foreign("CREATE TABLE meta (version INTEGER)"), "not benchlab's"),
    "meta without a row": (foreign("CREATE TABLE meta (schema_version INTEGER)"), "not benchlab's"),
    "a version that is none": (
        foreign("CREATE TABLE meta AS SELECT 'one' AS schema_version"),
        "not benchlab's",
    ),
}


@pytest.mark.parametrize("what", NO_STORES)
@pytest.mark.parametrize("read_only", [True, False])
def test_what_is_no_store_is_said_so_and_left_as_it_is(tmp_path, what, read_only):
    make, named = NO_STORES[what]
    path = tmp_path / "benchlab.duckdb"
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreError) as raised:
        open_store(path, read_only)
    message = str(raised.value)
    assert message.startswith(f"{path} is ")
    assert named in message
    assert "move it away" in message
    assert "\n" not in message
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_missing_is_said_so_and_not_made(tmp_path):
    with pytest.raises(StoreError, match="no store at"):
        open_any(tmp_path / "missing.duckdb")
    with pytest.raises(StoreError, match="not a folder that `benchlab export` wrote"):
        open_any(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_store_whose_making_broke_off_is_made_again(tmp_path, monkeypatch):
    path = tmp_path / "benchlab.duckdb"
    with monkeypatch.context() as patch:
        patch.setattr("benchlab.store.database.SCHEMA_VERSION", "no number")
        with pytest.raises(duckdb.Error):
            open_store(path)
    with open_store(path) as opened:
        assert opened.run_ids() == set()


def test_a_run_is_added_whole_or_not_at_all(checkout, curves, close_run, store):
    before = everything(store)
    record = close_run(trial=curves()[1].trials[0])
    rows = ingest.rows(checkout.raw / record.run_id)
    bad = {
        "a value that is missing": {**rows, "run": rows["run"].drop("engine")},
        "a column that there is not": {
            **rows,
            "run": rows["run"].with_columns(colour=pl.lit("red")),
        },
        "a status that there is not": {
            **rows,
            "run": rows["run"].with_columns(status=pl.lit("fine")),
        },
        "a table that there is not": {**rows, "colours": rows["run"]},
    }
    for what, tables in bad.items():
        with pytest.raises(StoreError):
            store.add(tables)
        assert everything(store) == before, what
    store.add(rows)
    after = everything(store)
    assert after != before
    with pytest.raises(StoreError, match="run"):
        store.add(rows)
    assert everything(store) == after


def test_an_export_holds_the_same_rows(store, tmp_path):
    folder = tmp_path / "it's an export"
    store.export(folder)
    with open_any(folder) as exported:
        assert everything(exported) == everything(store)
        assert exported.runs().schema == store.runs().schema
    # partitioned as Hive does, so that others read it in place
    assert {path.name for path in folder.glob("run/study=*/*")} == {
        "engine=postgres",
        "engine=oceanbase",
    }
    seen = pl.read_parquet(folder / "os_sample", hive_partitioning=True)
    assert seen.filter(engine="oceanbase").height == len(
        store.sql("SELECT 1 FROM os_sample JOIN run USING (run_id) WHERE engine = 'oceanbase'")
    )
    # an export of another schema is refused, not read in part
    (odd,) = (folder / "run").glob("*/engine=oceanbase/*")
    pl.read_parquet(odd).drop("tps").write_parquet(odd)
    for path in (folder / "run").glob("*/engine=postgres/*"):
        path.unlink()
    with pytest.raises(StoreError, match=r"run: .*tps"):
        open_any(folder)


def test_an_export_of_before_a_column_was_added_has_nulls_in_it(store, tmp_path):
    store.export(tmp_path)
    for path in tmp_path.glob("attribution/**/*.parquet"):
        pl.read_parquet(path).drop("saturation", "share", "confidence").write_parquet(path)
    with open_any(tmp_path) as exported:
        found = exported.sql("FROM attribution")
        assert found.schema == store.sql("FROM attribution").schema
        assert found.height == store.sql("FROM attribution").height > 0
        assert found["share"].is_null().all()
        assert not found["evidence"].is_null().any()


def test_an_export_of_the_first_schema_opens(store, tmp_path):
    """It knows of no interventions: none of its runs had one."""
    folder = tmp_path / "export"
    store.export(folder)
    for path in (folder / "run").rglob("*.parquet"):
        pl.read_parquet(path).drop("intervention").write_parquet(path)
    assert not list(folder.glob("elasticity/**/*.parquet"))
    with open_any(folder) as exported:
        assert everything(exported) == everything(store)
        assert exported.runs(intervention=None).height == 3


def test_runs_are_filtered_and_in_the_order_of_time(store):
    runs = store.runs()
    assert runs["run_id"].to_list() == sorted(runs["run_id"])
    assert runs["started"].is_sorted()
    assert runs["started"].dtype.time_zone is not None
    assert all(span >= timedelta(0) for span in runs["ended"] - runs["started"])
    assert store.runs(engine="postgres", status="ok").height == 1
    assert store.runs(status="failed")["error"].to_list() == ["it died"]
    assert store.runs(error=None)["status"].to_list() == ["ok", "ok"]
    assert store.runs(engine="nosuch").is_empty()
    with pytest.raises(StoreError, match="colour"):
        store.runs(colour="red")
