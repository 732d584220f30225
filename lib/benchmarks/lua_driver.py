"""What does the Lua driver of the recursive query cost, compared with the query itself?"""

import resource
from pathlib import Path

from benchlab import stats
from benchlab.drivers.sysbench import driver as sysbench
from benchlab.drivers.sysbench import output as parse_sysbench
from benchlab.plan import Point
from benchlab.run.process import Program
from benchlab.run.process import run as run_programs
from benchlab.target.session import Session
from benchlab.workloads import tables_of
from table import Row

#: Rounds of both, seconds of each, and connections: about as many as at the peak of throughput.
ROUNDS, SECONDS, CONNECTIONS = 3, 5, 10

_GRACE_S = 60

EMPTY = Path(__file__).with_name("empty_event.lua")


def measure(session: Session, point: Point) -> list[Row]:
    """Return events per second that send nothing : events that query, and the load's share of all CPU.

    Args:
        session: the provisioned engine, with its dataset loaded.
        point: a point of the recursive query.
    """
    tables = tables_of(point.dataset)
    session.cold(point.variant, restore=point.dataset_key)
    session.engine.prewarm(point.dataset)
    for name, content in {**tables.files(session.engine), EMPTY.name: EMPTY.read_bytes()}.items():
        session.load[0].write(tables.folder / name, content)
    empty, queried, shares = [], [], []
    for number in range(1, ROUNDS + 1):
        rate, _ = _run(session, point, str(tables.folder / EMPTY.name), number)
        empty.append(rate)
        rate, cores = _run(session, point, tables.script(str(point.workload.script)), number)
        queried.append(rate)
        shares.append(cores / point.envelope.cores)
    name = session.engine_name
    return [
        Row(
            f"events per second that send nothing over queries, {name}",
            stats.ratio(empty, queried),
            "",
        ),
        Row(f"share of all CPU that the load took at the peak, {name}", stats.median(shares), ""),
    ]


def _run(session: Session, point: Point, script: str, seed: int) -> tuple[float, float]:
    """Return events per second, and the mean number of cores that the load used."""
    options = {**point.workload.options, **tables_of(point.dataset).options()}
    command = sysbench.run(session.engine, script, options, CONNECTIONS, SECONDS, seed)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = Program(session.client_argv(command), sysbench.config_file(session.engine))
    (done,) = run_programs([program], SECONDS + _GRACE_S, lambda number, line: None)
    if done.returncode:
        raise SystemExit(f"sysbench failed: there is nothing to compare: {done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = parse_sysbench.summary(done.stdout.decode())
    return found["transactions"] / found["total_time_s"], used_s / found["total_time_s"]
