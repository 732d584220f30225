"""Deployments: what the inventory says of nodes and roles, and what a run keeps of each node."""

import json
import threading
import time
from collections.abc import Collection
from types import SimpleNamespace

import polars as pl
import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from benchlab import target
from benchlab.errors import EngineError, TargetError
from benchlab.observers import sample
from benchlab.raw.record import RECORD_NAME, RunFolder
from benchlab.store import ingest
from benchlab.target import Deployment, Node, provision
from benchlab.target.host import Host
from benchlab.target.provisioned import provisioned
from benchlab.target.session import Session
from conftest import ALONE, ANSIBLE, CAPTURES
from ruamel.yaml import YAML

EXAMPLE = "ssh-example"
DOCUMENTED = {"db1": "192.0.2.10", "load1": "192.0.2.20"}

#: A primary, its standby, an application server that is the load's second node, too.
MANY = """
db:
  children:
    db_standby: {hosts: {db2: }}
    db_primary: {hosts: {db1: }}
load: {hosts: {load1: , app1: }}
app: {hosts: {app1: }}
"""


def write(checkout, hosts: str) -> str:
    """Add an inventory and return its name."""
    folder = checkout.inventories / "other"
    folder.mkdir()
    (folder / "hosts.yml").write_text(hosts)
    return folder.name


# What the inventory says


def test_one_machine_has_both_roles(checkout):
    on = target.load(checkout, "local")
    assert on.roles == ALONE
    assert (on.nodes[0].connection, on.load, on.databases) == ("local", on.nodes, on.nodes)
    assert on.nodes[0].address == "127.0.0.1"


def test_the_example_names_two_nodes_and_how_to_reach_them(checkout):
    on = target.load(checkout, EXAMPLE)
    assert on.roles == {"db1": ("db.primary",), "load1": ("load",)}
    server, client = on.nodes
    assert server.peer_address == DOCUMENTED["db1"]
    assert client.connection == "ssh"


def test_nodes_may_find_each_other_where_ssh_does_not(checkout):
    hosts = checkout.inventories / EXAMPLE / "hosts.yml"
    hosts.write_text(
        hosts.read_text().replace("benchlab_address: 192.0.2.10", "benchlab_address: 10.0.0.1")
    )
    server = target.load(checkout, EXAMPLE).nodes[0]
    assert (server.address, server.peer_address) == (DOCUMENTED["db1"], "10.0.0.1")


def test_a_node_may_have_several_roles_and_a_role_several_nodes(checkout):
    on = target.load(checkout, write(checkout, MANY))
    assert list(on.roles.items()) == [
        ("db1", ("db.primary",)),
        ("db2", ("db.standby",)),
        ("app1", ("app", "load")),
        ("load1", ("load",)),
    ]
    assert [node.name for node in on.having("db.standby", "db.primary")] == ["db2", "db1"]
    assert [node.name for node in on.load] == ["app1", "load1"]
    assert [node.name for node in on.databases] == ["db1", "db2"]
    # without an address, ssh connects to the name, as Ansible does
    assert {(node.address, node.connection) for node in on.load} == {
        ("app1", "ssh"),
        ("load1", "ssh"),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("db_primary: {hosts: {db1: }}", "db_primary: {hosts: {db1: , db3: }}"), "'db_primary'"),
        (("load: {hosts: {load1: , app1: }}", ""), "no host is in the group 'load'"),
        (("app: {hosts: {app1: }}", "ungrouped: {hosts: {lost1: }}"), "lost1 is in no group"),
        (
            ("db_primary: {hosts: {db1: }}", "db_primary: {hosts: {db1: {ansible_port: ssh}}}"),
            "'ssh'",
        ),
    ],
)
def test_an_inventory_that_is_no_deployment_is_refused(checkout, change, message):
    name = write(checkout, MANY.replace(*change))
    with pytest.raises(TargetError, match=f"^inventory other: .*{message}"):
        target.load(checkout, name)


def test_ansibles_options_of_ssh_hold_for_benchlab():
    host = Host(
        name="db1",
        address="192.0.2.10",
        connection="ssh",
        user="ada",
        port=2222,
        key_file="~/.ssh/key",
        ssh_arguments=("-J", "jump"),
    )
    argv = host.argv("echo", "a b")
    assert argv[:5] == ["ssh", "-p", "2222", "-i", "~/.ssh/key"]
    assert argv[-4:] == ["-J", "jump", "ada@192.0.2.10", "sudo -n echo 'a b'"]


@pytest.mark.parametrize("ahead_s", [-2.0, 2.0])
def test_a_node_with_another_time_is_refused(monkeypatch, ahead_s):
    """Its samples would be taken for those of other seconds."""
    monkeypatch.setattr(Host, "run", lambda *_: b"%f\n" % (time.time() + ahead_s))
    with pytest.raises(TargetError, match=r"^load1: its clock is 2\.0 s away .* at most 0\.5 s"):
        provision._check_clock(Host(name="load1"))


# Which commands a node gets


class Agents:
    """The agents of some nodes, which answer yes and keep the commands that they got."""

    def __init__(
        self,
        monkeypatch,
        answers: dict[str, dict] | None = None,
        at_once: Collection[str] = (),
    ):
        self.commands: list[tuple[str, ...]] = []
        #: Where two nodes have to be under way; one alone breaks it.
        self.barrier, self.at_once = threading.Barrier(2, timeout=10), at_once
        monkeypatch.setattr(Session, "_wait_followed", lambda _: None)
        self.answers = answers or {}
        monkeypatch.setattr(Host, "agent", lambda host, *words, **_: self.answer(host.name, *words))

    def answer(self, node: str, *words: str) -> bytes:
        command = (node, *words[2:]) if words[0] == "engine" else (node, *words)
        self.commands.append(command)
        if command[1] in self.at_once:
            self.barrier.wait()
        stopped = {"was_running": command[1] == "stop", "killed": False}
        return json.dumps(stopped | self.answers.get(node, {})).encode()


def session(*roles: str, engine: str = "postgres") -> Session:
    """An engine on the nodes with these roles."""
    nodes = tuple(
        Node(name=name, roles=(role,))
        for name, role in (("db1", "db.primary"), ("db2", "db.standby"), ("load1", "load"))
    )
    deployment = Deployment(name="three", nodes=nodes, enforce=True)
    found = target.EngineFound(engine=engine, version="15", nodes=roles)
    return Session(
        target.Provisioned(deployment=deployment, hosts={}, engines={engine: found}), engine
    )


COLD = ("cold", "--variant", "tuned", "--restore", "key")


def test_an_engine_on_two_nodes_stops_where_clients_connect_first_and_starts_on_both_at_once(
    monkeypatch,
):
    agents = Agents(monkeypatch, at_once=("cold",))
    done = session("db.primary", "db.standby").cold("tuned", "key")
    lifted = ("envelope", "limit", "off")
    assert agents.commands[:2] == [("db1", *lifted), ("db2", *lifted)]
    assert agents.commands[2:4] == [("db1", "stop"), ("db2", "stop")]
    assert sorted(agents.commands[4:]) == [("db1", *COLD), ("db2", *COLD)]
    # the agents found it down; how it stopped was said before
    assert {node: said["was_running"] for node, said in done.items()} == {"db1": True, "db2": True}


def test_an_engine_whose_nodes_need_each_other_stops_on_both_at_once(monkeypatch):
    agents = Agents(monkeypatch, at_once=("stop",))
    assert session("db.primary", "db.standby", engine="tidb").stop()
    agents.answers["db2"] = {"killed": True}
    assert not session("db.primary", "db.standby", engine="tidb").stop()
    del agents.commands[2:]
    assert sorted(agents.commands) == [("db1", "stop"), ("db2", "stop")]


def test_a_node_that_does_not_start_is_said_when_the_other_has_ended(monkeypatch):
    def answer(node: str, *words: str) -> bytes:
        if "cold" not in words:
            return b'{"was_running": false, "killed": false}'
        both.wait()
        if node == "db1":
            raise TargetError("db1: it died")
        ended.append(node)
        return b"{}"

    both, ended = threading.Barrier(2, timeout=10), []
    monkeypatch.setattr(Host, "agent", lambda host, *words, **_: answer(host.name, *words))
    with pytest.raises(EngineError, match="postgres: cold: db1: it died"):
        session("db.primary", "db.standby").cold("tuned")
    assert ended == ["db2"]


def test_an_engine_on_one_node_is_nowhere_else(monkeypatch):
    agents = Agents(monkeypatch)
    alone = session("db.primary")
    alone.cold("tuned")
    alone.stop()
    alone.cold("tuned", connections_memory_bytes=4096)
    cold = ("db1", "cold", "--variant", "tuned")
    assert agents.commands == [cold, ("db1", "stop"), (*cold, "--more-memory", "4096")]
    agents.commands.clear()
    alone.bring_up()
    assert agents.commands == [(node, "envelope", "up") for node in ("db1", "db2", "load1")]


def test_a_snapshot_counts_if_every_node_has_it(monkeypatch):
    kept = {"db1": ("a", "b"), "db2": ("b", "c")}
    Agents(monkeypatch, {n: {"snapshots": [{"key": k} for k in keys]} for n, keys in kept.items()})
    assert session("db.primary", "db.standby").snapshots() == {"b"}
    assert session("db.primary").snapshots() == {"a", "b"}


# What a run keeps of each node


def closed(checkout, trial, nodes: dict, captures: dict[str, dict[str, bytes]]) -> RunFolder:
    """Close a run with captures of nodes."""
    folder = RunFolder(checkout.raw, trial, "many", nodes)
    folder.phases["measure"] = (1795223897.0, 1795223902.9)  # those of data/sample/whole.jsonl
    for node, files in captures.items():
        for name, content in files.items():
            folder.write(name, content, node)
    folder.finish("ok")
    return folder


def test_captures_name_their_node(checkout, batches):
    trial = batches()[0].trials[0]
    counters, cores = CAPTURES["sample.jsonl"], b'{"cores": 8}'
    nodes = {"db1": ("db.primary",), "app1": ("app",), "load1": ("load",)}
    folder = closed(
        checkout,
        trial,
        nodes,
        {
            "db1": CAPTURES,
            "app1": {"sample.jsonl": counters, "host.json": cores},
            "load1": {"sample.jsonl": counters, "host.json": cores},
        },
    )
    assert (folder.path / "app1/sample.jsonl").read_bytes() == counters
    tables = ingest.rows(folder.path)
    roles = {(row["node"], row["role"]) for row in tables["node"].to_dicts()}
    assert roles == {(node, role) for node, had in nodes.items() for role in had}
    facts = {row["node"]: row["value"] for row in tables["host"].filter(fact="cores").to_dicts()}
    assert facts == {"db1": "2", "app1": "8", "load1": "8"}
    found = tables["os_sample"].filter(pl.col("observer") == "sample")
    printed = sample.samples(counters.decode())
    # what an agent counts without anything of ours on its node is left out
    unused = {"db1": ["client"], "app1": ["client", "engine", "disk"], "load1": ["engine", "disk"]}
    for node, subjects in unused.items():
        wanted = printed.filter(~pl.col("subject").is_in(subjects))
        key = ("t", "subject", "metric")
        stored = found.filter(node=node).select(wanted.columns)
        assert stored.sort(key).equals(wanted.sort(key)), node


@pytest.mark.parametrize("watched", [True, False])
def test_a_load_that_was_not_sampled_is_reported(checkout, batches, watched):
    nodes = {"db1": ("db.primary",), "load1": ("load",)}
    of_load = {"host.json": b'{"cores": 8}'}
    if watched:
        of_load["sample.jsonl"] = CAPTURES["sample.jsonl"]
    folder = closed(checkout, batches()[0].trials[0], nodes, {"db1": CAPTURES, "load1": of_load})
    table = ingest.rows(folder.path)["attribution"]
    evidence = dict(table.select("resource", "evidence").iter_rows())
    said = "of 8.00 cores" if watched else "no samples of the measured part"
    assert said in evidence["CPU of the client"]


def test_runs_of_older_benchlabs_are_read(checkout, batches):
    """Up to version 3 of the record the load's host had names of files, not a folder."""
    trial = batches()[0].trials[0]
    nodes = {"db": ("db.primary",), "load": ("load",)}
    files = CAPTURES | {
        "client-sample.jsonl": CAPTURES["sample.jsonl"],
        "client-host.json": b'{"cores": 8}',
    }
    folder = closed(checkout, trial, nodes, {"db": files})
    path = folder.path / RECORD_NAME
    record = json.loads(path.read_text())
    del record["nodes"]
    path.write_text(json.dumps(record | {"record_version": 3, "single_host": False}))
    tables = ingest.rows(folder.path)
    assert tables["host"].filter(node="load", fact="cores")["value"].to_list() == ["8"]
    load = tables["os_sample"].filter(subject="client", metric="cpu_us_per_s")
    assert set(load["node"]) == {"load"}
    assert tables["run"]["single_host"].to_list() == [False]
    path.write_text(json.dumps(record | {"record_version": 1, "single_host": True}))
    tables = ingest.rows(folder.path)
    assert tables["node"].rows() == [
        ("db", "db.primary", record["run_id"]),
        ("db", "load", record["run_id"]),
    ]


def test_every_inventory_is_a_deployment(checkout):
    for name in target.names(checkout):
        on = target.load(checkout, name)
        assert on.load, name
        hosts = YAML(typ="safe").load(checkout.inventories / name / "hosts.yml")
        assert set(hosts) <= {"db", "app", "load"}, name


def on_node(checkout, name: str, node: Node, role: str, variable: str, **given: object) -> object:
    """Return what a variable of a role is on a node in a playbook."""
    loader = DataLoader()
    loader.set_basedir(str(ANSIBLE / "playbooks"))
    inventory = InventoryManager(loader=loader, sources=[str(checkout.inventories / name)])
    manager = VariableManager(loader=loader, inventory=inventory)
    manager.safe_basedir = True  # group_vars beside the playbook count
    HostVars(inventory, manager, loader)
    defaults, own = (
        loader.load_from_file(f"{ANSIBLE}/roles/{role}/{kind}/main.yml", trusted_as_template=True)
        for kind in ("defaults", "vars")
    )
    of_inventory = manager.get_vars(host=inventory.get_host(node.name))
    templar = Templar(loader, variables=defaults | of_inventory | own | given)
    return templar.template(trust_as_template(f"{{{{ {variable} }}}}"))


#: Roles of the engines that can listen on one address.
LISTENING = ("mariadb", "mysql", "postgres", "tidb")


@pytest.mark.parametrize("role", LISTENING)
def test_an_engine_listens_where_the_other_nodes_find_it(checkout, role):
    for name in target.names(checkout):
        on = target.load(checkout, name)
        for node in on.databases:
            found = on_node(checkout, name, node, role, f"{role}_listen_address")
            assert found == (node.peer_address if len(on.nodes) > 1 else "127.0.0.1"), name


def test_postgres_accepts_the_other_nodes_only(checkout):
    for name in ("local", "lab-standby", EXAMPLE):
        on = target.load(checkout, name)
        accepted = on_node(checkout, name, on.databases[0], "postgres", "postgres_client_cidrs")
        nodes = {f"{node.peer_address}/32" for node in on.nodes} if len(on.nodes) > 1 else set()
        assert set(accepted) == nodes


def test_an_inventory_may_name_another_address(checkout):
    """TiDB's nodes find each other where each of them listens."""
    name = "lab-standby"
    host = checkout.inventories / name / "host_vars/db2.yml"
    host.parent.mkdir()  # before Ansible looks for it and keeps that it found none
    host.write_text("tidb_listen_address: 10.0.0.9\n")
    primary = target.load(checkout, name).databases[0]
    engines = [{"engine": "tidb", "nodes": ["db.primary", "db.standby"]}]
    found = on_node(checkout, name, primary, "tidb", "__tidb_addresses", benchlab_engines=engines)
    assert found == [primary.address, "10.0.0.9"]


def _failed(host: str, task: str, **result: object) -> dict:
    return {
        "event": "runner_on_failed",
        "event_data": {"host": host, "task": task, "res": result},
    }


@pytest.mark.parametrize(
    ("events", "ended", "reason"),
    [
        (
            [
                _failed("db1", "Perf is there", msg="No package matching 'linux-tools'"),
                _failed("db1", "Server is there", msg="it failed", stderr="first\nno space left\n"),
            ],
            {"failures": {"db1": 1}},
            "db1: Server is there: no space left",
        ),
        (
            [
                _failed("db1", "Server is there", msg="out of memory"),
                _failed("db2", "Perf is there", msg="rescued on the other host"),
            ],
            {"failures": {"db1": 1, "db2": 0}},
            "db1: Server is there: out of memory",
        ),
        (
            [
                _failed(
                    "db1",
                    "All",
                    results=[
                        {"item": 1},
                        {"failed": True, "msg": "the second"},
                        {"failed": True, "stderr": "first line\nthe third"},
                    ],
                )
            ],
            {"failures": {"db1": 1}},
            "db1: All: the second; the third",
        ),
        (
            [
                {"event": "verbose", "stdout": "Using ansible.cfg as config file"},
                {"event": "playbook_on_start", "event_data": {}},
                {
                    "event": "runner_on_unreachable",
                    "event_data": {"host": "db1", "task": "Facts", "res": {"msg": "no route"}},
                },
            ],
            {"failures": {}, "dark": {"db1": 1}},
            "db1: Facts: no route",
        ),
        (
            [
                _failed(
                    "db1",
                    "Role's variables are ones that it has",
                    msg="Validation of arguments failed:\nvalue of tidb_source must be one of: tiup",
                    argument_errors=["value of tidb_source must be one of: tiup"],
                )
            ],
            {"failures": {"db1": 1}},
            "db1: Role's variables are ones that it has: value of tidb_source must be one of: tiup",
        ),
    ],
    ids=["rescued before", "rescued elsewhere", "in a loop", "unreachable", "arguments"],
)
def test_the_failure_that_ended_a_playbook_is_reported(events, ended, reason):
    run = SimpleNamespace(events=events, stats=ended, status="failed")
    assert provision._failure(run) == reason


@pytest.mark.parametrize("content", ["{", "{}", '{"deployment": 1}'])
def test_a_damaged_record_of_a_target_says_what_to_do(checkout, content):
    checkout.targets.mkdir(parents=True, exist_ok=True)
    (checkout.targets / "local.json").write_text(content)
    with pytest.raises(TargetError, match=r"local\.json: .*: delete it, and run `benchlab run"):
        provisioned(checkout, "local")
