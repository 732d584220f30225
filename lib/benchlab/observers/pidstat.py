"""pidstat (sysstat): CPU, memory, I/O and context switches of every active process, every 4 s.

Its capture is kept, but no rows are made from it. It reads several files of every process, so it costs
more than all the other observers, which read only a few: run once a second, it took a third of a
percent of a CPU-bound load's throughput. A process is named by ``pid command``; the command is the
kernel's 15 characters. ``-l`` would print arguments instead, and these may hold passwords.
"""

COMMAND = ("pidstat", "-h", "-H", "-u", "-r", "-d", "-w", "4")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}
STOP_SIGNAL = "SIGTERM"
