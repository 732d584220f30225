"""Noise floor and numbers of trials, held to what simulated trials then show."""

from math import inf

import numpy as np
import pytest
from benchlab import stats
from benchlab.stats import Sample
from hypothesis import given
from hypothesis import strategies as st
from test_stats import SIMULATIONS, about

variations = st.floats(0.005, 0.3)
effects = st.floats(1.01, 3)


def lognormal(random: np.random.Generator, variation: float, n: int) -> np.ndarray:
    """Values with that coefficient of variation."""
    return random.lognormal(0, np.sqrt(np.log1p(variation**2)), n)


@pytest.mark.parametrize("pairs", [1, 3, 10, 40])
def test_the_next_pair_lies_within_the_noise_floor_in_95_of_100_cases(pairs):
    inside = []
    for seed in range(SIMULATIONS):
        *known, (one, other) = np.random.default_rng(seed).lognormal(0, 0.1, (pairs + 1, 2))
        floor = stats.noise_floor(known).value
        inside.append(1 / floor <= one / other <= floor)
    assert np.mean(inside) == about(0.95)


@pytest.mark.parametrize("pairs", [3, 10, 40])
def test_the_true_noise_floor_is_covered_as_often_as_is_said(pairs):
    truth = np.exp(1.96 * 0.1 * np.sqrt(2))
    inside = [
        not stats.noise_floor(np.random.default_rng(seed).lognormal(0, 0.1, (pairs, 2))).excludes(
            truth
        )
        for seed in range(SIMULATIONS)
    ]
    assert np.mean(inside) == about(0.95)


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=2, max_size=20))
def test_a_noise_floor_knows_no_first_and_second(pairs):
    found = stats.noise_floor(pairs)
    assert found.value >= 1
    assert found.low <= found.value <= found.high
    turned = stats.noise_floor([(other, one) for one, other in pairs])
    assert turned.value == pytest.approx(found.value)


def test_one_pair_has_a_floor_but_no_interval():
    found = stats.noise_floor([(100.0, 101.0)])
    assert found.value > 1.1
    assert (found.low, found.high, found.n) == (None, None, 1)


@pytest.mark.parametrize(
    ("ratio", "variation"),
    [(1.5, 0.05), (1.5, 0.2), (1.1, 0.02), (1.1, 0.05), (1.05, 0.02), (1.05, 0.05), (1.03, 0.02)],
)
def test_so_many_trials_show_the_ratio_in_80_of_100_cases(ratio, variation):
    """At least: whole trials are more than what is needed where they are few."""
    n = stats.trials_needed(ratio, variation)
    assert power(ratio, variation, n) > 0.72
    if n > 2:
        assert power(ratio, variation, n // 2) < 0.8


def power(ratio: float, variation: float, n: int) -> float:
    """How often simulated trials show that ratio."""
    seen = []
    for seed in range(SIMULATIONS):
        random = np.random.default_rng(seed)
        one, other = ratio * lognormal(random, variation, n), lognormal(random, variation, n)
        seen.append(stats.ratio(one, other).excludes(1))
    return float(np.mean(seen))


@given(effects, variations)
def test_less_effect_more_spread_and_more_confidence_take_more_trials(ratio, variation):
    n = stats.trials_needed(ratio, variation)
    assert n >= 2
    assert stats.trials_needed(1 / ratio, variation) in (n - 1, n, n + 1)  # rounding
    assert stats.trials_needed(1 + (ratio - 1) / 2, variation) >= n
    assert stats.trials_needed(ratio, 2 * variation) >= n
    assert stats.trials_needed(ratio, 0) == 2


def test_more_trials_than_anyone_has_are_still_a_number():
    assert 1e8 < stats.trials_needed(1 + 1e-6, 0.01) < 1e10
    # where the normal distribution takes over, nothing jumps
    assert stats.trials_needed(1.001, 0.0113) < stats.trials_needed(1.001, 0.0115)


@pytest.mark.parametrize(("ratio", "variation"), [(1, 0.1), (0, 0.1), (-2, 0.1), (1.1, -0.1)])
def test_no_number_of_trials_shows_nothing(ratio, variation):
    with pytest.raises(ValueError):
        stats.trials_needed(ratio, variation)


def test_what_would_do_for_an_inconclusive_ratio():
    above, below = [100.0, 110.0, 120.0], [95.0, 105.0, 112.0]
    assert not stats.ratio(above, below).excludes(1)
    n = stats.trials_to_tell(above, below)
    assert n > 3
    ratio = stats.ratio(above, below).value
    variation = np.mean([np.std(side, ddof=1) / np.mean(side) for side in (above, below)])
    assert n == pytest.approx(stats.trials_needed(ratio, variation), rel=0.1)
    # the nearest of several bounds decides
    assert stats.trials_to_tell(above, below, (1, 3)) == n
    assert stats.trials_to_tell(above, below, (ratio * 1.01, 1)) > n
    # so do more intervals at once
    few, many = (stats.trials_to_tell(above, below, confidence=one) for one in (0.99, 0.999))
    assert few < many


@pytest.mark.parametrize("freedom", [1.0, 2.0])
def test_what_other_points_tell_of_the_spread_makes_fewer_trials_do(freedom):
    """As many as are planned tell the ratio in 80 % of cases, by the interval that uses the prior."""
    deviation, ratio = 0.05, 1.15
    prior = stats.Spread(deviation**2, freedom)
    above, below = (
        [side * exp for exp in np.exp([-deviation, 0.0, deviation])] for side in (ratio, 1)
    )
    alone = stats.trials_to_tell(above, below)
    n = stats.trials_to_tell(Sample(above, prior), Sample(below, prior))
    assert n <= alone
    random = np.random.default_rng(1)
    seen = 0
    for _ in range(400):
        sides = [
            Sample(side * np.exp(random.normal(0, deviation, n)), prior) for side in (ratio, 1)
        ]
        seen += stats.ratio(*sides).excludes(1)
    assert seen / 400 == pytest.approx(0.85, abs=0.1)


def test_where_nothing_can_be_planned_no_number_is_given():
    assert stats.trials_to_tell([0.0], [2.0, 2.1]) is None
    assert stats.trials_to_tell([0.0, 1.0], [2.0, 2.1]) is None
    assert stats.trials_to_tell([1.0, 2.0], [1.0, 2.0]) is None
    # medians that differ by rounding
    assert stats.trials_to_tell([2.1, 2.2], [2.0, 2.3]) is None
    assert stats.trials_to_narrow(stats.Estimate(1 + 1e-9, 0.9, 1.1, 3), [1]) is None


def test_a_single_trial_needs_a_second_one():
    assert stats.trials_to_tell([1.0], [2.0, 2.1]) == 2
    assert stats.trials_to_narrow(stats.Estimate(1.1, None, None, 1), [1.2]) == 2


def test_an_interval_without_an_end_plans_nothing():
    """Two trials that are far apart allow any ratio."""
    number = stats.ratio([1.0, 1e9], [1.0, 1e-9], confidence=1 - 1e-6)
    assert (number.low, number.high) == (0, inf)
    assert stats.trials_to_narrow(number, (2.0,)) is None
    assert stats.trials_to_narrow(stats.Estimate(3.0, 1e-300, 1e300, 2), (2.0,)) is None


@pytest.mark.parametrize("pairs", [[], [(0.0, 1.0)], [(1.0, -1.0), (1.0, 1.0)]])
def test_no_noise_floor_of_nothing(pairs):
    with pytest.raises(ValueError):
        stats.noise_floor(pairs)


@given(variations)
def test_the_variation_of_pairs_is_that_of_their_runs(variation):
    pairs = lognormal(np.random.default_rng(1), variation, 4000).reshape(-1, 2)
    assert stats.variation(pairs) == pytest.approx(variation, rel=0.1)


def test_there_is_no_variation_of_no_pairs():
    for pairs in ([], [(1.0, 0.0)]):
        with pytest.raises(ValueError, match="variation of no pairs"):
            stats.variation(pairs)
