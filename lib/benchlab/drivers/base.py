"""The contract of a driver: which processes make the load, and how the files that they leave are read.

A driver knows nothing of hosts, envelopes or notebooks. It returns the stages of a trial,
says when the clients of a stage have begun and what went wrong, and reads a run's folder: per
transaction type (*operation*) the seconds, the latencies and the counts. A program without types
has one operation, named as the workload's script.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import ClassVar

import polars as pl

from benchlab.engines import Engine
from benchlab.study import Scalar, Workload
from benchlab.study.roles import LOAD

#: The phase whose results count.
MEASURE = "measure"

#: Folder of a node, empty when a process begins, for the files that it makes. Not in memory: they
#: may be large, and what is in memory is counted as the load's.
MADE = Path("/var/lib/benchlab/load")

#: Folder of a node by which processes are told to end early; empty when those that can be begin.
CONTROL = Path("/run/benchlab/control")

#: What each second of each operation gave. ``second`` is its end, counted from the phase's begin; a
#: null ``operation`` stands for all of them together, where the driver does not distinguish them.
#: ``latency_us`` is of the ``percentile``, null where no transaction ended. What a driver does not
#: report is null.
SECONDS = {
    "phase": pl.String,
    "operation": pl.String,
    "second": pl.Int64,
    "threads": pl.Int64,
    "tps": pl.Float64,
    "qps": pl.Float64,
    "read_qps": pl.Float64,
    "write_qps": pl.Float64,
    "other_qps": pl.Float64,
    "latency_us": pl.Float64,
    "percentile": pl.Int64,
    "errors_per_s": pl.Float64,
    "reconnects_per_s": pl.Float64,
}

#: What became of each operation in the measured part: ``transactions`` that ended well, ``errors``
#: that ended one and ``retries`` of one, mean and maximum of the latencies of those that ended
#: well.
OPERATIONS = {
    "operation": pl.String,
    "transactions": pl.Int64,
    "errors": pl.Int64,
    "retries": pl.Int64,
    "latency_mean_us": pl.Float64,
    "latency_max_us": pl.Float64,
}

#: The histogram of the latencies of each operation, smallest first.
BUCKETS = {"operation": pl.String, "latency_us": pl.Float64, "count": pl.Int64}

#: Histograms of the times of each operation that are no latencies, such as think times; see
#: ``time_bucket`` in ``schema.sql``.
TIMES = {"operation": pl.String, "what": pl.String, "time_us": pl.Float64, "count": pl.Int64}

#: Of each rule of the standard that a workload is of: what was found, what is allowed, and whether it
#: was kept; see ``rule`` in ``schema.sql``.
RULES = {
    "check": pl.String,
    "clause": pl.String,
    "value": pl.Float64,
    "least": pl.Float64,
    "most": pl.Float64,
    "unit": pl.String,
    "n": pl.Int64,
    "answer": pl.String,
    "why": pl.String,
}


@dataclass(frozen=True)
class Job:
    """What a trial asks of a driver."""

    engine: Engine
    workload: Workload
    scripts: Mapping[str, str]
    """Operation → its script as the driver finds it: a name of its own, or a file on the load's
    hosts."""
    options: Mapping[str, Scalar]
    """Options of the scripts: the workload's own, then those of the dataset."""
    clients: int
    nodes: int
    """With the load, among which a driver may share out the clients."""
    cores: float
    """That the load may use."""
    warmup_s: int
    """Of the server, before the measured part's connections are there."""
    connections_s: int
    """Warm-up by the connections of the measured part; 0 where the driver has none."""
    measure_s: int
    seed: int
    transactions: int | None = None
    """Over all clients, after which the measured part ends; ``None``: only time ends it."""
    rate_per_s: int | None = None
    """Transactions due per second, at random times; ``None``: each as soon as one is done."""
    can_end_early: bool = False
    """Whether the times are the longest, and the stages may be told to end before."""
    application_role: str = LOAD
    """Role of the node on which a server between load and engine is to run, the first that has it."""
    application_host: str = "127.0.0.1"
    """Where the load's nodes find that node."""


@dataclass(frozen=True)
class Process:
    """One program of the load."""

    name: str
    """Name of its captures: what it prints is ``<name>.out``, its error output ``<name>.err``."""
    argv: Sequence[str]
    """Without anything secret: every process list shows it."""
    stdin: bytes = b""
    role: str = "load"
    """Role of the node that it runs on."""
    node: int = 0
    """Its number among the nodes that have the role."""
    makes_files: bool = False
    """Whether it makes files, in :data:`MADE` on its node."""
    serves: bool = False
    """Whether it serves the others and has no clients of its own: its begin and seconds are none of
    the load's."""
    control: Mapping[str, bytes] = field(default_factory=dict)
    """File in :data:`CONTROL` → its content when the process begins."""
    stop: Sequence[str] = ()
    """Command on its node that ends it early, with all that it prints at its end; none: it cannot
    be."""


@dataclass(frozen=True)
class Phase:
    """A part of the time of a stage, counted from the begin of its clients.

    One of the same name in the stage before goes on.
    """

    name: str
    begin_s: float = 0.0
    end_s: float | None = None
    """``None``: when the last process has ended."""


@dataclass(frozen=True)
class Stage:
    """Processes that run beside each other, and the phases of their time."""

    processes: Sequence[Process]
    phases: Sequence[Phase]
    duration_s: float
    """How long they are to run."""

    @property
    def measured(self) -> Phase | None:
        """The phase whose results count, if it is one of them."""
        return next((phase for phase in self.phases if phase.name == MEASURE), None)


@dataclass(frozen=True)
class Totals:
    """The measured part as a whole. What the driver does not report is ``None``."""

    transactions: int
    errors: int
    seconds: float
    latency_mean_us: float
    latency_max_us: float
    queries: int | None = None
    reconnects: int | None = None


@dataclass(frozen=True)
class Measured:
    """What a run that ended well gave, in its measured part."""

    totals: Totals
    operations: pl.DataFrame = field(repr=False)
    """See :data:`OPERATIONS`."""
    buckets: pl.DataFrame = field(repr=False)
    """See :data:`BUCKETS`."""


class Driver(ABC):
    """A load generator.

    Class attributes:
        name: as in studies, and as its folder and Ansible role are called.
        program: that its role installs on the load's hosts.
        protocols: of the engines that it can load.
        serves: whether one of its processes serves the others, on a node of ``app`` where there is one.
        resolution: how far apart neighbouring buckets of its histograms are, as a share of the
        latency.
        warms_connections: whether it can load a server by the connections of the measured part
        before that begins.
        ramps_up: whether its warm-up is the begin of the stage with the measured part, and so cannot
        be ended early.
    """

    name: ClassVar[str]
    program: ClassVar[str]
    protocols: ClassVar[tuple[str, ...]]
    serves: ClassVar[bool] = False
    resolution: ClassVar[float]
    warms_connections: ClassVar[bool] = False
    ramps_up: ClassVar[bool] = False

    def refusal(self, engine: type[Engine], workload: Workload) -> str | None:
        """Return why it cannot load an engine by a workload, or ``None``."""
        del workload
        if engine.protocol in self.protocols:
            return None
        return (
            f"{self.name} speaks {', '.join(self.protocols)} only, {engine.name} {engine.protocol}"
        )

    @abstractmethod
    def stages(self, job: Job) -> list[Stage]:
        """Return what is to be run, one stage after the other; one of them has the measured
        part."""

    @abstractmethod
    def begun(self, line: bytes, now: float) -> float | None:
        """Return when the clients began, if a line that a process printed shows that they have.

        Args:
            line: as printed.
            now: Unix seconds at which it was.
        """

    @abstractmethod
    def second_of(self, line: bytes) -> tuple[int, float] | None:
        """Return the second that a printed line reports and its transactions per second.

        Of all operations together; ``None`` if it reports none. Seconds count from 1, or as
        :attr:`SECONDS` does.
        """

    @abstractmethod
    def failure(
        self, process: Process, ended: CompletedProcess[bytes], workload: Workload
    ) -> str | None:
        """Return why a process that has ended makes the run a failed one, or ``None``.

        It does if it ended badly or saw more errors than the workload brings about by itself.
        """

    def keep(self, process: Process, made: Sequence[Path], job: Job, folder: Path) -> None:
        """Put what a process has made into the run's folder, in the form in which it is kept.

        Args:
            process: that made the files.
            made: copies of them; gone afterwards.
            job: for which it ran.
            folder: the run's.

        Raises:
            ParseError: a file is not what the driver makes.
        """
        raise NotImplementedError(f"{self.name} makes no files")

    @abstractmethod
    def seconds(self, folder: Path, workload: Workload) -> pl.DataFrame:
        """Return the seconds (:data:`SECONDS`) of all phases, also of a run that broke off.

        Raises:
            ParseError: a file is not the driver's.
        """

    @abstractmethod
    def measured(self, folder: Path, workload: Workload) -> Measured:
        """Return the results of a run that ended well.

        Raises:
            ParseError: a file is not the driver's, is cut, or is of a run that did not end well.
        """

    def times(self, folder: Path, workload: Workload) -> pl.DataFrame:
        """Return the times that clients take themselves, of a run that ended well.

        Columns: :data:`TIMES`; no rows where they take none.

        Raises:
            ParseError: as :meth:`measured`.
        """
        del folder, workload
        return pl.DataFrame(schema=TIMES)

    def rules(
        self, folder: Path, workload: Workload, checkpoints: pl.DataFrame | str
    ) -> pl.DataFrame:
        """Return whether a run that ended well kept the rules of the workload's standard.

        Columns: :data:`RULES`; no rows where there is no standard.

        Args:
            folder: the run's.
            workload: that ran.
            checkpoints: the engine's; see :meth:`benchlab.engines.base.Engine.checkpoints`.

        Raises:
            ParseError: as :meth:`measured`.
        """
        del folder, workload, checkpoints
        return pl.DataFrame(schema=RULES)
