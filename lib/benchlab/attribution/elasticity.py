"""Results of the blocks of a run: throughput of each, and its elasticity to each limit.

Pure functions: rows in, rows out.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import polars as pl

from benchlab.study.intervention import TRANSIENT_S, WITHOUT_ENVELOPE, LimitBlocks
from benchlab.study.resources import LOWERED

if TYPE_CHECKING:
    from benchlab.stats import Estimate, Spread

#: Elasticity above which a limit binds: half of a cut reaches throughput.
BINDS = 0.5

#: Between these elasticities a limit binds part of the time, or together with another one.
IN_PART = (0.2, 0.8)

#: Highest elasticity that counts as proportional: 1, plus a margin since the cost of a transaction may
#: change when it takes longer.
PROPORTIONAL = 1.25

#: Seconds by which a block may begin and end later than the driver's seconds and still be in step with
#: them: the agent needs that time to get the signal that the load has begun, and to wake up.
_IN_STEP_S = 0.2

_ELASTICITY_SCHEMA = {
    "resource": pl.String,
    "elasticity": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "blocks": pl.Int64,
    "answer": pl.String,
    "reason": pl.String,
}


class Answer(StrEnum):
    """What the whole interval of an elasticity shows about a limit."""

    BINDS = "binds"
    MORE_THAN_PROPORTIONAL = "binds, more than in proportion"
    IN_PART = "binds in part"
    DOES_NOT = "does not bind"
    UNCLEAR = "unclear"
    NOT_TESTABLE = "not testable"


BINDING = (Answer.BINDS, Answer.MORE_THAN_PROPORTIONAL)


def answer(estimate: "Estimate") -> Answer:
    """Return what an elasticity shows.

    - MORE_THAN_PROPORTIONAL: all of the interval is above :data:`PROPORTIONAL`. The system is not
      linear there (a transaction costs more when it takes longer, as with full pages after a
      checkpoint), and the number holds only for cuts of that size.
    - IN_PART: all of it is within :data:`IN_PART`.
    - BINDS: all of it is above :data:`BINDS`.
    - DOES_NOT: all of it is below :data:`BINDS`.
    - UNCLEAR: none of these is shown; more or longer blocks would decide.
    """
    if estimate.low is None or estimate.high is None:
        return Answer.UNCLEAR
    if estimate.low > PROPORTIONAL:
        return Answer.MORE_THAN_PROPORTIONAL
    if IN_PART[0] < estimate.low and estimate.high < IN_PART[1]:
        return Answer.IN_PART
    if estimate.low > BINDS:
        return Answer.BINDS
    return Answer.DOES_NOT if estimate.high < BINDS else Answer.UNCLEAR


def block_throughput(
    blocks: pl.DataFrame, seconds: pl.DataFrame, late_s: float = 0.0
) -> pl.DataFrame:
    """Add to every block ``seconds`` (how many count) and ``tps`` (their mean; null if none count).

    A second counts for a block if all of it is inside the block and after the transient.

    Args:
        blocks: of one run, see :func:`benchlab.attribution.blocks.blocks`.
        seconds: the driver's intervals of the measured part: ``second`` (its end) and ``tps``; rows
            of the same second are added.
        late_s: seconds by which the first block began later than the driver's first second.
    """
    tps = dict(seconds.group_by("second").agg(pl.col("tps").sum()).iter_rows())
    start = (blocks["begin_s"].min() or 0.0) - late_s
    rows = []
    for block in blocks.iter_rows(named=True):
        first = math.ceil(block["begin_s"] - start - _IN_STEP_S) + TRANSIENT_S + 1
        last = math.floor(block["end_s"] - start + _IN_STEP_S / 2)
        counted = [tps[second] for second in range(first, last + 1) if second in tps]
        mean = sum(counted) / len(counted) if counted else None
        rows.append(block | {"seconds": len(counted), "tps": mean})
    return pl.DataFrame(rows, schema=blocks.schema | {"seconds": pl.Int64, "tps": pl.Float64})


def elasticities(blocks: pl.DataFrame, requested: LimitBlocks, enforced: bool) -> pl.DataFrame:
    """Return one row per resource: elasticity, interval, number of blocks, and the answer.

    Every lowered block is compared with the baseline blocks before and after it. It does not count
    without both, as in a run that was cut short. A resource without a block that counts is *unclear*.
    A resource whose limit is not in force on the target is *not testable*.

    Args:
        blocks: see :func:`block_throughput`, in the order of time.
        requested: the blocks that were requested for the run.
        enforced: whether the envelope limits the disk.
    """
    from benchlab import stats

    compared = {key: _compared(blocks, LOWERED[key].name) for key in requested.resources}
    prior = stats.in_common(
        stats.block_spread(one.lowered, one.beside)
        for one in compared.values()
        if len(one.lowered) > 1 and one.moved
    )
    rows = []
    for key, resource in LOWERED.items():
        if not enforced and key not in WITHOUT_ENVELOPE:
            rows.append(_row(resource.name, Answer.NOT_TESTABLE, reason="no limit is in force"))
        elif key in compared:
            rows.append(_tested(compared[key], resource.name, requested.factor, prior))
    return pl.DataFrame(rows, schema=_ELASTICITY_SCHEMA)


@dataclass(frozen=True)
class _Compared:
    """Throughput of the blocks in which one limit was lowered, and of the baseline next to each."""

    lowered: list[float]
    beside: list[float]
    shared: int
    """Number of pairs of lowered blocks with a baseline block in common."""

    @property
    def moved(self) -> bool:
        """Whether there was any throughput in both kinds of block."""
        return bool(sum(self.lowered) and sum(self.beside))


def _compared(blocks: pl.DataFrame, name: str) -> _Compared:
    rows = blocks.rows(named=True)
    lowered, beside, positions = [], [], set()
    for at, (before, block, behind) in enumerate(zip(rows, rows[1:], rows[2:], strict=False)):
        values = (block["tps"], before["tps"], behind["tps"])
        if block["resource"] == name and None not in values:
            lowered.append(block["tps"])
            beside.append((before["tps"] + behind["tps"]) / 2)
            positions.add(at)
    return _Compared(lowered, beside, shared=sum(at + 2 in positions for at in positions))


def _tested(found: _Compared, name: str, factor: float, prior: "Spread | None") -> dict:
    from benchlab import stats

    if not found.moved:
        what = "no throughput" if found.lowered else "no block that counts"
        return _row(name, Answer.UNCLEAR, len(found.lowered), what)
    estimate = stats.elasticity(found.lowered, found.beside, factor, found.shared, prior)
    said = answer(estimate)
    reason = None
    if said is Answer.UNCLEAR:
        reason = "too few blocks" if estimate.low is None else "the interval is too wide"
    row = _row(name, said, estimate.n, reason)
    return row | {"elasticity": estimate.value, "low": estimate.low, "high": estimate.high}


def _row(name: str, said: Answer, blocks: int = 0, reason: str | None = None) -> dict:
    return {
        **dict.fromkeys(_ELASTICITY_SCHEMA),
        "resource": name,
        "blocks": blocks,
        "answer": str(said),
        "reason": reason,
    }
