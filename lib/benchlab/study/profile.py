"""How much of a study a profile runs, and on what scale."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from benchlab.study.envelope import EnvelopeSpec
from benchlab.study.intervention import LimitBlocks
from benchlab.study.kinds import Dataset
from benchlab.study.settings import Settings
from benchlab.study.strict import StrictModel, Unresolved


class Profile(StrictModel):
    """How much of a study to run, and on what scale."""

    envelope: EnvelopeSpec | None = Field(None, description="none: the whole instance type")
    dataset: Dataset
    concurrency: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1)]
    trials: Annotated[int, Field(gt=0)]
    most_trials: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="maximum number of trials: the points of an inconclusive claim get more trials if"
        " these would probably decide it; none: no further trials",
    )
    warmup_s: Annotated[int, Field(ge=0)]
    measure_s: Annotated[int, Field(gt=0)]
    longest_s: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="maximum length of the measured part: a run goes on until it is steady, for"
        " measure_s at least; none: it lasts measure_s",
    )
    transactions_per_client: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="a run of a closed loop ends after so many per client, or after measure_s; one of"
        " pgbench, which has no second limit, fails if it then still runs",
    )
    start: Literal["cold", "prewarm"] = Field(
        description="cold: restarted, caches dropped; prewarm: the same, then every table is read once"
    )
    dataset_reset: Literal["restore", "none"] = Field(
        description="restore: the dataset is restored before every run that writes; none: it is not"
    )
    overrides: dict[str, dict[Literal["init", "settings"], Settings]] = {}
    intervention: LimitBlocks | None = Field(
        None, description="of each point of the study's `interventions`; none: they are not run"
    )

    @model_validator(mode="after")
    def _most_trials_are_more(self) -> "Profile":
        if self.most_trials is not None and self.most_trials <= self.trials:
            raise Unresolved(f"is not more than trials, {self.trials}", ("most_trials",))
        return self

    @model_validator(mode="after")
    def _ends_one_way(self) -> "Profile":
        if self.longest_s is None:
            return self
        if self.transactions_per_client:
            raise Unresolved(
                "a run ends with its transactions or when it is steady", ("longest_s",)
            )
        if self.longest_s < self.measure_s:
            raise Unresolved(f"is less than measure_s, {self.measure_s}", ("longest_s",))
        return self
