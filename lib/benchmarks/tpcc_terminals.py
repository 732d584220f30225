"""How many of TPC-C's terminals does a core drive at their pace, in how much memory, how late?

Several processes of the emulator run on one core, with the inputs and the HTTP of a real load.
Application servers that answer at once run on the other cores. Each emulator has its own server at its
own address, since a process may have some 20,000 open files, and an address some 28,000 connections to
another one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchlab import stats
from benchlab.drivers.tpcc import limits, rte
from benchlab.drivers.tpcc.limits import TERMINALS
from benchlab.repo import Repo
from benchlab.stats import Estimate
from rich.console import Console
from table import Row

#: Processes of the emulator, and warehouses per process.
PROCESSES, WAREHOUSES = 7, 1500

#: Seconds in which the terminals connect; number and seconds of the measured windows after that.
RAMP_UP_S, WINDOWS, WINDOW_S = 60, 6, 10

_NULL_WAS = Path(__file__).with_name("tpcc_null_was.py")
_PORT = 37_000

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def measure(checkout: Repo, console: Console) -> Iterator[Row]:
    """Yield the terminals that a fully used core would drive, KiB per terminal, and lateness."""
    del checkout  # not needed
    *others, own = sorted(os.sched_getaffinity(0))
    terminals = WAREHOUSES * TERMINALS
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="benchlab-bench-") as records:
        urls = [_null_was(stack, others or [own], number) for number in range(PROCESSES)]
        programs = [
            _emulator(stack, own, url, number, Path(records)) for number, url in enumerate(urls)
        ]
        with console.status(f"{PROCESSES * terminals:,} terminals connect in {RAMP_UP_S} s"):
            for program in programs:
                _await_begun(program)
        used = []
        with console.status(f"{WINDOWS * WINDOW_S} s of their load"):
            for _ in range(WINDOWS):
                begin, before = time.monotonic(), _cpu_s(programs)
                time.sleep(WINDOW_S)
                used.append((_cpu_s(programs) - before) / (time.monotonic() - begin))
        memory_kib = [_memory_kib(program) / terminals for program in programs]
        for program in programs:
            program.terminate()
        totals = [json.loads(program.communicate()[0].splitlines()[-1]) for program in programs]
    if any(one["errors"] or one["lost"] or one["refused"] for one in totals):
        raise SystemExit(f"terminals failed: there is nothing to compare: {totals}")
    done = sum(one["all"] for one in totals) / sum(one["seconds"] for one in totals) * PROCESSES
    at_once = f"of {PROCESSES * terminals:,} at once, {done:,.0f} transactions per second"
    yield Row(
        f"terminals per core used, {at_once}",
        stats.median([PROCESSES * terminals / cores for cores in used]),
        "≥ 100,000",
    )
    yield Row("KiB per terminal, all of a process in it", stats.median(memory_kib), "≤ 8")
    late_ms = max(one["late_p99_ms"] for one in totals)
    yield Row(
        f"ms by which 1 % of the requests are late, {stats.median(used).value:.2f} of the core used",
        Estimate(late_ms, None, None, 1),
        f"< {limits.LATE}",
    )


def _null_was(stack: ExitStack, cores: Sequence[int], number: int) -> str:
    """Start a server; return its URL."""
    address = f"127.0.0.{2 + number}"
    program = stack.enter_context(
        _pinned(cores, [str(_NULL_WAS), address, str(_PORT)], stdin=subprocess.PIPE)
    )
    stack.callback(program.terminate)
    program.stdout.readline()
    return f"http://{address}:{_PORT}"


def _emulator(
    stack: ExitStack, core: int, url: str, number: int, records: Path
) -> subprocess.Popen[str]:
    options = {
        "was": url,
        "warehouses": f"{number * WAREHOUSES + 1}-{(number + 1) * WAREHOUSES}",
        "of-warehouses": PROCESSES * WAREHOUSES,
        "c-last": 1,
        "c-id": 2,
        "ol-i-id": 3,
        "ramp-up-s": RAMP_UP_S,
        "duration-s": 3600,
        "records": records,
    }
    argv = ["-m", rte.__name__, *(f"--{name}={value}" for name, value in options.items())]
    program = stack.enter_context(_pinned([core], argv))
    stack.callback(program.terminate)
    return program


def _pinned(
    cores: Sequence[int], argv: Sequence[str], stdin: int | None = None
) -> subprocess.Popen[str]:
    command = ["taskset", "--cpu-list", ",".join(map(str, cores)), sys.executable, *argv]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True)


def _await_begun(program: subprocess.Popen[str]) -> None:
    for line in program.stdout:
        if line.startswith("begun "):
            return
    raise SystemExit("an emulator failed: there is nothing to compare")


def _cpu_s(programs: Sequence[subprocess.Popen[str]]) -> float:
    """Return the CPU time that programs have used, in seconds."""
    ticks = 0
    for program in programs:
        fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def _memory_kib(program: subprocess.Popen[str]) -> int:
    for line in Path(f"/proc/{program.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise SystemExit("an emulator has ended: there is nothing to compare")
