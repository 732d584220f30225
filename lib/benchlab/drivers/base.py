"""The contract of a driver: which processes make the load, and how the files that they leave are read.

A driver knows nothing about hosts, envelopes or notebooks. It returns the stages of a trial. It says
when the clients of a stage have started and what went wrong. From a run's folder it reads the
seconds, latencies and counts of each transaction type (*operation*). A program without types has one
operation, named as the workload's script.
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

#: Folder on a node for the files that a process makes; empty when the process starts. It is not in
#: memory: the files may be large, and files in memory would count as memory of the load.
MADE = Path("/var/lib/benchlab/load")

#: Folder on a node with the files that tell processes to end early; empty when such a process starts.
CONTROL = Path("/run/benchlab/control")

#: Results of each operation in each second. ``second`` is the end of the second, counted from the
#: start of the phase. ``operation`` is null if the driver reports all operations together.
#: ``latency_us`` is the latency at ``percentile``; null if no transaction ended. Values that a driver
#: does not report are null.
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

#: Results of each operation in the measured part: ``transactions`` that ended well, ``errors`` that
#: ended a transaction, ``retries`` of transactions, and the mean and maximum latency of the
#: transactions that ended well.
OPERATIONS = {
    "operation": pl.String,
    "transactions": pl.Int64,
    "errors": pl.Int64,
    "retries": pl.Int64,
    "latency_mean_us": pl.Float64,
    "latency_max_us": pl.Float64,
}

#: Histogram of the latencies of each operation, smallest latency first.
BUCKETS = {"operation": pl.String, "latency_us": pl.Float64, "count": pl.Int64}

#: Histograms of the times of each operation other than latencies, such as think times; see
#: ``time_bucket`` in ``schema.sql``.
TIMES = {"operation": pl.String, "what": pl.String, "time_us": pl.Float64, "count": pl.Int64}

#: One row for each rule of the workload's standard: what was found, what is allowed, and whether the
#: rule was kept; see ``rule`` in ``schema.sql``.
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
    """Operation → its script: a name that the driver's program knows, or a file on the load's
    hosts."""
    options: Mapping[str, Scalar]
    """Options of the scripts: the workload's own, then those of the dataset."""
    clients: int
    nodes: int
    """Number of nodes for the load; a driver may share out the clients among them."""
    cores: float
    """CPU cores that the load may use."""
    warmup_s: int
    """Warm-up of the server, before the connections of the measured part are opened; 0: none."""
    connections_s: int
    """Warm-up through the connections of the measured part; 0 if the driver cannot do that."""
    measure_s: int
    seed: int
    transactions: int | None = None
    """Transactions of all clients after which the measured part ends; ``None``: only time ends it."""
    rate_per_s: int | None = None
    """Transactions due per second, at random times; ``None``: a client starts the next transaction
    as soon as one is done."""
    can_end_early: bool = False
    """Whether the times above are upper limits, and the stages may be told to end before."""
    application_role: str = LOAD
    """Role of the node that runs a server between load and engine: the first node with this role."""
    application_host: str = "127.0.0.1"
    """Address of that node, as the load's nodes reach it."""


@dataclass(frozen=True)
class Process:
    """One program of the load."""

    name: str
    """Name of its captures: its standard output is ``<name>.out``, its error output ``<name>.err``."""
    argv: Sequence[str]
    """Command line, without secrets: every process list shows it."""
    stdin: bytes = b""
    role: str = "load"
    """Role of the node that it runs on."""
    node: int = 0
    """Number of that node among the nodes with the role, from 0."""
    makes_files: bool = False
    """Whether it makes files, in :data:`MADE` on its node."""
    serves: bool = False
    """Whether it serves the other processes and has no clients itself: its start and its seconds do
    not count as the load's."""
    control: Mapping[str, bytes] = field(default_factory=dict)
    """File in :data:`CONTROL` → its content when the process starts."""
    stop: Sequence[str] = ()
    """Command on its node that ends it early; the process still prints its results. Empty: it cannot
    be ended early."""


@dataclass(frozen=True)
class Phase:
    """A part of the time of a stage, counted from the start of its clients.

    It continues a phase of the same name in the stage before.
    """

    name: str
    begin_s: float = 0.0
    end_s: float | None = None
    """``None``: the phase ends with the last process."""


@dataclass(frozen=True)
class Stage:
    """Processes that run at the same time, and the phases of that time."""

    processes: Sequence[Process]
    phases: Sequence[Phase]
    duration_s: float
    """How long the processes are to run."""
    grace_s: float = 120
    """How long they may take in addition, to connect and for the last transactions."""

    @property
    def measured(self) -> Phase | None:
        """The phase whose results count, if the stage has it."""
        return next((phase for phase in self.phases if phase.name == MEASURE), None)


@dataclass(frozen=True)
class Totals:
    """The measured part as a whole. Values that the driver does not report are ``None``."""

    transactions: int
    errors: int
    seconds: float
    latency_mean_us: float
    latency_max_us: float
    queries: int | None = None
    reconnects: int | None = None


@dataclass(frozen=True)
class Measured:
    """Results of the measured part of a run that ended well."""

    totals: Totals
    operations: pl.DataFrame = field(repr=False)
    """See :data:`OPERATIONS`."""
    buckets: pl.DataFrame = field(repr=False)
    """See :data:`BUCKETS`."""


class Driver(ABC):
    """A load generator.

    Class attributes:
        name: its name in studies, and the name of its folder and Ansible role.
        program: program that its role installs on the load's hosts.
        protocols: protocols of the engines that it can load.
        serves: whether one of its processes serves the others, on a node of ``app`` if there is one.
        resolution: distance of neighbouring buckets of its histograms, as a share of the latency.
        warms_connections: whether it can warm up the connections of the measured part before that
        part starts.
        ramps_up: whether its warm-up is the start of the stage with the measured part, and so cannot
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
        """Return why the driver cannot load an engine with a workload, or ``None``."""
        del workload
        if engine.protocol in self.protocols:
            return None
        return (
            f"{self.name} speaks {', '.join(self.protocols)} only, {engine.name} {engine.protocol}"
        )

    @abstractmethod
    def stages(self, job: Job) -> list[Stage]:
        """Return the stages to run, one after the other; one of them has the measured part."""

    @abstractmethod
    def begun(self, line: str, now: float) -> float | None:
        """Return when the clients started, in Unix seconds, if a printed line shows that they have.

        Args:
            line: line that a process printed, without its end.
            now: Unix seconds at which it was printed.
        """

    @abstractmethod
    def second_of(self, line: str) -> tuple[int, float] | None:
        """Return the second that a printed line reports and its transactions per second.

        The rate is that of all operations together; ``None`` if the line reports no second. Seconds
        count from the start of the process's clients, or are seconds of the Unix clock.
        """

    @abstractmethod
    def failure(
        self, process: Process, ended: CompletedProcess[bytes], workload: Workload
    ) -> str | None:
        """Return why a process that has ended makes the run fail, or ``None``.

        The run fails if the process ended badly or saw more errors than the workload tolerates.
        """

    def keep(self, process: Process, made: Sequence[Path], job: Job, folder: Path) -> None:
        """Put the files that a process made into the run's folder, in the form in which they are kept.

        Args:
            process: process that made the files.
            made: copies of the files; they are deleted afterwards.
            job: job for which the process ran.
            folder: folder of the run.

        Raises:
            ParseError: a file is not one that the driver makes.
        """
        raise NotImplementedError(f"{self.name} makes no files")

    @abstractmethod
    def seconds(self, folder: Path, workload: Workload) -> pl.DataFrame:
        """Return the seconds (:data:`SECONDS`) of all phases, also of a run that was broken off.

        Raises:
            ParseError: a file is not one of the driver's.
        """

    @abstractmethod
    def measured(self, folder: Path, workload: Workload) -> Measured:
        """Return the results of a run that ended well.

        Raises:
            ParseError: a file is not one of the driver's, is cut off, or is of a run that did not
                end well.
        """

    def times(self, folder: Path, workload: Workload) -> pl.DataFrame:
        """Return the times that the clients take themselves, of a run that ended well.

        Columns: :data:`TIMES`; no rows if the clients take no such times.

        Raises:
            ParseError: see :meth:`measured`.
        """
        del folder, workload
        return pl.DataFrame(schema=TIMES)

    def rules(
        self, folder: Path, workload: Workload, checkpoints: pl.DataFrame | str
    ) -> pl.DataFrame:
        """Return whether a run that ended well kept the rules of the workload's standard.

        Columns: :data:`RULES`; no rows if there is no standard.

        Args:
            folder: folder of the run.
            workload: workload that ran.
            checkpoints: checkpoints of the engine; see
                :meth:`benchlab.engines.base.Engine.checkpoints`.

        Raises:
            ParseError: see :meth:`measured`.
        """
        del folder, workload, checkpoints
        return pl.DataFrame(schema=RULES)
