"""What an engine's sessions wait for, looked at a few times a second through its own connection.

The capture ``waits.jsonl`` has one JSON object a line: ``t`` (Unix seconds) and ``sessions``, the rows
that the server gave; or ``t`` and ``error``, after which nothing follows. What a row means is told by
the engine's module when the capture is read.
"""

from __future__ import annotations

import json
import threading
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from benchlab.errors import EngineError

if TYPE_CHECKING:
    from benchlab.engines import Engine

NAME = "waits.jsonl"

#: A light query this often costs nothing that can be measured; locks and commits that matter last for
#: a share of the run that a few dozen looks show.
INTERVAL_S = 0.5

_STOP_TIMEOUT_S = 15


class Wait(StrEnum):
    """The classes that the engines' own names are folded into."""

    CPU = "cpu"
    """Waits for nothing: runs, or is ready to."""
    BUSY = "busy"
    """Works on a request; whether it runs or reads data the engine does not tell."""
    CLIENT = "client"
    """Has nothing to do until the client asks for it."""
    LOCK = "lock"
    """For another transaction: rows, tables."""
    LATCH = "latch"
    """For a structure in memory, held for as long as it takes to change it."""
    DATA = "data"
    """For a page to be read or written."""
    LOG = "log"
    """For the log: commit, its synchronisation, room in it, a standby."""
    LIMIT = "limit"
    """For the engine itself: it slows its clients down, or has no worker for them."""


class Looks:
    """Looks at an engine's sessions from a thread of its own, since it was made."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._lines: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="waits", daemon=True)
        self._thread.start()

    def stop(self) -> bytes:
        """Stop looking; return the capture."""
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT_S)
        return "".join(self._lines).encode()

    def _look(self) -> None:
        try:
            with self._engine.asking() as ask:
                begin, tick = time.monotonic(), 0
                while not self._stopping.wait(
                    max(0.0, begin + tick * INTERVAL_S - time.monotonic())
                ):
                    self._keep(sessions=self._engine.look(ask))
                    # an engine that answers late is looked at less often
                    tick = max(tick, int((time.monotonic() - begin) / INTERVAL_S)) + 1
        except EngineError as error:
            self._keep(error=str(error))

    def _keep(self, **content: object) -> None:
        line = {"t": round(time.time(), 6), **content}
        self._lines.append(json.dumps(line, default=str) + "\n")
