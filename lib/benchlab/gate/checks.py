"""Rows of ``gate``: the checks of a run, whether it passed them, and what was found."""

import json
import math
import re
from collections.abc import Iterable, Mapping

import polars as pl

from benchlab.drivers.tpcc.limits import LATENESS
from benchlab.engines.tidb import (
    CACHED_READS,
    INTERNAL,
    SERVER,
    STORAGE_READS,
    TABLE_CACHE,
    TRACED,
)
from benchlab.gate import steady
from benchlab.observers import background
from benchlab.study.resources import CLIENT_CPU

#: Columns of ``gate``; see ``schema.sql``.
SCHEMA = {
    "check": pl.String,
    "passed": pl.Boolean,
    "value": pl.Float64,
    "found": pl.String,
}

#: Tables that the checks look at, beside ``attribution``.
TABLES = (
    "run",
    "phase",
    "interval",
    "os_sample",
    "host",
    "rule",
    "engine_setting",
    "engine_counter",
)

#: A row with the columns of :data:`SCHEMA`.
Row = tuple[str, bool, float | None, str]

#: Names of checks: throughput was steady; transactions ended as fast as they were due; the load
#: generator did not bind; nothing else used the host.
STEADY, OFFERED, CLIENT, ALONE = "steady", "offered", "client", "alone"

#: Name of the check for terminals, which are to send each request at its time.
ON_TIME = "on time"

#: Name of the check for servers that were to cache tables: reads were served from the cache.
CACHED = "cached"

#: Share of the reads that the cache must have served; the rest went to the storage.
LEAST_CACHED = 0.9

#: Standard deviations by which the transactions that ended may be fewer than those expected to be due.
#: They are due at random times, so chance makes their number that of a Poisson distribution. Any more
#: are a queue that grows: the latency then depends on the length of the run.
MOST_SHORT_SD = 3

#: Largest share of the host's CPU that others than engine and load may use. On a quiet host of two
#: cores interrupts and benchlab's own observers take up to 0.13.
MOST_FOREIGN = 0.25

#: Share of the measured part that samples must span, if there are any: a sampler may end early.
LEAST_SAMPLED = 0.8


def of_run(tables: Mapping[str, pl.DataFrame], writes: bool) -> pl.DataFrame | None:
    """Return the checks of a run that ended well, of whatever kind; ``None``: its kind has none.

    Columns: :data:`SCHEMA`. Arguments: see :func:`checks`.
    """
    intervention = tables["run"]["intervention"].item()
    if intervention is None:
        return checks(tables, writes)
    return of_single_writes(tables) if "writes" in json.loads(intervention) else None


def checks(tables: Mapping[str, pl.DataFrame], writes: bool) -> pl.DataFrame:
    """Return one row for each check that applies to a run that ended well.

    Columns: :data:`SCHEMA`.

    Args:
        tables: the run's rows of :data:`TABLES`, without the tables in which it has none.
        writes: whether its workload writes.
    """
    rows = [
        _steady(tables, writes),
        _offered(tables),
        _client(tables),
        _on_time(tables),
        _alone(tables),
    ]
    rows += [] if writes else [_cached(tables)]
    return pl.DataFrame([row for row in rows if row], schema=SCHEMA, orient="row")


def of_single_writes(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return one row for each check that applies to a load that single writes disturb.

    It is not steady, and its reads go to the storage after each write: both are what it shows.

    Columns: :data:`SCHEMA`. Arguments: see :func:`checks`.
    """
    rows = [_client(tables), _alone(tables)]
    return pl.DataFrame([row for row in rows if row], schema=SCHEMA, orient="row")


def _steady(tables: Mapping[str, pl.DataFrame], writes: bool) -> Row:
    from benchlab import stats  # slow to import, for notebooks that do not need it

    seconds = tables.get("interval", pl.DataFrame(schema={"phase": pl.String}))
    of_all = seconds.filter(phase="measure")
    tps = (
        of_all.group_by("second").agg(pl.col("tps").sum()).sort("second")["tps"].to_list()
        if len(of_all)
        else []
    )
    cycles = _cycles(tables)
    drift = stats.drift(tps) if len(tps) > 1 else None
    if reason := steady.unsteady(tps, writes, cycles, _warmed_s(tables)):
        return STEADY, False, drift, reason
    found = f"no change of level by more than {steady.TOLERANCE:.0%} in {len(tps)} s"
    if writes:
        found += f" and {cycles:.2g} cycles of the engine's background work"
    return STEADY, True, drift, found


def _warmed_s(tables: Mapping[str, pl.DataFrame]) -> float:
    phases = tables.get("phase", pl.DataFrame())
    if phases.is_empty():
        return 0.0
    return phases.filter(phase="warmup").select(pl.col("end_s") - pl.col("begin_s")).sum().item()


def _cycles(tables: Mapping[str, pl.DataFrame]) -> float | None:
    """Return the number of cycles of background work in the measured part; ``None``: not reported."""
    begin, end = tables["run"].select("measure_begin", "measure_end").row(0)
    samples = tables.get("os_sample", pl.DataFrame())
    if samples.is_empty():
        return None
    found = samples.filter(observer=background.OBSERVER, metric=background.METRIC).sort("t")
    before = found.filter(pl.col("t") <= begin)["value"]
    # without a warm-up the first answer may come after the start of the measured part
    first = before[-1] if len(before) else found["value"].first()
    last = found.filter(pl.col("t") <= end)["value"].last()
    return None if first is None or last is None else steady.cycles_between(first, last)


def _offered(tables: Mapping[str, pl.DataFrame]) -> Row | None:
    run = tables["run"].select("rate_per_s", "tps", "measure_begin", "measure_end")
    due, ended, begin, end = run.row(0)
    if due is None:
        return None
    seconds = end - begin
    short_sd = (due - ended) * seconds / math.sqrt(due * seconds)
    found = f"{ended:,.0f} of {due:,.0f} due per s"
    return OFFERED, short_sd < MOST_SHORT_SD, ended / due, found


def _client(tables: Mapping[str, pl.DataFrame]) -> Row | None:
    attribution = tables.get("attribution", pl.DataFrame())
    if attribution.is_empty():
        return None
    of_client = attribution.filter(resource=CLIENT_CPU)
    # without samples nothing is known of what bound the run
    if of_client.is_empty() or of_client["confidence"].max() == 0:
        return None
    bound = of_client["binds"].any()
    found = "the load generator bound it" if bound else "the load generator did not bind it"
    return CLIENT, not bound, of_client["utilisation"].max(), found


def _on_time(tables: Mapping[str, pl.DataFrame]) -> Row | None:
    """Return whether terminals sent on time; ``None``: the load has none."""
    rules = tables.get("rule", pl.DataFrame(schema={"check": pl.String, "n": pl.Int64}))
    late = rules.filter(pl.col("check").str.starts_with(LATENESS), pl.col("n") > 0)
    if late.is_empty():
        return None
    value, answer = late.select("value", "answer").row(0)
    found = f"99 % of the requests were sent less than {value:.1f} ms late"
    return ON_TIME, answer != "broken", value, found


def _alone(tables: Mapping[str, pl.DataFrame]) -> Row | None:
    """Return whether others used the CPU of a machine of the run; ``None``: not known.

    With several nodes it is not known unless each reports its machine. In a lab all nodes are on one
    machine, and the counters of each node include the load of all.
    """
    samples, host = (tables.get(name, pl.DataFrame()) for name in ("os_sample", "host"))
    if samples.is_empty() or host.is_empty():
        return None
    facts = {row[:2]: row[2] for row in host.select("node", "fact", "value").iter_rows()}
    nodes = sorted({node for node, _ in facts})  # sums depend on the order in their last digits
    boots = {node: facts.get((node, "boot_id")) for node in nodes}
    used = _used_cores(tables["run"], samples)
    known = {subject for _, subject in used}
    if not {"host", "engine", "client"} <= known or (len(nodes) > 1 and None in boots.values()):
        return None
    sampled, measured = _sampled_s(tables["run"], samples)
    if sampled < LEAST_SAMPLED * measured:
        found = f"the host's CPU was sampled in {sampled:.0f} of {measured:.0f} s"
        return ALONE, False, None, found
    shares = []
    for boot in set(boots.values()):
        of_machine = [node for node in nodes if boots[node] == boot]
        cores = facts.get((of_machine[0], "cores"))
        foreign = _foreign_cores(used, of_machine)
        if cores is None or foreign is None:
            return None
        shares.append(foreign / float(cores))
    foreign = max(shares)
    found = f"{foreign:.0%} of the host's CPU used by others than engine, load and kernel"
    return ALONE, foreign <= MOST_FOREIGN, foreign, found


#: The samples of the CPU.
_CPU = {"observer": "sample", "metric": "cpu_us_per_s"}

#: (node, subject of ``os_sample``) → mean use of CPU in the measured part, in cores.
UsedCores = Mapping[tuple[str, str], float]


def _used_cores(run: pl.DataFrame, samples: pl.DataFrame) -> UsedCores:
    begin, end = run.select("measure_begin", "measure_end").row(0)
    used = (
        samples.filter(pl.col("t").is_between(begin + 1, end, closed="right"), **_CPU)
        .group_by("node", "subject")
        .agg(pl.col("value").sort_by("t").mean() / 1e6)
    )
    return {row[:2]: row[2] for row in used.iter_rows()}


def _sampled_s(run: pl.DataFrame, samples: pl.DataFrame) -> tuple[float, float]:
    """Return the seconds from a node's first sample to its last, of the node with the fewest; and all.

    A sample is of the second before it, and up to a second lies between the last one and the end.
    """
    begin, end = run.select("measure_begin", "measure_end").row(0)
    of_node = (
        samples.filter(pl.col("t").is_between(begin, end), **_CPU, subject="host")
        .group_by("node")
        .agg((pl.col("t").max() - pl.col("t").min() + 2).alias("seconds"))
    )
    return of_node["seconds"].min(), end - begin


def _foreign_cores(used: UsedCores, nodes: list[str]) -> float | None:
    """Return the cores that others used on the machine of these nodes; ``None``: no node counts it."""

    def counted(subject: str) -> list[float]:
        return [used[node, subject] for node in nodes if (node, subject) in used]

    # each node counts the whole machine, but only its own engine and load
    if not (whole := counted("host")):
        return None
    # the kernel's threads work for the engine; their work for others cannot be distinguished
    kernel = max(counted("kernel threads"), default=0.0)
    accounted = sum(counted("engine")) + sum(counted("client")) + kernel
    # the clocks of host and groups differ a little, so the difference may be below 0
    return max(0.0, sum(whole) / len(whole) - accounted)


def _cached(tables: Mapping[str, pl.DataFrame]) -> Row | None:
    """Return whether a server's cache of tables served the reads.

    Nobody may read the counters of an external server's page, so its traced reads decide. ``None``: it
    was not to cache any, or neither is there.
    """
    settings, counters = (
        frame.select(columns).rows()
        if not (frame := tables.get(name, pl.DataFrame())).is_empty()
        else []
        for name, columns in (
            ("engine_setting", ["name", "effective"]),
            ("engine_counter", ["name", "at_begin", "at_end"]),
        )
    )
    if (TABLE_CACHE, "on") not in settings:
        return None
    # a counter's series may begin or end within the run
    counted = {name: end - (begin or 0) for name, begin, end in counters if end is not None}
    if not any(SERVER in name for name in counted):
        return _traced(counters)
    served = sum(count for name, count in counted.items() if CACHED_READS in name)
    fetched = sum(
        count
        for name, count in counted.items()
        if re.search(STORAGE_READS, name) and INTERNAL not in name
    )
    share = served / (served + fetched) if served else 0.0
    return CACHED, share >= LEAST_CACHED, share, f"{share:.0%} of the reads were from the cache"


def _traced(counters: Iterable[tuple[str, float | None, float | None]]) -> Row | None:
    """Return whether traced reads, before and after the load, were served from the cache."""
    traced = [
        went
        for name, *both in counters
        if name.startswith(TRACED)
        for went in both
        if went is not None
    ]
    if not traced:
        return None
    share = 1 - sum(traced) / len(traced)
    return CACHED, share >= LEAST_CACHED, share, f"{share:.0%} of traced reads were from the cache"
