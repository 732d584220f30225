"""Correlations of pairs whose correlation is known."""

import math

import numpy as np
import pytest
from benchlab import stats
from hypothesis import assume, given
from hypothesis import strategies as st
from test_stats import STANDARD_ERROR, about, coverage

pairs = st.lists(
    st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000)), min_size=4, max_size=30
)
both = pytest.mark.parametrize("correlation", [stats.pearson, stats.spearman])


def normal(random: np.random.Generator, truth: float, n: int) -> np.ndarray:
    return random.multivariate_normal([0, 0], [[1, truth], [truth, 1]], n).T


@pytest.mark.parametrize("n", [4, 6, 12, 30])
@pytest.mark.parametrize("truth", [0, 0.5, 0.9])
def test_the_interval_of_pearson_covers_as_often_as_is_said(n, truth):
    assert coverage(lambda random: stats.pearson(*normal(random, truth, n)), truth) == about(0.95)


@pytest.mark.parametrize("n", [4, 6, 12, 30])
@pytest.mark.parametrize("truth", [0, 0.5, 0.9])
def test_the_interval_of_spearman_covers_as_often_as_is_said(n, truth):
    ranks = 6 / math.pi * math.asin(truth / 2)  # of a normal distribution (Pearson 1907)
    found = coverage(lambda random: stats.spearman(*normal(random, truth, n)), ranks)
    assert found >= 0.95 - 4 * STANDARD_ERROR


@both
@given(values=pairs, scale=st.integers(1, 1000), shift=st.integers(-1000, 1000))
def test_a_correlation_knows_neither_order_nor_unit(correlation, values, scale, shift):
    first, second = zip(*values, strict=True)
    assume(len(set(first)) > 1 and len(set(second)) > 1)
    found = correlation(first, second)
    assert -1 - 1e-9 <= found.low <= found.value <= found.high <= 1 + 1e-9
    assert found.n == len(values)
    same = [
        correlation(second, first),
        correlation(first[::-1], second[::-1]),
        correlation([scale * one + shift for one in first], second),
    ]
    for other in same:
        assert other.value == pytest.approx(found.value, abs=1e-9)
        assert other.low == pytest.approx(found.low, abs=1e-6)
    turned = correlation([-one for one in first], second)
    assert turned.value == pytest.approx(-found.value, abs=1e-9)
    assert turned.high == pytest.approx(-found.low, abs=1e-6)


def test_ranks_see_what_a_line_does_not():
    first = [1, 2, 3, 4, 5, 6, 7]
    second = [one**6 for one in first]
    assert stats.spearman(first, second).value == pytest.approx(1)
    assert stats.pearson(first, second).value < 0.9


def test_a_perfect_order_of_few_pairs_proves_little():
    few, many = (stats.spearman(range(n), range(n)) for n in (4, 30))
    assert few.low < 0 < many.low < many.high == pytest.approx(1)


@both
def test_three_pairs_have_no_interval(correlation):
    found = correlation([1, 2, 3], [1, 2, 4])
    assert found.value > 0.9
    assert (found.low, found.high, found.n) == (None, None, 3)


@both
@pytest.mark.parametrize(
    ("first", "second"), [([1], [1]), ([1, 2], [1]), ([1, 1, 1, 1], [1, 2, 3, 4]), ([], [])]
)
def test_no_correlation_of_nothing(correlation, first, second):
    with pytest.raises(ValueError):
        correlation(first, second)
