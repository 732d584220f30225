"""The agent's cgroups, on recorded trees: no root needed, nothing of the host is touched."""

import shutil
from pathlib import Path

import pytest
from benchlab.agent.cgroup import CgroupsV1, CgroupsV2, open_cgroups
from benchlab.agent.config import NO_DISK_LIMITS, AgentError

DATA = Path(__file__).parent / "data"
LIMITS = {
    "read_bytes_per_s": 35_000_000,
    "write_bytes_per_s": 30_000_000,
    "read_iops": 2400,
    "write_iops": None,
}


@pytest.fixture
def v1(tmp_path: Path) -> CgroupsV1:
    shutil.copytree(DATA / "cgroup_v1", tmp_path / "v1")
    return open_cgroups(tmp_path / "v1", "benchlab")


@pytest.fixture
def v2(tmp_path: Path) -> CgroupsV2:
    shutil.copytree(DATA / "cgroup_v2", tmp_path / "v2")
    return open_cgroups(tmp_path / "v2", "benchlab")


def test_the_version_is_found(v1, v2, tmp_path):
    assert (v1.version, v2.version) == (1, 2)
    (tmp_path / "none").mkdir()
    with pytest.raises(AgentError, match=r"no cgroup hierarchy at .*none: neither v2 nor v1"):
        open_cgroups(tmp_path / "none", "benchlab")


def test_v1_reads_what_was_in_force(v1):
    assert v1.cpu_limit() == 1.5
    assert v1.memory_limit() == 128 << 20
    assert v1.disk_limits("7:1") == {
        "read_bytes_per_s": 20 << 20,
        "write_bytes_per_s": 5 << 20,
        "read_iops": 2000,
        "write_iops": 2000,
    }
    assert v1.disk_limits("7:0") == NO_DISK_LIMITS


def test_v1_reads_the_counters(v1):
    assert v1.cpu_usage_us("engine") == 2_724_061
    assert v1.cpu_usage_us("client") == 9_386
    assert v1.throttled() == {
        "total_throttled_us": 5_325,
        "nr_periods": 138,
        "nr_throttled": 4,
        "client_nr_periods": 0,
        "client_nr_throttled": 0,
    }
    assert v1.memory() == {
        "engine_bytes": 36_864,
        "total_bytes": 528_384,
        "limit_bytes": 128 << 20,
        "failcnt": 2851,
        "oom_kill": 1,  # counted in the engine's group only
        "major_faults": 13_829,
        "refaults": 693_640,
    }
    assert v1.disk("7:1") == {
        "read_bytes": 1_693_014_016,
        "write_bytes": 1_980_591_104,
        "read_ios": 27_074,
        "write_ios": 131_389,
    }
    assert set(v1.disk("7:9").values()) == {0}
    assert v1.pids("engine") == [9681]
    assert v1.all_pids() == [9681, 9682, 10049]
    assert v1.pressure() == v1.root / "unified" / "benchlab" / "engine"


def test_v1_writes_limits(v1):
    v1.set_cpu(2.5)
    assert (v1.root / "cpu/benchlab/cpu.cfs_quota_us").read_text() == "50000"
    assert (v1.root / "cpu/benchlab/cpu.cfs_period_us").read_text() == "20000"
    assert v1.cpu_limit() == 2.5
    v1.set_cpu(None)
    assert v1.cpu_limit() is None
    assert [v1.yield_cpu(), v1.yield_cpu()] == [True, False]
    assert (v1.root / "cpu/benchlab/cpu.shares").read_text() == "2"

    v1.set_memory(64 << 20)
    assert v1.memory_limit() == 64 << 20
    for child in ("", "engine", "client"):
        assert (v1.root / "memory/benchlab" / child / "memory.swappiness").read_text() == "0"
    # LONG_MAX in whole pages is how the kernel shows "unlimited", here of the engine's group.
    engine = v1.root / "memory/benchlab/engine/memory.limit_in_bytes"
    shutil.copy(engine, v1.root / "memory/benchlab/memory.limit_in_bytes")
    assert v1.memory_limit() is None

    v1.set_disk("7:1", LIMITS)
    blkio = v1.root / "blkio"
    assert (blkio / "blkio.throttle.read_bps_device").read_text() == "7:1 35000000"
    assert (blkio / "blkio.throttle.write_iops_device").read_text() == "7:1 0"


def test_v1_keeps_the_engine_in_the_root_group_of_blkio(v1):
    v1.join("engine")
    joined = [path.parent for path in v1.root.rglob("cgroup.procs") if path.read_text() == "0"]
    assert {str(path.relative_to(v1.root)) for path in joined} == {
        "cpu/benchlab/engine",
        "cpuacct/benchlab/engine",
        "memory/benchlab/engine",
        "unified/benchlab/engine",
        "blkio",
    }


def test_v1_makes_missing_groups_once(v1):
    other = open_cgroups(v1.root, "other")
    assert not other.exists()
    assert other.create() is True
    assert other.create() is False
    assert not (v1.root / "blkio" / "other").exists()
    other.remove(lambda: None)
    assert not (v1.root / "cpu" / "other").exists()
    other.remove(lambda: None)


def test_v1_names_a_missing_controller(v1):
    shutil.rmtree(v1.root / "memory")
    with pytest.raises(AgentError, match="controller memory is not mounted"):
        v1.create()


def test_joining_before_up_says_what_to_do(v1):
    with pytest.raises(AgentError, match="does not exist: run 'envelope up' first"):
        open_cgroups(v1.root, "other").join("engine")


def test_v2_reads_limits_and_counters(v2):
    assert v2.cpu_limit() is None
    assert v2.memory_limit() is None
    assert v2.disk_limits("8:16") == {
        **NO_DISK_LIMITS,
        "read_bytes_per_s": 2097152,
        "write_iops": 120,
    }
    assert v2.disk_limits("8:0") == NO_DISK_LIMITS
    assert v2.cpu_usage_us("engine") == 2_724_061
    assert v2.throttled() == {
        "total_throttled_us": 5_325,
        "nr_periods": 138,
        "nr_throttled": 4,
        "client_nr_periods": 0,
        "client_nr_throttled": 0,
    }
    assert v2.memory() == {
        "engine_bytes": 36_864,
        "total_bytes": 528_384,
        "limit_bytes": None,
        "failcnt": 2851,
        "oom_kill": 1,
        "major_faults": 13_829,
        "refaults": 693_640,
    }
    assert v2.disk("8:16") == {
        "read_bytes": 1_459_200,
        "write_bytes": 314_773_504,
        "read_ios": 192,
        "write_ios": 353,
    }
    assert set(v2.disk("7:7").values()) == set(v2.disk("7:8").values()) == {0}
    assert v2.pids("engine") == [9681]


def test_v2_writes_limits(v2):
    v2.set_cpu(1.5)
    assert (v2.root / "benchlab/cpu.max").read_text() == "30000 20000"
    assert v2.cpu_limit() == 1.5
    assert [v2.yield_cpu(), v2.yield_cpu()] == [True, False]
    assert (v2.root / "benchlab/cpu.weight").read_text() == "1"
    v2.set_memory(64 << 20)
    assert v2.memory_limit() == 64 << 20
    assert (v2.root / "benchlab/memory.swap.max").read_text() == "0"
    v2.set_disk("7:1", LIMITS)
    io_max = (v2.root / "benchlab/engine/io.max").read_text()
    assert io_max == "7:1 rbps=35000000 wbps=30000000 riops=2400 wiops=max"
    assert v2.disk_limits("7:1") == LIMITS


def test_v2_never_sets_a_memory_limit_below_what_is_in_use(v2):
    with pytest.raises(AgentError, match="528384 bytes are in use: stop the engine"):
        v2.set_memory(4096)
    assert v2.memory_limit() is None


def test_v2_counts_no_page_cache_that_the_kernel_gives_back(v2, monkeypatch):
    def write(path: Path, text: str) -> None:
        path.write_text(text)
        if path.name == "memory.high" and text == "4096":
            path.with_name("memory.current").write_text("4096\n")

    monkeypatch.setattr("benchlab.agent.cgroup.write", write)
    v2.set_memory(4096)
    assert v2.memory_limit() == 4096
    assert (v2.root / "benchlab/memory.high").read_text() == "max"


def test_v2_enables_the_controllers_that_are_missing(v2):
    assert v2.create() is True
    assert (v2.root / "cgroup.subtree_control").read_text() == "+io"
    assert (v2.root / "benchlab/cgroup.subtree_control").read_text() == "+cpu +memory +io"
    for folder in (v2.root, v2.root / "benchlab"):
        (folder / "cgroup.subtree_control").write_text("cpu io memory\n")
    assert v2.create() is False


def test_v2_names_missing_controllers(v2):
    (v2.root / "cgroup.controllers").write_text("cpuset cpu pids\n")
    with pytest.raises(AgentError, match=r"controllers missing at .*: memory, io; offered: cpuset"):
        v2.create()


@pytest.mark.parametrize(
    ("version", "folder", "usage"),
    [
        ("v1", "cpuacct/benchlab/engine/store", ("cpuacct.usage", "1500000\n")),
        ("v2", "benchlab/engine/store", ("cpu.stat", "usage_usec 1500\nuser_usec 1000\n")),
    ],
)
def test_services_have_groups_that_count_below_the_engines(request, version, folder, usage):
    cgroups = request.getfixturevalue(version)
    assert cgroups.services() == []
    group = cgroups.root / folder
    group.mkdir()
    (group / "cgroup.procs").touch()
    cgroups.join("engine", "store")
    assert (group / "cgroup.procs").read_text() == "0"
    (group / "cgroup.procs").write_text("77\n78\n")
    name, text = usage
    (group / name).write_text(text)
    assert cgroups.services() == ["store"]
    assert cgroups.cpu_usage_us("engine/store") == 1500
    assert cgroups.pids("engine/store") == [77, 78]
    assert cgroups.pids("engine") == [0, 77, 78]
