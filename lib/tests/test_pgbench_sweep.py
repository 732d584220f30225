"""pgbench on a real server the whole way: planned, run, stored, attributed, drawn."""

import json

import polars as pl
import pytest
from benchlab import study, target
from benchlab.raw import folders
from benchlab.report import charts, points
from benchlab.store import open_store
from benchlab.store.results import Rerun
from conftest import Machine, mini_study

pytestmark = pytest.mark.machine

STUDY = "pgbench_mini"
MIX = {"tpcb-like": 1, "select-only": 9}


def write_study(machine: Machine) -> None:
    """Add the study: PostgreSQL, the mix of two scripts at two concurrencies, a script file at one."""
    spec = mini_study()
    spec["engines"] = {"postgres": spec["engines"]["postgres"]}
    shared = {"driver": "pgbench", "writes": True, "options": {"protocol": "prepared"}}
    spec["workloads"] = {
        "mix": shared | {"scripts": MIX},
        "serializable": shared
        | {
            "script": "serializable",
            # no limit: while the other client's commit waits for a slow disk, a transaction fails
            # at once however often it is repeated
            "options": {"max-tries": 0},
            "tolerated_error_share": 0.9,
        },
    }
    block = {"engines": ["postgres"], "variants": ["tuned"]}
    spec["matrix"] = [
        block | {"workloads": ["mix"]},
        block | {"workloads": ["serializable"], "concurrency": [2]},
    ]
    smoke = spec["profiles"]["smoke"]
    dataset = {"kind": "pgbench", "scale": 5}
    spec["profiles"] = {
        "smoke": smoke | {"dataset": dataset, "concurrency": [1, 4], "measure_s": 4}
    }
    machine.write_study(STUDY, spec)


@pytest.fixture(scope="module")
def swept(machine, tmp_path_factory):
    """The data folder of a sweep that ended well."""
    write_study(machine)
    data = tmp_path_factory.mktemp("pgbench") / "data"
    code, said = machine.benchlab(data, "run", STUDY, "--profile", "smoke")
    assert code == 0, said
    assert "3 ok" in said
    assert machine.leftovers() == []
    return data


def records(data):
    return [folders.read(folder) for folder in folders.finished(data / "raw")]


def test_every_transaction_is_kept_in_the_runs_folder(swept):
    for record in records(swept):
        folder = swept / "raw" / record.run_id
        assert {"warmup.out", "pgbench.out", "transactions.parquet"} <= set(record.files)
        log = pl.read_parquet(folder / "transactions.parquet")
        assert set(log["operation"]) == set(record.trial.point.workload.weights)
        begin, end = record.phases["measure"]
        # by the clock of the load's host; connecting may take a part of the first second
        ended = log["ended_us"] / 1e6
        assert begin - 1 <= ended.min() <= ended.max() <= end + 0.5


def test_the_password_is_in_no_file(machine, swept):
    secret = machine.session("postgres").engine.endpoint.password.encode()
    assert secret
    for path in swept.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path


def test_the_store_has_them_by_operation(swept):
    with open_store(swept / "store") as store:
        for run in store.runs(status="ok").iter_rows(named=True):
            operations = store.table("operation", run["run_id"])
            assert operations["transactions"].sum() == run["transactions"] > 0
            assert json.loads(run["dataset"]) == {"kind": "pgbench", "scale": 5}
            names = {"serializable"} if run["workload"] == "serializable" else set(MIX)
            for table in ("operation", "latency_bucket"):
                assert set(store.table(table, run["run_id"])["operation"]) == names
            buckets = store.table("latency_bucket", run["run_id"])
            assert buckets["count"].sum() == run["transactions"]
            seconds = store.table("interval", run["run_id"])
            assert set(seconds["phase"]) == {"warmup", "measure"}
            measured = seconds.filter(phase="measure")
            assert set(measured["operation"]) == names
            assert measured["second"].n_unique() >= 3
            if run["workload"] == "mix":
                shares = dict(operations.select("operation", "transactions").iter_rows())
                assert shares["select-only"] > 4 * shares["tpcb-like"]
            else:
                assert (operations["retries"] > 0).all()


def test_its_curve_is_attributed_and_drawn(machine, swept):
    spec = study.load(machine.repo, STUDY)
    instance = target.instance_type(machine.repo, spec.instance)
    with open_store(swept / "store") as store:
        rerun = Rerun(store, spec, instance, "smoke", "local")
        for run_id in rerun.counted["run_id"]:
            found = store.table("attribution", run_id)
            assert {"CPU of the engine", "CPU of the client"} <= set(found["resource"])
            cpu = found.filter(resource="CPU of the client")["utilisation"][0]
            assert cpu > 0  # pgbench is counted as the load
        measured = points.points(rerun)
        curve = measured.filter(workload="mix").sort("concurrency")
        assert curve["concurrency"].to_list() == [1, 4]
        assert (curve["tps"] > 0).all()
        assert (curve["p99_us"] > 0).all()
        drawn = charts.throughput(spec, measured, "mix").to_dict()
    assert drawn["vconcat"]
