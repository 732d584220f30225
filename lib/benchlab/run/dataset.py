"""Datasets: loaded once an engine, kept as a snapshot of the data directory, restored from there."""

from collections.abc import Callable
from pathlib import Path

from benchlab.plan import Point
from benchlab.target.session import Session
from benchlab.workloads import tables_of

#: Connections that load at once: a few keep a small machine busy.
_JOBS = 4


def ensure(
    session: Session, point: Point, load_variant: str, kept: Path, on_step: Callable[[str], None]
) -> None:
    """Make sure that the snapshot of a point's dataset exists.

    Args:
        session: the engine.
        point: any point that uses the dataset.
        load_variant: the variant under which loading is fastest; it leaves no trace in the data.
        kept: folder for what an engine answers otherwise than it should.
        on_step: called with what is being done.

    Raises:
        EngineError: the load failed; no snapshot is left.
        DatasetError: the dataset cannot be made, or the engine answers otherwise than others.
    """
    key = point.dataset_key
    if key in session.snapshots():
        return
    tables = tables_of(point.dataset)
    on_step(f"{point.engine}: loading {point.dataset.rows:,} rows")
    session.cold(load_variant, restore=f"empty-{point.init_key}")
    tables.load(session, _JOBS)
    on_step(f"{point.engine}: settling, checking and keeping the dataset")
    session.settle()
    tables.check(session.engine, kept / f"{point.engine}-{key}.json")
    session.stop()
    session.snapshot(key)
