"""Plans: the trials to be run, computed once, written to a file, and read by every run notebook.

A plan defines which trials are the results of a study's profile on a target: those with its keys, and
no others. So a trial that another profile measured counts for this one, too. A trial with an older
definition of a point does not count.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from benchlab import atomic
from benchlab.errors import BenchlabError, UnknownName
from benchlab.plan.batch import Batch
from benchlab.plan.point import Trial
from benchlab.repo import Repo
from benchlab.study.strict import problem


class Plan(BaseModel):
    """The batches of a study's profile on a target, in the order in which they are to be run."""

    model_config = ConfigDict(frozen=True)

    study: str
    profile: str
    target: str
    planned: datetime
    versions: dict[str, str]
    """Engine → version that the keys of its trials contain; ``unknown`` before provisioning."""
    whole: bool = True
    """Whether it is the whole profile; if not, its trials are no results of the profile."""
    # older plans have curves instead of batches
    batches: Annotated[tuple[Batch, ...], Field(validation_alias=AliasChoices("batches", "curves"))]

    @property
    def id(self) -> str:
        """Name of its file without the suffix; sorted by it, plans are in the order of time."""
        return f"{self.planned:%Y%m%dT%H%M%S.%f}-{self.study}-{self.profile}-{self.target}"

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order in which they are to be run."""
        return [trial for batch in self.batches for trial in batch.trials]

    def batch(self, keys: Sequence[str] = ()) -> Batch:
        """Return the batch of some trials, with only these; the first batch if no key is given.

        Args:
            keys: keys of trials of one batch, in the order in which they are to be run.

        Raises:
            UnknownName: no batch of the plan has all of these trials.
        """
        for batch in self.batches:
            trials = {trial.key: trial for trial in batch.trials}
            if trials.keys() >= set(keys):
                chosen = tuple(trials[key] for key in keys) or batch.trials
                return batch.model_copy(update={"trials": chosen})
        raise UnknownName("trials", ", ".join(keys), (trial.key for trial in self.trials))

    def save(self, repo: Repo) -> "Plan":
        """Write the plan to a file, unless the last plan of its study, profile and target is the same.

        Returns:
            The plan in the file: this one or that last one.
        """
        for earlier in reversed(ids(repo)):
            try:
                last = read(repo, earlier)
            except BenchlabError:  # of a kind of dataset, say, that is not there any more
                continue
            if (last.study, last.profile, last.target, last.whole) == (
                *(self.study, self.profile, self.target, self.whole),
            ):
                if last.batches == self.batches:
                    return last
                break
        repo.plans.mkdir(parents=True, exist_ok=True)
        atomic.write(_path(repo, self.id), self.model_dump_json(indent=1))
        return self


def ids(repo: Repo) -> list[str]:
    """Names of all plans, oldest first."""
    return sorted(path.stem for path in repo.plans.glob("*.json"))


def last(repo: Repo) -> str:
    """Return the name of the plan that was written last.

    Raises:
        BenchlabError: there is no plan.
    """
    if found := ids(repo):
        return found[-1]
    raise BenchlabError(f"no plan in {repo.plans}: `benchlab run` writes it")


def read(repo: Repo, plan_id: str) -> Plan:
    """Read a plan by its name.

    Raises:
        UnknownName: there is no such plan.
        BenchlabError: the file is no plan.
    """
    path = _path(repo, plan_id)
    if not path.is_file():
        raise UnknownName("plan", plan_id, ids(repo))
    try:
        return Plan.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BenchlabError(f"{path}: no plan: {problem(error)}") from error


def _path(repo: Repo, plan_id: str) -> Path:
    return repo.plans / f"{plan_id}.json"
