"""Datasets: loaded once an engine, kept as a snapshot of the data directory, restored from there."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchlab.errors import EngineError
from benchlab.parse import sysbench as parse_sysbench
from benchlab.plan import Point
from benchlab.session import Session
from benchlab.study import SpecTree, SysbenchTables
from benchlab.workloads import sysbench
from benchlab.workloads.spec_tree import load as spec_tree

_LOAD_TIMEOUT_S = 6 * 3600

#: How servers mark a line of their log that tells an error.
_ERROR = re.compile(r"\b(ERROR|FATAL|PANIC)\b")

#: A failed INSERT is quoted whole, with its thousand rows.
_MESSAGE_LIMIT = 200


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
    on_step(f"{point.engine}: loading {point.dataset.rows:,} rows")
    cold = session.cold(load_variant, restore=f"empty-{point.init_key}")
    if isinstance(point.dataset, SpecTree):
        spec_tree.load(session.engine, point.dataset)
    else:
        _load_by_sysbench(session, point.dataset, cold["log_begin"])
    on_step(f"{point.engine}: settling and keeping the dataset")
    session.engine.settle()
    if isinstance(point.dataset, SpecTree):
        on_step(f"{point.engine}: checking what it answers")
        spec_tree.check(session.engine, point.dataset, kept / f"{point.engine}-{key}.json")
    session.stop()
    session.snapshot(key)


def _load_by_sysbench(session: Session, dataset: SysbenchTables, log_begin: int) -> None:
    engine = session.engine_name
    command = sysbench.prepare(session.engine, dataset)
    done = subprocess.run(
        session.client_argv(command),
        input=sysbench.config_file(session.engine),
        capture_output=True,
        timeout=_LOAD_TIMEOUT_S,
        check=False,
    )
    said = (done.stdout + done.stderr).decode(errors="replace")
    # sysbench 1.0.20 ends with 0 when one of its loading threads fails
    if fatal := parse_sysbench.errors(said):
        raise EngineError(f"{engine}: loading failed: {fatal[0][:_MESSAGE_LIMIT]}")
    if done.returncode:
        # where the server refuses to go on, sysbench may crash without a word
        raise EngineError(
            f"{engine}: loading failed: sysbench ended with exit code {done.returncode};"
            f" the engine's log: {_last_error(session.log(log_begin))[:_MESSAGE_LIMIT]}"
        )


def _last_error(log: bytes) -> str:
    """Return the last line of an engine's log that tells an error, else its last line."""
    lines = log.decode(errors="replace").strip().splitlines() or ["nothing"]
    return ([line for line in lines if _ERROR.search(line)] or lines)[-1]
