"""Which resource binds in each interval.

Three questions, in this order:

1. Do the clients wait at all? If throughput × response time is well below their number, or if nearly
   all of their time is pauses, the engine does all that is offered, and nothing binds, except perhaps
   the client itself.
2. Is a resource exhausted? A resource that is at its limit and has a queue binds, if the clients are
   among those that wait: a checkpoint may fill the disk while the clients run from memory.
3. If no resource is exhausted, the response time consists of waits in series. The largest part binds:
   the log, other transactions, the engine's own throttling, pages that did not fit in memory. If the
   largest part is the work itself, concurrency binds: more clients would do more work. Where an
   application server has the sessions, one that is idle while clients wait is no work of a client: the
   application server does not hand on enough requests.
"""

import numpy as np

from benchlab.attribution.timeline import Place, Timeline, smoothed
from benchlab.engines.waits import Wait
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
    UNKNOWN,
)

#: Share of use from which a resource counts as exhausted. A closed loop that a throttle binds leaves
#: the resource idle only between a completion and the next request; a throttle is accurate to 2 %.
EXHAUSTED = 0.9

#: The resource that bound the previous interval counts as exhausted down to this share.
STILL_EXHAUSTED = 0.85

#: Shares of use and of queueing that count as exhausted together, for CPU: a CPU quota is handed out in
#: slices, and some of them go unused.
EXHAUSTED_WITH_QUEUE, QUEUE = 0.8, 0.75
_BY_QUOTA = (ENGINE_CPU, CLIENT_CPU)

#: A resource binds the clients if at least this share of them may wait for it.
CONCERNED = 0.15

#: In a closed loop all clients wait for an answer, except for the load generator's own time. Below this
#: share they are idle on purpose.
OCCUPIED = 0.7

#: Clients that pause between transactions, such as TPC-C's terminals, are slowed down by the engine
#: even if few of them wait. From this share of pauses on, none could do over a ninth more than it does.
PAUSED = 0.9

#: Resource → wait classes of the sessions that it may hold up while it is exhausted. Locks are among
#: them for the disk: a lock is held as long as its holder waits for the disk.
_AT_DISK = (Wait.BUSY, Wait.DATA, Wait.LOG, Wait.LOCK, Wait.LATCH, Wait.LIMIT)
_SEEN_AS = {
    **{disk.name: _AT_DISK for disk in DISK},
    ENGINE_CPU: (Wait.CPU, Wait.BUSY, Wait.CLIENT, Wait.LATCH),
    CLIENT_CPU: (Wait.CLIENT, Wait.CPU, Wait.BUSY),
    MEMORY: (Wait.CPU, Wait.BUSY, Wait.DATA, Wait.LATCH),
    NETWORK: (Wait.CLIENT,),
}

#: Wait classes of sessions that wait for another server, such as a standby that must confirm.
_SEEN_OF_ANOTHER = (Wait.LOG, Wait.LIMIT)

#: Resource → wait classes that make up its share of the response time.
SERIAL = {
    COMMIT_LATENCY: (Wait.LOG,),
    LOCKS: (Wait.LOCK, Wait.LATCH),
    ENGINE_LIMIT: (Wait.LIMIT,),
    MEMORY: (Wait.DATA,),
    APPLICATION_SERVER: (Wait.CLIENT,),
    CONCURRENCY: (Wait.CPU, Wait.BUSY, Wait.CLIENT, Wait.DATA),
}


def decide(timeline: Timeline) -> list[Place]:
    """Return what binds in each interval, ``unknown`` if the captures do not show it."""
    pressure = {place: smoothed(values) for place, values in timeline.pressure.items()}
    queueing = {place: smoothed(values) for place, values in timeline.queueing.items()}
    found: list[Place] = []
    for number in range(len(timeline.t)):
        before = found[-1] if found else None
        exhausted = [
            place
            for place, values in pressure.items()
            if place not in timeline.smaller_users
            and _exhausted(
                values[number],
                queueing[place][number] if place[0] in _BY_QUOTA and place in queueing else 0.0,
                still=place == before,
            )
        ]
        if _does_all_that_is_offered(timeline):
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
    """Share of the clients that an exhausted resource may hold up in an interval.

    1 if the sessions were not sampled.
    """
    if not timeline.waits:
        return 1.0
    resource, node = place
    if node != timeline.sampled_node and node in timeline.databases:
        return _share(timeline, _SEEN_OF_ANOTHER, number)
    return _share(timeline, _SEEN_AS[resource], number)


def serial_share(timeline: Timeline, resource: str) -> np.ndarray:
    """Share of the response time, for each interval, that a resource of :data:`SERIAL` takes.

    Reading pages again that memory had held before counts as memory; all other reading is work.
    """
    classes = set(SERIAL[resource])
    if resource == (CONCURRENCY if timeline.is_served else APPLICATION_SERVER):
        classes -= {Wait.CLIENT}
    share = sum(timeline.waits.get(name, 0.0) for name in sorted(classes)) + np.zeros_like(
        timeline.t
    )
    again = timeline.waits.get(Wait.DATA, 0.0) * timeline.refaulted
    if resource == MEMORY:
        return again
    return share - again if resource == CONCURRENCY else share


def _does_all_that_is_offered(timeline: Timeline) -> bool:
    if timeline.occupied is None:
        return False
    return timeline.paused >= PAUSED if timeline.pause_s else timeline.occupied < OCCUPIED


def _exhausted(pressure: float, queueing: float, still: bool) -> bool:
    if pressure >= (STILL_EXHAUSTED if still else EXHAUSTED):
        return True
    return pressure >= EXHAUSTED_WITH_QUEUE and queueing >= QUEUE


def _in_series(timeline: Timeline, number: int) -> str:
    if timeline.waits:
        return max(SERIAL, key=lambda name: serial_share(timeline, name)[number])
    # without samples of the sessions: few clients cannot obstruct each other
    few = timeline.run["concurrency"] <= timeline.run["limit_cores"]
    return CONCURRENCY if few else UNKNOWN


def _share(timeline: Timeline, classes: tuple[Wait, ...], number: int) -> float:
    return float(sum(timeline.waits[name][number] for name in classes if name in timeline.waits))
