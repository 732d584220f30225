"""How fast the host is right now, by a piece of work that is always the same.

A virtual machine shares memory and cores with others that it cannot see; their work may slow it down by
half for minutes, and no counter of its kernel reports it.
"""

from __future__ import annotations

import statistics
import time

#: Larger than the caches that a core has for itself; copied in about a thousandth of a second.
_SIZE = 8 << 20

#: Long enough that an interrupt of the kernel, or a process that wakes up, is a small part.
_SECONDS = 0.25


def measured() -> dict[str, float]:
    """When it was measured, and the median CPU time in which a core copied 8 MiB.

    CPU time, so that it does not count while another process has the core.
    """
    source, target = bytes(_SIZE), bytearray(_SIZE)
    target[:] = source  # the first copy waits for the kernel to hand out the pages
    took = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        began = time.thread_time_ns()
        target[:] = source
        took.append(time.thread_time_ns() - began)
    return {"t": round(time.time(), 6), "memory_copy_ns": statistics.median(took)}
