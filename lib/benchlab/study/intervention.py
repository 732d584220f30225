"""What is done to a system in a run: limits lowered block by block, single writes, or checks.

Each has a ``label``, as batches and runs are named by it.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from benchlab.study.resources import LOWERED
from benchlab.study.strict import StrictModel, Unresolved

#: The keys of :data:`~benchlab.study.resources.LOWERED`.
ResourceKey = Literal["write_bandwidth", "write_iops", "read_bandwidth", "read_iops", "cpu"]

#: Without an enforced envelope the disk's limits are its own, which nobody can lower from here. The
#: CPU's is then the number of the host's cores.
WITHOUT_ENVELOPE = ("cpu",)

#: Seconds at the begin of every block that do not count: what was queued under the limit before has
#: then been worked off, and a quota's stalls have spread over all clients.
TRANSIENT_S = 1

_AFTER_BLOCKS_S = 2

#: A block has at least that many seconds that count.
_LEAST_COUNTED_S = 2


class LimitBlocks(StrictModel):
    """Blocks of a run in which a limit is lowered; part of what its trial is."""

    label: ClassVar[str] = "intervention"

    resources: Annotated[tuple[ResourceKey, ...], Field(min_length=1)] = tuple(LOWERED)
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """What a block leaves of the limit in force."""
    block_s: Annotated[int, Field(ge=TRANSIENT_S + _LEAST_COUNTED_S)]
    """Whole seconds: sysbench reports one at a time."""
    blocks: Annotated[int, Field(gt=0)]
    """Of each resource; before, between and behind them is a block with all limits as they were."""

    @model_validator(mode="after")
    def _each_once(self) -> "Intervention":
        if len(set(self.resources)) < len(self.resources):
            raise Unresolved("a resource is there twice", ("resources",))
        return self

    @property
    def duration_s(self) -> int:
        """Seconds of all blocks."""
        return (2 * len(self.resources) * self.blocks + 1) * self.block_s

    @property
    def measure_s(self) -> int:
        """Seconds of a run that has them all; it goes on behind the last one, which may begin late."""
        return self.duration_s + _AFTER_BLOCKS_S

    def within(self, enforced: bool) -> "LimitBlocks | None":
        """Return it with those resources alone whose limit can be lowered; ``None`` if none can.

        Args:
            enforced: whether the envelope limits the disk.
        """
        left = tuple(one for one in self.resources if enforced or one in WITHOUT_ENVELOPE)
        return self.model_copy(update={"resources": left}) if left else None


class SingleWrites(StrictModel):
    """Writes, one by one, into a load that reads; part of what its trial is.

    Each table has its own, all at the same time.
    """

    label: ClassVar[str] = "single writes"

    writes: Annotated[int, Field(gt=0)]
    """To each table."""
    every_s: Annotated[int, Field(ge=4)]
    """Each begins at a random time of so many seconds, in the middle half of them."""

    @property
    def duration_s(self) -> int:
        """Seconds of all periods."""
        return self.writes * self.every_s

    @property
    def measure_s(self) -> int:
        """Seconds of a run that has them all."""
        return self.duration_s


class OutcomeChecks(StrictModel):
    """Checks whose answers are no numbers, made in place of a load; part of what its trial is."""

    label: ClassVar[str] = "outcome checks"

    checks: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names; the kind of the dataset has them (:meth:`benchlab.workloads.base.Tables.outcomes`)."""
    about_s: Annotated[int, Field(gt=0)]
    """Seconds that they may take, to plan with."""

    @property
    def measure_s(self) -> int:
        """Seconds of a run that has them all."""
        return self.about_s


Intervention = LimitBlocks | SingleWrites | OutcomeChecks
