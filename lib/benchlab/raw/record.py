"""Run folders: what programs printed during a run, byte for byte, and the record that closes it.

A run is finished if and only if its folder has ``run.json``, which is written last and atomically. A
folder without it is that of a killed run; it is shown as unfinished and never counted.
"""

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

import benchlab
from benchlab import atomic
from benchlab.errors import RawError
from benchlab.plan import Trial, upgraded_start
from benchlab.raw.files import sha256
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.study.roles import LOAD, PRIMARY

# History of the record's format:
# 1: first
# 2: a trial may have an intervention, which an older benchlab would ignore
# 3: datasets other than sysbench's; requests at planned times (an open loop)
# 4: a dataset names its kind; drivers other than sysbench, several scripts; nodes and their roles
#    instead of whether there was one host or two
# 5: `prewarm` instead of `read_in`, as a start and as a phase; `requested` instead of `asked` in
#    settings.json
# 6: a run may continue until it is steady, which an older benchlab does not know
# 7: an intervention may be single writes or checks; a service's counters for Prometheus
RECORD_VERSION = 7
RECORD_NAME = "run.json"

#: Capture of the rate at which transactions are due, and of the peak of which it is a share.
RATE = "rate.json"

#: Capture of a host's CPU, memory and kernel.
HOST = "host.json"

#: Capture of a cold start.
COLD = "cold.json"

#: Capture of what the engine logged.
ENGINE_LOG = "engine.log"

#: Capture of the requested settings, and of the values that the server reports.
SETTINGS = "settings.json"

#: Capture of the server's plan of the workload's query, if the workload has one.
QUERY_PLAN = "plan.json"

#: Part of the error of a run in which the kernel's OOM killer ended a process of engine or load.
OUT_OF_MEMORY = "the kernel killed a process for want of memory"

#: Capture of each table's number of rows before the run, if known without a scan.
CARDINALITIES = "cardinalities.json"

Status = Literal["ok", "failed", "refused"]


class Code(BaseModel):
    """The version of benchlab that made a run."""

    model_config = ConfigDict(frozen=True)

    version: str
    commit: str | None
    modified: bool | None


class Record(BaseModel):
    """One execution of a trial; immutable."""

    model_config = ConfigDict(frozen=True)

    record_version: int
    run_id: str
    status: Status
    error: str | None
    trial_key: str
    point_key: str
    seed: int
    trial: Trial
    target: str
    nodes: dict[str, tuple[str, ...]]
    """Node → its roles; clients connect to the first node."""
    started: datetime
    ended: datetime
    phases: dict[str, tuple[float, float]]
    """Name → start and end in Unix seconds."""
    files: dict[str, str]
    """Name → SHA-256 of every other file of the folder."""
    code: Code

    @property
    def single_host(self) -> bool:
        """Whether everything ran on one node."""
        return len(self.nodes) == 1

    def captured(self, node: str, name: str) -> str:
        """Return the path, in the folder, of a node's capture."""
        if self.record_version < 4 and node == "load":
            return f"client-{name}"
        return captured(self.nodes, node, name)

    def line(self) -> str:
        """Return the run's outcome in one line, to be shown as progress."""
        point = self.trial.point
        rule = "" if point.envelope.name == DEFAULT_ENVELOPE else f" [{point.envelope.name}]"
        share = point.share_of_peak
        loop = f" at {share:.0%} of the peak" if share else ""
        intervention = self.trial.intervention
        done = f" with {intervention.label}" if intervention else ""
        outcome = self.status if self.error is None else f"{self.status}: {self.error}"
        seconds = (self.ended - self.started).total_seconds()
        return (
            f"{point.engine} {point.variant} {point.workload_name}{rule} ×{point.concurrency}"
            f"{loop} trial {self.trial.number}{done}: {outcome} ({seconds:.0f} s)"
        )


def captured(nodes: Iterable[str], node: str, name: str) -> str:
    """Return the path of a node's capture: the first node's captures have no subfolder."""
    return name if node == next(iter(nodes)) else f"{node}/{name}"


class RunFolder:
    """A run folder being written; what cannot be written raises a RawError."""

    def __init__(self, raw: Path, trial: Trial, target: str, nodes: Mapping[str, tuple[str, ...]]):
        self.trial, self.target, self.nodes = trial, target, nodes
        self.started = datetime.now(UTC)
        self.phases: dict[str, tuple[float, float]] = {}
        self.run_id = f"{self.started:%Y%m%dT%H%M%S.%f}-{trial.key[:8]}"
        self.path = raw / self.run_id
        with self._writing():
            self.path.mkdir(parents=True)

    def write(self, name: str, content: bytes, node: str | None = None) -> None:
        """Store what a program printed on a node, or (``None``) for the whole run."""
        path = self.path / (captured(self.nodes, node, name) if node else name)
        with self._writing():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)

    def write_json(self, name: str, content: Any, node: str | None = None) -> None:
        """Store content as JSON; see :meth:`write`."""
        self.write(name, json.dumps(content, indent=1, default=str).encode(), node)

    def finish(self, status: Status, error: str | None = None) -> Record:
        """Close the folder: hash every file, then write the record atomically."""
        files = {
            str(path.relative_to(self.path)): sha256(path)
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
        }
        record = Record(
            record_version=RECORD_VERSION,
            run_id=self.run_id,
            status=status,
            error=error,
            trial_key=self.trial.key,
            point_key=self.trial.point.key,
            seed=self.trial.seed,
            trial=self.trial,
            target=self.target,
            nodes=self.nodes,
            started=self.started,
            ended=datetime.now(UTC),
            phases=self.phases,
            files=files,
            code=code(),
        )
        with self._writing():
            atomic.write(self.path / RECORD_NAME, record.model_dump_json(indent=1))
        return record

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RawError(f"{self.path} cannot be written: {error.strerror}") from error


def upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """Return an older version's record in the form of the current version."""
    match content:
        case {"trial": {"point": {"dataset": dict(dataset)}}} if content["record_version"] < 4:
            # version 3 had two kinds, which differ in their keys
            kind = "spec_tree" if "operators" in dataset else "sysbench_oltp"
            dataset.setdefault("kind", kind)
    if "single_host" in content:
        alone = {"db": (PRIMARY, LOAD)}
        apart = {"db": (PRIMARY,), "load": (LOAD,)}
        content["nodes"] = alone if content["single_host"] else apart
    if isinstance(phases := content.get("phases"), dict):
        content["phases"] = {upgraded_start(name): times for name, times in phases.items()}
    return content


#: What decides a measurement, as git names it from any folder of the checkout.
_MEASURING = (":/lib/benchlab", ":/ansible", ":/paper/studies", ":/notebooks/run")


@cache
def code() -> Code:
    """Return version, commit, and whether what measures differs from it; the last two need git."""
    folder = Path(benchlab.__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changes = git("status", "--porcelain", "--", *_MEASURING)
    return Code(
        version=benchlab.__version__,
        commit=git("rev-parse", "HEAD"),
        modified=None if changes is None else bool(changes),
    )
