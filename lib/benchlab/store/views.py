"""The tables of a store, as views that read its files in place."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from benchlab.errors import StoreError
from benchlab.store import catalogue
from benchlab.store.catalogue import Catalogue
from benchlab.store.schema import ADDED, RENAMED, RUN_TABLES, columns, execute, quoted, views

#: Columns in the path are text, even if their values look like numbers or dates.
_HIVE = "hive_partitioning = true, hive_types_autocast = false"

#: Number of attempts to read the files: a writer replaces them within milliseconds.
_TRIES = 5


def show(connection: duckdb.DuckDBPyConnection, location: str | Path) -> Catalogue | None:
    """Create a view of every table over the present files of a folder or object-store URL.

    A table without files is empty. Columns that an older schema lacks are null. Columns that it names
    differently have the present name.

    Returns:
        The catalogue of these files; ``None``: there is none, as in exports from before schema 4.

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
                continue  # a writer has just replaced the files
            raise StoreError(f"{location}: {str(error).splitlines()[0]}") from error


@contextmanager
def narrowed(
    connection: duckdb.DuckDBPyConnection,
    location: str | Path,
    found: Catalogue | None,
    query: str,
    run_ids: Collection[str],
) -> Iterator[None]:
    """Let a query see only the segments of some runs, so that it does not read the others.

    Args:
        connection: connection with the views.
        location: location of the store.
        found: catalogue of the store; ``None``: it has none, and the query sees everything.
        query: the query; the views of the tables that it names are narrowed.
        run_ids: ids of the runs.
    """
    fewer = found and found.having(run_ids)
    if fewer is None or len(fewer.segments) == len(found.segments):
        yield
        return
    # a table name that is no table in the query only costs a view
    tables = sorted(set(re.findall(r"\w+", query)) & set(RUN_TABLES))
    try:
        for table in tables:
            # a temporary view hides the one of the same name
            body = _body(connection, location, fewer, table)
            execute(connection, f'CREATE OR REPLACE TEMP VIEW "{table}" AS {body}')
        yield
    finally:
        for table in tables:
            execute(connection, f'DROP VIEW IF EXISTS temp."{table}"')


def _body(
    connection: duckdb.DuckDBPyConnection,
    location: str | Path,
    found: Catalogue | None,
    table: str,
) -> str:
    """Return the query that is a table's view."""
    if found is None:
        source = _globbed(location, table)
        held = _held(connection, source, may_lack=True)
    else:
        source = named(location, found.files(table))
        held = _held(connection, source, may_lack=False) if source else set()
    types = columns()[table]
    # columns of every schema must be there: other exports are refused, not read in part
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
    """Return the catalogue; ``None``: there is none, as in exports from before schema 4."""
    path = quoted(f"{location}/{catalogue.NAME}")
    try:
        found = execute(connection, f"SELECT content FROM read_text({path})")
    except duckdb.IOException:
        return None
    return catalogue.parse(found[0][0], location) if found else None


def named(location: str | Path, files: Collection[str]) -> str:
    """Return the source in SQL of the files that a catalogue names for a table; empty: no file.

    Files of an export have columns in their paths, those that were added to it later have not.
    """
    exported = [file for file in files if "=" in file]
    added = [file for file in files if "=" not in file]
    sources = [
        f"read_parquet([{', '.join(quoted(f'{location}/{file}') for file in some)}], {options})"
        for some, options in ((exported, _HIVE), (added, "hive_partitioning = false"))
        if some
    ]
    if len(sources) < 2:
        return "".join(sources)
    return f"(FROM {' UNION ALL BY NAME FROM '.join(sources)})"


def _globbed(location: str | Path, table: str) -> str:
    """Return the source of a table in SQL without a catalogue; its files may differ in columns."""
    return (
        f"read_parquet({quoted(f'{location}/{table}/**/*.parquet')}, {_HIVE}, union_by_name = true)"
    )


def _held(connection: duckdb.DuckDBPyConnection, source: str, *, may_lack: bool) -> set[str]:
    """Return the columns of a source.

    Args:
        connection: any connection.
        source: the source in SQL.
        may_lack: whether it may have no files: those of a catalogue are gone only if a writer has just
            replaced them.
    """
    try:
        return {row[0] for row in execute(connection, f"DESCRIBE FROM {source}")}
    except duckdb.IOException as error:
        if may_lack and "No files found" in str(error):
            return set()  # a table without rows, or one that the schema of the files lacks
        raise
