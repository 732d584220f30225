"""How fast are sysbench's tables loaded, and how much faster than by one INSERT per row?"""

import time

from benchlab import stats
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


def measure(session: Session, point: Point, console: Console) -> Row:
    """Return rows per second of the load with its indexes : rows per second of committed INSERTs.

    Args:
        session: the engine; its data directory starts empty each time.
        point: the variant that loads.
        console: prints the rates.
    """
    loaded, single = [], []
    for _ in range(ROUNDS):
        session.cold(point.variant, restore=f"empty-{point.init_key}")
        begin = time.monotonic()
        tables_of(LOADED).load(session, dataset.JOBS)
        loaded.append(LOADED.rows / (time.monotonic() - begin))
        begin = time.monotonic()
        _insert(session)
        single.append(INSERTED / (time.monotonic() - begin))
    name = session.engine_name
    for way, rates in {"sysbench's load": loaded, "one INSERT a row": single}.items():
        console.print(f"{name}, {way}: {stats.median(rates).value:,.0f} rows a second")
    return Row(
        f"rows per second of sysbench's load over one INSERT a row, {name}",
        stats.ratio(loaded, single),
        "",
    )


def _insert(session: Session) -> None:
    with session.engine.asking() as ask:
        for number in range(INSERTED):
            ask(_INSERT, (number, "0" * 119, "0" * 59))
