"""Rows of ``attribution``: what bound a run, by how much, and the evidence in one sentence."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import polars as pl

from benchlab.attribution.decide import SERIAL, decide, serial_share
from benchlab.attribution.timeline import Place, Timeline, build
from benchlab.study.resources import (
    APPLICATION_SERVER,
    CLIENT_CPU,
    COMMIT_LATENCY,
    CONCURRENCY,
    DISK,
    ENGINE_CPU,
    ENGINE_LIMIT,
    LOCKS,
    MEMORY,
    NETWORK,
    NONE,
    RATES,
    RESOURCES,
    UNKNOWN,
)

SCHEMA = {
    "resource": pl.String,
    "node": pl.String,
    "utilisation": pl.Float64,
    "pressure": pl.Float64,
    "at_limit_share": pl.Float64,
    "saturation": pl.Float64,
    "share": pl.Float64,
    "binds": pl.Boolean,
    "confidence": pl.Float64,
    "evidence": pl.String,
}

#: Share from which an interval counts as at the limit; a throttle is accurate to about 2 %.
AT_LIMIT = 0.95

#: Sampled seconds that are enough to decide what bound a run.
_ENOUGH_S = 5

#: Factor of the confidence if captures that would decide are missing.
_UNDECIDED = 0.5

#: Factor if the missing captures would only confirm that the clients waited for the exhausted resource.
_UNCONFIRMED = 0.8

_KNOWN_FROM_WAITS = (
    COMMIT_LATENCY,
    APPLICATION_SERVER,
    LOCKS,
    ENGINE_LIMIT,
    CONCURRENCY,
    NONE,
)

_NO_SAMPLES = "no samples of the measured part"

_WAITED_FOR = {
    COMMIT_LATENCY: "the log",
    LOCKS: "locks and latches",
    ENGINE_LIMIT: "the engine's own brake or workers",
    APPLICATION_SERVER: "the application server, which sent them nothing",
}


def attribute(tables: dict[str, pl.DataFrame], is_served: bool = False) -> pl.DataFrame:
    """Return one row per resource of one run and node; see ``schema.sql`` for the columns.

    At most one resource binds: the one that binds for the largest share of the sampled time, on all
    nodes together. The row of the node with most of it says so. If several bind in turn, their shares
    show it. Without samples of the measured part, or if these are not enough to decide, none binds:
    confidence is 0, and the evidence gives the reason.

    Args:
        tables: see :func:`benchlab.attribution.timeline.build`.
        is_served: whether an application server has the sessions, and not the clients.
    """
    timeline = build(tables, is_served)
    seconds: Counter[Place] = Counter()
    for place, span in zip(decide(timeline), timeline.span, strict=True):
        seconds[place] += span
    shares = {place: bound_s / seconds.total() for place, bound_s in seconds.items()}
    bound = _largest(shares)
    confidence, doubts = _confidence(timeline, bound[0])
    rows = []
    for place in (place for name in RESOURCES for place in timeline.places(name)):
        measures, evidence = _measured(timeline, place)
        if place == bound:
            evidence += _beside(timeline, bound, shares)
        name, node = place
        rows.append(
            dict.fromkeys(SCHEMA)
            | measures
            | {
                "resource": name,
                "node": node,
                "share": shares.get(place, 0.0) if shares else None,
                "binds": place == bound,
                "confidence": confidence,
                "evidence": "; ".join([evidence, *doubts]),
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def _largest(shares: Mapping[Place, float]) -> Place:
    """Return what binds for the largest share on all nodes together, on the node with most of it."""
    of_resource: Counter[str] = Counter()
    for (name, _), share in shares.items():
        of_resource[name] += share
    if not of_resource:
        return UNKNOWN, None
    largest = max(of_resource, key=of_resource.__getitem__)
    return max((place for place in shares if place[0] == largest), key=shares.__getitem__)


def binding(attribution: pl.DataFrame) -> str:
    """Name of the resource that binds, or ``unknown``."""
    bound = attribution.filter("binds")["resource"]
    return bound[0] if len(bound) else UNKNOWN


def _measured(timeline: Timeline, place: Place) -> tuple[dict[str, float], str]:
    """Measures of a resource's row, and its evidence."""
    name, node = place
    if not len(timeline.t):
        return {}, _NO_SAMPLES
    if name in (CONCURRENCY, NONE):
        return _clients(timeline)
    if node is None and (name == MEMORY or name not in SERIAL):
        words = RATES[name].words if name in RATES else name
        return {}, f"{words}: the server runs on none of the nodes, nobody can see it"
    if name == MEMORY:
        return _memory(timeline, place)
    if name in SERIAL:
        return _waited(timeline, name)
    return _rate(timeline, place)


def _words(timeline: Timeline, place: Place, words: str) -> str:
    """Prefix the evidence with its node if several nodes have such a resource."""
    return words if len(timeline.places(place[0])) == 1 else f"{place[1]}: {words}"


def _rate(timeline: Timeline, place: Place) -> tuple[dict[str, float], str]:
    name, _ = place
    if name == NETWORK and len(timeline.nodes) == 1:
        return {}, "engine and client share a host"
    words, show = _words(timeline, place, RATES[name].words), RATES[name].show
    if place not in timeline.used:
        return {}, f"{words}: {_NO_SAMPLES}"
    mean = np.nanmean(timeline.used[place])
    limit = timeline.limits.get(place)
    measures = _pressures(timeline, place)
    if limit is None:
        return measures, f"{words} averaged {show(mean)}, no limit"
    at_limit = _at_limit(timeline, timeline.pressure[place])
    measures |= {"utilisation": mean / limit, "at_limit_share": at_limit}
    evidence = f"{words} averaged {show(mean)} of {show(limit)} ({_percent(mean / limit)})"
    if _is_shared(measures["pressure"], measures["utilisation"]):
        evidence += f", {_percent(measures['pressure'])} of it used up with all who share it"
    return measures, f"{evidence}, used up in {_percent(at_limit)} of seconds"


def _memory(timeline: Timeline, place: Place) -> tuple[dict[str, float], str]:
    if place not in timeline.pressure:
        return {}, f"{_words(timeline, place, 'memory')}: {_NO_SAMPLES}"
    measures = _pressures(timeline, place)
    measures["utilisation"] = measures["pressure"]
    measures["at_limit_share"] = _at_limit(timeline, timeline.pressure[place])
    stalled = _percent(measures["pressure"])
    evidence = _words(
        timeline, place, f"tasks were stalled for lack of memory in {stalled} of the time"
    )
    if timeline.waits and (again := serial_share(timeline, MEMORY).mean()) >= 0.005:
        evidence += f", {_percent(again)} of the sessions read pages that it had dropped"
    if timeline.oom_kills:
        evidence += f", and the kernel killed {timeline.oom_kills:.0f} of them"
    return measures, evidence


def _waited(timeline: Timeline, name: str) -> tuple[dict[str, float], str]:
    if not timeline.waits:
        return {}, f"what the sessions waited for was not captured ({name})"
    share = serial_share(timeline, name)
    measures = {
        "utilisation": float(share.mean()),
        "pressure": float(share.mean()),
        "saturation": float(share.mean()),
        "at_limit_share": _at_limit(timeline, share),
    }
    return measures, f"{_percent(share.mean())} of the sessions waited for {_WAITED_FOR[name]}"


def _clients(timeline: Timeline) -> tuple[dict[str, float], str]:
    """Little's law, for the two answers without an exhausted resource (concurrency, none)."""
    clients, occupied = timeline.run["concurrency"], timeline.occupied
    if occupied is None:
        return {}, "throughput or response time is not known"
    response_ms = timeline.run["latency_mean_us"] / 1e3
    evidence = (
        f"{timeline.run['tps']:,.0f} /s × {response_ms:.3g} ms:"
        f" {occupied * clients:,.1f} of {clients} clients waited for an answer"
    )
    measures = {"utilisation": occupied, "pressure": occupied}
    if (most := _most_used(timeline)) is not None:
        place, used = most
        evidence += f"; the most used resource, {timeline.named(place)}, averaged {used}"
    return measures, evidence


def _most_used(timeline: Timeline, but: Place | None = None) -> tuple[Place, str] | None:
    """Return the resource that is used up most, and how far; ``but``: one that is left out."""
    means = {
        place: float(np.nanmean(values))
        for place, values in timeline.pressure.items()
        if place != but and place not in timeline.smaller_users
    }
    most = max(means, key=means.__getitem__, default=None)
    if most is None:
        return None
    used, limit = timeline.used.get(most), timeline.limits.get(most)
    is_shared = used is not None and limit and _is_shared(means[most], np.nanmean(used) / limit)
    return most, _percent(means[most]) + (" with all who share it" if is_shared else "")


def _is_shared(pressure: float, utilisation: float) -> bool:
    """Whether others than the user use so much of a resource that it is worth a word."""
    return pressure > 1.05 * utilisation


def _at_limit(timeline: Timeline, values: np.ndarray) -> float:
    return float(timeline.span[values >= AT_LIMIT].sum() / timeline.span.sum())


def _pressures(timeline: Timeline, place: Place) -> dict[str, float]:
    found = {"pressure": timeline.pressure, "saturation": timeline.queueing}
    return {
        column: float(np.nanmean(values[place]))
        for column, values in found.items()
        if place in values
    }


def _beside(timeline: Timeline, bound: Place, shares: dict[Place, float]) -> str:
    """Say what else bound in turn, and what came nearest to binding."""
    said = ""
    if shares[bound] < 1:
        in_turn = sorted(shares.items(), key=lambda item: -item[1])
        said = "; bound in turn: " + ", ".join(
            f"{timeline.named(place)} {_percent(share)}" for place, share in in_turn
        )
    if bound in timeline.pressure and (nearest := _most_used(timeline, but=bound)):
        place, used = nearest
        said += f"; next {timeline.named(place)} at {used}"
    return said


def _confidence(timeline: Timeline, bound: str) -> tuple[float, list[str]]:
    """How far the captures are enough to decide, from 0 to 1, and what lowers that."""
    if not len(timeline.t):
        return 0.0, []
    confidence, doubts = timeline.coverage, []
    if timeline.coverage < 0.95:  # one second in a run of twenty
        doubts.append(f"samples cover {_percent(timeline.coverage)} of the measured part")
    if timeline.resolution < 1:
        confidence *= (1 + timeline.resolution) / 2
        doubts.append(f"a sample spans up to {timeline.span.max():.1f} s")
    # rounded, since samples are not timed more precisely: five of them may span 4.98 s
    if (sampled_s := round(float(timeline.span.sum()), 1)) < _ENOUGH_S:
        confidence *= sampled_s / _ENOUGH_S
        doubts.append(f"only {sampled_s:.1f} s were sampled")
    missing = [
        _words(timeline, place, RATES[name].words)
        for name in (*(disk.name for disk in DISK), ENGINE_CPU, CLIENT_CPU)
        for place in timeline.places(name)
        if place not in timeline.used
    ]
    if missing:
        confidence *= _UNDECIDED
        doubts.append(f"not captured: {', '.join(missing)}")
    if not timeline.waits:
        confidence *= _UNDECIDED if bound in _KNOWN_FROM_WAITS else _UNCONFIRMED
        doubts.append("what the sessions waited for was not captured")
    if bound == UNKNOWN:
        return 0.0, doubts
    return confidence, doubts


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
