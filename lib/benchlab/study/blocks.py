"""Which points of which curves a study runs, in which profiles."""

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from benchlab.study.envelope import DEFAULT_ENVELOPE
from benchlab.study.intervention import LimitBlocks, OutcomeChecks, ResourceKey, SingleWrites
from benchlab.study.strict import StrictModel

ProfileName = Literal["smoke", "quick", "standard", "paper"]
PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)


class Curves(StrictModel):
    """Every combination of these engines, variants and workloads: one curve each."""

    engines: Annotated[list[str], Field(min_length=1)]
    variants: Annotated[list[str], Field(min_length=1)]
    workloads: Annotated[list[str], Field(min_length=1)]
    envelope: str = DEFAULT_ENVELOPE
    profiles: list[ProfileName] = list(PROFILES)


class Block(Curves):
    """A block of the matrix."""

    concurrency: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1)] | None = Field(
        None, description="concurrencies of this block; none: the profile's"
    )
    warmup_s: Annotated[int, Field(ge=0)] | None = Field(
        None, description="least warm-up of this block; none: the profile's"
    )
    longest_s: Annotated[int, Field(gt=0)] | None = Field(
        None, description="maximum length of its runs' measured part; none: the profile's"
    )


class InterventionPoint(StrictModel):
    """A point at which limits are lowered, to measure what each limit is worth."""

    engine: str
    variant: str
    workload: str
    concurrency: Annotated[int, Field(gt=0)]
    envelope: str = DEFAULT_ENVELOPE
    profiles: list[ProfileName] = list(PROFILES)
    resources: Annotated[tuple[ResourceKey, ...], Field(min_length=1)] | None = Field(
        None, description="limits to lower at this point; none: the profile's"
    )

    def resolved(self, of_profile: LimitBlocks) -> LimitBlocks:
        """Return the intervention at this point, from that of a profile."""
        changes = {"resources": self.resources} if self.resources else {}
        return of_profile.model_copy(update=changes)

    @property
    def curve(self) -> tuple[str, str, str]:
        """Engine, variant and workload."""
        return self.engine, self.variant, self.workload


class SingleWritesBlock(Curves):
    """Points with a load that only reads, into which single writes are made."""

    concurrency: Annotated[int, Field(gt=0)]
    single_writes: SingleWrites


class OutcomesBlock(Curves):
    """Engines that are checked, each with the dataset of a workload."""

    concurrency: ClassVar[int] = 1  # the client that checks; there is no load

    outcomes: OutcomeChecks


class OpenLoop(Curves):
    """Points whose requests are due at set times, whether or not earlier ones are done.

    Their rate is a share of the throughput that the same number of clients reaches in the closed loop,
    which is run before.
    """

    concurrency: Annotated[int, Field(gt=0, description="requests under way at once, at most")]
    shares: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], Field(min_length=1)]
