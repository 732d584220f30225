"""Run folders and ingest: what a killed, broken or tampered run may and may not do."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from benchlab.drivers.sysbench import output as sysbench_output
from benchlab.errors import BenchlabError, ParseError, StoreError
from benchlab.raw import folders
from benchlab.raw.record import RATE, RECORD_NAME, RECORD_VERSION, RunFolder
from benchlab.report import open_loop
from benchlab.run.peak import peak
from benchlab.store import RUN_TABLES, ingest, open_store, results
from benchlab.store.ingest import Ingested
from benchlab.workloads.spec_tree.dataset import SpecTree
from conftest import ALONE, CAPTURES, DATA, planned, rerun

BROKEN = ("client_killed", "connection_lost_mysql", "refused", "server_killed", "sql_error")


def contents(repo) -> dict[str, list[tuple]]:
    with open_store(repo.store) as store:
        return {name: store.sql(f'FROM "{name}" ORDER BY ALL').rows() for name in RUN_TABLES}


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_run_killed_while_it_is_closed_is_unfinished(checkout, batches, monkeypatch, moment):
    trial = batches()[0].trials[0]
    folder = RunFolder(checkout.raw, trial, "local", ALONE)
    folder.write("sysbench.out", CAPTURES["sysbench.out"])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            *((os, "fsync") if moment == "fsync" else (type(folder.path), "replace")), killed
        )
        with pytest.raises(KeyboardInterrupt):
            folder.finish("ok")
    assert folders.unfinished(checkout.raw) == [folder.path]
    assert not list(folders.finished(checkout.raw))
    assert folders.latest_status(checkout.raw, "local") == {}
    assert ingest.ingest_new(checkout) == Ingested()


def test_the_record_holds_everything_and_reads_back(checkout, close_run):
    record = close_run()
    folder = checkout.raw / record.run_id
    assert folders.read(folder) == record
    assert {path.name for path in folder.iterdir()} == {*record.files, RECORD_NAME}
    for name, sha256 in record.files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    # the identity that decides what is done survives the way through the file
    assert (record.trial.key, record.trial.point.key) == (record.trial_key, record.point_key)
    assert folders.read(folder).trial.key == record.trial_key


def test_the_last_run_of_a_trial_is_its_status(checkout, batches, close_run):
    one, other = batches()[0].trials[:2]
    close_run("failed", "out of luck", trial=one)
    close_run("ok", trial=one)
    close_run("ok", trial=other)
    close_run("failed", "again", trial=other)
    assert folders.latest_status(checkout.raw, "local") == {
        one.key: "ok",
        other.key: "failed",
    }
    earlier = {folder.name for folder in folders.finished(checkout.raw)}
    close_run("refused", "no build", trial=other)
    assert folders.latest_status(checkout.raw, "local", without=earlier) == {other.key: "refused"}
    assert folders.latest_status(checkout.raw, "elsewhere") == {}


def test_a_record_is_read_once_however_often_it_is_needed(checkout, close_run, monkeypatch):
    record = close_run()
    before = folders.latest_status(checkout.raw, "local")
    assert before == {record.trial_key: "ok"}

    def opened(path: Path, *_: object) -> None:
        raise AssertionError(f"{path} is read again")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", opened)
        patch.setattr(Path, "read_text", opened)
        assert folders.latest_status(checkout.raw, "local") == before
    # and what was changed behind its back is seen all the same
    path = checkout.raw / record.run_id / RECORD_NAME
    path.write_bytes(path.read_bytes()[:-1])
    os.utime(path, ns=(0, 0))
    assert folders.latest_status(checkout.raw, "local") == {}


def test_a_record_of_a_newer_version_is_one_line_that_says_what_to_do(checkout, close_run):
    close_run()
    folder = checkout.raw / close_run().run_id
    newer = RECORD_VERSION + 1
    # nothing else of it is known
    (folder / RECORD_NAME).write_text(json.dumps({"record_version": newer, "runs": []}))
    for read in (
        lambda: folders.read(folder),
        lambda: folders.latest_status(checkout.raw, "local"),
        lambda: ingest.ingest_new(checkout),
        lambda: ingest.rebuild(checkout),
    ):
        with pytest.raises(BenchlabError, match="upgrade benchlab") as raised:
            read()
        # it is whole: neither left out nor measured again
        assert not isinstance(raised.value, ParseError)
        assert str(raised.value).startswith(f"{folder}: record version {newer} is newer ")
        assert "\n" not in str(raised.value)


def test_a_run_that_counts_is_stored_as_its_programs_printed_it(checkout, close_run):
    record = close_run()
    assert ingest.ingest_new(checkout) == Ingested(1)
    assert ingest.ingest_new(checkout) == Ingested(0)
    printed = sysbench_output.summary(CAPTURES["sysbench.out"].decode())
    with open_store(checkout.store) as store:
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
        assert {name: store.raw(record.run_id, name) for name in CAPTURES} == CAPTURES


@pytest.mark.parametrize("broken", BROKEN)
def test_a_failed_run_is_kept_with_whatever_it_printed(checkout, close_run, broken):
    printed = (DATA / "sysbench" / f"{broken}.txt").read_bytes()
    cut = (DATA / "iostat" / "killed.json").read_bytes()
    record = close_run("failed", broken, **{"sysbench.out": printed, "iostat.json": cut})
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        run = store.runs().row(0, named=True)
        assert (run["status"], run["error"], run["tps"]) == ("failed", broken, None)
        assert store.raw(record.run_id, "sysbench.out") == printed


def test_a_run_refused_before_it_began_is_stored(checkout, close_run):
    close_run("refused", "no build of it")
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        assert store.runs(status="refused")["error"].to_list() == ["no build of it"]


def test_a_run_at_a_share_of_the_peak_is_stored_with_its_rate(checkout, batches, close_run):
    trial = batches()[0].trials[0]
    point = trial.point.model_copy(update={"share_of_peak": 0.8})
    closed = close_run(trial=trial)
    rate = json.dumps({"peak_tps": 1000.0, "rate_per_s": 800}).encode()
    due = close_run(trial=trial.model_copy(update={"point": point}), **CAPTURES, **{RATE: rate})
    assert "at 80% of the peak" in due.line()
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        both = rerun(store, trial.profile)
        (one,) = both.open_loop.to_dicts()
        assert (one["share_of_peak"], one["rate_per_s"]) == (0.8, 800)
        # it belongs to no curve of the closed loop, nor to its peak
        (other,) = both.runs.to_dicts()
        assert other["run_id"] == closed.run_id
        assert results.closed_loop(store, "local", {trial.key}) == other["tps"]
        assert results.closed_loop(store, "local", set()) is None
        assert results.closed_loop(store, "lab", {trial.key}) is None


@pytest.mark.parametrize(("rate_per_s", "missed"), [(1, []), (10**6, ["1 of 1"])])
def test_an_open_loop_that_did_not_meet_its_rate_has_no_latency(
    checkout, batches, close_run, rate_per_s, missed
):
    trial = batches()[0].trials[0]
    point = trial.point.model_copy(update={"share_of_peak": 0.8})
    close_run(trial=trial)
    rate = json.dumps({"peak_tps": 1000.0, "rate_per_s": rate_per_s}).encode()
    close_run(trial=trial.model_copy(update={"point": point}), **CAPTURES, **{RATE: rate})
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        of_study = rerun(store, trial.profile)
        assert open_loop.missed(of_study)["missed"].to_list() == missed
        assert open_loop.open_loop(of_study).is_empty() == bool(missed)


def test_the_rate_of_an_open_loop_is_of_the_closed_one_with_as_many_clients(checkout, close_run):
    plan = planned(checkout)
    closed = plan.trials[0]
    share = closed.point.model_copy(update={"share_of_peak": 0.8})
    due = closed.model_copy(update={"point": share})
    opened = plan.batches[0].model_copy(update={"trials": (due,)})
    plan = plan.model_copy(update={"batches": (*plan.batches, opened)})
    # every run but the one that it is about: others of its curve, and others with as many clients
    for trial in plan.trials:
        if trial not in (closed, due):
            close_run(trial=trial)
    ingest.ingest_new(checkout)
    with pytest.raises(StoreError, match=f"closed loop with {due.point.concurrency} clients"):
        peak(checkout, plan, due)
    close_run(trial=closed)
    ingest.ingest_new(checkout)
    assert peak(checkout, plan, due) > 0


def test_a_run_on_another_dataset_is_stored(checkout, batches, close_run):
    trial = batches()[0].trials[0]
    dataset = SpecTree(operators=2, entities=500, revisions=50)
    point = trial.point.model_copy(update={"dataset": dataset})
    record = close_run(trial=trial.model_copy(update={"point": point}))
    assert folders.read(checkout.raw / record.run_id) == record
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        (run,) = store.runs().to_dicts()
    assert run["tables"] is None
    assert SpecTree.model_validate_json(run["dataset"]) == dataset


@pytest.mark.parametrize(
    ("dataset", "kind"),
    [
        ({"tables": 2, "rows_per_table": 10_000}, "sysbench_oltp"),
        ({"operators": 2, "entities": 500, "revisions": 50, "seed": 1}, "spec_tree"),
    ],
)
def test_a_record_from_before_datasets_named_their_kind_is_read(checkout, close_run, dataset, kind):
    folder = checkout.raw / close_run().run_id
    path = folder / RECORD_NAME
    content = json.loads(path.read_text())
    content["record_version"] = 3
    content["trial"]["point"]["dataset"] = dataset
    path.write_text(json.dumps(content | {"trial_key": "0" * 16, "point_key": "0" * 16}))
    record = folders.read(folder)
    assert record.trial.point.dataset.kind == kind
    assert record.trial.point.dataset.model_dump().items() >= dataset.items()
    # its trial is recognised among those that are planned today
    assert (record.trial_key, record.point_key) == (record.trial.key, record.trial.point.key)
    assert ingest.ingest_new(checkout) == Ingested(1)


def test_a_record_from_before_prewarming_had_its_name_is_read(checkout):
    """``data/record_4`` is a run's folder and a plan as record version 4 had them."""
    content = json.loads((DATA / "record_4" / RECORD_NAME).read_text())
    folder = checkout.raw / content["run_id"]
    folder.mkdir(parents=True)
    for name, captured in CAPTURES.items():
        (folder / name).write_bytes(captured)
    for name in (RECORD_NAME, "settings.json"):
        shutil.copy(DATA / "record_4" / name, folder)
    record = folders.read(folder)
    assert record.trial.point.start == "prewarm"
    assert list(record.phases) == ["cold", "prewarm", "warmup", "measure"]
    assert list(record.phases.values()) == [tuple(times) for times in content["phases"].values()]
    # its keys are those that the same definition has had since
    assert (record.trial_key, record.point_key) == ("5e9f99e94acb9192", "2eefec9d7307a1ab")
    assert record.trial_key != content["trial_key"]
    # what was done and measured stays
    assert (record.seed, record.files) == (content["seed"], content["files"])
    assert ingest.ingest_new(checkout) == Ingested(1)
    with open_store(checkout.store) as store:
        assert store.runs(start_state="prewarm")["trial_key"].to_list() == [record.trial_key]
        assert "prewarm" in set(store.table("phase", record.run_id)["phase"])
        assert store.table("engine_setting", record.run_id)["requested"].to_list() == ["32MB"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def replaced(path: Path) -> None:
    path.unlink()
    path.mkdir()


# what befell a run that had ended well: the file, what was done to it, what the line must name
HARMS = {
    "record cut": ("run.json", cut, "run.json is no record: invalid JSON"),
    "record emptied": ("run.json", lambda path: path.write_bytes(b""), "run.json is no record: "),
    "record of zeros": ("run.json", lambda path: path.write_bytes(b"\0" * 4096), "run.json is no "),
    "record that lacks a part": (
        "run.json",
        lambda path: path.write_text('{"record_version": 1}'),
        "run.json is no record: run_id: field required",
    ),
    "record without a version": (
        "run.json",
        lambda path: path.write_text("{}"),
        "run.json is no record: record_version: field required",
    ),
    "file changed": (
        "sysbench.out",
        cut,
        "sysbench.out was changed after the run had ended",
    ),
    "file removed": (
        "sysbench.out",
        Path.unlink,
        "sysbench.out was removed after the run had",
    ),
    "file unreadable": ("sample.jsonl", replaced, "sample.jsonl: Is a directory"),
}

# what a run that "ended well" left, each with its right hash: the file, its content, the name
UNPARSABLE = {
    "no output of the driver": ("sysbench.out", b"", "sysbench: "),
    "another driver's output": ("sysbench.out", b"hello\n", "sysbench: line 1: "),
    "samples cut": ("sample.jsonl", b"{]\n{]\n", "sample"),
    "facts that are no JSON": ("host.json", b'{"cores": ', "host.json: invalid JSON"),
    "facts that are none": ("host.json", b"[1, 2]", "host.json: input should be"),
    "settings that are none": ("settings.json", b'[{"nam": "a"}]', "settings.json: 0: name: field"),
    "counters that do not count": (
        "counters-begin.json",
        b'{"a": "many"}',
        "counters-begin.json: a: input should be a valid number",
    ),
}


def only_the_damaged_run_is_left_out(checkout, damaged: str, named: str) -> None:
    """Neither of ``ingest`` nor of its rebuilding; and it is reported every time."""
    whole = {folder.name for folder in folders.finished(checkout.raw)} - {damaged}
    for count, done in (
        (len(whole), ingest.ingest_new(checkout)),
        (0, ingest.ingest_new(checkout)),
        (len(whole), ingest.rebuild(checkout)),
    ):
        assert done.count == count
        assert list(done.damaged) == [damaged]
        assert done.damaged[damaged].startswith(f"{damaged}: {named}")
        assert "\n" not in done.damaged[damaged]
        with open_store(checkout.store) as store:
            assert set(store.runs()["run_id"]) == whole


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_run_is_named_and_all_others_are_ingested(checkout, batches, close_run, harm):
    name, do, named = HARMS[harm]
    trials = batches()[0].trials
    first, damaged, _ = (close_run(trial=trial) for trial in trials[:3])
    do(checkout.raw / damaged.run_id / name)
    only_the_damaged_run_is_left_out(checkout, damaged.run_id, named)
    assert first.trial_key in folders.latest_status(checkout.raw, "local")


@pytest.mark.parametrize("harm", UNPARSABLE)
def test_a_capture_that_cannot_be_parsed_is_named(checkout, close_run, harm):
    name, content, named = UNPARSABLE[harm]
    close_run()
    damaged = close_run(**{**CAPTURES, name: content})
    only_the_damaged_run_is_left_out(checkout, damaged.run_id, named)


def test_a_copy_of_a_run_is_no_second_run(checkout, close_run):
    record = close_run()
    shutil.copytree(checkout.raw / record.run_id, checkout.raw / f"{record.run_id}.bak")
    only_the_damaged_run_is_left_out(
        checkout, f"{record.run_id}.bak", f"run.json is that of {record.run_id}"
    )
    assert folders.latest_status(checkout.raw, "local") == {record.trial_key: "ok"}


def test_rebuilding_gives_the_same_rows(checkout, batches, close_run):
    trials = batches()[0].trials
    close_run(trial=trials[0])
    close_run("failed", "no", trial=trials[1])
    ingest.ingest_new(checkout)
    before = contents(checkout)
    assert all(before[name] for name in ("run", "interval", "os_sample", "attribution"))
    assert ingest.rebuild(checkout) == Ingested(2)
    assert contents(checkout) == before
