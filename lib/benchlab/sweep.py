"""A sweep: everything that a study's profile asks for on a target, less what is done already."""

import fcntl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from benchlab import (
    capture,
    dataset,
    envelope,
    ingest,
    notebooks,
    plan,
    preflight,
    study,
    target,
)
from benchlab.capture import RunFolder, Status
from benchlab.errors import BenchlabError, NotebookError, StoreError, TargetError
from benchlab.plan import Curve
from benchlab.progress import SweepProgress
from benchlab.provision import provision
from benchlab.repo import Repo
from benchlab.session import Session
from benchlab.study import Study
from benchlab.target import Provisioned, Target
from benchlab.trial import refusal

_TEMPLATE = Path("run") / "sysbench.ipynb"

_LOCK = Path("/tmp/benchlab.lock")


@dataclass(frozen=True)
class Selection:
    """Which part of a study to run; an empty list means all."""

    study: str
    profile: str = "quick"
    target: str = "local"
    engines: list[str] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    workloads: list[str] = field(default_factory=list)


def planned(repo: Repo, selection: Selection) -> list[Curve]:
    """Return all curves of a selection, in the order in which they are to be run.

    Before a target is provisioned its engines' versions are unknown, and with them the trials' keys;
    size and order of the plan are the same.
    """
    spec = study.load(repo, selection.study)
    on = target.load(repo, selection.target)
    try:
        versions = target.provisioned(repo, selection.target).versions(spec.engines)
    except TargetError:
        versions = dict.fromkeys(spec.engines, "unknown")
    return plan.make(
        spec,
        selection.profile,
        target.instance_type(repo, spec.instance),
        versions,
        enforce=on.enforce,
        engines=selection.engines,
        variants=selection.variants,
        workloads=selection.workloads,
    )


def left(repo: Repo, selection: Selection, curves: list[Curve]) -> list[Curve]:
    """Return the curves without the trials whose last run counts or was refused."""
    statuses = capture.latest_status(repo.raw, selection.target)
    done = {key for key, (status, _) in statuses.items() if status != "failed"}
    return [rest for curve in curves if (rest := curve.without(done))]


def run(repo: Repo, selection: Selection, console: Console) -> Counter[Status]:
    """Run what is left of a selection, and take everything down afterwards.

    Returns:
        How many runs ended ``ok``, ``failed`` and ``refused``; empty if nothing was left.

    Raises:
        BenchlabError: the target cannot run it; nothing was started then.
    """
    curves = planned(repo, selection)
    ingest.ingest_new(repo)  # a store that cannot be used is told before hours of measuring
    if not left(repo, selection, curves):
        console.print(f"{selection.study} {selection.profile}: all runs are there, none repeated")
        return Counter()
    spec = study.load(repo, selection.study)
    with ready(repo, selection, left(repo, selection, curves), console) as found:
        # the engines' versions are known only now, and with them which trials are done
        rest = left(repo, selection, planned(repo, selection))
        with SweepProgress(console, [trial for curve in rest for trial in curve.trials]) as bar:
            return _Sweep(repo, selection, spec, found, bar).run(rest)


@contextmanager
def ready(
    repo: Repo, selection: Selection, curves: list[Curve], console: Console
) -> Iterator[Provisioned]:
    """Hold a target that is provisioned for these curves; take everything down afterwards."""
    on = target.load(repo, selection.target)
    spec = study.load(repo, selection.study)
    with locked(), _taken_down(on):
        yield _provision(repo, selection, spec, on, curves, console)


def take_down(on: Target) -> None:
    """Stop the engines and remove mounts, loop devices and cgroups; safe at any time."""
    if on.server.provisioned():
        on.server.agent("envelope", "down")


def _provision(
    repo: Repo, selection: Selection, spec: Study, on: Target, rest: list[Curve], console: Console
) -> Provisioned:
    limits = envelope.resolve(
        spec,
        spec.profile(selection.profile),
        target.instance_type(repo, spec.instance),
        next(iter(spec.envelopes)),
        on.enforce,
    )
    preflight.check(on, limits)
    with console.status("provisioning") as status:
        return provision(
            repo,
            on,
            spec,
            selection.profile,
            limits,
            sorted({curve.engine for curve in rest}),
            on_task=lambda name: status.update(f"provisioning: {name}"),
        )


def execute_notebook(repo: Repo, selection: Selection, curve: Curve, bar: SweepProgress) -> None:
    """Run one curve's notebook through papermill; the executed copy is kept beside the raw data.

    Raises:
        NotebookError: a cell failed, or the kernel died.
    """
    notebooks.execute_copy(
        repo.notebooks / _TEMPLATE,
        repo.raw / "notebooks" / f"{curve.trials[0].key[:8]}-{curve.name}.ipynb",
        {
            "study": selection.study,
            "profile": selection.profile,
            "target": selection.target,
            "engine": curve.engine,
            "variant": curve.variant,
            "workload": curve.workload,
            "envelope": curve.envelope,
            "trial": curve.trial,
            "concurrency": [trial.point.concurrency for trial in curve.trials],
        },
        repo.root,
        bar,
    )


@dataclass
class _Sweep:
    """A sweep under way on a provisioned target."""

    repo: Repo
    selection: Selection
    spec: Study
    found: Provisioned
    bar: SweepProgress
    broken: dict[str, str] = field(default_factory=dict)
    """Engine → why its dataset could not be loaded."""

    def run(self, curves: list[Curve]) -> Counter[Status]:
        """Run the curves in their order, ingesting after each."""
        tally: Counter[Status] = Counter()
        for curve in curves:
            self.bar.step(curve.name)
            self._run_curve(curve)
            statuses = capture.latest_status(self.repo.raw, self.selection.target)
            tally.update(statuses[trial.key][0] for trial in curve.trials)
            with suppress(StoreError):  # a notebook has it open: no reason to stop measuring
                ingest.ingest_new(self.repo)
        ingest.ingest_new(self.repo)
        return tally

    def _run_curve(self, curve: Curve) -> None:
        session = Session(self.found, curve.engine)
        point = curve.trials[0].point
        if reason := refusal(session, point):
            self._close(curve, "refused", reason)
        elif reason := self._unloaded(session, curve):
            self._close(curve, "failed", reason)
        else:
            try:
                execute_notebook(self.repo, self.selection, curve, self.bar)
            except NotebookError as error:
                statuses = capture.latest_status(self.repo.raw, self.selection.target)
                if rest := curve.without(statuses.keys()):
                    self._close(rest, "failed", str(error))

    def _unloaded(self, session: Session, curve: Curve) -> str | None:
        """Load the curve's dataset if need be; return why that failed."""
        if curve.engine not in self.broken:
            try:
                self._stop_others(curve.engine)
                variant = self.spec.engines[curve.engine].load_variant
                dataset.ensure(session, curve.trials[0].point, variant, self.bar.step)
                return None
            except BenchlabError as error:
                self.broken[curve.engine] = str(error)
        return self.broken[curve.engine]

    def _stop_others(self, engine: str) -> None:
        for other, found in self.found.engines.items():
            if other != engine and not found.refused:
                Session(self.found, other).stop()

    def _close(self, curve: Curve, status: Status, reason: str) -> None:
        """Record the trials of a curve that did not run, and say so in one line."""
        on = self.found.target
        for trial in curve.trials:
            RunFolder(self.repo.raw, trial, on.name, on.single_host).finish(status, reason)
        runs = "1 run" if len(curve.trials) == 1 else f"{len(curve.trials)} runs"
        self.bar.finished(f"{curve.name}: {runs} {status}: {reason}", len(curve.trials))


@contextmanager
def locked() -> Iterator[None]:
    """Hold the machine: two sweeps at once would measure each other.

    Raises:
        TargetError: another benchlab holds it.
    """
    with _LOCK.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TargetError("another benchlab sweep is running on this machine") from error
        yield


@contextmanager
def _taken_down(on: Target) -> Iterator[None]:
    """Begin without what a killed sweep left, and leave nothing behind on any exit."""
    take_down(on)
    try:
        yield
    finally:
        take_down(on)
