"""An export: a store as Parquet, partitioned by study and engine as Hive does."""

import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import duckdb
import polars as pl

from benchlab.store import catalogue
from benchlab.store.catalogue import Catalogue, Segment
from benchlab.store.schema import (
    PARQUET,
    PLANNED,
    RUN_TABLES,
    SCHEMA_VERSION,
    STUDY_TABLES,
    columns,
    execute,
    quoted,
)

if TYPE_CHECKING:
    from benchlab.store.database import Store


def export(store: "Store", folder: Path, profiles: Mapping[str, str] | None) -> None:
    """Write every table; see :meth:`benchlab.store.Store.export`."""
    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with catalogue.writing(folder):
            _write(store, draft, profiles)
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(store: "Store", folder: Path, profiles: Mapping[str, str] | None) -> None:
    of_profiles, of_runs = "true", "true"
    if profiles is not None:
        either = [
            f"(study = {quoted(study)} AND profile = {quoted(profile)})"
            for study, profile in profiles.items()
        ]
        of_profiles = " OR ".join(either) or "false"
        # not by the run's own profile: another profile may have measured the trial first
        of_runs = (
            f"(target, trial_key) IN (SELECT (target, trial_key) FROM planned WHERE {of_profiles})"
        )
    runs = store.sql(f"SELECT study, engine, run_id FROM run WHERE {of_runs} ORDER BY ALL")
    segments = [
        _runs(store, folder, *partition, rows["run_id"].to_list())
        for partition, rows in runs.group_by("study", "engine", maintain_order=True)
    ]
    studies = {
        one
        for table in STUDY_TABLES
        for one in store.sql(f"SELECT DISTINCT study FROM {table}")["study"]
    }
    segments += [_study(store, folder, study, of_profiles) for study in sorted(studies)]
    folder.mkdir(parents=True, exist_ok=True)
    catalogue.replace(folder, Catalogue(schema_version=SCHEMA_VERSION, segments=tuple(segments)))


def keep(old: Path, new: Path, measured: Collection[str]) -> None:
    """Copy studies from an older export into a new one, except those measured since then.

    Args:
        old: the older export; nothing happens if there is none.
        new: the new export.
        measured: names of the studies measured since then.

    Raises:
        StoreError: the schema of the older export is newer than this benchlab's.
    """
    before, now = catalogue.read(old), catalogue.current(new)
    if before is None:
        return
    if before.schema_version < SCHEMA_VERSION:
        with _upgraded(old) as upgraded:
            return keep(upgraded, new, measured)
    kept = {_study_of(one) for one in before.segments if one.runs}.difference(measured)
    of_old = [one for one in before.segments if _study_of(one) in kept]
    replaced = [one for one in now.segments if _study_of(one) in kept]
    of_new = [one for one in now.segments if one not in replaced]
    for path in _files(replaced):
        (new / path).unlink()
    for path in _files(of_old):
        (new / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(old / path, new / path)
    segments = tuple(sorted([*of_new, *of_old], key=lambda one: one.name))
    catalogue.replace(new, now.model_copy(update={"segments": segments}))


def replace(folder: Path, table: str, frame: pl.DataFrame) -> None:
    """Replace the conclusions on some studies in an export.

    Args:
        folder: the export.
        table: name of a table of conclusions.
        frame: rows of the table, with a column ``study``; at least one row of each study.
    """
    by_study = frame.group_by("study", maintain_order=True)
    _replace(
        folder, table, {_name_of_study(study): rows.drop("study") for (study,), rows in by_study}
    )


def replace_of_runs(folder: Path, table: str, frame: pl.DataFrame) -> None:
    """Replace the rows that all runs of an export have in a table.

    Args:
        folder: the export.
        table: name of a table of runs.
        frame: rows of the table.
    """
    frame = frame.select(*columns()[table])
    of_segments = {
        one.name: frame.filter(pl.col("run_id").is_in(one.runs))
        for one in catalogue.read(folder).segments
        if one.runs
    }
    _replace(folder, table, of_segments)


def _replace(folder: Path, table: str, frames: Mapping[str, pl.DataFrame]) -> None:
    """Replace a table's rows in segments, by name. A file whose rows did not change is not written."""
    found = catalogue.read(folder)
    segments = {one.name: one for one in found.segments}
    gone = []
    for name, rows in frames.items():
        path = folder / table / f"{name}.parquet"
        before = segments[name]
        if rows.is_empty():
            gone.append(path)
            counts = {one: count for one, count in before.rows.items() if one != table}
            segments[name] = before.model_copy(update={"rows": counts})
            continue
        with duckdb.connect() as connection:
            connection.register("rows", rows.to_arrow())
            query = 'FROM "rows" ORDER BY ALL'
            if path.exists() and pl.read_parquet(path).equals(connection.sql(query).pl()):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            written = path.with_suffix(".partial")
            execute(connection, f"COPY ({query}) TO {quoted(written)} {PARQUET}")
            written.replace(path)
        segments[name] = before.model_copy(update={"rows": {**before.rows, table: rows.height}})
    catalogue.replace(folder, found.model_copy(update={"segments": tuple(segments.values())}))
    for path in gone:
        path.unlink(missing_ok=True)


@contextmanager
def _upgraded(old: Path) -> Iterator[Path]:
    """Write an export of an older schema in the present one; columns that it lacks are null."""
    from benchlab.store import open_any

    with tempfile.TemporaryDirectory(prefix=".upgraded-", dir=old.parent) as folder:
        with open_any(old) as store:
            export(store, Path(folder), None)
        yield Path(folder)


def _files(segments: Iterable[Segment]) -> list[Path]:
    return [Path(table, f"{one.name}.parquet") for one in segments for table in one.rows]


def _study_of(segment: Segment) -> str:
    return unquote(segment.name.split("/")[0].removeprefix("study="))


def _runs(store: "Store", folder: Path, study: str, engine: str, run_ids: list[str]) -> Segment:
    store.sql("FROM chosen", chosen=run_ids)
    name = f"study={quote(study)}/engine={quote(engine)}/data_0"
    queries = {
        table: f'FROM "{table}" SEMI JOIN chosen USING (run_id)'
        if table != "run"
        else "SELECT * EXCLUDE (study, engine) FROM run SEMI JOIN chosen USING (run_id)"
        for table in RUN_TABLES
    }
    return _segment(store, folder, name, run_ids, queries)


def _study(store: "Store", folder: Path, study: str, of_profiles: str) -> Segment:
    queries = {}
    for table in STUDY_TABLES:
        condition = f"({of_profiles})" if table in (PLANNED, "verdict") else "true"
        queries[table] = (
            f'SELECT * EXCLUDE (study) FROM "{table}" WHERE study = {quoted(study)} AND {condition}'
        )
    return _segment(store, folder, _name_of_study(study), (), queries)


def _name_of_study(study: str) -> str:
    return f"study={quote(study)}/data_0"


def _segment(
    store: "Store", folder: Path, name: str, run_ids: Iterable[str], queries: dict[str, str]
) -> Segment:
    rows = {}
    for table, query in queries.items():
        path = folder / table / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        ((rows[table],),) = execute(
            store.connection, f"COPY ({query} ORDER BY ALL) TO {quoted(path)} {PARQUET}"
        )
        if not rows[table]:
            path.unlink()
            del rows[table]
    return Segment(name=name, runs=tuple(run_ids), rows=rows)
