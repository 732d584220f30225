"""The study of a remote log on this machine: hosts made for it, standbys, a slow log, and its trace."""

import shutil
from pathlib import Path

import polars as pl
import pytest
from benchlab.observers import log_trace
from benchlab.raw import folders
from benchlab.raw.record import Record
from benchlab.store import open_store
from benchlab.target.lab import FOLDER
from conftest import ROOT

pytestmark = pytest.mark.machine

STUDY = "remote_wal"


class Ran:
    """The study's smallest profile, run from nothing."""

    def __init__(self, machine, data: Path):
        self.data = data
        shutil.copy(ROOT / "paper/studies" / f"{STUDY}.yml", machine.repo.studies)
        before = machine.leftovers()  # what the tests themselves provisioned
        self.code, self.said = machine.benchlab(data, "run", STUDY, "--profile", "smoke")
        # connections to the hosts are shared, and end a minute after their last use
        self.leftovers = [
            one for one in machine.leftovers() if one not in before and not one.endswith(" (ssh)")
        ]
        self.records = [folders.read(one) for one in folders.finished(data / "raw")]

    def ok(self) -> list[Record]:
        return [one for one in self.records if one.status == "ok"]


@pytest.fixture(scope="module")
def ran(machine, tmp_path_factory) -> Ran:
    if FOLDER.exists():
        pytest.skip(f"{FOLDER} exists: there is a lab on this machine")
    for name in ("lab-standby", "container-8c"):
        # a checkout of the tests' own has the real inventories
        assert (machine.repo.inventories / name).is_dir()
    return Ran(machine, tmp_path_factory.mktemp("remote_wal") / "data")


def test_it_makes_the_hosts_that_it_needs_and_takes_them_away(ran):
    assert ran.code == 0, ran.said
    assert not FOLDER.exists()
    assert ran.leftovers == []
    curves = {(one.trial.point.engine, one.trial.point.variant) for one in ran.ok()}
    assert curves == {
        ("postgres", "sync_standby"),
        ("postgres", "async_standby"),
        ("remote_log", "local"),
        ("remote_log", "remote"),
    }
    (refused,) = [one for one in ran.records if one.status == "refused"]
    assert refused.error.startswith("HE3DB_DSN is not set: ")
    assert {tuple(one.nodes) for one in ran.ok()} == {("db1", "db2", "load1")}


def samples(ran: Ran, metric: str) -> dict[str, list[float]]:
    """Values of a metric of os_sample, by variant."""
    with open_store(ran.data / "store") as store:
        rows = store.sql(
            f"SELECT variant, value FROM os_sample JOIN run USING (run_id) WHERE metric = '{metric}'"
        )
    return {key[0]: group["value"].to_list() for key, group in rows.group_by("variant")}


def test_standbys_are_seen_as_what_commits_wait_for(ran):
    found = samples(ran, "is_synchronous")
    assert {name: set(values) for name, values in found.items()} == {
        "sync_standby": {1.0},
        "async_standby": {0.0},
    }


def test_no_write_to_the_slow_log_is_quicker_than_was_requested(ran):
    probed = {name: one for name, (one,) in samples(ran, "durable_write_ns").items()}
    assert len(probed) == 4
    assert probed["remote"] >= 1e6  # the local disk may be slower still, on a busy machine


def test_the_log_is_traced_where_the_kernel_allows_it(ran):
    with open_store(ran.data / "store") as store:
        for record in ran.ok():
            if log_trace.NAME not in record.files:
                said = (ran.data / "raw" / record.run_id / "observers.json").read_text()
                assert log_trace.NAME in said
                continue
            traced = store.sql(f"""
                SELECT DISTINCT subject AS call FROM os_sample
                WHERE observer = 'log_trace' AND run_id = '{record.run_id}' AND value > 0
            """)
            assert set(traced["call"]) == {"write", "sync", "flush"}
            found = store.table("log_latency", record.run_id)
            if found.is_empty():  # bpftrace skipped seconds, and the measured part has but three
                continue
            assert set(found["call"]) == {"write", "sync", "flush"}
            slow = found.filter(pl.col("from_us") >= 1000, call="sync")["calls"].sum()
            share = slow / found.filter(call="sync")["calls"].sum()
            if record.trial.point.variant == "remote":
                assert share > 0.95
