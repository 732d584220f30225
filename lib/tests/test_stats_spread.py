"""What the points of a rerun have in common in their spread, against simulated reruns."""

import math

import numpy as np
import pytest
from benchlab import stats
from benchlab.stats import Sample, Spread
from benchlab.stats.spread import spread
from hypothesis import given
from hypothesis import strategies as st

POINTS, TRIALS = 60, 3
SIMULATIONS = 60


def rerun(seed: int, freedom: float, deviation: float = 0.1) -> list[np.ndarray]:
    """Trials of many points, whose variances are drawn as the method supposes: scaled inverse χ²."""
    random = np.random.default_rng(seed)
    alike = math.isinf(freedom)
    variances = [
        deviation**2 * (1 if alike else freedom / random.chisquare(freedom)) for _ in range(POINTS)
    ]
    return [random.lognormal(0, math.sqrt(variance), TRIALS) for variance in variances]


def in_common(points: list) -> Spread | None:
    """What the points of a single engine have in common."""
    return stats.common_spreads({"one": points})["one"]


@pytest.mark.parametrize("freedom", [1, 4, math.inf])
def test_intervals_cover_as_often_as_is_said_however_alike_the_points_are(freedom):
    inside, narrower = [], []
    for seed in range(SIMULATIONS):
        points = rerun(seed, freedom)
        prior = in_common(points)
        for one, other in zip(points[::2], points[1::2], strict=True):
            moderated = stats.ratio(Sample(one, prior), Sample(other, prior))
            plain = stats.ratio(one, other)
            inside.append(not moderated.excludes(1))
            narrower.append(
                math.log(moderated.high / moderated.low) / math.log(plain.high / plain.low)
            )
    assert np.mean(inside) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(inside))
    assert (np.median(narrower) < 1) == (freedom > 2)


def test_the_more_alike_the_points_are_the_more_they_show():
    found = [
        np.median(
            [stats.in_common(map(spread, rerun(seed, freedom))).freedom for seed in range(20)]
        )
        for freedom in (1, 4, 1e9)
    ]
    assert found == sorted(found)
    assert found[0] == pytest.approx(1, rel=0.5)
    assert found[1] == pytest.approx(4, rel=0.5)
    assert found[2] > 20


def test_points_that_are_alike_count_for_two_trials_and_others_for_none():
    """Some of them may be of another kind: see the bench."""
    assert in_common(rerun(0, math.inf)).freedom == 2
    assert in_common(rerun(0, 4)).freedom == 2
    assert in_common(rerun(0, 0.5)) is None


def test_how_noisy_is_learnt_of_each_engine_and_how_alike_of_all():
    quiet, loud = rerun(0, math.inf, 0.01), rerun(1, math.inf, 0.5)
    found = stats.common_spreads({"quiet": quiet, "loud": loud, "of two": loud[:2], "none": []})
    assert found["quiet"].variance == pytest.approx(in_common(quiet).variance, rel=0.15)
    assert found["loud"].variance == pytest.approx(in_common(loud).variance, rel=0.15)
    # what all have in common lies between
    assert found["of two"] == found["none"]
    assert found["quiet"].variance < found["none"].variance < found["loud"].variance
    # one unlike engine says that this machine's points are not to be trusted with each other's noise
    unlike = stats.common_spreads({"quiet": quiet, "unlike": rerun(2, 0.3)})
    assert unlike == {"quiet": None, "unlike": None}


def test_points_of_workloads_that_differ_in_noise_are_covered_too():
    """Seven idle ones and three saturated ones of each of two engines, with two trials."""
    inside = []
    for seed in range(SIMULATIONS):
        random = np.random.default_rng(seed)
        deviations = [0.003] * 7 + [0.3] * 3
        engines = {name: [random.lognormal(0, one, 2) for one in deviations] for name in "ab"}
        priors = stats.common_spreads(engines)
        ratios = [
            stats.ratio(*(Sample(of[at], priors[name]) for name, of in engines.items()))
            for at in range(7, 10)
        ]
        inside += [not one.excludes(1) for one in ratios]
    assert np.mean(inside) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(inside))


def test_points_noisier_than_the_others_are_covered_too():
    """A fifth of the points twice as noisy as the rest, in pairs with each other."""
    inside = []
    for seed in range(SIMULATIONS):
        random = np.random.default_rng(seed)
        points = [random.lognormal(0, 0.1, TRIALS) for _ in range(POINTS * 4 // 5)]
        noisy = [random.lognormal(0, 0.2, TRIALS) for _ in range(POINTS // 5)]
        prior = in_common([*points, *noisy])
        pairs = zip(noisy[::2], noisy[1::2], strict=True)
        inside += [not stats.ratio(*(Sample(x, prior) for x in pair)).excludes(1) for pair in pairs]
    assert np.mean(inside) > 0.9


def test_the_common_variance_is_found():
    found = [in_common(rerun(seed, math.inf, 0.2)).variance for seed in range(20)]
    assert math.sqrt(np.median(found)) == pytest.approx(0.2, rel=0.1)


@given(st.floats(1e-6, 1), st.floats(1e-6, 1), st.floats(0.1, 100))
def test_a_moderated_variance_lies_between_the_two(own, common, freedom):
    moderated = Spread(own, 2).drawn_to(Spread(common, freedom))
    assert min(own, common) * 0.999 <= moderated.variance <= max(own, common) * 1.001
    assert moderated.freedom == 2 + freedom


def test_what_nothing_is_known_of_stays_as_it_is():
    assert Spread(0.1, 2).drawn_to(None) == Spread(0.1, 2)
    assert spread([1.0, math.e]) == Spread(0.5, 1)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [[1.0, 2.0], [1.0, 3.0]],
        [[5.0, 5.0, 5.0]] * 9,
        [[1.0]] * 9,
        [[0.0, 1.0, 2.0]] * 9,
    ],
    ids=["none", "two", "all equal", "one trial each", "zeros"],
)
def test_too_few_points_tell_nothing(points):
    assert in_common(points) is None


@pytest.mark.parametrize("apart", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("trials", [2, 4])
def test_true_deviations_are_as_far_apart_as_those_that_trials_are_drawn_from(apart, trials):
    random = np.random.default_rng(1)
    true = 0.1 * np.exp(apart * random.normal(size=2000))
    points = [random.lognormal(0, one, trials) for one in true]
    found = np.log(stats.true_deviations(points))
    measured = np.log([np.log(one).std(ddof=1) for one in points])
    assert np.std(found) == pytest.approx(apart, abs=0.6 / trials)
    assert np.std(measured) > apart + (0.2 if apart < 1 else 0.05)
    assert np.mean(found) == pytest.approx(np.log(0.1), abs=0.1)
    # the noisier ones stay the noisier ones
    if apart:
        assert np.all(np.diff(found[np.argsort(measured)]) >= 0)


def test_points_without_a_deviation_of_their_own_have_that_of_the_others():
    two = [[1.0, 1.1], [2.0, 2.5]]
    *known, single, zero, equal = stats.true_deviations([*two, [3.0], [0.0, 1.0], [5.0, 5.0]])
    # two are too few to tell what is chance
    assert known == pytest.approx([np.log(one).std(ddof=1) for one in two])
    assert single == zero
    assert min(known) < single
    assert equal == 0
    assert stats.true_deviations([[1.0], [2.0]]) == [0, 0]
