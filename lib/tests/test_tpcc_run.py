"""TPC-C from the command line to the store, and what becomes of a run in which something breaks.

One engine and a warehouse or two, whose terminals are 50 times as fast as the standard's: all else is
as in any run.
"""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from benchlab.drivers.base import CONTROL
from benchlab.drivers.tpcc import measured, output
from benchlab.drivers.tpcc.records import RECORDS
from benchlab.errors import EngineError
from benchlab.raw import folders
from benchlab.raw.record import Record
from benchlab.store import open_store
from benchlab.target.lab import FOLDER
from benchlab.target.session import Session
from benchlab.workloads.tpcc.dataset import TYPES
from conftest import ETC, ROOT, Machine, agent, study_content

pytestmark = pytest.mark.machine

STUDY = "tpcc"
FAULTY = "tpcc_faulty"

#: Many more than the disk of the profile holds.
TOO_MANY = 1000

TERMINALS = "terminals-000001-000001"


def faulty() -> dict:
    """The study with PostgreSQL alone, something is amiss in each of whose smallest runs."""
    spec = study_content(STUDY)
    del spec["claims"], spec["article"]["file"]
    spec["engines"] = {"postgres": spec["engines"]["postgres"]}
    scaled = spec["workloads"]["tpcc_scaled"]
    spec["workloads"] = {
        "plain": scaled,
        "server_killed": scaled,
        "terminals_killed": scaled,
        "database_killed": scaled,
        "database_restarted": scaled,
        "small_pool": scaled | {"options": {"pacing": 0, "pool": 1, "queue": 1}},
    }
    block = {"engines": ["postgres"], "variants": ["default"]}
    broken = [name for name in spec["workloads"] if name != "plain"]
    spec["matrix"] = [
        block | {"workloads": broken, "profiles": ["smoke"]},
        block | {"workloads": ["plain"], "profiles": ["quick", "standard"]},
    ]
    smoke = spec["profiles"]["smoke"]
    smoke["dataset"]["seed"] = 2  # no study's, which may be there already
    two = {"concurrency": [20], "dataset": smoke["dataset"] | {"warehouses": 2}}
    many = {"dataset": smoke["dataset"] | {"warehouses": TOO_MANY}}
    spec["profiles"] = {"smoke": smoke, "quick": smoke | two, "standard": smoke | many}
    return spec


class Swept:
    """What a sweep left."""

    #: Units of work as :func:`loaded` returns them when a load was killed, and when it was whole.
    part: dict[int, str]
    whole: dict[int, str]

    def __init__(self, data: Path, code: int, said: str, leftovers: list[str]):
        self.data, self.code, self.said, self.leftovers = data, code, said, leftovers
        self.runs = {
            record.trial.point.workload_name: record
            for record in map(folders.read, folders.finished(data / "raw"))
        }

    def file(self, run: Record, name: str) -> Path:
        return self.data / "raw" / run.run_id / name

    def table(self, name: str, run: Record) -> pl.DataFrame:
        with open_store(self.data / "store") as store:
            return store.table(name, run.run_id)


@pytest.fixture(scope="module")
def checkout(machine) -> Machine:
    shutil.copy(ROOT / "paper/studies" / f"{STUDY}.yml", machine.repo.studies)
    machine.write_study(FAULTY, faulty())
    return machine


# The study's smallest profile, from nothing


@pytest.fixture(scope="module")
def smoke(checkout, tmp_path_factory) -> Swept:
    data = tmp_path_factory.mktemp("smoke") / "data"
    only = ("--engine", "postgres", "--workload", "tpcc_scaled")
    code, said = checkout.benchlab(data, "run", STUDY, "--profile", "smoke", *only)
    return Swept(data, code, said, checkout.leftovers())


def test_the_smallest_profile_ends_well_and_leaves_nothing_running(smoke):
    assert smoke.code == 0, smoke.said
    assert {name: (run.status, run.error) for name, run in smoke.runs.items()} == {
        "tpcc_scaled": ("ok", None)
    }
    assert smoke.leftovers == []


def test_what_is_counted_is_what_the_terminals_recorded(smoke):
    run = smoke.runs["tpcc_scaled"]
    kept = pl.read_parquet(smoke.file(run, f"{TERMINALS}.parquet"))
    assert dict(kept.schema) == RECORDS
    assert kept["terminal"].n_unique() == 10
    with open_store(smoke.data / "store") as store:
        (row,) = store.runs().to_dicts()
    assert 0 < row["transactions"] <= kept["status"].is_in(["ok", "rolled_back"]).sum()
    operations = smoke.table("operation", run)
    assert set(operations["operation"]) <= set(TYPES)
    assert operations["transactions"].sum() == row["transactions"]
    assert smoke.table("interval", run)["tps"].sum() == row["transactions"]
    assert smoke.table("latency_bucket", run)["count"].sum() == row["transactions"]


def test_it_is_held_to_the_standards_rules(smoke):
    run = smoke.runs["tpcc_scaled"]
    rules = smoke.table("rule", run)
    found = {row["check"]: row for row in rules.iter_rows(named=True)}
    assert len(found) == len(rules) > 30
    # far from two hours at the standard's pace
    keying = {"New-Order, shortest keying time": 18, "Payment, shortest keying time": 3}
    for check in (*keying, "measurement interval", "throughput of a warehouse"):
        assert found[check]["answer"] == "broken"
    for check, seconds in keying.items():
        assert found[check]["value"] == pytest.approx(0.02 * seconds)
        assert found[check]["least"] == seconds
    assert found["Deliveries that skipped a district"]["answer"] == "kept"
    # and too few to tell a share by
    assert found["New-Orders rolled back"]["answer"] == "undecided"


def test_no_password_is_in_anything_that_is_kept(smoke):
    secret = (ETC / "secrets/postgres").read_bytes().strip()
    assert secret
    for path in smoke.data.rglob("*"):
        assert not (path.is_file() and secret in path.read_bytes()), path


# A sweep in each of whose runs something breaks


def loaded(session: Session) -> dict[int, str]:
    """Unit of work that is loaded → transaction that loaded it; none where there is no load yet."""
    with suppress(EngineError):
        rows = session.engine.query("SELECT w_id, xmin::text AS loaded_by FROM tpcc_loaded")
        return {row["w_id"]: row["loaded_by"] for row in rows}
    return {}


def restart() -> None:
    agent("engine", "postgres", "stop")
    agent("engine", "postgres", "start", "--variant", "default")


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def of_process(name: str) -> int:
    """Number of a process of the load."""
    return int((CONTROL / f"{name}.pid").read_text())


BREAKING = ("run", FAULTY, "--profile", "smoke")

#: Workload → what is done in its run.
FAULTS = {
    "server_killed": lambda: kill(of_process("was")),
    "terminals_killed": lambda: kill(of_process(TERMINALS)),
    "database_killed": lambda: kill(agent("engine", "postgres", "status")["pid"]),
    "database_restarted": restart,
}


@pytest.fixture(scope="module")
def broken(checkout, smoke, tmp_path_factory) -> Swept:
    data = tmp_path_factory.mktemp("broken") / "data"
    batches = checkout.plan(FAULTY)
    session = checkout.session("postgres")
    first = checkout.start(data, *BREAKING)
    first.wait_for(lambda: loaded(session), "a part of the load")
    first.send(signal.SIGKILL)
    part = loaded(session)
    sweep = checkout.start(data, *BREAKING)
    for trial in (trial for batch in batches for trial in batch.trials):
        if fault := FAULTS.get(trial.point.workload_name):
            sweep.measured(trial)
            whole = loaded(session)
            fault()
    code = sweep.end()
    swept = Swept(data, code, sweep.said, checkout.leftovers())
    swept.part, swept.whole = part, whole
    return swept


def test_a_load_that_was_killed_goes_on_where_it_was(broken):
    assert 1 <= len(broken.part) < len(broken.whole) == 2
    assert broken.part.items() <= broken.whole.items()


def test_broken_runs_leave_nothing_and_end_in_a_line_each(broken):
    assert broken.code == 3, broken.said
    assert broken.leftovers == []
    assert "Traceback" not in broken.said
    assert "5 failed" in broken.said
    assert set(broken.runs) == {*FAULTS, "small_pool"}
    for run in broken.runs.values():
        assert run.error in broken.said
        assert "\n" not in run.error


@pytest.mark.parametrize(
    ("workload", "error"),
    [
        ("server_killed", "tpcc measure: the application server was killed by SIGKILL"),
        ("terminals_killed", f"tpcc measure: {TERMINALS} was killed by SIGKILL"),
        (
            "database_killed",
            "postgres died: tpcc measure: the application server lost the database",
        ),
        (
            "database_restarted",
            "postgres was restarted: tpcc measure: the application server lost the database",
        ),
    ],
)
def test_a_process_that_dies_is_why_the_run_failed(broken, workload, error):
    run = broken.runs[workload]
    assert run.status == "failed"
    assert run.error.startswith(error)
    assert "ready to accept connections" in broken.file(run, "engine.log").read_text()
    assert "sample.jsonl" in run.files  # what was seen until then


@pytest.mark.parametrize("workload", ["database_killed", "database_restarted"])
def test_transactions_that_a_lost_database_ended_are_counted(broken, workload):
    run = broken.runs[workload]
    kept = pl.read_parquet(broken.file(run, f"{TERMINALS}.parquet"))
    errors = kept["status"].is_in(["error", "lost"])
    assert errors.any()
    seconds = broken.table("interval", run)
    assert 0 < seconds["errors_per_s"].sum() <= errors.sum()
    # what they were is said once, not a thousand times
    said = broken.file(run, "was.err").read_text().splitlines()
    assert len(said) < 100


def test_a_pool_that_is_too_small_turns_transactions_away_and_fails_the_run(broken):
    run = broken.runs["small_pool"]
    assert run.status == "failed"
    assert run.error.startswith(f"tpcc measure: {TERMINALS}: ")
    assert "more than the 0.1% that the workload tolerates" in run.error
    assert run.error.endswith("raise the workload's options pool and queue")
    kept = pl.read_parquet(broken.file(run, f"{TERMINALS}.parquet"))
    refused = kept.filter(status="refused")
    assert set(refused["type"]) == set(TYPES) - {"delivery"}  # which only queues
    assert broken.table("interval", run)["errors_per_s"].sum() > 0


def test_warehouses_beyond_the_disk_are_refused_with_what_they_would_take(checkout, tmp_path):
    data = tmp_path / "data"
    code, said = checkout.benchlab(data, "run", FAULTY, "--profile", "standard")
    assert code == 0, said
    run = Swept(data, code, said, []).runs["plain"]
    assert run.status == "refused"
    assert run.error.startswith(f"postgres: {TOO_MANY} warehouses need about 104.1 GB of the ")
    assert run.error.endswith(" GB are free: load fewer, or take a larger disk")
    assert run.error in said
    assert checkout.leftovers() == []


# The application server and terminals on nodes of their own


@pytest.fixture(scope="module")
def apart(checkout, tmp_path_factory) -> Swept:
    if FOLDER.exists():
        pytest.skip(f"{FOLDER} exists: there is a lab on this machine")
    before = checkout.leftovers()  # what the tests themselves provisioned
    data = tmp_path_factory.mktemp("apart") / "data"
    code, said = checkout.benchlab(data, "run", FAULTY, "--profile", "quick", "--target", "lab")
    # connections to the hosts are shared, and end a minute after their last use
    left = [one for one in checkout.leftovers() if one not in before and not one.endswith(" (ssh)")]
    return Swept(data, code, said, left)


def test_application_server_and_terminals_run_on_nodes_of_their_own(apart):
    assert apart.code == 0, apart.said
    assert apart.leftovers == []
    run = apart.runs["plain"]
    assert (run.status, run.error) == ("ok", None)
    roles = {node: roles for node, roles in run.nodes.items() if node != "db2"}
    assert roles == {
        "db1": ("db.primary",),
        "app1": ("app",),
        "load1": ("load",),
        "load2": ("load",),
    }
    # the terminals of a warehouse on each node, whose transactions are all counted
    names = [f"terminals-{w_id:06}-{w_id:06}" for w_id in (1, 2)]
    interval = output.measured_part(apart.file(run, f"{name}.out").read_text() for name in names)
    counted = 0
    for w_id, name in enumerate(names, 1):
        kept = pl.read_parquet(apart.file(run, f"{name}.parquet"))
        assert kept["terminal"].n_unique() == 10
        assert kept["w_id"].unique().to_list() == [w_id]
        ended = measured.ended(kept, interval)
        assert len(ended) > 0
        counted += len(ended)
    with open_store(apart.data / "store") as store:
        assert store.runs()["transactions"].to_list() == [counted]
        busy = store.table("os_sample", run.run_id).filter(
            pl.col("value") > 0, observer="sample", metric="cpu_us_per_s", subject="client"
        )
    assert set(busy["node"]) == {"app1", "load1", "load2"}
