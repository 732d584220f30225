"""Checks of a target before anything is started on it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchlab.errors import TargetError
from benchlab.plan.envelope import GIB, Envelope
from benchlab.target import Deployment, lab
from benchlab.target.host import Host

#: Folder of the data file system's image and of the snapshots; see role ``host``.
HOME = "/var/lib/benchlab"

#: Least version of a node's Python, which runs the agent and Ansible's modules.
_PYTHON = (3, 11)

#: Prints a system's name, where its tool for packages of Debian is, and the version of its Python.
_SYSTEM = """
[ ! -r /etc/os-release ] || . /etc/os-release
echo "${PRETTY_NAME:-this system}"
command -v apt-get || echo
python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo 0
"""

#: Disk space for engines, packages and snapshots, besides the data file system's image.
_DISK_MARGIN_BYTES = 4 * GIB

#: Memory that the rest of the system needs besides the envelope.
_MEMORY_MARGIN_BYTES = GIB // 2

#: Share of an instance type's memory that its kernel reports at least; the rest is reserved at boot.
_REPORTED = 0.9


def root(deployment: Deployment) -> None:
    """Check that commands can be run as root; the hosts of a lab are made by this process.

    Raises:
        NoRoot: a node does not allow it.
        Unreachable: a node cannot be reached.
        TargetError: this process may not make a lab.
    """
    if deployment.is_lab:
        lab.require_root()
        return
    for node in deployment.nodes:
        node.run("true")


def outside_of_home(*folders: Path) -> None:
    """Check that the user's folders on this machine are not among benchlab's own, which are wiped.

    Raises:
        TargetError: one lies there.
    """
    for folder in folders:
        if folder.resolve().is_relative_to(Path(HOME).resolve()):
            raise TargetError(f"{folder} lies in {HOME}, which would be deleted: move it first")


def system(deployment: Deployment) -> None:
    """Check that the nodes' systems are of the kind that the roles are written for.

    Raises:
        TargetError: one is not.
    """
    # the hosts of a lab have this machine's files
    nodes = (Host(name="this machine"),) if deployment.is_lab else deployment.nodes
    for node in nodes:
        if lack := lacks(node):
            raise TargetError(f"{node.name}: {lack}")


def lacks(node: Host) -> str | None:
    """Return what a node's system lacks for the roles, with the system's name; ``None``: nothing."""
    name, packages, python = node.run("sh", "-c", _SYSTEM).decode().splitlines()
    if not packages:
        return f"{name} has no packages of Debian: Debian 12 or Ubuntu 24.04 is needed"
    if tuple(map(int, python.split("."))) < _PYTHON:
        return f"{name} has Python {python}: {'.'.join(map(str, _PYTHON))} or newer is needed"
    return None


@dataclass(frozen=True)
class Size:
    """How large a host is; ``disk_bytes`` are those that benchlab's files may take."""

    host: str
    cores: int
    memory_bytes: int
    disk_bytes: int

    @classmethod
    def of(cls, node: Host) -> Self:
        """Measure a host."""
        memory = _memory_bytes(node.read("/proc/meminfo").decode())
        return cls(node.name, int(node.run("nproc")), memory, _disk_bytes(node))

    def check(self, envelope: Envelope) -> None:
        """Check cores, memory and, for the image of a data file system, disk.

        An envelope that enforces nothing is the host itself, whose disk has the data without an image.

        Raises:
            TargetError: something is too small; the message says how much there is and how much is
                needed.
        """
        if self.cores < envelope.cores:
            raise TargetError(
                f"{self.host}: the profile needs {envelope.cores:g} cores, there are {self.cores}"
            )
        if not envelope.enforce:
            self._enough("memory", self.memory_bytes, int(_REPORTED * envelope.memory_bytes))
            return
        memory = envelope.memory_limit_bytes + _MEMORY_MARGIN_BYTES
        self._enough("memory", self.memory_bytes, memory)
        self._enough("disk", self.disk_bytes, envelope.disk_bytes + _DISK_MARGIN_BYTES)

    def _enough(self, what: str, there: int, needed: int) -> None:
        if there < needed:
            raise TargetError(
                f"{self.host}: the profile needs {needed / GIB:.1f} GiB of {what},"
                f" {there / GIB:.1f} GiB are there"
            )


def sizes(deployment: Deployment) -> list[Size]:
    """Measure the nodes of the database."""
    return [Size.of(node) for node in deployment.databases]


def check(deployment: Deployment, envelope: Envelope) -> None:
    """Check the nodes of the database for disk, memory and cores.

    Raises:
        TargetError: see :meth:`Size.check`.
    """
    for size in sizes(deployment):
        size.check(envelope)


def _memory_bytes(meminfo: str) -> int:
    fields = dict(line.split(":", 1) for line in meminfo.splitlines())
    return int(fields["MemTotal"].split()[0]) * 1024


def _disk_bytes(node: Host) -> int:
    """Return the free bytes of the disk with benchlab's files, plus those of the node's image."""
    of_image = r's/.*"image": *"\([^"]*\)".*/\1/p'
    script = (
        f"d={HOME}; while [ ! -d $d ]; do d=$(dirname $d); done;"
        f" df -B1 --output=avail $d | tail -1;"
        f" image=$(sed -n '{of_image}' /etc/benchlab/envelope.json 2>/dev/null);"
        f' du -B1 "${{image:-{HOME}/disk.img}}" 2>/dev/null | cut -f1'
    )
    return sum(int(word) for word in node.run("sh", "-c", script).split())
