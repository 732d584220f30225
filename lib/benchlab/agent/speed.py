"""The host's present speed, measured with a fixed piece of work.

A virtual machine shares memory and cores with others that it cannot see. Their work may halve its speed
for minutes, and no counter of its kernel shows that.
"""

from __future__ import annotations

import statistics
import time

#: Bytes to copy: larger than a core's private caches; one copy takes about 1 ms.
_SIZE = 8 << 20

#: Long enough that a kernel interrupt or a process that wakes up is a small part of it.
_SECONDS = 0.25


def measured() -> dict[str, float]:
    """Return the time of the measurement, and the median CPU time in which a core copied 8 MiB.

    ``t`` is in Unix seconds, ``memory_copy_ns`` in nanoseconds. CPU time excludes the time in which
    another process has the core.
    """
    source, target = bytes(_SIZE), bytearray(_SIZE)
    target[:] = source  # the first copy waits for the kernel to allocate the pages
    took = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        began = time.thread_time_ns()
        target[:] = source
        took.append(time.thread_time_ns() - began)
    return {"t": round(time.time(), 6), "memory_copy_ns": statistics.median(took)}
