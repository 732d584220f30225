"""pidstat (sysstat): CPU, memory, I/O and context switches of every active process, each four seconds.

It reads several files of every process, and so costs more than all others that only read a few: once a
second it took a third of a percent of a CPU-bound load's throughput. A sample is one line: means of one
process over the seconds since the last one. A process is named by ``pid command``, the command
being the kernel's 15 characters, which may hold spaces; ``-l`` would print arguments instead, and
so might print passwords. A kernel thread is a process as any other. Context switches are of a
process's first thread only: those of a program of many threads are not seen. Values that pidstat
may not read, it prints as -1.00 (the I/O of others, without root): they have no row.
"""

import polars as pl

from benchlab.observers._text import KIB, OsSamples, fail, shown, whole_lines

COMMAND = ("pidstat", "-h", "-H", "-u", "-r", "-d", "-w", "4")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}
STOP_SIGNAL = "SIGTERM"

# pidstat(1): column → metric and what its value is multiplied by. User id and the CPU last run on
# are no measurements.
_COLUMNS = {
    "%usr": ("user_percent", 1),
    "%system": ("system_percent", 1),
    "%guest": ("guest_percent", 1),
    "%wait": ("cpu_wait_percent", 1),
    "%CPU": ("cpu_percent", 1),
    "minflt/s": ("minor_faults_per_s", 1),
    "majflt/s": ("major_faults_per_s", 1),
    "VSZ": ("virtual_bytes", KIB),
    "RSS": ("resident_bytes", KIB),
    "%MEM": ("memory_percent", 1),
    "kB_rd/s": ("read_bytes_per_s", KIB),
    "kB_wr/s": ("write_bytes_per_s", KIB),
    "kB_ccwr/s": ("cancelled_write_bytes_per_s", KIB),
    "iodelay": ("io_delay_ticks", 1),
    "cswch/s": ("voluntary_switches_per_s", 1),
    "nvcswch/s": ("involuntary_switches_per_s", 1),
}


def samples(text: str, truncated_ok: bool = False) -> pl.DataFrame:
    """Return rows of ``os_sample``: subject is ``pid command``.

    Raises:
        ParseError: the text is not what ``COMMAND`` prints.
    """
    found = OsSamples("pidstat")
    lines = whole_lines("pidstat", text, truncated_ok)
    if lines and not lines[0].startswith("Linux "):
        fail("pidstat", 1, f"no head of pidstat: {shown(lines[0])}")
    columns: list[str] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        if line.startswith("#"):
            columns = line[1:].split()
            if columns[:3] != ["Time", "UID", "PID"] or columns[-1] != "Command":
                fail("pidstat", number, f"no head of pidstat -h -H: {shown(line)}")
            continue
        if not columns:
            fail("pidstat", number, f"no head of pidstat -h -H: {shown(line)}")
        fields = line.split(None, len(columns) - 1)
        if len(fields) == len(columns) - 1:
            fields.append("")  # a process may have an empty name
        if len(fields) != len(columns):
            fail("pidstat", number, f"{len(fields)} fields, not {len(columns)}: {shown(line)}")
        row = dict(zip(columns, fields, strict=True))
        try:
            t, subject = float(int(row["Time"])), f"{int(row['PID'])} {row['Command']}"
            values = {name: float(row[name]) for name in _COLUMNS if name in row}
        except ValueError:
            fail("pidstat", number, f"no process: {shown(line)}")
        for name, value in values.items():
            if value >= 0:
                metric, factor = _COLUMNS[name]
                found.add(t, subject, metric, value * factor)
    return found.frame()
