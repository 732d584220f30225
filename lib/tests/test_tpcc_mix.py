"""Which transactions terminals do: shares by weights and by decks of cards (clause 5.2.4.2)."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from benchlab.drivers.tpcc import mix
from benchlab.drivers.tpcc.limits import KEYING, TERMINALS, THINK
from benchlab.workloads.tpcc.dataset import TYPES
from scipy import stats

#: The least shares (clause 5.2.3), in per cent; New-Order has the rest.
LEAST = {"payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}


class Fixed:
    """Draws one number again and again."""

    def __init__(self, value: float):
        self._value = value

    def random(self) -> float:
        return self._value


def drawn(one: mix.Mix, count: int, seed: int = 1) -> np.ndarray:
    random = Random(seed)
    return np.array([one.draw(random) for _ in range(count)])


def shares(numbers: np.ndarray) -> dict[str, float]:
    counts = np.bincount(numbers, minlength=len(TYPES))
    return dict(zip(TYPES, 100 * counts / counts.sum(), strict=True))


def per_minute_and_warehouse(parts: dict[str, float]) -> float:
    """New-Orders of the ten terminals if answers take no time."""
    whole = sum(parts.values())
    cycle_s = sum(parts[name] / whole * (KEYING[name] + THINK[name]) for name in TYPES)
    return TERMINALS * 60 / cycle_s * parts["new_order"] / whole


def test_the_most_new_orders_are_as_documented():
    least = {"new_order": 45, **LEAST}
    assert round(per_minute_and_warehouse(least), 2) == 12.86
    assert round(per_minute_and_warehouse(mix.AIMS), 2) == 12.80
    assert round(per_minute_and_warehouse(mix.CARDS), 2) == 12.61


def test_what_weights_aim_at_is_whole_and_more_than_the_least():
    assert sum(mix.AIMS.values()) == pytest.approx(100)
    assert all(mix.AIMS[name] > share for name, share in LEAST.items())


@pytest.mark.parametrize("seed", range(3))
def test_weights_keep_to_their_aims_over_any_interval(seed):
    numbers = drawn(mix.Weights(), 300_000, seed)
    for first in range(0, 300_000, 100_000):
        found = shares(numbers[first : first + 100_000])
        assert all(found[name] >= share for name, share in LEAST.items()), found
        assert all(abs(found[name] - aim) < 0.1 for name, aim in mix.AIMS.items()), found


def test_a_weight_is_adjusted_by_no_more_than_the_clause_allows():
    grid = (np.arange(100_000) + 0.5) / 100_000
    fresh = shares(np.array([mix.Weights().draw(Fixed(value)) for value in grid]))
    behind = []
    for value in grid[::20]:
        weights = mix.Weights()
        for _ in range(100):
            weights.draw(Fixed(0.9999))  # New-Orders alone: all others are behind
        behind.append(weights.draw(Fixed(value)))
    adjusted = shares(np.array(behind))
    for name in LEAST:
        assert fresh[name] == pytest.approx((1 - mix.ADJUSTMENT) * mix.AIMS[name], abs=0.02)
        assert adjusted[name] == pytest.approx((1 + mix.ADJUSTMENT) * mix.AIMS[name], abs=0.05)
    for name, aim in mix.AIMS.items():  # New-Order, too, whose weight is the rest
        assert abs(fresh[name] - aim) <= 0.05 * aim
        assert abs(adjusted[name] - aim) <= 0.05 * aim


def test_consecutive_types_by_weights_are_independent_but_for_the_adjustment():
    numbers = drawn(mix.Weights(), 50_000)
    pairs = np.zeros((len(TYPES), len(TYPES)))
    np.add.at(pairs, (numbers[0::2], numbers[1::2]), 1)
    assert stats.chi2_contingency(pairs).pvalue > 0.001


def test_each_deck_has_its_cards_in_an_order_of_its_own():
    cards = Counter({TYPES.index(name): count for name, count in mix.CARDS.items()})
    numbers = drawn(mix.Deck(), 23 * 50)
    decks = [tuple(numbers[first : first + 23]) for first in range(0, len(numbers), 23)]
    assert all(Counter(deck) == cards for deck in decks)
    assert len(set(decks)) == len(decks)


def test_each_card_is_as_likely_at_each_place():
    numbers = drawn(mix.Deck(), 23 * 4000).reshape(-1, 23)
    for number, name in enumerate(TYPES):
        found = (numbers == number).sum(axis=0)
        assert stats.chisquare(found).pvalue > 0.001, name


def test_terminals_share_weights_but_have_decks_of_their_own():
    weights, decks = mix.of_terminals("weights"), mix.of_terminals("decks")
    assert weights() is weights()
    assert decks() is not decks()
    assert mix.of_terminals("weights")() is not weights()
