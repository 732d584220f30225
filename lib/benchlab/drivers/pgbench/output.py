"""pgbench 15: progress lines, results, errors, and the log of every transaction.

Written for ``pgbench --progress=1 --progress-timestamp --log --failures-detailed``. What to know
about it:

- pgbench prints the results to standard output at the end, and progress and errors to the error
  output as they occur. Here both are one text, in which the first line of the results comes early
  and the others last.
- A progress line has the time at which it was printed. Progress counts from the start of the
  threads, that is, before the clients connect. A line that is late covers a longer time; no line is
  repeated.
- ``-T`` counts from there, too. ``tps`` in the results leaves out the time in which the clients
  connected.
- The standard deviation of a second is the root of a difference, which rounding may make negative
  if one transaction ended: then ``NaN`` is printed.
- There is no histogram of the latencies. The log has a line for every transaction; each thread
  writes its own file. The columns are: client, number of its transaction, microseconds, number of
  the script, end in seconds and microseconds since 1970, with ``--rate`` the microseconds after it
  was due, with ``--max-tries`` how often it was repeated. A failed transaction has ``serialization``
  or ``deadlock`` in place of its microseconds. With ``--rate`` the microseconds count from when the
  transaction was due.
- The log is written in blocks: if pgbench is killed, the last block is missing.
- pgbench waits for transactions that are still running at the end; log, results and ``tps`` include
  them.
- A lost connection or an SQL error ends a client; the others go on, results are printed, the exit
  code is 2.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from benchlab.errors import ParseError
from benchlab.raw.text import complete_lines, fail, shown, whole_lines

#: Columns that are kept of every transaction. ``outcome`` is ``ok``, ``serialization`` or
#: ``deadlock``; a failed transaction has no latency. ``lag_us`` is null without a rate, ``retries``
#: is null if no retry is allowed.
TRANSACTIONS = {
    "client": pl.Int32,
    "number": pl.Int64,
    "operation": pl.String,
    "ended_us": pl.Int64,
    "latency_us": pl.Int64,
    "outcome": pl.String,
    "lag_us": pl.Int64,
    "retries": pl.Int32,
}

_PROGRESS_SCHEMA = {
    "second": pl.Int64,
    "tps": pl.Float64,
    "latency_mean_us": pl.Float64,
    "failed": pl.Int64,
}

_PROGRESS = re.compile(
    r"progress: (\d+\.\d+) s, (\d+\.\d+) tps, lat (\d+\.\d+) ms stddev (?:\d+\.\d+|-?(?i:nan)),"
    r" (\d+) failed(?:, lag \d+\.\d+ ms)?(?:, \d+ retried, \d+ retries)?"
)
_ERROR = re.compile(r"pgbench: (?:error|fatal): (.*)")
_AFTER_AN_ERROR = ("pgbench: ", "pgbench (", "progress: ", "transaction type: ", "WARNING: ")

#: Values that the results must have: name → pattern of its line.
_RESULTS = {
    "transactions": re.compile(r"number of transactions actually processed: (\d+)(?:/\d+)?"),
    "failed": re.compile(r"number of failed transactions: (\d+) .*"),
    "connecting_ms": re.compile(r"initial connection time = (\d+\.\d+) ms"),
    "tps": re.compile(r"tps = (\d+\.\d+) \(without initial connection time\)"),
}
_DURATION = re.compile(r"duration: (\d+) s")
_RETRIES = re.compile(r"total number of retries: (\d+)")


def messages(text: str) -> list[str]:
    """Return the lines that are not empty, without the hint that pgbench adds to an error."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("pgbench: hint: ")]


def printed_at(line: str) -> float | None:
    """Return the Unix time of a progress line; ``None`` if the line is not one."""
    match = _PROGRESS.fullmatch(line)
    return match and float(match[1])


def second_of(line: str) -> tuple[int, float] | None:
    """Return the Unix second in which a progress line was printed and its transactions per second.

    ``None`` if the line is not a progress line.
    """
    match = _PROGRESS.fullmatch(line)
    return match and (int(float(match[1])), float(match[2]))


def progress(text: str) -> pl.DataFrame:
    """Return one row per progress line: ``second``, ``tps``, ``latency_mean_us``, ``failed``.

    ``second`` counts from the start of the threads to the line, rounded; ``latency_mean_us`` is
    null if no transaction ended. The text may be cut anywhere.

    Raises:
        ParseError: the text is not pgbench's, or a line that starts like a progress line is none.
    """
    rows: list[tuple[int, float, float | None, int]] = []
    first = 0.0
    for number, line in enumerate(_of_pgbench(complete_lines(text)), start=1):
        match = _PROGRESS.fullmatch(line)
        if match is None:
            if line.startswith("progress: "):
                fail("pgbench", number, f"no progress: {shown(line)}")
            continue
        stamp, tps, latency, failed = match.groups()
        first = first or float(stamp)
        second = 1 + round(float(stamp) - first)
        if rows:
            second = max(second, rows[-1][0] + 1)
        rows.append((second, float(tps), float(f"{latency}e3") or None, int(failed)))
    return pl.DataFrame(rows, schema=_PROGRESS_SCHEMA, orient="row")


def results(text: str) -> dict[str, float]:
    """Return the results of a run that ended well.

    Keys: ``transactions`` (without the failed ones), ``failed``, ``connecting_ms``, ``tps``;
    ``duration_s`` if time ended the run, ``retries`` if any were allowed.

    Raises:
        ParseError: the results are not whole, or the run was aborted.
    """
    lines = _of_pgbench(whole_lines("pgbench", text))
    if found := errors(text):
        fail("pgbench", len(lines), f"the run was aborted: {found[0]}")
    values: dict[str, float] = {}
    patterns = {**_RESULTS, "duration_s": _DURATION, "retries": _RETRIES}
    for line in lines:
        for name, pattern in patterns.items():
            if name not in values and (match := pattern.fullmatch(line)):
                values[name] = float(match[1])
        if "tps" in values:
            break  # results of each script follow; the log has them more precisely
    for name, pattern in _RESULTS.items():
        if name not in values:
            fail("pgbench", len(lines), f"the results have no {pattern.pattern!r}")
    return values


def errors(text: str) -> list[str]:
    """Return the error messages, in order; a message of several lines is joined into one.

    Failures that ``--max-tries`` applies to are counted in progress and results, not printed.
    """
    found: list[str] = []
    inside = False
    for line in text.split("\n"):
        if match := _ERROR.match(line):
            found.append(match[1].strip())
            inside = True
        elif line.startswith(_AFTER_AN_ERROR):
            inside = False
        elif inside and line.strip("\t ^"):
            found[-1] += f" {line.strip()}"
    return found


def transactions(
    paths: Sequence[Path], operations: Sequence[str], rated: bool, retried: bool
) -> pl.LazyFrame:
    """Return the transactions of the log (:data:`TRANSACTIONS`), file by file, in the files' order.

    A last line without a newline, as a killed pgbench leaves it, is left out.

    Args:
        paths: files of the log; an incomplete last line is removed from them.
        operations: names of the scripts, in the order of the command line.
        rated: whether ``--rate`` was given.
        retried: whether ``--max-tries`` was not 1.

    Raises:
        ParseError: when the rows are read, if a line does not belong to such a log.
    """
    written = {
        "client": pl.Int32,
        "number": pl.Int64,
        "time": pl.String,
        "script": pl.Int32,
        "seconds": pl.Int64,
        "microseconds": pl.Int64,
        **({"lag_us": pl.Int64} if rated else {}),
        **({"retries": pl.Int32} if retried else {}),
    }
    for path in paths:
        _end_with_a_line(path)
    frames = [
        pl.scan_csv(path, separator=" ", has_header=False, schema=written, quote_char=None)
        for path in paths
        if path.stat().st_size
    ]
    if not frames:
        return pl.LazyFrame(schema=TRANSACTIONS)
    failed = pl.col("time").is_in(["serialization", "deadlock"])
    names = dict(enumerate(operations))
    return (
        pl.concat(frames)
        .with_columns(
            operation=pl.col("script").replace_strict(names, return_dtype=pl.String),
            ended_us=pl.col("seconds") * 1_000_000 + pl.col("microseconds"),
            latency_us=pl.when(~failed).then(pl.col("time")).cast(pl.Int64),
            outcome=pl.when(failed).then(pl.col("time")).otherwise(pl.lit("ok")),
            **({} if rated else {"lag_us": pl.lit(None, pl.Int64)}),
            **({} if retried else {"retries": pl.lit(None, pl.Int32)}),
        )
        .select(*TRANSACTIONS)
    )


def write_transactions(log: pl.LazyFrame, path: Path) -> None:
    """Write what :func:`transactions` reads to a Parquet file, part by part.

    Raises:
        ParseError: a line does not belong to such a log.
    """
    try:
        log.sink_parquet(path, compression="zstd")
    except pl.exceptions.PolarsError as error:
        path.unlink(missing_ok=True)
        raise ParseError(
            f"pgbench: the log of transactions: {str(error).splitlines()[0]}"
        ) from error


def _end_with_a_line(path: Path) -> None:
    """Remove a last line that does not end in a newline."""
    with path.open("rb+") as stream:
        size = stream.seek(0, 2)
        begin = max(0, size - 4096)  # a line has a hundred characters at most
        stream.seek(begin)
        tail = stream.read()
        stream.truncate(begin + tail.rfind(b"\n") + 1)


def _of_pgbench(lines: list[str]) -> list[str]:
    """Return the lines, once it is known that pgbench printed them."""
    if lines and not any(line.startswith(("pgbench (", "pgbench: ")) for line in lines):
        fail("pgbench", 1, f"no output of pgbench: {shown(lines[0])}")
    return lines
