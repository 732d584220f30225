"""sysbench's command lines: what is measured stands on them, the password does not."""

import shutil
import subprocess
from pathlib import Path

import pytest
from benchlab import study
from benchlab.drivers.sysbench import driver as sysbench
from benchlab.engines import ENGINES, Endpoint
from benchlab.errors import EngineError
from benchlab.study import DatasetModel, Workload
from benchlab.workloads import tables_of
from benchlab.workloads.spec_tree import query
from benchlab.workloads.spec_tree.dataset import SpecTree
from conftest import STUDY

PASSWORD = "s3cret, with = and spaces"

#: sysbench's names of the protocols.
PROTOCOLS = {"mysql": "mysql", "postgres": "pgsql"}

#: Where a transaction is repeated at more errors than sysbench's own three.
REPEATED_ERRORS = {"tidb": {"mysql-ignore-errors": "1213,1020,1205,9007"}}


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    endpoint = Endpoint(host="192.0.2.1", port=55432, user="root", password=PASSWORD)
    return ENGINES[request.param](endpoint)


@pytest.fixture
def spec(checkout):
    return study.load(checkout, STUDY)


def options(command: list[str]) -> dict[str, str]:
    """Name → value; fails if one is given twice, of which sysbench would take the last."""
    pairs = [word.removeprefix("--").split("=", 1) for word in command if word.startswith("--")]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def run(engine, workload: Workload, dataset: DatasetModel, **how: int) -> list[str]:
    """Command of a workload on a dataset, as a trial asks for it."""
    tables = tables_of(dataset)
    of_script = {**workload.options, **tables.options()}
    return sysbench.run(engine, tables.script(str(workload.script)), of_script, **how)


@pytest.mark.parametrize("script", ["oltp_write_only", "oltp_insert", "oltp_point_select"])
def test_a_run_asks_for_what_the_point_says(engine, spec, script):
    workload, dataset = spec.workloads[script], spec.profiles["paper"].dataset
    command = run(engine, workload, dataset, threads=128, duration_s=600, seed=7)
    assert command[:2] == ["sysbench", script]
    assert command[-1] == "run"
    driver = PROTOCOLS[engine.protocol]
    assert options(command) == {
        "config-file": "/dev/stdin",
        "db-driver": driver,
        f"{driver}-host": "192.0.2.1",
        f"{driver}-port": "55432",
        f"{driver}-user": "root",
        f"{driver}-db": "sbtest",
        "rand-type": "uniform",
        "db-ps-mode": "disable",
        "tables": "10",
        "table-size": "10000000",
        "threads": "128",
        "time": "600",
        "events": "0",  # else sysbench ends after so many, whatever the time
        "rand-seed": "7",
        "percentile": "99",
        "report-interval": "1",
        "histogram": "on",
        **REPEATED_ERRORS.get(engine.name, {}),
    }


def test_a_study_cannot_change_what_the_plan_decides(engine, spec):
    workload = spec.workloads["oltp_insert"].model_copy(
        update={"options": {"threads": 1, "time": 1, "tables": 1, "rand-seed": 0}}
    )
    dataset = spec.profiles["quick"].dataset
    command = run(engine, workload, dataset, threads=64, duration_s=6, seed=9)
    found = options(command)
    assert (found["threads"], found["time"], found["tables"]) == ("64", "6", "10")
    assert found["rand-seed"] == "9"


def test_loading_makes_the_tables_that_runs_use(engine, spec):
    dataset = spec.profiles["smoke"].dataset
    load = sysbench.prepare(engine, tables_of(dataset).options(), jobs=4)
    loaded = run(
        engine, spec.workloads["oltp_write_only"], dataset, threads=4, duration_s=3, seed=1
    )
    assert load[-1] == "prepare"
    driver = PROTOCOLS[engine.protocol]
    where = [f"{driver}-{part}" for part in ("host", "port", "user", "db")]
    for name in ("tables", "table-size", "db-driver", *where):
        assert options(load)[name] == options(loaded)[name]
    assert int(options(load)["threads"]) <= dataset.tables  # sysbench refuses more


CATALOGUES = SpecTree(operators=2, entities=500, revisions=50)


def test_the_recursive_query_is_run_by_a_script_of_its_own(engine):
    workload = Workload(driver="sysbench", script="spec_tree", writes=False)
    command = run(engine, workload, CATALOGUES, threads=10, duration_s=6, seed=1)
    tables = tables_of(CATALOGUES)
    assert command[1] == str(tables.folder / "spec_tree.lua")
    found = options(command)
    files = tables.files(engine)
    named = {found["statement"], found["parameters"], command[1]}
    assert named == {str(tables.folder / name) for name in files}
    assert "tables" not in found
    dialect = engine.protocol
    assert files["statement.sql"].decode().strip() == query.statement(dialect)
    lines = files["parameters.tsv"].decode().splitlines()
    drawn = query.parameters(CATALOGUES, len(lines))
    assert [tuple(line.split("\t")) for line in lines] == list(drawn)


def test_the_tables_of_sysbench_need_no_files(engine, spec):
    assert tables_of(spec.profiles["quick"].dataset).files(engine) == {}


def test_a_run_ends_with_a_number_of_transactions_only_if_requested(engine, spec):
    point = (engine, spec.workloads["oltp_point_select"], spec.profiles["quick"].dataset)
    ending = run(*point, threads=10, duration_s=600, seed=1, transactions=100_000)
    assert (options(ending)["events"], options(ending)["time"]) == ("100000", "600")


def test_transactions_are_due_at_a_rate_only_if_requested(engine, spec):
    point = (engine, spec.workloads["oltp_point_select"], spec.profiles["quick"].dataset)
    assert "rate" not in options(run(*point, threads=1, duration_s=1, seed=1))
    due = run(*point, threads=1, duration_s=1, seed=1, rate_per_s=500)
    assert options(due)["rate"] == "500"


def test_the_password_is_in_no_process_list(engine, spec):
    dataset = spec.profiles["smoke"].dataset
    workload = spec.workloads["oltp_insert"]
    for command in (
        sysbench.prepare(engine, tables_of(dataset).options(), jobs=4),
        run(engine, workload, dataset, threads=1, duration_s=1, seed=1),
    ):
        assert not any("password" in word or PASSWORD in word for word in command)
        assert "--config-file=/dev/stdin" in command
    expected = f"{PROTOCOLS[engine.protocol]}-password='{PASSWORD}'\n"
    assert sysbench.config_file(engine).decode() == expected


@pytest.mark.parametrize("password", ["it's, so", 'a "b"', "a,b #c", ""])
def test_a_password_is_quoted_by_what_it_does_not_contain(password):
    engine = ENGINES["postgres"](Endpoint(host="192.0.2.1", port=1, user="a", password=password))
    _, _, value = sysbench.config_file(engine).decode().removesuffix("\n").partition("=")
    quote = value[0]
    assert value == f"{quote}{password}{quote}"
    assert quote in "'\"" and quote not in password


@pytest.mark.parametrize("password", ["""both ' and \"""", "two\nlines"])
def test_a_password_that_sysbench_cannot_read_is_refused(password):
    engine = ENGINES["postgres"](Endpoint(host="192.0.2.1", port=1, user="a", password=password))
    with pytest.raises(EngineError, match="sysbench cannot be given a password"):
        sysbench.config_file(engine)


#: Thread 1 takes longer to connect than the warm-up takes.
SLOW_TO_CONNECT = """
local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int microseconds);")
function thread_init(thread)
  if thread == 1 then ffi.C.usleep(3000000) end
end
function event(thread)
  ffi.C.usleep(10000)
  io.write(string.format("thread %d\\n", thread))
end
"""


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="sysbench is not installed")
def test_all_connections_are_warmed_up_until_one_moment(tmp_path):
    """sysbench gives up if a thread is not ready after 30 s, so none may warm up from its own start."""
    script = tmp_path / "slow.lua"
    script.write_text(SLOW_TO_CONNECT)
    wrapper = Path(sysbench.__file__).with_name("wrapper.lua")
    variables = {"SCRIPT": script, "STOP": tmp_path / "stop", "WARMUP_S": 1}
    ended = subprocess.run(
        [
            "env",
            *(f"BENCHLAB_{name}={value}" for name, value in variables.items()),
            *("sysbench", wrapper, "--threads=2", "--time=0", "--events=2", "run"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    warming, _, _ = ended.stdout.partition("Threads started!")
    assert warming.count("warmed up: ") == 2
    assert warming.count("thread 1\n") == 1  # once at least
    assert warming.count("thread 0\n") > 1
