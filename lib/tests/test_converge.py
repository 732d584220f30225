"""The playbooks on the real machine: what they make of it with benchlab's variables."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import ansible_runner
import pytest
from benchlab.target import provision
from conftest import ANSIBLE, ETC, HOME, Machine, agent, environment, tidb_server

pytestmark = pytest.mark.machine

GIB = 1 << 30


def play(name: str, variables: dict, folder: Path):
    """Run a playbook; returns ansible-runner's result, successful or not."""
    return ansible_runner.run(
        private_data_dir=str(folder),
        project_dir=str(ANSIBLE),
        playbook=str(ANSIBLE / "playbooks" / f"{name}.yml"),
        inventory=str(ANSIBLE / "inventories/local"),
        extravars=variables,
        envvars={
            "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
            "ANSIBLE_HOME": str(folder / "home"),
            "PATH": environment()["PATH"],
        },
        quiet=True,
    )


def played(name: str, variables: dict, folder: Path) -> dict:
    """Run a playbook that must succeed; returns its statistics."""
    run = play(name, variables, folder)
    assert run.status == "successful", run.stdout.read()[-4000:]
    return run.stats


def engine(name: str) -> dict:
    """Return what the role wrote for the agent."""
    return json.loads((ETC / "engines" / f"{name}.json").read_text())


def postgres(sql: str) -> str:
    """Ask the running PostgreSQL."""
    known = engine("postgres")
    psql = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"), reverse=True)))
    password = (ETC / "secrets/postgres").read_text().strip()
    return subprocess.run(
        [
            *(psql, "-X", "-At", "-h", "127.0.0.1", "-p", str(known["port"])),
            *("-U", "benchlab", "-d", "sbtest", "-c", sql),
        ],
        env={"PGPASSWORD": password},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def oceanbase(sql: str, login: bool = True) -> subprocess.CompletedProcess:
    """Ask the running seekdb, as its readiness probe does, or without a password."""
    client, defaults, *address, _ = engine("oceanbase")["ready"]
    who = [defaults] if login else ["--no-defaults", "--user=root", "--protocol=tcp"]
    return subprocess.run(
        [client, *who, *address, "--skip-column-names", "--batch", "--execute", sql],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def converged(machine) -> Machine:
    """The machine as a sweep finds it, its engines empty."""
    machine.up()
    for name in ("postgres", "oceanbase"):
        agent("engine", name, "restore", empty(machine, name))
    return machine


def requested(machine: Machine, name: str) -> dict:
    """Return the variables of an engine that the playbooks get."""
    (found,) = [one for one in machine.variables["benchlab_engines"] if one["engine"] == name]
    return found


def empty(machine: Machine, name: str) -> str:
    """Return the key of the snapshot of an engine's empty data directory."""
    return f"empty-{requested(machine, name)['init_key']}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where ansible-runner works."""
    return tmp_path


def test_a_second_converge_changes_nothing(converged, folder):
    assert played("provision", converged.variables, folder)["changed"] == {}


def test_engines_of_other_studies_are_installed_and_leave_those_of_this_one_alone(
    converged, folder
):
    """Both studies name an engine postgres, of another version each."""
    before, exact = engine("postgres"), requested(converged, "postgres13")
    assert before["version"] != exact["role_vars"]["postgres_version"]
    shutil.rmtree("/opt/benchlab/postgres-13.4")
    this = [one for one in converged.variables["benchlab_engines"] if one != exact]
    later = [exact | {"engine": "postgres"}, {"engine": "tidb"}]
    variables = {"benchlab_engines": this, "benchlab_later": later}
    played("provision", converged.variables | variables, folder)
    assert Path("/opt/benchlab/postgres-13.4/bin/postgres").exists()
    assert engine("postgres") == before


def test_the_envelope_is_in_force(converged):
    status = agent("envelope", "status")
    assert status["up"]
    assert status["direct_io"]
    assert status["image_bytes"] == converged.variables["envelope_image_bytes"]
    assert status["limits"]["memory_bytes"] == GIB
    assert status["limits"]["cores"] == 2.0


def test_facts_are_on_the_target(converged):
    assert json.loads((ETC / "host.json").read_text())["cores"] == os.cpu_count()
    assert json.loads((ETC / "observers.json").read_text())["tools"]["iostat"]


@pytest.mark.skipif(bool(tidb_server()), reason="TiDB is available here")
def test_an_engine_that_cannot_be_had_is_refused(converged):
    refused = json.loads((ETC / "engines/tidb.refused.json").read_text())
    assert refused["engine"] == "tidb"
    assert "/nonexistent/tidb-server" in refused["reason"]
    assert not (ETC / "engines/tidb.json").exists()


def test_passwords_are_for_root_only(converged):
    assert ETC.joinpath("secrets").stat().st_mode & 0o777 == 0o700
    for secret in (ETC / "secrets").iterdir():
        assert secret.stat().st_mode & 0o777 == 0o600
        assert secret.read_text().strip() not in (ETC / "engines/postgres.json").read_text()


def test_postgres_runs_cold_as_it_is_known_to_the_agent(converged, folder):
    variables = {"benchlab_engine": "postgres", "benchlab_variant": "tuned"}
    played("cold", variables, folder)
    known = engine("postgres")
    assert agent("engine", "postgres", "status")["variant"] == "tuned"
    assert postgres("SHOW max_wal_size") == "640MB"
    assert postgres("SHOW wal_segment_size") == "1MB"
    assert postgres("SHOW listen_addresses") == "127.0.0.1"
    assert postgres("SHOW data_directory") == known["data_dir"]
    assert postgres("SHOW server_version").split()[0] == known["version"]
    # and lets nobody in without a password
    psql = ["psql", "-X", "-w", "-h", "127.0.0.1", "-p", str(known["port"])]
    done = subprocess.run(
        [*psql, "-U", "benchlab", "-d", "sbtest", "-c", "SELECT 1"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    assert "password" in done.stderr


def test_an_unknown_variant_is_reported_in_the_agents_words(converged, folder):
    variables = {"benchlab_engine": "postgres", "benchlab_variant": "fast"}
    run = play("start", variables, folder)
    assert run.status == "failed"
    assert "unknown variant 'fast'" in provision._failure(run)


def test_a_snapshot_comes_back(converged, folder):
    agent("engine", "postgres", "start", "--variant", "tuned")
    postgres("CREATE TABLE IF NOT EXISTS kept (n int)")
    key = f"kept-{os.getpid()}"
    named = {"benchlab_engine": "postgres", "benchlab_key": key}
    played("stop", named, folder)
    played("snapshot", named, folder)
    played("start", named | {"benchlab_variant": "tuned"}, folder)
    postgres("DROP TABLE kept")
    played("stop", named, folder)
    played("restore", named, folder)
    agent("engine", "postgres", "start", "--variant", "tuned")
    assert postgres("SELECT count(*) FROM kept") == "0"


def test_other_settings_by_the_playbook_configure(converged, folder):
    converged.converged = False
    variants = {"default": {"settings": {"max_wal_size": "48MB", "log_line_prefix": "it's "}}}
    variables = {"benchlab_engines": [requested(converged, "postgres") | {"variants": variants}]}
    played("configure", converged.variables | variables, folder)
    agent("engine", "postgres", "cold", "--variant", "default")
    assert postgres("SHOW max_wal_size") == "48MB"
    assert postgres("SHOW log_line_prefix") == "it's"
    assert set(engine("postgres")["variants"]) == {"default"}


def test_oceanbase_asks_for_its_password(converged):
    agent("engine", "postgres", "stop")
    agent("engine", "oceanbase", "cold", "--variant", "default")
    assert "sbtest" in oceanbase("SHOW DATABASES").stdout
    assert oceanbase("SELECT 1", login=False).returncode
    agent("engine", "oceanbase", "stop")


@pytest.mark.parametrize(
    ("variables", "messages"),
    [
        (
            {
                "envelope_memory_bytes": 1 << 50,
                "envelope_image_bytes": 1 << 50,
                "envelope_cores": 4096,
            },
            [
                "memory: the envelope asks for 1048576.0 GiB",
                "disk: /var/lib/benchlab needs 1048577.0 GiB",
                "cores: the envelope asks for 4096",
            ],
        ),
        (
            {
                "benchlab_engines": [
                    {"engine": "postgres", "variants": {"a": {"settings": {"port": 1}}}}
                ]
            },
            ["postgres: variant a sets port, which the role sets itself"],
        ),
        (
            {"benchlab_engines": [{"engine": "postgres", "role_vars": {"postgres_verson": "15"}}]},
            ["Role's variables are ones that it has: postgres_verson. Supported parameters"],
        ),
        (
            {"benchlab_engines": [{"engine": "tidb", "role_vars": {"tidb_source": "vendor"}}]},
            ["value of tidb_source must be one of: tiup, path, got: vendor"],
        ),
    ],
    ids=["envelope", "setting", "variable", "choice"],
)
def test_what_cannot_be_is_reported_in_one_line(converged, folder, variables, messages):
    before = (ETC / "envelope.json").read_text()
    run = play("provision", converged.variables | variables, folder)
    assert run.status == "failed"
    said = provision._failure(run)
    for message in messages:
        assert message in said
    assert "\n" not in said
    assert (ETC / "envelope.json").read_text() == before


def test_engines_whose_password_is_lost_begin_anew(converged, folder):
    """The system disk is a new one, the data disk is not."""
    names = ("postgres", "oceanbase")
    for name in names:
        agent("engine", name, "restore", empty(converged, name))
        agent("engine", name, "snapshot", "loaded")
    for secret in (ETC / "secrets").iterdir():
        secret.unlink()
    played("provision", converged.variables, folder)
    for name in names:
        kept = agent("engine", name, "snapshots")["snapshots"]
        assert [one["key"] for one in kept] == [empty(converged, name)]
    agent("engine", "postgres", "cold", "--variant", "tuned")
    assert postgres("SELECT 1") == "1"
    agent("engine", "postgres", "stop")
    agent("engine", "oceanbase", "cold", "--variant", "default")
    assert "sbtest" in oceanbase("SHOW DATABASES").stdout
    agent("engine", "oceanbase", "stop")


def test_another_initialisation_keeps_the_datasets_of_the_first(converged, folder):
    converged.converged = False
    agent("engine", "oceanbase", "snapshot", "loaded")
    other = requested(converged, "oceanbase") | {"init_key": "another"}
    played("provision", converged.variables | {"benchlab_engines": [other]}, folder)
    kept = {one["key"] for one in agent("engine", "oceanbase", "snapshots")["snapshots"]}
    assert kept == {empty(converged, "oceanbase"), "empty-another", "loaded"}


def test_another_envelope_takes_the_place_of_one_that_was_torn_down(converged, folder):
    """The data directories go with the former image; what they held is in the snapshots."""
    converged.converged = False
    played("teardown", {}, folder)
    assert not (HOME / "disk/postgres").exists()
    assert (HOME / "disk.img").exists()
    other = {"envelope_image_bytes": 5 * GIB, "envelope_cores": 1.5}
    played("provision", converged.variables | other, folder)
    status = agent("envelope", "status")
    assert status["image_bytes"] == 5 * GIB
    assert status["limits"]["cores"] == 1.5
    restore = ["--restore", empty(converged, "postgres")]
    agent("engine", "postgres", "cold", "--variant", "tuned", *restore)
    assert postgres("SELECT count(*) FROM pg_database WHERE datname = 'sbtest'") == "1"
    assert postgres("SHOW max_wal_size") == "640MB"
    played("teardown", {}, folder)
    assert converged.leftovers() == []
