"""What is done to a system in a run: limits lowered block by block, single writes, or checks.

A trial's ``intervention`` is any of the three. In study files, texts and ``benchlab intervene`` the
word means lowered limits alone. Each kind has a ``label``, which the names of batches and runs contain.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from benchlab.study.resources import LOWERED
from benchlab.study.strict import StrictModel, Unresolved

#: The keys of :data:`~benchlab.study.resources.LOWERED`.
ResourceKey = Literal["write_bandwidth", "write_iops", "read_bandwidth", "read_iops", "cpu"]

#: Resources whose limit can be lowered without an enforced envelope. The disk's limits are then those
#: of the hardware, which benchlab cannot lower. The limit of the CPU is then the number of the host's
#: cores.
WITHOUT_ENVELOPE = ("cpu",)

#: Seconds at the start of every block that do not count. After them, requests that were queued under
#: the previous limit are done, and the pauses of a quota are spread over all clients.
TRANSIENT_S = 1

_AFTER_BLOCKS_S = 2

#: Least number of seconds that count in a block.
_LEAST_COUNTED_S = 2


class LimitBlocks(StrictModel):
    """Blocks of a run in which a limit is lowered; part of the definition of its trial."""

    label: ClassVar[str] = "intervention"

    resources: Annotated[tuple[ResourceKey, ...], Field(min_length=1)] = tuple(LOWERED)
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Limit in a block, as a share of the limit in force."""
    block_s: Annotated[int, Field(ge=TRANSIENT_S + _LEAST_COUNTED_S)]
    """Length of a block, in whole seconds: sysbench reports each second."""
    blocks: Annotated[int, Field(gt=0)]
    """Blocks of each resource. Before, between and after them are blocks without a lowered limit."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.resources)) < len(self.resources):
            raise Unresolved("a resource is there twice", ("resources",))
        return self

    @property
    def duration_s(self) -> int:
        """Seconds of all blocks."""
        return (2 * len(self.resources) * self.blocks + 1) * self.block_s

    @property
    def measure_s(self) -> int:
        """Seconds of a run with all blocks, and a few more, since the blocks may start late."""
        return self.duration_s + _AFTER_BLOCKS_S

    def within(self, enforced: bool) -> "LimitBlocks | None":
        """Return it with only the resources whose limit can be lowered; ``None`` if none can.

        Args:
            enforced: whether the envelope limits the disk.
        """
        left = tuple(one for one in self.resources if enforced or one in WITHOUT_ENVELOPE)
        return self.model_copy(update={"resources": left}) if left else None


class SingleWrites(StrictModel):
    """Single writes into a load that reads; part of the definition of its trial.

    Each table has its own writes; the tables are written at the same time.
    """

    label: ClassVar[str] = "single writes"

    writes: Annotated[int, Field(gt=0)]
    """Number of writes into each table."""
    every_s: Annotated[int, Field(ge=4)]
    """Length of a period in seconds; a write starts at a random time in the middle half of each."""

    @property
    def duration_s(self) -> int:
        """Seconds of all periods."""
        return self.writes * self.every_s

    @property
    def measure_s(self) -> int:
        """Seconds of a run with all periods."""
        return self.duration_s


class OutcomeChecks(StrictModel):
    """Checks that give no numbers, made instead of a load; part of the definition of its trial."""

    label: ClassVar[str] = "outcome checks"

    checks: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of checks of the kind of dataset (:meth:`benchlab.workloads.base.Tables.outcomes`)."""
    about_s: Annotated[int, Field(gt=0)]
    """Seconds that the checks are expected to take, for planning; part of the trial's key."""

    @property
    def measure_s(self) -> int:
        """Seconds of a run with all checks."""
        return self.about_s


Intervention = LimitBlocks | SingleWrites | OutcomeChecks
