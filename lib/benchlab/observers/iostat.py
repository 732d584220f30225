"""iostat (sysstat): per-second rates of every block device, and the CPU's time.

The first report, since boot, is left out by ``-y``. Timestamps have whole seconds. ``util_percent``
is the share of time in which the device had a request in flight: throttling stands above the
device, so under an envelope it says little.
"""

from datetime import datetime

import polars as pl

from benchlab.observers._sysstat import read
from benchlab.observers._text import KIB, OsSamples, fail

COMMAND = ("iostat", "-o", "JSON", "-x", "-t", "-y", "1")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}
STOP_SIGNAL = "SIGINT"

# iostat(1), CPU Utilization Report
_CPU = {
    "user": "user_percent",
    "nice": "nice_percent",
    "system": "system_percent",
    "iowait": "iowait_percent",
    "steal": "steal_percent",
    "idle": "idle_percent",
}

# iostat(1), Device Utilization Report: key → metric and what its value is multiplied by
_DEVICE = {
    "r/s": ("reads_per_s", 1),
    "w/s": ("writes_per_s", 1),
    "d/s": ("discards_per_s", 1),
    "f/s": ("flushes_per_s", 1),
    "rkB/s": ("read_bytes_per_s", KIB),
    "wkB/s": ("write_bytes_per_s", KIB),
    "dkB/s": ("discard_bytes_per_s", KIB),
    "rrqm/s": ("reads_merged_per_s", 1),
    "wrqm/s": ("writes_merged_per_s", 1),
    "drqm/s": ("discards_merged_per_s", 1),
    "rrqm": ("reads_merged_percent", 1),
    "wrqm": ("writes_merged_percent", 1),
    "drqm": ("discards_merged_percent", 1),
    "r_await": ("read_await_ms", 1),
    "w_await": ("write_await_ms", 1),
    "d_await": ("discard_await_ms", 1),
    "f_await": ("flush_await_ms", 1),
    "rareq-sz": ("read_request_bytes", KIB),
    "wareq-sz": ("write_request_bytes", KIB),
    "dareq-sz": ("discard_request_bytes", KIB),
    "aqu-sz": ("queue_requests", 1),
    "util": ("util_percent", 1),
}


def samples(text: str, truncated_ok: bool = False) -> pl.DataFrame:
    """Return rows of ``os_sample``: subject is the device, or ``all`` for the CPU's time.

    Raises:
        ParseError: the text is not what ``COMMAND`` prints.
    """
    found = OsSamples("iostat")
    for number, sample in enumerate(read("iostat", text, truncated_ok)[1], start=1):
        try:
            t = datetime.strptime(sample["timestamp"], "%Y-%m-%dT%H:%M:%S%z").timestamp()
            for key, metric in _CPU.items():
                if key in sample["avg-cpu"]:
                    found.add(t, "all", metric, float(sample["avg-cpu"][key]))
            for device in sample["disk"]:
                name = str(device["disk_device"])
                for key, (metric, factor) in _DEVICE.items():
                    if key in device:
                        found.add(t, name, metric, float(device[key]) * factor)
        except (KeyError, TypeError, ValueError) as error:
            fail("iostat", 1, f"sample {number} is not one of iostat -x -t: {error}")
    return found.frame()
