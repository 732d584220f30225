"""The store: schema versions, whole runs or none, and exports that are as good as the store."""

import json
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from benchlab.errors import ParseError, StoreError
from benchlab.raw.files import TRANSACTIONS
from benchlab.store import (
    RUN_TABLES,
    SCHEMA_VERSION,
    STUDY_TABLES,
    ingest,
    open_any,
    open_store,
    schema,
    writer,
)
from conftest import CAPTURES
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def store(checkout, batches, close_run):
    """A store with a run that counts, a failed one and one of another engine."""
    inserts = batches(engines=["postgres"], workloads=["oltp_insert"])
    first, second, *_ = (trial for batch in inserts for trial in batch.trials)
    close_run(trial=first)
    close_run("failed", "it died", trial=second)
    close_run(trial=batches(engines=["oceanbase"])[0].trials[0])
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as opened:
        yield opened


def everything(store) -> dict[str, list[tuple]]:
    return {name: store.sql(f'FROM "{name}" ORDER BY ALL').rows() for name in RUN_TABLES}


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def of_schema(version: int) -> str:
    return json.dumps({"schema_version": version, "segments": []})


@pytest.mark.parametrize(
    ("version", "todo"),
    [(SCHEMA_VERSION + 1, "upgrade benchlab"), (SCHEMA_VERSION - 1, "benchlab ingest --rebuild")],
)
def test_a_store_of_another_schema_is_refused_untouched(tmp_path, version, todo):
    (tmp_path / "catalogue.json").write_text(of_schema(version))
    before = files(tmp_path)
    with pytest.raises(StoreError, match=todo):
        open_store(tmp_path)
    assert files(tmp_path) == before


def test_a_store_of_an_older_schema_is_rebuilt(checkout, close_run):
    close_run()
    checkout.store.mkdir(parents=True)
    (checkout.store / "catalogue.json").write_text(of_schema(SCHEMA_VERSION - 1))
    with pytest.raises(StoreError, match="is older"):
        ingest.ingest_new(checkout)
    assert ingest.rebuild(checkout).count == 1
    with open_store(checkout.store) as opened:
        assert len(opened.runs()) == 1


# what lies in the store's place, and what the line must name
NO_STORES = {
    "a file": (lambda path: path.write_text("a database?"), "no folder"),
    "another's folder": (
        lambda path: path.mkdir() or (path / "mine.parquet").touch(),
        "no store: it holds mine.parquet",
    ),
    "a catalogue that is none": (
        lambda path: path.mkdir() or (path / "catalogue.json").write_text("{}"),
        "no store: catalogue.json: schema_version: field required",
    ),
    "a catalogue that is cut": (
        lambda path: path.mkdir() or (path / "catalogue.json").write_text('{"schema_'),
        "no store: catalogue.json: invalid JSON",
    ),
    "a catalogue of bytes": (
        lambda path: path.mkdir() or (path / "catalogue.json").write_bytes(b"\xff\xfe"),
        "no store: catalogue.json: ",
    ),
}


@pytest.mark.parametrize("what", NO_STORES)
@pytest.mark.parametrize(
    "use",
    [
        lambda path: open_store(path),
        lambda path: writer.replace(path, {}),
        lambda path: writer.rebuilding(path).__enter__(),
    ],
)
def test_what_is_no_store_is_said_so_and_left_as_it_is(tmp_path, what, use):
    make, named = NO_STORES[what]
    path = tmp_path / "store"
    make(path)
    before = path.is_file() or files(path)
    with pytest.raises(StoreError) as raised:
        use(path)
    message = str(raised.value)
    assert message.startswith(f"{path} is ")
    assert named in message
    assert "move it away" in message
    assert "\n" not in message
    assert (path.is_file() or files(path)) == before


def test_what_is_missing_is_said_so_and_not_made(tmp_path):
    with pytest.raises(StoreError, match="no store at"):
        open_store(tmp_path / "missing")
    with pytest.raises(StoreError, match="not a folder that `benchlab export` wrote"):
        open_any(tmp_path)
    assert not list(tmp_path.iterdir())


def test_for_a_store_file_of_before_the_error_names_what_a_store_is_now(tmp_path):
    old = tmp_path / "benchlab.duckdb"
    old.touch()
    with pytest.raises(StoreError, match="is a file; a store is a folder"):
        open_any(old)


def test_what_a_killed_ingest_left_is_no_part_of_the_store(checkout, close_run, monkeypatch):
    close_run()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(writer.catalogue, "replace", killed)
        ingest.ingest_new(checkout)
    assert list(checkout.store.glob("run/*.parquet"))
    with pytest.raises(StoreError, match="no store at"):
        open_store(checkout.store)
    assert ingest.ingest_new(checkout).count == 1
    with open_store(checkout.store) as opened:
        assert opened.runs().height == 1
    assert len(list(checkout.store.glob("run/*.parquet"))) == 1
    # and of one that was there before
    close_run()
    before = files(checkout.store)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(writer.catalogue, "replace", killed)
        ingest.rebuild(checkout)
    with open_store(checkout.store) as opened:
        assert opened.runs().height == 1
    assert before.items() <= files(checkout.store).items()
    assert ingest.ingest_new(checkout).count == 1
    assert len(list(checkout.store.glob("run/*.parquet"))) == 1


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_of_a_run_that_an_interrupt_broke_off_nothing_is_added(checkout, close_run, monkeypatch):
    first, second = close_run(), close_run()
    executed, execute = [], writer.execute

    def interrupted(connection, sql, *arguments):
        is_broken_off = sum('INSERT INTO "run"' in one for one in executed) == 2
        executed.append(sql)
        if is_broken_off:
            executed.clear()
            raise KeyboardInterrupt
        return execute(connection, sql, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(writer, "execute", interrupted)
        ingest.ingest_new(checkout)
    with open_store(checkout.store) as opened:
        assert opened.runs()["run_id"].to_list() == [first.run_id]
        assert set(opened.sql("FROM interval")["run_id"]) == {first.run_id}
    assert ingest.ingest_new(checkout).count == 1
    with open_store(checkout.store) as opened:
        runs = opened.sql("SELECT run_id, count(*) AS n FROM interval GROUP BY ALL")
        assert set(runs["run_id"]) == {first.run_id, second.run_id}
        assert runs["n"].n_unique() == 1


def test_a_run_is_added_whole_or_not_at_all(checkout, batches, close_run, store):
    before = everything(store)
    record = close_run(trial=batches()[1].trials[0])
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
    # an export with a file of another schema is refused, not read in part
    (odd,) = (folder / "run").glob("*/engine=oceanbase/*")
    pl.read_parquet(odd).drop("tps").write_parquet(odd)
    for path in (folder / "run").glob("*/engine=postgres/*"):
        path.unlink()
    (folder / "catalogue.json").unlink()
    with pytest.raises(StoreError, match=r"tps"):
        open_any(folder)


def test_runs_are_added_to_an_export_as_to_any_store(tmp_path):
    """Columns of an export have another order than those of a store: they are told by their names."""
    with writer.adding(tmp_path / "store") as adding:
        adding.add(run_of(0, 3))
    with open_store(tmp_path / "store") as store:
        store.export(tmp_path / "export")
    # the first segment is smaller than the one before it, the second is merged with both
    for number, samples in ((1, 1), (2, 30)):
        for folder in (tmp_path / "export", tmp_path / "store"):
            with writer.adding(folder) as adding:
                adding.add(run_of(number, samples))
        with open_any(tmp_path / "export") as exported, open_store(tmp_path / "store") as store:
            assert exported.runs().height == number + 1
            assert everything(exported) == everything(store)


def test_an_export_of_before_a_column_was_added_has_nulls_in_it(store, tmp_path):
    folder = tmp_path / "export"
    store.export(folder)
    (folder / "catalogue.json").unlink()  # no older export has one
    for path in folder.glob("attribution/**/*.parquet"):
        pl.read_parquet(path).drop("saturation", "share", "confidence").write_parquet(path)
    with open_any(folder) as exported:
        found = exported.sql("FROM attribution")
        assert found.schema == store.sql("FROM attribution").schema
        assert found.height == store.sql("FROM attribution").height > 0
        assert found["share"].is_null().all()
        assert not found["evidence"].is_null().any()


def test_an_export_that_names_columns_otherwise_has_the_present_names(store, tmp_path):
    folder = tmp_path / "export"
    store.export(folder)
    for table, names in schema.RENAMED.items():
        assert names.keys() <= schema.columns()[table].keys()
        for path in folder.glob(f"{table}/**/*.parquet"):
            pl.read_parquet(path).rename(names).write_parquet(path)
    with open_any(folder) as exported:
        for table in schema.RENAMED:
            query = f"FROM {table} ORDER BY ALL"
            assert exported.sql(query).equals(store.sql(query))


def test_an_export_of_the_first_schema_opens(store, tmp_path):
    """It knows of no interventions: none of its runs had one."""
    folder = tmp_path / "export"
    store.export(folder)
    (folder / "catalogue.json").unlink()
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


def test_a_query_about_some_runs_finds_theirs_alone(store):
    ids = store.runs()["run_id"].to_list()
    for name in RUN_TABLES:
        whole = store.sql(f'FROM "{name}" ORDER BY ALL')
        for chosen in ([], ids[:1], ids[1:], [*ids, "nosuch"]):
            query = f'FROM "{name}" SEMI JOIN chosen USING (run_id) ORDER BY ALL'
            found = store.sql(query, chosen=chosen)
            assert found.equals(whole.filter(pl.col("run_id").is_in(chosen)))


def test_a_run_of_sysbench_has_one_operation_and_one_node(store):
    (run,) = store.runs(engine="postgres", status="ok").to_dicts()
    (operation,) = store.table("operation", run["run_id"]).to_dicts()
    assert operation["operation"] == run["workload"] == "oltp_insert"
    assert operation["transactions"] == run["transactions"]
    assert operation["errors"] == run["ignored_errors"]
    assert operation["latency_mean_us"] == run["latency_mean_us"]
    for name in ("interval", "latency_bucket"):
        assert set(store.table(name, run["run_id"])["operation"]) == {"oltp_insert"}
    nodes = set(store.table("node", run["run_id"])["node"])
    for name in ("os_sample", "host", "attribution"):
        assert set(store.table(name, run["run_id"])["node"]) == nodes
    # the captures of other observers are kept as they are
    assert set(store.sql("FROM os_sample")["observer"]) == {"sample", "vmstat"}
    assert "iostat.json" in set(store.sql("FROM raw_file")["file"])


def test_what_a_program_printed_is_read_from_the_folder_of_its_run(checkout, store):
    run_id = store.runs(engine="postgres", status="ok")["run_id"].item()
    kept = store.table("raw_file", run_id)
    assert dict(kept.select("file", "bytes").iter_rows()) == {
        name: len(content) for name, content in CAPTURES.items()
    }
    for name, content in CAPTURES.items():
        assert store.raw(run_id, name) == content
    with pytest.raises(StoreError, match=r"has no file nosuch; it has: counters-begin\.json, "):
        store.raw(run_id, "nosuch")
    (checkout.raw / run_id / "vmstat.txt").write_bytes(b"other")
    with pytest.raises(ParseError, match=rf"{run_id}: vmstat\.txt was changed"):
        store.raw(run_id, "vmstat.txt")
    (checkout.raw / run_id).rename(checkout.raw / "moved")
    with pytest.raises(StoreError, match="are not here"):
        store.raw(run_id, "vmstat.txt")


def test_recorded_transactions_are_read_in_place(checkout, batches, close_run):
    trials = batches(engines=["postgres"])[0].trials
    frames = [
        pl.DataFrame({"operation": ["buy", "sell"], "latency_us": [1.5, 2.5]}),
        pl.DataFrame({"operation": ["buy"], "outcome": ["aborted"]}),
    ]
    records = []
    for trial, frame in zip(trials, frames, strict=False):
        path = checkout.root / "made.parquet"
        frame.write_parquet(path)
        records.append(close_run(trial=trial, **CAPTURES, **{TRANSACTIONS: path.read_bytes()}))
    ids = [record.run_id for record in records]
    without = close_run(trial=trials[0]).run_id
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        assert store.transactions(ids).sort("run_id", "operation").collect().rows() == [
            (ids[0], "buy", 1.5, None),
            (ids[0], "sell", 2.5, None),
            (ids[1], "buy", None, "aborted"),
        ]
        assert store.transactions([]).collect().is_empty()
        with pytest.raises(StoreError, match=f"run {without} has no file {TRANSACTIONS}"):
            store.transactions([without])
        # nothing of them is in the store's own files
        assert not [path for path in checkout.store.rglob("*") if "transaction" in path.name]
        path = checkout.raw / ids[1] / TRANSACTIONS
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(ParseError, match="was changed after the run had ended"):
            store.transactions(ids)


def test_every_table_of_the_schema_is_one_of_runs_or_of_studies():
    assert set(RUN_TABLES) | set(STUDY_TABLES) == set(schema.columns())
    assert all(("run_id" in schema.columns()[name]) for name in RUN_TABLES)
    assert all(added <= set(schema.columns()[name]) for name, added in schema.ADDED.items())


def run_of(number: int, samples: int) -> dict[str, pl.DataFrame]:
    """Return the rows of a run that need nothing measured."""
    run_id = f"2026{number:04d}"
    kinds = {"VARCHAR": "x", "BOOLEAN": True, "TIMESTAMP WITH TIME ZONE": "2026-01-01 00:00:00+00"}
    run = {name: kinds.get(kind, 1) for name, kind in schema.columns()["run"].items()}
    sample = {"node": "db", "observer": "o", "subject": "s", "metric": "m", "value": 1.0}
    return {
        "run": pl.DataFrame([run | {"run_id": run_id, "status": "ok"}]),
        "os_sample": pl.DataFrame(
            [{"run_id": run_id, "t": float(t), **sample} for t in range(samples)]
        ),
    }


@settings(max_examples=15)
@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=8))
def test_however_runs_come_the_store_holds_each_once_in_few_files(tmp_path_factory, batches):
    folder = tmp_path_factory.mktemp("store") / "store"
    expected: dict[str, int] = {}
    for batch in batches:
        with writer.adding(folder) as adding:
            for samples in batch:
                tables = run_of(len(expected), samples)
                adding.add(tables)
                expected[tables["run"]["run_id"].item()] = samples
    with open_store(folder) as store:
        found = store.sql(
            "SELECT run_id, count(t) FROM run LEFT JOIN os_sample USING (run_id) GROUP BY run_id"
        )
    assert dict(found.iter_rows()) == expected
    rows = len(expected) + sum(expected.values())
    # each of those that are left is larger than the one after it
    assert len(list(folder.glob("run/*.parquet"))) <= rows.bit_length()


def test_a_segment_has_a_largest_size(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "LARGEST", 50)
    with writer.adding(tmp_path / "store") as adding:
        for number in range(20):
            adding.add(run_of(number, 9))
    with writer.adding(tmp_path / "store") as adding:
        adding.add(run_of(20, 9))
    sizes = [
        pl.scan_parquet(path).select(pl.len()).collect().item()
        for path in sorted((tmp_path / "store").glob("os_sample/*"))
    ]
    assert sizes == [45, 45, 45, 45, 9]
    with open_any(tmp_path / "store") as store:
        assert store.runs().height == 21


def test_a_query_of_chosen_runs_opens_only_the_files_that_hold_them(tmp_path):
    folder = tmp_path / "store"
    with writer.adding(folder) as adding:
        for number in range(4):
            adding.add(run_of(number, 3))
            adding.spill(merges=False)
    first, *others = sorted(folder.glob("os_sample/*"))
    (run_id,) = pl.read_parquet(first)["run_id"].unique()
    with open_store(folder) as store:
        for path in others:
            path.unlink()
        query = (
            "SELECT run_id, count(*) FROM os_sample SEMI JOIN chosen USING (run_id) GROUP BY ALL"
        )
        assert store.sql(query, chosen=[run_id]).rows() == [(run_id, 3)]
        # only of that query: the next one sees every run
        assert store.runs().height == 4


def test_an_open_store_shows_what_there_was_or_what_there_is(checkout, batches, close_run):
    trials = batches()[0].trials
    close_run(trial=trials[0])
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as early:
        for count, trial in enumerate(trials[1:4], start=2):
            close_run(trial=trial)
            ingest.ingest_new(checkout)
            # its files may be gone by now: then it shows those that took their place
            held = early.sql("FROM run")["run_id"].to_list()
            assert len(set(held)) == len(held) in range(1, count + 1)
            samples = early.sql("FROM os_sample SEMI JOIN chosen USING (run_id)", chosen=held)
            assert set(samples["run_id"]) == set(held)
        ingest.rebuild(checkout)
        assert early.runs().height in range(1, 5)
