"""The catalogue of a store: which Parquet files hold its tables.

A store is a folder of Parquet files and of ``catalogue.json``, which names them. A file is never
changed once the catalogue names it, and the catalogue is replaced atomically. So a reader needs no
lock: it sees the store as it was before a change or as it is after it.
"""

import os
from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from benchlab.errors import StoreError
from benchlab.store.schema import SCHEMA_VERSION, columns
from benchlab.study.strict import problem

NAME = "catalogue.json"

#: Held by the process that writes.
LOCK = "lock"

_AWAY = ": move it away, then run `benchlab ingest`"


class _Format(BaseModel):
    """What every version of the catalogue has."""

    schema_version: int


class Segment(BaseModel):
    """Rows of some runs, in at most one file a table: ``<table>/<name>.parquet``."""

    model_config = ConfigDict(frozen=True)

    name: str
    runs: tuple[str, ...]
    """Their ids, sorted; empty: the rows are of no run."""
    rows: dict[str, int]
    """Table → number of rows; a table without rows has no file."""

    @property
    def size(self) -> int:
        """Rows of all tables."""
        return sum(self.rows.values())


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
        """Return the same without the segments in which none of these runs is."""
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
    """Read a catalogue's text.

    Raises:
        StoreError: it is none, or of a newer schema.
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
        StoreError: there is something else, or a store of a newer schema.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise StoreError(f"{folder} is no folder{_AWAY}")
    try:
        return parse((folder / NAME).read_text(), folder)
    except FileNotFoundError:
        # what a killed first ingest leaves is no store yet; anything else is another's
        foreign = {path.name for path in folder.iterdir()} - {*columns(), LOCK, f"{NAME}.tmp"}
        if not foreign:
            return None
        raise StoreError(
            f"{folder} is no store: it holds {min(foreign)}, no {NAME}{_AWAY}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{folder} is no store: {NAME}: {error}{_AWAY}") from error


def current(folder: Path) -> Catalogue | None:
    """Return the catalogue of a store of this checkout if it is of this schema; see :func:`read`.

    Raises:
        StoreError: it is of another one.
    """
    found = read(folder)
    if found and found.schema_version < SCHEMA_VERSION:
        raise StoreError(
            f"{folder}: schema {found.schema_version} (this benchlab: {SCHEMA_VERSION}) is older:"
            " run `benchlab ingest --rebuild`"
        )
    return found


def files(folder: Path) -> set[Path]:
    """Return all files of rows below a store's folder, those of a killed writer, too."""
    return {path for table in columns() for path in folder.glob(f"{table}/[0-9]*.parquet")}


def replace(folder: Path, catalogue: Catalogue) -> None:
    """Put a catalogue in place of a store's, then delete the files that it does not name."""
    draft = folder / f"{NAME}.tmp"
    with draft.open("w") as stream:
        stream.write(catalogue.model_dump_json(indent=1))
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(folder / NAME)
    named = {folder / file for table in columns() for file in catalogue.files(table)}
    for path in files(folder) - named:
        path.unlink()
