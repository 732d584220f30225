"""The resources that can bind a run, and how each of them is limited."""

from collections.abc import Callable
from dataclasses import dataclass


def _mb(value: float) -> str:
    return f"{value / 1e6:.1f} MB/s"


def _per_s(value: float) -> str:
    return f"{value:,.0f} /s"


@dataclass(frozen=True)
class Rate:
    """A resource whose use is a rate: how prose names it, where it is sampled, what limits it."""

    name: str
    words: str
    metric: str
    """Of the subject ``disk``."""
    limit: str
    """Column of ``run``."""
    show: Callable[[float], str]


#: What the envelope's disk is limited in.
DISK = (
    Rate(
        "disk write bandwidth", "disk writes", "write_bytes_per_s", "limit_write_bytes_per_s", _mb
    ),
    Rate("disk write IOPS", "disk write operations", "writes_per_s", "limit_write_iops", _per_s),
    Rate("disk read bandwidth", "disk reads", "read_bytes_per_s", "limit_read_bytes_per_s", _mb),
    Rate("disk read IOPS", "disk read operations", "reads_per_s", "limit_read_iops", _per_s),
)
COMMIT_LATENCY = "commit latency"
ENGINE_CPU = "CPU of the engine"
CLIENT_CPU = "CPU of the client"
MEMORY = "memory"
NETWORK = "network"
LOCKS = "locks"
ENGINE_LIMIT = "the engine's own limit"

#: Nothing is exhausted while the clients always wait for an answer: more clients would do more.
CONCURRENCY = "concurrency"

#: Nothing is exhausted, and the clients do not wait either: the engine does all that is offered.
NONE = "none"

#: What a run is shown as that the captures do not tell of; no row of ``attribution`` is named so.
UNKNOWN = "unknown"

#: In the order in which tables and charts show them.
RESOURCES = (
    *(rate.name for rate in DISK),
    COMMIT_LATENCY,
    ENGINE_CPU,
    CLIENT_CPU,
    MEMORY,
    NETWORK,
    LOCKS,
    ENGINE_LIMIT,
    CONCURRENCY,
    NONE,
)
