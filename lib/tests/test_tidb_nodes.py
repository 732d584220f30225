"""A cluster of TiDB on two nodes, made of this machine: three PDs, three TiKVs, two TiDBs."""

import json
from pathlib import Path

import pytest
from benchlab.raw import folders
from benchlab.raw.record import Record
from benchlab.target.lab import FOLDER
from conftest import mini_study, tidb_server
from ruamel.yaml import YAML

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(
        (tidb_server() or {}).get("tidb_source") != "tiup",
        reason="no TiDB with PD and TiKV: BENCHLAB_TIDB names none",
    ),
]

STUDY = "two_nodes"


def two_nodes() -> dict:
    """The small study with TiDB alone, each of whose rows three TiKVs have."""
    spec = mini_study() | {"study": STUDY}
    tidb = spec["engines"]["tidb"] | {
        "role_vars": tidb_server(),
        "nodes": ["db.primary", "db.standby"],
        "load_variant": "default",
        # two TiKVs on the first node share its memory
        "settings": {
            "storage.block-cache.capacity": {"of_memory": 0.1},
            "replication.max-replicas": 3,
        },
        "variants": {"default": {}},
    }
    spec["engines"] = {"tidb": tidb}
    spec["matrix"][0] |= {"engines": ["tidb"], "variants": ["default"]}
    for profile in spec["profiles"].values():
        del profile["overrides"]
        profile["envelope"]["cores"] = 1  # two hosts, of this machine
    return spec


@pytest.fixture(scope="module")
def ran(machine, tmp_path_factory) -> tuple[Path, int, str, list[str]]:
    """Where the runs are, the exit code, what was said, and what was left behind."""
    if FOLDER.exists():
        pytest.skip(f"{FOLDER} exists: there is a lab on this machine")
    data = tmp_path_factory.mktemp(STUDY) / "data"
    with (machine.repo.studies / f"{STUDY}.yml").open("w") as stream:
        YAML(typ="safe").dump(two_nodes(), stream)
    before = machine.leftovers()
    code, said = machine.benchlab(
        data, "run", STUDY, "--profile", "smoke", "--target", "lab-standby"
    )
    # connections to the hosts are shared, and end a minute after their last use
    left = [one for one in machine.leftovers() if one not in before and not one.endswith(" (ssh)")]
    return data, code, said, left


@pytest.fixture
def record(ran) -> Record:
    data, code, said, _ = ran
    assert code == 0, said
    (record,) = [folders.read(one) for one in folders.finished(data / "raw")]
    assert record.status == "ok"
    return record


def test_it_runs_on_both_nodes_and_leaves_nothing(ran, record):
    *_, left = ran
    assert left == []
    assert tuple(record.nodes) == ("db1", "db2", "load1")


def test_each_node_has_services_of_its_own(ran, record):
    pages = {
        tuple(name.removesuffix("-begin.txt").split("metrics-"))
        for name in record.files
        if name.endswith("-begin.txt") and "metrics-" in name
    }
    assert {service for node, service in pages if "db2" not in node} == {
        "pd",
        "pd2",
        "tikv",
        "tikv2",
        "tidb",
    }
    assert {service for node, service in pages if "db2" in node} == {"pd", "tikv", "tidb"}


def test_each_row_is_on_three_stores(ran, record):
    data, *_ = ran
    text = (data / "raw" / record.run_id / "settings.json").read_text()
    settings = {one["name"]: one["effective"] for one in json.loads(text)}
    assert settings["replication.max-replicas"] == "3"
