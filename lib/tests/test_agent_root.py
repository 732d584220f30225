"""The agent on the real kernel: a small envelope and a small server, under names of their own.

Needs root: loop device, mount, cgroups and a user are made, and nothing of it is left behind.
"""

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import benchlab.agent
import pytest
from benchlab.agent.cgroup import open_cgroups
from benchlab.agent.disk import loops, mounts_at
from benchlab.agent.system import processes_of
from conftest import ROOT, cgroups, unused_port
from conftest import wait_for as waited_for
from ruamel.yaml import YAML

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

PYTHON = "/usr/bin/python3"  # the target's own: an engine's user may not see another
NAME = f"bl-test-{os.getpid()}"  # not as engines are named: other tests look for these
MIB = 1 << 20
SYS = Path("/sys")

# A server with the manners and the faults of a database server: argv is port and fault.
SERVER = """
import os, signal, socket, subprocess, sys, time
port, fault = int(sys.argv[1]), sys.argv[2]
def say(*words):
    print(time.monotonic(), *words, flush=True)
say("starting", fault, "pid", os.getpid())
if fault == "dies":
    sys.exit("FATAL: could not map shared memory")
def stop(*_):
    say("stopping", fault)
    sys.exit()
signal.signal(signal.SIGTERM, signal.SIG_IGN if fault == "deaf" else stop)
if fault == "children":
    subprocess.Popen(["sleep", "1000"])
if fault == "mute":
    time.sleep(1000)
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", port))
server.listen()
held = bytearray(int(os.environ.get("HOLD", "0")))
while True:
    server.accept()[0].close()
"""
PROBE = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 1)"


wait_for = partial(waited_for, what="what the test did to show", timeout_s=30)


class Target:
    """A host with the agent, as the roles leave it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.etc, self.home = folder, folder / "etc", folder / "home"
        self.mount = self.home / "disk"
        agent = Path(benchlab.agent.__file__).parent
        self.agent = folder / "benchlab_agent"
        shutil.copytree(agent, self.agent, ignore=shutil.ignore_patterns("__pycache__"))
        (self.etc / "engines").mkdir(parents=True)
        self.port, self.store_port = unused_port(), unused_port()
        (folder / "server.py").write_text(SERVER)
        self.envelope()
        self.engine()

    def envelope(self, **changes: object) -> None:
        config = {
            "home": str(self.home),
            "image": str(self.home / "disk.img"),
            "image_bytes": 256 * MIB,
            "mount": str(self.mount),
            "cores": 1.0,
            "memory_bytes": 128 * MIB,
            "read_bytes_per_s": 20 * MIB,
            "write_bytes_per_s": 5 * MIB,
            "read_iops": 2000,
            "write_iops": None,
            "enforce": True,
            "cgroup": NAME,
        }
        (self.etc / "envelope.json").write_text(json.dumps(config | changes))

    def engine(self, **changes: object) -> None:
        def service(name: str, port: int, fault: str) -> dict[str, Any]:
            start = [PYTHON, str(self.folder / "server.py"), str(port), fault]
            return {"name": name, "start": start, "port": port}

        def variant(fault: str, **env: str) -> dict[str, Any]:
            return {"services": [service("server", self.port, fault)], "env": env}

        def of_two(store: str, server: str) -> dict[str, Any]:
            services = (
                service("store", self.store_port, store),
                service("server", self.port, server),
            )
            return {"services": services, "env": {}}

        config = {
            "engine": "fake",
            "user": NAME,
            "data_dir": str(self.mount / "fake"),
            "snapshot_root": str(self.home / "snapshots/fake"),
            "log": str(self.home / "log/fake.log"),
            "pid_file": str(self.home / "run/fake.pid"),
            "port": self.port,
            "variants": {
                **{name: variant(name) for name in ("plain", "dies", "deaf", "children", "mute")},
                "big": variant("plain", HOLD=str(48 * MIB)),
                "two": of_two("first", "second"),
                "store-dies": of_two("dies", "second"),
                "server-dies": of_two("first", "dies"),
            },
            "ready": [PYTHON, "-c", PROBE, str(self.port)],
            "ready_timeout_s": 30,
            "stop_signal": "SIGTERM",
            "stop_timeout_s": 30,
        }
        (self.etc / "engines/fake.json").write_text(json.dumps(config | changes))

    def command(self, *argv: str) -> list[str]:
        return [PYTHON, "-I", str(self.agent), "--etc", str(self.etc), *argv]

    def run(self, *argv: str) -> dict[str, Any]:
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def error(self, *argv: str) -> str:
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def up(self) -> dict[str, Any]:
        status = self.run("envelope", "up")
        (self.mount / "fake").mkdir(exist_ok=True)
        (self.mount / "fake/table").write_text("first")
        shutil.chown(self.mount / "fake", NAME, NAME)
        return status

    def leftovers(self) -> list[str]:
        image = str(self.home / "disk.img")
        mounts = [mount.source for mount in mounts_at(Path("/proc"), self.mount)]
        devices = [loop.path.name for loop in loops(Path("/sys")) if image in loop.backing_file]
        processes = processes_of(Path("/proc"), pwd.getpwnam(NAME).pw_uid)
        return cgroups(NAME) + mounts + devices + [str(one.pid) for one in processes]


@pytest.fixture(scope="module")
def user() -> Iterator[str]:
    subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", NAME], check=True)
    yield NAME
    subprocess.run(["userdel", NAME], check=True)


@pytest.fixture
def target(user: str) -> Iterator[Target]:
    # Not tmp_path: an engine's user cannot go in there; and not /tmp, which may be in memory.
    folder = Path(tempfile.mkdtemp(prefix=f"{NAME}-", dir="/var/tmp"))
    folder.chmod(0o755)
    target = Target(folder)
    yield target
    target.run("envelope", "down", "--wipe")
    wait_for(lambda: target.leftovers() == [])  # init reaps the engine's processes in its own time
    shutil.rmtree(folder)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def is_v1() -> bool:
    return open_cgroups(Path("/sys/fs/cgroup"), NAME).version == 1


def test_the_envelope_is_in_force_in_the_kernel(target):
    status = target.up()
    assert status["changed"] is True
    assert status["up"] is True
    assert status["file_system"] == "ext4"
    assert status["limits"]["write_bytes_per_s"] is None
    assert target.run("envelope", "up")["changed"] is False

    limited = target.run("envelope", "limit", "on")
    device = limited["device"]
    if is_v1():
        throttle = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device").read_text()
        assert f"{device} {5 * MIB}" in throttle.splitlines()
        quota = Path(f"/sys/fs/cgroup/cpu/{NAME}/cpu.cfs_quota_us").read_text()
        assert quota == "20000\n"
        assert Path(f"/sys/fs/cgroup/cpu/{NAME}/cpu.shares").read_text() == "2\n"
    else:
        assert f"{device} rbps={20 * MIB} wbps={5 * MIB} riops=2000 wiops=max" in (
            Path(f"/sys/fs/cgroup/{NAME}/engine/io.max").read_text().splitlines()
        )
        assert Path(f"/sys/fs/cgroup/{NAME}/cpu.max").read_text() == "20000 20000\n"
        assert Path(f"/sys/fs/cgroup/{NAME}/cpu.weight").read_text() == "1\n"
    assert target.run("envelope", "status")["limits"] == {
        "cores": 1.0,
        "memory_bytes": 128 * MIB,
        "read_bytes_per_s": 20 * MIB,
        "write_bytes_per_s": 5 * MIB,
        "read_iops": 2000,
        "write_iops": None,
    }
    assert target.run("envelope", "limit", "on")["changed"] is False
    cut = target.run("envelope", "limit", "on", "--write-bytes-per-s", str(4 * MIB))
    assert cut["limits"]["write_bytes_per_s"] == 4 * MIB
    assert cut["limits"]["read_bytes_per_s"] == 20 * MIB
    assert target.run("envelope", "limit", "off")["limits"]["write_bytes_per_s"] is None

    assert target.run("envelope", "down")["changed"] is True
    wait_for(lambda: target.leftovers() == [])
    assert (target.home / "disk.img").exists()
    assert target.run("envelope", "down")["changed"] is False
    assert device not in throttled_devices()


def test_sampling_ends_with_the_envelope(target):
    assert "run 'envelope up' first" in target.error("sample")
    target.up()
    sampler = subprocess.Popen(
        target.command("sample", "--interval", "0.1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert sampler.stdout is not None
    sampler.stdout.readline()
    target.run("envelope", "down")
    _, error = sampler.communicate()
    assert sampler.returncode == 1
    assert "sampling ended at tick" in error


def throttled_devices() -> set[str]:
    files = Path("/sys/fs/cgroup/blkio").glob("blkio.throttle.*_device")
    return {line.split()[0] for file in files for line in file.read_text().splitlines()}


def test_samples_count_what_is_written(target):
    target.up()
    target.run("envelope", "limit", "on")
    out = target.folder / "samples.jsonl"
    with out.open("w") as stdout:
        sampler = subprocess.Popen(target.command("sample", "--interval", "0.2"), stdout=stdout)

    def lines() -> list[dict[str, Any]]:
        # The last one may still be on its way.
        return [json.loads(line) for line in out.read_text().split("\n")[:-1]]

    wait_for(lambda: len(lines()) >= 2)
    before = lines()[-1]
    # On v2 the disk is counted for the engine's group only: join it as an engine does.
    script = (
        "import sys; sys.path.append(sys.argv[1]); from pathlib import Path;"
        "from benchlab_agent.envelope import Envelope; Envelope(Path(sys.argv[2])).enter('engine');"
        "import os; os.execvp('dd', ['dd', 'if=/dev/zero', 'of=' + sys.argv[3], 'bs=64k',"
        "'count=64', 'oflag=direct'])"
    )
    argv = [str(target.folder), str(target.etc), str(target.mount / "file")]
    subprocess.run([PYTHON, "-c", script, *argv], check=True, capture_output=True)
    seen = len(lines())
    wait_for(lambda: len(lines()) >= seen + 2)
    sampler.send_signal(signal.SIGTERM)
    assert sampler.wait() == 0
    assert out.read_text().endswith("\n")
    recorded = lines()
    header, *samples = recorded
    assert header["header"]["limits"]["write_bytes_per_s"] == 5 * MIB
    written = samples[-1]["disk"]["write_bytes"] - before["disk"]["write_bytes"]
    assert 4 * MIB <= written <= 5 * MIB  # the file and the file system's own blocks
    assert samples[-1]["disk"]["write_ios"] - before["disk"]["write_ios"] >= 64
    assert samples[-1]["cpu"]["engine"] > before["cpu"]["engine"]
    assert samples[-1]["memory"]["limit_bytes"] == 128 * MIB
    times = [sample["t"] for sample in samples]
    assert times == sorted(times)


def test_a_client_runs_in_its_group_and_cannot_leave_the_memory_limit(target):
    target.up()
    argv = target.command("client", "--", "cat", "/proc/self/cgroup")
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert f"/{NAME}/client" in done.stdout
    if is_v1():
        assert ":blkio:/\n" in done.stdout
    failed = target.command("client", "--", "sh", "-c", "exit 3")
    assert subprocess.run(failed, check=False).returncode == 3
    greedy = target.command("client", "--", PYTHON, "-c", f"bytearray({200 * MIB})")
    assert subprocess.run(greedy, check=False).returncode == -signal.SIGKILL
    cgroups = open_cgroups(Path("/sys/fs/cgroup"), NAME)
    assert cgroups.memory()["oom_kill"] == 1
    assert cgroups.memory()["failcnt"] > 0
    assert "cannot execute no-such-program" in target.error("client", "--", "no-such-program")


def test_an_engine_starts_answers_and_stops(target):
    target.up()
    started = target.run("engine", "fake", "start", "--variant", "children")
    assert started["changed"] is True
    assert len(started["pids"]) == 2
    assert started["cgroup_pids"] == started["pids"]
    assert started["listening"] is True
    main = Path(f"/proc/{started['pid']}")
    status = main.joinpath("status").read_text()
    assert main.owner() == NAME
    assert re.search(r"^Groups:\s*$", status, re.MULTILINE)
    limits = main.joinpath("limits").read_text()
    soft, hard = next(x for x in limits.splitlines() if x.startswith("Max open files")).split()[3:5]
    assert soft == hard
    assert os.getsid(started["pid"]) == started["pid"]

    again = target.run("engine", "fake", "start", "--variant", "children")
    assert (again["changed"], again["pid"]) == (False, started["pid"])
    error = target.error("engine", "fake", "start", "--variant", "plain")
    assert "running already (variant children" in error
    assert "is running" in target.error("engine", "fake", "snapshot", "one")

    stopped = target.run("engine", "fake", "stop")
    assert (stopped["was_running"], stopped["killed"]) == (True, False)
    assert target.run("engine", "fake", "status")["running"] is False
    assert target.run("engine", "fake", "stop")["changed"] is False


def test_the_log_is_probed_within_the_engines_limits(target):
    probe = ("engine", "fake", "probe-log", "--folder", ".")
    assert "run 'envelope up' first" in target.error(*probe)
    target.up()
    assert target.run(*probe)["durable_write_ns"] > 0


def test_services_that_have_ended_are_not_counted_for_the_next_engine(target):
    target.up()
    for variant, services in (("two", ["server", "store"]), ("plain", [])):
        target.run("engine", "fake", "start", "--variant", variant)
        assert open_cgroups(Path("/sys/fs/cgroup"), NAME).services() == services
        target.run("engine", "fake", "stop")


def test_services_start_in_order_and_stop_the_other_way_round(target):
    target.up()
    started = target.run("engine", "fake", "start", "--variant", "two")
    assert list(started["services"]) == ["store", "server"]
    assert started["pid"] == started["services"]["server"]
    assert started["cgroup_pids"] == started["pids"] == sorted(started["services"].values())
    cgroups = open_cgroups(Path("/sys/fs/cgroup"), NAME)
    assert cgroups.services() == ["server", "store"]
    assert cgroups.pids("engine/store") == [started["services"]["store"]]
    assert 0 < cgroups.cpu_usage_us("engine/store") < cgroups.cpu_usage_us("engine")
    stopped = target.run("engine", "fake", "stop")
    assert (stopped["was_running"], stopped["killed"]) == (True, False)
    logs = [(target.home / f"log/fake-{name}.log").read_text() for name in ("server", "store")]
    said = re.findall(r"([\d.]+) (starting|stopping) (\w+)", "".join(logs))
    assert [f"{verb} {who}" for _, verb, who in sorted(said, key=lambda it: float(it[0]))] == [
        "starting first",
        "starting second",
        "stopping second",
        "stopping first",
    ]
    target.run("envelope", "down")
    assert not cgroups.exists()


@pytest.mark.parametrize(
    ("variant", "service"), [("store-dies", "store"), ("server-dies", "server")]
)
def test_a_service_that_dies_at_its_start_takes_the_others_down(target, variant, service):
    target.up()
    error = target.error("engine", "fake", "start", "--variant", variant)
    assert f"service {service} of engine fake ended with exit code 1" in error
    assert target.run("engine", "fake", "status")["running"] is False


def test_an_engine_without_one_of_its_services_is_no_running_one(target):
    target.up()
    started = target.run("engine", "fake", "start", "--variant", "two")
    os.kill(started["services"]["store"], signal.SIGKILL)
    wait_for(lambda: not alive(started["services"]["store"]))
    status = target.run("engine", "fake", "status")
    assert (status["running"], status["pid"], status["variant"]) == (True, None, "two")
    assert status["services"] == {"store": None, "server": started["pid"]}
    (last_line,) = status["ended"]["store"]
    assert f"starting first pid {started['services']['store']}" in last_line
    assert list(status["ended"]) == ["store"]
    assert "running already" in target.error("engine", "fake", "start", "--variant", "two")
    assert target.run("engine", "fake", "stop")["killed"] is False


def test_stop_takes_what_a_killed_engine_left(target):
    target.up()
    started = target.run("engine", "fake", "start", "--variant", "children")
    os.kill(started["pid"], signal.SIGKILL)
    wait_for(lambda: not alive(started["pid"]))
    status = target.run("engine", "fake", "status")
    assert (status["running"], status["pid"], len(status["pids"])) == (True, None, 1)
    stopped = target.run("engine", "fake", "stop")
    assert (stopped["was_running"], stopped["killed"]) == (True, False)
    assert target.run("engine", "fake", "status")["running"] is False


def test_stop_without_a_pid_file(target):
    target.up()
    target.run("engine", "fake", "start", "--variant", "plain")
    (target.home / "run/fake.pid").unlink()
    stopped = target.run("engine", "fake", "stop")
    assert (stopped["was_running"], stopped["killed"]) == (True, False)


def test_an_engine_that_ignores_the_stop_signal_is_killed(target):
    target.up()
    target.engine(stop_timeout_s=0.5)
    target.run("engine", "fake", "start", "--variant", "deaf")
    stopped = target.run("engine", "fake", "stop")
    assert stopped["killed"] is True
    assert target.run("engine", "fake", "status")["running"] is False


def test_an_engine_that_dies_at_once_is_reported_with_its_log(target):
    target.up()
    error = target.error("engine", "fake", "start", "--variant", "dies")
    assert "engine fake ended with exit code 1 before it was ready" in error
    assert "FATAL: could not map shared memory" in error
    assert not (target.home / "run/fake.pid").exists()


def test_an_engine_that_never_answers_is_taken_down(target):
    target.up()
    target.engine(ready_timeout_s=3)
    error = target.error("engine", "fake", "start", "--variant", "mute")
    assert "engine fake not ready after 3 s" in error
    assert "Connection refused" in error
    assert "starting mute" in error
    assert target.run("engine", "fake", "status")["running"] is False


def test_a_port_in_use_names_its_holder(target):
    target.up()
    with socket.socket() as other:
        other.bind(("127.0.0.1", target.port))
        other.listen()
        error = target.error("engine", "fake", "start", "--variant", "plain")
    assert f"port {target.port} is in use by pid {os.getpid()} (" in error
    assert target.run("engine", "fake", "status")["running"] is False


def test_bad_words_name_the_choices(target):
    assert "run 'envelope up' first" in target.error(
        "engine", "fake", "start", "--variant", "plain"
    )
    assert "run 'envelope up' first" in target.error("client", "--", "true")
    target.up()
    assert "choose from big, children," in target.error("engine", "fake", "start", "--variant", "x")
    assert "provisioned on this host: fake" in target.error("engine", "fakir", "status")
    cold = ("engine", "fake", "cold", "--variant", "plain")
    assert "there are: none" in target.error(*cold, "--restore", "x")
    assert "snapshot key '../x'" in target.error("engine", "fake", "snapshot", "../x")


def test_cold_restores_the_dataset_and_starts(target):
    target.up()
    target.run("envelope", "limit", "on")
    made = target.run("engine", "fake", "snapshot", "first-1.0")
    assert (made["key"], made["changed"]) == ("first-1.0", True)
    (target.mount / "fake/table").write_text("first, once more")
    assert target.run("engine", "fake", "snapshot", "first-1.0")["changed"]  # it is replaced
    # What a killed snapshot leaves is never taken for one.
    (target.home / "snapshots/fake/.second.partial").mkdir()
    listed = target.run("engine", "fake", "snapshots")["snapshots"]
    assert [one["key"] for one in listed] == ["first-1.0"]

    target.run("engine", "fake", "start", "--variant", "plain")
    (target.mount / "fake/table").write_text("second")
    cold = target.run("engine", "fake", "cold", "--variant", "deaf", "--restore", "first-1.0")
    assert (target.mount / "fake/table").read_text() == "first, once more"
    assert (target.mount / "fake").owner() == NAME
    assert (cold["variant"], cold["was_running"], cold["listening"]) == ("deaf", True, True)
    assert list(cold["seconds"]) == ["stop", "restore", "sync", "drop_caches", "start"]
    assert cold["data_dir_bytes"] == (target.mount / "fake/table").stat().st_blocks * 512 > 0
    limits = target.run("envelope", "status")["limits"]
    assert limits["write_bytes_per_s"] is None  # nothing is measured yet
    target.engine(stop_timeout_s=0.5)


def test_a_dataset_is_copied_again_only_after_it_may_have_changed(target):
    target.up()
    for key in ("first", "second"):
        (target.mount / "fake/table").write_text(key)
        target.run("engine", "fake", "snapshot", key)

    def restored(key: str) -> bool:
        changed = target.run("engine", "fake", "restore", key)["changed"]
        assert (target.mount / "fake/table").read_text() == key
        return changed

    assert restored("first")
    assert not restored("first")
    target.run("envelope", "down")
    target.run("envelope", "up")
    assert not restored("first")
    assert restored("second")
    target.run("engine", "fake", "cold", "--variant", "plain", "--restore", "second")
    target.run("engine", "fake", "stop")
    assert restored("second")  # it has run
    (target.mount / "fake").rename(target.mount / "aside")
    (target.mount / "fake").mkdir()
    assert restored("second")  # it is another folder


def test_a_memory_limit_below_what_is_held_is_refused(target):
    target.up()
    target.run("engine", "fake", "start", "--variant", "big")
    target.envelope(memory_bytes=16 * MIB)
    assert "bytes are in use: stop the engine" in target.error("envelope", "up")
    assert target.run("envelope", "status")["limits"]["memory_bytes"] == 128 * MIB


def test_an_engines_own_memory_is_held_while_it_runs(target):
    def limit() -> int:
        return target.run("envelope", "status")["limits"]["memory_bytes"]

    target.engine(fixed_memory_bytes=32 * MIB)
    target.up()
    assert limit() == 128 * MIB
    target.run("engine", "fake", "start", "--variant", "plain")
    assert limit() == 160 * MIB
    assert target.run("envelope", "up")["changed"] is False
    assert limit() == 160 * MIB
    # and more for the connections of one run
    target.run("engine", "fake", "cold", "--variant", "plain", "--more-memory", str(16 * MIB))
    assert limit() == 176 * MIB
    assert target.run("envelope", "up")["changed"] is False
    assert limit() == 176 * MIB
    target.run("engine", "fake", "cold", "--variant", "plain")
    assert limit() == 160 * MIB
    target.run("engine", "fake", "stop")
    target.engine()
    target.run("engine", "fake", "start", "--variant", "plain")
    assert limit() == 128 * MIB


class LogOnItsOwnDisk:
    """An engine whose log folder, ``log``, lies on a disk where each write takes 40 ms longer."""

    delay_s = 0.04

    def __init__(self, target: Target) -> None:
        self.target = target
        self.log = target.mount / "fake/log"
        config = json.loads((target.etc / "engines/fake.json").read_text())
        log_disk = {"folder": "log", "write_delay_ms": 40, "bytes_per_s": None}
        plain = config["variants"]["plain"]
        target.engine(
            variants=config["variants"]
            | {"slow_log": plain | {"log_disk": log_disk}}
            | {"dies": config["variants"]["dies"] | {"log_disk": log_disk}}
        )
        target.up()
        self.log.mkdir()
        (self.log / "first").write_text("written before")

    def write(self, size: int) -> float:
        """Write so many bytes durably; seconds that it took."""
        with (self.log / "second").open("wb") as file:
            file.write(bytes(size))
            began = time.monotonic()
            os.fdatasync(file.fileno())
            return time.monotonic() - began

    def servers(self) -> list[int]:
        """Return the processes that make it slow."""
        image = str(self.target.home).encode()
        found = Path("/proc").glob("[0-9]*/cmdline")
        commands = {int(path.parent.name): path.read_bytes() for path in found}
        return [pid for pid, argv in commands.items() if argv.startswith(b"nbd") and image in argv]

    def gone(self) -> bool:
        """Return whether the disk has left nothing behind."""
        home = str(self.target.home)
        mounted = f"{home}/log-disk" in Path("/proc/self/mountinfo").read_text()
        left = self.servers() or self.loops() or mounted
        return not (left or any((self.target.home / "log-disk").iterdir()))

    def loops(self) -> list[str]:
        """Return the names of the loop devices on its disk."""
        home = str(self.target.home)
        files = {loop.path.name: loop.backing_file for loop in loops(SYS)}
        return [name for name, file in files.items() if home in file and "slow" in file]


@pytest.fixture(scope="module")
def packages() -> None:
    """What makes a disk slow is there, as the role `host` installs it."""
    defaults = YAML(typ="safe").load(ROOT / "ansible/roles/host/defaults/main.yml")
    if shutil.which("nbdkit") is None or shutil.which("nbdfuse") is None:
        apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
        subprocess.run([*apt, "update"], check=True)
        subprocess.run([*apt, "install", "-y", *defaults["host_log_disk_packages"]], check=True)


@pytest.fixture
def slow_log(packages: None, target: Target) -> LogOnItsOwnDisk:
    return LogOnItsOwnDisk(target)


def test_a_log_on_a_slow_disk_takes_the_delay_whatever_the_size(slow_log, target):
    target.run("engine", "fake", "start", "--variant", "slow_log")
    assert (slow_log.log / "first").read_text() == "written before"
    assert slow_log.write(8 << 10) >= slow_log.delay_s
    assert slow_log.write(256 << 10) >= slow_log.delay_s
    target.run("engine", "fake", "stop")
    assert not slow_log.log.is_symlink()
    assert (slow_log.log / "first").read_text() == "written before"
    assert (slow_log.log / "second").stat().st_size == 256 << 10
    wait_for(slow_log.gone)


def test_the_loop_device_of_a_slow_disk_ends_with_its_last_mount(slow_log, target):
    """As when a lab is killed: its namespaces end, and nobody stops its engines."""
    target.run("engine", "fake", "start", "--variant", "slow_log")
    (name,) = slow_log.loops()
    assert (SYS / "block" / name / "loop/autoclear").read_text() == "1\n"


def test_the_slow_disk_of_an_engine_that_was_killed_goes_with_the_next_start(slow_log, target):
    pid = target.run("engine", "fake", "start", "--variant", "slow_log")["pid"]
    slow_log.write(8 << 10)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not alive(pid))
    assert "has its log on a disk of its own" in target.error("engine", "fake", "snapshot", "one")
    target.run("engine", "fake", "start", "--variant", "plain")
    assert (slow_log.log / "second").stat().st_size == 8 << 10
    wait_for(slow_log.gone)


def test_an_engine_that_does_not_start_leaves_no_slow_disk(slow_log, target):
    assert "could not map shared memory" in target.error(
        "engine", "fake", "start", "--variant", "dies"
    )
    assert (slow_log.log / "first").read_text() == "written before"
    wait_for(slow_log.gone)


def test_a_slow_disk_that_breaks_loses_the_log_and_nothing_else(slow_log, target):
    target.run("engine", "fake", "start", "--variant", "slow_log")
    for pid in slow_log.servers():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not slow_log.servers())
    # ext4 refuses the write, or is read-only already where it met the dead disk before
    with pytest.raises(OSError, match=r"Input/output error|not connected|No such|Read-only"):
        slow_log.write(8 << 10)
    target.run("engine", "fake", "stop")
    assert not slow_log.log.exists()
    assert not slow_log.log.is_symlink()
    wait_for(slow_log.gone)


def test_a_log_that_has_no_room_where_it_belongs_stays_on_its_disk(slow_log, target):
    target.run("engine", "fake", "start", "--variant", "slow_log")
    slow_log.write(MIB)
    full = target.mount / "full"
    with pytest.raises(OSError, match="No space left on device"), full.open("wb") as file:
        while True:
            file.write(bytes(MIB))
    assert "No space left on device" in target.error("engine", "fake", "stop")
    full.unlink()
    target.run("engine", "fake", "stop")
    assert (slow_log.log / "second").stat().st_size == MIB
    wait_for(slow_log.gone)


def test_a_slow_disk_is_as_large_as_the_envelopes(slow_log, target):
    target.run("engine", "fake", "start", "--variant", "slow_log")
    with pytest.raises(OSError, match="No space left on device"):
        slow_log.write(256 * MIB)


def test_the_envelope_takes_a_slow_disk_down(slow_log, target):
    target.run("engine", "fake", "start", "--variant", "slow_log")
    target.run("envelope", "down")
    wait_for(slow_log.gone)


def unmounted(target: Target) -> None:
    subprocess.run(["umount", target.mount], check=True)


def detached(target: Target) -> None:
    unmounted(target)
    loop = target.run("envelope", "status")["loop"]
    subprocess.run(["losetup", "--detach", loop], check=True)


def buffered(target: Target) -> None:
    detached(target)
    subprocess.run(["losetup", "--find", target.home / "disk.img"], check=True)


def image_deleted(target: Target) -> None:
    (target.home / "disk.img").unlink()


def a_group_is_gone(target: Target) -> None:
    cgroups = open_cgroups(Path("/sys/fs/cgroup"), NAME)
    (cgroups.parents()[0] / "client").rmdir()


def busy(target: Target) -> None:
    target.engine(stop_timeout_s=0.5)
    target.run("engine", "fake", "start", "--variant", "deaf")
    subprocess.Popen(target.command("client", "--", "sleep", "1000"))
    cgroups = open_cgroups(Path("/sys/fs/cgroup"), NAME)
    wait_for(lambda: bool(cgroups.pids("client")))
    target.run("envelope", "limit", "on")


HALF_STATES = [unmounted, detached, buffered, image_deleted, a_group_is_gone]


@pytest.mark.parametrize("break_it", [*HALF_STATES, busy])
def test_down_from_a_half_state(target, break_it):
    target.up()
    break_it(target)
    target.run("envelope", "down")
    wait_for(lambda: target.leftovers() == [])


def test_down_ends_a_client_that_joined_after_the_others_were_killed(target):
    """On a busy machine an agent may take seconds to start its program."""
    target.up()
    cgroups = open_cgroups(Path("/sys/fs/cgroup"), NAME)

    def client() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(target.command("client", "--", "sleep", "1000"))
        wait_for(lambda: cgroups.pids("client") == [process.pid])
        return process

    first = client()
    # keeps the mount busy, and so the way down between killing and removing
    with subprocess.Popen(["sleep", "1000"], cwd=target.mount) as holder:
        down = subprocess.Popen(target.command("envelope", "down"), stdout=subprocess.DEVNULL)
        first.wait()
        second = client()
        holder.kill()
    assert down.wait() == 0
    assert not alive(second.pid)
    assert second.wait() == -signal.SIGKILL


def test_a_load_ends_with_its_caller(target):
    target.up()
    argv = target.command("client", "--", "sleep", "1000")
    caller = subprocess.Popen(
        [PYTHON, "-c", f"import subprocess; subprocess.run({argv!r})"], start_new_session=True
    )
    cgroups = open_cgroups(Path("/sys/fs/cgroup"), NAME)
    wait_for(lambda: [name(pid) for pid in cgroups.pids("client")] == ["sleep"])
    caller.kill()
    caller.wait()
    wait_for(lambda: cgroups.pids("client") == [])


@pytest.mark.parametrize("break_it", HALF_STATES)
def test_up_from_a_half_state(target, break_it):
    target.up()
    break_it(target)
    assert target.up()["changed"] is True
    status = target.run("envelope", "status")
    assert (status["up"], status["direct_io"]) == (True, True)
    on_image = [x for x in loops(Path("/sys")) if str(target.home) in x.backing_file]
    assert [str(loop.path) for loop in on_image] == [status["loop"]]


def test_down_reports_what_it_could_not_do_and_does_the_rest(target):
    target.up()
    # The holder must not be in the engine's groups or of its user: those are killed.
    holder = subprocess.Popen(["sleep", "1000"], cwd=target.mount)
    try:
        error = target.error("envelope", "down")
        assert f"unmount {target.mount}: umount" in error
        assert f"in use by pid {holder.pid} (sleep)" in error
        assert not any("cgroup" in one for one in target.leftovers())
    finally:
        holder.kill()
        holder.wait()


def test_without_enforce_there_are_only_groups(target):
    target.envelope(enforce=False)
    status = target.up()
    assert (status["up"], status["mounted"], status["loop"]) == (True, False, None)
    assert set(status["limits"].values()) == {None}
    started = target.run("engine", "fake", "start", "--variant", "plain")
    assert started["cgroup_pids"] == [started["pid"]]
    assert target.run("envelope", "limit", "on")["changed"] is False
    assert target.run("engine", "fake", "stop")["killed"] is False


# Interventions


def intervention(target: Target, limit: str) -> subprocess.Popen[str]:
    """Start to lower a limit to a half, for longer than any test takes; return once it is lowered."""
    process = subprocess.Popen(
        target.command("intervene"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    before = target.run("envelope", "status")["limits"][limit]
    schedule = [{"limit": limit, "factor": 0.5, "duration_s": 600}]
    process.stdin.write(json.dumps(schedule) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["header"]["limits"][limit] == before
    process.stdin.write("begin\n")
    process.stdin.flush()
    wait_for(lambda: target.run("envelope", "status")["limits"][limit] == before / 2)
    return process


@pytest.mark.parametrize("limit", ["cores", "write_bytes_per_s"])
def test_a_killed_callers_limits_are_put_back(target, limit):
    target.up()
    before = target.run("envelope", "limit", "on")["limits"]
    process = intervention(target, limit)
    assert process.stdin is not None
    process.stdin.close()  # as the kernel does for whoever is killed
    assert process.wait() == 0
    assert target.run("envelope", "status")["limits"] == before


def test_a_stopped_interventions_limits_are_put_back(target):
    target.up()
    before = target.run("envelope", "limit", "on")["limits"]
    process = intervention(target, "read_iops")
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate()
    assert process.returncode == 1
    assert error == "benchlab-agent: intervene: stopped by SIGTERM; the limits are put back\n"
    assert target.run("envelope", "status")["limits"] == before


@pytest.mark.parametrize("limit", ["cores", "write_bytes_per_s"])
def test_the_next_command_puts_a_killed_interventions_limits_back(target, limit):
    target.up()
    before = target.run("envelope", "limit", "on")["limits"]
    intervention(target, limit).kill()
    again = target.run("envelope", "limit", "on")
    assert again["changed"] is True
    assert again["limits"] == before
    intervention(target, limit).kill()
    target.run("envelope", "down")
    assert throttled_devices().isdisjoint({again["device"]})
    wait_for(lambda: target.leftovers() == [])


def test_an_envelope_that_goes_down_takes_an_intervention_with_it(target):
    target.up()
    device = target.run("envelope", "limit", "on")["device"]
    process = intervention(target, "write_bytes_per_s")
    target.run("envelope", "down")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0
    # it does not set limits on a device that may be somebody else's by now
    assert device not in throttled_devices()
