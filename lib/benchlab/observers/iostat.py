"""iostat (sysstat): per-second rates of every block device, and the CPU's time.

Its capture is kept and no row is made of it: what attribution needs of the disk, the agent samples
above the throttle. ``%util`` is the share of time in which the device had a request in flight:
throttling stands above the device, so under an envelope it means little. The first report, since boot,
is left out by ``-y``.
"""

COMMAND = ("iostat", "-o", "JSON", "-x", "-t", "-y", "1")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}
STOP_SIGNAL = "SIGINT"
