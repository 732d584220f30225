"""Faults as they happen: killed servers, full disks, broken scripts, Ctrl-C, kill -9. None is mocked.

Two sweeps hold them: one whose runs break each in its own way, and one that is interrupted in
every way and always gone on with.
"""

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from benchlab import study
from benchlab.raw import folders
from benchlab.raw.record import Record
from benchlab.store import SCHEMA_VERSION, open_store
from benchlab.target import EngineFound, Provisioned
from conftest import Machine, agent, closed, mini_study, wait_for

pytestmark = pytest.mark.machine

FAULTY = "faulty"
BREAKING = ("run", FAULTY, "--profile", "smoke")
INTERRUPTED = ("run", FAULTY, "--profile", "quick")

#: sysbench scripts; each statement runs to its end, however long the run is to be.
SCRIPTS = {
    "missing_table": 'function event() con:query("SELECT * FROM nosuchtable") end',
    "full_disk": 'function event() con:query("INSERT INTO sbtest1 (k, c, pad)'
    " SELECT i, repeat('c', 120), repeat('p', 60) FROM generate_series(1, 100000000) i\") end",
}


def write_faulty(machine: Machine, folder: Path) -> None:
    """Add the study: PostgreSQL alone, on a disk that one statement can fill."""
    spec = mini_study()
    smoke = spec["profiles"]["smoke"]
    postgres = spec["engines"]["postgres"]
    # the server chooses the size by itself, and says which
    postgres["variants"]["wrong"] = {"wal_buffers": -1}
    spec["engines"] = {"postgres": postgres}
    for name, lua in SCRIPTS.items():
        script = folder / f"{name}.lua"
        script.write_text(f'require("oltp_common")\nfunction prepare_statements() end\n{lua}\n')
        spec["workloads"][name] = {"driver": "sysbench", "script": str(script), "writes": True}
    block = {"engines": ["postgres"], "variants": ["default"], "profiles": ["smoke"]}
    spec["matrix"] = [
        block | {"workloads": ["oltp_write_only", *SCRIPTS]},
        block | {"variants": ["wrong"], "workloads": ["oltp_point_select"]},
        # one more than a batch takes
        block | {"workloads": ["oltp_insert"], "concurrency": [1]},
        block | {"workloads": ["oltp_write_only"], "profiles": ["quick"]},
    ]
    tiny = smoke["envelope"] | {"disk": "128MiB"}
    spec["profiles"] = {
        "smoke": smoke | {"envelope": tiny, "concurrency": [1, 2]},
        "quick": smoke | {"envelope": tiny, "concurrency": [1, 2, 3]},
        # more than any machine has
        "standard": smoke | {"envelope": tiny | {"disk": "10TiB"}},
        "paper": smoke | {"envelope": tiny | {"memory": "10TiB"}},
    }
    spec["matrix"].append(block | {"workloads": ["oltp_insert"], "profiles": ["standard", "paper"]})
    machine.write_study(FAULTY, spec)


@pytest.fixture(scope="module")
def faulty(machine, tmp_path_factory) -> Machine:
    write_faulty(machine, tmp_path_factory.mktemp("scripts"))
    return machine


def records(data: Path) -> list[Record]:
    return [folders.read(folder) for folder in folders.finished(data / "raw")]


def outcome(said: str) -> list[str]:
    """What the sweep's last words count."""
    (line,) = [line for line in said.splitlines() if line.startswith(f"{FAULTY}: ")]
    return line.removeprefix(f"{FAULTY}: ").split(", ")


# A sweep whose runs break


class Broken:
    """The sweep's end, and its runs by workload and variant."""

    def __init__(self, data: Path, code: int, said: str, leftovers: list[str]):
        self.data, self.code, self.said, self.leftovers = data, code, said, leftovers
        self.records = records(data)

    def of(self, workload: str, variant: str = "default") -> list[Record]:
        """The runs of a workload and a variant, oldest first."""
        return [
            one
            for one in self.records
            if (one.trial.point.workload_name, one.trial.point.variant) == (workload, variant)
        ]

    def text(self, record: Record, name: str) -> str:
        return (self.data / "raw" / record.run_id / name).read_text()


@pytest.fixture(scope="module")
def broken(faulty, tmp_path_factory) -> Broken:
    data = tmp_path_factory.mktemp("broken") / "data"
    # the whole plan: what else there is to run decides on the order
    first, _ = faulty.plan(FAULTY, "smoke")
    killed = next(one for one in first.trials if one.point.workload_name == "oltp_write_only")
    sweep = faulty.start(data, *BREAKING)
    sweep.measured(killed)
    os.kill(agent("engine", "postgres", "status")["pid"], signal.SIGKILL)
    # a notebook that has the store open is in nobody's way
    with open_store(data / "store"):
        wait_for(lambda: len(records(data)) > len(first.trials), "the other batch to begin")
    code = sweep.end()
    return Broken(data, code, sweep.said, faulty.leftovers())


def test_a_sweep_with_failed_runs_goes_on_and_ends_with_one_line(broken):
    assert broken.code == 3, broken.said
    assert len(broken.records) == 9
    assert {"2 ok", "7 failed"} == set(outcome(broken.said))
    assert broken.said.splitlines()[-1].startswith("benchlab: 7 runs failed")
    assert "Traceback" not in broken.said
    assert broken.leftovers == []


def test_an_engine_that_dies_fails_its_run_only(broken):
    killed, after = broken.of("oltp_write_only")
    assert killed.status == "failed"
    assert killed.error.startswith("postgres died: sysbench measure: ")
    assert "measure" not in killed.phases
    assert "ready to accept connections" in broken.text(killed, "engine.log")
    assert {"iostat.json", "sample.jsonl"} <= set(killed.files)  # what was seen until then
    assert after.status == "ok"


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("missing_table", 'relation "nosuchtable" does not exist'),
        ("full_disk", "No space left on device"),
    ],
)
def test_what_sysbench_says_is_why_the_run_failed(broken, workload, message):
    assert len(broken.of(workload)) == 2
    for run in broken.of(workload):
        assert run.status == "failed"
        assert run.error.startswith("sysbench measure: FATAL: ")
        assert message in run.error
        assert "\n" not in run.error
        assert run.line() in broken.said
        # and the engine's own words are in the folder
        assert message in broken.text(run, "engine.log")


def test_a_setting_that_did_not_take_effect_fails_the_run(broken):
    assert len(broken.of("oltp_point_select", "wrong")) == 2
    for run in broken.of("oltp_point_select", "wrong"):
        assert run.status == "failed"
        assert (
            "setting wal_buffers did not take effect: requested -1, the server reports "
            in run.error
        )
        assert '"name": "wal_buffers"' in broken.text(run, "settings.json")
        assert "sysbench.out" not in run.files


def test_a_disk_too_small_for_the_dataset_is_reported(faulty, tmp_path):
    """Loading fails on the full disk; that is every run's reason, and nothing half loaded stays."""
    spec = mini_study()
    spec["engines"] = {"postgres": spec["engines"]["postgres"]}
    spec["matrix"][0]["engines"] = ["postgres"]
    smoke = spec["profiles"]["smoke"]
    smoke["envelope"] = smoke["envelope"] | {"disk": "128MiB"}
    smoke["dataset"] = {"kind": "sysbench_oltp", "tables": 2, "rows_per_table": 400_000}
    faulty.write_study("large", spec)
    before = agent("engine", "postgres", "snapshots")["snapshots"]
    data = tmp_path / "data"
    code, said = faulty.benchlab(data, "run", "large", "--profile", "smoke")
    assert code == 3
    assert said.splitlines()[-1].startswith("benchlab: 2 runs failed")
    assert {one.status for one in records(data)} == {"failed"}
    for one in records(data):
        # by sysbench's message or, as it may crash without one, by the server's
        assert one.error.startswith("postgres: loading failed")
        assert "No space left on device" in one.error
        assert "\n" not in one.error
    assert agent("engine", "postgres", "snapshots")["snapshots"] == before
    assert faulty.leftovers() == []


# A sweep that is interrupted


STOPPED = "benchlab: stopped; finished runs are kept\n"


def nothing_is_left(machine: Machine) -> None:
    # the kernel lists a killed process until its parent has looked at it
    wait_for(lambda: not machine.leftovers(), "nothing left running")


class Interrupted:
    """A sweep of three runs, and what every attempt at it added."""

    def __init__(self, machine: Machine, data: Path):
        self.machine, self.data = machine, data
        (batch,) = machine.plan(FAULTY, "quick")
        self.trials = batch.trials

    def status(self) -> dict[str, int]:
        """How many finished runs of each status there are."""
        found = [one.status for one in records(self.data)]
        return {status: found.count(status) for status in set(found)}

    def unfinished(self) -> list[Path]:
        return folders.unfinished(self.data / "raw")


@pytest.fixture(scope="module")
def interrupted(faulty, tmp_path_factory) -> Interrupted:
    return Interrupted(faulty, tmp_path_factory.mktemp("interrupted") / "data")


def test_a_port_in_use_is_reported_with_its_holder(interrupted, faulty):
    # and an engine of an earlier sweep that was wiped since is in nobody's way
    ghost = EngineFound(engine="ghost", version="1.0", port=1)
    engines = {"postgres": faulty.found.engines["postgres"], "ghost": ghost}
    targets = interrupted.data / "targets"
    targets.mkdir(parents=True)
    versions = faulty.found.last_versions | {"ghost": "1.0"}
    known = faulty.found.model_copy(update={"engines": engines, "last_versions": versions})
    (targets / "local.json").write_text(known.model_dump_json())
    port = faulty.found.engines["postgres"].port
    with socket.create_server(("127.0.0.1", port)):
        code, said = faulty.benchlab(interrupted.data, *INTERRUPTED)
    assert code == 3
    assert interrupted.status() == {"failed": 3}
    holder = f"pid {os.getpid()} ({Path('/proc/self/comm').read_text().strip()})"
    for one in records(interrupted.data):
        assert f"port {port} is in use by {holder}" in one.error
        assert one.error in said
    assert faulty.leftovers() == []
    # its version is known still, so that its finished runs count as done
    after = Provisioned.model_validate_json((targets / "local.json").read_text())
    assert after.engines.keys() == {"postgres"}
    software = study.load(faulty.repo, FAULTY).engines["postgres"].software("postgres")
    here = {software: faulty.found.engines["postgres"].version}
    assert after.last_versions == versions | here


def test_ctrl_c_while_provisioning(interrupted, faulty):
    sweep = faulty.start(interrupted.data, *INTERRUPTED)
    sweep.wait_for(faulty.mounted, "the envelope")
    assert sweep.send(signal.SIGINT) == 130, sweep.said
    assert sweep.said == STOPPED
    nothing_is_left(faulty)
    assert interrupted.status() == {"failed": 3}


def test_ctrl_c_takes_everything_down_and_keeps_what_is_done(interrupted, faulty, tmp_path):
    sweep = faulty.start(interrupted.data, *INTERRUPTED)
    # well before the runs, which may take less time than a command takes to start
    sweep.wait_for(faulty.mounted, "the envelope")
    second = faulty.start(tmp_path / "data", *BREAKING)
    assert second.end() == 1
    sweep.measured(interrupted.trials[1])
    held_by = f"`benchlab {' '.join(INTERRUPTED)}`, process {sweep.process.pid}, since "
    assert second.said.startswith(f"benchlab: this machine is in use by {held_by}")
    assert second.said.count("\n") == 1
    assert sweep.send(signal.SIGINT) == 130, sweep.said
    assert sweep.said.endswith(STOPPED)
    assert "Traceback" not in sweep.said
    nothing_is_left(faulty)
    assert interrupted.status() == {"failed": 3, "ok": 1}


def test_kill_9_in_the_middle_of_a_cold_start(interrupted, faulty, tmp_path):
    """The agent that restores and starts is left alone; it does not get in the way."""
    sweep = faulty.start(interrupted.data, *INTERRUPTED)
    killed = sweep.begun(interrupted.trials[1], "host.json")  # the last before the restart
    assert sweep.send(signal.SIGKILL) == -signal.SIGKILL
    assert faulty.benchlab(tmp_path / "data", "teardown")[0] == 0
    nothing_is_left(faulty)
    assert not closed(killed)


def test_after_kill_9_the_rerun_cleans_up_and_does_only_the_rest(interrupted, faulty):
    sweep = faulty.start(interrupted.data, *INTERRUPTED)
    killed = sweep.measured(interrupted.trials[2])  # the last
    assert sweep.send(signal.SIGKILL) == -signal.SIGKILL
    assert faulty.mounted()
    assert agent("engine", "postgres", "status")["running"]
    assert not closed(killed)
    assert interrupted.status() == {"failed": 3, "ok": 2}

    code, said = faulty.benchlab(interrupted.data, "status")
    assert code == 0
    assert f"unfinished (killed): {killed.name}" in said

    code, said = faulty.benchlab(interrupted.data, *INTERRUPTED)
    assert code == 0, said
    assert outcome(said) == ["1 ok"]
    assert faulty.leftovers() == []
    assert interrupted.status() == {"failed": 3, "ok": 3}
    done = [one.trial_key for one in records(interrupted.data) if one.status == "ok"]
    assert done == [trial.key for trial in interrupted.trials]
    assert killed in interrupted.unfinished()


# Nothing is started


@pytest.mark.parametrize(("profile", "what"), [("standard", "disk"), ("paper", "memory")])
def test_too_small_a_machine_is_reported_before_anything_starts(faulty, tmp_path, profile, what):
    code, said = faulty.benchlab(tmp_path / "data", "run", FAULTY, "--profile", profile)
    assert code == 1
    assert said.count("\n") == 1
    assert said.startswith("benchlab: localhost: the profile needs 1024")
    assert f"GiB of {what}, " in said
    assert not (tmp_path / "data/raw").exists()
    assert not (tmp_path / "data/targets").exists()
    assert faulty.leftovers() == []


def test_a_store_of_a_newer_schema_is_reported_before_anything_starts(faulty, tmp_path):
    data = tmp_path / "data"
    (data / "store").mkdir(parents=True)
    newer = {"schema_version": SCHEMA_VERSION + 1}
    (data / "store" / "catalogue.json").write_text(json.dumps(newer))
    code, said = faulty.benchlab(data, *BREAKING)
    assert code == 1
    assert said.count("\n") == 1
    assert "upgrade benchlab" in said
    assert not (data / "raw").exists()
    assert not (data / "targets").exists()
