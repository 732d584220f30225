"""How much faster is a bulk load than one INSERT per row, as in the article of the recursive query?"""

import time

import polars as pl
from benchlab import stats
from benchlab.engines import Engine
from benchlab.workloads.spec_tree import generate, schema
from benchlab.workloads.spec_tree.dataset import SpecTree
from table import Row

#: Rounds of both ways, and the rows of each table that are inserted one by one.
ROUNDS, INSERTED = 3, 1000


def measure(engine: Engine, dataset: SpecTree) -> Row:
    """Return rows per second of one operator's bulk load : rows per second of committed INSERTs."""
    tree = next(generate.trees(dataset))
    tables = {
        "specification": generate.specifications(dataset, tree),
        "spec_relationship": generate.relationships(dataset, tree),
    }
    bulk, single = [], []
    for _ in range(ROUNDS):
        _make_empty(engine, dataset)
        begin = time.monotonic()
        for name, rows in tables.items():
            engine.copy(name, rows, schema.IDS[name])
        bulk.append(sum(map(len, tables.values())) / (time.monotonic() - begin))
        _make_empty(engine, dataset)
        begin = time.monotonic()
        inserted = sum(_insert(engine, name, rows) for name, rows in tables.items())
        single.append(inserted / (time.monotonic() - begin))
    return Row(
        f"rows per second of the bulk load over one INSERT a row, {engine.name}",
        stats.ratio(bulk, single),
        "≥ 20",
    )


def _make_empty(engine: Engine, dataset: SpecTree) -> None:
    for name in schema.IDS:
        engine.query(f"DROP TABLE IF EXISTS {name}")
    for statement in schema.tables(engine.protocol, dataset):
        engine.query(statement)


def _insert(engine: Engine, name: str, rows: pl.DataFrame) -> int:
    """Insert the first rows of a table, one statement per row; return how many."""
    values = ", ".join(["%s"] * len(rows.columns))
    statement = f"INSERT INTO {name} ({', '.join(rows.columns)}) VALUES ({values})"
    first = rows.head(INSERTED).with_columns(pl.col(*schema.IDS[name]).str.decode("hex"))
    with engine.asking() as ask:
        for row in first.iter_rows():
            ask(statement, row)
    return len(first)
