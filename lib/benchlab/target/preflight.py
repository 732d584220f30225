"""Checks of a target before anything is started on it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Self

from benchlab.errors import TargetError
from benchlab.plan.envelope import GIB, Envelope
from benchlab.study import EngineSpec
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

#: Name of the machine that the hosts of a lab share.
_OF_LAB = "this machine"

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
    nodes = (Host(name=_OF_LAB),) if deployment.is_lab else deployment.nodes
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
    """How large a host is, and what of its disk benchlab's files take already."""

    host: str
    cores: int
    memory_bytes: int
    free_bytes: int
    image_bytes: int
    snapshots_bytes: int

    @classmethod
    def of(cls, node: Host) -> Self:
        """Measure a host."""
        memory = _memory_bytes(node.read("/proc/meminfo").decode())
        return cls(node.name, int(node.run("nproc")), memory, *_disk_bytes(node))

    def check(self, envelope: Envelope, envelopes: int = 1) -> None:
        """Check cores, memory and, for the image of a data file system, disk.

        An envelope that enforces nothing is the host itself, whose disk has the data without an image:
        there the host may not be larger than the envelope either.

        Args:
            envelope: limits of the engine.
            envelopes: how many such envelopes are in use at once; see :func:`at_once`.

        Raises:
            TargetError: something is too small, or too large; the message says how much there is and
                how much is needed.
        """
        cores = envelopes * envelope.cores
        if self.cores < cores:
            raise TargetError(
                f"{self.host}: the profile needs {cores:g} cores, there are {self.cores}"
            )
        if not envelope.enforce:
            memory = envelopes * envelope.memory_bytes
            self._enough("memory", self.memory_bytes, int(_REPORTED * memory))
            if self.cores > cores:
                self._larger(f"{cores:g} cores", self.cores)
            if self.memory_bytes * _REPORTED > memory:
                self._larger(
                    f"{memory / GIB:.1f} GiB of memory", f"{self.memory_bytes / GIB:.1f} GiB"
                )
            return
        memory = envelopes * envelope.memory_limit_bytes + _MEMORY_MARGIN_BYTES
        self._enough("memory", self.memory_bytes, memory)
        disk = envelopes * envelope.disk_bytes + _DISK_MARGIN_BYTES
        self._enough("disk", self.free_bytes + self.image_bytes, disk, self._of_snapshots)

    @property
    def _of_snapshots(self) -> str:
        """What a message says of the disk that snapshots take; empty if there are none."""
        if not self.snapshots_bytes:
            return ""
        gib = self.snapshots_bytes / GIB
        return f"; snapshots take {gib:.1f} GiB, which `benchlab teardown --wipe` frees"

    def _enough(self, what: str, there: int, needed: int, more: str = "") -> None:
        if there < needed:
            raise TargetError(
                f"{self.host}: the profile needs {needed / GIB:.1f} GiB of {what},"
                f" {there / GIB:.1f} GiB are there{more}"
            )

    def _larger(self, size: str, there: object) -> NoReturn:
        raise TargetError(
            f"{self.host}: the profile is for {size}, there are {there}, and the target limits"
            " nothing (envelope_enforce: false)"
        )


def sizes(deployment: Deployment) -> list[Size]:
    """Measure the nodes of the database; those of a lab are one machine."""
    found = [Size.of(node) for node in deployment.databases]
    if not deployment.is_lab:
        return found
    images = sum(one.image_bytes for one in found)
    snapshots = sum(one.snapshots_bytes for one in found)
    changes = {"host": _OF_LAB, "image_bytes": images, "snapshots_bytes": snapshots}
    return [replace(one, **changes) for one in found[:1]]


def at_once(deployment: Deployment, engines: Iterable[EngineSpec]) -> int:
    """Return how many envelopes of one machine are in use while one of the engines runs.

    In a lab these are the envelopes of all its nodes that the engine runs on, otherwise it is one.
    """
    if not deployment.is_lab:
        return 1
    return max([1, *(len(deployment.having(*engine.runs_on)) for engine in engines)])


def check(deployment: Deployment, envelope: Envelope, envelopes: int = 1) -> None:
    """Check the nodes of the database for disk, memory and cores; see :meth:`Size.check`.

    Nothing is checked for a server that somebody else runs.

    Raises:
        TargetError: see :meth:`Size.check`.
    """
    if deployment.enforce and not envelope.enforce:
        return
    for size in sizes(deployment):
        size.check(envelope, envelopes)


def _memory_bytes(meminfo: str) -> int:
    fields = dict(line.split(":", 1) for line in meminfo.splitlines())
    return int(fields["MemTotal"].split()[0]) * 1024


def _disk_bytes(node: Host) -> Iterable[int]:
    """Return the bytes of the disk that are free, of the node's image, and of its snapshots."""
    of_image = r's/.*"image": *"\([^"]*\)".*/\1/p'
    script = (
        f"d={HOME}; while [ ! -d $d ]; do d=$(dirname $d); done;"
        f" df -B1 --output=avail $d | tail -1;"
        f" image=$(sed -n '{of_image}' /etc/benchlab/envelope.json 2>/dev/null);"
        f' for path in "${{image:-{HOME}/disk.img}}" {HOME}/snapshots; do'
        ' bytes=$(du -sB1 "$path" 2>/dev/null | cut -f1); echo "${bytes:-0}"; done'
    )
    return map(int, node.run("sh", "-c", script).split())
