"""The agent's ``sample``: counters of the kernel for the envelope's groups, its disk, and pressure.

One JSON object a line. The first is a header, without ``t``. Every other has the kernel's counters,
which are cumulative; null means that there is nothing to count. A counter's row is its mean rate since
the line before. A counter that has gone back (its group was created again) has no row for that
interval. Sizes are not converted to rates.
"""

import json
from typing import Any

import polars as pl

from benchlab.observers._samples import OsSamples
from benchlab.raw.text import complete_lines, fail, shown
from benchlab.target.host import AGENT

COMMAND = (*AGENT, "sample", "--interval", "1")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC"}
STOP_SIGNAL = "SIGTERM"

# (group, key) → subject, metric
_COUNTERS = {
    ("cpu", "engine"): ("engine", "cpu_us_per_s"),
    ("cpu", "client"): ("client", "cpu_us_per_s"),
    ("cpu", "total_throttled_us"): ("total", "cpu_throttled_us_per_s"),
    ("cpu", "nr_periods"): ("total", "cpu_periods_per_s"),
    ("cpu", "nr_throttled"): ("total", "cpu_throttled_periods_per_s"),
    ("cpu", "client_nr_periods"): ("client", "cpu_periods_per_s"),
    ("cpu", "client_nr_throttled"): ("client", "cpu_throttled_periods_per_s"),
    ("memory", "failcnt"): ("total", "memory_limit_hits_per_s"),
    ("memory", "oom_kill"): ("total", "oom_kills_per_s"),
    ("memory", "major_faults"): ("total", "major_faults_per_s"),
    ("memory", "refaults"): ("total", "refaults_per_s"),
    ("disk", "read_bytes"): ("disk", "read_bytes_per_s"),
    ("disk", "write_bytes"): ("disk", "write_bytes_per_s"),
    ("disk", "read_ios"): ("disk", "reads_per_s"),
    ("disk", "write_ios"): ("disk", "writes_per_s"),
    ("host", "busy_us"): ("host", "cpu_us_per_s"),
    ("host", "kernel_threads_us"): ("kernel threads", "cpu_us_per_s"),
    ("network", "rx_bytes"): ("network", "received_bytes_per_s"),
    ("network", "tx_bytes"): ("network", "sent_bytes_per_s"),
    **{
        (f"psi {resource}", f"{share}_us"): (f"psi {resource}", f"{share}_us_per_s")
        for resource in ("cpu", "io", "memory")
        for share in ("some", "full")
    },
}
_GROUPS = ("cpu", "services", "memory", "disk", "host", "network")
_SIZES = {
    ("memory", "engine_bytes"): ("engine", "memory_bytes"),
    ("memory", "total_bytes"): ("total", "memory_bytes"),
    ("memory", "limit_bytes"): ("total", "memory_limit_bytes"),
    ("host", "runnable_tasks"): ("host", "runnable_tasks"),
    ("network", "speed_bytes_per_s"): ("network", "speed_bytes_per_s"),
}


def samples(text: str) -> pl.DataFrame:
    """Return rows of ``os_sample``.

    Subject is ``engine``, ``client`` or ``total`` (groups), ``engine <service>`` (of several), ``disk``
    (the envelope's), ``psi cpu``, ``psi io``, ``psi memory``, ``host``, ``kernel threads`` (of the
    host), or ``network`` (the host's links with a device; if it has none, all but loopback).

    Raises:
        ParseError: the text is not what the agent prints; or its clock went back.
    """
    found = OsSamples("sample")
    t_before, before = None, {}
    for number, line in enumerate(complete_lines(text), start=1):
        content = _object(number, line)
        if number == 1 and "t" not in content:
            continue  # the header
        t, now = _values(number, content)
        if t_before is not None and t <= t_before:
            fail("sample", number, f"t = {t} is not after {t_before}")
        for key, value in now.items():
            if key in _SIZES:
                found.add(t, *_SIZES[key], value)
            elif key in before and value >= before[key]:
                found.add(t, *_counter(key), (value - before[key]) / (t - t_before))
        t_before, before = t, now
    return found.frame()


def _counter(key: tuple[str, str]) -> tuple[str, str]:
    group, name = key
    return (f"engine {name}", "cpu_us_per_s") if group == "services" else _COUNTERS[key]


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except ValueError:
        fail("sample", number, f"no JSON: {shown(line)}")
    if not isinstance(content, dict):
        fail("sample", number, f"no object: {shown(line)}")
    return content


def _values(number: int, content: dict[str, Any]) -> tuple[float, dict[tuple[str, str], float]]:
    try:
        # null: there is nothing to count
        groups = {name: content.get(name) or {} for name in _GROUPS}
        groups |= {f"psi {name}": value for name, value in (content.get("psi") or {}).items()}
        values = {
            (group, key): float(value)
            for group, members in groups.items()
            for key, value in members.items()
            if value is not None
        }
        t = float(content["t"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        fail("sample", number, f"no sample: {type(error).__name__}: {error}")
    unknown = {
        key for key in values.keys() - _COUNTERS.keys() - _SIZES.keys() if key[0] != "services"
    }
    if unknown:
        names = ", ".join(sorted(" ".join(key) for key in unknown))
        known = ", ".join(" ".join(key) for key in (*_COUNTERS, *_SIZES))
        fail("sample", number, f"unknown counters: {names}; known: {known}")
    return t, values
