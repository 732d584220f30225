"""What benchlab needs to know of the tables of a dataset, of whatever kind it is."""

import random
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from benchlab.engines import Engine
from benchlab.errors import DatasetError
from benchlab.observers.outcomes import Outcome
from benchlab.study import Scalar, Workload
from benchlab.target.session import Session

#: A failed INSERT is quoted whole, with its thousand rows.
MESSAGE_LIMIT = 200

_LOAD_TIMEOUT_S = 6 * 3600

DatasetT = TypeVar("DatasetT")


class Tables(ABC, Generic[DatasetT]):
    """The tables of a dataset: how they are loaded and checked, and what a load needs to use
    them."""

    #: Whether :meth:`load` goes on with a load that was interrupted, where there is a part of one.
    goes_on = False

    #: Whether :meth:`outcomes_after_load` checks anything.
    checks_after_load = False

    #: Where on the client lies what :meth:`files` returns.
    folder = Path("/run/benchlab/load")

    def __init__(self, dataset: DatasetT):
        self.dataset = dataset

    @abstractmethod
    def load(self, session: Session, jobs: int) -> None:
        """Make and fill them on an engine that has just been started without any, or with a part.

        Args:
            session: the engine, and the hosts that the rows may come from.
            jobs: connections that load at once, at most.

        Raises:
            DatasetTooLarge: there is no space for it on the engine's disk.
            DatasetError: the dataset cannot be made.
            EngineError: the load failed.
        """

    def run(self, session: Session, argv: Sequence[str], stdin: bytes) -> tuple[int, str]:
        """Run a program that loads on the load's host; return its exit code and what it printed."""
        done = subprocess.run(
            session.client_argv(list(argv)),
            input=stdin,
            capture_output=True,
            timeout=_LOAD_TIMEOUT_S,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    def check(self, engine: Engine, kept: Path) -> None:
        """Make sure that the engine answers from them as every other one does, where that is known.

        Args:
            engine: with the tables loaded.
            kept: file for both answers, where they differ.

        Raises:
            DatasetError: an answer differs; the message names the first parameters of which it
            does. EngineError: the server refused a query.
        """

    @abstractmethod
    def options(self) -> Mapping[str, Scalar]:
        """Return the driver's scripts' options about them."""

    def script(self, name: str) -> str:
        """Return a script of a workload as the driver finds it: its name, or a file in
        :attr:`folder`."""
        return name

    def files(self, engine: Engine) -> Mapping[str, bytes]:
        """Return what a load needs in :attr:`folder` of its host: name → content."""
        del engine
        return {}

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """Make in the database what a workload needs there beside the tables, before a run.

        Raises:
            EngineError: the server refused it.
        """
        del engine, workload

    def single_writes(self, draw: random.Random) -> Mapping[str, Iterator[str]]:
        """Return, for each table, statements without end that each change one row of it.

        Args:
            draw: which rows.

        Raises:
            DatasetError: none is known for this kind of tables.
        """
        del draw
        raise DatasetError(f"no single writes are known for {self.dataset.kind}")

    def outcomes(self, check: str, engine: Engine) -> Iterator[Outcome]:
        """Make a check whose answers are no numbers, and yield them as they come.

        Args:
            check: name.
            engine: with these tables.

        Raises:
            DatasetError: these tables have no such check.
        """
        del engine
        raise DatasetError(f"no check {check!r} is known for {self.dataset.kind}")

    def cardinalities(self, engine: Engine) -> Mapping[str, int]:
        """Return how many rows each table has before a run, as far as that is known without a scan.

        Raises:
            EngineError: see :meth:`Engine.query`.
        """
        del engine
        return {}

    def outcomes_after_load(self, engine: Engine) -> Iterator[Outcome]:
        """Check what the load has left, while the server still runs; yield the outcomes as they come.

        An error while asking is an outcome, too, of a check that nothing decided.
        """
        del engine
        return iter(())

    def example_query(self, engine: Engine, workload: Workload) -> str | None:
        """Return one of a workload's queries, if its plan is worth keeping."""
        del engine, workload
        return None
