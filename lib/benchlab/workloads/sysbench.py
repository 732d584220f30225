"""sysbench: the command lines that load and run its OLTP scripts.

sysbench 1.0.20 has no warm-up of its own, so a trial is two invocations: the warm-up, whose output
is kept but not counted, and the measured one, whose histogram and totals then hold nothing else.
The password travels in a configuration file on standard input, so that no process list shows it.
"""

from benchlab.engines import Engine
from benchlab.study import Dataset, Scalar, Workload

#: Percentile that sysbench prints per interval. The full histogram gives all others.
PERCENTILE = 99

#: Loading needs no more threads than tables; two keep a small machine busy.
_PREPARE_THREADS = 4


def prepare(engine: Engine, dataset: Dataset) -> list[str]:
    """Command that creates and fills the tables."""
    options = {
        **engine.sysbench_options(),
        "tables": dataset.tables,
        "table-size": dataset.rows_per_table,
        "threads": min(_PREPARE_THREADS, dataset.tables),
    }
    return _command("oltp_write_only", options, "prepare")


def run(
    engine: Engine,
    workload: Workload,
    dataset: Dataset,
    threads: int,
    duration_s: int,
    seed: int,
) -> list[str]:
    """Command that runs a workload for ``duration_s`` seconds and prints a line for each.

    Args:
        engine: the server.
        workload: script and options.
        dataset: the tables that :func:`prepare` made.
        threads: connections, each in a closed loop.
        duration_s: seconds.
        seed: of the keys that are drawn; sysbench takes 0 for the current time.
    """
    options = {
        **engine.sysbench_options(),
        **workload.options,
        "tables": dataset.tables,
        "table-size": dataset.rows_per_table,
        "threads": threads,
        "time": duration_s,
        "events": 0,
        "rand-seed": seed,
        "percentile": PERCENTILE,
        "report-interval": 1,
        "histogram": "on",
    }
    return _command(workload.script, options, "run")


def config_file(engine: Engine) -> bytes:
    """Content of the file that brings the password."""
    return f"{engine.sysbench_driver}-password={engine.endpoint.password}\n".encode()


def _command(script: str, options: dict[str, Scalar], verb: str) -> list[str]:
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return ["sysbench", script, "--config-file=/dev/stdin", *arguments, verb]
