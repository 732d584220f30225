"""Plan a selection on a target: what would run, and what of it is left to run.

The module is light to import, so that a plan is shown at once.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from benchlab import target
from benchlab.errors import TargetError
from benchlab.plan import Batch, Plan, Planner, selected
from benchlab.raw import folders
from benchlab.repo import Repo
from benchlab.study import InterventionPoint, Study
from benchlab.study.intervention import LimitBlocks


@dataclass(frozen=True)
class Selection:
    """Which part of a study to run; an empty list means all."""

    study: str
    profile: str = "quick"
    target: str = "local"
    engines: list[str] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    workloads: list[str] = field(default_factory=list)
    retry_refused: bool = False
    """Whether refused trials are run, too: for example, an engine may be available by now."""

    def part(self, spec: Study, plan: Plan) -> list[Batch]:
        """Return the batches of a plan with only the selected trials.

        Raises:
            UnknownName: the study does not have one of the names.
        """
        return selected(spec, plan.batches, self.engines, self.variants, self.workloads)


def planned(repo: Repo, selection: Selection, spec: Study) -> Plan:
    """Return the whole plan of the study's profile that a selection names.

    Before the target is provisioned, the versions of its engines are unknown, and so are the keys of
    the trials. Size and order of the plan are the same.
    """
    return planner(repo, selection, spec).plan(selection.target)


def intervention(
    where: InterventionPoint,
    requested: LimitBlocks,
    number: int,
    repo: Repo,
    selection: Selection,
    spec: Study,
) -> Plan:
    """Return a plan of one batch with one intervention, which need not be in the study.

    Raises:
        UnknownName: the study has no such point.
        TargetError: no limit that could be lowered is in force on the target.
    """
    return planner(repo, selection, spec).by_hand(selection.target, where, requested, number)


def planner(repo: Repo, selection: Selection, spec: Study) -> Planner:
    """Return the planner of a study's profile for a target, with the engines' versions if known."""
    on = target.load(repo, selection.target)
    try:
        versions = target.provisioned(repo, selection.target).versions(spec.engines)
    except TargetError:
        versions = dict.fromkeys(spec.engines, "unknown")
    instance = target.instance_type(repo, spec.instance)
    return Planner(spec, selection.profile, instance, versions, on.enforce)


def left(
    repo: Repo, selection: Selection, batches: Iterable[Batch], damaged: Collection[str] = ()
) -> list[Batch]:
    """Return the batches without the trials whose last run counts or was refused.

    Args:
        repo: the checkout.
        selection: names the target, and says whether refused trials are left to run, too.
        batches: batches of the plan.
        damaged: names of run folders that ingest could not read; their trials are not done.
    """
    statuses = folders.latest_status(repo.raw, selection.target, damaged)
    kept = {"ok"} if selection.retry_refused else {"ok", "refused"}
    done = {key for key, status in statuses.items() if status in kept}
    return [rest for batch in batches if (rest := batch.without(done))]
