"""The store: schema versions, whole runs or none, and exports that are as good as the store."""

from datetime import timedelta

import duckdb
import polars as pl
import pytest
from benchlab import ingest
from benchlab.errors import StoreError
from benchlab.store import RUN_TABLES, SCHEMA_VERSION, open_any, open_store


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


def test_what_is_no_store_is_said_so(tmp_path):
    (tmp_path / "text.duckdb").write_text(
        "not a database, but long enough to be taken for one\n" * 99
    )
    with pytest.raises(StoreError, match=r"text\.duckdb cannot be opened"):
        open_any(tmp_path / "text.duckdb")
    with pytest.raises(StoreError, match="no store at"):
        open_any(tmp_path / "missing.duckdb")
    with pytest.raises(StoreError, match="not a folder that `benchlab export` wrote"):
        open_any(tmp_path)
    assert not (tmp_path / "missing.duckdb").exists()


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
