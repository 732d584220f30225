"""The store: everything derived from the raw folders, as Parquet files that DuckDB shows as tables.

This checkout's store, an export of it and the reference have one form: a folder, or an object-store
URL, with files that views read in place. ``benchlab ingest --rebuild`` can make everything in the store
again. So an older schema is migrated by rebuilding, and a newer one is refused.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import polars as pl

from benchlab.errors import NoRuns, StoreError
from benchlab.raw.files import TRANSACTIONS, verified
from benchlab.store import catalogue, writer
from benchlab.store.export import export
from benchlab.store.schema import execute
from benchlab.store.views import narrowed, show
from benchlab.store.writer import Tables


class Store:
    """An open store: views over its files as they were when it was opened.

    Nothing is locked: other processes may write at the same time. Use it as a context manager, or close
    it.
    """

    def __init__(self, location: str | Path):
        self.connection, self._location = duckdb.connect(), location
        # files never change, so the metadata in their footers is read once
        execute(self.connection, "SET parquet_metadata_cache = true")
        try:
            self._show()
        except Exception:
            self.connection.close()
            raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and release its memory."""
        self.connection.close()

    def sql(
        self, query: str, *parameters: object, chosen: Iterable[str] | None = None
    ) -> pl.DataFrame:
        """Return the rows of a query.

        Args:
            query: query in DuckDB's SQL.
            parameters: values for the question marks in the query.
            chosen: ids of runs. The query finds them in the table ``chosen``, column ``run_id``.
                ``… SEMI JOIN chosen USING (run_id)`` then reads only the parts of files with these
                runs. The query sees no runs of files without any of them.

        Raises:
            StoreError: the query failed; the message contains the first line of DuckDB's.
        """
        run_ids = None if chosen is None else list(chosen)
        try:
            try:
                return self._rows(query, parameters, run_ids)
            except duckdb.IOException:
                self._show()  # a writer has replaced the files
                return self._rows(query, parameters, run_ids)
        except duckdb.Error as error:
            raise StoreError(f"query failed: {str(error).splitlines()[0]}") from error

    def _show(self) -> None:
        self._catalogue = show(self.connection, self._location)

    def _rows(self, query: str, parameters: tuple, run_ids: list[str] | None) -> pl.DataFrame:
        if run_ids is None:
            return self.connection.sql(query, params=parameters or None).pl()
        self._choose(run_ids)
        with narrowed(self.connection, self._location, self._catalogue, query, run_ids):
            return self.connection.sql(query, params=parameters or None).pl()

    def _choose(self, run_ids: list[str]) -> None:
        ids = pl.DataFrame({"run_id": run_ids}, schema={"run_id": pl.String})
        self.connection.register("chosen_ids", ids.to_arrow())
        # DuckDB knows the least and greatest id of a table, and skips the parts of files beyond them
        execute(self.connection, "CREATE OR REPLACE TEMP TABLE chosen AS FROM chosen_ids")
        self.connection.unregister("chosen_ids")

    def runs(self, **equals: object) -> pl.DataFrame:
        """Return the rows of ``run``, oldest first, in which every named column has the given value.

        The value ``None`` means null.
        """
        condition = " AND ".join(f'"{name}" IS NOT DISTINCT FROM ?' for name in equals) or "true"
        return self.sql(
            f"SELECT * FROM run WHERE {condition} ORDER BY started, run_id", *equals.values()
        )

    def table(self, name: str, run_id: str) -> pl.DataFrame:
        """Return the rows of one run in a table."""
        return self.sql(f'SELECT * FROM "{name}" WHERE run_id = ?', run_id)

    def raw(self, run_id: str, file: str) -> bytes:
        """Return the content of a run's file, such as the output of a program, byte for byte.

        Raises:
            StoreError: the run has no such file, or its folder is not here.
            ParseError: the file is missing from the run's folder, or was changed.
        """
        return self._file(run_id, file).read_bytes()

    def transactions(self, run_ids: Iterable[str]) -> pl.LazyFrame:
        """Return the recorded transactions of some runs, one row each; read in place, when collected.

        Columns: ``run_id``, and those that any of the runs has; null if a run lacks one.

        Raises:
            StoreError: a run recorded none, or its folder is not here.
            ParseError: the file is missing from the run's folder, or was changed.
        """
        frames = [
            pl.scan_parquet(self._file(run_id, TRANSACTIONS)).select(
                pl.lit(run_id).alias("run_id"), pl.all()
            )
            for run_id in run_ids
        ]
        return pl.concat(frames, how="diagonal") if frames else pl.LazyFrame()

    def _file(self, run_id: str, file: str) -> Path:
        folder = Path(self._location).parent / "raw" / run_id
        known = dict(self.table("raw_file", run_id).select("file", "sha256").iter_rows())
        if file not in known:
            raise StoreError(
                f"run {run_id} has no file {file}; it has: {', '.join(sorted(known)) or 'none'}"
            )
        if not folder.is_dir():
            raise StoreError(f"the files of run {run_id} are not here: there is no {folder}")
        return verified(folder, file, known[file])

    def add(self, tables: Tables) -> None:
        """Add the rows of one run, all or none.

        Raises:
            StoreError: the rows do not fit the schema, or the run is in the store already.
        """
        with writer.adding(self._location) as adding:
            adding.add(tables)
        self._show()

    def replace(self, tables: Tables) -> None:
        """Replace all rows of these tables; see :func:`benchlab.store.writer.replace`."""
        writer.replace(self._location, tables)
        self._show()

    def export(self, folder: Path, profiles: Mapping[str, str] | None = None) -> None:
        """Write every table as Parquet, partitioned by study and engine as Hive does.

        DuckDB, Polars, Spark and Trino read the folder in place, and :func:`open_any` opens it like a
        store.

        Args:
            folder: folder to write to; an empty one, or one that does not exist.
            profiles: study → profile: only the runs of trials that these plan; ``None``: all runs.
        """
        export(self, folder, profiles)


def open_store(path: Path) -> Store:
    """Open this checkout's store.

    Raises:
        StoreError: there is no store, its schema is newer (upgrade benchlab) or older (rebuild it), or
            the folder is something else.
    """
    if catalogue.current(path) is None:
        raise StoreError(f"no store at {path}: run `make paper`, or `benchlab ingest`")
    return Store(path)


def open_any(location: str | Path) -> Store:
    """Open a store, or a folder or object-store URL that ``benchlab export`` wrote.

    Raises:
        StoreError: the location cannot be read, or benchlab did not write it.
        NoRuns: it has no runs, or there is nothing.
    """
    if Path(location).is_file():
        raise StoreError(
            f"{location} is a file; a store is a folder (data/store, which `benchlab ingest` makes)"
        )
    if "://" not in str(location) and not Path(location).exists():
        raise NoRuns(f"{location} does not exist")
    store = Store(location)
    if store.sql("SELECT 1 FROM run LIMIT 1").is_empty():
        store.close()
        raise NoRuns(f"{location} holds no runs: not a folder that `benchlab export` wrote")
    return store
