"""Roles and playbooks: what they say of themselves, and what they made of the real machine.

The tests marked ``root`` are about the machine that ``conftest.py`` provisioned with the variables that
benchlab itself gives the playbooks.
"""

import grp
import importlib.util
import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import ansible_runner
import pytest
import yaml
from conftest import ETC, HOME, Machine, agent

ANSIBLE = Path(__file__).parents[2] / "ansible"
ROLES = sorted((ANSIBLE / "roles").iterdir())
GIB = 1 << 30

by_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def load(path: Path):
    """Read a YAML file."""
    return yaml.safe_load(path.read_text())


def script(path: Path):
    """Import a Python file that lies outside any package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def environment() -> dict[str, str]:
    """Return this process's environment with the programs beside its Python first."""
    folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


# What the roles say of themselves


@by_role
def test_public_variables_are_described(role):
    defaults = load(role / "defaults/main.yml")
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert set(options) == set(defaults)
    for name, option in options.items():
        assert name.startswith(f"{role.name}_")
        assert option["type"]
        assert option["description"]
        literal = not (isinstance(defaults[name], str) and "{{" in defaults[name])
        if literal and defaults[name] is not None:
            assert option["default"] == defaults[name], name


@by_role
def test_roles_have_what_a_reader_looks_for(role):
    assert (role / "README.md").read_text().startswith(f"# {role.name}\n")
    meta = load(role / "meta/main.yml")["galaxy_info"]
    assert (meta["role_name"], meta["license"]) == (role.name, "Apache-2.0")
    assert load(role / "tasks/main.yml")


def test_no_outgoing_connection_is_given_an_engines_port():
    """Linux takes their ports from 32768 on (ip_local_port_range), and keeps them for a minute more."""
    ports = []
    for role in ROLES:
        options = load(role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
        ports += [one["default"] for name, one in options.items() if name == f"{role.name}_port"]
    assert len(ports) == 5
    assert len({*ports}) == len(ports)
    assert max(ports) + 10 < 32768  # TiDB's other programs take the next ones


def test_all_yaml_is_loadable():
    files = [*ANSIBLE.rglob("*.yml"), ANSIBLE / ".ansible-lint", ANSIBLE / ".yamllint"]
    assert all(load(path) for path in files)


def test_every_playbook_is_in_the_readme():
    readme = (ANSIBLE / "README.md").read_text()
    for playbook in (ANSIBLE / "playbooks").glob("*.yml"):
        assert f"`{playbook.stem}`" in readme


def test_the_readmes_example_is_json():
    example = re.search(r"```json\n(.*?)```", (ANSIBLE / "README.md").read_text(), re.DOTALL)
    roles = {role.name for role in ROLES}
    assert {entry["engine"] for entry in json.loads(example.group(1))["benchlab_engines"]} <= roles


@pytest.mark.parametrize("name", ["local", "nvme-8c16t", "ssh-example", "tencent-s5-2xlarge32"])
def test_inventories_name_server_and_client(name):
    hosts = load(ANSIBLE / "inventories" / name / "hosts.yml")
    assert set(hosts) == {"server", "client"}
    assert len(hosts["server"]["hosts"]) == 1


def test_the_articles_instance_type():
    folder = ANSIBLE / "inventories/tencent-s5-2xlarge32/group_vars"
    variables = load(folder / "all.yml")
    instance = variables["instance_type"]
    assert (instance["cores"], instance["memory_bytes"]) == (8, 32 * GIB)
    assert (instance["disk_bytes_per_s"], instance["disk_iops"]) == (140_000_000, 4800)
    assert variables["envelope_enforce"] is False


@pytest.mark.lint
def test_ansible_lint_passes_on_its_production_profile(tmp_path):
    done = subprocess.run(
        ["ansible-lint", "--offline", "--nocolor"],
        cwd=ANSIBLE,
        env={**environment(), "ANSIBLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Facts of the host


@pytest.fixture
def host_facts():
    return script(ANSIBLE / "roles/host/files/host_facts.py")


def test_facts_are_this_machines(host_facts):
    facts = host_facts.collect("/var/lib/benchlab")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts["cores"] == os.cpu_count()
    assert facts["memory_bytes"] == pages
    assert facts["kernel"] == os.uname().release
    assert facts["cgroup"] in ("v1", "v2", "hybrid")
    assert Path("/var/lib").is_relative_to(facts["mount_point"])
    assert facts["mount_options"].split(",")[0] in ("rw", "ro")
    assert facts["nofile_soft"] <= facts["nofile_hard"]
    assert 0 <= facts["vm"]["dirty_ratio"] <= 100
    assert set(facts["vm"]) == set(host_facts.VM_SETTINGS)


def test_facts_are_written_only_when_they_change(host_facts, tmp_path, monkeypatch, capsys):
    out = tmp_path / "host.json"
    monkeypatch.setattr(sys, "argv", ["host_facts.py", "--home", "/", "--out", str(out)])
    host_facts.main()
    host_facts.main()
    assert capsys.readouterr().out.split() == ["changed", "unchanged"]
    assert json.loads(out.read_text())["cores"] == os.cpu_count()


@pytest.mark.parametrize(("mounts", "version"), [("cgroup", "v1"), ("cgroup2", "v2")])
def test_cgroup_version_is_that_of_the_mounts(host_facts, tmp_path, monkeypatch, mounts, version):
    (tmp_path / "mounts").write_text(f"none /sys/fs/cgroup {mounts} rw 0 0\n")
    monkeypatch.setattr(host_facts, "PROC", tmp_path)
    assert host_facts.collect_cgroup() == {"cgroup": version}


@pytest.mark.parametrize(("cpus", "length"), [("0", 1), ("0-1", 2), ("0,4", 2), ("0-3,8-11", 8)])
def test_a_kernels_list_of_cpus_is_counted(host_facts, cpus, length):
    assert host_facts._list_length(cpus) == length


# The module that converges many files at once


@pytest.fixture
def managed_files():
    return script(ANSIBLE / "library/managed_files.py")


@pytest.fixture
def entry():
    """Make an entry of the module's option ``files``, owned by whoever runs the tests."""
    user = pwd.getpwuid(os.getuid()).pw_name
    group = grp.getgrgid(os.getgid()).gr_name

    def make(path, state="file", content=None, mode=None):
        return {
            "path": str(path),
            "state": state,
            "content": content,
            "owner": user,
            "group": group,
            "mode": mode,
        }

    return make


def test_a_file_is_converged_once(managed_files, entry, tmp_path):
    wanted = entry(tmp_path / "a", content="text\n", mode="0600")
    assert managed_files.converge(wanted, dry=True)
    assert not (tmp_path / "a").exists()
    assert managed_files.converge(wanted, dry=False)
    assert not managed_files.converge(wanted, dry=False)
    assert (tmp_path / "a").read_text() == "text\n"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_mode_and_content_are_brought_back(managed_files, entry, tmp_path):
    wanted = entry(tmp_path / "a", content="text\n")
    managed_files.converge(wanted, dry=False)
    (tmp_path / "a").chmod(0o666)
    assert managed_files.converge(wanted, dry=False)
    (tmp_path / "a").write_text("other")
    assert managed_files.converge(wanted, dry=False)
    assert (tmp_path / "a").read_text() == "text\n"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_absent_removes_folders_and_files(managed_files, entry, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    gone = entry(tmp_path / "folder", state="absent")
    assert managed_files.converge(gone, dry=False)
    assert not managed_files.converge(gone, dry=False)


def test_a_tree_holds_exactly_its_files(managed_files, tmp_path):
    (tmp_path / "stale").touch()
    (tmp_path / "__pycache__").mkdir()
    entries = managed_files.expand([], {str(tmp_path): {"new": "text"}})
    assert [(Path(one["path"]).name, one["state"]) for one in entries] == [
        (tmp_path.name, "directory"),
        ("stale", "absent"),
        ("new", "file"),
    ]


# The real machine


def play(name: str, variables: dict, folder: Path, inventory: str = "local"):
    """Run a playbook; returns ansible-runner's result, successful or not."""
    return ansible_runner.run(
        private_data_dir=str(folder),
        project_dir=str(ANSIBLE),
        playbook=str(ANSIBLE / "playbooks" / f"{name}.yml"),
        inventory=str(ANSIBLE / "inventories" / inventory),
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


def failure(run) -> str:
    """Return the message of the task that ended a playbook."""
    events = [event for event in run.events if event["event"] == "runner_on_failed"]
    result = events[-1]["event_data"]["res"]
    loop = [item["msg"] for item in result.get("results", []) if item.get("failed")]
    return " ".join(loop or [result["msg"]])


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


def asked(machine: Machine, name: str) -> dict:
    """Return what the playbooks are asked for of an engine."""
    (found,) = [one for one in machine.variables["benchlab_engines"] if one["engine"] == name]
    return found


def empty(machine: Machine, name: str) -> str:
    """Return the key of the snapshot of an engine's empty data directory."""
    return f"empty-{asked(machine, name)['init_key']}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where ansible-runner works."""
    return tmp_path


@pytest.mark.root
def test_a_second_converge_changes_nothing(converged, folder):
    assert played("provision", converged.variables, folder)["changed"] == {}


@pytest.mark.root
def test_the_envelope_is_in_force(converged):
    status = agent("envelope", "status")
    assert status["up"]
    assert status["direct_io"]
    assert status["image_bytes"] == converged.variables["envelope_image_bytes"]
    assert status["limits"]["memory_bytes"] == GIB
    assert status["limits"]["cores"] == 2.0


@pytest.mark.root
def test_facts_are_on_the_target(converged):
    assert json.loads((ETC / "host.json").read_text())["cores"] == os.cpu_count()
    assert json.loads((ETC / "observers.json").read_text())["tools"]["iostat"]


@pytest.mark.root
def test_an_engine_that_cannot_be_had_is_refused(converged):
    refused = json.loads((ETC / "engines/tidb.refused.json").read_text())
    assert refused["engine"] == "tidb"
    assert "/nonexistent/tidb-server" in refused["reason"]
    assert not (ETC / "engines/tidb.json").exists()


@pytest.mark.root
def test_passwords_are_for_root_only(converged):
    assert ETC.joinpath("secrets").stat().st_mode & 0o777 == 0o700
    for secret in (ETC / "secrets").iterdir():
        assert secret.stat().st_mode & 0o777 == 0o600
        assert secret.read_text().strip() not in (ETC / "engines/postgres.json").read_text()


@pytest.mark.root
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


@pytest.mark.root
def test_an_unknown_variant_is_told_in_the_agents_words(converged, folder):
    variables = {"benchlab_engine": "postgres", "benchlab_variant": "fast"}
    run = play("start", variables, folder)
    assert run.status == "failed"
    assert "unknown variant 'fast'" in failure(run)


@pytest.mark.root
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


@pytest.mark.root
def test_other_settings_by_the_playbook_configure(converged, folder):
    converged.converged = False
    variants = {"default": {"settings": {"max_wal_size": "48MB", "log_line_prefix": "it's "}}}
    variables = {"benchlab_engines": [asked(converged, "postgres") | {"variants": variants}]}
    played("configure", converged.variables | variables, folder)
    agent("engine", "postgres", "cold", "--variant", "default")
    assert postgres("SHOW max_wal_size") == "48MB"
    assert postgres("SHOW log_line_prefix") == "it's"
    assert set(engine("postgres")["variants"]) == {"default"}


@pytest.mark.root
def test_oceanbase_asks_for_its_password(converged):
    agent("engine", "postgres", "stop")
    agent("engine", "oceanbase", "cold", "--variant", "default")
    assert "sbtest" in oceanbase("SHOW DATABASES").stdout
    assert oceanbase("SELECT 1", login=False).returncode
    agent("engine", "oceanbase", "stop")


@pytest.mark.root
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
    ],
    ids=["envelope", "setting"],
)
def test_what_cannot_be_is_told_in_one_line(converged, folder, variables, messages):
    before = (ETC / "envelope.json").read_text()
    run = play("provision", converged.variables | variables, folder)
    assert run.status == "failed"
    for message in messages:
        assert message in failure(run)
    assert "\n" not in failure(run)
    assert (ETC / "envelope.json").read_text() == before


@pytest.mark.root
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
