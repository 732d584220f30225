"""The tables of a store as views, which read its files in place."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from benchlab.errors import StoreError
from benchlab.store import catalogue
from benchlab.store.catalogue import Catalogue
from benchlab.store.schema import ADDED, RENAMED, RUN_TABLES, columns, execute, quoted, views

#: Columns that stand in the path are names, whatever they look like.
_HIVE = "hive_partitioning = true, hive_types_autocast = false"

#: A writer's change takes milliseconds, and so does looking again.
_TRIES = 5


def show(connection: duckdb.DuckDBPyConnection, location: str | Path) -> Catalogue | None:
    """Make a view of every table over the files that are at a folder or object-store URL now.

    A table without files is empty. Columns that an older schema lacks are null, and those that it names
    otherwise have the present name.

    Returns:
        The catalogue of these files; ``None``: there is none, as in exports of before schema 4.

    Raises:
        StoreError: a file cannot be read, or lacks a column.
    """
    for left in reversed(range(_TRIES)):
        try:
            found = _catalogue(connection, location)
            for table in columns():
                body = _body(connection, location, found, table)
                execute(connection, f'CREATE OR REPLACE VIEW "{table}" AS {body}')
            execute(connection, views())
            return found
        except duckdb.Error as error:
            if isinstance(error, duckdb.IOException) and left:
                continue  # a writer has just put other files in the place of these
            raise StoreError(f"{location}: {str(error).splitlines()[0]}") from error


@contextmanager
def narrowed(
    connection: duckdb.DuckDBPyConnection,
    location: str | Path,
    found: Catalogue | None,
    query: str,
    run_ids: Collection[str],
) -> Iterator[None]:
    """Let a query see only the segments of some runs, so that others cost it nothing.

    Args:
        connection: to the views.
        location: of the store.
        found: its catalogue; ``None``: it has none, and the query sees everything.
        query: whose tables are narrowed.
        run_ids: of the runs.
    """
    fewer = found and found.having(run_ids)
    if fewer is None or len(fewer.segments) == len(found.segments):
        yield
        return
    # a word too many costs a view
    tables = sorted(set(re.findall(r"\w+", query)) & set(RUN_TABLES))
    for table in tables:
        # a temporary view hides the one of the same name
        body = _body(connection, location, fewer, table)
        execute(connection, f'CREATE OR REPLACE TEMP VIEW "{table}" AS {body}')
    try:
        yield
    finally:
        for table in tables:
            execute(connection, f'DROP VIEW temp."{table}"')


def _body(
    connection: duckdb.DuckDBPyConnection,
    location: str | Path,
    found: Catalogue | None,
    table: str,
) -> str:
    """Return the query that is a table's view."""
    source = _globbed(location, table) if found is None else _named(location, found, table)
    held = _held(connection, source) if source else set()
    types = columns()[table]
    # what every schema had must be there: an export of another is refused, not read in part
    shown = types.keys() - (ADDED.get(table, set()) - held) if held else set()
    earlier = {new: old for new, old in RENAMED.get(table, {}).items() if new not in held}
    selected = ", ".join(
        f'"{earlier.get(name, name)}"::{kind} AS "{name}"'
        if name in shown
        else f'NULL::{kind} AS "{name}"'
        for name, kind in types.items()
    )
    return f"SELECT {selected} {f'FROM {source}' if held else 'LIMIT 0'}"


def _catalogue(connection: duckdb.DuckDBPyConnection, location: str | Path) -> Catalogue | None:
    """Return the catalogue, which exports of before schema 4 lack."""
    path = quoted(f"{location}/{catalogue.NAME}")
    try:
        found = execute(connection, f"SELECT content FROM read_text({path})")
    except duckdb.IOException:
        return None
    return catalogue.parse(found[0][0], location) if found else None


def _named(location: str | Path, found: Catalogue, table: str) -> str:
    """Return where a table's rows come from by a catalogue; empty: it has none."""
    files = found.files(table)
    paths = ", ".join(quoted(f"{location}/{file}") for file in files)
    options = _HIVE if files and "=" in files[0] else "hive_partitioning = false"
    return f"read_parquet([{paths}], {options})" if files else ""


def _globbed(location: str | Path, table: str) -> str:
    """Return the same without a catalogue, for files that may not all have the same columns."""
    return (
        f"read_parquet({quoted(f'{location}/{table}/**/*.parquet')}, {_HIVE}, union_by_name = true)"
    )


def _held(connection: duckdb.DuckDBPyConnection, source: str) -> set[str]:
    try:
        return {row[0] for row in execute(connection, f"DESCRIBE FROM {source}")}
    except duckdb.IOException as error:
        if "No files found" in str(error):
            return set()  # a table without rows, or one that this schema lacked
        raise
