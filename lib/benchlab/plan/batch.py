"""Batches: the trials that one run notebook executes one after another."""

from collections.abc import Callable, Collection, Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from benchlab.plan.envelope import Envelope
from benchlab.plan.point import Trial
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.study.intervention import Intervention

#: Most trials of a batch. A notebook's kernel takes some 6 s, so one notebook per run would be slow. A
#: notebook that dies loses the rest of its batch, so one notebook for all runs would lose too much.
BATCH_TRIALS = 8


def label(trials: Sequence[Trial]) -> str:
    """Name trials by the parts that their curves have in common, without the default envelope."""
    parts = zip(*(trial.point.curve for trial in trials), strict=True)
    common = [names[0] for names in parts if len(set(names)) == 1]
    return "-".join(name for name in common if name != DEFAULT_ENVELOPE)


class Batch(BaseModel):
    """Trials of one number and one engine, drawn from all its curves; or one intervention."""

    model_config = ConfigDict(frozen=True)

    engine: str
    trial: int
    number: int = 1
    """Number of the batch among those of the engine and trial; older plans have curves, without it."""
    trials: tuple[Trial, ...]

    @property
    def name(self) -> str:
        """Name in progress lines and of the executed notebook."""
        if self.intervention:
            concurrency = self.trials[0].point.concurrency
            kind = self.intervention.label.replace(" ", "-")
            return f"{label(self.trials)}-trial{self.trial}-{kind}{concurrency}"
        loop = "open" if self.is_open else "batch"
        return f"{self.engine}-trial{self.trial}-{loop}{self.number}"

    @property
    def intervention(self) -> Intervention | None:
        """The intervention in its run; ``None``: the batch has ordinary runs."""
        return self.trials[0].intervention

    @property
    def is_open(self) -> bool:
        """Whether it has open loops: requests are due at set times."""
        return self.trials[0].point.share_of_peak is not None

    @property
    def keys(self) -> set[str]:
        """Keys of its trials."""
        return {trial.key for trial in self.trials}

    def only(self, chosen: Callable[[Trial], bool]) -> "Batch | None":
        """Return the batch with only the chosen trials; ``None`` if there are none."""
        left = tuple(trial for trial in self.trials if chosen(trial))
        return self.model_copy(update={"trials": left}) if left else None

    def without(self, done: Collection[str]) -> "Batch | None":
        """Return the batch without the trials whose keys are ``done``; ``None`` if none are left."""
        return self.only(lambda trial: trial.key not in done)


def largest_envelope(batches: Iterable[Batch]) -> Envelope:
    """Return the envelope with the highest memory limit among those of a plan's points.

    An enforced one comes first: the others are of servers that somebody else runs.
    """
    envelopes = (trial.point.envelope for batch in batches for trial in batch.trials)
    return max(envelopes, key=lambda it: (it.enforce, it.memory_limit_bytes))
