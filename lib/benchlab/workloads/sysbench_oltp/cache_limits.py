"""How large a table may be to be cached by its server, and what a cached table refuses.

The server's answers are kept verbatim.
"""

import time
from collections.abc import Iterator

from benchlab.engines import Engine
from benchlab.errors import EngineError
from benchlab.observers.outcomes import Outcome

_TABLE = "cache_limits"

#: Numbers of rows that are tried: the article's two. The second was too many there.
_ROWS = (200_000, 300_000)

#: Relative precision of the search for the largest number of rows.
_WITHIN = 0.01

#: Rows that are inserted in one transaction, at most; the server limits its size.
_AT_ONCE = 50_000

#: Seconds after a write until a reader loads the table again: longer than a write lease.
_RELOADED_S = 8

#: How often an INSERT beyond the limit is tried, at most.
_TRIES = 5

_COLUMNS = "k, c, pad"


def outcomes(engine: Engine) -> Iterator[Outcome]:
    """Make a separate table beside those of the dataset, and yield the server's answers about it.

    Raises:
        EngineError: the server refused a statement that is not one of the questions.
    """
    engine.query(f"DROP TABLE IF EXISTS {_TABLE}")
    engine.query(f"CREATE TABLE {_TABLE} LIKE sbtest1")
    is_cached = []
    for rows in _ROWS:
        _fill(engine, rows)
        said = _cache(engine)
        is_cached.append(said == "done")
        yield Outcome(f"cache {rows:,} rows", said)
    if is_cached == [True, False]:
        yield from _at_limit(engine, _largest(engine, *_ROWS))
    engine.query(f"DROP TABLE {_TABLE}")
    lease = "tidb_table_cache_lease"
    for seconds in (0, 11):
        engine.query(f"SET GLOBAL {lease} = {seconds}")
        (found,) = engine.query(f"SELECT @@GLOBAL.{lease} AS lease")
        yield Outcome(f"a lease of {seconds} s", f"{found['lease']} s")


def _at_limit(engine: Engine, largest: int) -> Iterator[Outcome]:
    """Yield the answers about a table with the most rows that can be cached."""
    yield Outcome("most rows that can be cached", f"{largest:,}")
    _fill(engine, largest)
    engine.query(f"ALTER TABLE {_TABLE} CACHE")
    yield Outcome("DDL on a cached table", _said(engine, f"ALTER TABLE {_TABLE} ADD COLUMN d INT"))
    engine.query(_insert(_TABLE, largest // 10))
    yield Outcome("INSERT beyond the limit", _inserted(engine))
    update = f"UPDATE {_TABLE} SET k = k + 1 LIMIT 1"
    yield Outcome("UPDATE beyond the limit", _said(engine, update))
    yield Outcome("DELETE beyond the limit", _said(engine, f"DELETE FROM {_TABLE} LIMIT 1"))
    engine.query(f"ALTER TABLE {_TABLE} NOCACHE")


def _insert(source: str, rows: int) -> str:
    return f"INSERT INTO {_TABLE} ({_COLUMNS}) SELECT {_COLUMNS} FROM {source} LIMIT {rows}"


def _inserted(engine: Engine) -> str:
    """Insert rows until one is refused; the server learns the size when a reader loads the table."""
    said = "done"
    for _ in range(_TRIES):
        time.sleep(_RELOADED_S)
        engine.query(f"SELECT COUNT(*) FROM {_TABLE}")
        if (said := _said(engine, _insert("sbtest1", 1))) != "done":
            break
    return said


def _said(engine: Engine, sql: str) -> str:
    try:
        engine.query(sql)
    except EngineError as error:
        return f"error {error.code}: {error}"
    return "done"


def _cache(engine: Engine) -> str:
    """Try to cache the table; leave it as a plain one."""
    if (said := _said(engine, f"ALTER TABLE {_TABLE} CACHE")) == "done":
        engine.query(f"ALTER TABLE {_TABLE} NOCACHE")
    return said


def _largest(engine: Engine, cached: int, refused: int) -> int:
    """Return the most rows that can be cached, by halving."""
    while refused - cached > _WITHIN * cached:
        middle = (cached + refused) // 2
        _fill(engine, middle)
        if _cache(engine) == "done":
            cached = middle
        else:
            refused = middle
    return cached


def _fill(engine: Engine, rows: int) -> None:
    """Bring the plain table to a number of rows."""
    (count,) = engine.query(f"SELECT COUNT(*) AS rows_there FROM {_TABLE}")
    there = count["rows_there"]
    while there > rows:
        fewer = min(there - rows, _AT_ONCE)
        engine.query(f"DELETE FROM {_TABLE} LIMIT {fewer}")
        there -= fewer
    while there < rows:
        source = _TABLE if there >= _AT_ONCE else "sbtest1"
        more = min(rows - there, _AT_ONCE)
        engine.query(_insert(source, more))
        (count,) = engine.query(f"SELECT COUNT(*) AS rows_there FROM {_TABLE}")
        there = count["rows_there"]
