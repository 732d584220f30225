"""pgbench 15 or later: its command lines, and what its run folders hold.

pgbench has no warm-up, so a trial has two invocations, as with sysbench. pgbench prints no histogram
and no seconds by script, so the measured invocation logs every transaction. The log is kept as
``transactions.parquet``, and all results by operation are computed from it. The password is read
from standard input into the environment, so that neither a process list nor a file shows it.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess

import polars as pl

from benchlab.drivers.base import (
    BUCKETS,
    CONTROL,
    MADE,
    MEASURE,
    OPERATIONS,
    SECONDS,
    Driver,
    Job,
    Measured,
    Phase,
    Process,
    Stage,
    Totals,
)
from benchlab.drivers.pgbench import output
from benchlab.drivers.seconds import of_every_operation
from benchlab.engines import Engine
from benchlab.errors import ParseError
from benchlab.raw import text
from benchlab.raw.files import TRANSACTIONS
from benchlab.study import Scalar, Workload

#: Phase → process that makes it.
_PROCESSES = {"warmup": "warmup", MEASURE: "pgbench"}

#: Shell command that runs a program with the password from standard input. It joins the program's
#: standard output and error output.
_WITH_PASSWORD = 'IFS= read -r PGPASSWORD && export PGPASSWORD && exec "$@" 2>&1'

#: The same, with the process id in a file, so that a signal can end it. The signal is ALRM: that of
#: pgbench's own timer, which ends it after its time.
_PID = CONTROL / "pgbench.pid"
_NUMBERED = f"echo $$ >{_PID}; {_WITH_PASSWORD}"
_STOP = ["sh", "-c", f'kill -ALRM "$(cat {_PID})" || true']  # it may have ended by itself

#: Percentile of the latencies in a second.
_PERCENTILE = 99

#: Significant digits to which a latency is rounded: 12,345 µs counts as 12,300 µs.
_DIGITS = 3


class Pgbench(Driver):
    """See :class:`~benchlab.drivers.base.Driver`."""

    name = "pgbench"
    program = "pgbench"
    protocols = ("postgres",)
    resolution = 10 ** (1 - _DIGITS)

    def stages(self, job: Job) -> list[Stage]:
        """See :meth:`Driver.stages`: the warm-up, if there is one, and the measured part.

        pgbench ends after a time or after a number of transactions. With a number that takes longer
        than ``measure_s`` and the stage's grace, the run fails.
        """
        argv = run(job, job.measure_s, job.seed, job.transactions)
        log = ["--log", f"--log-prefix={MADE / 'transactions'}", "--failures-detailed"]
        process = _process(
            job.engine,
            _PROCESSES[MEASURE],
            [*argv[:-1], *log, argv[-1]],
            makes_files=True,
            can_end_early=job.can_end_early,
        )
        measured = Stage([process], [Phase(MEASURE)], job.measure_s)
        if not job.warmup_s:
            return [measured]
        # with the same seed, the measured part would draw the same rows again
        argv = run(job, job.warmup_s, job.seed + 1)
        warmup = _process(job.engine, _PROCESSES["warmup"], argv, can_end_early=job.can_end_early)
        return [Stage([warmup], [Phase("warmup")], job.warmup_s), measured]

    def begun(self, line: str, now: float) -> float | None:
        """See :meth:`Driver.begun`.

        pgbench does not report when its clients start. Its first progress line comes a second after
        its threads start, or when all clients are connected if that takes longer. So the returned
        time is at most a second early.
        """
        del now
        printed_at = output.printed_at(line)
        return printed_at and printed_at - 1

    def second_of(self, line: str) -> tuple[int, float] | None:
        """See :meth:`Driver.second_of`; seconds of the Unix clock, as pgbench prints them."""
        return output.second_of(line)

    def failure(
        self, process: Process, ended: CompletedProcess[bytes], workload: Workload
    ) -> str | None:
        """See :meth:`Driver.failure`. An error is a transaction that failed in all its tries."""
        printed = (ended.stdout + ended.stderr).decode(errors="replace")
        if fatal := output.errors(printed):
            return fatal[0]
        if ended.returncode:
            said = output.messages(printed) or ["no message"]
            return f"ended with exit code {ended.returncode}: {said[-1]}"
        results = output.results(ended.stdout.decode(errors="replace"))
        if results["failed"] <= workload.tolerated_error_share * results["transactions"]:
            return None
        return f"{results['failed']:.0f} transactions failed, {results['transactions']:.0f} did not"

    def keep(self, process: Process, made: Sequence[Path], job: Job, folder: Path) -> None:
        """See :meth:`Driver.keep`: the log is kept as Parquet."""
        log = output.transactions(
            made,
            list(job.scripts),
            rated=job.rate_per_s is not None,
            retried=int(job.options.get("max-tries", 1)) != 1,
        )
        output.write_transactions(log, folder / TRANSACTIONS)

    def seconds(self, folder: Path, workload: Workload) -> pl.DataFrame:
        """See :meth:`Driver.seconds`: by operation from the log, or else from the progress lines."""
        frames = [pl.DataFrame(schema=SECONDS)]
        for phase, name in _PROCESSES.items():
            path = folder / f"{name}.out"
            if phase == MEASURE and (folder / TRANSACTIONS).exists():
                frames.append(_logged_seconds(folder, text.read(path)))
            elif path.exists():
                frames.append(_printed_seconds(text.read(path), phase, workload))
        return pl.concat(frames, how="diagonal").select(*SECONDS)

    def measured(self, folder: Path, workload: Workload) -> Measured:
        """See :meth:`Driver.measured`.

        Raises:
            ParseError: also if the log has another number of transactions than pgbench counted.
        """
        path = folder / f"{_PROCESSES[MEASURE]}.out"
        results = output.results(text.read(path) if path.exists() else "")
        if not (folder / TRANSACTIONS).exists():
            raise ParseError(f"pgbench: there is no {TRANSACTIONS}")
        log = pl.scan_parquet(folder / TRANSACTIONS)
        ok = pl.col("outcome") == "ok"
        operations = (
            log.group_by("operation")
            .agg(
                transactions=ok.sum(),
                errors=(~ok).sum(),
                retries=pl.when(pl.col("retries").count() > 0).then(pl.col("retries").sum()),
                latency_mean_us=pl.col("latency_us").mean(),
                latency_max_us=pl.col("latency_us").max(),
            )
            .sort("operation")
            .collect()
            .cast(OPERATIONS)
            .select(*OPERATIONS)
        )
        counted = (operations["transactions"].sum(), operations["errors"].sum())
        if counted != (results["transactions"], results["failed"]):
            raise ParseError(
                f"pgbench: the log has {counted[0]} transactions and {counted[1]} that failed,"
                f" pgbench counted {results['transactions']:.0f} and {results['failed']:.0f}"
            )
        if not counted[0]:
            raise ParseError("pgbench: no transaction ended well")
        totals = Totals(
            transactions=counted[0],
            errors=counted[1],
            seconds=results["transactions"] / results["tps"],
            latency_mean_us=log.select(pl.col("latency_us").mean()).collect().item(),
            latency_max_us=float(operations["latency_max_us"].max()),
        )
        return Measured(totals, operations, _histogram(log))


def run(job: Job, duration_s: int, seed: int, transactions: int | None = None) -> list[str]:
    """Command that runs the scripts for ``duration_s`` seconds and prints a line for each.

    Args:
        job: what is to be run.
        duration_s: seconds.
        seed: seed of the random numbers.
        transactions: transactions of all clients after which it ends, in place of the seconds;
            ``None``: it ends after the seconds.
    """
    files = [path for path in job.scripts.values() if path.startswith("/")]
    options = {name: value for name, value in job.options.items() if files or name != "scale"}
    fixed = {
        **_connection(job.engine),
        "no-vacuum": True,  # the dataset was vacuumed before it was kept
        **options,
        "client": job.clients,
        "jobs": min(job.clients, max(1, math.ceil(job.cores))),
        **({"transactions": transactions // job.clients} if transactions else {"time": duration_s}),
        **({"rate": job.rate_per_s} if job.rate_per_s else {}),
        "random-seed": seed,
        "progress": 1,
        "progress-timestamp": True,
    }
    weighted = [
        f"--{'file' if script in files else 'builtin'}={script}@{job.workload.weights[operation]}"
        for operation, script in job.scripts.items()
    ]
    return ["pgbench", *_arguments(fixed), *weighted, job.engine.endpoint.database]


def initialize(engine: Engine, scale: int) -> Process:
    """Process that creates and fills the tables of the built-in scripts.

    Args:
        engine: the server.
        scale: units of 100,000 accounts.
    """
    options = {**_connection(engine), "initialize": True, "quiet": True, "scale": scale}
    argv = ["pgbench", *_arguments(options), engine.endpoint.database]
    return _process(engine, "initialize", argv)


def _process(
    engine: Engine,
    name: str,
    argv: Sequence[str],
    makes_files: bool = False,
    can_end_early: bool = False,
) -> Process:
    """Return a process that gets the password without showing it."""
    return Process(
        name,
        ["sh", "-c", _NUMBERED if can_end_early else _WITH_PASSWORD, "sh", *argv],
        f"{engine.endpoint.password}\n".encode(),
        makes_files=makes_files,
        stop=_STOP if can_end_early else (),
    )


def _connection(engine: Engine) -> dict[str, Scalar]:
    """Return the connection options, without the password."""
    endpoint = engine.endpoint
    return {"host": endpoint.host, "port": endpoint.port, "username": endpoint.user}


def _arguments(options: dict[str, Scalar]) -> list[str]:
    """Write options as pgbench expects them: a switch has no value."""
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in options.items()
        if value is not False
    ]


def _logged_seconds(folder: Path, printed: str) -> pl.DataFrame:
    """Return the whole seconds of the measured part, by operation, from the log.

    They count from the start of the first transaction. Seconds after the requested time are left out:
    only transactions that were already running end in them.
    """
    log = pl.scan_parquet(folder / TRANSACTIONS)
    (began,), (ended,) = (
        log.select(
            began=(pl.col("ended_us") - pl.col("latency_us")).min(), ended=pl.col("ended_us").max()
        )
        .collect()
        .get_columns()
    )
    if began is None:
        return pl.DataFrame(schema=SECONDS)
    last = (ended - began) // 1_000_000
    with suppress(ParseError):  # a run that broke off has no results
        results = output.results(printed)
        requested_s = results.get("duration_s", math.inf) - results["connecting_ms"] / 1000
        last = int(min(last, requested_s))
    second = (pl.col("ended_us") - began - 1) // 1_000_000 + 1
    names = log.select(pl.col("operation").unique().sort()).collect()
    ok = pl.col("outcome") == "ok"
    found = (
        log.group_by("operation", second=second.clip(lower_bound=1))
        .agg(
            tps=ok.sum().cast(pl.Float64),
            latency_us=pl.col("latency_us").quantile(_PERCENTILE / 100, "nearest"),
            errors_per_s=(~ok).sum().cast(pl.Float64),
        )
        .collect()
    )
    return of_every_operation(found, names, last, _PERCENTILE)


def _printed_seconds(printed: str, phase: str, workload: Workload) -> pl.DataFrame:
    """Return the seconds of the progress lines; several operations are reported together."""
    (operation,) = workload.weights if len(workload.weights) == 1 else (None,)
    return output.progress(printed).select(
        "second",
        "tps",
        phase=pl.lit(phase),
        operation=pl.lit(operation, pl.String),
        errors_per_s=pl.col("failed").cast(pl.Float64),
    )


def _histogram(log: pl.LazyFrame) -> pl.DataFrame:
    """Return the latencies, rounded to :data:`_DIGITS` digits, and the count of each."""
    latency = pl.col("latency_us")
    return (
        log.filter(latency.is_not_null())
        .group_by("operation", latency_us=latency.round_sig_figs(_DIGITS).cast(pl.Float64))
        .agg(count=pl.len().cast(pl.Int64))
        .sort("operation", "latency_us")
        .select(*BUCKETS)
        .collect()
    )


DRIVER = Pgbench()
