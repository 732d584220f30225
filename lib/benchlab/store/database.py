"""The store: one DuckDB file with everything derived from the raw folders, or a Parquet export of it.

Whatever is in it can be made again with ``benchlab ingest --rebuild``; so an older schema is migrated
by rebuilding, and a newer one is refused.
"""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

import duckdb
import polars as pl

from benchlab.errors import StoreError

# History of the schema: see the head of schema.sql.
SCHEMA_VERSION = 4

#: Columns that exports of older schemas lack; they are null there.
_ADDED = {
    "run": {"intervention", "dataset", "share_of_peak", "rate_per_s"},
    "attribution": {"saturation", "share", "confidence", "node"},
    "host": {"node"},
    "os_sample": {"node"},
    "interval": {"operation"},
    "latency_bucket": {"operation"},
}

#: Every table that runs fill, in the order in which an explorer would meet them.
RUN_TABLES = (
    "run",
    "phase",
    "node",
    "host",
    "engine_setting",
    "interval",
    "latency_bucket",
    "operation",
    "os_sample",
    "perf_stack",
    "engine_counter",
    "engine_wait",
    "query_plan",
    "attribution",
    "intervention_block",
    "elasticity",
    "raw_output",
)

#: The table that plans fill.
PLANNED = "planned_trial"

#: Tables of what articles tell and what was concluded of it.
STUDY_TABLES = (PLANNED, "published", "claim", "verdict")


class Store:
    """An open store. Use as a context manager, or close it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self.connection = connection

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def sql(
        self, query: str, *parameters: object, chosen: Iterable[str] | None = None
    ) -> pl.DataFrame:
        """Return the rows of a query.

        Args:
            query: in DuckDB's SQL.
            parameters: for its question marks.
            chosen: ids of runs that the query finds in the column ``run_id`` of a table of this name,
                so that it reads of other tables what these runs have.

        Raises:
            StoreError: the query is wrong; the message is the first line of DuckDB's.
        """
        try:
            if chosen is not None:
                ids = pl.DataFrame({"run_id": list(chosen)}, schema={"run_id": pl.String})
                self.connection.register("chosen", ids.to_arrow())
            return self.connection.sql(query, params=parameters or None).pl()
        except duckdb.Error as error:
            raise StoreError(f"query failed: {str(error).splitlines()[0]}") from error

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

    def add(self, tables: dict[str, pl.DataFrame]) -> None:
        """Add one run's rows, all or none.

        Raises:
            StoreError: the rows do not fit, or the run is there already.
        """
        self._insert(tables)

    def replace(self, tables: dict[str, pl.DataFrame]) -> None:
        """Put these rows in place of all that these tables hold, in all of them or in none.

        Raises:
            StoreError: the rows do not fit.
        """
        self._insert(tables, emptied=tables)

    def _insert(self, tables: dict[str, pl.DataFrame], emptied: Iterable[str] = ()) -> None:
        name = ""
        try:
            self.connection.begin()
            for name in emptied:
                _execute(self.connection, f'DELETE FROM "{name}"')
            for name, frame in tables.items():
                if not frame.is_empty():
                    self.connection.register("incoming", frame.to_arrow())
                    _execute(
                        self.connection, f'INSERT INTO "{name}" BY NAME SELECT * FROM incoming'
                    )
                    self.connection.unregister("incoming")
            self.connection.commit()
        except duckdb.Error as error:
            self.connection.rollback()
            raise StoreError(f"{name}: {str(error).splitlines()[0]}") from error

    def export(
        self, folder: Path, profiles: Mapping[str, str] | None = None, raw: bool = True
    ) -> None:
        """Write every table as Parquet, partitioned by study and engine as Hive does.

        DuckDB, Polars, Spark and Trino read the folder in place, and :func:`open_any` takes it for
        the store.

        Args:
            folder: where to.
            profiles: study → profile, only the runs of trials that these plan; ``None``: all.
            raw: also what the programs printed, byte for byte; most of the size.
        """
        of_profiles, of_runs = "", ""
        if profiles is not None:
            either = [
                f"(study = {_quoted(study)} AND profile = {_quoted(profile)})"
                for study, profile in profiles.items()
            ]
            of_profiles = f"WHERE {' OR '.join(either) or 'false'}"
            # not by the run's own profile: another one may have measured a trial first
            of_runs = (
                "WHERE (run.target, run.trial_key) IN"
                f" (SELECT (target, trial_key) FROM planned {of_profiles})"
            )
        for name in RUN_TABLES:
            if name == "raw_output" and not raw:
                continue
            columns = "run.*" if name == "run" else "run.study, run.engine, t.*"
            joined = "" if name == "run" else f'JOIN "{name}" t USING (run_id)'
            self._copy(
                f"SELECT {columns} FROM run {joined} {of_runs}", folder / name, "study, engine"
            )
        for name in STUDY_TABLES:
            chosen = of_profiles if name in (PLANNED, "verdict") else ""
            self._copy(f'SELECT * FROM "{name}" {chosen}', folder / name, "study")

    def _copy(self, query: str, folder: Path, partition: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _execute(
            self.connection,
            f"COPY ({query} ORDER BY ALL) TO {_quoted(folder)} (FORMAT parquet, COMPRESSION zstd,"
            f" PARTITION_BY ({partition}), OVERWRITE_OR_IGNORE)",
        )


def open_store(path: Path, read_only: bool = False) -> Store:
    """Open the store, made new if there is none.

    Raises:
        StoreError: it is of a newer schema (upgrade benchlab), an older one (rebuild it), held by
            another process, or no store at all. The file stays as it is.
    """
    if read_only and not path.is_file():
        raise StoreError(f"no store at {path}: run `make paper`, or `benchlab ingest`")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and not _is_duckdb(path):
        raise StoreError(
            f"{path} is no DuckDB file: move it away, then run `benchlab ingest --rebuild`"
        )
    try:
        connection = duckdb.connect(str(path), read_only=read_only)
    except duckdb.Error as error:
        raise StoreError(f"{path} cannot be opened: {str(error).splitlines()[0]}") from error
    try:
        if not read_only and not _execute(connection, "SHOW ALL TABLES"):
            _create(connection)
        _check_schema(connection, path)
    except Exception:
        connection.close()
        raise
    return Store(connection)


def open_any(location: str | Path) -> Store:
    """Open a store file or a folder or object-store URL that ``benchlab export`` wrote; read-only.

    Raises:
        StoreError: it cannot be read, or is nothing that benchlab wrote; see also
            :func:`open_store`.
    """
    if str(location).endswith(".duckdb"):
        return open_store(Path(location), read_only=True)
    connection = duckdb.connect()
    _execute(connection, _schema())
    for name in (*RUN_TABLES, *STUDY_TABLES):
        exported = (
            f"read_parquet({_quoted(f'{location}/{name}/**/*.parquet')}, hive_partitioning = true)"
        )
        try:
            held = {row[0] for row in _execute(connection, f"DESCRIBE FROM {exported}")}
            lacking = _ADDED.get(name, set()) - held
            columns = [f'"{one}"' for one in _columns(connection, name) if one not in lacking]
            _execute(
                connection,
                f'INSERT INTO "{name}" BY NAME SELECT {", ".join(columns)} FROM {exported}',
            )
        except duckdb.Error as error:
            if "No files found" in str(error):
                continue  # a table without rows, or one that older exports lack
            raise StoreError(f"{location}: {name}: {str(error).splitlines()[0]}") from error
    if not _execute(connection, "SELECT count(*) FROM run")[0][0]:
        raise StoreError(f"{location} holds no runs: not a folder that `benchlab export` wrote")
    return Store(connection)


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    return [row[1] for row in _execute(connection, f"PRAGMA table_info('{table}')")]


def _execute(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: list | None = None
) -> list[tuple]:
    """Run a statement to its end; DuckDB 2 begins nothing new while a result is unread."""
    return connection.execute(statement, parameters).fetchall()


def _quoted(text: object) -> str:
    doubled = str(text).replace("'", "''")
    return f"'{doubled}'"


def _schema() -> str:
    return files("benchlab.store").joinpath("schema.sql").read_text()


def _is_duckdb(path: Path) -> bool:
    """Whether a file begins as DuckDB's do: 8 bytes of checksum, then the magic word.

    (DuckDB documentation, Internals, Storage Versions and Format.) DuckDB itself would take an SQLite
    file, too, and look for an extension that reads it.
    """
    with path.open("rb") as stream:
        return stream.read(12)[8:] == b"DUCK"


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables, all or none: killed in between, it would leave what looks like no store."""
    connection.begin()
    _execute(connection, _schema())
    _execute(connection, "INSERT INTO meta VALUES (?)", [SCHEMA_VERSION])
    connection.commit()


def _check_schema(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        ((found,),) = _execute(connection, "SELECT schema_version::INTEGER FROM meta")
    except (duckdb.Error, ValueError) as error:
        raise StoreError(
            f"{path} is a DuckDB database, but not benchlab's (it has no table meta with one"
            " schema_version): move it away, then run `benchlab ingest --rebuild`"
        ) from error
    if found != SCHEMA_VERSION:
        todo = (
            "is newer than this benchlab knows: upgrade benchlab"
            if found > SCHEMA_VERSION
            else "is older: run `benchlab ingest --rebuild`"
        )
        raise StoreError(f"{path}: schema {found} (this benchlab: {SCHEMA_VERSION}) {todo}")
