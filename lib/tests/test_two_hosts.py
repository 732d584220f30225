"""A load on a host of its own: what the inventory says of it, whose CPU is counted, and a real sweep.

The two hosts of the sweep are namespaces of this machine: each has its own network, processes, cgroups
and an sshd, and this machine's files below a layer of its own. They and their network are gone
afterwards.
"""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import polars as pl
import pytest
from benchlab import target
from benchlab.observers import sample
from benchlab.raw import folders
from benchlab.raw.record import Record
from benchlab.repo import Repo
from benchlab.store import open_store
from conftest import ETC, HOME, MINI, ROOT, Sweep, mini_study, wait_for
from ruamel.yaml import YAML

EXAMPLE = "ssh-example"
ADDRESSES = {"db1": "10.77.0.2", "load1": "10.77.0.3"}
DOCUMENTED = {"db1": "192.0.2.10", "load1": "192.0.2.20"}


# A real sweep

BRIDGE, GATEWAY = "benchlab-test", "10.77.0.1"

#: The groups that become the root of a host's own, by hierarchy; blkio's limits stand in its real root.
CGROUP = Path("/sys/fs/cgroup")
UNIFIED = (CGROUP / "cgroup.controllers").exists()
HIERARCHIES = (".",) if UNIFIED else ("cpu", "cpuacct", "memory", "unified")

#: What is begun in them ends with its first process, and that with the tests.
NAMESPACES = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--uts", "--pid")
NAMESPACES += ("--fork", "--kill-child")

#: host.sh FOLDER NAME ADDRESS KEYS TESTS_PID, as the first process of a host's namespaces.
HOST = r"""
set -eu
folder=$1 name=$2 address=$3 keys=$4 tests=$5
echo "$name" > /proc/sys/kernel/hostname
mount -t tmpfs tmpfs "$folder/layer"
mkdir "$folder/layer/upper" "$folder/layer/work"
mount -t overlay -o "lowerdir=/,upperdir=$folder/layer/upper,workdir=$folder/layer/work" \
    overlay "$folder/root"
cd "$folder/root"
rm -rf etc/benchlab usr/local/lib/benchlab var/lib/benchlab
mkdir var/lib/benchlab
mount --bind "$folder/disk" var/lib/benchlab
mount --rbind /dev dev
if [ ! -x usr/sbin/sshd ]; then
    # into the host's layer: this machine gets none
    mount --bind /proc proc
    printf '#!/bin/sh\nexit 101\n' > usr/sbin/policy-rc.d
    chmod 755 usr/sbin/policy-rc.d
    nsenter --net="/proc/$tests/ns/net" chroot . sh -c \
        'apt-get -qq update && apt-get -qq install -y --no-install-recommends openssh-server' >&2
    umount proc
fi
mount -t sysfs sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount --bind "/sys/fs/cgroup/benchlab-test-$name" sys/fs/cgroup
else
    mount -t tmpfs tmpfs sys/fs/cgroup
    for hierarchy in $(ls /sys/fs/cgroup); do
        own=/sys/fs/cgroup/$hierarchy/benchlab-test-$name
        [ -d "$own" ] || own=/sys/fs/cgroup/$hierarchy
        mkdir "sys/fs/cgroup/$hierarchy"
        mount --bind "$own" "sys/fs/cgroup/$hierarchy"
    done
fi
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p run/sshd
cp "$keys/host" "$keys/authorized" run/sshd
sed -i 's/^root:[^:]*:/root:*:/' etc/shadow  # sshd lets nobody into a locked account
timeout 60 sh -c 'until ip link show eth0; do sleep 0.1; done' > /dev/null 2>&1
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
exec chroot . /usr/sbin/sshd -D -e -f /dev/null -o HostKey=/run/sshd/host \
    -o AuthorizedKeysFile=/run/sshd/authorized -o StrictModes=no -o PidFile=none -o UsePAM=no \
    -o PermitRootLogin=prohibit-password -o PasswordAuthentication=no \
    -o 'Subsystem=sftp internal-sftp'
"""


class NamespaceHost:
    """A host in namespaces of this machine; it lives as long as its first process."""

    def __init__(self, folder: Path, name: str):
        self.name, self.folder, self.log = name, folder, folder / "log"
        self.process: subprocess.Popen | None = None

    def start(self, keys: Path) -> None:
        """Start it and plug it in."""
        for part in ("layer", "root", "disk"):
            (self.folder / part).mkdir(parents=True)
        self._remove_groups()  # those that killed tests left
        try:
            for group in self.groups():
                group.mkdir()
        except OSError as error:
            _cannot(str(error))
        words = (self.folder, self.name, ADDRESSES[self.name], keys, str(os.getpid()))
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*NAMESPACES, "sh", "-c", HOST, "host.sh", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for(self._in_namespaces, f"namespaces of {self.name}")
        _ip(f"link add bt-{self.name} type veth peer name eth0 netns {self.process.pid}")
        _ip(f"link set bt-{self.name} master {BRIDGE} up")

    def answers(self) -> bool:
        """Whether its sshd is up; skips where its making has failed."""
        self._require_alive()
        try:
            socket.create_connection((ADDRESSES[self.name], 22), 1).close()
        except OSError:
            return False
        return True

    def groups(self) -> list[Path]:
        """What it sees as the roots of the cgroup hierarchies that it has for itself."""
        return [
            CGROUP / hierarchy / f"benchlab-test-{self.name}"
            for hierarchy in HIERARCHIES
            if (CGROUP / hierarchy).is_dir()
        ]

    def processes(self) -> Iterator[str]:
        """Name every process of its own, its sshd's aside."""
        for pid in self._pids():
            with suppress(OSError):
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX" and not name.startswith("sshd"):
                    yield f"{self.name}: process {pid} ({name})"

    def leftovers(self) -> list[str]:
        """Name whatever of benchlab is on it and should not outlive a command."""
        first = min(self._pids())
        mounts = Path(f"/proc/{first}/mounts").read_text().splitlines()
        return [
            *self.processes(),
            *(f"{self.name}: mount {line}" for line in mounts if f"{HOME}/" in line.split()[1]),
            *(f"{self.name}: {loop}" for loop in self._loops()),
            *(f"{self.name}: {group}/benchlab" for group in self.groups() if _has_child(group)),
        ]

    def end(self) -> None:
        """Kill it, and all that it has on this machine."""
        if self.process:
            namespace = self._namespace("pid_for_children")
            self.process.kill()
            self.process.wait()
            wait_for(lambda: not _pids_in(namespace), f"the end of {self.name}")
        for loop in self._loops():
            subprocess.run(["losetup", "--detach", loop], check=True)
        self._remove_groups()

    def _remove_groups(self) -> None:
        for group in self.groups():
            for folder in (*group.glob("benchlab/*/"), *group.glob("benchlab"), group):
                wait_for(lambda folder=folder: _removed(folder), f"{folder} to be empty")

    def _in_namespaces(self) -> bool:
        self._require_alive()
        return self._namespace("pid_for_children") != _own("pid")

    def _require_alive(self) -> None:
        if self.process.poll() is not None:
            _cannot(f"{self.name}: {(self.log.read_text().strip().splitlines() or ['ended'])[-1]}")

    def _namespace(self, kind: str) -> str:
        try:
            return str(Path(f"/proc/{self.process.pid}/ns/{kind}").readlink())
        except OSError:
            return _own(kind)  # it ended

    def _pids(self) -> list[int]:
        return _pids_in(self._namespace("pid_for_children"))

    def _loops(self) -> list[str]:
        found = []
        for image in self.folder.glob("disk/*.img"):
            said = subprocess.run(["losetup", "-j", image], capture_output=True, text=True)
            found += [line.split(":")[0] for line in said.stdout.splitlines()]
        return found


class TwoHosts:
    """Both hosts, and a checkout with the example's inventory, their addresses in it."""

    def __init__(self, folder: Path):
        self.root = folder / "checkout"
        self.repo = Repo(self.root)
        self.hosts: list[NamespaceHost] = []
        self._keys = folder / "keys"
        self._folder = folder

    def make(self) -> None:
        """Make keys, checkout, network and hosts."""
        self._keys.mkdir()
        for name in ("host", "user"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._keys / name))
        shutil.copy(self._keys / "user.pub", self._keys / "authorized")
        public = (self._keys / "host.pub").read_text()
        known = "".join(f"{address} {public}" for address in ADDRESSES.values())
        (self._keys / "known").write_text(known)
        self._write_checkout()
        self._unplug()  # what killed tests left
        _ip(f"link add {BRIDGE} type bridge")
        _ip(f"address add {GATEWAY}/24 dev {BRIDGE}")
        _ip(f"link set {BRIDGE} up")
        if UNIFIED:
            (CGROUP / "cgroup.subtree_control").write_text("+cpu +memory +io")
        for name in ADDRESSES:
            self.hosts.append(NamespaceHost(self._folder / name, name))
            self.hosts[-1].start(self._keys)
        for host in self.hosts:
            wait_for(host.answers, f"the sshd of {host.name}")

    def end(self) -> None:
        """Take everything away."""
        for host in self.hosts:
            host.end()
        self._unplug()

    def _unplug(self) -> None:
        """Delete the network; a cable outlives its host's end for as long as a socket there does."""
        for link in (BRIDGE, *(f"bt-{name}" for name in ADDRESSES)):
            # it may go by itself meanwhile
            subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
            wait_for(lambda link=link: not Path("/sys/class/net", link).exists(), f"no {link}")

    def inventory(self, name: str, addresses: dict[str, str]) -> None:
        """Write the example's inventory with other addresses, as a user would."""
        folder = self.repo.inventories / name
        shutil.copytree(ROOT / "ansible/inventories" / EXAMPLE, folder)
        hosts = folder / "hosts.yml"
        text = hosts.read_text()
        for host, address in addresses.items():
            text = text.replace(DOCUMENTED[host], address)
        hosts.write_text(text)
        variables = folder / "group_vars/all.yml"
        yaml = YAML(typ="safe")
        values = yaml.load(variables) | {
            "ansible_ssh_private_key_file": str(self._keys / "user"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self._keys / 'known'}",
            # this machine's loop devices are seen from its hosts, under the same paths
            "envelope_image": f"{HOME}/two-hosts.img",
        }
        with variables.open("w") as stream:
            yaml.dump(values, stream)

    def start(self, data: Path, *arguments: str) -> Sweep:
        """Start a command of benchlab whose runs go to ``data``."""
        return Sweep(self, data, *arguments)

    def leftovers(self) -> list[str]:
        return [one for host in self.hosts for one in host.leftovers()]

    def _write_checkout(self) -> None:
        (self.root / "paper/studies").mkdir(parents=True)
        with (self.repo.studies / f"{MINI}.yml").open("w") as stream:
            YAML(typ="safe").dump(mini_study() | {"study": MINI}, stream)
        self.repo.inventories.mkdir(parents=True)
        for path in (ROOT / "notebooks", *(ROOT / "ansible").iterdir()):
            if path.name != "inventories":
                (self.root / path.relative_to(ROOT)).symlink_to(path)
        instance = mini_study()["instance"]
        (self.repo.inventories / instance).symlink_to(ROOT / "ansible/inventories" / instance)
        self.inventory("two", ADDRESSES)
        self.inventory("gone", ADDRESSES | {"load1": "10.77.0.9"})


def _cannot(reason: str) -> NoReturn:
    pytest.skip(f"no hosts can be made of this machine: {reason}")


def _run(*command: str) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        _cannot(f"{command[0]} is not installed")
    except subprocess.CalledProcessError as error:
        _cannot(f"{' '.join(command)}: {error.stderr.strip()}")


def _ip(command: str) -> None:
    _run("ip", *command.split())


def _own(kind: str) -> str:
    return str(Path(f"/proc/self/ns/{kind}").readlink())


def _pids_in(namespace: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str((entry / "ns/pid").readlink()) == namespace != _own("pid"):
                found.append(int(entry.name))
    return found


def _has_child(group: Path) -> bool:
    return (group / "benchlab").exists()


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # a process in it is still exiting
    return True


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    """Two hosts that ssh gets onto; gone afterwards."""
    if os.geteuid():
        pytest.skip("needs root")
    two = TwoHosts(tmp_path_factory.mktemp("two").resolve())
    try:
        two.make()
        yield two
    finally:
        two.end()


class Swept:
    """What a sweep left that was stopped by Ctrl-C once, and gone on with."""

    def __init__(self, hosts: TwoHosts, data: Path):
        run = ("run", MINI, "--profile", "smoke", "--target", "two", "--engine", "postgres")
        self.data = data
        stopped = hosts.start(data, *run)
        stopped.wait_for(lambda: list(data.glob("raw/*/counters-begin.json")), "a measured part")
        self.stopped = stopped.send(signal.SIGINT)
        self.stopped_said = stopped.said
        self.unfinished = folders.unfinished(data / "raw")
        # observers end with the pipe to them, and after that gather what they have for nobody
        wait_for(lambda: not hosts.leftovers(), "nothing left of a stopped sweep")
        whole = hosts.start(data, *run)
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


@pytest.mark.machine
def test_a_client_that_is_not_there_is_told_before_anything_starts(hosts, tmp_path):
    sweep = hosts.start(tmp_path / "data", "run", MINI, "--profile", "smoke", "--target", "gone")
    assert sweep.end() == 1, sweep.said
    assert sweep.said.startswith("benchlab: load1: not reachable over ssh: ssh: connect to host")
    assert len(sweep.said.splitlines()) == 1
    assert not list((tmp_path / "data").glob("raw/*"))
    assert hosts.leftovers() == []


@pytest.mark.machine
def test_ctrl_c_stops_both_hosts(swept):
    assert swept.stopped == 130, swept.stopped_said
    assert swept.stopped_said.endswith("benchlab: stopped; finished runs are kept\n")
    assert len(swept.unfinished) == 1
    assert swept.code == 0, swept.said


@pytest.mark.machine
def test_a_sweep_over_two_hosts_leaves_nothing_on_either(swept):
    assert swept.leftovers == []


@pytest.mark.machine
def test_runs_count_and_say_that_the_load_had_its_own_host(swept):
    assert {record.trial.point.variant for record in swept.records} == {"default", "tuned"}
    for record in swept.records:
        assert (record.status, record.error) == ("ok", None)
        assert not record.single_host
        kept = {"host.json", "sample.jsonl", "load1/host.json", "load1/sample.jsonl"}
        assert kept <= set(record.files)
        assert not {"observers.json", "load1/observers.json"} & set(record.files)


@pytest.mark.machine
def test_the_clients_cpu_is_that_of_the_clients_host(swept):
    load = (pl.col("observer") == "sample") & (pl.col("subject") == "client")
    with open_store(swept.data / "benchlab.duckdb", read_only=True) as store:
        for record in swept.records:
            stored = store.table("os_sample", record.run_id).filter(load).sort("t")["value"]
            there = sample.samples(swept.text(record, "load1/sample.jsonl"))
            assert stored.to_list() == there.filter(load).sort("t")["value"].to_list()
            assert stored.max() > 0
            server = sample.samples(swept.text(record, "sample.jsonl"))
            assert server.filter(load)["value"].max() == 0
            found = store.table("attribution", record.run_id)
            evidence = dict(found.select("resource", "evidence").iter_rows())
            assert f"of {os.cpu_count()}.00 cores" in evidence["CPU of the client"]
            # held together, as on one host, only the larger part would be under pressure
            pressure = dict(found.select("resource", "pressure").iter_rows())
            assert pressure["CPU of the client"] > 0
            assert pressure["CPU of the engine"] > 0


@pytest.mark.machine
def test_the_client_has_no_engine_and_no_password(hosts, swept):
    client = target.load(hosts.repo, "two").load[0]
    there = client.run("find", str(ETC), "-type", "f").decode().split()
    assert sorted(there) == [f"{ETC}/envelope.json", f"{ETC}/host.json"]
    assert not client.run("find", str(HOME), "-name", "*.img")


@pytest.mark.machine
def test_no_password_is_in_anything_that_is_kept(hosts, swept):
    secret = target.load(hosts.repo, "two").nodes[0].read(ETC / "secrets/postgres").strip()
    assert secret
    for path in swept.data.rglob("*"):
        assert not (path.is_file() and secret in path.read_bytes()), path
