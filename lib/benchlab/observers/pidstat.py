"""pidstat (sysstat): CPU, memory, I/O and context switches of every active process, each four seconds.

Its capture is kept and no row is made of it. It reads several files of every process, and so costs more
than all others that only read a few: once a second it took a third of a percent of a CPU-bound load's
throughput. A process is named by ``pid command``, the command being the kernel's 15 characters;
``-l`` would print arguments instead, and so might print passwords.
"""

COMMAND = ("pidstat", "-h", "-H", "-u", "-r", "-d", "-w", "4")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}
STOP_SIGNAL = "SIGTERM"
