"""What the captures show about every sampled interval of a run's measured part.

Utilisation is measured against the envelope, never against the device: the throttle stands above the
device, whose own ``%util`` stays low at a saturated envelope.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from benchlab.study.resources import CLIENT_CPU, DISK, ENGINE_CPU, MEMORY, NETWORK
from benchlab.study.roles import LOAD, is_database

#: A resource, and the node whose it is; ``None``: a server that no node is known of.
Place = tuple[str, str | None]

#: Sessions that must have been looked at before shares of them mean anything: with 30, a share of a
#: half is known to ± 0.18 (95 %, binomial).
_SESSIONS_SEEN = 30

#: Intervals over which is averaged: a throttle lets requests through in bursts, and a group commit
#: waits for company, so that neighbouring seconds differ by more than what binds does.
SMOOTHED = 3

#: Interval of the sampler, for the first sample, which has none before it.
_INTERVAL_S = 1.0

#: The kernel's pages, in which refaults are counted.
_PAGE_BYTES = 4096

#: Share of an interval that must lie in the measured part for the interval to count.
_INSIDE = 0.9


@dataclass(frozen=True)
class Timeline:
    """The measured part of one run, interval by interval; all arrays have one value for each.

    A signal that was not captured is missing from its dictionary.
    """

    run: dict
    nodes: dict[str, tuple[str, ...]]
    """Node → its roles, the one that clients connect to first."""
    t: np.ndarray
    """Ends of the sampled intervals in Unix seconds."""
    span: np.ndarray
    """Their lengths in seconds: longer where the sampler missed a tick."""
    used: dict[Place, np.ndarray]
    """Use in the resource's own unit."""
    limits: dict[Place, float]
    """The limit in that unit; a resource without one is missing."""
    pressure: dict[Place, np.ndarray]
    """Use by all who share it, as a share of what there is for them."""
    queueing: dict[Place, np.ndarray]
    """Share of the interval in which somebody had to wait for it."""
    waits: dict[str, np.ndarray]
    """Wait class → share of the clients' sessions."""
    coverage: float
    """Share of the measured part that lies in sampled intervals."""
    resolution: float
    """Share of the sampled time that lies in intervals short enough to show what binds in turn."""
    refaulted: np.ndarray
    """Share of what was read from the disk that memory had held until shortly before."""
    oom_kills: float

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
    def databases(self) -> list[str | None]:
        """The nodes that an engine may run on; an unknown one if it runs where nothing is sampled."""
        found = [node for node, roles in self.nodes.items() if any(map(is_database, roles))]
        return found or [None]

    @property
    def sampled_node(self) -> str | None:
        """The node of the server whose sessions were sampled."""
        return self.databases[0]

    def places(self, resource: str) -> list[Place]:
        """Return where there is such a resource."""
        nodes: list[str | None] = [self.sampled_node]
        if resource == NETWORK:
            nodes = list(self.nodes)
        elif resource == CLIENT_CPU:
            nodes = [node for node, roles in self.nodes.items() if LOAD in roles]
        elif resource in (ENGINE_CPU, MEMORY, *(disk.name for disk in DISK)):
            nodes = self.databases
        return [(resource, node) for node in nodes]

    def named(self, place: Place) -> str:
        """Name a resource, with its node where others have such a one, too."""
        resource, node = place
        return resource if len(self.places(resource)) == 1 else f"{resource} on {node}"


def build(tables: dict[str, pl.DataFrame]) -> Timeline:
    """Return the timeline of one run.

    Args:
        tables: the run's rows of ``run`` and ``node``, and as far as it has any of ``host``,
            ``os_sample`` and ``engine_wait``.
    """
    run = tables["run"].row(0, named=True)
    nodes = {
        key[0]: tuple(group["role"])
        for key, group in tables["node"].group_by("node", maintain_order=True)
    }
    samples = tables.get("os_sample", pl.DataFrame())
    t, span, interval, signals = _signals(samples, run, nodes)
    none = 0 * span
    timeline = Timeline(
        run=run,
        nodes=nodes,
        t=t,
        span=span,
        used={},
        limits={},
        pressure={},
        queueing={},
        waits=_waits(tables.get("engine_wait", pl.DataFrame()), run, t, span),
        coverage=_coverage(span, interval, run),
        resolution=float(span[span <= SMOOTHED * interval].sum() / span.sum()) if len(t) else 0.0,
        refaulted=_refaulted(signals.get(next(iter(nodes)), {}), t),
        oom_kills=sum(
            float(np.nansum(of_node.get("total oom_kills_per_s", none) * span))
            for of_node in signals.values()
        ),
    )
    facts = _facts(tables)
    for node, of_node in signals.items():
        cores = float(facts[node, "cores"]) if (node, "cores") in facts else None
        if (busy := of_node.get("host cpu_us_per_s")) is not None:
            busy = busy / 1e6
        elif cores:
            busy = _busy(samples.filter(node=node), t, interval, cores)
        _disk(timeline, node, of_node)
        _cpu(timeline, node, of_node, cores, busy)
        _memory(timeline, node, of_node)
        _network(timeline, node, of_node)
    return timeline


def smoothed(values: np.ndarray) -> np.ndarray:
    """Return centred means over :data:`SMOOTHED` intervals, over fewer at the ends."""
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
    """Return the intervals of the measured part, and node → subject and metric → values in them.

    The intervals are those of the first node that was sampled, and given by their ends, their lengths
    and their usual length. Other nodes have a clock and ticks of their own; the nearest counts.
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
    """Count as if a tick fell upon the begin: up to an interval is lost by its being elsewhere."""
    if run["measure_begin"] is None:
        return 0.0
    whole = max(interval, run["measure_end"] - run["measure_begin"] - interval)
    return min(1.0, float(span.sum()) / whole)


def _facts(tables: dict[str, pl.DataFrame]) -> dict[tuple[str, str], str]:
    """Return node and fact → value."""
    if "host" not in tables:
        return {}
    return {row[:2]: row[2] for row in tables["host"].select("node", "fact", "value").iter_rows()}


def _busy(samples: pl.DataFrame, t: np.ndarray, interval: float, cores: float) -> np.ndarray | None:
    """Cores of the host that anybody used, of runs whose sampler did not count them: from vmstat."""
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
    """Hold reads and writes against the envelope's limits, which every node with an engine has."""
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


def _cpu(
    timeline: Timeline,
    node: str,
    signals: dict[str, np.ndarray],
    cores: float | None,
    busy: np.ndarray | None,
) -> None:
    """Hold engine and client against the CPU that there is for them.

    That is the limit, or less where others on the node leave less of its cores. On one node engine and
    client share it, and the larger part is under the pressure of both; a client on a node of its own
    has all of that node.
    """
    run, roles = timeline.run, timeline.nodes[node]
    engine_cpu, client_cpu = (ENGINE_CPU, node), (CLIENT_CPU, node)
    parts = {
        place: signals[f"{subject} cpu_us_per_s"] / 1e6
        for place, subject in ((engine_cpu, "engine"), (client_cpu, "client"))
        if f"{subject} cpu_us_per_s" in signals
    }
    timeline.used.update(parts)
    shared = any(map(is_database, roles))
    if shared and engine_cpu not in parts:
        return
    if shared:
        engine = parts[engine_cpu]
        client = parts.get(client_cpu, np.zeros_like(engine))
        ours = engine + client
        room = np.full_like(engine, run["limit_cores"])
        if busy is not None and cores is not None:
            others = np.clip(np.nan_to_num(busy - ours), 0, 0.9 * cores)
            room = np.minimum(room, cores - others)
        timeline.limits[engine_cpu] = run["limit_cores"]
        timeline.pressure[engine_cpu] = engine / room
        stalled = signals.get("psi cpu some_us_per_s")
        if stalled is not None:
            timeline.queueing[engine_cpu] = stalled / 1e6
        paused = _paused(signals, "total")
        if paused is not None:
            waiting = timeline.queueing.get(engine_cpu, np.zeros_like(engine))
            timeline.queueing[engine_cpu] = np.maximum(waiting, paused)
    if client_cpu not in parts:
        return
    client = parts[client_cpu]
    if shared:
        timeline.limits[client_cpu] = run["limit_cores"]
        larger = engine >= client
        timeline.pressure[engine_cpu] = np.where(larger, ours / room, 0.0)
        timeline.pressure[client_cpu] = np.where(larger, 0.0, ours / room)
        if engine_cpu in timeline.queueing:
            timeline.queueing[client_cpu] = timeline.queueing[engine_cpu]
    elif cores is not None:
        timeline.limits[client_cpu] = cores
        timeline.pressure[client_cpu] = client / cores
    paused = _paused(signals, "client")
    if paused is not None and paused.any():
        # a limit of the load's own: it holds up nothing else
        timeline.queueing[client_cpu] = paused
        others = timeline.pressure.get(client_cpu, np.zeros_like(client))
        timeline.pressure[client_cpu] = np.maximum(others, paused)


def _paused(signals: dict[str, np.ndarray], subject: str) -> np.ndarray | None:
    """Share of the quota's periods at whose end the group was paused."""
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
    """Memory has no rate: its use is the time in which tasks stood still for want of it (PSI)."""
    stalled = signals.get("psi memory some_us_per_s")
    if stalled is not None and node in timeline.databases:
        place = MEMORY, node
        timeline.pressure[place] = timeline.queueing[place] = stalled / 1e6


def _network(timeline: Timeline, node: str, signals: dict[str, np.ndarray]) -> None:
    """Each direction of a link has its whole speed; a single node's loopback has none."""
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
    """Shares of the sessions, averaged over as many samples as it takes to see enough of them."""
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
    near[~(near @ total > 0)] = True  # where the samples have a gap, all of them are the best guess
    sessions = near @ total
    return {name: (near @ counts[name].to_numpy()) / sessions for name in counts.columns}
