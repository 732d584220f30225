"""perf: where the CPU's time goes, as call stacks sampled 49 times a second on every CPU.

``cpu-clock`` is a timer, which every virtual machine has; many have no hardware counters. Stacks are
walked by frame pointers, so those of programs built without them are short. ``swapper`` is the idle
CPU. Samples carry the time of day, so that those of the measured part can be separated from those of
the warm-up. perf ends itself with the signal that stopped it, so its exit status means nothing.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable

import polars as pl

from benchlab.raw.text import fail, shown, whole_lines

COMMAND = (
    "perf",
    "record",
    "-q",
    "-B",
    "--no-bpf-event",
    "-k",
    "CLOCK_REALTIME",
    "-e",
    "cpu-clock",
    "-F",
    "49",
    "-g",
    "-a",
    "-o",
    "perf.data",
)
THEN = ("perf", "script", "-i", "perf.data", "-F", "comm,pid,tid,cpu,time,event,ip,sym,dso")
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC"}
STOP_SIGNAL = "SIGINT"

_SCHEMA = {"comm": pl.String, "stack": pl.String, "samples": pl.Int64}

# "two words 7  2547/2547  [000]  2532.722083: cpu-clock: "
_SAMPLE = re.compile(r"(?P<comm>.*?)\s+-?\d+/-?\d+\s+\[\d+\]\s+(?P<t>\d+\.\d+):\s+\S+:\s*")
# "	ffffffff81e31462 __sys_sendto ([kernel.kallsyms])"; symbols and paths may hold spaces and
# brackets
_FRAME = re.compile(r"\s+[0-9a-f]+ (?P<symbol>.*?) \((?P<dso>[/\[].*|[^()]*)\)")
_FOLDED = re.compile(r"(?P<comm>[^;]*?)(?:;(?P<stack>.*))? (?P<samples>\d+)")


def fold(
    lines: Iterable[str],
    begin: float = -math.inf,
    end: float = math.inf,
) -> str:
    """Return the stacks of ``perf script`` in the folded form of flame graphs.

    One line per distinct stack, sorted: ``comm;outermost;…;innermost count``. A frame without a
    symbol is named by its file, in brackets. A sample without any frame counts for its command.

    Args:
        lines: what ``THEN`` prints, each line with its newline. They are read once and not kept: those
            of a long run have a gigabyte.
        begin: earlier samples do not count; Unix seconds, the clock that ``COMMAND`` sets for perf.
        end: later samples do not count; Unix seconds.

    Raises:
        ParseError: the lines are not what ``THEN`` prints.
    """
    counts: Counter[str] = Counter()
    stack: list[str] | None = None
    t, number = math.nan, 0
    for number, whole in enumerate(lines, start=1):
        line = whole.removesuffix("\n")
        if line == whole:
            fail("perf script", number, "cut in the middle of the line")
        if line.startswith("#"):
            continue
        if stack is None:
            if line:
                sample = _match(_SAMPLE, number, line, "sample")
                stack, t = [_part(sample["comm"])], float(sample["t"])
        elif line:
            stack.insert(1, _frame(_match(_FRAME, number, line, "frame")))
        else:
            if begin <= t <= end:
                counts[";".join(stack)] += 1
            stack = None
    if stack is not None:
        fail("perf script", number, "cut in the middle of a sample")
    return "".join(f"{name} {count}\n" for name, count in sorted(counts.items()))


def stacks(text: str) -> pl.DataFrame:
    """Return folded stacks as rows of ``perf_stack``: comm, stack, samples.

    Raises:
        ParseError: the text is not what :func:`fold` returns.
    """
    rows = []
    lines = whole_lines("folded stacks", text) if text else []
    for number, line in enumerate(lines, start=1):
        match = _FOLDED.fullmatch(line)
        if match is None:
            fail("folded stacks", number, f"no stack: {shown(line)}")
        rows.append((match["comm"], match["stack"] or "", int(match["samples"])))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _match(pattern: re.Pattern[str], number: int, line: str, what: str) -> re.Match[str]:
    match = pattern.fullmatch(line)
    if match is None:
        fail("perf script", number, f"no {what}: {shown(line)}")
    return match


def _frame(match: re.Match[str]) -> str:
    if match["symbol"] == "[unknown]":
        return _part(f"[{match['dso'].strip('[]').rpartition('/')[2]}]")
    return _part(match["symbol"])


def _part(name: str) -> str:
    """Return a name as a part of a folded line, in which ``;`` separates."""
    return name.strip().replace(";", ":")
