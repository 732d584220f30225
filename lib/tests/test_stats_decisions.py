"""Decisions about ratios, on curves whose order is known."""

import numpy as np
import pytest
from benchlab import stats
from benchlab.stats import Answer, Estimate
from hypothesis import assume, given
from hypothesis import strategies as st
from test_stats import SIMULATIONS, STANDARD_ERROR

CONCURRENCIES = (1, 4, 16, 64, 256)

positive = st.floats(0.01, 100)


def simulated(levels, seed: int, spread: float = 0.05, trials: int = 3) -> dict[int, np.ndarray]:
    """A curve of which the true medians are ``levels``."""
    random = np.random.default_rng(seed)
    return {
        one: level * random.lognormal(0, spread, trials)
        for one, level in zip(CONCURRENCIES, levels, strict=False)
    }


def shares(decide) -> dict[Answer, float]:
    """How often each answer is given, over simulations."""
    answers = [decide(seed) for seed in range(SIMULATIONS)]
    return {answer: answers.count(answer) / SIMULATIONS for answer in Answer}


AT_MOST_ONE_IN_TWENTY = 0.05 + 3 * STANDARD_ERROR


@given(positive, positive, positive, st.floats(1, 10))
def test_equivalence_is_where_the_interval_lies(a, b, value, tolerance):
    low, high = sorted((a, b))
    found = stats.equivalent(Estimate((low + high) / 2, low, high, 3), value, tolerance)
    agreed = [value / tolerance <= x <= value * tolerance for x in (low, high)]
    covered = low < value / tolerance and value * tolerance < high
    if all(agreed):
        assert found == Answer.HOLDS
    elif any(agreed) or covered:
        assert found == Answer.OPEN
    else:
        assert found == Answer.FAILS
    wider = stats.equivalent(Estimate(value, low / 2, high * 2, 3), value, tolerance)
    assert wider in (found, Answer.OPEN)


def test_equal_trials_are_exact_only_if_they_cannot_differ():
    equal = [2.0, 2.0]
    assert not stats.ratio(equal, equal).is_exact
    measured = stats.Sample(equal, None, is_exact=True)
    assert stats.ratio(measured, measured).is_exact
    assert not stats.ratio(measured, equal).is_exact


def test_equal_trials_that_could_differ_have_no_interval():
    equal, other = [2.0, 2.0], [1.0, 1.1]
    for found in (
        stats.median(equal),
        stats.ratio(equal, other),
        stats.mean_ratio([other], [equal]),
    ):
        assert (found.low, found.high) == (None, None)
    known = stats.Sample(equal, stats.Spread(0.01, 2))
    assert stats.median(known).low < 2 < stats.median(known).high
    exact = stats.Sample(equal, None, is_exact=True)
    assert stats.ratio(other, exact).low == pytest.approx(stats.median(other).low / 2)


def test_what_holds_everywhere_is_by_chance_if_it_is_anywhere():
    exact, chance = Estimate(2, 2, 2, 2, is_exact=True), Estimate(3, 2.5, 3.5, 2)
    numbers = {1: exact, 4: chance, 16: exact}
    decision = stats.everywhere(
        numbers, lambda at, _: numbers[at], lambda one: stats.exceeds(one, 1)
    )
    assert (decision.answer, decision.at, decision.unsure) == (Answer.HOLDS, 4, {})


@given(positive, st.floats(1, 10), st.floats(1, 10), st.floats(0.01, 100))
def test_numbers_are_compatible_if_the_interval_of_their_ratio_contains_1(value, below, above, by):
    one = Estimate(value, value / below, value * above, 3)
    other = Estimate(value * by, value * by / below, value * by * above, 3)
    # both have the same interval as a factor, whose sides face each other
    reach = np.hypot(np.log(above), np.log(below))
    assume(abs(abs(np.log(by)) - reach) > 1e-6)
    expected = abs(np.log(by)) < reach
    assert stats.compatible(one, other) == stats.compatible(other, one) == expected


@pytest.mark.parametrize(("low", "high"), [(None, None), (0, 3), (0.5, np.inf)])
def test_a_number_without_a_bound_contradicts_nothing(low, high):
    open_ended = Estimate(1, low, high, 2)
    # a bound counts on the side of the other number only
    other = Estimate(0.1, 0.09, 0.11, 3) if low == 0 else Estimate(9, 8, 10, 3)
    assert stats.compatible(open_ended, other)


def test_independent_estimates_of_one_number_are_compatible():
    random = np.random.default_rng(5)

    def estimate() -> Estimate:
        return stats.median(random.lognormal(0, 0.1, 4))

    found = [stats.compatible(estimate(), estimate()) for _ in range(SIMULATIONS)]
    assert np.mean(found) > 0.95 - 4 * STANDARD_ERROR


def test_every_open_place_is_named():
    wide = Estimate(2, 0.5, 8, 2)
    numbers = {1: wide, 4: Estimate(3, 2.5, 3.5, 2), 16: wide}
    decision = stats.everywhere(
        numbers, lambda at, _: numbers[at], lambda one: stats.exceeds(one, 1)
    )
    assert (decision.answer, decision.at, list(decision.unsure)) == (Answer.OPEN, 1, [1, 16])


def test_without_an_interval_nothing_is_equivalent_or_otherwise():
    assert stats.equivalent(stats.ratio([2.0], [1.0]), 2, 1.1) == Answer.OPEN
    assert stats.equivalent(stats.ratio([2.0], [1.0]), 9, 1.1) == Answer.OPEN


@pytest.mark.parametrize(("value", "tolerance"), [(0, 1.1), (-1, 1.1), (2, 0.9)])
def test_equivalence_to_nothing_is_an_error(value, tolerance):
    with pytest.raises(ValueError):
        stats.equivalent(Estimate(1, 0.9, 1.1, 3), value, tolerance)


def above(first, second, **said):
    """Answer to "above everywhere" for simulated curves of these levels."""
    return shares(
        lambda seed: (
            stats.above_everywhere(
                simulated(first, 2 * seed), simulated(second, 2 * seed + 1), **said
            ).answer
        )
    )


def test_a_curve_well_above_is_above_everywhere():
    assert above([2] * 5, [1] * 5)[Answer.HOLDS] > 0.9
    assert above([1] * 5, [2] * 5)[Answer.FAILS] > 0.9


def test_one_concurrency_at_which_it_is_below_is_found():
    found = above([2, 2, 2, 2, 0.5], [1] * 5)
    assert found[Answer.FAILS] > 0.7
    assert found[Answer.HOLDS] == 0


def test_it_rarely_holds_where_one_concurrency_is_equal():
    assert above([2, 2, 2, 2, 1], [1] * 5)[Answer.HOLDS] <= AT_MOST_ONE_IN_TWENTY


def test_among_equal_curves_chance_rarely_decides():
    """Five chances to be below: without a correction some would be, in about one case of ten."""
    found = above([1] * 5, [1] * 5)
    assert found[Answer.HOLDS] <= 0.01
    assert found[Answer.FAILS] <= AT_MOST_ONE_IN_TWENTY


def test_above_by_a_factor_is_judged_by_that_factor():
    assert above([3] * 5, [1] * 5, least=2)[Answer.HOLDS] > 0.8
    assert above([1.3] * 5, [1] * 5, least=2)[Answer.FAILS] > 0.8


def test_a_decision_shows_what_it_hangs_on():
    one, clear, slight, wild = [10.0, 10.1, 10.2], [20, 20.1, 20.2], [11, 11.1, 11.2], [9, 20, 40]
    below = dict.fromkeys((1, 2, 3), one)

    def decided(*curves):
        return stats.above_everywhere(dict(zip((1, 2, 3), curves, strict=True)), below)

    found = decided(clear, slight, clear)
    assert (found.answer, found.at) == (Answer.HOLDS, 2)
    assert found.number == stats.ratio(slight, one)
    found = decided(clear, slight, wild)
    assert (found.answer, found.at) == (Answer.OPEN, 3)
    found = decided(clear, [5, 5.1, 5.2], wild)
    assert (found.answer, found.at) == (Answer.FAILS, 2)
    assert found.number.excludes(1)
    # a single trial is no evidence, and that is then what is missing
    found = decided(clear, slight, [50.0])
    assert (found.answer, found.at) == (Answer.OPEN, 3)


def test_only_shared_concurrencies_are_compared():
    high, low = [20.0, 20.1, 20.2], [10.0, 10.1, 10.2]
    assert stats.above_everywhere({1: high, 2: low}, {1: low, 3: high}).at == 1
    with pytest.raises(ValueError):
        stats.above_everywhere({1: high}, {2: low})


@given(positive, positive, positive)
def test_exceeding_is_where_the_interval_lies(a, b, least):
    low, high = sorted((a, b))
    middle = (low + high) / 2
    found = stats.exceeds(Estimate(middle, low, high, 3), least)
    if low > least:
        assert found is Answer.HOLDS
    elif high < least:
        assert found is Answer.FAILS
    else:
        assert found is Answer.OPEN
    assert stats.exceeds(Estimate(middle, None, None, 1), least) is Answer.OPEN


def test_a_mean_ratio_is_that_of_the_curves_and_covers_as_often_as_it_says():
    truths = np.array([0.5, 1.0, 4.0])

    def found(seed: int) -> Estimate:
        above, below = simulated(truths, seed, 0.2), simulated([1.0, 1.0, 1.0], seed + 10_000, 0.2)
        return stats.mean_ratio(above.values(), below.values())

    truth = float(np.exp(np.log(truths).mean()))
    estimates = [found(seed) for seed in range(SIMULATIONS)]
    assert np.median([one.value for one in estimates]) == pytest.approx(truth, rel=0.05)
    assert np.mean([one.excludes(truth) for one in estimates]) <= AT_MOST_ONE_IN_TWENTY
    assert stats.mean_ratio([[6.0]], [[2.0]]) == Estimate(pytest.approx(3.0), None, None, 1)


@pytest.mark.parametrize("decided", ["HOLDS", "FAILS"])
def test_what_holds_everywhere_is_decided_wrongly_as_rarely_as_is_said(decided):
    """At the bound itself each answer is an error."""
    level = {"HOLDS": [1.2, 1.0, 1.2], "FAILS": [1.0, 1.0, 1.0]}[decided]

    def decide(seed: int) -> Answer:
        curve = simulated(level, seed)
        return stats.everywhere(
            curve,
            lambda at, confidence: stats.median(curve[at], confidence),
            lambda number: stats.exceeds(number, 1),
        ).answer

    assert shares(decide)[Answer[decided]] <= AT_MOST_ONE_IN_TWENTY


def test_everywhere_names_the_place_that_decides():
    curve = {1: [10.0, 10.1, 9.9], 4: [5.0, 5.1, 4.9], 16: [1.0, 3.0, 9.0]}

    def above(least: float, *places: int) -> stats.Decision:
        return stats.everywhere(
            places,
            lambda at, confidence: stats.median(curve[at], confidence),
            lambda number: stats.exceeds(number, least),
        )

    assert (above(4, 1, 4).answer, above(4, 1, 4).at) == (Answer.HOLDS, 1)
    assert (above(8, 1, 16, 4).answer, above(8, 1, 16, 4).at) == (Answer.FAILS, 4)
    assert (above(4, 1, 16, 4).answer, above(4, 1, 16, 4).at) == (Answer.OPEN, 16)
