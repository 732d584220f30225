"""Checks of a target before anything is started on it."""

from benchlab.errors import TargetError
from benchlab.plan.envelope import GIB, Envelope
from benchlab.target import Deployment, lab
from benchlab.target.host import Host

#: Folder of the data file system's image and of the snapshots; see role ``host``.
HOME = "/var/lib/benchlab"

#: Disk space for engines, packages and snapshots, besides the data file system's image.
_DISK_MARGIN_BYTES = 4 * GIB

#: Memory that the rest of the system needs besides the envelope.
_MEMORY_MARGIN_BYTES = GIB // 2


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


def check(deployment: Deployment, envelope: Envelope) -> None:
    """Check the nodes of the database for disk, memory and cores.

    Raises:
        TargetError: something is too small; the message says how much there is and how much is
            needed.
    """
    for node in deployment.databases:
        _size(node, envelope)


def _size(node: Host, envelope: Envelope) -> None:
    cores = int(node.run("nproc"))
    if cores < envelope.cores:
        raise TargetError(
            f"{node.name}: the profile needs {envelope.cores:g} cores, there are {cores}"
        )
    memory = _memory_bytes(node.read("/proc/meminfo").decode())
    _enough(node.name, "memory", memory, envelope.memory_limit_bytes + _MEMORY_MARGIN_BYTES)
    _enough(node.name, "disk", _disk_bytes(node), envelope.disk_bytes + _DISK_MARGIN_BYTES)


def _enough(host: str, what: str, there: int, needed: int) -> None:
    if there < needed:
        raise TargetError(
            f"{host}: the profile needs {needed / GIB:.1f} GiB of {what},"
            f" {there / GIB:.1f} GiB are there"
        )


def _memory_bytes(meminfo: str) -> int:
    fields = dict(line.split(":", 1) for line in meminfo.splitlines())
    return int(fields["MemTotal"].split()[0]) * 1024


def _disk_bytes(node: Host) -> int:
    """Return the free bytes of the disk with benchlab's files, plus the bytes of these files."""
    script = (
        f"d={HOME}; while [ ! -d $d ]; do d=$(dirname $d); done;"
        f" df -B1 --output=avail $d | tail -1;"
        f" du -sx -B1 {HOME} 2>/dev/null | cut -f1"
    )
    return sum(int(word) for word in node.run("sh", "-c", script).split())
