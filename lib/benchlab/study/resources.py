"""The resources that can bind a run: their names, how their use is sampled, and what limits them.

Evidence and interventions use these names. Tables and charts show them, and the rows of
``attribution``, ``elasticity`` and ``intervention_block`` contain them. Colours are in
:mod:`benchlab.report.theme`.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Amount:
    """A unit for display, and its size in sampled units (``scale``)."""

    unit: str
    scale: float


@dataclass(frozen=True)
class Limit:
    """A limit of the envelope, which can be lowered during a run."""

    key: str
    """Its name in study files and on the command line."""
    agent: str
    """Its name in requests to the agent."""
    column: str
    """Its column of ``run``."""


@dataclass(frozen=True)
class Resource:
    """A resource whose use is a rate."""

    name: str
    words: str
    """Name of its use in prose."""
    show: Callable[[float], str]
    """Formats a rate or a limit as text."""
    subjects: tuple[str, ...] = ()
    """Subjects whose rows of ``os_sample`` show its use."""
    metric: str = ""
    """Metric of these rows."""
    rate: Amount = Amount("", 1)
    """Unit of its use."""
    of_one: Amount = Amount("", 1)
    """Unit of its use per transaction."""
    limit: Limit | None = None
    under: str = ""
    """Name of the limited resource that it is a part of."""


def _mb(value: float) -> str:
    return f"{value / 1e6:.1f} MB/s"


def _per_s(value: float) -> str:
    return f"{value:,.0f} /s"


def _cores(value: float) -> str:
    return f"{value:.2f} cores"


def _bandwidth(way: str) -> Resource:
    metric = f"{way}_bytes_per_s"
    return Resource(
        f"disk {way} bandwidth",
        f"disk {way}s",
        _mb,
        ("disk",),
        metric,
        Amount("MB/s", 1e6),
        Amount("kB", 1e3),
        Limit(f"{way}_bandwidth", metric, f"limit_{metric}"),
    )


def _operations(way: str) -> Resource:
    return Resource(
        f"disk {way} IOPS",
        f"disk {way} operations",
        _per_s,
        ("disk",),
        f"{way}s_per_s",
        Amount("1/s", 1),
        Amount(f"{way}s", 1),
        Limit(f"{way}_iops", f"{way}_iops", f"limit_{way}_iops"),
    )


#: The resources of the envelope's disk.
DISK = (
    _bandwidth("write"),
    _operations("write"),
    _bandwidth("read"),
    _operations("read"),
)

#: CPU that engine and load share. Evidence names the CPU of one of the two instead.
CPU = Resource(
    "CPU",
    "CPU",
    _cores,
    ("engine", "client"),
    "cpu_us_per_s",
    Amount("cores", 1e6),
    Amount("µs", 1),
    Limit("cpu", "cores", "limit_cores"),
)

COMMIT_LATENCY = "commit latency"
ENGINE_CPU = "CPU of the engine"
CLIENT_CPU = "CPU of the client"
#: What is between clients and engine in some loads: it has the engine's sessions, fewer than clients.
APPLICATION_SERVER = "application server"
MEMORY = "memory"
NETWORK = "network"
LOCKS = "locks"
ENGINE_LIMIT = "the engine's own limit"

#: Nothing is exhausted while the clients always wait for an answer: more clients would do more.
CONCURRENCY = "concurrency"

#: Nothing is exhausted, and the clients do not wait either: the engine keeps up with the offered load.
NONE = "none"

#: Shown if the captures of a run do not show what bound it; ``attribution`` has no row of this name.
UNKNOWN = "unknown"

#: Resources whose use is a rate, by name.
RATES = {
    one.name: one
    for one in (
        *DISK,
        CPU,
        Resource(ENGINE_CPU, "the engine's CPU", _cores, under=CPU.name),
        Resource(CLIENT_CPU, "the client's CPU", _cores, under=CPU.name),
        Resource(NETWORK, "the busier way of the network", _mb),
    )
}

#: Names that evidence can give, in the order of tables and charts.
RESOURCES = (
    *(one.name for one in DISK),
    COMMIT_LATENCY,
    ENGINE_CPU,
    CLIENT_CPU,
    APPLICATION_SERVER,
    MEMORY,
    NETWORK,
    LOCKS,
    ENGINE_LIMIT,
    CONCURRENCY,
    NONE,
)

#: Resources whose limit can be lowered, by the key of the limit, in the order of tables and charts.
LOWERED = {one.limit.key: one for one in RATES.values() if one.limit}
