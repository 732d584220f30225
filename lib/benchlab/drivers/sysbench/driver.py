"""sysbench: the command lines that load and run its OLTP scripts, and run those of benchlab.

sysbench 1.0.20 has no warm-up. So a wrapper around the script warms up the connections before they
are measured. If the server needs a longer warm-up, a trial has two invocations: the output of the
warm-up is kept but not counted, and the histogram and totals of the measured one hold nothing else.
The password is in a configuration file on standard input, so that no process list shows it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import polars as pl

from benchlab.drivers.base import (
    BUCKETS,
    CONTROL,
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
from benchlab.drivers.sysbench import output
from benchlab.engines import Engine
from benchlab.engines.base import MySQLProtocol
from benchlab.errors import EngineError
from benchlab.raw import text
from benchlab.study import Scalar, Workload

#: Percentile that sysbench prints for each interval. The full histogram gives all others.
PERCENTILE = 99

#: Phase → process that makes it.
_PROCESSES = {"warmup": "warmup", MEASURE: "sysbench"}

#: Script that runs another script, with a warm-up of its connections, until it is told to end.
_WRAPPER = Path(__file__).with_name("wrapper.lua")
_STOP = CONTROL / "stop"

#: sysbench's names of the protocols.
_PROTOCOLS = {"mysql": "mysql", "postgres": "pgsql"}

#: Errors of MySQL's protocol at which sysbench repeats the transaction by default.
_REPEATED_ERRORS = (1213, 1020, 1205)


class Sysbench(Driver):
    """See :class:`~benchlab.drivers.base.Driver`."""

    name = "sysbench"
    program = "sysbench"
    protocols = tuple(_PROTOCOLS)
    resolution = output.BUCKET_RATIO - 1
    warms_connections = True

    def stages(self, job: Job) -> list[Stage]:
        """See :meth:`Driver.stages`: the warm-up, if there is one, and the measured part."""
        measured = self._stage(
            job, MEASURE, job.measure_s, job.seed, job.transactions, job.connections_s
        )
        if not job.warmup_s:
            return [measured]
        # with the same seed, the measured part would draw the same rows again
        return [self._stage(job, "warmup", job.warmup_s, job.seed + 1), measured]

    def begun(self, line: str, now: float) -> float | None:
        """See :meth:`Driver.begun`; before that, sysbench connects and reads files: no load."""
        return now if line == output.STARTED else None

    def second_of(self, line: str) -> tuple[int, float] | None:
        """See :meth:`Driver.second_of`."""
        return output.second_of(line)

    def failure(
        self, process: Process, ended: CompletedProcess[bytes], workload: Workload
    ) -> str | None:
        """See :meth:`Driver.failure`."""
        if fatal := output.errors((ended.stdout + ended.stderr).decode(errors="replace")):
            return fatal[0]
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            return f"ended with exit code {ended.returncode}: {said[-1]}"
        summary = output.summary(ended.stdout.decode(errors="replace"))
        tolerated = workload.tolerated_error_share * summary["transactions"]
        if summary["ignored_errors"] <= tolerated and not summary["reconnects"]:
            return None
        return (
            f"{summary['ignored_errors']} errors and {summary['reconnects']} reconnects"
            f" in {summary['transactions']} transactions"
        )

    def seconds(self, folder: Path, workload: Workload) -> pl.DataFrame:
        """See :meth:`Driver.seconds`.

        With several nodes, the seconds that all of them have reported are added up. Each node counts
        its seconds from its own start. The sums have no percentile.
        """
        (operation,) = workload.weights
        frames = [
            _added_up([output.intervals(printed) for printed in of_nodes])
            .with_columns(phase=pl.lit(phase), operation=pl.lit(operation))
            .select(*SECONDS)
            for phase in _PROCESSES
            if (of_nodes := _printed(folder, phase))
        ]
        return pl.concat(frames) if frames else pl.DataFrame(schema=SECONDS)

    def measured(self, folder: Path, workload: Workload) -> Measured:
        """See :meth:`Driver.measured`; several nodes, which run at the same time, are added up."""
        (operation,) = workload.weights
        of_nodes = _printed(folder, MEASURE) or [""]
        found = pl.DataFrame([output.summary(printed) for printed in of_nodes])
        each, mean_ms = found["transactions"], found["latency_avg_ms"]
        several = len(of_nodes) > 1 and each.sum()
        totals = Totals(
            transactions=found["transactions"].sum(),
            errors=found["ignored_errors"].sum(),
            seconds=found["total_time_s"].max(),
            latency_mean_us=1000
            * ((mean_ms * each).sum() / each.sum() if several else mean_ms.mean()),
            latency_max_us=found["latency_max_ms"].max() * 1000,
            queries=found["queries_total"].sum(),
            reconnects=found["reconnects"].sum(),
        )
        row = {
            "operation": operation,
            "transactions": totals.transactions,
            "errors": totals.errors,
            "retries": None,
            "latency_mean_us": totals.latency_mean_us,
            "latency_max_us": totals.latency_max_us,
        }
        return Measured(
            totals,
            operations=pl.DataFrame([row], schema=OPERATIONS),
            # the limits of the buckets are the same in every run
            buckets=pl.concat(output.histogram(printed) for printed in of_nodes)
            .group_by("latency_us")
            .agg(pl.col("count").sum())
            .sort("latency_us")
            .with_columns(operation=pl.lit(operation))
            .select(*BUCKETS),
        )

    def _stage(
        self,
        job: Job,
        phase: str,
        duration_s: int,
        seed: int,
        transactions: int | None = None,
        connections_s: int = 0,
    ) -> Stage:
        """Return a stage: a process on each node, with its share of the clients and its own seed."""
        (script,) = job.scripts.values()
        rate = job.rate_per_s
        nodes = min(job.nodes, job.clients, rate or job.nodes)
        rates = _shares(rate, nodes) if rate else [None] * nodes
        processes = []
        for node, clients in enumerate(_shares(job.clients, nodes)):
            argv = run(
                job.engine,
                script,
                job.options,
                clients,
                duration_s,
                seed + 2 * node,  # the warm-up has the next seed
                transactions and transactions * clients // job.clients,
                rates[node],
            )
            process = Process(_name(phase, node), argv, config_file(job.engine), node=node)
            processes.append(_wrapped(process, job.can_end_early, connections_s))
        warmup = [Phase("warmup", -connections_s, 0)] if connections_s else []
        return Stage(processes, [*warmup, Phase(phase)], connections_s + duration_s)


def _wrapped(process: Process, can_end_early: bool, warmup_s: int) -> Process:
    """Return the same process with the wrapper around its script, if it needs the wrapper.

    Args:
        process: process that is wrapped.
        can_end_early: whether it can be told to end.
        warmup_s: seconds after its start until which connections are warmed up; 0: they are not.
    """
    if not (can_end_early or warmup_s):
        return process
    program, script, *arguments = process.argv
    lua = CONTROL / _WRAPPER.name
    variables = {
        "BENCHLAB_SCRIPT": script,
        "BENCHLAB_STOP": _STOP,
        "BENCHLAB_WARMUP_S": warmup_s,
    }
    return replace(
        process,
        argv=[
            "env",
            *(f"{name}={value}" for name, value in variables.items()),
            program,
            str(lua),
            *arguments,
        ],
        control={lua.name: _WRAPPER.read_bytes()},
        stop=["touch", str(_STOP)] if can_end_early else (),
    )


def _name(phase: str, node: int) -> str:
    return _PROCESSES[phase] + (f"-{node + 1}" if node else "")


def _shares(whole: int, nodes: int) -> list[int]:
    """Share clients or a rate out among nodes, as equally as possible."""
    return [whole // nodes + (node < whole % nodes) for node in range(nodes)]


def _printed(folder: Path, phase: str) -> list[str]:
    """Return what the processes of a phase printed, one text for each process that has a file."""
    found = []
    while (path := folder / f"{_name(phase, len(found))}.out").exists():
        found.append(text.read(path))
    return found


def _added_up(of_nodes: list[pl.DataFrame]) -> pl.DataFrame:
    if len(of_nodes) == 1:
        return of_nodes[0]
    one = of_nodes[0]
    added = [name for name in one.columns if name not in ("second", "latency_us", "percentile")]
    return (
        pl.concat(of_nodes)
        .group_by("second")
        # what one of them does not know, such as the rates of a second in which it still connected
        .agg(pl.len().alias("reported"), *(_if_all_known(name) for name in added))
        .filter(pl.col("reported") == len(of_nodes))
        .sort("second")
        .with_columns(
            latency_us=pl.lit(None, one.schema["latency_us"]),
            percentile=pl.lit(None, one.schema["percentile"]),
        )
        .select(one.columns)
    )


def _if_all_known(name: str) -> pl.Expr:
    column = pl.col(name)
    return pl.when(column.null_count() == 0).then(column.sum()).alias(name)


def prepare(
    engine: Engine, tables: Mapping[str, Scalar], jobs: int, script: str = "oltp_write_only"
) -> list[str]:
    """Command that creates and fills the tables of sysbench's own scripts.

    Args:
        engine: the server.
        tables: options of the scripts about the tables.
        jobs: most connections that load; sysbench uses no more connections than tables.
        script: name of any of these scripts, or a file on the client.
    """
    options = {**_connection(engine), **tables, "threads": min(jobs, tables["tables"])}
    return _command(script, options, "prepare")


def run(
    engine: Engine,
    script: str,
    options: Mapping[str, Scalar],
    threads: int,
    duration_s: int,
    seed: int,
    transactions: int | None = None,
    rate_per_s: int | None = None,
) -> list[str]:
    """Command that runs a script for ``duration_s`` seconds and prints a line for each.

    Args:
        engine: the server.
        script: name of one of sysbench's own scripts, or a file on the client.
        options: options of the script.
        threads: connections, each in a closed loop.
        duration_s: seconds.
        seed: seed of the keys that are drawn; sysbench uses the current time for 0.
        transactions: transactions of all connections after which it ends early; ``None``: no limit.
        rate_per_s: transactions due per second, at random times; ``None``: a connection starts the
            next one as soon as one is done.
    """
    options = {
        **_connection(engine),
        **options,
        "threads": threads,
        "time": duration_s,
        "events": transactions or 0,
        "rand-seed": seed,
        "percentile": PERCENTILE,
        "report-interval": 1,
        "histogram": "on",
        **({"rate": rate_per_s} if rate_per_s else {}),
    }
    return _command(script, options, "run")


def config_file(engine: Engine) -> bytes:
    """Return the content of the configuration file with the password.

    sysbench ends a value at a comma or a space unless it is quoted, and knows no escapes (sb_options.c,
    ``read_config``).

    Raises:
        EngineError: the password cannot be quoted.
    """
    password = engine.endpoint.password
    quote = next((one for one in "'\"" if one not in password), None)
    if quote is None or "\n" in password:
        raise EngineError(
            f"{engine.name}: sysbench cannot be given a password of several lines or with both quotes"
        )
    return f"{_PROTOCOLS[engine.protocol]}-password={quote}{password}{quote}\n".encode()


def _connection(engine: Engine) -> dict[str, Scalar]:
    """Return the connection options, without the password."""
    protocol, endpoint = _PROTOCOLS[engine.protocol], engine.endpoint
    return {
        "db-driver": protocol,
        f"{protocol}-host": endpoint.host,
        f"{protocol}-port": endpoint.port,
        f"{protocol}-user": endpoint.user,
        f"{protocol}-db": endpoint.database,
        **_repeated_errors(engine),
    }


def _repeated_errors(engine: Engine) -> dict[str, Scalar]:
    """Return the option for the engine's own errors at which a transaction is repeated."""
    if not (isinstance(engine, MySQLProtocol) and engine.repeated_errors):
        return {}
    return {"mysql-ignore-errors": ",".join(map(str, _REPEATED_ERRORS + engine.repeated_errors))}


def _command(script: str, options: Mapping[str, Scalar], verb: str) -> list[str]:
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return ["sysbench", script, "--config-file=/dev/stdin", *arguments, verb]


DRIVER = Sysbench()
