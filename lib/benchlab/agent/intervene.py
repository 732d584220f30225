"""Carry out a schedule of blocks; some blocks lower one limit of the envelope.

The caller writes the schedule as one JSON line, a list of ``{"limit", "factor", "duration_s"}``
(``limit``: "cores", one of DISK_LIMITS, or null for a block that changes no limit), and reads the
header: the limits in force. The first block starts when the caller writes anything more. From then on
only this host's clock counts. A line is printed for every block that was completed.

At the start of every block all limits are written, changed or not: each write resets the kernel's
count, and blocks must differ in nothing but a limit. The limits are restored at the end, on a signal,
and when standard input ends, which it also does if the caller is killed.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any, NoReturn, TextIO

from .cgroup import whole_quota
from .config import DISK_LIMITS, AgentError
from .envelope import Envelope
from .system import ends_within, host_locked, use_realtime_scheduling

Limits = dict[str, Any]

_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def intervene(envelope: Envelope, source: int, out: TextIO) -> None:
    """Carry out the schedule from the file descriptor ``source``.

    Raises AgentError if a limit is not in force or was changed by somebody else meanwhile, and on a
    signal. It is no error if ``source`` ends early: the printed blocks are those that were completed.
    """
    envelope.require_up()
    use_realtime_scheduling()
    blocks = _schedule(_line(source))
    held = _Held(envelope)
    limits = [held.lowered(block) for block in blocks]
    print(json.dumps({"header": {"limits": held.in_force}}), file=out, flush=True)
    for number in _STOP:
        signal.signal(number, _stop)
    try:
        if not os.read(source, 4096):
            return
        end = time.monotonic()
        for block, wanted in zip(blocks, limits, strict=True):
            held.set(wanted)
            begin = time.time()
            end += block["duration_s"]
            if ends_within(source, end - time.monotonic()):
                return
            line = {
                "limit": block["limit"],
                "factor": block["factor"],
                "value": wanted[block["limit"]] if block["limit"] else None,
                "begin_s": round(begin, 6),
                "end_s": round(time.time(), 6),
            }
            print(json.dumps(line), file=out, flush=True)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
        held.put_back()


class _Held:
    """The envelope's limits: those found at the start, and those set last."""

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self.found = self.last = envelope.rates()
        #: The limits that can be lowered; without a quota, the limit of cores is the host's CPUs.
        self.in_force = {**self.found, "cores": self.found["cores"] or float(os.cpu_count() or 1)}

    def lowered(self, block: Limits) -> Limits:
        """Return the limits of a block. Raises AgentError if its limit is not in force."""
        name, factor = block["limit"], block["factor"]
        if name is None:
            return self.found
        if not (limit := self.in_force[name]):
            raise AgentError(f"{name} cannot be lowered: no such limit is in force")
        lowered = whole_quota(limit * factor) if name == "cores" else max(1, int(limit * factor))
        return {**self.found, name: lowered}

    def set(self, limits: Limits) -> None:
        """Set limits. Raises AgentError, and sets nothing, if somebody else changed the limits."""
        with host_locked(self.envelope.etc):
            if (now := self.envelope.rates()) != self.last:
                raise AgentError(f"somebody else changed the limits from {self.last} to {now}")
            # a signal in between would leave limits that put_back takes for somebody else's
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
            try:
                self.last = limits
                self.envelope.set_rates(limits)
            except AgentError:
                self.last = self.envelope.rates()  # set in part: these are put back, too
                raise
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def put_back(self) -> None:
        """Restore the limits found, unless the envelope was taken down or changed meanwhile."""
        with host_locked(self.envelope.etc):
            try:
                self.envelope.require_up()
            except AgentError:
                return
            if self.envelope.rates() == self.last:
                self.envelope.set_rates(self.found)


def _schedule(line: bytes) -> list[Limits]:
    try:
        blocks = json.loads(line)
        for block in blocks:
            factor, duration = float(block["factor"]), float(block["duration_s"])
            if block["limit"] not in (None, "cores", *DISK_LIMITS) or not 0 < factor <= 1:
                raise ValueError(f"no limit to lower: {block}")
            if duration <= 0:
                raise ValueError(f"no duration: {block}")
    except (KeyError, TypeError, ValueError) as error:
        raise AgentError(f"intervene: no schedule on standard input: {error}") from None
    return blocks


def _line(source: int) -> bytes:
    """Read one line, and not a byte more: select must still see the next byte."""
    read = b""
    while not read.endswith(b"\n") and (byte := os.read(source, 1)):
        read += byte
    return read


def _stop(number: int, _: object) -> NoReturn:
    raise AgentError(
        f"intervene: stopped by {signal.Signals(number).name}; the limits are put back"
    )
