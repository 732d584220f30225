"""Ask an engine's server the same question repeatedly, through a separate connection.

The capture has one JSON object a line: ``t`` (Unix seconds) and what was read. If a question fails, its
line has ``t`` and ``error``, and the next one is asked through a new connection.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from benchlab.errors import BenchlabError
from benchlab.raw.text import complete_lines, fail, shown

if TYPE_CHECKING:
    from benchlab.engines import Engine
    from benchlab.engines.base import Ask

_STOP_TIMEOUT_S = 15

#: Of the server, of the way to it, or an answer that is not of the expected form.
_PROBLEMS = (BenchlabError, ArithmeticError, LookupError, TypeError, ValueError)

AnswerT = TypeVar("AnswerT")


class Poll:
    """Asks from a separate thread, which starts when the object is made."""

    def __init__(self, engine: Engine, interval_s: float, read: Callable[[Ask], Mapping[str, Any]]):
        """Start to ask.

        Args:
            engine: the engine whose server is asked.
            interval_s: seconds from one question to the next; a late answer skips questions.
            read: asks the server, and returns what is kept of the answer.
        """
        self.latest: Mapping[str, Any] | None = None
        """What was read last; ``None`` before the first answer."""
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
        begin = time.monotonic()
        while not self._stopping.is_set():
            try:
                with self._engine.asking() as ask:
                    while not self._stopping.is_set():
                        self.latest = self._read(ask)
                        self._keep(**self.latest)
                        self._stopping.wait(self._until_next(begin))
            except _PROBLEMS as error:
                self._keep(error=str(error) or type(error).__name__)
                self._stopping.wait(self._until_next(begin))

    def _until_next(self, begin: float) -> float:
        """Return the seconds to the next question; an engine that answers late is asked less often."""
        return self._interval_s - (time.monotonic() - begin) % self._interval_s

    def _keep(self, **content: object) -> None:
        line = {"t": round(time.time(), 6), **content}
        self._lines.append(json.dumps(line, default=str) + "\n")


def answers(
    text: str,
    name: str,
    wanted: str,
    read: Callable[[Mapping[str, Any]], AnswerT | None],
) -> Iterator[tuple[float, AnswerT]]:
    """Yield the time of each answer of a capture, and what ``read`` takes from it; skip errors.

    Args:
        text: the capture.
        name: name of the observer, for error messages.
        wanted: what an answer must hold, for error messages.
        read: takes it from the line's object; ``None`` skips the answer. It raises a LookupError,
            TypeError or ValueError if it is not there.

    Raises:
        ParseError: a line is not what :class:`Poll` keeps.
    """
    lines = complete_lines(text)
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            t = float(content["t"])
            answer = None if "error" in content else read(content)
        except (LookupError, TypeError, ValueError):
            fail(name, number, f"no {wanted}: {shown(line)}")
        if answer is not None:
            yield t, answer
