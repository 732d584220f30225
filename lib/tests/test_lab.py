"""A real sweep over a deployment of five nodes: primary, standby, application server, two load nodes.

The nodes are the lab's: hosts made of namespaces of this machine, which are gone afterwards.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from benchlab import study, target
from benchlab.errors import TargetError
from benchlab.observers import sample
from benchlab.plan import Planner
from benchlab.raw import folders
from benchlab.raw.record import Record
from benchlab.repo import Repo
from benchlab.store import open_store
from benchlab.target import Node
from benchlab.target import host as remote
from benchlab.target.host import Unreachable
from benchlab.target.lab import FOLDER, Lab, LabHost
from conftest import ETC, HOME, ROOT, Sweep, cgroups, mini_study, wait_for
from ruamel.yaml import YAML

pytestmark = pytest.mark.machine

STUDY = "replicated"
RUN = ("run", STUDY, "--profile", "smoke", "--target", "lab")
ROLES = {
    "db1": ("db.primary",),
    "db2": ("db.standby",),
    "app1": ("app",),
    "load1": ("load",),
    "load2": ("load",),
}

#: Commits wait until the standby shows them.
SYNCHRONOUS = {"synchronous_standby_names": "*", "synchronous_commit": "remote_apply"}


def replicated() -> dict:
    """The small study with PostgreSQL and its standby alone, which one variant's commits wait for."""
    spec = mini_study() | {"study": STUDY}
    engine = spec["engines"]["postgres"] | {"nodes": ["db.primary", "db.standby"]}
    engine["variants"] = {"asynchronous": {}, "synchronous": SYNCHRONOUS}
    spec["engines"] = {"postgres": engine | {"load_variant": "asynchronous"}}
    spec["matrix"][0] |= {"engines": ["postgres"], "variants": list(engine["variants"])}
    overrides = spec["profiles"]["smoke"]["overrides"]
    smoke = spec["profiles"]["smoke"] | {"overrides": {"postgres": overrides["postgres"]}}
    # long enough to break something in it
    spec["profiles"] = {"smoke": smoke, "quick": smoke | {"measure_s": 15, "concurrency": [2, 4]}}
    return spec


class Hosts:
    """The lab, and a checkout with its inventory."""

    def __init__(self, folder: Path):
        self.root = folder / "checkout"
        self.repo = Repo(self.root)
        self.lab = Lab(folder / "lab")
        self._write_checkout()

    def start(self, data: Path, *arguments: str) -> Sweep:
        """Start a command of benchlab whose runs go to ``data``."""
        return Sweep(self, data, *arguments)

    def leftovers(self) -> list[str]:
        """Name whatever of benchlab is on the hosts and should not outlive a command."""
        return [one for host in self.lab.hosts for one in _leftovers(host)]

    def _write_checkout(self) -> None:
        (self.root / "paper/studies").mkdir(parents=True)
        with (self.repo.studies / f"{STUDY}.yml").open("w") as stream:
            YAML(typ="safe").dump(replicated(), stream)
        self.repo.inventories.mkdir(parents=True)
        self.repo.data.mkdir()
        (self.repo.data / "published").symlink_to(ROOT / "data/published")
        for path in (ROOT / "notebooks", *(ROOT / "ansible").iterdir()):
            if path.name != "inventories":
                (self.root / path.relative_to(ROOT)).symlink_to(path)
        instance = mini_study()["instance"]
        (self.repo.inventories / instance).symlink_to(ROOT / "ansible/inventories" / instance)
        for name in ("lab", "gone"):
            folder = self.repo.inventories / name
            shutil.copytree(ROOT / "ansible/inventories/lab", folder)
            variables = folder / "group_vars/all.yml"
            text = variables.read_text().replace(str(FOLDER), str(self.lab.folder))
            # the tests make the hosts and keep them
            variables.write_text(text.replace("benchlab_lab: true", "benchlab_lab: false"))
        hosts = self.repo.inventories / "gone/hosts.yml"
        hosts.write_text(hosts.read_text().replace("10.77.0.6", "10.77.0.9"))


def _leftovers(host: LabHost) -> Iterator[str]:
    pids = host.pids()
    for pid in pids:
        with suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and not name.startswith("sshd"):
                yield f"{host.name}: process {pid} ({name})"
    for line in Path(f"/proc/{min(pids)}/mounts").read_text().splitlines():
        if f"{HOME}/" in line.split()[1]:
            yield f"{host.name}: mount {line}"
    for loop in host.loops():
        yield f"{host.name}: {loop}"
    for group in host.groups:
        if (group / "benchlab").exists():
            yield f"{host.name}: {group}/benchlab"


@pytest.fixture(scope="module")
def no_lab() -> None:
    """Skip the tests where no lab can be made, or where somebody has one."""
    if os.geteuid():
        pytest.skip("needs root")
    if FOLDER.exists():
        pytest.skip(f"{FOLDER} exists: there is a lab on this machine")
    namespaces = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "true"]
    if subprocess.run(namespaces, check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody make namespaces")


def left_of_labs() -> list[str]:
    """Name what is on this machine of any lab."""
    links = {path.name for path in Path("/sys/class/net").iterdir()}
    of_lab = {"benchlab-lab", *(f"bl-{name}" for name in ROLES)}
    return [*(links & of_lab), *map(str, cgroups("benchlab-lab-*"))]


@pytest.fixture(scope="module")
def hosts(no_lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """The lab's hosts; gone afterwards."""
    hosts = Hosts(tmp_path_factory.mktemp("hosts").resolve())
    hosts.lab.up(target.load(hosts.repo, "lab"), tied=True)
    try:
        yield hosts
    finally:
        hosts.lab.down()
        assert left_of_labs() == []


def link(hosts: Hosts, node: str, state: str) -> None:
    """Cut a host's cable, or mend it."""
    (host,) = [one for one in hosts.lab.hosts if one.name == node]
    subprocess.run(["ip", "link", "set", host.cable, state], check=True)


def kill_server(hosts: Hosts, node: str) -> None:
    """Kill PostgreSQL on a host, as a crash would."""
    (host,) = [one for one in hosts.lab.hosts if one.name == node]
    servers = [pid for pid in host.pids() if "bin/postgres" in _command(pid)]
    assert servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


class Swept:
    """What a sweep left that was stopped by Ctrl-C once, and gone on with."""

    def __init__(self, hosts: Hosts, data: Path):
        self.data = data
        stopped = hosts.start(data, *RUN)
        stopped.wait_for(lambda: list(data.glob("raw/*/counters-begin.json")), "a measured part")
        self.stopped = stopped.send(signal.SIGINT)
        self.stopped_said = stopped.said
        self.unfinished = folders.unfinished(data / "raw")
        # observers end with the pipe to them, and after that gather what they have for nobody
        wait_for(lambda: not hosts.leftovers(), "nothing left of a stopped sweep")
        whole = hosts.start(data, *RUN)
        self.code, self.said = whole.end(), whole.said
        self.leftovers = hosts.leftovers()

    @property
    def records(self) -> list[Record]:
        return [folders.read(folder) for folder in folders.finished(self.data / "raw")]

    def text(self, record: Record, name: str) -> str:
        return (self.data / "raw" / record.run_id / name).read_text()


@pytest.fixture(scope="module")
def swept(hosts, tmp_path_factory) -> Swept:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BENCHLAB_DB_PASSWORD", raising=False)
        return Swept(hosts, tmp_path_factory.mktemp("swept") / "data")


def test_the_commands_make_a_lab_examine_it_and_remove_it(no_lab, tmp_path):
    """Before any other test, whose hosts would be in the way."""

    def benchlab(*arguments: str) -> str:
        ended = subprocess.run(
            [Path(sys.executable).with_name("benchlab"), *arguments],
            cwd=ROOT,
            env={**os.environ, "BENCHLAB_DATA": str(tmp_path), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    try:
        assert "5 hosts: `benchlab run --target lab`" in benchlab("lab", "up")
        found = benchlab("doctor", "--target", "lab")
        for node in ROLES:
            assert re.search(rf"{node}: root +│ yes │ directly or by sudo", found), found
        for node in ("db1", "db2"):  # the only ones that an envelope limits
            assert re.search(rf"{node}: cgroup +│ yes │", found), found
        assert "load1: cgroup" not in found
        assert re.search(r"remote_wal, profile smoke +│ yes │", found), found
        assert "lab removed" in benchlab("lab", "down")
    finally:
        Lab().down()
    assert left_of_labs() == []
    assert "there is no lab" in benchlab("lab", "down")
    assert "target lab: nothing of benchlab is running" in benchlab("teardown", "--target", "lab")


def test_a_second_lab_is_refused(hosts):
    with pytest.raises(TargetError, match=r"^lab: there are hosts already \(app1, db1, "):
        hosts.lab.up(target.load(hosts.repo, "lab"))


def test_a_node_that_is_not_there_is_reported_before_anything_starts(hosts, tmp_path):
    sweep = hosts.start(tmp_path / "data", *RUN[:-1], "gone")
    assert sweep.end() == 1, sweep.said
    assert sweep.said.startswith("benchlab: load2: not reachable over ssh: ssh: connect to host")
    assert len(sweep.said.splitlines()) == 1
    assert not list((tmp_path / "data").glob("raw/*"))
    assert hosts.leftovers() == []


@pytest.fixture
def load_node(hosts: Hosts) -> Node:
    """A node with load. Ansible keeps the frames that loaded an inventory: a test's would live on."""
    return target.load(hosts.repo, "lab").load[0]


def test_a_tunnel_takes_another_port_where_its_own_is_taken(load_node, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = [other.getsockname()[1], remote._unused_port()]
        monkeypatch.setattr(remote, "_unused_port", iter(ports).__next__)
        tunnel = load_node.tunnel("127.0.0.1", 22)
        assert tunnel.port == ports[1]
        with socket.create_connection((tunnel.address, tunnel.port), timeout=10) as there:
            assert there.recv(8).startswith(b"SSH-2.0")
        monkeypatch.setattr(remote, "_unused_port", lambda: ports[0])
        with pytest.raises(
            Unreachable, match=r"^load1: no way over ssh to 127.0.0.1:22: Could not"
        ):
            load_node.tunnel("127.0.0.1", 22)


def test_a_tunnel_ends_with_the_object_that_stands_for_it(load_node):
    tunnel = load_node.tunnel("127.0.0.1", 22)
    ssh = tunnel._ssh
    assert not tunnel.closed
    del tunnel
    wait_for(lambda: ssh.poll() is not None, "the end of its ssh")


def test_ctrl_c_stops_all_nodes(swept):
    assert swept.stopped == 130, swept.stopped_said
    assert swept.stopped_said.endswith("benchlab: stopped; finished runs are kept\n")
    assert len(swept.unfinished) == 1
    assert swept.code == 0, swept.said


def test_a_sweep_leaves_nothing_on_any_node(swept):
    assert swept.leftovers == []


def test_runs_count_and_have_captures_of_every_node(swept):
    variants = {record.trial.point.variant for record in swept.records}
    assert variants == {"asynchronous", "synchronous"}
    for record in swept.records:
        assert (record.status, record.error) == ("ok", None)
        assert record.nodes == ROLES
        kept = {
            f"{node}/{name}" for node in list(ROLES)[1:] for name in ("host.json", "sample.jsonl")
        }
        # one client on each node with the load
        kept |= {"sysbench.out", "sysbench-2.out"}
        kept |= {"host.json", "sample.jsonl", "engine.log", "db2/engine.log", "db2/cold.json"}
        assert kept <= set(record.files)
        assert not [name for name in record.files if name.endswith("observers.json")]


def test_what_others_use_of_the_machine_is_known_though_its_hosts_share_it(swept):
    with open_store(swept.data / "store") as store:
        for record in swept.records:
            boots = store.table("host", record.run_id).filter(fact="boot_id")
            assert (len(boots), boots["value"].n_unique()) == (len(ROLES), 1)
            kernel = store.table("os_sample", record.run_id).filter(subject="kernel threads")
            assert set(kernel["node"]) == set(ROLES)
            (share,) = store.table("gate", record.run_id).filter(check="alone")["value"]
            assert 0 <= share < 1


def test_samples_and_attribution_name_their_node(swept):
    with open_store(swept.data / "store") as store:
        for record in swept.records:
            stored = store.table("os_sample", record.run_id).filter(observer="sample")
            assert set(stored["node"]) == set(ROLES)
            for node in ROLES:
                file = record.captured(node, "sample.jsonl")
                printed = sample.samples(swept.text(record, file))
                busy = pl.col("subject").eq("host") & pl.col("metric").eq("cpu_us_per_s")
                found = stored.filter(busy, node=node).sort("t")["value"]
                assert found.to_list() == printed.filter(busy).sort("t")["value"].to_list()
            used = {
                row["node"]: row["value"]
                for row in stored.filter(metric="cpu_us_per_s")
                .filter(pl.col("subject").is_in(["engine", "client"]))
                .group_by("node")
                .agg(pl.col("value").max())
                .to_dicts()
            }
            # nothing of sysbench's runs on the application server: it is sampled, and no more
            assert used.keys() == set(ROLES) - {"app1"}
            assert all(used.values())
            found = store.table("attribution", record.run_id)
            nodes = {key[0]: set(rows["node"]) for key, rows in found.group_by("resource")}
            assert nodes["disk write bandwidth"] == nodes["CPU of the engine"] == {"db1", "db2"}
            assert nodes["CPU of the client"] == {"load1", "load2"}
            assert nodes["network"] == set(ROLES)
            assert nodes["commit latency"] == {"db1"}
            evidence = found.filter(resource="CPU of the client", node="load2")["evidence"][0]
            assert f"of {os.cpu_count()}.00 cores" in evidence


def test_the_standby_follows_and_the_primary_waits_for_it_if_requested(swept):
    for record in swept.records:
        assert "started streaming WAL from primary" in swept.text(record, "db2/engine.log")
        counted = json.loads(swept.text(record, "counters-end.json"))
        assert "pg_stat_replication.db2.replay_lag_bytes" in counted
        # the slot keeps what the standby has not confirmed to have flushed
        assert counted["pg_stat_replication.db2.slot_kept_bytes"] >= 0
    with open_store(swept.data / "store") as store:
        waits = store.sql(
            "SELECT DISTINCT variant FROM engine_wait JOIN run USING (run_id)"
            " WHERE wait = 'IPC:SyncRep'"
        )
    assert waits["variant"].to_list() == ["synchronous"]


def test_nodes_without_an_engine_have_none_and_no_password(hosts, swept):
    for node in target.load(hosts.repo, "lab").having("app", "load"):
        there = node.run("find", str(ETC), "-type", "f").decode().split()
        assert sorted(there) == [f"{ETC}/envelope.json", f"{ETC}/host.json"]
        assert not node.run("find", str(HOME), "-name", "*.img")


def test_no_password_is_in_anything_that_is_kept(hosts, swept):
    primary = target.load(hosts.repo, "lab").nodes[0]
    secret = primary.read(ETC / "secrets/postgres").strip()
    assert secret
    for path in swept.data.rglob("*"):
        assert not (path.is_file() and secret in path.read_bytes()), path


class Broken:
    """A sweep in each of whose runs something was broken: runs by variant and clients."""

    def __init__(self, hosts: Hosts, data: Path, versions: dict[str, str]):
        self.data = data
        spec = study.load(hosts.repo, STUDY)
        instance = target.instance_type(hosts.repo, spec.instance)
        batches = Planner(spec, "quick", instance, versions).closed_loops()
        sweep = hosts.start(data, "run", STUDY, "--profile", "quick", "--target", "lab")
        for trial in (trial for batch in batches for trial in batch.trials):
            sweep.measured(trial)
            match trial.point.variant, trial.point.concurrency:
                case "asynchronous", 2:
                    kill_server(hosts, "db2")
                case "asynchronous", 4:
                    kill_server(hosts, "db1")
                case "synchronous", 2:
                    link(hosts, "db2", "down")
                    time.sleep(3)  # the fault lasts that long
                    link(hosts, "db2", "up")
                case "synchronous", 4:
                    kill_server(hosts, "db2")
        self.code, self.said = sweep.end(), sweep.said
        self.leftovers = hosts.leftovers()
        self.runs = {
            (record.trial.point.variant, record.trial.point.concurrency): record
            for record in map(folders.read, folders.finished(data / "raw"))
        }


@pytest.fixture(scope="module")
def broken(hosts, swept, tmp_path_factory) -> Broken:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BENCHLAB_DB_PASSWORD", raising=False)
        versions = {"postgres": swept.records[0].trial.point.engine_version}
        return Broken(hosts, tmp_path_factory.mktemp("broken") / "data", versions)


def test_broken_runs_leave_nothing_on_any_node(broken):
    assert broken.code == 3, broken.said
    assert broken.leftovers == []
    assert "Traceback" not in broken.said


def test_a_standby_that_dies_fails_the_run_though_nobody_waited_for_it(broken):
    run = broken.runs["asynchronous", 2]
    assert run.status == "failed"
    assert run.error.startswith(
        "postgres on db2 died: postgres: 0 of 1 follow db1; its last lines: "
    )
    captured = (broken.data / "raw" / run.run_id / "replication.jsonl").read_text()
    standbys = [json.loads(line)["standbys"] for line in captured.splitlines()]
    assert [one["standby"] for one in standbys[0]] == ["db2"]
    assert standbys[-1] == []


def test_a_primary_that_dies_fails_the_run(broken):
    run = broken.runs["asynchronous", 4]
    assert run.status == "failed"
    assert run.error.startswith("postgres on db1 died: sysbench measure: ")


def test_commits_stop_while_the_link_is_cut_and_go_on_when_it_is_mended(broken):
    run = broken.runs["synchronous", 2]
    assert (run.status, run.error) == ("ok", None)
    with open_store(broken.data / "store") as store:
        seconds = store.table("interval", run.run_id).filter(phase="measure").sort("second")
    tps = seconds.group_by("second", maintain_order=True).agg(pl.col("tps").sum())["tps"].to_list()
    still = [second for second, one in enumerate(tps) if one == 0]
    assert len(still) >= 2, tps
    assert max(still) < len(tps) - 1, tps
    assert tps[0] > 0, tps


def test_commits_that_wait_for_a_dead_standby_fail_the_run(broken):
    run = broken.runs["synchronous", 4]
    assert run.status == "failed"
    assert run.error.startswith(
        "postgres on db2 died: postgres: 0 of 1 follow db1; its last lines: "
    )
