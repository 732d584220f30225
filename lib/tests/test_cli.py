"""The command line: every mistake is one line that names the choices, and changes nothing."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from benchlab import cli
from benchlab.errors import TargetError
from benchlab.run import lock, ready
from benchlab.store import SCHEMA_VERSION, open_any
from benchlab.target.host import Host
from conftest import STUDY, leave_claims_only, planned, set_claims

COMMANDS = typer.main.get_command(cli._typer).commands

# arguments → what the line must name
UNKNOWN = {
    "study": ("run nosuch", ["study 'nosuch'", STUDY]),
    "study to plan": ("plan nosuch", ["study 'nosuch'", STUDY]),
    "profile": ("run --profile nosuch", ["profile 'nosuch'", "paper, quick, smoke, standard"]),
    "engine": (
        "run postgres_vs_tidb --engine nosuch",
        ["engine 'nosuch'", "oceanbase, postgres, tidb"],
    ),
    "second engine": (
        "plan postgres_vs_tidb --engine postgres --engine nosuch",
        ["engine 'nosuch'", "oceanbase, postgres, tidb"],
    ),
    "variant": (
        "run postgres_vs_tidb --variant nosuch",
        ["variant 'nosuch'", "default, more_clients, no_full_pages, tuned"],
    ),
    "workload": (
        "run postgres_vs_tidb --workload nosuch",
        ["workload 'nosuch'", "oltp_insert, oltp_point_select, oltp_write_only"],
    ),
    "target": (
        "run --target nosuch",
        ["target 'nosuch'", "local, nvme-8c16t, ssh-example, tencent-s5-2xlarge32"],
    ),
    "target to plan": ("plan --target nosuch", ["target 'nosuch'", "local"]),
    "target to examine": ("doctor --target nosuch", ["target 'nosuch'", "local"]),
    "profile to export": ("export new --profile nosuch", ["profile 'nosuch'", "paper, quick"]),
    "target to tear down": ("teardown --target nosuch", ["target 'nosuch'", "local"]),
    "engine of an intervention": (
        "intervene postgres_vs_tidb --engine nosuch --workload oltp_insert --threads 4",
        ["engine 'nosuch'", "oceanbase, postgres, tidb"],
    ),
    "variant of an intervention": (
        "intervene postgres_vs_tidb --engine tidb --variant nosuch --workload oltp_insert --threads 4",
        ["variant 'nosuch'", "default, tuned"],
    ),
    "envelope of an intervention": (
        "intervene postgres_vs_tidb --engine tidb --envelope nosuch --workload oltp_insert --threads 4",
        ["envelope 'nosuch'", "as_sold, faster_disk, main"],
    ),
    "a name like markup": ("plan --engine [/red]", ["engine '[/red]'"]),
    "a long name": (f"plan --engine {'x' * 200}", [f"engine '{'x' * 200}'", "postgres"]),
}


@pytest.fixture(autouse=True)
def no_host(monkeypatch, tmp_path):
    """Nothing here may reach a host, whatever breaks."""

    def reached(self: Host, *command: str, **_: object) -> bytes:
        raise AssertionError(f"{self.name} was reached with {command}")

    monkeypatch.setattr(Host, "run", reached)
    monkeypatch.setattr(Host, "popen", reached)
    monkeypatch.setattr(lock, "PATH", tmp_path / "lock")
    monkeypatch.setattr(ready, "provision", reached)


def tree(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_name_is_one_line_with_the_choices(benchlab, checkout, case):
    arguments, named = UNKNOWN[case]
    before = tree(checkout.root)
    code, out, err = benchlab(arguments)
    assert (code, out) == (1, "")
    assert err.startswith("benchlab: unknown ")
    assert err.count("\n") == 1
    for part in named:
        assert part in err
    assert tree(checkout.root) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "--resource memory",
            "'write_bandwidth', 'write_iops', 'read_bandwidth', 'read_iops' or 'cpu'",
        ),
        ("--resource cpu --resource cpu", "twice"),
        ("--factor 1", "factor: input should be less than 1"),
        ("--factor 0", "factor: input should be greater than 0"),
        ("--block 2", "block_s: input should be greater than or equal to 3"),
        ("--blocks 0", "blocks: input should be greater than 0"),
        ("--threads 0", "concurrency: input should be greater than 0"),
    ],
)
def test_an_intervention_that_makes_no_sense_is_one_line(benchlab, checkout, options, said):
    before = tree(checkout.root)
    point = "postgres_vs_tidb --engine postgres --workload oltp_insert --threads 4"
    code, out, err = benchlab(f"intervene {point} {options}")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("benchlab: intervene: ")
    assert said in err
    assert tree(checkout.root) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("lab up --target local", "target local is no lab: its hosts exist already"),
        ("verdicts spec_tree --why postgres_wins --against other", "cannot be combined"),
        ("verdicts spec_tree --why postgres_wins --record", "cannot be combined"),
        ("verdicts spec_tree --source reference --record", "cannot be combined"),
        ("verdicts spec_tree --against nosuch", "nosuch does not exist"),
    ],
)
def test_options_that_do_not_fit_are_one_line(benchlab, arguments, said):
    code, out, err = benchlab(arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert said in err


def test_a_study_whose_target_cannot_run_it_is_left_out(benchlab, monkeypatch):
    ran = []

    def run(checkout, selection, *_, **__) -> dict:
        ran.append(selection.study)
        if selection.study == "remote_wal":
            raise TargetError("lab: root is needed: use sudo")
        return {"key": "ok"}

    monkeypatch.setattr("benchlab.run.sweep.run", run)
    code, out, err = benchlab("run")
    assert code == 3
    assert ran.index("remote_wal") < len(ran) - 1  # the others go on
    assert "\nremote_wal is left out: lab: root is needed: use sudo\n" in out
    assert err == "benchlab: remote_wal: left out for the reasons above\n"
    assert benchlab("run remote_wal") == (1, "", "benchlab: lab: root is needed: use sudo\n")


def test_a_trial_counts_once_however_often_it_ran(benchlab, monkeypatch):
    """The pass with further trials runs what has failed once more, and nothing that was refused."""
    ends = [
        {"good": "ok", "bad": "failed", "mended": "failed", "absent": "refused"},
        {"bad": "failed", "mended": "ok", "further": "ok"},
    ]
    retried = []

    def run(checkout, selection, *_, **__) -> dict:
        retried.append(selection.retry_refused)
        return ends[len(retried) - 1]

    monkeypatch.setattr("benchlab.run.sweep.run", run)
    code, out, err = benchlab(f"run {STUDY} --profile standard --retry-refused")
    assert code == 3
    assert retried == [True, False]
    assert out.endswith(f"\n{STUDY}: 3 ok, 1 failed, 1 refused\n")
    assert err.startswith("benchlab: 1 runs failed; ")


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("cores: 8", "cores: many", "instance_type: cores: input should be a valid "),
        ("instance_type:", "instance_type: [", "while parsing a flow sequence"),
    ],
)
def test_a_mistake_in_an_instance_type_is_one_line(benchlab, checkout, right, wrong, said):
    path = checkout.inventories / "tencent-s5-2xlarge32" / "group_vars" / "all.yml"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    code, out, err = benchlab("plan postgres_vs_tidb")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("benchlab: inventory tencent-s5-2xlarge32: ")
    assert said in err


@pytest.mark.parametrize(
    ("right", "wrong", "line", "named"),
    [
        (
            "study: postgres_vs_tidb",
            "study: postgres_vs_tidb\ncolour: red",
            5,
            "unknown key 'colour'",
        ),
        ("study: postgres_vs_tidb", "study: [a]", 4, "string"),
        ("study: postgres_vs_tidb", "study: [a", 5, ""),
    ],
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_mistake_in_a_study_file_is_one_line_with_its_place(
    benchlab, checkout, right, wrong, line, named, command
):
    path = checkout.studies / f"{STUDY}.yml"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    before = tree(checkout.root)
    code, out, err = benchlab(command)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"{path}:{line}: " in err
    assert named in err
    assert tree(checkout.root) == before


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_study_that_is_not_rerun_yet_is_one_line(benchlab, checkout, command):
    leave_claims_only(checkout, "tpcc")
    before = tree(checkout.root)
    code, out, err = benchlab(f"{command} tpcc")
    assert (code, out) == (1, "")
    assert err == "benchlab: study tpcc is not rerun yet: its file has claims only\n"
    assert tree(checkout.root) == before


def test_all_is_every_study_that_is_rerun_and_has_what_is_selected(benchlab, checkout):
    leave_claims_only(checkout, "tpcc")
    code, out, err = benchlab("plan all --engine postgres")
    assert (code, err) == (0, "")
    assert f"{STUDY}, profile quick" in out
    assert "spec_tree, profile quick" in out
    assert "tpcc" not in out
    # each on the target that it needs, unless another one is named
    assert f"{STUDY}, profile quick, target local" in " ".join(out.split())
    assert "remote_wal, profile quick, target lab-standby" in " ".join(out.split())
    _, elsewhere, _ = benchlab("plan remote_wal --target lab")
    assert "remote_wal, profile quick, target lab " in " ".join(elsewhere.split())
    code, out, err = benchlab("plan all --engine postgres --workload oltp_insert")
    assert (code, err) == (0, "")
    assert f"{STUDY}, profile quick" in out
    assert "spec_tree, profile quick" not in out


@pytest.mark.parametrize(
    ("selected", "said"),
    [
        ("--engine nosuch", "unknown engine 'nosuch'; choose one of: he3db, mariadb, mysql,"),
        ("--engine tidb --workload spec_tree", "no study has all of: tidb, spec_tree"),
    ],
)
def test_what_no_study_has_is_reported(benchlab, selected, said):
    code, out, err = benchlab(f"plan all {selected}")
    assert (code, out) == (1, "")
    assert said in err


def test_the_plan_says_what_is_left_and_writes_nothing(benchlab, checkout, close_run):
    trials = [one for one in planned(checkout).trials if one.point.engine == "postgres"]
    close_run("ok", trial=trials[0])
    close_run("failed", "it died", trial=trials[1])
    before = tree(checkout.root)
    code, out, err = benchlab("plan --engine postgres --target local")
    assert (code, err) == (0, "")
    assert f"{len(trials)} runs, {len(trials) - 1} left" in out
    batches = [batch for batch in planned(checkout).batches if batch.engine == "postgres"]
    assert f"{len(batches)} batches; the runs are in a random order across curves" in out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines()]
    shown = {row[0]: row[1:] for row in rows if row}
    point = trials[0].point
    curve = [one for one in trials if one.point.curve == point.curve and not one.intervention]
    clients = " ".join(map(str, sorted(one.point.concurrency for one in curve)))
    name = f"{point.engine}-{point.variant}-{point.workload_name}"
    assert shown[name] == [clients, "1", f"{len(curve) - 1} of {len(curve)}"]
    assert shown["postgres-default-oltp_point_select-intervention"] == ["16", "1", "1 of 1"]
    assert tree(checkout.root) == before


def test_the_plan_says_what_will_be_refused(benchlab, monkeypatch):
    monkeypatch.delenv("HE3DB_DSN", raising=False)
    code, out, err = benchlab("plan remote_wal")
    assert (code, err) == (0, "")
    assert "3 of them will be refused, those of He3DB: HE3DB_DSN is not set" in out
    monkeypatch.setenv("HE3DB_DSN", "postgresql://user@192.0.2.9/db")
    assert "refused" not in benchlab("plan remote_wal --target ssh-example --engine he3db")[1]
    code, out, _ = benchlab("plan tpcc --engine postgres --target external")
    assert code == 0
    assert "of them will be refused, those of PostgreSQL: external has no node with" in out


def test_the_plan_counts_what_would_be_run_once_more(benchlab, measured):
    curve = ("postgres", "default", "oltp_write_only")
    measured({curve: {1: [10.0], 16: [20.0]}}, passed=lambda trial: trial.point.concurrency > 1)
    arguments = "--engine postgres --variant default --workload oltp_write_only --target local"
    code, out, err = benchlab(f"plan {STUDY} --profile standard {arguments}")
    assert (code, err) == (0, "")
    assert re.search(r"\d+ runs, \d+ left, 1 of them to be repeated; about", out)


def test_a_sweep_of_which_nothing_is_left_touches_no_host(benchlab, checkout, close_run):
    for trial in planned(checkout).trials:
        if (trial.point.engine, trial.point.workload_name) == ("postgres", "oltp_insert"):
            close_run("refused", "no build", trial=trial)
    code, out, _ = benchlab(f"run {STUDY} --engine postgres --workload oltp_insert")
    assert code == 0
    assert "none repeated" in out


def test_status_shows_what_failed_and_what_was_killed(benchlab, checkout, close_run):
    close_run()
    reason = "sysbench: FATAL: [/var/log] at line [1]"
    close_run("failed", reason)
    code, out, _ = benchlab("status")
    assert code == 0
    assert reason in out
    assert "teardown" not in out
    (checkout.raw / "20260101T000000.000000-00000000").mkdir()
    code, out, _ = benchlab("status")
    assert code == 0
    assert "unfinished (killed): 20260101T000000.000000-00000000" in out
    # and the command that takes down what it may have left
    assert "`benchlab teardown`" in out
    assert "teardown" in COMMANDS
    with lock.locked():
        code, out, _ = benchlab("status")
    assert code == 0
    assert "unfinished: 20260101T000000.000000-00000000" in out
    assert f"process {os.getpid()}" in out  # of the benchlab that holds the machine
    assert "teardown" not in out


def test_the_status_shows_the_last_run_of_each_trial(benchlab, close_run):
    close_run("failed", "it died")
    close_run()
    code, out, _ = benchlab("status")
    assert code == 0
    assert "it died" not in out
    *_, row = (line for line in out.splitlines() if "postgres" in line)
    counts = [cell.strip() for cell in row.split("│")[1:-1]][-5:]
    assert counts == ["1", "0", "0", "0", "1"]  # ok, ..., repeated


def test_an_export_goes_to_a_new_folder_only(benchlab, checkout, close_run):
    code, _, err = benchlab("export parquet")
    assert (code, err.count("\n")) == (1, 1)
    assert "no store at" in err
    assert not (checkout.root / "parquet").exists()
    close_run()
    assert benchlab("ingest")[0] == 0
    assert benchlab("export parquet")[0] == 0
    before = tree(checkout.root)
    code, _, err = benchlab("export parquet")
    assert (code, err.count("\n")) == (1, 1)
    assert "exists already" in err
    assert tree(checkout.root) == before


def test_an_export_of_a_profile_has_no_other_runs(benchlab, checkout, close_run):
    smoke, standard = planned(checkout).trials[0], planned(checkout, STUDY, "standard").trials[0]
    close_run(trial=smoke)
    kept = close_run(trial=standard)
    assert benchlab("ingest")[0] == 0
    assert benchlab("export parquet --profile standard")[0] == 0
    with open_any(checkout.root / "parquet") as exported:
        runs = exported.sql("SELECT run_id, profile FROM run")
    assert runs.rows() == [(kept.run_id, "standard")]


def test_verdicts_are_compared_and_recorded(benchlab, checkout, measured):
    tuned = {"engine": "postgres", "variant": "tuned", "workload": "oltp_insert"}
    default = tuned | {"variant": "default"}
    set_claims(checkout, [{"test": "above", "of": tuned, "over": default}])
    tps = {tuple(tuned.values()): [9.0, 9.1, 9.2], tuple(default.values()): [1.0, 1.1, 1.2]}
    measured({curve: {16: trials} for curve, trials in tps.items()})
    assert benchlab("export parquet")[0] == 0
    code, out, err = benchlab(f"verdicts {STUDY} --against parquet --record")
    assert (code, err) == (0, "")
    assert "agree on 1 of the 1 claims" in out
    recorded = checkout.reruns.read_text()
    assert recorded.count(",c0,") == 1
    assert benchlab(f"verdicts {STUDY} --record")[0] == 0
    assert checkout.reruns.read_text() == recorded


def test_counts_of_published_numbers_are_compared_and_written(benchlab, checkout):
    assert benchlab("published") == (0, "", "")
    cells = checkout.data / "published" / "tpcc" / "numbers.csv"
    cells.write_text("".join(cells.read_text().splitlines(keepends=True)[:-1]))
    code, _, err = benchlab("published")
    assert code == 1
    assert "benchlab published --write" in err
    assert benchlab("published --write")[0] == 0
    assert benchlab("published")[0] == 0


def test_a_store_of_a_newer_schema_is_one_line(benchlab, checkout):
    checkout.store.mkdir(parents=True)
    newer = {"schema_version": SCHEMA_VERSION + 1}
    (checkout.store / "catalogue.json").write_text(json.dumps(newer))
    for command in ("ingest", "status", "export parquet"):
        code, out, err = benchlab(command)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "upgrade benchlab" in err


def test_a_damaged_run_is_one_line_and_the_rest_is_ingested(benchlab, checkout, close_run):
    close_run()
    record = close_run()
    (checkout.raw / record.run_id / "sysbench.out").write_bytes(b"better")
    line = f"damaged: {record.run_id}: sysbench.out was changed after the run had ended\n"
    for command, count in (("ingest", 1), ("ingest", 0), ("ingest --rebuild", 1)):
        code, out, err = benchlab(command)
        assert (code, err.count("\n")) == (1, 1)
        assert err.startswith("benchlab: 1 damaged runs or plans; ")
        assert out.startswith(f"{line}{count} runs ingested into ")
    code, out, _ = benchlab("status")
    assert code == 0
    assert out.count(line) == 1
    # what the message says to do
    (checkout.raw / record.run_id).rename(checkout.data / "elsewhere")
    assert benchlab("ingest")[0] == 0
    assert "damaged" not in benchlab("status")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_for_all_that_it_takes(benchlab, command):
    assert COMMANDS[command].help
    for parameter in COMMANDS[command].params:
        assert parameter.help, parameter.name
    code, out, _ = benchlab(f"{command} --help")
    assert code == 0
    assert COMMANDS[command].help.split("\n")[0][:30] in out


@pytest.mark.parametrize("command", ["plan", "run"])
def test_options_are_called_as_the_makefile_calls_them(command):
    names = {name for parameter in COMMANDS[command].params for name in parameter.opts}
    assert {"--profile", "--target", "--engine", "--variant", "--workload"} <= names


def test_the_installed_command_ends_with_1_and_no_traceback(checkout):
    """The same as above through the entry point, in an 80-column terminal's place."""
    program = Path(sys.executable).with_name("benchlab")
    done = subprocess.run(
        [program, "run", "nosuch"], cwd=checkout.root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert STUDY in done.stderr


@pytest.mark.parametrize("module", ["cli", "run.batch"])
def test_nothing_waits_for_slow_imports_that_it_does_not_need(module):
    """Each of these takes a second or more; commands and run notebooks do without."""
    program = f"import sys, benchlab.{module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"scipy", "altair", "papermill"} & set(done.stdout.split())


def test_a_sweep_under_nohup_outlives_its_terminal():
    program = (
        "import signal; from benchlab import cli;"
        " cli._typer = lambda: print(signal.getsignal(signal.SIGHUP).name); cli.app()"
    )
    command = ["nohup", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "SIG_IGN\n"


def test_a_relative_folder_for_data_is_one_in_the_checkout(checkout, monkeypatch):
    monkeypatch.chdir("/")
    for given, folder in (("mine", "mine"), ("", "data"), ("/srv/data", "/srv/data")):
        monkeypatch.setenv("BENCHLAB_DATA", given)
        assert checkout.data == checkout.root / folder
