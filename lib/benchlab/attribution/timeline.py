"""What the captures tell of every sampled interval of a run's measured part.

Utilisation is measured against the envelope, never against the device: the throttle stands above the
device, whose own ``%util`` stays low at a saturated envelope.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from benchlab.study.resources import CLIENT_CPU, DISK, ENGINE_CPU, MEMORY, NETWORK

#: Sessions that must have been looked at before shares of them mean anything: with 30, a share of a
#: half is known to ± 0.18 (95 %, binomial).
_SESSIONS_SEEN = 30

#: Intervals over which is averaged: a throttle lets requests through in bursts, and a group commit
#: waits for company, so that neighbouring seconds differ by more than what binds does.
SMOOTHED = 3

#: Interval that the sampler is asked for, for the first sample, which has none before it.
_INTERVAL_S = 1.0

#: Of the kernel, in which refaults count.
_PAGE_BYTES = 4096

#: Share of an interval that must lie in the measured part for the interval to count.
_INSIDE = 0.9


@dataclass(frozen=True)
class Timeline:
    """The measured part of one run, interval by interval; all arrays have one value for each.

    A signal that was not captured is missing from its dictionary.
    """

    run: dict
    t: np.ndarray
    """Ends of the sampled intervals in Unix seconds."""
    span: np.ndarray
    """Their lengths in seconds: longer where the sampler missed a tick."""
    used: dict[str, np.ndarray]
    """Resource → use in the resource's own unit."""
    limits: dict[str, float]
    """Resource → its limit in that unit; one without a limit is missing."""
    pressure: dict[str, np.ndarray]
    """Resource → use by all who share it, as a share of what there is for them."""
    queueing: dict[str, np.ndarray]
    """Resource → share of the interval in which somebody had to wait for it."""
    waits: dict[str, np.ndarray]
    """Wait class → share of the clients' sessions."""
    coverage: float
    """Share of the measured part that lies in sampled intervals."""
    resolution: float
    """Share of the sampled time that lies in intervals short enough to tell what binds in turn."""
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


def build(tables: dict[str, pl.DataFrame]) -> Timeline:
    """Return the timeline of one run.

    Args:
        tables: the run's rows of ``run``, and as far as it has any of ``host``, ``os_sample`` and
            ``engine_wait``.
    """
    run = tables["run"].row(0, named=True)
    samples = tables.get("os_sample", pl.DataFrame())
    wide, interval = _wide(samples, run)
    signals = {name: wide[name].to_numpy() for name in wide.columns}
    t, span = (signals.pop(name, np.array([])) for name in ("t", "span"))
    used, limits, pressure, queueing = {}, {}, {}, {}
    for rate in DISK:
        if (rate_used := signals.get(f"disk {rate.metric}")) is None:
            continue
        used[rate.name] = rate_used
        if run[rate.limit] is not None:
            limits[rate.name] = float(run[rate.limit])
            pressure[rate.name] = rate_used / run[rate.limit]
        if (stalled := signals.get("psi io some_us_per_s")) is not None:
            queueing[rate.name] = stalled / 1e6
    timeline = Timeline(
        run=run,
        t=t,
        span=span,
        used=used,
        limits=limits,
        pressure=pressure,
        queueing=queueing,
        waits=_waits(tables.get("engine_wait", pl.DataFrame()), run, t, span),
        coverage=_coverage(span, interval, run),
        resolution=float(span[span <= SMOOTHED * interval].sum() / span.sum()) if len(t) else 0.0,
        refaulted=_refaulted(signals, t),
        oom_kills=float(np.nansum(signals.get("total oom_kills_per_s", 0 * span) * span)),
    )
    facts = _facts(tables)
    if (busy := signals.get("host cpu_us_per_s")) is not None:
        busy = busy / 1e6
    elif "cores" in facts:
        busy = _busy(samples, t, interval, float(facts["cores"]))
    _cpu(timeline, signals, facts, busy)
    _memory(timeline, signals)
    _network(timeline, signals)
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


def _wide(samples: pl.DataFrame, run: dict) -> tuple[pl.DataFrame, float]:
    """One row per interval of the measured part, a column per subject and metric; its usual length."""
    if samples.is_empty() or run["measure_begin"] is None:
        return pl.DataFrame(), _INTERVAL_S
    own = samples.filter(pl.col("observer") == "sample").with_columns(
        pl.concat_str("subject", "metric", separator=" ").alias("signal")
    )
    # the load's host, where it is another, has a clock and ticks of its own
    load = pl.col("subject") == "client"
    server, client = (
        own.filter(part).pivot(on="signal", index="t", values="value").sort("t")
        for part in (~load, load)
    )
    if server.is_empty():
        return pl.DataFrame(), _INTERVAL_S
    span = pl.col("t").diff().fill_null(_INTERVAL_S).alias("span")
    server = server.with_columns(span)
    interval = float(np.quantile(server["span"], 0.25))
    if not client.is_empty():
        server = server.join_asof(client, on="t", strategy="nearest", tolerance=interval)
    begins = pl.max_horizontal(pl.col("t") - pl.col("span"), run["measure_begin"])
    ends = pl.min_horizontal("t", run["measure_end"])
    return server.filter(ends - begins >= _INSIDE * pl.col("span")), interval


def _coverage(span: np.ndarray, interval: float, run: dict) -> float:
    """Count as if a tick fell upon the begin: up to an interval is lost by its being elsewhere."""
    if run["measure_begin"] is None:
        return 0.0
    whole = max(interval, run["measure_end"] - run["measure_begin"] - interval)
    return min(1.0, float(span.sum()) / whole)


def _facts(tables: dict[str, pl.DataFrame]) -> dict[str, str]:
    return dict(tables["host"].select("fact", "value").iter_rows()) if "host" in tables else {}


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


def _cpu(
    timeline: Timeline,
    signals: dict[str, np.ndarray],
    facts: dict[str, str],
    busy: np.ndarray | None,
) -> None:
    """Hold engine and client against the CPU that there is for them.

    That is the limit, or less where others on the host leave less of its cores. On a single host
    engine and client share it, and the larger part is under the pressure of both; a client on a host
    of its own has all of that host.
    """
    run, single_host = timeline.run, timeline.run["single_host"]
    parts = {
        name: signals[f"{subject} cpu_us_per_s"] / 1e6
        for name, subject in ((ENGINE_CPU, "engine"), (CLIENT_CPU, "client"))
        if f"{subject} cpu_us_per_s" in signals
    }
    timeline.used.update(parts)
    if ENGINE_CPU not in parts:
        return
    engine = parts[ENGINE_CPU]
    client = parts.get(CLIENT_CPU, np.zeros_like(engine))
    ours = engine + client if single_host else engine
    room = np.full_like(engine, run["limit_cores"])
    if busy is not None and "cores" in facts:
        cores = float(facts["cores"])
        others = np.clip(np.nan_to_num(busy - ours), 0, 0.9 * cores)
        room = np.minimum(room, cores - others)
    timeline.limits[ENGINE_CPU] = run["limit_cores"]
    timeline.pressure[ENGINE_CPU] = engine / room
    stalled = signals.get("psi cpu some_us_per_s")
    if stalled is not None:
        timeline.queueing[ENGINE_CPU] = stalled / 1e6
    paused = _paused(signals, "total")
    if paused is not None:
        waiting = timeline.queueing.get(ENGINE_CPU, np.zeros_like(engine))
        timeline.queueing[ENGINE_CPU] = np.maximum(waiting, paused)
    if CLIENT_CPU not in parts:
        return
    if single_host:
        timeline.limits[CLIENT_CPU] = run["limit_cores"]
        larger = engine >= client
        timeline.pressure[ENGINE_CPU] = np.where(larger, ours / room, 0.0)
        timeline.pressure[CLIENT_CPU] = np.where(larger, 0.0, ours / room)
        if ENGINE_CPU in timeline.queueing:
            timeline.queueing[CLIENT_CPU] = timeline.queueing[ENGINE_CPU]
    elif "client_cores" in facts:
        timeline.limits[CLIENT_CPU] = float(facts["client_cores"])
        timeline.pressure[CLIENT_CPU] = client / timeline.limits[CLIENT_CPU]
    paused = _paused(signals, "client")
    if paused is not None and paused.any():
        # a limit of the load's own: nobody but it is held up
        timeline.queueing[CLIENT_CPU] = paused
        others = timeline.pressure.get(CLIENT_CPU, np.zeros_like(client))
        timeline.pressure[CLIENT_CPU] = np.maximum(others, paused)


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


def _memory(timeline: Timeline, signals: dict[str, np.ndarray]) -> None:
    """Memory has no rate: its use is the time in which tasks stood still for want of it (PSI)."""
    stalled = signals.get("psi memory some_us_per_s")
    if stalled is not None:
        timeline.pressure[MEMORY] = timeline.queueing[MEMORY] = stalled / 1e6


def _network(timeline: Timeline, signals: dict[str, np.ndarray]) -> None:
    """Each direction of a link has its whole speed; a single host's loopback has none."""
    ways = [
        signals[name]
        for name in ("network received_bytes_per_s", "network sent_bytes_per_s")
        if name in signals
    ]
    if timeline.run["single_host"] or not ways:
        return
    timeline.used[NETWORK] = np.maximum.reduce(ways)
    speed = signals.get("network speed_bytes_per_s")
    if speed is not None and np.isfinite(speed).any():
        timeline.limits[NETWORK] = float(np.nanmax(speed))
        timeline.pressure[NETWORK] = timeline.used[NETWORK] / timeline.limits[NETWORK]


def _waits(
    waits: pl.DataFrame, run: dict, t: np.ndarray, span: np.ndarray
) -> dict[str, np.ndarray]:
    """Shares of the sessions, averaged over as many looks as it takes to see enough of them."""
    if waits.is_empty() or not len(t):
        return {}
    inside = (pl.col("t") > run["measure_begin"]) & (pl.col("t") <= run["measure_end"])
    looks = (
        waits.filter(inside)
        .group_by("t", "wait_class")
        .agg(pl.col("sessions").sum())
        .pivot(on="wait_class", index="t", values="sessions")
        .fill_null(0)
        .sort("t")
    )
    counts = looks.drop("t")
    total = counts.sum_horizontal().to_numpy() if looks.width > 1 else np.zeros(0)
    if not total.sum():
        return {}
    seen_per_s = total.sum() / (run["measure_end"] - run["measure_begin"])
    window = np.maximum(SMOOTHED * span, _SESSIONS_SEEN / max(seen_per_s, 1e-9))
    at = looks["t"].to_numpy()
    near = np.abs(at[None, :] - (t - span / 2)[:, None]) <= window[:, None] / 2
    near[~(near @ total > 0)] = True  # where the looks have a gap, all of them are the best guess
    sessions = near @ total
    return {name: (near @ counts[name].to_numpy()) / sessions for name in counts.columns}
