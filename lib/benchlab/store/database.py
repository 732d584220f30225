"""The store: everything derived from the raw folders, as Parquet files that DuckDB shows as tables.

This checkout's store, an export of it and the reference are the same thing: a folder, or an
object-store URL, whose files views read in place. Whatever is in the store can be made again with
``benchlab ingest --rebuild``; so an older schema is migrated by rebuilding, and a newer one is refused.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import polars as pl

from benchlab.errors import StoreError
from benchlab.raw.files import TRANSACTIONS, verified
from benchlab.store import catalogue, writer
from benchlab.store.export import export
from benchlab.store.schema import execute
from benchlab.store.views import narrowed, show
from benchlab.store.writer import Tables


class Store:
    """An open store: views over its files as they were when it was opened.

    Nothing is locked: others may write meanwhile. Use as a context manager, or close it.
    """

    def __init__(self, location: str | Path):
        self.connection, self._location = duckdb.connect(), location
        # files never change, so what stands at their ends is read once
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
        """Release its memory."""
        self.connection.close()

    def sql(
        self, query: str, *parameters: object, chosen: Iterable[str] | None = None
    ) -> pl.DataFrame:
        """Return the rows of a query.

        Args:
            query: in DuckDB's SQL.
            parameters: for its question marks.
            chosen: ids of runs that the query finds in the column ``run_id`` of a table of this name.
                ``… SEMI JOIN chosen USING (run_id)`` reads only the parts of files with these runs,
                and sees no run of other files.

        Raises:
            StoreError: the query is wrong; the message is the first line of DuckDB's.
        """
        run_ids = None if chosen is None else list(chosen)
        try:
            try:
                return self._rows(query, parameters, run_ids)
            except duckdb.IOException:
                self._show()  # a writer has put other files in the place of these
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
        # DuckDB knows the least and largest id of a table, and leaves out the parts beyond them
        execute(self.connection, "CREATE OR REPLACE TEMP TABLE chosen AS FROM chosen_ids")
        self.connection.unregister("chosen_ids")

    def runs(self, **equals: object) -> pl.DataFrame:
        """Return the rows of ``run``, oldest first, where every named column has the given value.

        ``None`` finds the rows in which the column is null.
        """
        condition = " AND ".join(f'"{name}" IS NOT DISTINCT FROM ?' for name in equals) or "true"
        return self.sql(
            f"SELECT * FROM run WHERE {condition} ORDER BY started, run_id", *equals.values()
        )

    def table(self, name: str, run_id: str) -> pl.DataFrame:
        """Return the rows of a table that one run filled."""
        return self.sql(f'SELECT * FROM "{name}" WHERE run_id = ?', run_id)

    def run_ids(self) -> set[str]:
        """Ids of all runs in the store."""
        return set(self.sql("SELECT run_id FROM run")["run_id"])

    def raw(self, run_id: str, file: str) -> bytes:
        """Return what a program printed during a run, byte for byte.

        Raises:
            StoreError: the run has no such file, or its folder is not here.
            ParseError: the file is gone from the run's folder, or was changed.
        """
        return self._file(run_id, file).read_bytes()

    def transactions(self, run_ids: Iterable[str]) -> pl.LazyFrame:
        """Return the recorded transactions of some runs, read in place: collect what you need of them.

        Columns: ``run_id``, and those that any of the runs has; null where a run lacks one.

        Raises:
            StoreError: a run recorded none, or its folder is not here.
            ParseError: the file is gone from the run's folder, or was changed.
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
        """Add one run's rows, all or none.

        Raises:
            StoreError: the rows do not fit, or the run is there already.
        """
        with writer.adding(self._location) as adding:
            adding.add(tables)
        self._show()

    def replace(self, tables: Tables) -> None:
        """Put rows in place of what these tables hold; see :func:`benchlab.store.writer.replace`."""
        writer.replace(self._location, tables)
        self._show()

    def export(self, folder: Path, profiles: Mapping[str, str] | None = None) -> None:
        """Write every table as Parquet, partitioned by study and engine as Hive does.

        DuckDB, Polars, Spark and Trino read the folder in place, and :func:`open_any` takes it for
        the store.

        Args:
            folder: where to.
            profiles: study → profile, only the runs of trials that these plan; ``None``: all.
        """
        export(self, folder, profiles)


def open_store(path: Path) -> Store:
    """Open this checkout's store.

    Raises:
        StoreError: there is none, it is of a newer schema (upgrade benchlab), an older one (rebuild
            it), or no store at all.
    """
    if catalogue.current(path) is None:
        raise StoreError(f"no store at {path}: run `make paper`, or `benchlab ingest`")
    return Store(path)


def open_any(location: str | Path) -> Store:
    """Open a store, or a folder or object-store URL that ``benchlab export`` wrote.

    Raises:
        StoreError: it cannot be read, or is nothing that benchlab wrote.
    """
    if Path(location).is_file():
        raise StoreError(
            f"{location} is a file; a store is a folder (data/store, which `benchlab ingest` makes)"
        )
    store = Store(location)
    if store.sql("SELECT 1 FROM run LIMIT 1").is_empty():
        store.close()
        raise StoreError(f"{location} holds no runs: not a folder that `benchlab export` wrote")
    return store
