"""How a trial runs its driver, and what is reported of one that did not come to its end."""

import json
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, patch

import pytest
from benchlab import drivers
from benchlab.drivers.base import Phase, Process, Stage
from benchlab.errors import EngineError, RunFailed, TargetError
from benchlab.gate.steady import WRITEBACK_S
from benchlab.observers import outcomes
from benchlab.observers.outcomes import Outcome
from benchlab.raw import record
from benchlab.raw.record import RunFolder
from benchlab.run.trial import _Run
from conftest import ALONE, DATA, planned

RESET = "postgres: connection failed: server closed the connection unexpectedly"


@pytest.mark.parametrize(
    ("capture", "reason"),
    [
        # of PostgreSQL with 256 clients in 1 GiB, whose log had nothing of it
        ("oom.jsonl", f"{RESET} (the kernel killed a process for want of memory)"),
        ("whole.jsonl", RESET),
        ("damaged", RESET),
        (None, RESET),
    ],
)
def test_a_process_killed_for_want_of_memory_is_the_reported_reason(
    checkout, batches, capture, reason
):
    trial = batches()[0].trials[0]
    folder = RunFolder(checkout.raw, trial, "local", ALONE)
    if capture:
        damaged = b"no sample\n" * 3
        path = DATA / "sample" / capture
        folder.write("sample.jsonl", path.read_bytes() if path.exists() else damaged)
    record = _Run(None, trial, folder).close(RESET)
    assert (record.status, record.error) == ("failed", reason)


# The stages of a driver: here programs of a shell on this host, whose clients begin with a line "begun"


class Server:
    """An engine that counts its queries."""

    waits_query = ""

    def __init__(self, error: str | None = None):
        self.queries, self.error = 0, error
        self.asked: list[float] = []

    def counters(self) -> dict[str, int]:
        self.asked.append(time.time())
        if self.error:
            raise EngineError(self.error)
        self.queries += 1
        return {"queries": self.queries}

    def sizes(self) -> dict[str, float]:
        return {"table_bytes.sbtest1": float(1 << 20)}


class Shell:
    """A driver of whatever a shell runs."""

    name = "shell"
    warms_connections = False

    def begun(self, line: str, now: float) -> float | None:
        return now if line == "begun" else None

    def second_of(self, line: str) -> None:
        """It prints no throughput."""

    def failure(self, process: Process, ended, workload) -> str | None:
        return f"{process.name} ended with {ended.returncode}" if ended.returncode else None

    def keep(self, process: Process, made: list[Path], job, folder: Path) -> None:
        for path in made:
            (folder / f"{process.name}-{path.name}").write_bytes(path.read_bytes())


class Node(SimpleNamespace):
    """A host whose folder for files that a load makes is one of the test's."""

    def empty(self, folder: Path) -> None:
        pass

    def fetch(self, folder: Path, to: Path) -> list[Path]:
        self.fetched.append(self.name)
        return sorted(self.made.iterdir())

    def run(self, *command: str) -> None:
        pass


@pytest.fixture
def under_way(checkout, batches, tmp_path):
    """A run of the driver above."""

    def make(error: str | None = None) -> _Run:
        trial = batches()[0].trials[0]
        made = tmp_path / "made"
        made.mkdir()
        session = SimpleNamespace(
            engine=Server(error),
            found=SimpleNamespace(external=False),
            load=("one node",),
            deployment=SimpleNamespace(having=lambda role: ()),
            address=lambda role: "127.0.0.1",
            node=lambda role, number=0: Node(name="db", made=made, fetched=[]),
            client_argv=lambda argv, role, number: argv,
            status=lambda node: {"services": {}, "ended": {}},
            metrics=dict,
        )
        run = _Run(session, trial, RunFolder(checkout.raw, trial, "local", ALONE))
        run.driver = Shell()
        return run

    return make


@pytest.mark.parametrize(("profile", "warmup_s"), [("quick", 5), ("standard", WRITEBACK_S)])
def test_terminals_that_write_until_it_is_steady_ramp_up_as_long_as_the_gate_asks(
    checkout, under_way, profile, warmup_s
):
    run = under_way()
    trial = planned(checkout, "tpcc", profile).trials[0]
    point = trial.point.model_copy(update={"warmup_s": 5})
    run.trial = trial.model_copy(update={"point": point})
    run.driver = drivers.driver("tpcc")
    assert run._job.warmup_s == warmup_s


def test_terminals_end_as_soon_as_they_are_steady(checkout, under_way):
    run = under_way()
    run.trial = planned(checkout, "tpcc", "standard").trials[0]
    run.driver = drivers.driver("tpcc")
    least_s = run.trial.point.measure_s
    enough = [200.0] * (least_s + 1)
    assert run._measured(enough, cycles=2)
    assert not run._measured(enough, cycles=1)
    assert not run._measured(enough[:least_s], cycles=2)


def test_only_clients_are_ended_early(under_way):
    run, ended = under_way(), []
    run.session.node = lambda role, number=0: SimpleNamespace(run=lambda *argv: ended.append(argv))
    server, client = shell("was", "", serves=True), shell("load", "", stop=["end", "the load"])
    run._stages._until(Stage([server, client], [], 1), lambda *of: True)._stop()
    assert ended == [("end", "the load")]
    assert run._stages._until(Stage([server, shell("load", "")], [], 1), lambda *of: True) is None


def shell(name: str, script: str, **process: object) -> Process:
    return Process(name, ["sh", "-c", script], **process)


def until_counted(run: _Run, moment: str) -> str:
    """Return a script that waits for the counters of a moment, for a minute at most."""
    made = run.folder.path / f"counters-{moment}.json"
    return f"for i in $(seq 1200); do [ -e {made} ] && break; sleep 0.05; done"


def counted(run: _Run, moment: str) -> int:
    return json.loads((run.folder.path / f"counters-{moment}.json").read_text())["queries"]


def test_a_process_may_have_ramp_up_measured_part_and_ramp_down(under_way):
    run = under_way()
    phases = [Phase("rampup", 0, 0.2), Phase("measure", 0.2, 0.5), Phase("rampdown", 0.5)]
    script = f"echo begun; {until_counted(run, 'end')}; echo done"
    stage = Stage([shell("load", script)], phases, 1)
    assert stage.measured == phases[1]
    run._measure(stage, stage.measured)
    found = run.folder.phases
    assert list(found) == ["rampup", "measure", "rampdown"]
    begin = found["rampup"][0]
    assert found["measure"] == pytest.approx((begin + 0.2, begin + 0.5), abs=1e-3)
    assert found["rampup"][1] == found["measure"][0]
    assert found["rampdown"][0] == found["measure"][1] < found["rampdown"][1]
    assert (counted(run, "begin"), counted(run, "end")) == (1, 2)
    assert (run.folder.path / "load.out").read_text() == "begun\ndone\n"


def test_what_the_load_has_left_is_checked_after_it(under_way):
    run, done = under_way(), []
    run.session.limit = lambda envelope: done.append("limit")

    def outcomes_after_load(engine: Server) -> Iterator[Outcome]:
        done.append("check")
        yield Outcome("condition 1", "holds", True)

    tables = SimpleNamespace(outcomes_after_load=outcomes_after_load)
    with (
        patch.object(_Run, "tables", tables),
        patch.object(_Run, "_host_speed", nullcontext),
        patch.object(_Run, "_load", lambda run: done.append("load")),
    ):
        run.measure()
    assert done == ["limit", "load", "check"]
    assert outcomes.rows((run.folder.path / outcomes.NAME).read_text()).row(0)[1:3] == (
        "condition 1",
        True,
    )


def test_a_phase_goes_on_in_the_next_stage(under_way):
    run = under_way()
    run._stages.run(Stage([shell("server", "echo begun; sleep 0.2")], [Phase("warmup")], 1))
    begin, _ = run.folder.phases["warmup"]
    phases = [Phase("warmup", -0.1, 0), Phase("measure")]
    run._stages.run(Stage([shell("connections", "sleep 0.1; echo begun; sleep 0.1")], phases, 1))
    assert run.folder.phases["warmup"] == (begin, run.folder.phases["measure"][0])


def test_what_a_stage_warms_up_is_not_counted(under_way):
    run = under_way()
    phases = [Phase("warmup", -0.3, 0), Phase("measure")]
    script = f"sleep 0.3; echo begun; {until_counted(run, 'begin')}"
    stage = Stage([shell("connections", script)], phases, 1)
    run._measure(stage, stage.measured)
    begin, end = run.folder.phases["measure"]
    assert begin <= run.session.engine.asked[0] < end
    assert (counted(run, "begin"), counted(run, "end")) == (1, 2)


def test_what_goes_wrong_at_the_begin_of_a_later_phase_fails_the_run(under_way):
    run = under_way("the server is gone")
    stage = Stage([shell("load", "echo begun; sleep 0.5")], [Phase("measure", 0.1, 0.3)], 1)
    with pytest.raises(EngineError, match="the server is gone"):
        run._measure(stage, stage.measured)


def test_processes_of_a_stage_begin_with_the_last_of_them(under_way):
    run = under_way()
    ready = run.folder.path.parent / "ready"
    ready.unlink(missing_ok=True)
    waits = f"echo begun; touch {ready}; sleep 0.3"
    follows = f"while [ ! -e {ready} ]; do sleep 0.05; done; sleep 0.1; echo begun"
    both = [shell("first", waits, makes_files=True), shell("second", follows)]
    (run.session.node("load").made / "log").write_bytes(b"kept")
    begun = []
    run._stages.run(Stage(both, [Phase("warmup")], 1), [(0.0, lambda: begun.append(True))])
    assert begun == [True]
    assert (run.folder.path / "first-log").read_bytes() == b"kept"
    assert {"first.out", "second.out"} <= {path.name for path in run.folder.path.iterdir()}
    assert list(run.folder.phases) == ["warmup"]


def test_files_of_each_process_are_kept_and_each_node_is_fetched_once(under_way, tmp_path):
    run, fetched = under_way(), []
    hosts = [Node(name=name, made=tmp_path / name, fetched=fetched) for name in ("a", "b")]
    for host in hosts:
        host.made.mkdir()
        (host.made / "log").write_text(host.name)
    # the first host has both roles, as one with the application server and terminals does
    nodes = {("app", 0): hosts[0], ("load", 0): hosts[0], ("load", 1): hosts[1]}
    run.session.node = lambda role, number=0: nodes[role, number]
    makes = {"makes_files": True}
    processes = [
        shell("was", "", role="app", **makes),
        shell("first", "", **makes),
        shell("other", "", node=1, **makes),
        shell("second", "", **makes),
        shell("without", "", node=1),
    ]
    run._stages.run(Stage(processes, [Phase("measure")], 1))
    assert fetched == ["a", "b"]
    kept = {path.name: path.read_text() for path in run.folder.path.glob("*-log")}
    assert kept == {"was-log": "a", "first-log": "a", "second-log": "a", "other-log": "b"}


def test_a_process_that_fails_is_the_runs_failure(under_way):
    run = under_way()
    stage = Stage([shell("load", "echo begun; exit 3")], [Phase("measure")], 1)
    with pytest.raises(RunFailed, match="shell measure: load ended with 3"):
        run._stages.run(stage)
    assert "measure" not in run.folder.phases


ONE, TWO = {"server": 1}, {"store": 1, "server": 2}


@pytest.mark.parametrize(
    ("started", "services", "ended", "explained"),
    [
        ({"a": ONE}, ONE, {}, "it failed"),
        (
            {"a": ONE},
            {},
            {"server": ["first", "last"]},
            "E died: it failed; its last lines: first | last",
        ),
        ({"a": ONE}, {}, {"server": []}, "E died: it failed"),
        (
            {"a": TWO},
            TWO | {"store": None},
            {"store": ["x"]},
            "E (store) died: it failed; its last lines: x",
        ),
        ({"a": ONE, "b": ONE}, {}, {"server": []}, "E on a died: it failed"),
        ({"a": ONE}, {"server": 7}, {}, "E was restarted: it failed"),
        ({"a": ONE}, {}, {}, "E was stopped: it failed"),
        ({}, None, None, "it failed"),
    ],
)
def test_a_failure_begins_with_the_service_that_died(
    under_way, started, services, ended, explained
):
    run = under_way()
    run.services = started
    run.session.status = lambda node: {"services": services, "ended": ended}
    engine = run.trial.point.engine
    assert run.explained("it failed") == explained.replace("E ", f"{engine} ")


def test_a_service_that_is_still_ending_has_died(under_way):
    run = under_way()
    run.services = {"a": ONE}
    lives, died = {"services": ONE, "ended": {}}, {"services": {}, "ended": {"server": []}}
    run.session.status = Mock(side_effect=[lives, lives, died, died])
    assert run.explained("it failed") == f"{run.trial.point.engine} died: it failed"


def test_a_failure_is_told_as_it_is_if_the_host_is_gone_too(under_way):
    run = under_way()
    run.services = {"a": ONE}
    run.session.status = raising = Mock(side_effect=TargetError("no route"))
    assert run.explained("it failed") == "it failed"
    raising.assert_called_once_with("a")


def test_a_process_that_was_killed_for_another_is_not_the_runs_failure(under_way):
    run = under_way()
    both = [shell("first", "exec sleep 600"), shell("second", "exit 3")]
    with pytest.raises(RunFailed, match="shell measure: second ended with 3"):
        run._stages.run(Stage(both, [Phase("measure")], 1))


def test_without_git_a_run_is_closed_without_a_commit():
    with patch.object(record.subprocess, "run", side_effect=FileNotFoundError("git")):
        found = record.code.__wrapped__()
    assert (found.commit, found.modified) == (None, None)
