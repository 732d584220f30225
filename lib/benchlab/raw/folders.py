"""The run folders below ``data/raw``: which are finished, and how the runs ended."""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ValidationError

from benchlab.errors import BenchlabError, ParseError
from benchlab.raw.record import RECORD_NAME, RECORD_VERSION, Record, Status, upgraded
from benchlab.study.strict import problem


class _Format(BaseModel):
    """The field that every version of the record has."""

    record_version: int


def finished(raw: Path) -> Iterator[Path]:
    """Yield the folders of finished runs, oldest first."""
    for path in sorted(raw.glob(f"*/{RECORD_NAME}")):
        yield path.parent


def unfinished(raw: Path) -> list[Path]:
    """Return the folders of runs that are running or were killed."""
    runs = (path for path in sorted(raw.glob("*-*")) if path.is_dir())
    return [path for path in runs if not (path / RECORD_NAME).exists()]


def read(folder: Path) -> Record:
    """Read a finished run's record.

    Raises:
        ParseError: the record is damaged, or is that of another folder.
        BenchlabError: a newer benchlab wrote it, and this one cannot read it.
    """
    path = folder / RECORD_NAME
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ParseError(f"{folder.name}: {RECORD_NAME}: {error.strerror}") from error
    except ValidationError as error:
        raise ParseError(f"{folder.name}: {RECORD_NAME} is no record: {problem(error)}") from error


@cache  # a record never changes, and a sweep reads all of them after every batch
def _read(path: Path, mtime_ns: int) -> Record:
    content = path.read_bytes()
    version = _Format.model_validate_json(content).record_version
    if version > RECORD_VERSION:
        raise BenchlabError(
            f"{path.parent}: record version {version} is newer than this benchlab knows"
            f" ({RECORD_VERSION}): upgrade benchlab, or move the folder away"
        )
    record = Record.model_validate(upgraded(json.loads(content)))
    if version < RECORD_VERSION:
        # keys are recomputed from the upgraded trial, as those of the file are hashes of an older form
        keys = {"trial_key": record.trial.key, "point_key": record.trial.point.key}
        record = record.model_copy(update=keys)
    if record.run_id != path.parent.name:
        raise ParseError(f"{path.parent.name}: {RECORD_NAME} is that of {record.run_id}")
    return record


def latest_status(raw: Path, target: str, without: Collection[str] = ()) -> dict[str, Status]:
    """Return the status of the last run of every trial key on a target.

    Args:
        raw: folder of the run folders. A folder whose record is damaged is ignored.
        target: name of the target.
        without: names of run folders to ignore, too.

    Raises:
        BenchlabError: see :func:`read`.
    """
    latest = {}
    for folder in finished(raw):
        if folder.name in without:
            continue
        with suppress(ParseError):
            record = read(folder)
            if record.target == target:
                latest[record.trial_key] = record.status
    return latest
