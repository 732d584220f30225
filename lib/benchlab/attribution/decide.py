"""Which resource binds in each interval.

Three questions, in this order:

1. Do the clients wait at all? If throughput × response time is well below their number, the load is
   what was offered, and nothing binds but perhaps the client itself.
2. Is something exhausted? A resource at its limit, for which there is a queue, binds, if the clients
   are among those who wait: a checkpoint may fill the disk while they run from memory.
3. If nothing is, the response time is made of waits in series, and its largest part binds: the log,
   other transactions, the engine's own brake, pages that memory was too small to keep. Where that part
   is the work itself, more clients would do more of it.
"""

import numpy as np

from benchlab.attribution.timeline import Place, Timeline, smoothed
from benchlab.engines.waits import Wait
from benchlab.study.resources import (
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
    UNKNOWN,
)

#: Use from which a resource is exhausted. A closed loop bound by a throttle leaves it idle only between
#: a completion and the next request, and a throttle is accurate to 2 %.
EXHAUSTED = 0.9

#: What bound the interval before still does down to here.
STILL_EXHAUSTED = 0.85

#: A CPU quota is handed out in slices, of which some go unused: with a queue throughout, this will do.
EXHAUSTED_WITH_QUEUE, QUEUE = 0.8, 0.75
_BY_QUOTA = (ENGINE_CPU, CLIENT_CPU)

#: A resource binds the clients if at least this share of them waits for what it does.
CONCERNED = 0.15

#: In a closed loop all clients wait for an answer but for the load generator's own time; below this
#: they are idle by intention.
OCCUPIED = 0.7

#: Resource → what its sessions are seen to do while it is exhausted. A lock is held for as long as its
#: holder waits for the disk.
_AT_DISK = (Wait.BUSY, Wait.DATA, Wait.LOG, Wait.LOCK, Wait.LATCH, Wait.LIMIT)
_SEEN_AS = {
    **{disk.name: _AT_DISK for disk in DISK},
    ENGINE_CPU: (Wait.CPU, Wait.BUSY, Wait.CLIENT, Wait.LATCH),
    CLIENT_CPU: (Wait.CLIENT, Wait.CPU, Wait.BUSY),
    MEMORY: (Wait.CPU, Wait.BUSY, Wait.DATA, Wait.LATCH),
    NETWORK: (Wait.CLIENT,),
}

#: What sessions are seen to do that wait for another server, such as a standby that must confirm.
_SEEN_OF_ANOTHER = (Wait.LOG, Wait.LIMIT)

#: Resource → what its share of the response time is made of.
SERIAL = {
    COMMIT_LATENCY: (Wait.LOG,),
    LOCKS: (Wait.LOCK, Wait.LATCH),
    ENGINE_LIMIT: (Wait.LIMIT,),
    MEMORY: (Wait.DATA,),
    CONCURRENCY: (Wait.CPU, Wait.BUSY, Wait.CLIENT, Wait.DATA),
}


def decide(timeline: Timeline) -> list[Place]:
    """Return what binds in each interval, ``unknown`` where the captures do not show it."""
    pressure = {place: smoothed(values) for place, values in timeline.pressure.items()}
    queueing = {place: smoothed(values) for place, values in timeline.queueing.items()}
    found: list[Place] = []
    for number in range(len(timeline.t)):
        before = found[-1] if found else None
        exhausted = [
            place
            for place, values in pressure.items()
            if _exhausted(
                values[number],
                queueing[place][number] if place[0] in _BY_QUOTA and place in queueing else 0.0,
                still=place == before,
            )
        ]
        if timeline.occupied is not None and timeline.occupied < OCCUPIED:
            clients = [place for place in exhausted if place[0] == CLIENT_CPU]
            found.append(clients[0] if clients else (NONE, timeline.sampled_node))
            continue
        concerned = {place: concern(timeline, place, number) for place in exhausted}
        binding = [place for place in exhausted if concerned[place] >= CONCERNED]
        if binding:
            found.append(max(binding, key=lambda place: pressure[place][number] * concerned[place]))
        else:
            found.append((_in_series(timeline, number), timeline.sampled_node))
    return found


def concern(timeline: Timeline, place: Place, number: int) -> float:
    """Share of the clients that an exhausted resource may hold up in an interval; 1 without samples."""
    if not timeline.waits:
        return 1.0
    resource, node = place
    if node != timeline.sampled_node and node in timeline.databases:
        return _share(timeline, _SEEN_OF_ANOTHER, number)
    return _share(timeline, _SEEN_AS[resource], number)


def serial_share(timeline: Timeline, resource: str) -> np.ndarray:
    """Share of the response time, by interval, that goes into a part of :data:`SERIAL`.

    Reading pages again that memory had held is memory's part, the rest of the reading is work.
    """
    share = sum(timeline.waits.get(name, 0.0) for name in SERIAL[resource]) + np.zeros_like(
        timeline.t
    )
    again = timeline.waits.get(Wait.DATA, 0.0) * timeline.refaulted
    if resource == MEMORY:
        return again
    return share - again if resource == CONCURRENCY else share


def _exhausted(pressure: float, queueing: float, still: bool) -> bool:
    if pressure >= (STILL_EXHAUSTED if still else EXHAUSTED):
        return True
    return pressure >= EXHAUSTED_WITH_QUEUE and queueing >= QUEUE


def _in_series(timeline: Timeline, number: int) -> str:
    if timeline.waits:
        return max(SERIAL, key=lambda name: serial_share(timeline, name)[number])
    # without samples of the sessions: few clients cannot be in each other's way
    few = timeline.run["concurrency"] <= timeline.run["limit_cores"]
    return CONCURRENCY if few else UNKNOWN


def _share(timeline: Timeline, classes: tuple[Wait, ...], number: int) -> float:
    return float(sum(timeline.waits[name][number] for name in classes if name in timeline.waits))
