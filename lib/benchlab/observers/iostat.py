"""iostat (sysstat): per-second rates of every block device, and the CPU's time.

Its capture is kept, but no rows are made from it: the agent samples what attribution needs to know
about the disk, above the throttle. ``%util`` is the share of time in which the device had a request in
flight. Throttling happens above the device, so ``%util`` means little under an envelope. ``-y`` omits
the first report, which covers the time since boot.
"""

COMMAND = ("iostat", "-o", "JSON", "-x", "-t", "-y", "1")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}
STOP_SIGNAL = "SIGINT"
