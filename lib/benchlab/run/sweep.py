"""A sweep: all trials of a study's profile on a target that are not done already."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from benchlab import notebooks, study, target
from benchlab.engines import EngineSetting, without_effect
from benchlab.errors import (
    BenchlabError,
    DatasetTooLarge,
    NoRuns,
    NotebookError,
    StoreError,
)
from benchlab.plan import Batch, Plan, Point, Trial, label
from benchlab.raw import folders
from benchlab.raw.record import SETTINGS, RunFolder, Status
from benchlab.repo import Repo
from benchlab.run import dataset, estimate, planning
from benchlab.run.peak import peak
from benchlab.run.planning import Selection, left
from benchlab.run.progress import SweepProgress
from benchlab.run.ready import check_free, ready
from benchlab.run.repeats import to_repeat
from benchlab.run.trial import refusal
from benchlab.store import ingest
from benchlab.study import Study
from benchlab.study.intervention import LimitBlocks, OutcomeChecks, SingleWrites
from benchlab.target import Provisioned
from benchlab.target.external import open_session
from benchlab.target.session import Session

_BATCH = Path("run") / "batch.ipynb"
_INTERVENTION = Path("run") / "intervention.ipynb"
_SINGLE_WRITES = Path("run") / "lease.ipynb"
_OUTCOMES = Path("run") / "outcomes.ipynb"

#: Type of a batch's intervention → the notebook that executes the batch.
_TEMPLATES = {
    type(None): _BATCH,
    LimitBlocks: _INTERVENTION,
    SingleWrites: _SINGLE_WRITES,
    OutcomeChecks: _OUTCOMES,
}


def run(
    repo: Repo,
    selection: Selection,
    console: Console,
    planned: Callable[[Repo, Selection, Study], Plan] = planning.planned,
    then: Sequence[Selection] = (),
) -> dict[str, Status]:
    """Run what is left of a plan, by default of a selection's; take everything down afterwards.

    A run that may go on until it is steady is repeated once if it was not steady, shared the CPU,
    or ran while the host had another speed: those of closed loops before the open loops, whose
    rates are shares of what the closed loops reach.

    The study file is read once, and the plan is then written to a file. The trials that are run are
    those of this plan, even if the study file changes meanwhile.

    Args:
        repo: the checkout.
        selection: what to run.
        console: shows messages and progress.
        planned: computes the plan.
        then: selections that will be run afterwards.

    Returns:
        Key of each trial that was run → status of its last run; empty if nothing was left.

    Raises:
        BenchlabError: the target cannot run it; nothing was started.
    """
    spec = study.load_rerun(repo, selection.study)
    plan = planned(repo, selection, spec)
    chosen = selection.part(spec, plan)
    if left(repo, selection, chosen):
        check_free(target.load(repo, selection.target))
    # report a store that cannot be used before hours of measuring
    damaged = ingest.ingest_new(repo).damaged
    for reason in damaged.values():
        console.print(f"damaged: {reason}", highlight=False, markup=False, soft_wrap=True)
    rest = left(repo, selection, chosen, damaged)
    if not rest and not (rest := to_repeat(repo, selection.target, chosen, plan)):
        plan.save(repo)
        return _nothing_left(selection, console)
    engines = {batch.engine for batch in rest}
    with ready(repo, selection, spec, rest, console, then) as found:
        if plan.versions != found.versions(spec.engines):
            # the engines' versions are known only now, and so are the trials that are done
            plan = planned(repo, selection, spec)
            chosen = selection.part(spec, plan)
            rest = left(repo, selection, chosen, damaged)
        plan = plan.save(repo)

        def sweep(batches: list[Batch]) -> dict[str, Status]:
            recorded = estimate.recorded(repo, selection.target)
            trials = [trial for batch in batches for trial in batch.trials]
            seconds = [estimate.of_trial(trial, recorded) for trial in trials]
            with SweepProgress(console, seconds) as bar:
                return Sweep(repo, plan, spec, found, bar, damaged).run(batches)

        ended: dict[str, Status] = {}
        for is_open in (False, True):
            if part := [batch for batch in rest if batch.is_open is is_open]:
                ended |= sweep(part)
            # other engines may have another study's variants; the next sweep repeats their runs
            part = [one for one in chosen if one.is_open is is_open and one.engine in engines]
            if again := to_repeat(repo, selection.target, part, plan):
                runs = sum(len(batch.trials) for batch in again)
                console.print(
                    f"{runs} runs were not steady, shared the CPU, or ran while the host had"
                    " another speed: they are repeated once"
                )
                ended |= sweep(again)
        return ended or _nothing_left(selection, console)


def _nothing_left(selection: Selection, console: Console) -> dict[str, Status]:
    console.print(f"{selection.study} {selection.profile}: all runs are there, none repeated")
    return {}


def execute_notebook(repo: Repo, plan: Plan, batch: Batch, bar: SweepProgress) -> None:
    """Run one batch's notebook with papermill; the executed copy is kept with the raw data.

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
    """A running sweep on a provisioned target."""

    repo: Repo
    plan: Plan
    spec: Study
    found: Provisioned
    bar: SweepProgress
    damaged: dict[str, str] = field(default_factory=dict)
    """Run folder → why it cannot be ingested; only those reported already."""
    broken: dict[str, str] = field(default_factory=dict)
    """Key of a dataset → why it could not be loaded."""
    too_large: dict[str, str] = field(default_factory=dict)
    """Key of a dataset → why the target has no space for it."""
    unset: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """(Engine, variant) → why its settings did not take effect; ``None``: they did."""
    settings: dict[tuple[str, str], list[EngineSetting]] = field(default_factory=dict)
    """(Engine, variant) → settings as the server reports them, if some did not take effect."""
    reported: set[str] = field(default_factory=set)
    """Reasons why trials did not run that have been reported already."""

    def run(self, batches: list[Batch]) -> dict[str, Status]:
        """Run the batches in their order, with an ingest after each; return key → status."""
        statuses: dict[str, Status] = {}
        for batch in batches:
            self.bar.step(batch.name)
            earlier = {folder.name for folder in folders.finished(self.repo.raw)}
            self._run_batch(batch, earlier)
            with suppress(StoreError):  # an unusable store is no reason to stop measuring
                self._ingest()
            ended = self._statuses(without=earlier | self.damaged.keys())
            # a run that cannot be ingested does not count either; the next sweep repeats it
            statuses |= {trial.key: ended.get(trial.key, "failed") for trial in batch.trials}
        self._ingest()
        return statuses

    def _ingest(self) -> None:
        """Add finished runs to the store, and report those that cannot be added."""
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
            # a trial that failed in an earlier sweep has a status, but none from this sweep
            if rest := rest.without(self._statuses(without=earlier)):
                self._close(rest.trials, "failed", str(error))
            else:
                self.bar.finished(f"{batch.name}: {error}", runs=0)

    def _runnable(self, session: Session, batch: Batch) -> Batch | None:
        """Return the batch without the trials that cannot run; close these with the reason."""
        closed: dict[tuple[Status, str], list[Trial]] = defaultdict(list)
        accepted = []
        for trial in batch.trials:
            if reason := refusal(session, trial.point):
                closed["refused", reason].append(trial)
            else:
                accepted.append(trial)
        try:
            if accepted:
                self._stop_others(batch.engine)
        except BenchlabError as error:  # it says nothing about this engine's datasets
            closed["failed", str(error)], accepted = accepted, []
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
        """Load the datasets of an engine's points that are missing; keep the reasons of failures."""
        for key, point in {point.dataset_key: point for point in points}.items():
            if key in self.broken or key in self.too_large:
                continue
            try:
                variant = self.spec.engines[point.engine].load_variant
                if variant in session.found.refused_variants or point.layout:
                    variant = point.variant
                dataset.ensure(session, point, variant, self.repo.answers, self.bar.step)
            except DatasetTooLarge as error:
                self.too_large[key] = str(error)
            except BenchlabError as error:  # an engine whose answers are wrong is not timed
                self.broken[key] = str(error)

    def _obstacle(self, session: Session, trial: Trial) -> str | None:
        """Return why a trial that the target accepts cannot run, or ``None``."""
        point = trial.point
        if reason := self.broken.get(point.dataset_key) or self._without_effect(session, point):
            return reason
        if point.share_of_peak is not None:
            try:
                peak(self.repo, self.plan, trial)
            except NoRuns as error:
                return str(error)
        return None

    def _without_effect(self, session: Session, point: Point) -> str | None:
        """Ask the server once whether it takes a variant's settings; return why not, or ``None``.

        So a setting that the server does not know is found once, not at each point of the variant.
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
        """Restore the dataset while the notebook's kernel starts, so that it need not wait for it."""
        with suppress(BenchlabError):  # the first run does the same and reports the error
            session.stop()
            session.restore(point.dataset_key)

    def _stop_others(self, engine: str) -> None:
        for other, found in self.found.engines.items():
            if other != engine and not found.refused:
                open_session(self.found, other).stop()

    def _close(self, trials: Sequence[Trial], status: Status, reason: str) -> None:
        """Record trials of a batch that did not run for the same reason, and report it in one line."""
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
