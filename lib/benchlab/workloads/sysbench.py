"""sysbench: the command lines that load and run its OLTP scripts, and run those of benchlab.

sysbench 1.0.20 has no warm-up of its own, so a trial is two invocations: the warm-up, whose output
is kept but not counted, and the measured one, whose histogram and totals then hold nothing else.
The password travels in a configuration file on standard input, so that no process list shows it.
"""

from pathlib import Path

from benchlab.engines import Engine
from benchlab.study import Dataset, Scalar, SpecTree, SysbenchTables, Workload
from benchlab.workloads import spec_tree
from benchlab.workloads.spec_tree import query

#: Percentile that sysbench prints per interval. The full histogram gives all others.
PERCENTILE = 99

#: Loading needs no more threads than tables; two keep a small machine busy.
_PREPARE_THREADS = 4


#: Where on the client lies what :func:`files` returns.
FOLDER = Path("/run/benchlab/load")

#: Different parameters that a load draws from.
_PARAMETERS = 10_000


def prepare(engine: Engine, dataset: SysbenchTables) -> list[str]:
    """Command that creates and fills the tables of sysbench's own scripts."""
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
    rate_per_s: int | None = None,
) -> list[str]:
    """Command that runs a workload for ``duration_s`` seconds and prints a line for each.

    Args:
        engine: the server.
        workload: script and options.
        dataset: what was loaded.
        threads: connections, each in a closed loop.
        duration_s: seconds.
        seed: of the keys that are drawn; sysbench takes 0 for the current time.
        rate_per_s: transactions due per second, at random times; none: each as soon as one is done.
    """
    options = {
        **engine.sysbench_options(),
        **workload.options,
        **_of_dataset(dataset),
        "threads": threads,
        "time": duration_s,
        "events": 0,
        "rand-seed": seed,
        "percentile": PERCENTILE,
        "report-interval": 1,
        "histogram": "on",
        **({"rate": rate_per_s} if rate_per_s else {}),
    }
    return _command(_script(workload, dataset), options, "run")


def files(engine: Engine, dataset: Dataset) -> dict[str, bytes]:
    """Return what a load needs in :data:`FOLDER` of its host: name → content."""
    if isinstance(dataset, SysbenchTables):
        return {}
    script = Path(spec_tree.__file__).with_name("spec_tree.lua")
    lines = ("\t".join(one) for one in query.parameters(dataset, _PARAMETERS))
    return {
        "spec_tree.lua": script.read_bytes(),
        "statement.sql": query.statement(engine.sysbench_driver).encode() + b"\n",
        "parameters.tsv": "".join(f"{line}\n" for line in lines).encode(),
    }


def config_file(engine: Engine) -> bytes:
    """Content of the file that brings the password."""
    return f"{engine.sysbench_driver}-password={engine.endpoint.password}\n".encode()


def _script(workload: Workload, dataset: Dataset) -> str:
    return str(FOLDER / "spec_tree.lua") if isinstance(dataset, SpecTree) else workload.script


def _of_dataset(dataset: Dataset) -> dict[str, Scalar]:
    if isinstance(dataset, SysbenchTables):
        return {"tables": dataset.tables, "table-size": dataset.rows_per_table}
    names = {"statement": "statement.sql", "parameters": "parameters.tsv"}
    return {option: str(FOLDER / name) for option, name in names.items()}


def _command(script: str, options: dict[str, Scalar], verb: str) -> list[str]:
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return ["sysbench", script, "--config-file=/dev/stdin", *arguments, verb]
