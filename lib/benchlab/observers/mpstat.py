"""mpstat (sysstat): per-second time of every CPU.

Its capture is kept, but no rows are made from it.
"""

COMMAND = ("mpstat", "-o", "JSON", "-P", "ALL", "1")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}
STOP_SIGNAL = "SIGINT"
