"""How fast is TPC-C's load, and how much faster than the loads of other implementations?

Other implementations draw one row after another, and send them as INSERTs of 1,024 rows (go-tpc's
``pkg/load/batch_loader.go``) or of one row. Both ways are measured here, with a part of the rows of the
three tables that make up nearly all of a warehouse.
"""

import random
import string
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from benchlab import stats
from benchlab.engines import Engine
from benchlab.workloads.tpcc import load, population, rules, schema
from benchlab.workloads.tpcc.dataset import CUSTOMERS, DISTRICTS, ITEMS, Tpcc
from rich.console import Console
from table import Row

#: Rounds of all ways; warehouses and processes of a whole load.
ROUNDS, WAREHOUSES, JOBS = 3, 20, 2

#: Rows of one INSERT.
BATCH = 1024

#: Table → its rows in a warehouse, for the tables into which rows are inserted.
_ROWS = {
    "stock": ITEMS,
    "customer": DISTRICTS * CUSTOMERS,
    "order_line": 10 * DISTRICTS * CUSTOMERS,
}

#: Share of these rows that is inserted in batches, and share that is inserted one by one.
_PART, _PART_SINGLE = 1 / 20, 1 / 100

_CHARACTERS = string.ascii_letters + string.digits


def measure(engine: Engine, console: Console) -> Iterator[Row]:
    """Yield warehouses per minute, and the ratio of one connection's bulk load to other ways.

    Args:
        engine: a running server; its tables of TPC-C are dropped.
        console: prints the rates.
    """
    whole, generated, bulk, batches, single = [], [], [], [], []
    dataset = Tpcc(warehouses=WAREHOUSES)
    for _ in range(ROUNDS):
        _drop(engine)
        begin = time.monotonic()
        load.load(engine, dataset, JOBS)
        whole.append(60 * WAREHOUSES / (time.monotonic() - begin))
        _make_empty(engine)
        generated.append(_rate(1, lambda: list(_warehouse())))
        bulk.append(_rate(1, lambda: _bulk(engine)))
        batches.append(_rate(_PART, lambda: _insert_batches(engine)))
        single.append(_rate(_PART_SINGLE, lambda: _insert_single(engine)))
        _drop(engine)
    rates = {
        f"the whole load, {JOBS} processes, indexes included": whole,
        "generation alone, one process": generated,
        "one connection, without indexes": bulk,
        f"INSERTs of {BATCH} rows": batches,
        "INSERTs of one row": single,
    }
    for name, values in rates.items():
        console.print(f"{name}: {stats.median(values).value:.1f} warehouses a minute")
    name = engine.name
    yield Row(f"TPC-C warehouses a minute, {name}", stats.median(whole), "≥ 134")
    yield Row(
        f"TPC-C rows a second over INSERTs of many rows, {name}", stats.ratio(bulk, batches), ""
    )
    yield Row(
        f"TPC-C rows a second over one INSERT a row, {name}", stats.ratio(bulk, single), "≥ 20"
    )


def _rate(part: float, work: Any) -> float:
    """Return warehouses per minute, if the work is a part of one warehouse."""
    begin = time.monotonic()
    work()
    return 60 * part / (time.monotonic() - begin)


def _warehouse() -> Iterator[tuple[str, Any]]:
    return population.warehouse(1, 1, 0, datetime.now(UTC).replace(tzinfo=None))


def _bulk(engine: Engine) -> None:
    with engine.transaction() as connection:
        for table, rows in _warehouse():
            load.copy(engine, connection, table, rows)


def _insert_batches(engine: Engine) -> None:
    with engine.asking() as ask:
        for table, draw in _DRAWN.items():
            left = islice(draw(), int(_ROWS[table] * _PART))
            while rows := list(islice(left, BATCH)):
                values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
                ask(f"INSERT INTO {table} VALUES {values}")


def _insert_single(engine: Engine) -> None:
    """Insert rows one by one in one transaction; the server prepares the statement once."""
    with engine.transaction() as connection:
        cursor = connection.cursor()
        for table, draw in _DRAWN.items():
            places = ", ".join(["%s"] * len(schema.TABLES[table].columns))
            for row in islice(draw(), int(_ROWS[table] * _PART_SINGLE)):
                cursor.execute(f"INSERT INTO {table} VALUES ({places})", row)


def _make_empty(engine: Engine) -> None:
    _drop(engine)
    for statement in schema.tables(engine.name):
        engine.query(statement)


def _drop(engine: Engine) -> None:
    for table in (*schema.TABLES, *schema.STATE):
        engine.query(f"DROP TABLE IF EXISTS {table}")


# Rows as other implementations draw them


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str | datetime) else str(value)


def _text(least: int, most: int) -> str:
    return "".join(random.choices(_CHARACTERS, k=random.randint(least, most)))


def _stock() -> Iterator[tuple]:
    for i_id in range(1, ITEMS + 1):
        dists = [_text(24, 24) for _ in range(10)]
        yield i_id, 2, random.randint(10, 100), *dists, 0, 0, 0, _text(26, 50)


def _customer() -> Iterator[tuple]:
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    for number in range(DISTRICTS * CUSTOMERS):
        d_id, c_id = divmod(number, CUSTOMERS)
        name = rules.last_name(rules.nurand_int(random, rules.C_LAST_A, 0, 999, 0))
        address = (_text(10, 20), _text(10, 20), _text(10, 20), _text(2, 2))
        digits = "".join(random.choices(string.digits, k=16))
        yield (
            *(c_id + 1, d_id + 1, 2, _text(8, 16), "OE", name, *address, f"{digits[:4]}11111"),
            *(digits, now, "GC", 50_000.00, random.randint(0, 5000) / 10_000, -10.00, 10.00, 1, 0),
            _text(300, 500),
        )


def _order_line() -> Iterator[tuple]:
    for number in range(10 * DISTRICTS * CUSTOMERS):
        order, line = divmod(number, 10)
        d_id, o_id = divmod(order, CUSTOMERS)
        yield (
            *(o_id + 1, d_id + 1, 2, line + 1, random.randint(1, ITEMS), 2, None, 5),
            *(random.randint(1, 999_999) / 100, _text(24, 24)),
        )


_DRAWN = {"stock": _stock, "customer": _customer, "order_line": _order_line}
