"""What the captures show about every sampled interval of a run's measured part.

Utilisation is relative to the envelope, not to the device: the throttle is above the device, so that
the device's own ``%util`` stays low when the envelope is saturated.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from benchlab.study.resources import (
    APPLICATION_SERVER,
    CLIENT_CPU,
    DISK,
    ENGINE_CPU,
    MEMORY,
    NETWORK,
)
from benchlab.study.roles import LOAD, PRIMARY, is_database

#: Tables that attribution looks at.
TABLES = ("run", "node", "host", "os_sample", "engine_wait", "time_bucket")

#: A resource and its node; ``None``: the server's node is not known.
Place = tuple[str, str | None]

#: Least number of sessions seen for which their shares mean anything: with 30, a share of one half is
#: known to ± 0.18 (95 %, binomial).
_SESSIONS_SEEN = 30

#: Number of intervals in a moving average. A throttle passes requests in bursts, and a group commit
#: waits for others to join. So neighbouring seconds differ even if the same resource binds.
SMOOTHED = 3

#: Length of the first sample's interval in seconds, since no sample is before it.
_INTERVAL_S = 1.0

#: Size of the kernel's pages, the unit of refaults.
_PAGE_BYTES = 4096

#: Share of an interval that must be in the measured part for the interval to count.
_INSIDE = 0.9


@dataclass(frozen=True)
class Timeline:
    """The measured part of one run by interval; all arrays have one value per interval.

    A signal that was not captured is missing from its dictionary.
    """

    run: dict
    nodes: dict[str, tuple[str, ...]]
    """Node → its roles; the node that clients connect to comes first."""
    is_served: bool
    """Whether an application server has the sessions, and not the clients."""
    t: np.ndarray
    """Ends of the sampled intervals in Unix seconds."""
    span: np.ndarray
    """Lengths of the intervals in seconds: longer if the sampler missed a tick."""
    used: dict[Place, np.ndarray]
    """Use in the resource's own unit."""
    limits: dict[Place, float]
    """Limit in the resource's own unit; a resource without one is missing."""
    pressure: dict[Place, np.ndarray]
    """Use by all that share the resource, as a share of what is available to them."""
    smaller_users: set[Place]
    """Users of a CPU that use less of it than another one, which binds if the CPU does."""
    queueing: dict[Place, np.ndarray]
    """Share of the interval in which a task had to wait for the resource."""
    waits: dict[str, np.ndarray]
    """Wait class → share of the clients' sessions."""
    coverage: float
    """Share of the measured part that is in sampled intervals."""
    resolution: float
    """Share of the sampled time in intervals short enough to show what binds in turn."""
    refaulted: np.ndarray
    """Share of the bytes read from the disk that memory had held until shortly before."""
    oom_kills: float
    """Tasks that the kernel killed for lack of memory, on all nodes."""
    pause_s: float
    """Mean time for which a client pauses between two transactions; 0: clients do not pause."""

    @property
    def occupied(self) -> float | None:
        """Share of the clients that wait for an answer, on average.

        Little's law (*Operations Research* 9, 1961): clients inside are throughput × response time.
        """
        tps, latency = self.run.get("tps"), self.run.get("latency_mean_us")
        if tps is None or latency is None:
            return None
        return tps * latency / 1e6 / self.run["concurrency"]

    @property
    def paused(self) -> float | None:
        """Share of the clients that pause, on average, by the same law."""
        tps = self.run.get("tps")
        return None if tps is None else tps * self.pause_s / self.run["concurrency"]

    @property
    def databases(self) -> list[str | None]:
        """Nodes that an engine may run on; only ``None`` if no known node has a database role."""
        found = [node for node, roles in self.nodes.items() if any(map(is_database, roles))]
        return found or [None]

    @property
    def sampled_node(self) -> str | None:
        """Node of the server whose sessions were sampled."""
        return self.databases[0]

    def places(self, resource: str) -> list[Place]:
        """Return each place that has such a resource."""
        nodes: list[str | None] = [self.sampled_node]
        if resource == APPLICATION_SERVER and not self.is_served:
            nodes = []
        elif resource == NETWORK:
            nodes = list(self.nodes)
        elif resource == CLIENT_CPU:
            # an application server may have a node without the role of the load
            nodes = [
                node
                for node, roles in self.nodes.items()
                if LOAD in roles or (CLIENT_CPU, node) in self.used
            ]
        elif resource in (ENGINE_CPU, MEMORY, *(disk.name for disk in DISK)):
            nodes = self.databases
        return [(resource, node) for node in nodes]

    def named(self, place: Place) -> str:
        """Name a resource, with its node if other nodes have such a resource, too."""
        resource, node = place
        return resource if len(self.places(resource)) == 1 else f"{resource} on {node}"


def build(tables: dict[str, pl.DataFrame], is_served: bool) -> Timeline:
    """Return the timeline of one run.

    Args:
        tables: the run's rows of :data:`TABLES`, without the tables in which it has none.
        is_served: see :class:`Timeline`.
    """
    run = tables["run"].row(0, named=True)
    roles = {
        key[0]: tuple(group["role"])
        for key, group in tables["node"].group_by("node", maintain_order=True)
    }
    nodes = dict(sorted(roles.items(), key=lambda of_node: PRIMARY not in of_node[1]))
    samples = tables.get("os_sample", pl.DataFrame())
    t, span, interval, signals = _signals(samples, run, nodes)
    none = 0 * span
    timeline = Timeline(
        run=run,
        nodes=nodes,
        is_served=is_served,
        t=t,
        span=span,
        used={},
        limits={},
        pressure={},
        smaller_users=set(),
        queueing={},
        waits=_waits(tables.get("engine_wait", pl.DataFrame()), run, t, span),
        coverage=_coverage(span, interval, run),
        resolution=float(span[span <= SMOOTHED * interval].sum() / span.sum()) if len(t) else 0.0,
        refaulted=_refaulted(signals.get(next(iter(nodes)), {}), t),
        oom_kills=sum(
            float(np.nansum(of_node.get("total oom_kills_per_s", none) * span))
            for of_node in signals.values()
        ),
        pause_s=_pause_s(tables.get("time_bucket", pl.DataFrame()), run),
    )
    facts = _facts(tables)
    outdone = _outdone(signals, {node: facts.get((node, "boot_id"), node) for node in signals})
    for node, of_node in signals.items():
        cores = float(facts[node, "cores"]) if (node, "cores") in facts else None
        if node in outdone:
            busy = None
        elif (busy := of_node.get("host cpu_us_per_s")) is not None:
            busy = busy / 1e6
        elif cores:
            busy = _busy(samples.filter(node=node), t, interval, cores)
        _disk(timeline, node, of_node)
        _cpu(timeline, node, of_node, cores, busy)
        _memory(timeline, node, of_node)
        _network(timeline, node, of_node)
    return timeline


def smoothed(values: np.ndarray) -> np.ndarray:
    """Return centred moving means over :data:`SMOOTHED` intervals; fewer at the ends."""
    return (
        pl.Series(values)
        .fill_nan(None)
        .rolling_mean(SMOOTHED, min_samples=1, center=True)
        .fill_null(np.nan)
        .to_numpy()
    )


def _signals(
    samples: pl.DataFrame, run: dict, nodes: Iterable[str]
) -> tuple[np.ndarray, np.ndarray, float, dict[str, dict[str, np.ndarray]]]:
    """Return ends, lengths and usual length of the intervals of the measured part, and the signals.

    The signals are a dictionary: node → "subject metric" → values, one per interval. The intervals are
    those of the first node that was sampled. Other nodes have their own clock and ticks; their nearest
    sample is used.
    """
    none = np.array([]), np.array([]), _INTERVAL_S, {}
    if samples.is_empty() or run["measure_begin"] is None:
        return none
    sampled = samples.filter(pl.col("observer") == "sample").with_columns(
        pl.concat_str("subject", "metric", separator=" ").alias("signal")
    )
    wide = {
        node: of_node.pivot(on="signal", index="t", values="value").sort("t")
        for node in nodes
        if not (of_node := sampled.filter(node=node)).is_empty()
    }
    if not wide:
        return none
    axis = next(iter(wide.values())).select(
        "t", pl.col("t").diff().fill_null(_INTERVAL_S).alias("span")
    )
    interval = float(np.quantile(axis["span"], 0.25))
    begins = pl.max_horizontal(pl.col("t") - pl.col("span"), run["measure_begin"])
    ends = pl.min_horizontal("t", run["measure_end"])
    axis = axis.filter(ends - begins >= _INSIDE * pl.col("span"))
    signals = {}
    for node, of_node in wide.items():
        near = axis.join_asof(of_node, on="t", strategy="nearest", tolerance=interval)
        signals[node] = {
            name: near[name].to_numpy() for name in near.columns if name not in ("t", "span")
        }
    return axis["t"].to_numpy(), axis["span"].to_numpy(), interval, signals


def _coverage(span: np.ndarray, interval: float, run: dict) -> float:
    """Return the share of the measured part that is in sampled intervals.

    Up to one interval is lost since ticks do not coincide with the start; it is not counted as missing.
    """
    if run["measure_begin"] is None:
        return 0.0
    whole = max(interval, run["measure_end"] - run["measure_begin"] - interval)
    return min(1.0, float(span.sum()) / whole)


def _pause_s(times: pl.DataFrame, run: dict) -> float:
    """Return the mean pause of a client between transactions: keying and thinking, in seconds."""
    if times.is_empty() or not run["transactions"]:
        return 0.0
    pauses = times.filter(pl.col("what").is_in(["keying", "think"]))
    return float((pauses["time_us"] * pauses["count"]).sum()) / 1e6 / run["transactions"]


def _facts(tables: dict[str, pl.DataFrame]) -> dict[tuple[str, str], str]:
    """Return node and fact → value."""
    if "host" not in tables:
        return {}
    return {row[:2]: row[2] for row in tables["host"].select("node", "fact", "value").iter_rows()}


def _busy(samples: pl.DataFrame, t: np.ndarray, interval: float, cores: float) -> np.ndarray | None:
    """Cores of the host in use, from vmstat, for runs whose sampler did not count them."""
    idle = pl.col("metric").is_in(["idle_percent", "iowait_percent"])
    if samples.is_empty() or not len(t):
        return None
    of_host = (
        samples.filter((pl.col("observer") == "vmstat") & idle)
        .group_by("t")
        .agg((cores * (1 - pl.col("value").sum() / 100)).alias("busy"))
        .sort("t")
    )
    if of_host.is_empty():
        return None
    at = pl.DataFrame({"t": t})
    return at.join_asof(of_host, on="t", strategy="nearest", tolerance=interval)["busy"].to_numpy()


def _disk(timeline: Timeline, node: str, signals: dict[str, np.ndarray]) -> None:
    """Compare reads and writes with the envelope's limits, which every node with an engine has."""
    for disk in DISK:
        if (used := signals.get(f"disk {disk.metric}")) is None:
            continue
        place = disk.name, node
        timeline.used[place] = used
        if (limit := timeline.run[disk.limit.column]) is not None:
            timeline.limits[place] = float(limit)
            timeline.pressure[place] = used / limit
        if (stalled := signals.get("psi io some_us_per_s")) is not None:
            timeline.queueing[place] = stalled / 1e6


def _outdone(signals: dict[str, dict[str, np.ndarray]], machines: dict[str, str]) -> set[str]:
    """Return the nodes of which another on the same machine uses more CPU; a lab has such nodes.

    Their CPU binds only at their own limit: if the machine has none left, the largest user binds. That
    is the one that uses most among the engines, or among the clients, whichever together use more.
    """
    found: set[str] = set()
    for machine in set(machines.values()):
        nodes = [node for node, its in machines.items() if its == machine]
        used = {
            subject: {
                node: float(np.nansum(signals[node].get(f"{subject} cpu_us_per_s", 0.0)))
                for node in nodes
            }
            for subject in ("engine", "client")
        }
        larger = max(used.values(), key=lambda of_nodes: sum(of_nodes.values()))
        found.update(node for node in nodes if node != max(larger, key=larger.get))
    return found


def _cpu(
    timeline: Timeline,
    node: str,
    signals: dict[str, np.ndarray],
    cores: float | None,
    busy: np.ndarray | None,
) -> None:
    """Compare the CPU use of engine and client with the CPU that is available to them.

    A client on its own node has no limit but the cores of that node.
    """
    engine, client = (_used_cores(signals, subject) for subject in ("engine", "client"))
    for name, used in ((ENGINE_CPU, engine), (CLIENT_CPU, client)):
        if used is not None:
            timeline.used[name, node] = used
    if any(map(is_database, timeline.nodes[node])):
        if engine is None:
            return
        ours = engine if client is None else engine + client
        room = _room(ours, timeline.run["limit_cores"], cores, busy)
        _shared_cpu(timeline, node, signals, engine, client, room)
    elif client is not None and cores is not None:
        timeline.limits[CLIENT_CPU, node] = cores
        timeline.pressure[CLIENT_CPU, node] = client / _room(client, cores, cores, busy)
    if client is not None:
        _client_quota(timeline, node, signals)


def _used_cores(signals: dict[str, np.ndarray], subject: str) -> np.ndarray | None:
    used = signals.get(f"{subject} cpu_us_per_s")
    return None if used is None else used / 1e6


def _room(
    ours: np.ndarray, limit: float, cores: float | None, busy: np.ndarray | None
) -> np.ndarray:
    """Return the cores for those who use ``ours``: the limit, or what others leave of the node's."""
    room = np.full_like(ours, limit)
    if busy is None or cores is None:
        return room
    others = np.clip(np.nan_to_num(busy - ours), 0, 0.9 * cores)
    return np.minimum(room, cores - others)


def _shared_cpu(
    timeline: Timeline,
    node: str,
    signals: dict[str, np.ndarray],
    engine: np.ndarray,
    client: np.ndarray | None,
    room: np.ndarray,
) -> None:
    """Add the CPU of a node with an engine, whose limit engine and client share.

    Only the larger user may bind. It is the larger one of the whole measured part: of two that use
    about as much, each is larger in some seconds, and neither would seem to bind.
    """
    places = [(ENGINE_CPU, node)]
    used = engine
    if client is not None:
        places.append((CLIENT_CPU, node))
        engine_is_larger = np.nansum(engine) >= np.nansum(client)
        timeline.smaller_users.add((CLIENT_CPU if engine_is_larger else ENGINE_CPU, node))
        used = engine + client
    stalled, paused = signals.get("psi cpu some_us_per_s"), _paused(signals, "total")
    waiting = [
        one for one in (None if stalled is None else stalled / 1e6, paused) if one is not None
    ]
    for place in places:
        timeline.limits[place] = timeline.run["limit_cores"]
        timeline.pressure[place] = used / room
        if waiting:
            timeline.queueing[place] = np.maximum.reduce(waiting)


def _client_quota(timeline: Timeline, node: str, signals: dict[str, np.ndarray]) -> None:
    """Add what the load generator's own quota holds up, which is nothing else.

    Envelopes give it none; the labelled set of ``lib/benchmarks/attribution`` does.
    """
    paused, place = _paused(signals, "client"), (CLIENT_CPU, node)
    if paused is not None and paused.any():
        timeline.queueing[place] = paused
        is_smaller = place in timeline.smaller_users
        shared = None if is_smaller else timeline.pressure.get(place)
        timeline.pressure[place] = paused if shared is None else np.maximum(shared, paused)
        timeline.smaller_users.discard(place)


def _paused(signals: dict[str, np.ndarray], subject: str) -> np.ndarray | None:
    """Share of the quota's periods in which the group was throttled."""
    periods = signals.get(f"{subject} cpu_periods_per_s")
    paused = signals.get(f"{subject} cpu_throttled_periods_per_s")
    if periods is None or paused is None:
        return None
    return np.divide(paused, periods, out=np.zeros_like(paused), where=periods > 0)


def _refaulted(signals: dict[str, np.ndarray], t: np.ndarray) -> np.ndarray:
    read = signals.get("disk read_bytes_per_s")
    refaults = signals.get("total refaults_per_s")
    if read is None or refaults is None:
        return np.zeros_like(t)
    share = np.divide(refaults * _PAGE_BYTES, read, out=np.zeros_like(read), where=read > 0)
    return np.clip(np.nan_to_num(share), 0, 1)


def _memory(timeline: Timeline, node: str, signals: dict[str, np.ndarray]) -> None:
    """Measure memory by the time in which tasks were stalled for lack of it (PSI); it has no rate."""
    stalled = signals.get("psi memory some_us_per_s")
    if stalled is not None and node in timeline.databases:
        place = MEMORY, node
        timeline.pressure[place] = timeline.queueing[place] = stalled / 1e6


def _network(timeline: Timeline, node: str, signals: dict[str, np.ndarray]) -> None:
    """Compare the busier direction of each link with its speed; a single node has no link.

    Each direction has the whole speed of the link.
    """
    ways = [
        signals[name]
        for name in ("network received_bytes_per_s", "network sent_bytes_per_s")
        if name in signals
    ]
    if len(timeline.nodes) == 1 or not ways:
        return
    place = NETWORK, node
    timeline.used[place] = np.maximum.reduce(ways)
    speed = signals.get("network speed_bytes_per_s")
    if speed is not None and np.isfinite(speed).any():
        timeline.limits[place] = float(np.nanmax(speed))
        timeline.pressure[place] = timeline.used[place] / timeline.limits[place]


def _waits(
    waits: pl.DataFrame, run: dict, t: np.ndarray, span: np.ndarray
) -> dict[str, np.ndarray]:
    """Shares of the sessions by wait class, averaged over enough samples to see enough sessions."""
    if waits.is_empty() or not len(t):
        return {}
    inside = (pl.col("t") > run["measure_begin"]) & (pl.col("t") <= run["measure_end"])
    samples = (
        waits.filter(inside)
        .group_by("t", "wait_class")
        .agg(pl.col("sessions").sum())
        .pivot(on="wait_class", index="t", values="sessions")
        .fill_null(0)
        .sort("t")
    )
    counts = samples.drop("t")
    total = counts.sum_horizontal().to_numpy() if samples.width > 1 else np.zeros(0)
    if not total.sum():
        return {}
    seen_per_s = total.sum() / (run["measure_end"] - run["measure_begin"])
    window = np.maximum(SMOOTHED * span, _SESSIONS_SEEN / max(seen_per_s, 1e-9))
    at = samples["t"].to_numpy()
    near = np.abs(at[None, :] - (t - span / 2)[:, None]) <= window[:, None] / 2
    near[~(near @ total > 0)] = True  # in a gap of the samples, the mean of all is the best guess
    sessions = near @ total
    return {name: (near @ counts[name].to_numpy()) / sessions for name in counts.columns}
