"""sysbench: the command lines that load and run its OLTP scripts, and run those of benchlab.

sysbench 1.0.20 has no warm-up of its own, so a trial is two invocations: the warm-up, whose output
is kept but not counted, and the measured one, whose histogram and totals then hold nothing else.
The password travels in a configuration file on standard input, so that no process list shows it.
"""

from collections.abc import Mapping

from benchlab.engines import Engine
from benchlab.study import Scalar

#: Percentile that sysbench prints per interval. The full histogram gives all others.
PERCENTILE = 99

#: Loading needs no more threads than tables; a few keep a small machine busy.
_PREPARE_THREADS = 4


def prepare(engine: Engine, tables: Mapping[str, Scalar]) -> list[str]:
    """Command that creates and fills the tables of sysbench's own scripts.

    Args:
        engine: the server.
        tables: what the scripts are told of the tables.
    """
    options = {
        **engine.sysbench_options(),
        **tables,
        "threads": min(_PREPARE_THREADS, tables["tables"]),
    }
    return _command("oltp_write_only", options, "prepare")


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
        script: one of sysbench's by name, or a file on the client.
        options: of the script.
        threads: connections, each in a closed loop.
        duration_s: seconds.
        seed: of the keys that are drawn; sysbench takes 0 for the current time.
        transactions: over all connections, after which it ends before its time; none: not.
        rate_per_s: transactions due per second, at random times; none: each as soon as one is done.
    """
    options = {
        **engine.sysbench_options(),
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
    """Content of the file that brings the password."""
    return f"{engine.sysbench_driver}-password={engine.endpoint.password}\n".encode()


def _command(script: str, options: Mapping[str, Scalar], verb: str) -> list[str]:
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return ["sysbench", script, "--config-file=/dev/stdin", *arguments, verb]
