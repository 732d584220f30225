"""The order of the blocks: random, but the same again from the same seed."""

import random
from dataclasses import dataclass

from benchlab.study.intervention import LimitBlocks


@dataclass(frozen=True)
class Block:
    """A stretch of a run; ``resource`` is what is lowered in it, ``None`` in a baseline block."""

    resource: str | None
    factor: float
    duration_s: int


def schedule(intervention: LimitBlocks, seed: int) -> list[Block]:
    """Return the blocks of a run: a baseline block, then by turns one that lowers and a baseline.

    Each round lowers every resource once, in a random order of its own (randomised complete blocks;
    Fisher, The Design of Experiments, 1935, chapter IV): whatever drifts in a run meets all of them
    alike, and none always follows the same other one.
    """
    order = random.Random(seed)
    baseline = Block(None, 1.0, intervention.block_s)
    blocks = [baseline]
    for _ in range(intervention.blocks):
        for resource in order.sample(intervention.resources, len(intervention.resources)):
            blocks += [Block(resource, intervention.factor, intervention.block_s), baseline]
    return blocks
