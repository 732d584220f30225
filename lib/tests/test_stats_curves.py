"""Peaks of curves whose peak is known."""

import numpy as np
import pytest
from benchlab import stats
from benchlab.stats import Answer, Estimate, Position
from hypothesis import given
from hypothesis import strategies as st
from test_stats import SIMULATIONS, STANDARD_ERROR, coverage
from test_stats_decisions import CONCURRENCIES, simulated

curves = st.dictionaries(
    st.integers(1, 1024),
    st.lists(st.floats(1, 1e6), min_size=1, max_size=4),
    min_size=1,
    max_size=6,
)

CLEAR = [1, 3, 9, 6, 2]
ROUND = [1, 5, 6, 5.9, 5]
FLAT = [1] * 5

OFTEN_ENOUGH = 0.95 - 3 * STANDARD_ERROR


def covered(position, truth: int, levels, **options) -> float:
    """Share of simulated curves for which the true place is among the possible ones."""
    inside = [
        truth in position(simulated(levels, seed, **options)).possible
        for seed in range(SIMULATIONS)
    ]
    return float(np.mean(inside))


@pytest.mark.parametrize("trials", [2, 3, 5])
@pytest.mark.parametrize(("levels", "truth"), [(CLEAR, 16), (ROUND, 16), (FLAT, 256)])
def test_the_true_peak_is_possible_as_often_as_is_said(levels, truth, trials):
    assert covered(stats.peak, truth, levels, trials=trials) >= OFTEN_ENOUGH


def test_many_trials_make_up_for_closeness():
    assert covered(stats.peak, 16, [1, 5, 6.5, 5.5, 5], trials=8) >= OFTEN_ENOUGH
    few = np.mean([len(stats.peak(simulated(ROUND, seed)).possible) for seed in range(50)])
    many = np.mean(
        [len(stats.peak(simulated(ROUND, seed, trials=15)).possible) for seed in range(50)]
    )
    assert many < few


def test_what_is_clear_is_found_with_three_trials():
    peaks = [stats.peak(simulated(CLEAR, seed, spread=0.02)) for seed in range(SIMULATIONS)]
    assert np.mean([one == Position(16, (16,)) for one in peaks]) > 0.9


def test_of_a_plateau_any_place_may_be_the_peak():
    for one in CONCURRENCIES:
        assert covered(stats.peak, one, FLAT) >= OFTEN_ENOUGH


@given(curves, st.randoms(use_true_random=False), st.floats(1e-2, 1e2))
def test_a_place_knows_neither_order_nor_unit(curve, random, scale):
    shuffled = {
        one: random.sample(curve[one], len(curve[one]))
        for one in random.sample(sorted(curve), len(curve))
    }
    found = stats.peak(curve)
    assert found.value in found.possible
    assert list(found.possible) == sorted(found.possible)
    assert set(found.possible) <= curve.keys()
    assert stats.peak(shuffled) == found
    doubled = {one: [2 * value for value in values] for one, values in curve.items()}
    assert stats.peak(doubled).value == found.value
    highest = stats.peak_height(curve)
    assert highest.value == max(np.median(values) for values in curve.values())
    if highest.low is not None:
        assert highest.low <= highest.value * (1 + 1e-9)
        assert highest.value <= highest.high * (1 + 1e-9)
    scaled = {one: [scale * value for value in values] for one, values in curve.items()}
    assert stats.peak_ratio(scaled, curve).value == pytest.approx(scale)


def test_one_trial_each_excludes_no_place_and_no_height():
    curve = {1: [1.0], 4: [5.0], 16: [3.0]}
    assert stats.peak(curve) == Position(4, (1, 4, 16))
    assert stats.peak_height(curve) == stats.Estimate(5.0, None, None, 1)
    assert stats.peak_ratio(curve, curve) == stats.Estimate(1.0, None, None, 1)


def test_the_ratio_to_a_peak_that_may_be_anything_has_no_upper_bound():
    unsure = {1: [1.0, 1e9]}
    found = stats.peak_ratio({1: [100.0, 101.0]}, unsure, confidence=0.999)
    assert (found.low, found.high) == (0, np.inf)


def test_a_curve_of_one_concurrency_has_its_peak_there():
    assert stats.peak({8: [1.0, 2.0]}) == Position(8, (8,))


def test_a_place_between_bounds():
    place = Position(16, (16, 64))
    assert place.between(16, 64) == Answer.HOLDS
    assert place.between(32, 256) == Answer.OPEN
    assert place.between(1, 4) == Answer.FAILS


@pytest.mark.parametrize("trials", [2, 3, 8])
@pytest.mark.parametrize("levels", [CLEAR, ROUND, FLAT])
def test_the_height_of_the_peak_is_covered_as_often_as_is_said(levels, trials):
    found = coverage(
        lambda random: stats.peak_height(
            {
                one: level * random.lognormal(0, 0.1, trials)
                for one, level in zip(CONCURRENCIES, levels, strict=True)
            }
        ),
        max(levels),
    )
    assert found >= OFTEN_ENOUGH


def test_the_ratio_of_peaks_is_covered_though_they_are_at_different_places():
    def heights(random, trials=3):
        first, second = (
            {
                one: level * random.lognormal(0, 0.1, trials)
                for one, level in zip(CONCURRENCIES, levels, strict=True)
            }
            for levels in ([1, 8, 2, 1, 1], [1, 2, 4, 3, 1])
        )
        return stats.peak_ratio(first, second)

    assert coverage(heights, 2) >= OFTEN_ENOUGH
    assert coverage(lambda random: heights(random, trials=8), 1) == 0


@pytest.mark.parametrize(
    "senseless",
    [
        lambda: stats.peak({}),
        lambda: stats.peak({1: [0.0], 2: [1.0]}),
        lambda: stats.peak_height({1: []}),
        lambda: stats.peak_height({}),
        lambda: stats.peak_ratio({1: [1.0]}, {1: [0.0]}),
    ],
)
def test_no_place_is_made_up_of_nothing(senseless):
    with pytest.raises(ValueError):
        senseless()


@pytest.mark.parametrize("trials", [3, 5])
@pytest.mark.parametrize(("levels", "truth"), [(CLEAR, 9), (ROUND, 6), (FLAT, 1)])
def test_the_greatest_ratio_is_covered_as_often_as_is_said(levels, truth, trials):
    def interval(seed: int) -> Estimate:
        above = simulated(levels, seed, trials=trials)
        return stats.greatest_ratio(above, simulated(FLAT, seed + 10_000, trials=trials))[1]

    inside = [not interval(seed).excludes(truth) for seed in range(SIMULATIONS)]
    assert np.mean(inside) >= OFTEN_ENOUGH


def test_the_greatest_ratio_is_where_it_is():
    above, below = {1: [2.0], 4: [9.0], 16: [5.0]}, {4: [3.0], 16: [1.0], 64: [1.0]}
    assert stats.greatest_ratio(above, below) == (16, Estimate(5.0, None, None, 1))
    with pytest.raises(ValueError, match="no concurrency in common"):
        stats.greatest_ratio({1: [1.0]}, {2: [1.0]})
