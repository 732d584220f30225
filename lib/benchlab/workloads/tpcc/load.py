"""Fill the tables: one transaction for each warehouse, in several processes at once.

A warehouse's rows and the mark that it is loaded are committed together, so an interrupted load
continues where it stopped. For the same reason PostgreSQL's COPY cannot use FREEZE, which needs a table
that the same transaction made.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from concurrent.futures.process import BrokenProcessPool
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from multiprocessing import active_children, get_context, parent_process
from typing import Any

import polars as pl

from benchlab.engines import Endpoint, Engine
from benchlab.errors import DatasetError, DatasetTooLarge, EngineError
from benchlab.workloads.tpcc import binary_copy, population, rules, schema
from benchlab.workloads.tpcc.dataset import Tpcc
from benchlab.workloads.tpcc.population import STANDARD, Scale
from benchlab.workloads.tpcc.rules import Constants

#: Engine → bytes on disk of a warehouse with its indexes; measured, see lib/benchmarks/tpcc_load.py.
BYTES_PER_WAREHOUSE = {"postgres": 104_000_000, "mariadb": 94_000_000}

#: Bytes of a warehouse as text, for engines that were not measured: they are unlikely to need less.
_BYTES_AS_TEXT = 71_000_000

#: Number of the unit of work that loads the items; the others are numbers of warehouses.
_ITEMS = 0

#: Engines that commit within a bulk load, so that a broken load leaves rows.
_COMMITS_IN_BETWEEN = ("oceanbase", "tidb")

#: Engine → rows of a LOAD DATA. TiDB 6.0 reads a statement's rows into memory faster than it commits
#: them, 20,000 at a time: four processes with a warehouse each fill 3 GB.
_LOADED_AT_ONCE = {"tidb": 20_000}

#: Rows that are deleted in one transaction, at most; some servers limit its size.
_DELETED_AT_ONCE = 10_000

#: Called with how many warehouses are loaded, and how many there will be.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Made:
    """The parameters that the rows of a database were made with."""

    seed: int
    warehouses: int
    constants: Constants
    """C of NURand in the load (C-Load)."""


def made_with(dataset: Tpcc) -> Made:
    """Return the parameters that the rows of a dataset are made with."""
    return Made(dataset.seed, dataset.warehouses, rules.load_constants(dataset.seed))


def estimated_bytes(engine: str, warehouses: int) -> int:
    """Return about how many bytes of disk a dataset needs, indexes included."""
    return warehouses * BYTES_PER_WAREHOUSE.get(engine, _BYTES_AS_TEXT)


def load(
    engine: Engine,
    dataset: Tpcc,
    jobs: int,
    free_bytes: int | None = None,
    on_progress: Progress = lambda done, of: None,
    scale: Scale = STANDARD,
) -> None:
    """Make the tables and fill them, or finish a load that was interrupted.

    Args:
        engine: a running server.
        dataset: warehouses and seed.
        jobs: processes that load at once.
        free_bytes: free bytes on the server's disk, if known.
        on_progress: see :data:`Progress`.
        scale: cardinalities of a warehouse.

    Raises:
        DatasetTooLarge: there is not enough space for the rows; nothing was made.
        DatasetError: the server has other warehouses already.
        EngineError: the server refused something, or a loading process was killed.
    """
    made = made_with(dataset)
    begun = "tpcc_loaded" in engine.tables()
    missing = _missing(engine, made) if begun else list(range(made.warehouses + 1))
    _require_space(engine.name, missing, free_bytes)
    _begin(engine, made)
    if begun and engine.name in _COMMITS_IN_BETWEEN:
        _delete(engine, missing)
    with _processes(engine, min(jobs, len(missing) or 1)) as pool:
        tasks = [pool.submit(_load_one, number, made, scale) for number in missing]
        left = {unit for unit in missing if unit != _ITEMS}
        try:
            for unit in _results(engine, pool, tasks):
                left.discard(unit)
                on_progress(made.warehouses - len(left), made.warehouses)
        except BaseException:
            # what they load is not committed; with a slow server, to wait for them can take minutes
            for process in active_children():
                process.kill()
                process.join()
            raise
    _make_indexes(engine, jobs)
    _count_rows(engine)


def cardinalities(engine: Engine) -> dict[str, int]:
    """Return table → rows when its load ended; empty if they were not counted.

    Raises:
        EngineError: see :meth:`Engine.query`.
    """
    if "tpcc_rows" not in engine.tables():
        return {}
    rows = engine.query("SELECT table_name AS name, row_count AS n FROM tpcc_rows")
    return {row["name"]: row["n"] for row in rows}


def copy(engine: Engine, connection: Any, table: str, rows: pl.DataFrame) -> None:
    """Put rows into a table by the server's bulk load, in the connection's transaction.

    Args:
        engine: the server.
        connection: see :meth:`Engine.transaction`.
        table: name.
        rows: rows, under the table's column names.

    Raises:
        EngineError: the server did not take exactly these rows.
    """
    if engine.protocol == "postgres":
        _copy_binary(connection, table, rows)
    else:
        at_once = _LOADED_AT_ONCE.get(engine.name, max(len(rows), 1))
        for part in rows.iter_slices(at_once):
            engine.copy_in(connection, table, part)


def _copy_binary(connection: Any, table: str, rows: pl.DataFrame) -> None:
    statement = f"COPY {table} ({', '.join(rows.columns)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor().copy(statement) as stream:
        for part in (binary_copy.HEADER, binary_copy.encode(rows), binary_copy.TRAILER):
            stream.write(part)


def _missing(engine: Engine, wanted: Made) -> list[int]:
    """Return the units of work that are not loaded yet; the server has a part of this load."""
    found = _made(engine)
    if found not in (None, wanted):
        raise DatasetError(
            f"{engine.name}: database {engine.endpoint.database} has {found.warehouses} warehouses"
            f" of seed {found.seed} (C-Load {found.constants.c_last}), not {wanted.warehouses} of seed"
            f" {wanted.seed} (C-Load {wanted.constants.c_last}); drop its tables to load anew"
        )
    loaded = {row["w_id"] for row in engine.query("SELECT w_id FROM tpcc_loaded")}
    return sorted(set(range(wanted.warehouses + 1)) - loaded)


def _begin(engine: Engine, made: Made) -> None:
    """Make the tables and record what they will hold, as far as that is not done yet."""
    for statement in schema.tables(engine.name):
        engine.query(statement)
    if _made(engine) is None:
        row = (made.seed, made.warehouses, *astuple(made.constants))
        columns = ", ".join(schema.STATE["tpcc_load"].columns)
        engine.query(f"INSERT INTO tpcc_load ({columns}) VALUES (%s, %s, %s, %s, %s)", row)


def _made(engine: Engine) -> Made | None:
    rows = engine.query("SELECT seed, warehouses, c_last, c_id, ol_i_id FROM tpcc_load")
    if not rows:
        return None
    seed, warehouses, *of_nurand = rows[0].values()
    return Made(seed, warehouses, Constants(*of_nurand))


def _require_space(engine: str, units: list[int], free_bytes: int | None) -> None:
    needed = estimated_bytes(engine, len(units))  # the items take less than a warehouse
    if free_bytes is not None and free_bytes < needed:
        raise DatasetTooLarge(
            f"{engine}: {sum(unit != _ITEMS for unit in units)} warehouses need about"
            f" {needed / 1e9:.1f} GB of the data directory's disk, of which"
            f" {free_bytes / 1e9:.1f} GB are free: load fewer, or take a larger disk"
        )


def _delete(engine: Engine, units: list[int]) -> None:
    """Delete the rows that a broken load left, for units of work that are to be loaded again."""
    of_units = {"item": "i_id > 0"} if _ITEMS in units else {}
    if warehouses := ", ".join(str(unit) for unit in units if unit != _ITEMS):
        for table, column in schema.WAREHOUSE_OF.items():
            of_units[table] = f"{column} IN ({warehouses})"
    with engine.asking() as ask:
        for table, condition in of_units.items():
            there = f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1"
            while ask(there):
                ask(f"DELETE FROM {table} WHERE {condition} LIMIT {_DELETED_AT_ONCE}")


def _processes(engine: Engine, jobs: int) -> ProcessPoolExecutor:
    """Return the loading processes. They are spawned: forks would share this process's connections."""
    arguments = (type(engine), engine.reached)
    return ProcessPoolExecutor(jobs, get_context("spawn"), _begin_process, arguments)


def _begin_process(engine: type[Engine], endpoint: Endpoint) -> None:
    """Connect a loading process to the server, and let it end when its parent process ends."""
    global _engine
    _engine = engine(endpoint)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent_process().join()
    os._exit(1)


#: The server of a loading process.
_engine: Engine


def _load_one(unit: int, made: Made, scale: Scale) -> int:
    """Load a warehouse, or the items, in a loading process; return the number of the unit."""
    moment = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    of_unit = (
        [("item", population.items(made.seed, scale))]
        if unit == _ITEMS
        else population.warehouse(made.seed, unit, made.constants.c_last, moment, scale)
    )
    with _engine.transaction() as connection:
        for table, rows in of_unit:
            copy(_engine, connection, table, rows)
        connection.cursor().execute(f"INSERT INTO tpcc_loaded (w_id) VALUES ({unit})")
    return unit


def _make_indexes(engine: Engine, jobs: int) -> None:
    """Make the missing indexes, those of several tables at once."""
    there, before = _indexes(engine), schema.dialect(engine.name).before_indexes

    def of_table(statements: Mapping[str, str]) -> None:
        with engine.asking() as ask:
            if before:
                ask(before)
            for index, statement in statements.items():
                if index not in there:
                    ask(statement)

    with ThreadPoolExecutor(jobs) as pool:
        made = schema.indexes(engine.name).values()
        for _ in _results(engine, pool, [pool.submit(of_table, one) for one in made]):
            pass


def _count_rows(engine: Engine) -> None:
    with engine.asking() as ask:
        ask("DELETE FROM tpcc_rows")
        for table in schema.TABLES:
            ask(
                "INSERT INTO tpcc_rows (table_name, row_count)"
                f" SELECT '{table}', COUNT(*) FROM {table}"
            )


def _indexes(engine: Engine) -> set[str]:
    catalogue = {
        "postgres": "SELECT indexname AS name FROM pg_indexes WHERE schemaname = current_schema()",
        "mysql": "SELECT DISTINCT index_name AS name FROM information_schema.statistics"
        " WHERE table_schema = DATABASE()",
    }
    return {row["name"] for row in engine.query(catalogue[engine.protocol])}


def _results(engine: Engine, pool: Executor, tasks: list[Future]) -> Iterator[Any]:
    """Yield what tasks return as they end; after the first failure, no further task starts."""
    try:
        for task in as_completed(tasks):
            yield task.result()
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise EngineError(f"{engine.name}: a process that loaded it was killed") from error
        raise
