"""What benchlab needs to know about the tables of a dataset of any kind."""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from benchlab.engines import Engine
from benchlab.errors import DatasetError, EngineError
from benchlab.observers.outcomes import Outcome
from benchlab.study import Scalar, Workload
from benchlab.target.host import run_to_end
from benchlab.target.session import Session

#: Characters that are quoted of a message: one about a failed INSERT has the whole statement, with its
#: thousand rows.
MESSAGE_LIMIT = 200

_LOAD_TIMEOUT_S = 6 * 3600

DatasetT = TypeVar("DatasetT")


class Tables(ABC, Generic[DatasetT]):
    """The tables of a dataset: how they are loaded and checked, and what a load needs to use
    them."""

    #: Whether :meth:`load` continues a load that was interrupted.
    goes_on = False

    #: Whether :meth:`outcomes_after_load` checks anything.
    checks_after_load = False

    #: Folder on the load's host with the files that :meth:`files` returns.
    folder = Path("/run/benchlab/load")

    def __init__(self, dataset: DatasetT):
        self.dataset = dataset

    @abstractmethod
    def load(self, session: Session, jobs: int) -> None:
        """Make and fill the tables on an engine that was just started and has none or a part of them.

        Args:
            session: the engine, and the hosts that the rows may come from.
            jobs: connections that load at once, at most.

        Raises:
            DatasetTooLarge: the engine's disk has no space for the dataset.
            DatasetError: the dataset cannot be made.
            EngineError: the load failed.
        """

    def run(self, session: Session, argv: Sequence[str], stdin: bytes) -> tuple[int, str]:
        """Run a program that loads on the load's host; return its exit code and what it printed.

        Raises:
            EngineError: it did not end in time.
        """
        try:
            done = run_to_end(session.client_argv(list(argv)), stdin, _LOAD_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise EngineError(
                f"{session.engine_name}: loading did not end within {_LOAD_TIMEOUT_S:,} s"
            ) from error
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    def check(self, engine: Engine, kept: Path) -> None:
        """Check that the engine answers from the tables as every engine must, if that is known.

        Args:
            engine: has the tables loaded.
            kept: file for the expected and the actual answers if they differ.

        Raises:
            DatasetError: an answer differs; the message names the first one that does.
            EngineError: the server refused a query.
        """

    @abstractmethod
    def options(self) -> Mapping[str, Scalar]:
        """Return the options of the driver's scripts that describe the tables."""

    def script(self, name: str) -> str:
        """Return how the driver finds a script of a workload: its name, or a file in :attr:`folder`."""
        return name

    def files(self, engine: Engine) -> Mapping[str, bytes]:
        """Return the files that a load needs in :attr:`folder` of its host: name → content."""
        del engine
        return {}

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """Make what a workload needs in the database besides the tables, before a run.

        Raises:
            EngineError: the server refused a statement.
        """
        del engine, workload

    def single_writes(self, seed: int) -> Mapping[str, Iterator[str]]:
        """Return table → endless statements, each of which changes one row of it.

        Args:
            seed: seed of the random rows; tables draw theirs independently of each other.

        Raises:
            DatasetError: none is known for this kind of tables.
        """
        del seed
        raise DatasetError(f"no single writes are known for {self.dataset.kind}")

    def outcomes(self, check: str, engine: Engine) -> Iterator[Outcome]:
        """Make a check whose answers are not numbers, and yield them as they come.

        Args:
            check: name of the check.
            engine: has these tables.

        Raises:
            DatasetError: these tables have no such check.
        """
        del engine
        raise DatasetError(f"no check {check!r} is known for {self.dataset.kind}")

    def cardinalities(self, engine: Engine) -> Mapping[str, int]:
        """Return table → rows before a run, as far as they are known without a scan.

        Raises:
            EngineError: see :meth:`Engine.query`.
        """
        del engine
        return {}

    def outcomes_after_load(self, engine: Engine) -> Iterator[Outcome]:
        """Check the tables after a load, while the server still runs; yield the outcomes as they come.

        An error during a check is an outcome, too: that the check is undecided.
        """
        del engine
        return iter(())

    def example_query(self, engine: Engine, workload: Workload) -> str | None:
        """Return one of a workload's queries, if its plan is worth keeping."""
        del engine, workload
        return None
