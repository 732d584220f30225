"""Steady state and change points, on series of which the levels are known."""

import math

import numpy as np
import pytest
from benchlab import stats
from hypothesis import given
from hypothesis import strategies as st

SERIES = 200


def independent(random: np.random.Generator, n: int) -> np.ndarray:
    return random.normal(100, 5, n)


def lingering(random: np.random.Generator, n: int) -> np.ndarray:
    """Each second depends on the one before: autoregression with ρ = 0.6."""
    values = [0.0]
    for noise in random.normal(0, 4, n + 20):
        values.append(0.6 * values[-1] + noise)
    return 100 + np.array(values[-n:])


def bursty(random: np.random.Generator, n: int) -> np.ndarray:
    """High for some seconds, then nearly nothing, as on a throttled disk."""
    values: list[float] = []
    while len(values) < n:
        values += [*random.normal(200, 20, random.integers(1, 5))]
        values += [*random.normal(30, 6, random.integers(1, 4))]
    return np.array(values[:n])


def stalling(random: np.random.Generator, n: int) -> np.ndarray:
    """Every tenth second a checkpoint leaves a third of the throughput."""
    values = random.normal(100, 5, n)
    values[random.integers(10) :: 10] *= 0.3
    return values


def many(kind, n: int):
    return [kind(np.random.default_rng(seed), n) for seed in range(SERIES)]


def up_to(share: float) -> float:
    """What a share may come out as, over that many series."""
    return share + 3 * math.sqrt(share * (1 - share) / SERIES)


@pytest.mark.parametrize(
    ("kind", "lengths", "share"),
    [
        (independent, (6, 8, 10, 12, 20, 60, 300), 0.05),
        (lingering, (12, 20, 60, 300), 0.17),
        (bursty, (12, 20, 60, 300), 0.05),
        (stalling, (12, 20, 60, 300), 0.05),
        # so few values cannot show that they depend on each other
        (lingering, (6, 8, 10), 0.28),
        (bursty, (6, 8, 10), 0.28),
        (stalling, (6, 8, 10), 0.28),
    ],
)
def test_a_series_of_one_level_is_said_to_change_as_rarely_as_is_documented(kind, lengths, share):
    for n in lengths:
        series = many(kind, n)
        assert np.mean([bool(stats.change_points(one)) for one in series]) <= up_to(share)
        assert np.mean([stats.steady_from(one) != 0 for one in series]) <= up_to(share)


@pytest.mark.parametrize("kind", [independent, lingering])
@pytest.mark.parametrize(("n", "at"), [(20, 10), (60, 10), (60, 45), (600, 30)])
def test_a_change_to_half_is_found_where_it_is(kind, n, at):
    near = []
    for series in many(kind, n):
        series[at:] /= 2
        near.append(any(abs(one - at) <= 3 for one in stats.change_points(series)))
    assert np.mean(near) > 0.8


@pytest.mark.parametrize("n", [60, 300])
@pytest.mark.parametrize("kind", [independent, lingering, stalling])
def test_warm_up_is_cut_and_little_more(kind, n):
    cuts = []
    for series in many(kind, n):
        series[:12] *= 0.5
        cuts.append(stats.steady_from(series))
    assert np.mean([cut is not None and abs(cut - 12) <= 3 for cut in cuts]) > 0.8


@pytest.mark.parametrize("kind", [independent, lingering, stalling])
def test_a_late_change_leaves_no_steady_state(kind):
    found = []
    for series in many(kind, 60):
        series[45:] /= 4
        found.append(stats.steady_from(series))
    assert np.mean([one is None for one in found]) > 0.9


@pytest.mark.parametrize("kind", [independent, lingering])
def test_what_goes_on_rising_never_settles(kind):
    found = [stats.steady_from(series * np.linspace(1, 3, 120)) for series in many(kind, 120)]
    assert np.mean([one is None for one in found]) > 0.9


def test_the_shortest_series_shows_a_change_in_its_middle():
    assert stats.change_points([1.0, 1.1, 1.2, 5.0, 5.1, 5.2]) == [3]
    assert stats.steady_from([1.0, 1.1, 1.2, 5.0, 5.1, 5.2]) == 3
    assert stats.change_points([1.0, 1.1, 5.0, 5.1, 5.2]) == []


def test_one_outlier_is_no_change():
    series = independent(np.random.default_rng(0), 60)
    series[30] = 0
    assert stats.change_points(series) == []


def test_a_change_that_does_not_matter_leaves_the_run_steady():
    series = 100 + np.arange(40) % 3 * 0.1
    series[:20] *= 0.97
    assert stats.change_points(series) == [20]
    assert stats.steady_from(series) == 0
    assert stats.steady_from(series, tolerance=0.01) == 20


def test_a_run_that_comes_back_to_its_level_is_steady_only_after():
    series = independent(np.random.default_rng(0), 100)
    series[20:40] *= 0.5
    assert stats.steady_from(series) == 40


@pytest.mark.parametrize("level", [0.0, 0.1, 7.5])
def test_a_series_that_stands_still_is_steady(level):
    assert stats.change_points([level] * 30) == []
    assert stats.steady_from([level] * 30) == 0


def test_a_run_that_died_is_not_as_before():
    series = [*independent(np.random.default_rng(0), 20), *[0.0] * 40]
    assert stats.steady_from(series) == 20


@given(st.lists(st.floats(0, 1e5), min_size=6, max_size=80), st.floats(1e-2, 1e2))
def test_changes_are_apart_and_know_no_unit(series, scale):
    found = stats.change_points(series)
    edges = [0, *found, len(series)]
    assert edges == sorted(set(edges))
    assert min(np.diff(edges)) >= min(5, len(series) // 2)
    start = stats.steady_from(series)
    assert start is None or (start in edges and start <= len(series) / 2)
    if len(set(series)) == len({scale * value for value in series}):  # no two become one
        assert stats.change_points([scale * value for value in series]) == found


@pytest.mark.parametrize("n", [0, 1, 5])
def test_of_too_few_seconds_nothing_is_said(n):
    assert stats.change_points([1.0] * n) == []
    with pytest.raises(ValueError):
        stats.steady_from([1.0] * n)
