"""Random rules of TPC-C that the population and the terminals have in common.

Terminals need only the functions without numpy, so numpy is not imported here.
"""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

#: A of NURand for a customer's last name, a customer and an item (clause 2.1.6).
C_LAST_A, C_ID_A, OL_I_ID_A = 255, 1023, 8191

#: Allowed differences between C for C_LAST in a run and in the load (clause 2.1.6.1).
C_LAST_DELTAS = frozenset(range(65, 120)) - {96, 112}

#: A last name is a number of three digits, with a syllable for each digit (clause 4.3.2.3).
SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
LAST_NAMES = len(SYLLABLES) ** 3


@dataclass(frozen=True)
class Constants:
    """C of NURand for each of its three uses, the same for all terminals (clause 2.1.6.1)."""

    c_last: int
    c_id: int
    ol_i_id: int


def load_constants(seed: int) -> Constants:
    """Draw the constants of a load (C-Load). Only the one for C_LAST has an effect on the rows."""
    draw = random.Random(f"tpcc load {seed}")
    return _drawn(draw, draw.randint(0, C_LAST_A))


def run_constants(seed: int, load: Constants) -> Constants:
    """Draw the constants of a run (C-Run) on a database that was loaded with ``load``.

    So a run does not ask most often for the last names that most customers have (clause 2.1.6.1).
    """
    draw = random.Random(f"tpcc run {seed}")
    allowed = [one for one in range(C_LAST_A + 1) if abs(one - load.c_last) in C_LAST_DELTAS]
    return _drawn(draw, draw.choice(allowed))


def last_name(number: int) -> str:
    """Return the last name of a number from 0 to 999 (clause 4.3.2.3)."""
    hundreds, rest = divmod(number, 100)
    tens, ones = divmod(rest, 10)
    return SYLLABLES[hundreds] + SYLLABLES[tens] + SYLLABLES[ones]


def nurand(
    random: "np.random.Generator", a: int, x: int, y: int, c: int, size: int | None = None
) -> "np.ndarray":
    """Draw numbers from x to y, not uniformly (clause 2.1.6)."""
    either = random.integers(0, a + 1, size) | random.integers(x, y + 1, size)
    return (either + c) % (y - x + 1) + x


def nurand_int(random: random.Random, a: int, x: int, y: int, c: int) -> int:
    """Draw one number from x to y, not uniformly (clause 2.1.6).

    ``a`` is one less than a power of two, as it is in the standard.
    """
    # takes an eighth of the time of two calls of randint(), which a terminal should not spend
    either = random.getrandbits(a.bit_length()) | (x + int(random.random() * (y - x + 1)))
    return (either + c) % (y - x + 1) + x


def _drawn(draw: random.Random, c_last: int) -> Constants:
    return Constants(c_last, draw.randint(0, C_ID_A), draw.randint(0, OL_I_ID_A))
