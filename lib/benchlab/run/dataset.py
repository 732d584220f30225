"""Datasets: loaded once per engine, kept as a snapshot of the data directory, and restored from it."""

from collections.abc import Callable
from pathlib import Path

from benchlab.errors import EngineError
from benchlab.plan import Point
from benchlab.target.session import Session
from benchlab.workloads import tables_of

#: Number of connections that load at once: a few keep a small machine busy.
JOBS = 4

#: File in a data directory with the key of the dataset of which it has only a part, since a load was
#: interrupted. The file is gone once the directory is replaced.
_PART = "benchlab-part-of"


def ensure(
    session: Session, point: Point, load_variant: str, kept: Path, on_step: Callable[[str], None]
) -> None:
    """Make sure that the snapshot of a point's dataset exists.

    An interrupted load is continued if the tables allow it. If that fails, too, the next load starts
    from an empty data directory.

    Args:
        session: the engine.
        point: any point that uses the dataset.
        load_variant: the variant under which loading is fastest; it leaves no trace in the data.
        kept: folder for answers of an engine that differ from the expected ones.
        on_step: called with a text that says what is being done.

    Raises:
        DatasetTooLarge: the engine's disk has no space for it.
        EngineError: the load failed; no snapshot is left.
        DatasetError: the dataset cannot be made, or the engine's answers are not the expected ones.
    """
    key = point.dataset_key
    if key in session.snapshots():
        return
    tables = tables_of(point.dataset)
    part = None if session.found.external or not tables.goes_on else session.data_dir / _PART
    if part and _taken(session, part) == key:
        on_step(f"{point.engine}: going on with loading {point.dataset.rows:,} rows")
        session.cold(load_variant)
    else:
        on_step(f"{point.engine}: loading {point.dataset.rows:,} rows")
        session.cold(load_variant, restore=f"empty-{point.init_key}")
        if part:
            session.primary.write(part, key.encode())
    tables.load(session, JOBS)
    if part:
        _taken(session, part)
    on_step(f"{point.engine}: settling, checking and keeping the dataset")
    session.settle()
    tables.check(session.engine, kept / f"{point.engine}-{key}.json")
    if not session.stop():
        # every cold start from it would begin with a crash recovery
        raise EngineError(f"{point.engine}: killed, as it did not stop; the dataset is not kept")
    session.snapshot(key)


def _taken(session: Session, part: Path) -> str:
    """Return the content of a file and delete it; an empty text if there is no file."""
    script = 'if [ -e "$1" ]; then cat "$1" && rm "$1"; fi'
    return session.primary.run("sh", "-c", script, "sh", str(part)).decode()
