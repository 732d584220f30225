"""mpstat (sysstat): per-second time of every CPU.

The date stands once, at the head; a sample has the time of day only, so a time far earlier than
the one before it is of the next day. Timestamps have whole seconds.
"""

from datetime import UTC, datetime, timedelta

import polars as pl

from benchlab.observers._sysstat import read
from benchlab.observers._text import OsSamples, fail

COMMAND = ("mpstat", "-o", "JSON", "-P", "ALL", "1")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}
STOP_SIGNAL = "SIGINT"

# mpstat(1), -u
_CPU = {
    "usr": "user_percent",
    "nice": "nice_percent",
    "sys": "system_percent",
    "iowait": "iowait_percent",
    "irq": "irq_percent",
    "soft": "softirq_percent",
    "steal": "steal_percent",
    "guest": "guest_percent",
    "gnice": "guest_nice_percent",
    "idle": "idle_percent",
}


def samples(text: str, truncated_ok: bool = False) -> pl.DataFrame:
    """Return rows of ``os_sample``: subject is the CPU's number, or ``all`` for their mean.

    Raises:
        ParseError: the text is not what ``COMMAND`` prints.
    """
    date, read_samples = read("mpstat", text, truncated_ok)
    found, previous = OsSamples("mpstat"), None
    for number, sample in enumerate(read_samples, start=1):
        try:
            moment = datetime.strptime(f"{date} {sample['timestamp']}", "%Y-%m-%d %H:%M:%S")
            # half a day: a clock that is set back by seconds is no midnight
            while previous is not None and previous - moment > timedelta(hours=12):
                moment += timedelta(days=1)
            previous = moment
            t = moment.replace(tzinfo=UTC).timestamp()
            for cpu in sample["cpu-load"]:
                for key, metric in _CPU.items():
                    if key in cpu:
                        found.add(t, str(cpu["cpu"]), metric, float(cpu[key]))
        except (KeyError, TypeError, ValueError) as error:
            fail("mpstat", 1, f"sample {number} is not one of mpstat -P ALL: {error}")
    return found.frame()
