"""Datasets: loaded once an engine, kept as a snapshot of the data directory, restored from there."""

import subprocess
from collections.abc import Callable

from benchlab.errors import EngineError
from benchlab.plan import Point
from benchlab.session import Session
from benchlab.workloads import sysbench

_LOAD_TIMEOUT_S = 6 * 3600


def ensure(
    session: Session, point: Point, load_variant: str, on_step: Callable[[str], None]
) -> None:
    """Make sure that the snapshot of a point's dataset exists.

    Args:
        session: the engine.
        point: any point that uses the dataset.
        load_variant: the variant under which loading is fastest; it leaves no trace in the data.
        on_step: called with what is being done.

    Raises:
        EngineError: the load failed; no snapshot is left.
    """
    key = point.dataset_key
    if key in session.snapshots():
        return
    on_step(f"{point.engine}: loading {point.dataset.rows:,} rows")
    session.cold(load_variant, restore=f"empty-{point.init_key}")
    command = sysbench.prepare(session.engine, point.dataset)
    done = subprocess.run(
        session.client_argv(command),
        input=sysbench.config_file(session.engine),
        capture_output=True,
        timeout=_LOAD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        fatal = [line for line in said.splitlines() if line.startswith("FATAL")]
        raise EngineError(f"{point.engine}: loading failed: {(fatal or [said[-200:]])[0]}")
    on_step(f"{point.engine}: settling and keeping the dataset")
    session.engine.settle()
    session.stop()
    session.snapshot(key)
