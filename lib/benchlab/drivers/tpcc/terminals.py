"""Terminals: they choose a transaction, key in its input, wait for its output and think.

A terminal has a fixed home warehouse and keeps its connection. It repeats one cycle (clause 5.2.5):

1. It chooses a type from the menu and waits for the input screen: the menu's response time.
2. It keys in the input that was drawn, for the keying time of the type. Then the transaction is *due*.
3. It sends the filled screen and waits for the output screen. Response times count from when a
   request was due, not from when it was sent, to the last byte. The delay from due to sent is the
   emulator's own error.
4. It thinks.

A terminal represents a browser, which takes 0.1 s to show each of the two screens (clause 6.6.3.7).
Keying and thinking start that much after the last byte. Response times in the records do not include
it.

Failures, and what the terminal does then:

- HTTP 503 is *refused*. Any other status except 200 is an *error*, and so is a body that cannot be
  the answer to the request. The terminal thinks and goes on. After bytes that are not HTTP it
  connects again.
- When its connection breaks, the terminal is *lost*. It notices when it waits for an answer or wants
  to send. As a person would, it then thinks, connects again, as often as needed, and goes on with a
  new cycle.

Each cycle leaves one row (:data:`records.RECORDS`). A cycle that ended before its input was due has
null in ``keying_us``, and its times are those of the menu's request. A cycle that was lost before it
could send has null in ``sent_us``.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Annotated

import msgspec

from benchlab.drivers.tpcc import limits
from benchlab.drivers.tpcc.http import Connection, Messages
from benchlab.drivers.tpcc.inputs import Draws, Inputs
from benchlab.drivers.tpcc.log import NONE, Log
from benchlab.drivers.tpcc.mix import AIMS, Mix
from benchlab.drivers.tpcc.tally import NEW_ORDER, Status, Tally
from benchlab.drivers.tpcc.timers import Timers
from benchlab.workloads.tpcc.dataset import TYPES

#: Factor from the least mean think time to the mean that is drawn. Without it, by chance, every second
#: run would have a mean that is too short.
LONGER = 1.005

#: Longest think time, as a multiple of the mean (clause 5.2.5.4).
LONGEST_THINK = 10

#: In this time, some ten cycles, a terminal's position in its cycle becomes independent of its start.
BEFORE_S = 200

#: Longest time from a choice to its answer, if the server answers at once. When the rate of choices is
#: steady, the rate of answers is steady after this time.
SETTLING_S = 2 * limits.SHOWN + max(limits.KEYING.values())

#: Least pause before a lost terminal connects again. So terminals with short think times do not flood
#: a server that is down.
_RECONNECT_US = 1_000_000

#: Greatest value of the columns ``menu_us`` and ``menu_late_us``.
_LONGEST_MENU_US = 2**31 - 1

_DELIVERY = TYPES.index("delivery")
_REFUSED, _DONE = 503, 200


class Pacing:
    """How long terminals take.

    Args:
        factor: factor of all times; 1: the standard's times, 0: terminals do not wait.
    """

    def __init__(self, factor: float):
        unit = factor * 1e6
        self.shown_us = round(limits.SHOWN * unit)
        self.keying_us = tuple(round(limits.KEYING[name] * unit) for name in TYPES)
        self._think_us = tuple(limits.THINK[name] * LONGER * unit for name in TYPES)
        self._before_us = BEFORE_S * unit

    def think_us(self, number: int, random: Random) -> int:
        """Draw a think time after a transaction with the type ``TYPES[number]``."""
        means = min(-math.log(1 - random.random()), LONGEST_THINK)
        return round(means * self._think_us[number])

    def begin_us(self, random: Random) -> int:
        """Draw how long a terminal waits before its first cycle.

        The wait is that of a terminal that has run for long and now is anywhere in a cycle. So the
        rate at which all terminals start cycles is steady from the beginning.
        """
        shares = [AIMS[name] for name in TYPES]
        left = -self._before_us
        while left < 0:
            (number,) = random.choices(range(len(TYPES)), shares)
            left += 2 * self.shown_us + self.keying_us[number] + self.think_us(number, random)
        return round(left)


def unix_clock() -> Callable[[], int]:
    """Return a clock of Unix microseconds that does not jump when the system's clock is set."""
    ahead = time.time_ns() - time.monotonic_ns()
    return lambda: (time.monotonic_ns() + ahead) // 1000


@dataclass(slots=True)
class Shared:
    """Objects that all terminals of a process share."""

    draws: Draws
    inputs: Inputs
    pacing: Pacing
    messages: Messages
    timers: Timers
    now: Callable[[], int]
    """Clock of Unix microseconds."""
    connect: Callable[["Terminal"], None]
    """Starts to connect a terminal, then calls its ``connected`` or ``unreachable``."""
    log: Log = field(default_factory=Log)
    tally: Tally = field(default_factory=Tally)
    """Counts since it was last replaced, which is every second while seconds are counted."""


class _Part(msgspec.Struct, gc=False):
    """The fields of an answer that records keep."""

    o_id: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] | None = None
    rolled_back: bool = False


class _Reply(msgspec.Struct, gc=False):
    """Reply of the application server."""

    answer: _Part | None
    retries: Annotated[int, msgspec.Meta(ge=0, lt=2**15)] = 0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Reply).decode


class _State(Enum):
    OUT = auto()  # not connected
    CONNECTING = auto()
    THINKING = auto()
    CHOOSING = auto()  # waiting for the input screen
    KEYING = auto()
    WAITING = auto()  # waiting for the output screen


class Terminal:
    """One terminal: the sleeper of its timer and the client of its connection.

    Args:
        shared: objects that all terminals share.
        number: its number from 0, over all warehouses; its home warehouse and the district of its
            Stock-Levels follow from it.
        mix: mix that it draws types from.
    """

    __slots__ = (
        "_body",
        "_connection",
        "_cycle",
        "_due_us",
        "_menu_late_us",
        "_menu_us",
        "_mix",
        "_number",
        "_sent_us",
        "_shared",
        "_state",
        "_think_us",
        "_traits",
        "_type",
        "_wake_us",
        "_was_lost",
    )

    def __init__(self, shared: Shared, number: int, mix: Mix):
        self._shared = shared
        self._number = number
        self._mix = mix
        self._state = _State.OUT
        self._connection: Connection | None = None
        self._cycle = 0
        self._wake_us = 0
        self._was_lost = False

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for an answer."""
        return self._state in (_State.CHOOSING, _State.WAITING)

    @property
    def was_lost(self) -> bool:
        """Whether its connection ever broke."""
        return self._was_lost

    def end(self) -> None:
        """Stop waiting and close the connection; a request without an answer counts as lost."""
        if self.is_waiting:
            self._lose()
        if self._connection is not None:
            self._connection.close()

    # called by its timer

    def wake(self) -> None:
        """See :class:`~benchlab.drivers.tpcc.timers.Sleeper`."""
        if self._state is _State.OUT:
            self._state = _State.CONNECTING
            self._shared.connect(self)
        elif self._state is _State.THINKING:
            self._choose()
        else:
            self._send(_State.WAITING, self._shared.messages.filled(self._type, self._body))

    # called by its connection

    def connected(self, connection: Connection) -> None:
        """See :class:`~benchlab.drivers.tpcc.http.Client`."""
        shared = self._shared
        self._connection = connection
        wait_us = 0
        if not self._cycle:
            wait_us = shared.pacing.begin_us(shared.draws.of(self._number, 0))
        self._sleep(_State.THINKING, shared.now() + wait_us)

    def unreachable(self) -> None:
        """Learn that the terminal could not be connected again."""
        self._retire()

    def answered(self, status: int, body: bytes) -> None:
        """See :class:`~benchlab.drivers.tpcc.http.Client`."""
        now = self._shared.now()
        if self._state is _State.WAITING:
            self._end(*self._outcome(status, body), answered_us=now)
        elif status == _DONE:
            self._menu_us = min(now - self._due_us, _LONGEST_MENU_US)
            self._menu_late_us = min(self._sent_us - self._due_us, _LONGEST_MENU_US)
            pacing = self._shared.pacing
            self._due_us = now + pacing.shown_us + pacing.keying_us[self._type]
            self._sleep(_State.KEYING, self._due_us)
        else:
            self._end(Status.REFUSED if status == _REFUSED else Status.ERROR, answered_us=now)

    def garbled(self) -> None:
        """See :class:`~benchlab.drivers.tpcc.http.Client`."""
        self._connection = None
        if self.is_waiting:
            self._end(Status.ERROR, answered_us=self._shared.now())

    def broken(self) -> None:
        """See :class:`~benchlab.drivers.tpcc.http.Client`."""
        self._connection = None
        if self.is_waiting:
            self._lose()

    # its cycle

    def _choose(self) -> None:
        shared = self._shared
        self._cycle += 1
        random = shared.draws.of(self._number, self._cycle)
        self._type = self._mix.draw(random)
        home, place = divmod(self._number, limits.TERMINALS)
        request, self._traits = shared.inputs.draw(self._type, random, home + 1, place + 1)
        # bytes take half the memory of the request, and the garbage collector does not go through them
        self._body = _encode(request)
        self._think_us = shared.pacing.think_us(self._type, random)
        self._menu_us = self._menu_late_us = NONE
        self._due_us = self._wake_us
        self._send(_State.CHOOSING, shared.messages.menus[self._type])

    def _send(self, state: _State, message: bytes) -> None:
        if self._connection is None:
            self._sent_us = NONE
            self._lose()
            return
        self._state = state
        self._sent_us = self._shared.now()
        self._shared.tally.sent(self._sent_us - self._due_us)
        self._connection.request(message)

    def _outcome(self, status: int, body: bytes) -> tuple[Status, int, int]:
        """Return the status, the retries and the number of the order."""
        if status != _DONE:
            return Status.REFUSED if status == _REFUSED else Status.ERROR, NONE, NONE
        try:
            reply = _decode(body)
        except msgspec.DecodeError:
            return Status.ERROR, NONE, NONE
        answer = reply.answer
        if answer is None:  # the transaction is only queued (clause 2.7.2)
            done = Status.OK if self._type == _DELIVERY else Status.ERROR
            return done, reply.retries, NONE
        if self._type != NEW_ORDER:
            return Status.OK, reply.retries, NONE
        if answer.o_id is None or answer.rolled_back is not self._traits.rolled_back:
            return Status.ERROR, reply.retries, NONE
        done = Status.ROLLED_BACK if answer.rolled_back else Status.OK
        return done, reply.retries, answer.o_id

    def _lose(self) -> None:
        self._was_lost = True
        self._end(Status.LOST)

    def _end(
        self, status: Status, retries: int = NONE, o_id: int = NONE, answered_us: int = NONE
    ) -> None:
        """Add the row of the cycle to the log, and think."""
        shared, traits = self._shared, self._traits
        has_keyed = self._menu_us != NONE
        shared.log.add(
            self._number,
            self._number // limits.TERMINALS + 1,
            self._type,
            self._due_us,
            self._sent_us,
            answered_us,
            self._menu_us,
            self._menu_late_us,
            shared.pacing.keying_us[self._type] if has_keyed else NONE,
            self._think_us,
            status,
            retries,
            _packed(traits.lines),
            _packed(traits.remote_lines),
            _packed(traits.remote),
            _packed(traits.by_name),
            o_id,
        )
        shared.tally.ended(self._type, status)
        self._body = b""
        if self._connection is None:
            self._retire()
        else:
            self._sleep(_State.THINKING, shared.now() + shared.pacing.shown_us + self._think_us)

    def _retire(self) -> None:
        """Connect again after the think time."""
        self._sleep(_State.OUT, self._shared.now() + max(self._think_us, _RECONNECT_US))

    def _sleep(self, state: _State, until_us: int) -> None:
        self._state = state
        self._wake_us = until_us
        self._shared.timers.at(until_us, self)


def _packed(value: int | None) -> int:
    return NONE if value is None else value
