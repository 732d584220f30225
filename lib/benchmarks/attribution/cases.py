"""The labelled set: small runs, each with a bottleneck that was made on purpose.

A case is a label, a point and the limits that it runs in. Every limit is generous but the one that the
case is about. Labels follow from how a case is made, never from what a method says of it.
"""

from dataclasses import dataclass, field

from benchlab.attribution import NONE
from benchlab.attribution.resources import (
    CLIENT_CPU,
    COMMIT_LATENCY,
    CONCURRENCY,
    ENGINE_CPU,
    ENGINE_LIMIT,
    LOCKS,
    MEMORY,
)
from benchlab.study import Scalar

_MB, _MIB = 1_000_000, 1 << 20

#: Of the disk, where a case says nothing else.
GENEROUS = {
    "read_bytes_per_s": 300 * _MB,
    "write_bytes_per_s": 300 * _MB,
    "read_iops": 30_000,
    "write_iops": 30_000,
}


@dataclass(frozen=True)
class Host:
    """How much of the host the envelope leaves; cases with the same run after each other."""

    cores: float = 2.0
    memory_bytes: int = 1024 * _MIB


@dataclass(frozen=True)
class Case:
    """One labelled run."""

    name: str
    engine: str
    label: str
    script: str
    threads: int
    why: str
    disk: dict[str, int] = field(default_factory=dict)
    host: Host = Host()
    variant: str = "roomy"
    start: str = "read_in"
    options: dict[str, Scalar] = field(default_factory=dict)
    warmup_s: int = 0
    """Seconds until the bottleneck is there."""
    client_cores: float | None = None
    """Quota of the load's own group."""

    @property
    def writes(self) -> bool:
        """Whether it changes the dataset."""
        return self.script not in ("oltp_point_select", "oltp_read_only")


# one row takes 0.9999 of the updates: (1/600,000) ** (ln 0.9999 / ln 0.0001)
_HOT = {"rand-type": "pareto", "rand-pareto-h": 0.0001}

_BOTH = ("postgres", "oceanbase")


def _both(name: str, label: str, script: str, threads: int, why: str, **options) -> list[Case]:
    return [Case(f"{e}-{name}", e, label, script, threads, why, **options) for e in _BOTH]


CASES = (
    *_both(
        *("write-bandwidth", "disk write bandwidth", "oltp_write_only", 16),
        "writes held to 2 MB/s",
        disk={"write_bytes_per_s": 2 * _MB},
    ),
    *_both(
        *("write-bandwidth-one-client", "disk write bandwidth", "oltp_write_only", 1),
        "writes held to 0.5 MB/s",
        disk={"write_bytes_per_s": _MB // 2},
    ),
    *_both(
        *("write-iops", "disk write IOPS", "oltp_insert", 4),
        "write operations held to 200 a second",
        disk={"write_iops": 200},
    ),
    *_both(
        *("write-iops-many", "disk write IOPS", "oltp_update_index", 16),
        "write operations held to 400 a second",
        disk={"write_iops": 400},
    ),
    *_both(
        *("read-bandwidth", "disk read bandwidth", "oltp_point_select", 16),
        "nothing read in, reads held to 1 MB/s",
        disk={"read_bytes_per_s": _MB},
        start="cold",
    ),
    *_both(
        *("read-iops", "disk read IOPS", "oltp_point_select", 16),
        "nothing read in, read operations held to 100 a second",
        disk={"read_iops": 100},
        start="cold",
    ),
    *_both(
        *("cpu", ENGINE_CPU, "oltp_point_select", 32),
        "32 clients that read from memory on two cores",
    ),
    *_both(
        *("cpu-read-only", ENGINE_CPU, "oltp_read_only", 16),
        "16 clients that read ranges from memory on two cores",
    ),
    *_both(
        *("cpu-quota", ENGINE_CPU, "oltp_point_select", 16),
        "16 clients that read from memory on half a core",
        host=Host(cores=0.5),
    ),
    *_both(
        *("hot-row", LOCKS, "oltp_update_non_index", 16),
        "16 clients that update one row",
        options=_HOT,
    ),
    *_both(
        *("one-client", CONCURRENCY, "oltp_point_select", 1),
        "one client that reads from memory",
    ),
    *_both(
        *("one-client-ranges", CONCURRENCY, "oltp_read_only", 1),
        "one client that reads ranges from memory",
    ),
    Case(
        *("postgres-commit-one", "postgres", COMMIT_LATENCY, "oltp_insert", 1),
        "one client that commits every row",
    ),
    Case(
        *("postgres-commit-few", "postgres", COMMIT_LATENCY, "oltp_insert", 3),
        "three clients that commit every row",
    ),
    *_both(
        *("starved-client", CLIENT_CPU, "oltp_point_select", 16),
        "sysbench held to a twentieth of a core",
        client_cores=0.05,
    ),
    *_both(
        *("offered-reads", NONE, "oltp_point_select", 8),
        "200 reads a second are offered, and no more",
        options={"rate": 200},
    ),
    *_both(
        *("offered-writes", NONE, "oltp_write_only", 8),
        "20 transactions a second are offered, and no more",
        options={"rate": 20},
    ),
    Case(
        *("postgres-small-pool", "postgres", "disk read IOPS", "oltp_point_select", 16),
        "pool and page cache hold a part of the dataset, read operations held to 400 a second",
        disk={"read_iops": 400},
        host=Host(memory_bytes=128 * _MIB),
        variant="small_pool",
    ),
    Case(
        *("postgres-memory", "postgres", MEMORY, "oltp_point_select", 16),
        "pool and page cache hold a part of the dataset, and the disk is fast",
        host=Host(memory_bytes=96 * _MIB),
        variant="small_pool",
    ),
    Case(
        *("oceanbase-brake", "oceanbase", ENGINE_LIMIT, "oltp_insert", 16),
        "the engine slows its writers down from 5 % of its memory for new rows",
        variant="brake",
        warmup_s=8,
    ),
)
