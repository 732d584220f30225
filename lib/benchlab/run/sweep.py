"""A sweep: everything that a study's profile asks for on a target, less what is done already."""

import fcntl
import os
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TextIO

from rich.console import Console

from benchlab import notebooks, study, target
from benchlab.engines import EngineSetting, without_effect
from benchlab.errors import (
    BenchlabError,
    DatasetError,
    DatasetTooLarge,
    NotebookError,
    StoreError,
    TargetError,
)
from benchlab.plan import Batch, Plan, Point, Trial, envelope, label
from benchlab.plan.envelope import Envelope
from benchlab.raw import folders
from benchlab.raw.record import SETTINGS, RunFolder, Status
from benchlab.repo import Repo
from benchlab.run import dataset, estimate, planning
from benchlab.run.peak import peak
from benchlab.run.planning import Selection, left
from benchlab.run.progress import SweepProgress
from benchlab.run.repeats import to_repeat
from benchlab.run.trial import refusal
from benchlab.store import ingest
from benchlab.study import Study
from benchlab.study.intervention import LimitBlocks, OutcomeChecks, SingleWrites
from benchlab.target import Deployment, Provisioned, lab, preflight, provision
from benchlab.target.external import open_session
from benchlab.target.session import Session

_BATCH = Path("run") / "batch.ipynb"
_INTERVENTION = Path("run") / "intervention.ipynb"
_SINGLE_WRITES = Path("run") / "lease.ipynb"
_OUTCOMES = Path("run") / "outcomes.ipynb"

#: What is done in a batch's run → the notebook that executes it.
_TEMPLATES = {
    type(None): _BATCH,
    LimitBlocks: _INTERVENTION,
    SingleWrites: _SINGLE_WRITES,
    OutcomeChecks: _OUTCOMES,
}

_LOCK = Path("/tmp/benchlab.lock")


def run(
    repo: Repo,
    selection: Selection,
    console: Console,
    planned: Callable[[Repo, Selection, Study], Plan] = planning.planned,
    then: Sequence[Selection] = (),
) -> Counter[Status]:
    """Run what is left of a plan, by default that of a selection; take everything down afterwards.

    What was not steady, though it could go on until it was, is run once more in the end.

    The study file is read once. What is run is what stands in the plan that is written down then,
    whatever becomes of the file meanwhile.

    Args:
        repo: the checkout.
        selection: what to run.
        console: for people who watch.
        planned: works out the plan.
        then: what will be run afterwards, on the same target.

    Returns:
        How many runs ended ``ok``, ``failed`` and ``refused``; empty if nothing was left.

    Raises:
        BenchlabError: the target cannot run it; nothing was started then.
    """
    spec = study.load_rerun(repo, selection.study)
    plan = planned(repo, selection, spec)
    chosen = selection.part(spec, plan)
    if left(repo, selection, chosen):
        _refuse(target.load(repo, selection.target))
    # report a store that cannot be used before hours of measuring
    damaged = ingest.ingest_new(repo).damaged
    for reason in damaged.values():
        console.print(f"damaged: {reason}", highlight=False, markup=False, soft_wrap=True)
    rest = left(repo, selection, chosen, damaged)
    if not rest and not (rest := to_repeat(repo, selection.target, chosen)):
        plan.save(repo)
        return _nothing_left(selection, console)
    with ready(repo, selection, spec, rest, console, then) as found:
        if plan.versions != found.versions(spec.engines):
            # the engines' versions are known only now, and with them which trials are done
            plan = planned(repo, selection, spec)
            chosen = selection.part(spec, plan)
            rest = left(repo, selection, chosen, damaged)
        plan = plan.save(repo)

        def sweep(batches: list[Batch]) -> Counter[Status]:
            overheads = estimate.overheads(repo, selection.target)
            trials = [trial for batch in batches for trial in batch.trials]
            seconds = [estimate.of_trial(trial, overheads) for trial in trials]
            with SweepProgress(console, seconds) as bar:
                return Sweep(repo, plan, spec, found, bar, damaged).run(batches)

        tally = sweep(rest) if rest else Counter()
        if again := to_repeat(repo, selection.target, chosen):
            runs = sum(len(batch.trials) for batch in again)
            console.print(
                f"{runs} runs were not steady, not alone, or of another speed: they are run once more"
            )
            tally += sweep(again)
        return tally or _nothing_left(selection, console)


def _nothing_left(selection: Selection, console: Console) -> Counter[Status]:
    console.print(f"{selection.study} {selection.profile}: all runs are there, none repeated")
    return Counter()


@contextmanager
def ready(
    repo: Repo,
    selection: Selection,
    spec: Study,
    batches: list[Batch],
    console: Console,
    then: Sequence[Selection] = (),
) -> Iterator[Provisioned]:
    """Hold a target that is provisioned for these batches; take everything down afterwards.

    What the engines of later selections are made of is installed with that of the first ones, packages
    in one transaction and downloads beside it.
    """
    on = target.load(repo, selection.target)
    engines = sorted({batch.engine for batch in batches})
    limits = _limits(repo, selection, spec, on, engines)
    what = (repo, on, spec, selection.profile, limits, engines)

    def install() -> None:
        with console.status("installing") as status:
            provision.install(*what, lambda name: status.update(f"installing: {name}"))

    with locked(), lab.made(on, install), _taken_down(on):
        preflight.check(on, limits)
        later = [engine for one in then for engine in engines_left(repo, one, on)]
        with console.status("provisioning") as status:
            found = provision.provision(
                *what, lambda name: status.update(f"provisioning: {name}"), later
            )
        yield found


def _limits(
    repo: Repo, selection: Selection, spec: Study, on: Deployment, engines: Iterable[str]
) -> Envelope:
    instance = target.instance_type(repo, spec.instance)
    rule = next(iter(spec.envelopes))
    profile = spec.profile(selection.profile)
    return envelope.resolve(spec, profile, instance, rule, on.enforce, engines)


def engines_left(repo: Repo, selection: Selection, on: Deployment) -> list[dict]:
    """Return the playbooks' variables of the engines that a selection still needs and that are new."""
    spec = study.load_rerun(repo, selection.study)
    batches = selection.part(spec, planning.planned(repo, selection, spec))
    known: set[str] = set()
    with suppress(TargetError):  # never provisioned: all are new
        known = set(target.provisioned(repo, on.name).engines)
    engines = sorted({batch.engine for batch in left(repo, selection, batches)} - known)
    limits = _limits(repo, selection, spec, on, engines)
    of_roles = provision.provided(on, spec, engines)
    return provision.engine_variables(spec, selection.profile, limits, of_roles)


def take_down(on: Deployment) -> None:
    """Stop load and engines and remove mounts, loop devices and cgroups; safe at any time.

    Raises:
        TargetError: a node could not be taken down; the others are.
    """
    errors = []
    for node in reversed(on.nodes):  # the load first, so that it ends before what it uses
        try:
            if node.provisioned():
                node.agent("envelope", "down")
        except TargetError as error:
            errors.append(str(error))
    if errors:
        raise TargetError("; ".join(errors))


def execute_notebook(repo: Repo, plan: Plan, batch: Batch, bar: SweepProgress) -> None:
    """Run one batch's notebook through papermill; the executed copy is kept beside the raw data.

    Raises:
        NotebookError: a cell failed, or the kernel died.
    """
    template = _TEMPLATES[type(batch.intervention)]
    notebooks.execute_copy(
        repo.notebooks / template,
        repo.raw / "notebooks" / f"{batch.trials[0].key[:8]}-{batch.name}.ipynb",
        {"plan": plan.id, "trials": [trial.key for trial in batch.trials]},
        repo.root,
        bar,
    )


@dataclass
class Sweep:
    """A sweep under way on a provisioned target."""

    repo: Repo
    plan: Plan
    spec: Study
    found: Provisioned
    bar: SweepProgress
    damaged: dict[str, str] = field(default_factory=dict)
    """Run folder → why it cannot be ingested, as far as that has been reported."""
    broken: dict[str, str] = field(default_factory=dict)
    """Key of a dataset → why it could not be loaded."""
    too_large: dict[str, str] = field(default_factory=dict)
    """Key of a dataset → why the target has no space for it."""
    unset: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """Engine and variant → why its settings did not take effect; ``None``: they did."""
    settings: dict[tuple[str, str], list[EngineSetting]] = field(default_factory=dict)
    """Engine and variant → what the server said of settings that did not take effect."""
    reported: set[str] = field(default_factory=set)
    """Why trials did not run, as far as that has been reported."""

    def run(self, batches: list[Batch]) -> Counter[Status]:
        """Run the batches in their order, ingesting after each."""
        tally: Counter[Status] = Counter()
        for batch in batches:
            self.bar.step(batch.name)
            earlier = {folder.name for folder in folders.finished(self.repo.raw)}
            self._run_batch(batch, earlier)
            with suppress(StoreError):  # a notebook has it open: no reason to stop measuring
                self._ingest()
            ended = self._statuses(without=earlier | self.damaged.keys())
            # a run that cannot be ingested does not count either, and a rerun repeats it
            tally.update(ended.get(trial.key, "failed") for trial in batch.trials)
        self._ingest()
        return tally

    def _ingest(self) -> None:
        """Bring what has been measured into the store, and say which of it cannot be."""
        damaged = ingest.ingest_new(self.repo).damaged
        for folder, reason in damaged.items():
            if folder not in self.damaged:
                self.bar.finished(f"damaged: {reason}", runs=0)
        self.damaged |= damaged

    def _statuses(self, without: Collection[str]) -> dict[str, Status]:
        return folders.latest_status(self.repo.raw, self.plan.target, without)

    def _run_batch(self, batch: Batch, earlier: Collection[str]) -> None:
        session = open_session(self.found, batch.engine)
        rest = self._runnable(session, batch)
        if rest is None:
            return
        try:
            with ThreadPoolExecutor(max_workers=1) as beside:
                restored = beside.submit(self._restore, session, rest.trials[0].point)
                execute_notebook(self.repo, self.plan, rest, self.bar)
            restored.result()
        except NotebookError as error:
            # a trial that had failed in an earlier sweep has a status, but none of this one
            if rest := rest.without(self._statuses(without=earlier)):
                self._close(rest.trials, "failed", str(error))
            else:
                self.bar.finished(f"{batch.name}: {error}", runs=0)

    def _runnable(self, session: Session, batch: Batch) -> Batch | None:
        """Return the batch without the trials that cannot run, which are closed with the reason."""
        closed: dict[tuple[Status, str], list[Trial]] = defaultdict(list)
        accepted = []
        for trial in batch.trials:
            if reason := refusal(session, trial.point):
                closed["refused", reason].append(trial)
            else:
                accepted.append(trial)
        self._load(session, [trial.point for trial in accepted])
        for trial in accepted:
            if reason := self.too_large.get(trial.point.dataset_key):
                closed["refused", reason].append(trial)
            elif reason := self._obstacle(session, trial):
                closed["failed", reason].append(trial)
        for (status, reason), trials in closed.items():
            self._close(trials, status, reason)
        return batch.without({trial.key for trials in closed.values() for trial in trials})

    def _load(self, session: Session, points: Iterable[Point]) -> None:
        """Load the datasets of an engine's points if need be; keep why that failed."""
        for key, point in {point.dataset_key: point for point in points}.items():
            if key in self.broken or key in self.too_large:
                continue
            try:
                self._stop_others(point.engine)
                variant = self.spec.engines[point.engine].load_variant
                if variant in session.found.refused_variants:
                    variant = point.variant
                dataset.ensure(session, point, variant, self.repo.answers, self.bar.step)
            except DatasetTooLarge as error:
                self.too_large[key] = str(error)
            except DatasetError:
                raise  # engines that answer differently, or nothing to compare: not one is timed
            except BenchlabError as error:
                self.broken[key] = str(error)

    def _obstacle(self, session: Session, trial: Trial) -> str | None:
        """Return why a trial that the target accepts cannot run, or ``None``."""
        point = trial.point
        if reason := self.broken.get(point.dataset_key) or self._without_effect(session, point):
            return reason
        if point.share_of_peak is not None:
            try:
                peak(self.repo, self.plan, trial)
            except StoreError as error:
                return str(error)
        return None

    def _without_effect(self, session: Session, point: Point) -> str | None:
        """Ask the server once whether it takes a variant's settings; return why it does not.

        So a variant with a setting that the server does not know stops at once, and not at each point.
        """
        variant = (point.engine, point.variant)
        if variant not in self.unset:
            try:
                session.bring_up()
                session.cold(point.variant, point.dataset_key)
                session.engine.tune(point.settings)
                found = session.engine.settings(point.settings)
                self.unset[variant] = without_effect(point.engine, found)
                if self.unset[variant]:
                    self.settings[variant] = found
            except BenchlabError as error:
                self.unset[variant] = str(error)
        return self.unset[variant]

    def _restore(self, session: Session, point: Point) -> None:
        """Put the dataset in place while the notebook's kernel starts, which then finds it there."""
        with suppress(BenchlabError):  # the first run does the same, and reports what is wrong
            session.stop()
            session.restore(point.dataset_key)

    def _stop_others(self, engine: str) -> None:
        for other, found in self.found.engines.items():
            if other != engine and not found.refused:
                open_session(self.found, other).stop()

    def _close(self, trials: Sequence[Trial], status: Status, reason: str) -> None:
        """Record trials of a batch that did not run for one reason, and say so in one line."""
        first = trials[0]
        roles = open_session(self.found, first.point.engine).roles
        for trial in trials:
            folder = RunFolder(self.repo.raw, trial, self.plan.target, roles)
            if settings := self.settings.get((trial.point.engine, trial.point.variant)):
                folder.write_json(SETTINGS, [setting.model_dump() for setting in settings])
            folder.finish(status, reason)
        runs = "1 run" if len(trials) == 1 else f"{len(trials)} runs"
        said = "the reason is as before" if reason in self.reported else reason
        self.reported.add(reason)
        common = f"{label(trials)}-trial{first.number}"
        self.bar.finished(f"{common}: {runs} {status}: {said}", len(trials))


def _lock() -> TextIO:
    """Open the file that is locked; any user's sweep may."""
    with suppress(FileExistsError):
        _LOCK.touch(exist_ok=False)
        _LOCK.chmod(0o666)
    try:
        # not "a+": nobody may create what another user has in /tmp (sysctl fs.protected_regular)
        return _LOCK.open("r+")
    except PermissionError as error:
        raise TargetError(f"{_LOCK} is another user's: remove it") from error


@contextmanager
def locked() -> Iterator[None]:
    """Hold the machine: two sweeps at once would measure each other.

    Raises:
        TargetError: another benchlab holds it, which the message names; or its file cannot be used.
    """
    with _lock() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise TargetError(f"this machine is held by {lock.read() or 'another one'}") from error
        lock.truncate(0)
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        lock.write(f"`{command}`, process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S}")
        lock.flush()
        yield


def _refuse(on: Deployment) -> None:
    """Raise at once what :func:`ready` would raise later of missing rights and of a machine held."""
    if on.is_lab:
        lab.require_root()
    else:
        preflight.root(on)
    with locked():
        pass


@contextmanager
def _taken_down(on: Deployment) -> Iterator[None]:
    """Begin without what a killed sweep left, and leave nothing behind on any exit."""
    take_down(on)
    try:
        yield
    finally:
        take_down(on)
