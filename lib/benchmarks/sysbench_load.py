"""How fast are sysbench's tables loaded, and how much faster than by one INSERT per row?

Where benchlab makes the indexes before the rows: how much faster is that than sysbench's own order?
"""

import time
from collections.abc import Callable, Iterator

from benchlab import stats
from benchlab.drivers.sysbench import driver
from benchlab.errors import EngineError
from benchlab.plan import Point
from benchlab.run import dataset
from benchlab.target.session import Session
from benchlab.workloads import tables_of
from benchlab.workloads.sysbench_oltp.dataset import SysbenchTables
from rich.console import Console
from table import Row

#: Rounds of both ways, the tables of a load, and the rows that are inserted one by one.
ROUNDS, LOADED, INSERTED = 3, SysbenchTables(tables=4, rows_per_table=100_000), 1000

_INSERT = "INSERT INTO sbtest1 (k, c, pad) VALUES (%s, %s, %s)"


def measure(session: Session, point: Point, console: Console) -> Iterator[Row]:
    """Yield rows per second of the load with its indexes : rows per second of another way.

    Args:
        session: the engine; its data directory starts empty each time.
        point: the variant that loads.
        console: prints the rates.
    """
    loaded, single, afterwards = [], [], []

    def empty() -> None:
        session.cold(point.variant, restore=f"empty-{point.init_key}")

    for _ in range(ROUNDS):
        if session.engine.indexes_first:
            empty()
            afterwards.append(_rate(LOADED.rows, lambda: _index_afterwards(session)))
        empty()
        loaded.append(_rate(LOADED.rows, lambda: tables_of(LOADED).load(session, dataset.JOBS)))
        single.append(_rate(INSERTED, lambda: _insert(session)))
    name = session.engine_name
    console.print(f"{name}, the load: {stats.median(loaded).value:,.0f} rows a second")
    others = {"one INSERT a row": single, "indexes made after the rows": afterwards}
    for way, rates in others.items():
        if rates:
            console.print(f"{name}, {way}: {stats.median(rates).value:,.0f} rows a second")
            yield Row(
                f"rows per second of sysbench's load over {way}, {name}",
                stats.ratio(loaded, rates),
                "",
            )


def _rate(rows: int, load: Callable[[], None]) -> float:
    begin = time.monotonic()
    load()
    return rows / (time.monotonic() - begin)


def _index_afterwards(session: Session) -> None:
    tables = tables_of(LOADED)
    argv = driver.prepare(session.engine, tables.options(), dataset.JOBS)
    code, said = tables.run(session, argv, driver.config_file(session.engine))
    if code:
        raise EngineError(said)


def _insert(session: Session) -> None:
    with session.engine.asking() as ask:
        for number in range(INSERTED):
            ask(_INSERT, (number, "0" * 119, "0" * 59))
