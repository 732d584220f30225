"""Runs that go on until they are steady, with both load generators on a real server."""

import re

import pytest
from benchlab.gate import steady
from benchlab.gate.checks import STEADY
from benchlab.raw import folders
from benchlab.store import open_store
from conftest import Machine, mini_study

pytestmark = pytest.mark.machine

STUDY = "steady_mini"

WARMUP_S, LONGEST_S = 2, 40


def write_study(machine: Machine) -> None:
    """Add the study: PostgreSQL, reads only, whose warm-up takes no cycle of background work."""
    spec = mini_study()
    spec["engines"] = {"postgres": spec["engines"]["postgres"]}
    reads = {"writes": False}
    spec["workloads"] = {
        "sysbench": reads | {"driver": "sysbench", "script": "oltp_point_select"},
        "pgbench": reads
        | {
            "driver": "pgbench",
            "script": "select-only",
            "dataset": {"kind": "pgbench", "scale": 5},
        },
    }
    spec["matrix"] = [
        {"engines": ["postgres"], "variants": ["tuned"], "workloads": list(spec["workloads"])}
    ]
    spec["profiles"]["smoke"] |= {
        "warmup_s": WARMUP_S,
        "measure_s": steady.LEAST_S,
        "longest_s": LONGEST_S,
    }
    machine.write_study(STUDY, spec)


@pytest.fixture(scope="module")
def swept(machine, tmp_path_factory):
    """The data folder of a sweep that ended well."""
    write_study(machine)
    data = tmp_path_factory.mktemp("steady") / "data"
    code, said = machine.benchlab(data, "run", STUDY, "--profile", "smoke")
    assert code == 0, said
    assert re.search(r": [2-4] ok$", said, re.M)  # on a busy machine a run may be made once more
    return data


def test_stages_are_ended_early_and_leave_all_that_they_print(swept):
    for folder in folders.finished(swept / "raw"):
        record = folders.read(folder)
        begin, end = record.phases["warmup"]
        assert WARMUP_S <= end - begin < LONGEST_S / 2
        begin, end = record.phases["measure"]
        assert end - begin >= steady.LEAST_S
    with open_store(swept / "store") as store:
        for run in store.runs(status="ok").iter_rows(named=True):
            assert run["longest_s"] == LONGEST_S
            assert run["transactions"] > 0
            assert (
                store.table("latency_bucket", run["run_id"])["count"].sum() == run["transactions"]
            )
            if run["workload"] == "sysbench":
                # without those of the warm-up, and with the last one of each client
                assert run["queries"] == run["transactions"]
            # throughput of a busy machine may change within the longest time, too
            (found,) = store.table("gate", run["run_id"]).filter(check=STEADY)["found"]
            assert "too short" not in found
