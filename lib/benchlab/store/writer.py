"""Writing to a store: new files first, then a catalogue that names them.

Writers take turns, and none waits for a reader. Runs that are added together make one segment. A new
segment is merged with the segments before it that are no larger than itself. So a store of n runs has
about log n small segments, however the runs were added, and a row is written about log n times at most.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import polars as pl

from benchlab.errors import StoreError
from benchlab.store import catalogue, schema
from benchlab.store.catalogue import LOCK, Catalogue, Segment
from benchlab.store.schema import CONCLUSIONS, PARQUET, PLANNED, SCHEMA_VERSION, execute, quoted
from benchlab.store.views import named

#: Number of rows from which on a segment is written and never merged; writing it takes seconds.
LARGEST = 5_000_000

_EMPTY = Catalogue(schema_version=SCHEMA_VERSION)

Tables = dict[str, pl.DataFrame]


@contextmanager
def adding(folder: Path) -> Iterator["Writer"]:
    """Add plans and runs to a store, which is created if there is none.

    Rows that were added stay, whatever ends the adding.

    Raises:
        StoreError: the folder is no store, or a store of another schema, or it cannot be written.
    """
    with _alone(folder):
        found = catalogue.current(folder)
        writer = Writer(folder, found or _EMPTY)
        try:
            yield writer
        finally:
            if (changed := writer.finish()) != found:
                catalogue.replace(folder, changed)


@contextmanager
def rebuilding(folder: Path) -> Iterator["Writer"]:
    """Replace all that a store holds; the old content stays until the new one is complete.

    Raises:
        StoreError: the folder is no store, or it cannot be written.
    """
    with _alone(folder):
        writer = Writer(folder, _EMPTY)
        yield writer
        catalogue.replace(folder, writer.finish())


def replace(folder: Path, tables: Tables) -> None:
    """Replace all rows of tables of conclusions: of all these tables or of none.

    Raises:
        StoreError: the rows do not fit the schema, the folder is no store, or it cannot be written.
    """
    with _alone(folder):
        found = catalogue.current(folder) or _EMPTY
        kept = [one.without(tables.keys()) for one in found.segments]
        others = [one for one in kept if one.rows]
        writer = Writer(folder, found.model_copy(update={"segments": tuple(others)}))
        for name, frame in tables.items():
            writer.add({name: frame})
            writer.spill(merges=False)
        catalogue.replace(folder, writer.finish())


class Writer:
    """Adds files to a store; readers do not see them before the catalogue names them."""

    def __init__(self, folder: Path, found: Catalogue):
        self._folder, self._segments, self.runs = folder, list(found.segments), found.runs
        # not the number of any file: a reader may have it open, or a killed writer may have left it
        numbers = (path.stem for path in catalogue.files(folder) if path.stem.isdigit())
        self._number = max(map(int, numbers), default=0)
        self._plans = found.files(PLANNED)
        self._stage()

    @property
    def plans(self) -> set[str]:
        """Names of the plans that were in the store before."""
        if not (source := named(self._folder, self._plans)):
            return set()
        return {row[0] for row in execute(self._staged, f"SELECT DISTINCT plan FROM {source}")}

    def add(self, tables: Tables) -> None:
        """Add the rows of one run or of one plan, all or none.

        Raises:
            StoreError: they do not fit the schema, or their run is in the store already.
        """
        name = ""
        ids = set(tables["run"]["run_id"]) if "run" in tables else set()
        if again := self.runs & ids:
            raise StoreError(f"run: {min(again)} is in the store already")
        try:
            self._staged.begin()
            for name, frame in tables.items():
                if not frame.is_empty():
                    self._staged.register("incoming", frame.to_arrow())
                    execute(self._staged, f'INSERT INTO "{name}" BY NAME FROM incoming')
                    self._staged.unregister("incoming")
            self._staged.commit()
        except BaseException as error:  # also an interrupt: half of a run must not be written
            self._staged.rollback()
            if isinstance(error, duckdb.Error):
                raise StoreError(f"{name}: {str(error).splitlines()[0]}") from error
            raise
        self.runs |= ids
        self._size += sum(frame.height for frame in tables.values())
        if self._size >= LARGEST:
            self.spill()

    def finish(self) -> Catalogue:
        """Write the staged rows and return the catalogue of all files."""
        self._write_segment(merges=True)
        self._staged.close()
        return Catalogue(schema_version=SCHEMA_VERSION, segments=tuple(self._segments))

    def spill(self, merges: bool = True) -> None:
        """Write the staged rows as a segment.

        Args:
            merges: whether it is merged with the segments before it that are no larger.
        """
        self._write_segment(merges)
        self._staged.close()
        self._stage()

    def _write_segment(self, merges: bool) -> None:
        if not self._size:
            return
        runs = [row[0] for row in execute(self._staged, "SELECT run_id FROM run")]
        merged = self._to_merge() if merges else []
        self._number += 1
        rows = {name: self._write(name, merged) for name in schema.columns()}
        written = Segment(
            name=f"{self._number:06d}",
            runs=tuple(sorted([*runs, *(run for one in merged for run in one.runs)])),
            rows={name: count for name, count in rows.items() if count},
        )
        # only now: if a file cannot be written, the merged segments stay
        self._segments = [one for one in self._segments if one not in merged] + [written]

    def _stage(self) -> None:
        """Create empty tables in memory, which check rows against the schema."""
        self._staged, self._size = duckdb.connect(), 0
        execute(self._staged, schema.sql())

    def _to_merge(self) -> list[Segment]:
        """Return the last segments, as long as each is no larger than all after it."""
        found, size = [], self._size
        for one in reversed(self._segments):
            if one.rows.keys() & set(CONCLUSIONS):
                continue
            if one.size > size or one.size + size > LARGEST:
                break
            size += one.size
            found.insert(0, one)
        return found

    def _write(self, table: str, merged: list[Segment]) -> int:
        """Write the file of one table, first the rows of merged segments; return its number of rows.

        Without rows there is no file.
        """
        old = Catalogue(schema_version=SCHEMA_VERSION, segments=tuple(merged)).files(table)
        # the columns of an export have another order, and two of them are in the path alone
        parts = [f"FROM {named(self._folder, [file])}" for file in old]
        query = " UNION ALL BY NAME ".join(
            [f'(FROM "{table}" LIMIT 0)', *parts, f'(FROM "{table}" ORDER BY ALL)']
        )
        if not execute(self._staged, f"SELECT 1 FROM ({query}) LIMIT 1"):
            return 0
        path = self._folder / table / f"{self._number:06d}.parquet"
        with catalogue.writing(self._folder):
            path.parent.mkdir(exist_ok=True)
            ((count,),) = execute(self._staged, f"COPY ({query}) TO {quoted(path)} {PARQUET}")
        return count


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder of a store, created if there is none; wait for other writers first."""
    catalogue.read(folder)  # raises if the folder holds something else: nothing is added there
    with catalogue.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        stream = (folder / LOCK).open("a")
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
