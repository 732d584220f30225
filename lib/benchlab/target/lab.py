"""The lab: hosts made of namespaces on one machine, for deployments of several nodes.

Each host has its own network address, processes, cgroups, mounts and sshd. It sees this machine's files
through an overlay, which is removed with the host. All hosts share this machine's kernel, page cache,
CPU and disk. So a lab shows that a deployment works, and how it behaves inside its envelopes, but not
the performance of separate machines.
"""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from benchlab.agent.system import wait_until
from benchlab.errors import TargetError
from benchlab.target.deployment import Deployment

#: Folder of the hosts of ``inventories/lab``.
FOLDER = Path("/var/lib/benchlab-lab")

_BRIDGE = "benchlab-lab"
_CGROUP = Path("/sys/fs/cgroup")

#: "1": what a bridge forwards passes the machine's firewall, too. Docker sets it, and has the firewall
#: drop what no rule accepts.
_FILTERED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")

#: Hierarchies of cgroup v1 in which a host sees its own group as the root. blkio is not among them, as
#: its limits are set in its root.
_HIERARCHIES = ("cpu", "cpuacct", "memory", "unified")

_NAMESPACES = ("unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child")

#: A host started with this prefix ends with the process that made it.
_TIED = ("setpriv", "--pdeathsig", "KILL")

#: Timeout of every wait in this module.
_TIMEOUT_S = 60

#: An interface name has at most 15 characters, of which 3 are the prefix ``bl-``.
_LONGEST_NAME = 12


@dataclass(frozen=True)
class LabHost:
    """One host of the lab."""

    name: str
    folder: Path

    @property
    def cable(self) -> str:
        """The name of this machine's end of the host's cable (veth pair)."""
        return f"bl-{self.name}"

    @property
    def groups(self) -> list[Path]:
        """The cgroups that the host sees as roots of their hierarchies."""
        roots = [_CGROUP] if _unified() else [_CGROUP / name for name in _HIERARCHIES]
        return [root / f"benchlab-lab-{self.name}" for root in roots if root.is_dir()]

    @property
    def pid(self) -> int | None:
        """The process that holds the host's namespaces; ``None`` if it has ended."""
        # ValueError: the file is empty, as a full disk leaves it
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            pid = int((self.folder / "pid").read_text())
            if str(self.folder) in Path(f"/proc/{pid}/cmdline").read_text():
                return pid
        return None

    def pids(self) -> list[int]:
        """Return the host's processes: their pids on this machine."""
        if not (holder := self.pid):
            return []
        own = Path(f"/proc/{holder}/ns/pid_for_children").readlink()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "ns/pid").readlink() == own:
                    found.append(int(entry.name))
        return found

    def loops(self) -> list[str]:
        """Return the loop devices on the host's images."""
        found = []
        for image in self.folder.glob("disk/*.img"):
            said = _run("losetup", "--associated", str(image))
            found += [line.split(":")[0] for line in said.splitlines()]
        return found

    def start(self, address: str, keys: Path, base: Path, tied: bool) -> None:
        """Start the host and connect it to the bridge.

        Raises:
            TargetError: the host cannot be made on this machine.
        """
        for part in ("layer", "root", "disk"):
            (self.folder / part).mkdir(parents=True)
        self._remove_groups()  # groups of a killed lab
        for group in self.groups:
            group.mkdir()
        script = files("benchlab.target").joinpath("lab_host.sh").read_text()
        words = map(str, (self.folder, self.name, address, keys, base))
        with (self.folder / "log").open("w") as log:
            process = subprocess.Popen(
                [*_TIED * tied, *_NAMESPACES, "sh", "-c", script, "lab_host.sh", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=not tied,
            )
        (self.folder / "pid").write_text(str(process.pid))
        here = Path("/proc/self/ns/net").readlink()

        def is_apart() -> bool:
            if process.poll() is not None:
                raise self._ended()
            with suppress(OSError):
                return Path(f"/proc/{process.pid}/ns/net").readlink() != here
            return False

        _wait(is_apart, f"the namespaces of {self.name}")
        _ip(f"link add {self.cable} type veth peer name eth0 netns {process.pid}")
        _ip(f"link set {self.cable} master {_BRIDGE} up")

    def answers(self, address: str) -> bool:
        """Whether the host's sshd is up.

        Raises:
            TargetError: the host has ended.
        """
        if not self.pid:
            raise self._ended()
        with suppress(OSError):
            socket.create_connection((address, 22), 1).close()
            return True
        return False

    def end(self) -> None:
        """Kill the host, and remove all that it has on this machine."""
        if holder := self.pid:
            everything = [Path(f"/proc/{pid}") for pid in self.pids()]
            os.kill(holder, signal.SIGKILL)
            _wait(
                lambda: not self.pid and not any(map(_lives, everything)), f"the end of {self.name}"
            )
        for loop in self.loops():
            _run("losetup", "--detach", loop)
        self._remove_groups()
        _unplug(self.cable)
        shutil.rmtree(self.folder)

    def _remove_groups(self) -> None:
        for group in self.groups:
            # an engine's services have groups of their own below the engine's
            for folder in (*sorted(group.glob("benchlab/**/"), reverse=True), group):
                _wait(lambda folder=folder: _removed(folder), f"{folder} to be empty")

    def _ended(self) -> TargetError:
        said = (self.folder / "log").read_text().strip().splitlines() or ["it ended"]
        return TargetError(f"lab: host {self.name} cannot be made: {said[-1]}")


class Lab:
    """The hosts in one folder."""

    def __init__(self, folder: Path = FOLDER):
        self.folder = folder
        self.keys = folder / "keys"

    @property
    def hosts(self) -> list[LabHost]:
        """The hosts that were made and not yet removed."""
        return [LabHost(path.name, path) for path in sorted(self.folder.glob("hosts/*/"))]

    def up(self, deployment: Deployment, tied: bool = False) -> None:
        """Make a host for every node of a deployment, with the node's name and address.

        Args:
            deployment: its addresses are in one /24 network, in which this machine gets ``.1``.
            tied: whether the hosts end with this process, also if it is killed.

        Raises:
            TargetError: the lab has hosts already, or this machine cannot make them.
        """
        require_root()
        if self.hosts:
            there = ", ".join(host.name for host in self.hosts)
            raise TargetError(f"lab: there are hosts already ({there}): `benchlab lab down` first")
        self.down()  # a lab that was killed before it had a host
        for node in deployment.nodes:
            if len(node.name) > _LONGEST_NAME:
                raise TargetError(
                    f"lab: {node.name}: a name has at most {_LONGEST_NAME} characters here"
                )
        try:
            self._make(deployment, tied)
        except BaseException:
            self.down()
            raise

    def down(self) -> bool:
        """Remove all hosts and their network; return whether there was anything to remove.

        Raises:
            TargetError: a host did not end; the others are removed.
        """
        if not self.folder.exists():
            return False
        require_root()
        errors = []
        for host in self.hosts:
            try:
                host.end()
            except TargetError as error:
                errors.append(str(error))
        _unplug(_BRIDGE)
        _forward("-D")
        if errors:
            raise TargetError("; ".join(errors))
        shutil.rmtree(self.folder)
        return True

    def _make(self, deployment: Deployment, tied: bool) -> None:
        addresses = {node.name: node.address for node in deployment.nodes}
        self._write_keys(list(addresses.values()))
        base = self._base()
        _unplug(_BRIDGE)  # the bridge of a killed lab, and its rule
        _forward("-D")
        _ip(f"link add {_BRIDGE} type bridge")
        network, _, _ = deployment.nodes[0].address.rpartition(".")
        _ip(f"address add {network}.1/24 dev {_BRIDGE}")
        _ip(f"link set {_BRIDGE} up")
        _forward("-I")
        if _unified():
            (_CGROUP / "cgroup.subtree_control").write_text("+cpu +memory +io")
        for name, address in addresses.items():
            host = LabHost(name, self.folder / "hosts" / name)
            _unplug(host.cable)
            host.start(address, self.keys, base, tied)
        for host in self.hosts:
            _wait(lambda host=host: host.answers(addresses[host.name]), f"sshd of {host.name}")

    def _write_keys(self, addresses: list[str]) -> None:
        self.keys.mkdir(parents=True, mode=0o700)
        for name in ("host", "user"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.keys / name))
        shutil.copy(self.keys / "user.pub", self.keys / "authorized")
        public = (self.keys / "host.pub").read_text()
        (self.keys / "known").write_text("".join(f"{one} {public}" for one in addresses))

    def _base(self) -> Path:
        """Return a folder with sshd's files for the hosts; empty if this machine has an sshd.

        No sshd is installed on this machine itself.
        """
        base, packages = self.folder / "base", self.folder / "packages"
        base.mkdir()
        if Path("/usr/sbin/sshd").exists():
            return base
        (packages / "partial").mkdir(parents=True)
        _run("apt-get", "-qq", "update")
        wanted = ("install", "--download-only", "--no-install-recommends", "openssh-server")
        _run("apt-get", "-qq", "-y", "-o", f"Dir::Cache::archives={packages}", *wanted)
        for package in packages.glob("*.deb"):
            _run("dpkg-deb", "--extract", str(package), str(base))
        for name in ("bin", "lib", "lib64", "sbin"):
            # links into /usr in the lower layer, which a folder would hide
            if (base / name).is_dir():
                shutil.copytree(base / name, base / "usr" / name, dirs_exist_ok=True, symlinks=True)
                shutil.rmtree(base / name)
        return base


@contextmanager
def made(deployment: Deployment, install: Callable[[], None]) -> Iterator[None]:
    """Provide the hosts of a lab: those that are up, or else new ones, which are removed at the end.

    Args:
        deployment: if it is not a lab, nothing is done.
        install: installs on this machine what the hosts need, as they see its files; called before
            hosts are made.

    Raises:
        TargetError: this machine cannot make hosts, or the hosts that are up belong to another
            inventory.
    """
    lab = Lab()
    if not deployment.is_lab:
        yield
        return
    if any(host.pid for host in lab.hosts):
        there = {host.name for host in lab.hosts}
        if there != {node.name for node in deployment.nodes}:
            raise TargetError(
                f"lab: there are other hosts than those of {deployment.name}"
                f" ({', '.join(sorted(there))}): `benchlab lab down` first"
            )
        yield
        return
    lab.down()  # hosts of a killed lab
    install()
    lab.up(deployment, tied=True)
    try:
        yield
    finally:
        lab.down()


def require_root() -> None:
    """Check that this process may make hosts.

    Raises:
        TargetError: it does not run as root.
    """
    if os.geteuid():
        raise TargetError("lab: root is needed: use sudo")


def _unified() -> bool:
    return (_CGROUP / "cgroup.controllers").exists()


def _lives(entry: Path) -> bool:
    """Whether a process exists and is not a zombie; it may be a child of any process."""
    with suppress(OSError):
        return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False  # a process in it is still exiting
    return True


def _unplug(link: str) -> None:
    """Delete an interface; a cable outlives its host as long as a socket of the host does."""
    with suppress(TargetError):  # it may disappear meanwhile
        _ip(f"link delete {link}")
    _wait(lambda: not Path("/sys/class/net", link).exists(), f"no interface {link}")


def _forward(change: str) -> None:
    """Have a firewall that sees what bridges forward accept it on the lab's; ``-D`` takes that back."""
    if not _FILTERED.exists() or _FILTERED.read_text().strip() != "1":
        return
    with suppress(TargetError):  # there is no such rule to delete, or no iptables, so no Docker
        _run("iptables", "-w", change, "FORWARD", "-i", _BRIDGE, "-o", _BRIDGE, "-j", "ACCEPT")


def _ip(command: str) -> None:
    _run("ip", *command.split())


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise TargetError(f"lab: {command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise TargetError(f"lab: {' '.join(command)}: {said[-1]}") from error
    return done.stdout


def _wait(condition: Callable[[], bool], what: str) -> None:
    if not wait_until(condition, _TIMEOUT_S):
        raise TargetError(f"lab: timed out after {_TIMEOUT_S} s waiting for {what}")
