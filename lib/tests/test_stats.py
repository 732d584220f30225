"""Statistics, against simulated data of which the truth is known.

Coverage is simulated over fixed seeds, so that a test gives the same answer every time.
"""

import math

import numpy as np
import pytest
from benchlab import stats
from hypothesis import example, given
from hypothesis import strategies as st

SIMULATIONS = 300

throughput = st.floats(1, 1e6)
samples = st.lists(throughput, min_size=2, max_size=12).filter(
    lambda values: min(values) < max(values)
)
scales = st.floats(1e-3, 1e3)


def coverage(estimate, truth: float) -> float:
    """Share of simulated estimates whose interval has the truth inside."""
    inside = [
        not estimate(np.random.default_rng(seed)).excludes(truth) for seed in range(SIMULATIONS)
    ]
    return float(np.mean(inside))


#: Of a share of 95 % out of that many simulations.
STANDARD_ERROR = math.sqrt(0.95 * 0.05 / SIMULATIONS)


def about(share: float):
    return pytest.approx(share, abs=3 * STANDARD_ERROR)


def skewed(random: np.random.Generator, n: int) -> np.ndarray:
    """Values with a median of 1 and a long tail, as throughput under a throttle has."""
    return random.lognormal(0, 0.3, n)


@pytest.mark.parametrize("n", [2, 3, 5, 7, 13, 25])
def test_the_interval_of_a_median_covers_as_often_as_is_said(n):
    assert coverage(lambda random: stats.median(skewed(random, n)), 1) == about(0.95)


@pytest.mark.parametrize("n", [2, 3, 5, 25])
@pytest.mark.parametrize("truth", [1.0, 3.5])
def test_the_interval_of_a_ratio_covers_as_often_as_is_said(n, truth):
    found = coverage(
        lambda random: stats.ratio(truth * skewed(random, n), skewed(random, n)), truth
    )
    assert found >= 0.95 - 3 * STANDARD_ERROR  # Welch's is a little wide where samples are tiny


@pytest.mark.parametrize("n", [2, 3, 8, 25])
def test_more_confidence_covers_more_often(n):
    found = coverage(
        lambda random: stats.ratio(skewed(random, n), skewed(random, n), confidence=0.99), 1
    )
    assert found >= 0.99 - 3 * math.sqrt(0.99 * 0.01 / SIMULATIONS)


def test_a_true_effect_is_seen():
    """A factor of 2 under a spread of 10 %, three trials a side: far more often than not."""

    def doubled(random: np.random.Generator) -> stats.Estimate:
        return stats.ratio(2 * random.lognormal(0, 0.1, 3), random.lognormal(0, 0.1, 3))

    assert coverage(doubled, 1) < 0.1


@given(samples, st.randoms(use_true_random=False), scales)
def test_a_median_knows_neither_order_nor_unit(values, random, scale):
    found = stats.median(values)
    assert found.n == len(values)
    assert found.low <= found.value <= found.high
    assert found.value == np.median(values)
    assert stats.median(random.sample(values, len(values))) == found
    scaled = stats.median([scale * value for value in values])
    assert (scaled.low, scaled.value, scaled.high) == pytest.approx(
        (scale * found.low, scale * found.value, scale * found.high)
    )


@given(samples, samples, st.randoms(use_true_random=False), scales)
def test_a_ratio_knows_neither_order_nor_unit(above, below, random, scale):
    found = stats.ratio(above, below)
    assert found.n == min(len(above), len(below))
    assert found.low <= found.value * (1 + 1e-9)
    assert found.value <= found.high * (1 + 1e-9)
    shuffled = [random.sample(values, len(values)) for values in (above, below)]
    assert stats.ratio(*shuffled) == found
    other_unit = stats.ratio([scale * x for x in above], [scale * x for x in below])
    assert (other_unit.low, other_unit.high) == pytest.approx((found.low, found.high))
    faster = stats.ratio([scale * x for x in above], below)
    assert faster.value == pytest.approx(scale * found.value)


def test_one_trial_has_no_interval_and_speaks_against_nothing():
    for found in (
        stats.median([5.0]),
        stats.ratio([5.0], [1.0, 2.0]),
        stats.ratio([5.0, 6.0], [1.0]),
    ):
        assert (found.low, found.high, found.n) == (None, None, 1)
        assert not found.excludes(1e9)
    assert stats.ratio([5.0], [2.0]).value == 2.5


def test_a_zero_has_no_logarithm_and_so_no_interval():
    assert stats.median([0.0, 5.0, 6.0]) == stats.Estimate(5.0, None, None, 3)
    assert stats.ratio([0.0, 5.0, 6.0], [1.0, 1.0]) == stats.Estimate(5.0, None, None, 2)


@pytest.mark.parametrize(
    "senseless",
    [
        lambda: stats.median([]),
        lambda: stats.ratio([], [1.0]),
        lambda: stats.ratio([1.0], []),
        lambda: stats.ratio([1.0], [0.0]),
        lambda: stats.drift([1.0]),
        lambda: stats.percentile_of_buckets([], [], 99),
        lambda: stats.percentile_of_buckets([1.0], [0], 99),
    ],
)
def test_nothing_is_made_up_of_nothing(senseless):
    with pytest.raises(ValueError):
        senseless()


@given(throughput, st.integers(2, 40), st.floats(-0.9, 3), scales)
def test_drift_is_the_change_from_half_to_half(level, seconds, change, scale):
    series = [level] * seconds + [level * (1 + change)] * seconds
    assert stats.drift(series) == pytest.approx(change, abs=1e-9)
    assert stats.drift([scale * value for value in series]) == pytest.approx(change, abs=1e-9)
    assert stats.drift([level] * seconds) == pytest.approx(0, abs=1e-9)
    # an odd second in the middle belongs to neither half
    odd = [*series[:seconds], 1e9, *series[seconds:]]
    assert stats.drift(odd) == pytest.approx(change, abs=1e-9)


def test_drift_of_a_run_that_stood_still():
    assert stats.drift([0, 0, 0, 0]) == 0
    assert stats.drift([0, 0, 5, 5]) == math.inf


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any), st.integers(1, 100))
@example([7, 93], 7)  # 7 / 100 * 100 > 7 in binary
def test_a_percentile_is_the_first_bucket_with_enough_events_up_to_it(counts, percentile):
    edges = [1.5 * number for number in range(len(counts))]
    found = stats.percentile_of_buckets(edges, counts, percentile)
    up_to = sum(count for edge, count in zip(edges, counts, strict=True) if edge <= found)
    before = sum(count for edge, count in zip(edges, counts, strict=True) if edge < found)
    assert up_to * 100 >= percentile * sum(counts) > before * 100
