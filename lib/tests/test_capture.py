"""Run folders and ingest: what a killed, broken or tampered run may and may not do."""

import hashlib
import os
import shutil

import duckdb
import polars as pl
import pytest
from benchlab import capture, ingest
from benchlab.capture import RunFolder
from benchlab.errors import ParseError
from benchlab.parse import sysbench
from benchlab.store import RUN_TABLES, open_store
from conftest import CAPTURES, DATA

BROKEN = ("client_killed", "connection_lost_mysql", "refused", "server_killed", "sql_error")


def contents(repo) -> dict[str, list[tuple]]:
    with open_store(repo.store, read_only=True) as store:
        return {name: store.sql(f'FROM "{name}" ORDER BY ALL').rows() for name in RUN_TABLES}


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_run_killed_while_it_is_closed_is_unfinished(checkout, curves, monkeypatch, moment):
    trial = curves()[0].trials[0]
    folder = RunFolder(checkout.raw, trial, "local", single_host=True)
    folder.write("sysbench.out", CAPTURES["sysbench.out"])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            *((os, "fsync") if moment == "fsync" else (type(folder.path), "replace")), killed
        )
        with pytest.raises(KeyboardInterrupt):
            folder.finish("ok")
    assert capture.unfinished(checkout.raw) == [folder.path]
    assert not list(capture.finished(checkout.raw))
    assert capture.latest_status(checkout.raw, "local") == {}
    assert ingest.ingest_new(checkout) == 0


def test_the_record_holds_everything_and_reads_back(checkout, close_run):
    record = close_run()
    folder = checkout.raw / record.run_id
    assert capture.read(folder) == record
    assert {path.name for path in folder.iterdir()} == {*record.files, capture.RECORD_NAME}
    for name, sha256 in record.files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    # the identity that decides what is done survives the way through the file
    assert (record.trial.key, record.trial.point.key) == (record.trial_key, record.point_key)
    assert capture.read(folder).trial.key == record.trial_key


def test_the_last_run_of_a_trial_is_its_status(checkout, curves, close_run):
    one, other = curves()[0].trials[:2]
    close_run("failed", "out of luck", trial=one)
    close_run("ok", trial=one)
    close_run("ok", trial=other)
    close_run("failed", "again", trial=other)
    assert capture.latest_status(checkout.raw, "local") == {
        one.key: ("ok", None),
        other.key: ("failed", "again"),
    }


def test_a_run_that_counts_is_stored_as_its_programs_printed_it(checkout, close_run):
    record = close_run()
    assert ingest.ingest_new(checkout) == 1
    assert ingest.ingest_new(checkout) == 0
    printed = sysbench.summary(CAPTURES["sysbench.out"].decode())
    with open_store(checkout.store, read_only=True) as store:
        run = store.runs(run_id=record.run_id).row(0, named=True)
        assert run["transactions"] == printed["transactions"]
        assert run["tps"] == pytest.approx(printed["transactions_per_s"], rel=1e-3)
        assert run["latency_mean_us"] == pytest.approx(printed["latency_avg_ms"] * 1000)
        assert store.table("latency_bucket", record.run_id)["count"].sum() == printed["events"]
        assert len(store.table("attribution", record.run_id)) > 1
        counters = store.table("engine_counter", record.run_id).sort("name")
        assert counters.select("name", "at_begin", "at_end").rows() == [
            ("gone", 3.0, None),
            ("pg_stat_wal.wal_bytes", 1.0, 5.5),
        ]
        raw = store.table("raw_output", record.run_id)
        assert dict(raw.select("file", "content").iter_rows()) == CAPTURES


@pytest.mark.parametrize("broken", BROKEN)
def test_a_failed_run_is_kept_with_whatever_it_printed(checkout, close_run, broken):
    printed = (DATA / "sysbench" / f"{broken}.txt").read_bytes()
    cut = (DATA / "iostat" / "killed.json").read_bytes()
    record = close_run("failed", broken, **{"sysbench.out": printed, "iostat.json": cut})
    ingest.ingest_new(checkout)
    with open_store(checkout.store, read_only=True) as store:
        run = store.runs().row(0, named=True)
        assert (run["status"], run["error"], run["tps"]) == ("failed", broken, None)
        raw = store.table("raw_output", record.run_id)
        assert raw.filter(pl.col("file") == "sysbench.out")["content"][0] == printed


def test_a_run_refused_before_it_began_is_stored(checkout, close_run):
    close_run("refused", "no build of it")
    ingest.ingest_new(checkout)
    with open_store(checkout.store, read_only=True) as store:
        assert store.runs(status="refused")["error"].to_list() == ["no build of it"]


@pytest.mark.parametrize("harm", ["changed", "removed"])
def test_a_file_that_is_no_longer_the_recorded_one_is_named(checkout, close_run, harm):
    record = close_run()
    path = checkout.raw / record.run_id / "sysbench.out"
    if harm == "changed":
        path.write_bytes(path.read_bytes().replace(b"transactions:", b"transactions: 9"))
    else:
        path.unlink()
    with pytest.raises(ParseError, match=rf"^{record.run_id}: sysbench.out was {harm}"):
        ingest.ingest_new(checkout)
    with open_store(checkout.store, read_only=True) as store:
        assert store.run_ids() == set()


def test_rebuilding_gives_the_same_rows(checkout, curves, close_run):
    trials = curves()[0].trials
    close_run(trial=trials[0])
    close_run("failed", "no", trial=trials[1])
    ingest.ingest_new(checkout)
    before = contents(checkout)
    assert all(before[name] for name in ("run", "interval", "os_sample", "attribution"))
    assert ingest.rebuild(checkout) == 2
    assert contents(checkout) == before


def test_a_store_whose_ingest_was_killed_can_be_rebuilt(checkout, close_run, tmp_path):
    close_run()
    ingest.ingest_new(checkout)
    # what kill -9 leaves: a write-ahead log that was not yet brought into the file
    log = checkout.store.with_name(f"{checkout.store.name}.wal")
    writer = duckdb.connect(str(checkout.store))
    writer.execute("INSERT INTO host VALUES ('killed', 'a', 'b')")
    shutil.copy(log, tmp_path / "log")
    writer.close()
    shutil.copy(tmp_path / "log", log)
    shutil.copy(tmp_path / "log", checkout.store.with_name("benchlab.rebuild.wal"))
    assert ingest.rebuild(checkout) == 1
    assert len(contents(checkout)["run"]) == 1
