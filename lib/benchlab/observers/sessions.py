"""What an engine's sessions wait for, sampled a few times a second through its own connection.

The capture ``waits.jsonl`` has one JSON object a line: ``t`` (Unix seconds) and ``sessions``, the rows
that the server gave; or ``t`` and ``error``, after which nothing follows. The engine's module
interprets the rows when the capture is read.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from benchlab.engines.waits import Wait
from benchlab.errors import EngineError
from benchlab.raw.text import fail, shown, whole_lines

if TYPE_CHECKING:
    from benchlab.engines import Engine

_SCHEMA = {"t": pl.Float64, "wait_class": pl.String, "wait": pl.String, "sessions": pl.Int64}

NAME = "waits.jsonl"


#: A light query this often costs nothing that can be measured; locks and commits that matter last for
#: a share of the run that a few dozen samples show.
INTERVAL_S = 0.5


_STOP_TIMEOUT_S = 15


class SessionSampler:
    """Samples an engine's sessions from a thread of its own, since it was made."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._lines: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="waits", daemon=True)
        self._thread.start()

    def stop(self) -> bytes:
        """Stop sampling; return the capture."""
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT_S)
        return "".join(self._lines).encode()

    def _sample(self) -> None:
        try:
            with self._engine.asking() as ask:
                begin, tick = time.monotonic(), 0
                while not self._stopping.wait(
                    max(0.0, begin + tick * INTERVAL_S - time.monotonic())
                ):
                    self._keep(sessions=self._engine.sample_sessions(ask))
                    # an engine that answers late is sampled less often
                    tick = max(tick, int((time.monotonic() - begin) / INTERVAL_S)) + 1
        except EngineError as error:
            self._keep(error=str(error))

    def _keep(self, **content: object) -> None:
        line = {"t": round(time.time(), 6), **content}
        self._lines.append(json.dumps(line, default=str) + "\n")


def samples(
    text: str,
    wait: Callable[[Mapping[str, Any]], tuple[Wait, str, int] | None],
    truncated_ok: bool = False,
) -> pl.DataFrame:
    """Return rows of ``engine_wait``: one for each sample and each of the engine's waits.

    Args:
        text: the capture. A sample that ended in an error has no rows.
        wait: the engine's :meth:`~benchlab.engines.Engine.wait`.
        truncated_ok: see :mod:`benchlab.observers`.

    Raises:
        ParseError: the text is not what :class:`benchlab.observers.sessions.SessionSampler` writes.
    """
    rows = []
    lines = whole_lines("waits", text, truncated_ok) if text else []
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            t = float(content["t"])
            folded = [wait(session) for session in content.get("sessions", [])]
        except (AttributeError, KeyError, TypeError, ValueError):
            fail("waits", number, f"no sample of the sessions: {shown(line)}")
        rows += [(t, *found) for found in folded if found is not None]
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    return frame.group_by("t", "wait_class", "wait", maintain_order=True).agg(
        pl.col("sessions").sum()
    )
