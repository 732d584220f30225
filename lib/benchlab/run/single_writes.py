"""Write into a load that reads: one transaction at a time in each table, with its commit timed.

The writes are captured in the format of :mod:`benchlab.observers.single_writes`.
"""

import json
import random
import threading
import time
from collections.abc import Iterator

from benchlab.engines import Engine
from benchlab.engines.base import Ask
from benchlab.errors import BenchlabError
from benchlab.observers import single_writes, table_states
from benchlab.observers.poll import Poll
from benchlab.study.intervention import SingleWrites
from benchlab.workloads.base import Tables

#: Longest wait for a commit under way after the load has ended.
_END_TIMEOUT_S = 60


class RunningWrites:
    """Single writes by threads: one thread for each table, each with its own connection."""

    def __init__(self, engine: Engine, tables: Tables, requested: SingleWrites, seed: int):
        """Connect; nothing is written before :meth:`begin`.

        Raises:
            DatasetError: these tables do not support single writes.
        """
        self.duration_s = requested.duration_s
        self._engine, self._requested = engine, requested
        self._begun, self._ended = threading.Event(), threading.Event()
        self._begin_s = 0.0
        self._lines: list[str] = []
        self._problems: list[str] = []
        of_tables = tables.single_writes(seed)
        self._states: Poll | None = table_states.poll(engine) if engine.table_states_query else None
        self._threads = [
            threading.Thread(
                target=self._write,
                args=(table, statements, random.Random(f"due {seed} {table}")),
                daemon=True,
            )
            for table, statements in of_tables.items()
        ]
        for thread in self._threads:
            thread.start()

    def begin(self) -> None:
        """Start the first period now."""
        self._begin_s = time.time()
        self._begun.set()

    def end(self) -> tuple[dict[str, bytes], str | None]:
        """End the writes, whether or not all are made.

        Returns:
            The captures, and why the writes broke off, or ``None``.
        """
        self._ended.set()
        self._begun.set()
        deadline = time.monotonic() + _END_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        captures = {single_writes.NAME: "".join(self._lines).encode()}
        if self._states:
            captures[table_states.NAME] = self._states.stop()
        if any(thread.is_alive() for thread in self._threads):
            self._problems.append(f"a commit was not answered in {_END_TIMEOUT_S} s")
        return captures, self._problems[0] if self._problems else None

    def _write(self, table: str, statements: Iterator[str], draw: random.Random) -> None:
        try:
            with self._engine.asking() as ask:
                ask("SELECT 1")  # so that the first write does not include connecting
                self._begun.wait()
                for number in range(self._requested.writes):
                    due = self._due(number, draw)
                    if self._ended.wait(max(0.0, due - time.time())):
                        return
                    self._once(ask, table, next(statements), due)
        except BenchlabError as error:  # of the server, or of the way to it
            self._problems.append(f"single write into {table}: {error}")

    def _due(self, number: int, draw: random.Random) -> float:
        """Return a random time in the middle half of a period, in Unix seconds."""
        return self._begin_s + self._requested.every_s * (number + 0.25 + 0.5 * draw.random())

    def _once(self, ask: Ask, table: str, statement: str, due: float) -> None:
        row = {"table": table, "due": due, "begin": time.time()}
        try:
            ask("BEGIN")
            ask(statement)
            row["commit"] = time.time()
            ask("COMMIT")
            row["end"] = time.time()
        except Exception as error:
            row["error"] = str(error)
            raise
        finally:
            self._lines.append(json.dumps(row) + "\n")
