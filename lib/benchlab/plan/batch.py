"""Batches: the trials that one run notebook executes one after another."""

from collections.abc import Callable, Collection, Sequence

from pydantic import BaseModel, ConfigDict

from benchlab.plan.point import Trial
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.study.intervention import Intervention

#: Trials of a batch at most. A notebook's kernel takes some 6 s, so that one for every run would cost
#: much; a notebook that dies costs all that is left of its batch, so that one for all would, too.
BATCH_TRIALS = 8


def label(trials: Sequence[Trial]) -> str:
    """Name trials by what their curves have in common; the default envelope is left out."""
    parts = zip(*(trial.point.curve for trial in trials), strict=True)
    common = [names[0] for names in parts if len(set(names)) == 1]
    return "-".join(name for name in common if name != DEFAULT_ENVELOPE)


class Batch(BaseModel):
    """Trials of one number and one engine, drawn from all of its curves; or one intervention."""

    model_config = ConfigDict(frozen=True)

    engine: str
    trial: int
    number: int = 1
    """Counts the batches of an engine and a trial; older plans have curves instead, without it."""
    trials: tuple[Trial, ...]

    @property
    def name(self) -> str:
        """Name for progress lines and executed notebooks."""
        if self.intervention:
            concurrency = self.trials[0].point.concurrency
            kind = self.intervention.label.replace(" ", "-")
            return f"{label(self.trials)}-trial{self.trial}-{kind}{concurrency}"
        loop = "open" if self.is_open else "batch"
        return f"{self.engine}-trial{self.trial}-{loop}{self.number}"

    @property
    def intervention(self) -> Intervention | None:
        """What is done to the system in its run, if anything is."""
        return self.trials[0].intervention

    @property
    def is_open(self) -> bool:
        """Whether requests are due at times of their own."""
        return self.trials[0].point.share_of_peak is not None

    @property
    def keys(self) -> set[str]:
        """Keys of its trials."""
        return {trial.key for trial in self.trials}

    def only(self, chosen: Callable[[Trial], bool]) -> "Batch | None":
        """Return the batch with the chosen trials alone; ``None`` if there are none."""
        left = tuple(trial for trial in self.trials if chosen(trial))
        return self.model_copy(update={"trials": left}) if left else None

    def without(self, done: Collection[str]) -> "Batch | None":
        """Return the batch without the trials whose keys are ``done``; ``None`` if that is all."""
        return self.only(lambda trial: trial.key not in done)
