"""The catalogue of a store: which Parquet files hold its tables.

A store is a folder of Parquet files and ``catalogue.json``, which names them. A file is never changed
once the catalogue names it, and the catalogue is replaced atomically. So a reader needs no lock: it
sees the store either before or after a change.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import duckdb
from pydantic import BaseModel, ConfigDict, ValidationError

from benchlab import atomic
from benchlab.errors import StoreError
from benchlab.store.schema import SCHEMA_VERSION, columns
from benchlab.study.strict import problem

NAME = "catalogue.json"

#: File that the writing process locks.
LOCK = "lock"

_AWAY = ": move it away, then run `benchlab ingest`"


class _Format(BaseModel):
    """The part that every version of the catalogue has."""

    schema_version: int


class Segment(BaseModel):
    """Rows of some runs, in at most one file per table: ``<table>/<name>.parquet``."""

    model_config = ConfigDict(frozen=True)

    name: str
    runs: tuple[str, ...]
    """Ids of the runs, sorted; empty: the rows belong to no run."""
    rows: dict[str, int]
    """Table → number of rows; a table without rows has no file."""

    @property
    def size(self) -> int:
        """Rows of all tables."""
        return sum(self.rows.values())

    def without(self, tables: Collection[str]) -> Self:
        """Return it without some tables."""
        rows = {name: count for name, count in self.rows.items() if name not in tables}
        return self.model_copy(update={"rows": rows})


class Catalogue(BaseModel):
    """The segments of a store, oldest first."""

    model_config = ConfigDict(frozen=True)

    schema_version: int
    segments: tuple[Segment, ...] = ()

    @property
    def runs(self) -> set[str]:
        """Ids of all runs."""
        return {run_id for segment in self.segments for run_id in segment.runs}

    def having(self, run_ids: Collection[str]) -> "Catalogue":
        """Return the catalogue with only the segments that contain any of these runs."""
        wanted = set(run_ids)
        return self.model_copy(
            update={
                "segments": tuple(one for one in self.segments if not wanted.isdisjoint(one.runs))
            }
        )

    def files(self, table: str) -> list[str]:
        """Return the files of a table, relative to the store's folder."""
        return [f"{table}/{one.name}.parquet" for one in self.segments if table in one.rows]


def parse(content: str, location: object) -> Catalogue:
    """Parse the text of a catalogue.

    Args:
        content: the text, as JSON.
        location: where the store is, for messages.

    Raises:
        StoreError: the text is no catalogue, or its schema is newer.
    """
    try:
        version = _Format.model_validate_json(content).schema_version
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{location}: schema {version} (this benchlab: {SCHEMA_VERSION}) is newer than this"
                " benchlab knows: upgrade benchlab"
            )
        return Catalogue.model_validate_json(content)
    except ValidationError as error:
        raise StoreError(f"{location} is no store: {NAME}: {problem(error)}{_AWAY}") from error


def read(folder: Path) -> Catalogue | None:
    """Return the catalogue of a store of this checkout; ``None``: there is no store.

    Raises:
        StoreError: there is something else in its place, or the schema of the store is newer.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise StoreError(f"{folder} is no folder{_AWAY}")
    try:
        return parse((folder / NAME).read_text(), folder)
    except FileNotFoundError:
        # the remains of a killed first ingest are no store yet; other files are not the store's
        foreign = {path.name for path in folder.iterdir()} - {*columns(), LOCK, NAME + atomic.DRAFT}
        if not foreign:
            return None
        raise StoreError(
            f"{folder} is no store: it holds {min(foreign)}, no {NAME}{_AWAY}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{folder} is no store: {NAME}: {error}{_AWAY}") from error


def current(folder: Path) -> Catalogue | None:
    """Return the catalogue of a store of this checkout, which must be of this schema; see :func:`read`.

    Raises:
        StoreError: it is of another schema.
    """
    found = read(folder)
    if found and found.schema_version < SCHEMA_VERSION:
        raise StoreError(
            f"{folder}: schema {found.schema_version} (this benchlab: {SCHEMA_VERSION}) is older:"
            " run `benchlab ingest --rebuild`"
        )
    return found


def files(folder: Path) -> set[Path]:
    """Return all Parquet files in the folder of a store, including those of a killed writer."""
    return {path for table in columns() for path in folder.glob(f"{table}/**/*.parquet")}


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise a StoreError instead of what Python or DuckDB raise where a store cannot be written."""
    try:
        yield
    except (OSError, duckdb.IOException) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise StoreError(f"{folder} cannot be written: {reason}") from error


def replace(folder: Path, catalogue: Catalogue) -> None:
    """Replace the catalogue of a store, then delete the files that the new one does not name.

    Raises:
        StoreError: it cannot be written, as on a full disk.
    """
    with writing(folder):
        atomic.write(folder / NAME, catalogue.model_dump_json(indent=1))
    named = {folder / file for table in columns() for file in catalogue.files(table)}
    for path in files(folder) - named:
        path.unlink()
