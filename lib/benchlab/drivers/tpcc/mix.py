"""Which transaction a terminal does next (clause 5.2.4.2): by weights, or from decks of cards.

All terminals of a run have it the same way.

``weights``
    Each type is drawn by its weight. Weights of 45, 43, 4, 4 and 4 % give the most New-Orders,
    12.86 a minute and warehouse, but leave every second run with fewer than 43 % of Payments, by
    chance. So a little more than the least is aimed at, which gives 12.80, and weights are adjusted
    within the 5 % that the clause allows: the count of a type then stays within some dozens of its
    aim over any interval, and does not walk away with the square root of their number. Which type
    it is may thus depend on what other terminals of the process drew. Fewer than some 50,000
    transactions may yet miss a least share by these dozens.
``decks``
    Each terminal draws the 23 cards of a deck of its own in random order, then shuffles it anew.
    The shares are those of the cards, far enough from the least for any number; they give 12.61.

(These numbers are of answers and screens that take no time, and the least think times.)
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from benchlab.workloads.tpcc.dataset import TYPES

WAYS = ("weights", "decks")

#: Per cent of each type that are aimed at by weights; at least 43 of Payments, 4 of the last three.
AIMS = {
    "new_order": 44.6,
    "payment": 43.1,
    "order_status": 4.1,
    "delivery": 4.1,
    "stock_level": 4.1,
}

#: By which a weight may be adjusted, to either side.
ADJUSTMENT = 0.05

#: Cards of each type in a deck.
CARDS = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}

#: Number of each type but New-Order, which has the rest, and its aim as a share.
_AIMED = tuple((TYPES.index(name), aim / 100) for name, aim in AIMS.items() if name != TYPES[0])

_DECK = bytes(TYPES.index(name) for name, count in CARDS.items() for _ in range(count))


class Mix(Protocol):
    """Draws types of transactions."""

    def draw(self, random: Random) -> int:
        """Return the number of a type within :data:`TYPES`."""


class Weights:
    """Draws by adjusted weights; one for all terminals of a process."""

    __slots__ = ("_count", "_counts")

    def __init__(self) -> None:
        self._count = 0
        self._counts = [0] * len(TYPES)

    def draw(self, random: Random) -> int:
        """See :meth:`Mix.draw`."""
        left = random.random()
        number = 0
        for aimed, share in _AIMED:
            behind = self._counts[aimed] < share * self._count
            left -= share * (1 + ADJUSTMENT if behind else 1 - ADJUSTMENT)
            if left < 0:
                number = aimed
                break
        self._count += 1
        self._counts[number] += 1
        return number


class Deck:
    """Draws from a deck; one for each terminal."""

    __slots__ = ("_cards",)

    def __init__(self) -> None:
        self._cards = bytearray()

    def draw(self, random: Random) -> int:
        """See :meth:`Mix.draw`."""
        if not self._cards:
            self._cards = bytearray(_DECK)
            random.shuffle(self._cards)
        return self._cards.pop()


def of_terminals(way: str) -> Callable[[], Mix]:
    """Return what gives each terminal of a process its mix, by one of :data:`WAYS`."""
    if way == "decks":
        return Deck
    shared = Weights()
    return lambda: shared
