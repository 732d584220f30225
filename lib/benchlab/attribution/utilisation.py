"""Attribution by utilisation: how much of each limit of the envelope a run used.

Utilisation is measured against the envelope, never against the device: the throttle stands above the
device, whose own ``%util`` stays low at a saturated envelope.
"""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

#: Mean utilisation from which a resource is held to bind. A closed loop that is bound by a throttled
#: resource leaves it idle only in the moments between a completion and the next request.
BINDING_UTILISATION = 0.9

#: A second counts as at the limit from here; the throttle's own accuracy is about 2 %.
AT_LIMIT = 0.95

SCHEMA = {
    "resource": pl.String,
    "utilisation": pl.Float64,
    "pressure": pl.Float64,
    "at_limit_share": pl.Float64,
    "binds": pl.Boolean,
    "evidence": pl.String,
}


@dataclass(frozen=True)
class Resource:
    """A limited resource: where its use is sampled, and which of the limits it stands against."""

    name: str
    subject: str
    metric: str
    limit: str
    per_limit: float
    """Units of the sample per unit of the limit."""
    show: Callable[[float], str]


def _mb(value: float) -> str:
    return f"{value / 1e6:.1f} MB/s"


def _per_s(value: float) -> str:
    return f"{value:,.0f} /s"


def _cores(value: float) -> str:
    return f"{value / 1e6:.2f} cores"


DISK = (
    Resource(
        "disk write bandwidth", "disk", "write_bytes_per_s", "limit_write_bytes_per_s", 1, _mb
    ),
    Resource("disk write IOPS", "disk", "writes_per_s", "limit_write_iops", 1, _per_s),
    Resource("disk read bandwidth", "disk", "read_bytes_per_s", "limit_read_bytes_per_s", 1, _mb),
    Resource("disk read IOPS", "disk", "reads_per_s", "limit_read_iops", 1, _per_s),
)
CPU = {
    "engine": Resource("CPU of the engine", "engine", "cpu_us_per_s", "limit_cores", 1e6, _cores),
    "client": Resource("CPU of the client", "client", "cpu_us_per_s", "client_cores", 1e6, _cores),
}
MEMORY = "memory"
NONE = "none"

#: Order in which tables and charts show the resources.
RESOURCES = (*(r.name for r in DISK), *(r.name for r in CPU.values()), MEMORY, NONE)


def attribute(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return one row per resource of one run: utilisation, whether it binds, the evidence.

    At most one resource binds: the one under the highest pressure, if that reaches
    :data:`BINDING_UTILISATION`. Pressure is the mean utilisation by all who share a limit: engine and
    client share the CPU of a single host, so their sum is held against it and the larger part binds.
    A client on a host of its own has all cores of that host to itself.
    Without samples of the measured part every utilisation is null and nothing binds; the evidence
    says so.

    Args:
        tables: the run's rows of ``run``, ``host`` and ``os_sample``.
    """
    run = tables["run"].row(0, named=True)
    limits = run | {"client_cores": _client_cores(tables, run)}
    samples = _measured(tables.get("os_sample", pl.DataFrame()), run)
    rows = [_row(resource, limits, samples) for resource in (*DISK, *CPU.values())]
    rows.append(_memory(samples))
    _share_cpu(rows, run)
    candidates = [row for row in rows if (row["pressure"] or 0) >= BINDING_UTILISATION]
    if candidates:
        max(candidates, key=lambda row: (row["pressure"], row["utilisation"]))["binds"] = True
    return pl.DataFrame(rows).select(*SCHEMA).cast(SCHEMA)


def binding(attribution: pl.DataFrame) -> str:
    """Name of the resource that binds, or ``none``."""
    bound = attribution.filter("binds")["resource"]
    return bound[0] if len(bound) else NONE


def _measured(samples: pl.DataFrame, run: dict) -> pl.DataFrame:
    """Samples whose whole interval lies within the measured part."""
    if samples.is_empty():
        return samples
    return samples.filter(
        (pl.col("observer") == "sample")
        & (pl.col("t") > run["measure_begin"] + 1)
        & (pl.col("t") <= run["measure_end"])
    )


def _series(samples: pl.DataFrame, subject: str, metric: str) -> pl.Series:
    if samples.is_empty():
        return pl.Series(dtype=pl.Float64)
    return samples.filter((pl.col("subject") == subject) & (pl.col("metric") == metric))["value"]


def _client_cores(tables: dict[str, pl.DataFrame], run: dict) -> float | None:
    """Cores that the client may use; ``None`` if a host of its own did not tell."""
    if run["single_host"]:
        return run["limit_cores"]
    facts = dict(tables["host"].select("fact", "value").iter_rows()) if "host" in tables else {}
    cores = facts.get("client_cores")
    return None if cores is None else float(cores)


def _row(resource: Resource, limits: dict, samples: pl.DataFrame) -> dict:
    series = _series(samples, resource.subject, resource.metric)
    limit = limits[resource.limit]
    if series.is_empty():
        return _unknown(resource.name, "no samples of the measured part")
    mean = series.mean()
    if limit is None:
        return _unknown(resource.name, f"{resource.show(mean)}, no limit")
    share = series / (limit * resource.per_limit)
    at_limit = (share >= AT_LIMIT).mean()
    return {
        "resource": resource.name,
        "utilisation": share.mean(),
        "pressure": share.mean(),
        "at_limit_share": at_limit,
        "binds": False,
        "evidence": (
            f"{resource.show(mean)} of {resource.show(limit * resource.per_limit)}"
            f" ({share.mean():.0%}); at the limit in {at_limit:.0%} of seconds"
        ),
    }


def _memory(samples: pl.DataFrame) -> dict:
    """Memory has no rate: its use is the time in which tasks stood still for want of it (PSI)."""
    stalled = _series(samples, "psi memory", "some_us_per_s")
    if stalled.is_empty():
        return _unknown(MEMORY, "no samples of the measured part")
    share = (stalled / 1e6).clip(0, 1)
    return {
        "resource": MEMORY,
        "utilisation": share.mean(),
        "pressure": share.mean(),
        "at_limit_share": (share >= AT_LIMIT).mean(),
        "binds": False,
        "evidence": f"tasks stood still for memory in {share.mean():.0%} of the time",
    }


def _share_cpu(rows: list[dict], run: dict) -> None:
    """Hold engine and client of a single host against the CPU limit together."""
    by_name = {row["resource"]: row for row in rows}
    parts = [by_name[resource.name] for resource in CPU.values()]
    if not run["single_host"] or any(part["utilisation"] is None for part in parts):
        return
    together = sum(part["utilisation"] for part in parts)
    larger = max(parts, key=lambda part: part["utilisation"])
    for part in parts:
        part["pressure"] = together if part is larger else 0.0
        part["evidence"] += f"; engine and client together {together:.0%}"


def _unknown(resource: str, evidence: str) -> dict:
    return {
        "resource": resource,
        "utilisation": None,
        "pressure": None,
        "at_limit_share": None,
        "binds": False,
        "evidence": evidence,
    }
