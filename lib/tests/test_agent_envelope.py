"""The agent's envelope and sampler on recorded trees, with a loop device and mount of their own."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchlab.agent import system
from benchlab.agent.config import AgentError, Roots
from benchlab.agent.envelope import Envelope
from benchlab.agent.sample import Sampler
from benchlab.agent.system import kill_all, listener, process

DATA = Path(__file__).parent / "data"
# A line of /proc/self/mountinfo as recorded for an envelope; {mount} stands for the path.
MOUNTINFO = "71 27 7:1 / {mount} rw,relatime - ext4 /dev/loop1 rw\n"
# /proc/net/tcp as recorded: port 55432 (D888) listening, an established connection on 40922.
NET_TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:D888 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 75381 1 \
00000000c8c8999e 100 0 0 10 0
   1: 0100007F:9FDA 0100007F:D888 01 00000000:00000000 00:00000000 00000000     0        0 80112 1 \
00000000c8c8999f 20 4 30 10 -1
"""

# Its main thread ends, another one goes on. 60 and 93: exit(2) on x86-64 and arm64.
HEADLESS = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=[600]).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)
"""


class Host:
    """Recorded cgroups, and a /proc and /sys with one envelope's loop device mounted."""

    def __init__(self, folder: Path, tree: str) -> None:
        self.folder = folder
        self.roots = Roots(folder / "cgroup", folder / "proc", folder / "sys")
        shutil.copytree(DATA / tree, self.roots.cgroup)
        shutil.copytree(DATA / "cgroup_v1" / "proc", self.roots.proc)
        self.config = {
            "home": str(folder / "home"),
            "image": str(folder / "home/disk.img"),
            "image_bytes": 4096,
            "mount": str(folder / "home/disk dir"),
            "cores": 2.0,
            "memory_bytes": 1 << 30,
            "read_bytes_per_s": 35_000_000,
            "write_bytes_per_s": 30_000_000,
            "read_iops": 2400,
            "write_iops": None,
            "enforce": True,
        }
        (folder / "home").mkdir()
        (folder / "home/disk.img").write_bytes(bytes(4096))
        (self.roots.proc / "self").mkdir()
        self.mounted(True)
        loop = self.roots.sys / "block/loop1"
        (loop / "loop").mkdir(parents=True)
        (loop / "dev").write_text("7:1\n")
        (loop / "loop/backing_file").write_text(f"{folder}/home/disk.img\n")
        (loop / "loop/dio").write_text("1\n")

    def mounted(self, there: bool) -> None:
        mount = self.config["mount"].replace(" ", "\\040")
        text = MOUNTINFO.format(mount=mount) if there else ""
        (self.roots.proc / "self/mountinfo").write_text(text)

    def envelope(self, **changes: object) -> Envelope:
        (self.folder / "envelope.json").write_text(json.dumps(self.config | changes))
        return Envelope(self.folder, self.roots)


@pytest.fixture(params=["cgroup_v1", "cgroup_v2"])
def host(request, tmp_path) -> Host:
    return Host(tmp_path, request.param)


def test_up_sets_cpu_and_memory_once(host):
    status = host.envelope().up()
    assert status["changed"] is True
    assert status["up"] is True
    assert (status["loop"], status["device"], status["direct_io"]) == ("/dev/loop1", "7:1", True)
    assert (status["mounted"], status["file_system"]) == (True, "ext4")
    assert status["limits"]["cores"] == 2.0
    assert status["limits"]["memory_bytes"] == 1 << 30
    if host.envelope().cgroups.version == 1:  # a real v2 kernel has merged what was written
        assert host.envelope().up()["changed"] is False


def chosen_cpus(host, monkeypatch, allowed: set[int], first: int, cores: float) -> list[set[int]]:
    """Enter an envelope; return what was chosen of the allowed CPUs, once or more often."""
    chosen = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: allowed)
    monkeypatch.setattr("os.sched_setaffinity", lambda _, cpus: chosen.append(cpus))
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    envelope = host.envelope(cores=cores, first_cpu=first)
    monkeypatch.setattr(envelope.cgroups, "join", lambda *_: None)
    envelope.enter("engine")
    return chosen


@pytest.mark.parametrize(
    ("first", "cores", "cpus"),
    [
        (0, 0.5, {2}),
        (0, 1.5, {2, 3}),
        (1, 1.0, {3}),
        (2, 2.0, {5, 7}),
        (3, 2.0, {2, 7}),
        (8, 1.0, {2}),
        (0, 9.0, {2, 3, 5, 7}),
    ],
)
def test_programs_run_on_as_many_cpus_as_there_are_cores(host, monkeypatch, first, cores, cpus):
    assert chosen_cpus(host, monkeypatch, {7, 5, 3, 2}, first, cores) == [cpus]


@pytest.mark.parametrize(
    ("siblings", "first", "cpus"),
    [
        (["0,2", "1,3", "0,2", "1,3"], 0, {0, 2}),
        (["0,2", "1,3", "0,2", "1,3"], 2, {1, 3}),
        (["0-1", "0-1", "2-3", "2-3"], 2, {2, 3}),
    ],
)
def test_the_threads_of_a_core_belong_to_one_envelope(host, monkeypatch, siblings, first, cpus):
    for cpu, listed in enumerate(siblings):
        topology = host.folder / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{listed}\n")
    assert chosen_cpus(host, monkeypatch, {0, 1, 2, 3}, first, 2.0) == [cpus]


def test_what_killed_agents_left_of_snapshots_is_deleted(host):
    folder = host.folder / "home/snapshots/postgres"
    for name in ("whole", ".whole.deleted", ".half.partial"):
        (folder / name).mkdir(parents=True)
        (folder / name / "table").write_text("rows")
    host.envelope().up()
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_limits_are_read_back_and_removed(host):
    status = host.envelope().limit(on=True)
    wanted = {
        "read_bytes_per_s": 35_000_000,
        "write_bytes_per_s": 30_000_000,
        "read_iops": 2400,
        "write_iops": None,
    }
    in_force = {name: status["limits"][name] or None for name in wanted}
    assert in_force == wanted
    with host.envelope().unthrottled():
        lifted = host.envelope().status()["limits"]
        assert not any(lifted[name] for name in wanted)
    again = host.envelope().status()["limits"]
    assert {name: again[name] or None for name in wanted} == wanted
    off = host.envelope().limit(on=False)["limits"]
    assert not any(off[name] for name in wanted)


def test_without_enforce_nothing_is_limited(host):
    host.mounted(False)
    envelope = host.envelope(enforce=False)
    status = envelope.up()
    assert status["up"] is True
    assert envelope.limit(on=True)["changed"] is False
    host.mounted(True)
    with pytest.raises(AgentError, match=r"disk.img is mounted: run 'envelope down' first"):
        envelope.up()


def test_another_image_size_is_refused(host):
    with pytest.raises(AgentError, match="has 4096 bytes, 8192 are requested: run 'envelope down"):
        host.envelope(image_bytes=8192).up()


def test_a_foreign_mount_is_left_alone(host):
    (host.roots.sys / "block/loop1/loop/backing_file").write_text("/srv/other.img\n")
    with pytest.raises(AgentError, match="disk dir is occupied: /dev/loop1 is mounted there"):
        host.envelope().up()


def test_limits_need_the_envelope(host):
    host.mounted(False)
    with pytest.raises(AgentError, match=r"not up \(nothing on .*\): run 'envelope up' first"):
        host.envelope().limit(on=True)


def test_a_sample(host):
    sampler = Sampler(host.envelope())
    header = sampler.header(1.0)["header"]
    assert header["device"] == "7:1"
    assert header["psi_source"].endswith("benchlab/engine")
    line = sampler.sample()
    assert list(line) == ["t", "cpu", "services", "memory", "disk", "psi", "host", "network"]
    assert line["cpu"] == {
        "engine": 2_724_061,
        "client": 9_386,
        "total_throttled_us": 5_325,
        "nr_periods": 138,
        "nr_throttled": 4,
        "client_nr_periods": 0,
        "client_nr_throttled": 0,
    }
    # without idle and iowait; a tick is 10 ms
    ticks = 216615 + 86399 + 0 + 24694 + 1068
    assert line["host"] == {
        "busy_us": ticks * 10_000,
        "kernel_threads_us": None,  # none are recorded
        "runnable_tasks": 3,
    }
    assert line["network"] == {"rx_bytes": 0, "tx_bytes": 0, "speed_bytes_per_s": None}
    assert line["psi"]["io"] == {"some_us": 1_094_888, "full_us": 424_885}
    json.dumps(line)


def test_niced_programs_use_the_cpu_too(host):
    sampler, stat = Sampler(host.envelope()), host.roots.proc / "stat"
    before = sampler.sample()["host"]["busy_us"]
    stat.write_text(stat.read_text().replace("cpu  216615 0 ", "cpu  216615 25 "))
    assert sampler.sample()["host"]["busy_us"] - before == 25 * 10_000


def kernel_threads(host, **ticks: int) -> None:
    """Let the host have kernel threads with these names, numbered from 3, that used so many ticks."""
    parent = host.roots.proc / "2"
    (parent / "task/2").mkdir(parents=True, exist_ok=True)
    (parent / "comm").write_text("kthreadd\n")
    ids = range(3, 3 + len(ticks))
    (parent / "task/2/children").write_text("".join(f"{one} " for one in ids))
    for one, (name, used) in zip(ids, ticks.items(), strict=True):
        (parent.parent / str(one)).mkdir(exist_ok=True)
        # the fields are a real thread's; its name may have spaces and brackets
        (parent.parent / str(one) / "stat").write_text(
            f"{one} ({name} 0:1) x) I 2 0 0 0 -1 69238880 0 0 0 0 0 {used} 0 0 0 -20 1 0 24 0 0\n"
        )


def test_what_kernel_threads_use_is_counted_while_they_are_seen(host):
    kernel_threads(host, kworker=50, loop0=7)
    sampler = Sampler(host.envelope())
    assert sampler.sample()["host"]["kernel_threads_us"] == 0
    kernel_threads(host, kworker=52, loop0=47, kswapd0=900)
    assert sampler.sample()["host"]["kernel_threads_us"] == 42 * 10_000
    kernel_threads(host, kworker=53)
    assert sampler.sample()["host"]["kernel_threads_us"] == 43 * 10_000
    # a new thread with the number of one that has ended
    kernel_threads(host, kworker=3, loop0=60)
    assert sampler.sample()["host"]["kernel_threads_us"] == 43 * 10_000
    (host.roots.proc / "2/comm").write_text("sleep\n")
    assert sampler.sample()["host"]["kernel_threads_us"] is None


def test_a_host_of_the_lab_sees_the_kernel_threads_of_its_machine(host):
    kernel_threads(host, loop0=7)
    host.roots = dataclasses.replace(host.roots, machine_proc=host.folder / "machine")
    shutil.copytree(host.roots.proc, host.roots.machine_proc)
    shutil.rmtree(host.roots.proc / "2")
    sampler = Sampler(host.envelope())
    assert sampler.sample()["host"]["kernel_threads_us"] == 0
    stat = host.roots.machine_proc / "3/stat"
    stat.write_text(stat.read_text().replace(" 7 0 0 0 -20", " 9 0 0 0 -20"))
    assert sampler.sample()["host"]["kernel_threads_us"] == 2 * 10_000


def link(host, name: str, received: int, speed: str, device: bool, state: str = "up") -> None:
    folder = host.roots.sys / "class/net" / name
    (folder / "statistics").mkdir(parents=True)
    (folder / "statistics/rx_bytes").write_text(f"{received}\n")
    (folder / "statistics/tx_bytes").write_text("7\n")
    (folder / "operstate").write_text(f"{state}\n")
    if speed:
        (folder / "speed").write_text(f"{speed}\n")
    if device:
        (folder / "device").mkdir()


def test_the_links_with_a_device_are_the_network(host):
    link(host, "lo", 1000, "", device=False)
    link(host, "veth0", 50, "10000", device=False)
    sampler = Sampler(host.envelope())
    # in a network namespace there may be no other
    assert sampler.sample()["network"] == {
        "rx_bytes": 50,
        "tx_bytes": 7,
        "speed_bytes_per_s": 1_250_000_000,
    }
    link(host, "eth0", 300, "1000", device=True)
    sampler = Sampler(host.envelope())
    assert sampler.sample()["network"]["rx_bytes"] == 300
    assert sampler.sample()["network"]["speed_bytes_per_s"] == 125_000_000
    # one without a cable carries nothing
    link(host, "eth2", 0, "-1", device=True, state="down")
    assert Sampler(host.envelope()).sample()["network"]["speed_bytes_per_s"] == 125_000_000
    # one that does not know leaves the whole unknown
    link(host, "eth1", 20, "-1", device=True)
    assert Sampler(host.envelope()).sample()["network"] == {
        "rx_bytes": 320,
        "tx_bytes": 21,
        "speed_bytes_per_s": None,
    }


def test_psi_of_the_host_where_groups_have_none(host):
    for path in host.roots.cgroup.rglob("*.pressure"):
        path.unlink()
    sampler = Sampler(host.envelope())
    assert sampler.header(1.0)["header"]["psi_source"] == str(host.roots.proc / "pressure")
    assert set(sampler.sample()["psi"]) == {"cpu", "io", "memory"}
    shutil.rmtree(host.roots.proc / "pressure")
    sampler = Sampler(host.envelope())
    assert sampler.header(1.0)["header"]["psi_source"] is None
    assert sampler.sample()["psi"] is None


def test_psi_of_the_host_where_those_of_groups_cannot_be_read(host):
    for path in host.roots.cgroup.rglob("io.pressure"):
        path.unlink()
        path.mkdir()  # its read fails, as that of a kernel with psi=0
    assert Sampler(host.envelope()).header(1.0)["header"]["psi_source"] == str(
        host.roots.proc / "pressure"
    )


def test_a_whole_device_is_sampled_where_nothing_is_enforced(host):
    host.mounted(False)
    envelope = host.envelope(enforce=False)
    envelope.up()
    number = Path(host.config["mount"]).stat().st_dev
    device = (
        host.roots.sys / f"dev/block/{number >> 8 & 0xFFF}:{number & 0xFF | number >> 12 & ~0xFF}"
    )
    device.mkdir(parents=True)
    # /sys/dev/block/*/stat as recorded
    (device / "stat").write_text(
        "  856837    93117 110184104   501855  1879080   282691 61220554   296203        0   201228"
        "   841695    25402       60 60683880     4910   583822    38725\n"
    )
    sampler = Sampler(envelope)
    assert sampler.sample()["disk"] == {
        "read_bytes": 110_184_104 * 512,
        "write_bytes": 61_220_554 * 512,
        "read_ios": 856_837,
        "write_ios": 1_879_080,
    }


def test_who_listens(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(NET_TCP)
    assert listener(tmp_path, 40922) is None
    assert listener(tmp_path, 55432) == "a process that cannot be seen from here"
    (tmp_path / "42/fd").mkdir(parents=True)
    (tmp_path / "42/comm").write_text("postgres\n")
    (tmp_path / "42/fd/5").symlink_to("socket:[75381]")
    assert listener(tmp_path, 55432) == "pid 42 (postgres)"


def test_a_process_lives_as_long_as_one_of_its_threads():
    """The kernel shows it as a zombie as soon as its main thread has ended."""
    with subprocess.Popen([sys.executable, "-c", HEADLESS]) as headless:
        try:
            state = Path(f"/proc/{headless.pid}/stat")
            while state.read_text().rpartition(")")[2].split()[0] != "Z":
                assert headless.poll() is None
            assert process(Path("/proc"), headless.pid) is not None
            listed = [[headless.pid]]
            assert kill_all(Path("/proc"), lambda: listed.pop() if listed else [], "one") == 1
            assert process(Path("/proc"), headless.pid) is None
        finally:
            headless.kill()


def test_what_does_not_die_is_named(tmp_path, monkeypatch):
    """A process waits for its disk, and its cgroup lists it no more."""
    monkeypatch.setattr(system, "KILL_TIMEOUT_S", 0.1)
    pid = (1 << 22) + 1  # higher than any: include/linux/threads.h, PID_MAX_LIMIT
    fields = " ".join(str(number) for number in range(5, 53))
    (tmp_path / str(pid)).mkdir()
    (tmp_path / str(pid) / "stat").write_text(f"{pid} (mysqld) D 4 {fields}\n")
    (tmp_path / str(pid) / "comm").write_text("mysqld\n")
    listed = [[pid]]
    with pytest.raises(AgentError, match=rf"engine x: still there .*: pid {pid} \(mysqld\)"):
        kill_all(tmp_path, lambda: listed.pop() if listed else [], "engine x")


def test_a_process_with_a_difficult_name(tmp_path):
    for pid, state, threads in ((42, "S", 20), (43, "Z", 1)):
        fields = " ".join(str(threads if number == 20 else number) for number in range(5, 53))
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b (c)) {state} 4 {fields}\n")
    living = process(tmp_path, 42)
    assert living is not None
    assert (living.parent, living.start_ticks) == (4, 22)
    assert process(tmp_path, 43) is None
    assert process(tmp_path, 44) is None
