"""Datasets: loaded once an engine, kept as a snapshot of the data directory, restored from there."""

from collections.abc import Callable
from pathlib import Path

from benchlab.plan import Point
from benchlab.target.session import Session
from benchlab.workloads import tables_of

#: Connections that load at once: a few keep a small machine busy.
JOBS = 4

#: In a data directory: the key of the dataset of which it has a part, since a load was interrupted.
#: Whatever is put in the place of the directory takes it away.
_PART = "benchlab-part-of"


def ensure(
    session: Session, point: Point, load_variant: str, kept: Path, on_step: Callable[[str], None]
) -> None:
    """Make sure that the snapshot of a point's dataset exists.

    A load that was interrupted is gone on with, if its tables can be; if that fails, too, the next one
    begins with nothing.

    Args:
        session: the engine.
        point: any point that uses the dataset.
        load_variant: the variant under which loading is fastest; it leaves no trace in the data.
        kept: folder for what an engine answers otherwise than it should.
        on_step: called with what is being done.

    Raises:
        DatasetTooLarge: the engine's disk has no space for it.
        EngineError: the load failed; no snapshot is left.
        DatasetError: the dataset cannot be made, or the engine answers otherwise than others.
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
    session.stop()
    session.snapshot(key)


def _taken(session: Session, part: Path) -> str:
    """Return what stands in the file, which is gone then; nothing where there is none."""
    script = 'if [ -e "$1" ]; then cat "$1" && rm "$1"; fi'
    return session.primary.run("sh", "-c", script, "sh", str(part)).decode()
