"""Roles and playbooks: what they say of themselves, and the programs that they bring."""

import grp
import hashlib
import importlib.util
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from conftest import ANSIBLE, environment, fetched

ROLES = sorted((ANSIBLE / "roles").iterdir())

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


# What the roles say of themselves


@by_role
def test_public_variables_are_described(role):
    file = role / "defaults/main.yml"
    defaults = load(file) if file.exists() else {}
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert {name for name, one in options.items() if not one.get("required")} == set(defaults)
    for name, option in options.items():
        assert name.startswith(f"{role.name}_")
        assert option["type"]
        assert option["description"]
        default = defaults.get(name)
        literal = not (isinstance(default, str) and "{{" in default)
        if literal and default is not None:
            assert option["default"] == default, name


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


def test_the_list_of_engines_is_whole():
    """teardown_wipe deletes what these roles unpacked."""
    configured = [role.name for role in ROLES if (role / "tasks/reconfigure.yml").exists()]
    assert load(ANSIBLE / "playbooks/group_vars/all.yml")["benchlab_roles"] == configured


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


def test_the_articles_instance_type():
    folder = ANSIBLE / "inventories/tencent-s5-2xlarge32/group_vars"
    variables = load(folder / "all.yml")
    instance = variables["instance_type"]
    assert (instance["cores"], instance["memory_bytes"]) == (8, 32 << 30)
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


@pytest.mark.parametrize(
    ("host", "changes", "first"),
    [
        ("db1", {}, 0),
        ("db2", {}, 1),
        ("db3", {"envelope_cores": 1.5}, 4),
        ("db2", {"envelope_cores": None}, 0),
        ("load1", {}, 0),
        ("db2", {"benchlab_lab": False}, 0),
    ],
)
def test_the_database_hosts_of_a_lab_take_turns_on_its_cpus(host, changes, first):
    variables = {
        "inventory_hostname": host,
        "groups": {"db": ["db1", "db2", "db3"]},
        "benchlab_lab": True,
        "envelope_cores": 1,
        **changes,
    }
    default = load(ANSIBLE / "roles/envelope/defaults/main.yml")["envelope_first_cpu"]
    templar = Templar(DataLoader(), variables=variables)
    assert int(templar.template(trust_as_template(default))) == first


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
    assert facts["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
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


# The module that runs a program


@pytest.fixture
def program(tmp_path, monkeypatch):
    module = script(ANSIBLE / "library/program.py")
    monkeypatch.setattr(module, "LOCKS", tmp_path / "locks")
    return module


def test_a_program_says_what_it_says(program):
    done = program.run(["sh", "-c", "cat; echo why >&2; exit 3"], stdin="a\nb\n")
    assert (done["rc"], done["stdout"], done["stderr"]) == (3, "a\nb", "why")
    assert done["failed"]
    assert not program.run(["true"]).get("failed")
    assert "No such file" in program.run(["/no/such/program"])["msg"]


def test_a_program_is_not_run_where_its_work_is_done(program, tmp_path):
    argv, made = ["sh", "-c", f"echo x >> {tmp_path}/made"], str(tmp_path / "made")
    assert program.run(argv, creates=made)["changed"]
    assert not program.run(argv, creates=made)["changed"]
    assert (tmp_path / "made").read_text() == "x\n"


def test_a_program_that_was_begun_is_waited_for_by_the_next(program, tmp_path):
    os.mkfifo(tmp_path / "go")
    made = tmp_path / "made"
    argv = ["sh", "-c", f"cat {tmp_path}/go > {tmp_path}/draft; mv {tmp_path}/draft {made}"]
    assert program.begin(argv, creates=str(made)) == {"changed": True}
    with (tmp_path / "go").open("w") as go:  # opens as soon as the program reads it
        go.write("by the first")
    assert not program.run(argv, creates=str(made))["changed"]
    assert made.read_text() == "by the first"


@pytest.mark.parametrize("check", [False, True])
def test_a_module_gets_its_arguments_as_text(tmp_path, check):
    """As Ansible puts them in; a dry run runs no program."""
    given = {"argv": ["cat"], "stdin": 'it\'s \\ """\n', "_ansible_check_mode": check}
    text = (ANSIBLE / "library/program.py").read_text()
    module = tmp_path / "module.py"
    module.write_text(text.replace("<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>", json.dumps(given)))
    said = subprocess.run([sys.executable, module], capture_output=True, check=True).stdout
    assert json.loads(said).get("stdout") == (None if check else 'it\'s \\ """')


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


def test_a_link_to_a_folder_is_a_folder(managed_files, entry, tmp_path):
    (tmp_path / "larger").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "larger")
    wanted = entry(tmp_path / "home", state="directory", mode="0711")
    assert managed_files.converge(wanted, dry=False)
    assert (tmp_path / "larger").stat().st_mode & 0o777 == 0o711
    assert not managed_files.converge(wanted, dry=False)
    assert (tmp_path / "home").is_symlink()


def test_absent_removes_folders_and_files(managed_files, entry, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    gone = entry(tmp_path / "folder", state="absent")
    assert managed_files.converge(gone, dry=False)
    assert not managed_files.converge(gone, dry=False)


@pytest.mark.parametrize(
    ("wanted", "message"), [({"stat": "file"}, "option stat"), ({"state": "link"}, "state link")]
)
def test_what_a_file_cannot_be_is_reported(managed_files, tmp_path, wanted, message):
    with pytest.raises(ValueError, match=f"unknown {message}"):
        managed_files.entries([{"path": str(tmp_path)} | wanted], {})


def test_a_tree_holds_exactly_its_files(managed_files, tmp_path):
    (tmp_path / "stale").touch()
    (tmp_path / "__pycache__").mkdir()
    entries = managed_files.expand([], {str(tmp_path): {"new": "text"}})
    assert [(Path(one["path"]).name, one["state"]) for one in entries] == [
        (tmp_path.name, "directory"),
        ("stale", "absent"),
        ("new", "file"),
    ]


@pytest.mark.root
def test_a_wipe_leaves_a_disk_of_somebody_and_what_is_theirs_on_it(tmp_path):
    home, engines = tmp_path / "home", tmp_path / "engines"
    for folder in (home / "disk", home / "snapshots/postgres/key", engines):
        folder.mkdir(parents=True)
    (home / "snapshots/postgres/key/PG_VERSION").write_text("15")
    (home / ".odd name").write_text("")
    (engines / "postgres.json").write_text(f'{{\n "data_dir": "{home}/disk/postgres",\n "x": 1\n}}')
    wipe = f"sh {ANSIBLE / 'roles/host/files/wipe.sh'} {home} {engines}"
    on_a_disk = f"""
        mount -t tmpfs none {home}/disk
        mkdir {home}/disk/postgres {home}/disk/.postgres.partial
        touch {home}/disk/postgres/base {home}/disk/.postgres.restored {home}/disk/theirs
        {wipe}
        {wipe}
        find {home} -mindepth 1
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", on_a_disk], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [f"{home}/disk", f"{home}/disk/theirs"]
    subprocess.run(wipe.split(), check=True)
    assert not home.exists()
    larger, link = tmp_path / "larger", tmp_path / "home"
    larger.mkdir()
    (larger / "data").write_text("")
    link.symlink_to(larger)
    subprocess.run(wipe.split(), check=True)
    assert link.is_symlink()
    assert not list(larger.iterdir())


def test_a_password_is_kept_once_and_passes_everywhere(tmp_path):
    file, secret = tmp_path / "secret", ANSIBLE / "roles/host/files/secret.sh"

    def keep(wanted: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", secret, file], input=wanted, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    for unfit in ("it's", "with space", 'a"b', "a\\b", "#a"):
        assert keep(unfit) == (4, "")
    assert not list(tmp_path.iterdir())
    assert keep("Letters4nd0thers") == (0, "changed\n")
    assert file.read_text() == "Letters4nd0thers\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert keep("") == keep("Letters4nd0thers") == (0, "unchanged\n")
    assert keep("another") == (3, "")
    file.unlink()
    assert keep("") == (0, "changed\n")
    assert len(file.read_text()) == 33


@pytest.mark.parametrize("tasks", ["agent", "secret"])
def test_a_dry_run_goes_on_where_no_program_was_run(tmp_path, tasks):
    variables = {"host_agent_argv": ["envelope", "up"], "host_secret_name": "postgres"}
    role = {"name": "host", "tasks_from": f"{tasks}.yml"}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_role": role, "vars": variables}],
    }
    (tmp_path / "dry.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [
            *("ansible-playbook", "--check", "--connection", "local", "--inventory", "here,"),
            tmp_path / "dry.yml",
        ],
        cwd=ANSIBLE,
        env={**environment(), "ANSIBLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


# What is fetched


#: Scripts that fetch a vendor's tarball.
MYSQL, TIDB = "mysql/files/fetch_tarball.sh", "tidb/files/fetch.sh"


def test_mysql_is_unpacked_from_the_vendors_tarball_if_it_is_that_one(tmp_path):
    server = tmp_path / "mysql-8.0.26-linux/bin/mysqld"
    server.parent.mkdir(parents=True)
    server.write_text('#!/bin/sh\necho "Ver 8.0.26 $@"\n')
    server.chmod(0o755)
    tarball, to = tmp_path / "mysql.tar.xz", tmp_path / "server"
    with tarfile.open(tarball, "w:xz") as archive:
        archive.add(server.parents[1], "mysql-8.0.26-linux")
    code, said = fetched(MYSQL, to, tarball, "0" * 64)
    assert code
    assert "has another checksum than SHA-256 0000" in said
    assert not list(tmp_path.glob("server*"))
    assert fetched(MYSQL, to, tarball, hashlib.sha256(tarball.read_bytes()).hexdigest())[0] == 0
    assert tarball.exists()
    done = subprocess.run(
        [to / "run-mysqld", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Ver 8.0.26 --version --basedir=")


class Downgrade(BaseHTTPRequestHandler):
    """Sends whoever asks to another page, without encryption."""

    def do_GET(self):
        self.send_response(302)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/other")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
@pytest.mark.parametrize("script", [MYSQL, TIDB])
def test_a_download_is_not_led_away_from_https(tmp_path, script):
    with HTTPServer(("127.0.0.1", 0), Downgrade) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/all"
        code, said = fetched(script, tmp_path / "to", url, "0" * 64)
        server.shutdown()
    assert code
    assert "Protocol" in said
    assert "http" in said


# Configuration files, without a server


@pytest.mark.parametrize("role", ["mariadb", "mysql"])
@pytest.mark.parametrize(
    ("value", "line"),
    [(False, "skip_log_bin"), ("off", "skip_log_bin"), ("other", "log_bin = other")],
)
def test_a_log_that_is_not_wanted_is_no_file_named_off(role, value, line):
    variables = {f"{role}_{name}": "x" for name in ("data_dir", "listen_address", "port")} | {
        f"__{role}_name": role,
        "name": "default",
    }
    variables["variant"] = {"settings": {"log_bin": value, "local_infile": True}}
    template = trust_as_template((ANSIBLE / f"roles/{role}/templates/my.cnf.j2").read_text())
    written = Templar(DataLoader(), variables=variables).template(template).split("\n")
    assert [one for one in written if "log_bin" in one or "infile" in one] == [
        line,
        "local_infile = on",
    ]


def configured(component: str, settings: dict, version: str = "7.1.1", nofile: int = 1 << 20):
    """What a component's file has for a variant, read as TOML."""
    role = ANSIBLE / "roles/tidb"
    variables = {
        **load(role / "vars/main.yml"),
        "component": component,
        "variant": {"settings": settings},
        "tidb_data_dir": "/data",
        "__tidb_found": {"version": version, "nofile_hard": nofile},
    }
    template = trust_as_template((role / "templates/component.toml.j2").read_text())
    return tomllib.loads(Templar(DataLoader(), variables=variables).template(template))


def test_each_component_of_tidb_gets_its_own_settings_with_their_types():
    settings = {
        "log.level": "error",
        "performance.pseudo-estimate-ratio": "0.8",
        "mem-quota-query": "-1",
        "storage.block-cache.capacity": "512MiB",
        "rocksdb.writecf.disable-auto-compactions": "true",
        "schedule.max-merge-region-size": 0,
        "tidb_table_cache_lease": 3,
    }
    found = {one: configured(one, settings) for one in ("pd", "tikv", "tidb")}
    assert [one["log"]["level"] for one in found.values()] == ["error"] * 3
    assert found["tidb"]["performance"]["pseudo-estimate-ratio"] == 0.8
    assert found["tidb"]["mem-quota-query"] == -1
    assert found["tidb"]["temp-dir"] == "/data/tmp"
    assert found["pd"]["schedule"] == {"max-merge-region-size": 0}
    assert found["tikv"]["storage"]["block-cache"]["capacity"] == "512MiB"
    assert found["tikv"]["rocksdb"]["writecf"]["disable-auto-compactions"] is True
    assert "schedule" not in found["tikv"]
    assert "tidb_table_cache_lease" not in str(found)
    assert "temp-dir" not in configured("tidb", {}, version="6.0.0")


def test_tikv_opens_fewer_files_where_few_are_allowed():
    assert "rocksdb" not in configured("tikv", {})
    assert configured("tikv", {}, nofile=20_000)["rocksdb"]["max-open-files"] == 256


@pytest.mark.parametrize(
    ("size", "largest", "keys"),
    [
        ("96MiB", "144MB", (960_000, 1_440_000)),
        ("50GiB", "76800MB", (512_000_000, 768_000_000)),
        ("1536KiB", "2304KB", (15_000, 22_500)),
        ("512KiB", "768KB", (5_000, 7_500)),
    ],
)
def test_a_region_may_grow_beyond_the_size_at_which_it_is_split(size, largest, keys):
    found = configured("tikv", {"coprocessor.region-split-size": size})["coprocessor"]
    assert found["region-max-size"] == largest
    assert (found["region-split-keys"], found["region-max-keys"]) == keys
