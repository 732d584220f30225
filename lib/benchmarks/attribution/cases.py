"""The labelled set: small runs, each with a bottleneck that was made on purpose.

A case is a label, a point and the limits of its run. Every limit is generous except the one that the
case is about. Labels follow from how a case is made, never from a method's answer.
"""

from dataclasses import dataclass, field

from benchlab.study import Scalar
from benchlab.study.resources import (
    CLIENT_CPU,
    COMMIT_LATENCY,
    CONCURRENCY,
    ENGINE_CPU,
    ENGINE_LIMIT,
    LOCKS,
    MEMORY,
    NONE,
)

_MB, _MIB = 1_000_000, 1 << 20

#: Limits of the disk, unless a case sets others.
GENEROUS = {
    "read_bytes_per_s": 300 * _MB,
    "write_bytes_per_s": 300 * _MB,
    "read_iops": 30_000,
    "write_iops": 30_000,
}


@dataclass(frozen=True)
class Host:
    """CPU and memory of the envelope. Cases with the same values run one after the other."""

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
    rows: int | None = None
    """Rows per table, if the study's dataset is too small."""
    start: str = "prewarm"
    options: dict[str, Scalar] = field(default_factory=dict)
    warmup_s: int = 0
    """Seconds until the bottleneck has built up."""
    client_cores: float | None = None
    """CPU quota of the load's own cgroup, in cores."""

    @property
    def writes(self) -> bool:
        """Whether the case changes the dataset."""
        return self.script not in ("oltp_point_select", "oltp_read_only")


#: Rows per table. At 1 MB/s or 100 pages a second an intervention ends long before all are read.
_NEVER_PREWARMED = 2_400_000

# one row takes 0.9999 of the updates: (1/600,000) ** (ln 0.9999 / ln 0.0001)
_HOT = {"rand-type": "pareto", "rand-pareto-h": 0.0001}

_ALL = ("postgres", "oceanbase", "mariadb")
#: Engines in which each commit itself waits for the log.
_LOGGED = ("postgres", "mariadb")


def _each(
    engines: tuple[str, ...], name: str, label: str, script: str, threads: int, why: str, **options
) -> list[Case]:
    return [Case(f"{e}-{name}", e, label, script, threads, why, **options) for e in engines]


CASES = (
    *_each(
        *(_ALL, "write-bandwidth", "disk write bandwidth", "oltp_write_only", 16),
        "writes held to 2 MB/s",
        disk={"write_bytes_per_s": 2 * _MB},
    ),
    *_each(
        *(_ALL, "write-bandwidth-one-client", "disk write bandwidth", "oltp_write_only", 1),
        "writes held to 1 MB/s",
        disk={"write_bytes_per_s": _MB},
    ),
    *_each(
        *(_ALL, "write-iops", "disk write IOPS", "oltp_insert", 4),
        "write operations held to 200 a second",
        disk={"write_iops": 200},
    ),
    *_each(
        *(_ALL, "write-iops-many", "disk write IOPS", "oltp_update_index", 16),
        "write operations held to 400 a second",
        disk={"write_iops": 400},
    ),
    *_each(
        *(_ALL, "read-bandwidth", "disk read bandwidth", "oltp_point_select", 16),
        "no prewarming, reads held to 1 MB/s",
        disk={"read_bytes_per_s": _MB},
        rows=_NEVER_PREWARMED,
        start="cold",
    ),
    *_each(
        *(_ALL, "read-iops", "disk read IOPS", "oltp_point_select", 16),
        "no prewarming, read operations held to 100 a second",
        disk={"read_iops": 100},
        rows=_NEVER_PREWARMED,
        start="cold",
    ),
    *_each(
        *(_ALL, "cpu", ENGINE_CPU, "oltp_point_select", 32),
        "32 clients that read from memory on two cores",
    ),
    *_each(
        *(_ALL, "cpu-read-only", ENGINE_CPU, "oltp_read_only", 16),
        "16 clients that read ranges from memory on two cores",
    ),
    *_each(
        *(_ALL, "cpu-quota", ENGINE_CPU, "oltp_point_select", 16),
        "16 clients that read from memory on half a core",
        host=Host(cores=0.5),
    ),
    *_each(
        *(("postgres", "oceanbase"), "hot-row", LOCKS, "oltp_update_non_index", 16),
        "16 clients that update one row",
        options=_HOT,
    ),
    # InnoDB unlocks a row before the log is on the disk: one statement holds it too briefly for a queue
    Case(
        *("mariadb-hot-row", "mariadb", LOCKS, "oltp_write_only", 16),
        "16 clients whose transactions write one row by several statements",
        options=_HOT,
    ),
    *_each(
        *(_ALL, "one-client", CONCURRENCY, "oltp_point_select", 1),
        "one client that reads from memory",
    ),
    *_each(
        *(_ALL, "one-client-ranges", CONCURRENCY, "oltp_read_only", 1),
        "one client that reads ranges from memory",
    ),
    *_each(
        *(_LOGGED, "commit-one", COMMIT_LATENCY, "oltp_insert", 1),
        "one client that commits every row",
    ),
    *_each(
        *(_LOGGED, "commit-few", COMMIT_LATENCY, "oltp_insert", 3),
        "three clients that commit every row",
    ),
    *_each(
        *(_ALL, "starved-client", CLIENT_CPU, "oltp_point_select", 16),
        "sysbench held to a twentieth of a core",
        client_cores=0.05,
    ),
    *_each(
        *(_ALL, "offered-reads", NONE, "oltp_point_select", 8),
        "200 reads a second are offered, and no more",
        options={"rate": 200},
    ),
    *_each(
        *(_ALL, "offered-writes", NONE, "oltp_write_only", 8),
        "20 transactions a second are offered, and no more",
        options={"rate": 20},
    ),
    *_each(
        *(_LOGGED, "small-pool", "disk read IOPS", "oltp_point_select", 16),
        "pool and page cache hold a part of the dataset, read operations held to 400 a second",
        disk={"read_iops": 400},
        host=Host(memory_bytes=128 * _MIB),
        variant="small_pool",
    ),
    Case(
        *("postgres-memory", "postgres", MEMORY, "oltp_point_select", 2),
        "two clients, pool and page cache hold a part of the dataset, and the disk is fast",
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
