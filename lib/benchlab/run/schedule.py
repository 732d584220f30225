"""The order of the blocks: random, but the same for the same seed."""

import random
from dataclasses import dataclass

from benchlab.study.intervention import LimitBlocks


@dataclass(frozen=True)
class Block:
    """A part of a run; ``resource`` is the key of its lowered limit, ``None`` in a baseline block."""

    resource: str | None
    factor: float
    duration_s: int


def schedule(intervention: LimitBlocks, seed: int) -> list[Block]:
    """Return the blocks of a run: a baseline, then in turn a block with a lowered limit and a baseline.

    Each round lowers every resource once, in its own random order (randomised complete blocks; Fisher,
    The Design of Experiments, 1935, chapter IV). So a drift during the run affects all resources alike,
    and no resource always follows the same other one.
    """
    order = random.Random(seed)
    baseline = Block(None, 1.0, intervention.block_s)
    blocks = [baseline]
    for _ in range(intervention.blocks):
        for resource in order.sample(intervention.resources, len(intervention.resources)):
            blocks += [Block(resource, intervention.factor, intervention.block_s), baseline]
    return blocks
