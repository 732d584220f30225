"""vmstat (procps): per-second state of memory, swap, block I/O and CPU of the whole host.

The first report, the means since boot, has no rows (not every vmstat can omit it itself).
Memory is in KiB and blocks are of 1,024 bytes (vmstat(8)). Timestamps are in whole seconds.
"""

from datetime import UTC, datetime

import polars as pl

from benchlab.observers._samples import KIB, OsSamples
from benchlab.raw.text import complete_lines, fail, shown

COMMAND = ("vmstat", "-t", "-n", "-w", "1")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC"}
STOP_SIGNAL = "SIGTERM"

# vmstat(8), FIELD DESCRIPTION FOR VM MODE: column → metric and what its value is multiplied by
_COLUMNS = {
    "r": ("runnable_processes", 1),
    "b": ("blocked_processes", 1),
    "swpd": ("swap_used_bytes", KIB),
    "free": ("memory_free_bytes", KIB),
    "buff": ("memory_buffer_bytes", KIB),
    "cache": ("memory_cache_bytes", KIB),
    "si": ("swap_in_bytes_per_s", KIB),
    "so": ("swap_out_bytes_per_s", KIB),
    "bi": ("read_bytes_per_s", KIB),
    "bo": ("write_bytes_per_s", KIB),
    "in": ("interrupts_per_s", 1),
    "cs": ("context_switches_per_s", 1),
    "us": ("user_percent", 1),
    "sy": ("system_percent", 1),
    "id": ("idle_percent", 1),
    "wa": ("iowait_percent", 1),
    "st": ("steal_percent", 1),
    "gu": ("guest_percent", 1),
}


def samples(text: str) -> pl.DataFrame:
    """Return rows of ``os_sample``; the only subject is ``all``.

    Raises:
        ParseError: the text is not what ``COMMAND`` prints.
    """
    found = OsSamples("vmstat")
    lines = complete_lines(text)
    if lines and not lines[0].startswith("--procs"):
        fail("vmstat", 1, f"no head of vmstat -w: {shown(lines[0])}")
    columns: list[str] = []
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split()
        if number == 2:
            columns = fields
            if columns[:2] != ["r", "b"] or columns[-1] != "UTC":
                fail("vmstat", 2, f"no head of vmstat -t in UTC: {shown(line)}")
            continue
        # the timestamp is one column with two fields
        if len(fields) != len(columns) + 1:
            fail("vmstat", number, f"{len(fields)} fields, not {len(columns) + 1}: {shown(line)}")
        try:
            moment = datetime.strptime(" ".join(fields[-2:]), "%Y-%m-%d %H:%M:%S")
            values = [int(field) for field in fields[:-2]]
        except ValueError:
            fail("vmstat", number, f"no report: {shown(line)}")
        if number == 3:
            continue  # the means since boot
        t = moment.replace(tzinfo=UTC).timestamp()
        for column, value in zip(columns[:-1], values, strict=True):
            if column in _COLUMNS:
                metric, factor = _COLUMNS[column]
                found.add(t, "all", metric, float(value * factor))
    return found.frame()
