"""The choice of a terminal's next transaction (clause 5.2.4.2): by weights, or from decks of cards.

All terminals of a run choose in the same way.

``weights``
    Each type is drawn by its weight. Weights of 45, 43, 4, 4 and 4 % give the most New-Orders,
    12.86 per minute and warehouse. But by chance, every second run would have less than 43 % of
    Payments. So the weights aim at a little more than the least shares, which gives 12.80, and they
    are adjusted within the 5 % that the clause allows. The count of a type then stays within some
    dozens of its aim over any interval; its error does not grow with the square root of the number
    of transactions. So the type that a terminal draws may depend on what other terminals of the
    process drew. A run of fewer than some 63,000 transactions may still miss a least share by these
    dozens.
``decks``
    Each terminal draws the 23 cards of its own deck in random order, then shuffles the deck again.
    The shares of the cards are far enough above the least shares for any number of transactions;
    they give 12.61.

(These numbers hold for the least think times, and for answers and screens that take no time.)
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from benchlab.workloads.tpcc.dataset import TYPES

WAYS = ("weights", "decks")

#: Percentage of each type that the weights aim at. The least is 43 for Payments, and 4 for each of the
#: last three types.
AIMS = {
    "new_order": 44.6,
    "payment": 43.1,
    "order_status": 4.1,
    "delivery": 4.1,
    "stock_level": 4.1,
}

#: Share by which the weights of all types but New-Order are adjusted, up or down. New-Order has the
#: rest, so its weight changes by the sum of theirs: 0.04 · 55.4 = 2.22 points, less than 5 % of 44.6.
ADJUSTMENT = 0.04

#: Cards of each type in a deck.
CARDS = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}

#: Number and aimed share of each type except New-Order, which has the rest.
_AIMED = tuple((TYPES.index(name), aim / 100) for name, aim in AIMS.items() if name != TYPES[0])

_DECK = bytes(TYPES.index(name) for name, count in CARDS.items() for _ in range(count))


class Mix(Protocol):
    """Draws types of transactions."""

    def draw(self, random: Random) -> int:
        """Return the index of a type in :data:`TYPES`."""


class Weights:
    """Draws by adjusted weights; all terminals of a process share one object."""

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
    """Draws from a deck; each terminal has its own."""

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
    """Return a function that gives each terminal of a process its mix, by one of :data:`WAYS`."""
    if way == "decks":
        return Deck
    shared = Weights()
    return lambda: shared
