"""Ask an engine's server the same again and again, through one connection of its own.

The capture has one JSON object a line: ``t`` (Unix seconds) and what was read; or ``t`` and ``error``,
after which nothing follows.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from benchlab.errors import EngineError

if TYPE_CHECKING:
    from benchlab.engines import Engine
    from benchlab.engines.base import Ask

_STOP_TIMEOUT_S = 15


class Poll:
    """Asks from a thread of its own, since it was made."""

    def __init__(self, engine: Engine, interval_s: float, read: Callable[[Ask], Mapping[str, Any]]):
        """Begin.

        Args:
            engine: whose server is asked.
            interval_s: from one answer to the next.
            read: asks, and returns what is kept of the answer.
        """
        self.latest: Mapping[str, Any] | None = None
        """What was read last."""
        self._engine, self._interval_s, self._read = engine, interval_s, read
        self._lines: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def stop(self) -> bytes:
        """Stop asking; return the capture."""
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT_S)
        return "".join(self._lines).encode()

    def _poll(self) -> None:
        try:
            with self._engine.asking() as ask:
                begin, tick = time.monotonic(), 0
                while not self._stopping.wait(
                    max(0.0, begin + tick * self._interval_s - time.monotonic())
                ):
                    self.latest = self._read(ask)
                    self._keep(**self.latest)
                    # an engine that answers late is asked less often
                    tick = max(tick, int((time.monotonic() - begin) / self._interval_s)) + 1
        except EngineError as error:
            self._keep(error=str(error))

    def _keep(self, **content: object) -> None:
        line = {"t": round(time.time(), 6), **content}
        self._lines.append(json.dumps(line, default=str) + "\n")
