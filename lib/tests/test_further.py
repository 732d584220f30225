"""Which points get further trials: those of claims that are open and that more trials would decide."""

import pytest
from benchlab import study
from benchlab.claims import further, judge
from benchlab.errors import StudyError
from benchlab.run import planning
from benchlab.run.planning import Selection
from benchlab.stats import Estimate, trials_to_narrow
from conftest import MEASURED_PROFILE, STUDY, edited_study, rerun, set_claims

ONE = {"engine": "postgres", "variant": "tuned", "workload": "oltp_write_only"}
OTHER = ONE | {"variant": "default"}
TUNED, DEFAULT = ((*one.values(), "main") for one in (ONE, OTHER))

#: Trials at 4 and 16 threads (the article's 16 and 64) that differ by 10 %.
SPREAD = {4: [91, 100, 110], 16: [182, 200, 220]}


def times(factor: float) -> dict[int, list[float]]:
    """The same, so many times as fast."""
    return {clients: [factor * one for one in values] for clients, values in SPREAD.items()}


@pytest.fixture
def added(checkout, measured):
    """Return the further trials of a plan with one claim: how many each point gets.

    ``added(test, runs)``: three trials of each point, of which ``runs`` counts; ``most`` trials.
    """

    def plan(test: dict, runs: dict, most: int | None = 8) -> dict[tuple, list[int]]:
        set_claims(checkout, [test], "order")
        store = measured({key[:3]: values for key, values in runs.items()})
        with edited_study(checkout) as content:
            content["profiles"][MEASURED_PROFILE] |= {"most_trials": most} if most else {}
        spec = study.load(checkout, STUDY)
        planner = planning.planner(checkout, Selection(STUDY, MEASURED_PROFILE), spec)
        base = planner.plan("local")
        judged = judge.judge(checkout, STUDY, rerun(store))
        found: dict[tuple, list[int]] = {}
        for batch in further.batches(planner, judged, base):
            assert {trial.number for trial in batch.trials} == {batch.trial}
            for trial in batch.trials:
                key = (*trial.point.curve, trial.point.concurrency)
                found.setdefault(key, []).append(trial.number)
        return {key: sorted(numbers) for key, numbers in found.items()}

    return plan


ABOVE = {"test": "above", "of": ONE, "over": OTHER, "at": [64]}


def test_points_of_an_open_claim_get_them_and_no_others(added):
    found = added(ABOVE, {TUNED: times(1.2), DEFAULT: times(1)})
    assert found == {(*TUNED, 16): [4, 5, 6, 7, 8], (*DEFAULT, 16): [4, 5, 6, 7, 8]}


@pytest.mark.parametrize(
    ("test", "clients"),
    [
        ({"test": "above", "at": "overall", "by": 1.1}, {1, 4, 16, 32, 256}),
        ({"test": "above", "at": [16, 64]}, {4, 16}),
        ({"test": "ratio", "at": 64, "value": 1, "within": 1.1}, {16}),
        ({"test": "ratio", "at": "peak", "value": 2, "within": 1.1}, {1, 4, 16, 32, 256}),
    ],
)
def test_a_test_of_whole_curves_takes_all_of_their_points(added, test, clients):
    # at the article's far end neither is higher, so both peaks are known
    runs = {
        curve: times(factor) | {256: times(factor)[4]}
        for curve, factor in ((TUNED, 1.2), (DEFAULT, 1))
    }
    found = added({"of": ONE, "over": OTHER} | test, runs, most=30)
    assert {key[-1] for key in found} == clients
    assert {key[:-1] for key in found} == {TUNED, DEFAULT}


def test_a_rise_takes_its_begin_and_every_end(added):
    test = {
        "test": "change",
        "of": ONE,
        "start": 16,
        "end": [64, 128],
        "direction": "rises",
        "by": 1.7,
    }
    found = added(test, {TUNED: times(1) | {32: [175, 200, 222]}}, most=30)
    assert set(found) == {(*TUNED, 4), (*TUNED, 16), (*TUNED, 32)}


@pytest.mark.parametrize("factor", [1.001, 3], ids=["hundreds would do", "decided"])
def test_what_they_would_not_change_gets_none(added, factor):
    assert not added(ABOVE, {TUNED: times(factor), DEFAULT: times(1)})


def test_a_single_trial_gets_others(added):
    one_each = {16: [200]}
    found = added(ABOVE, {TUNED: one_each, DEFAULT: one_each})
    assert found == {(*TUNED, 16): [4, 5, 6, 7, 8], (*DEFAULT, 16): [4, 5, 6, 7, 8]}


def test_a_point_with_a_single_trial_gets_others_if_another_point_has_several(added):
    sides = {TUNED: times(1.2) | {16: [240]}, DEFAULT: times(1)}
    found = added(ABOVE | {"at": [16, 64]}, sides, most=30)
    assert set(found) == {(*curve, at) for curve in sides for at in (4, 16)}


def test_a_profile_without_them_has_none(added):
    assert not added(ABOVE, {TUNED: times(1.2), DEFAULT: times(1)}, most=None)


def test_the_plan_with_them_is_the_plan_and_then_they(checkout, measured):
    set_claims(checkout, [ABOVE], "order")
    measured({TUNED[:3]: times(1.2), DEFAULT[:3]: times(1)}).close()
    selection = Selection(STUDY, MEASURED_PROFILE)
    with edited_study(checkout) as content:
        content["profiles"][MEASURED_PROFILE]["most_trials"] = 8
    spec = study.load(checkout, STUDY)
    plain = planning.planned(checkout, selection, spec)
    whole = further.planned(checkout, selection, spec)
    assert whole.batches[: len(plain.batches)] == plain.batches
    assert {
        trial.number for batch in whole.batches[len(plain.batches) :] for trial in batch.trials
    } == set(range(4, 9))


def test_without_runs_there_are_none(checkout):
    selection, spec = Selection(STUDY, MEASURED_PROFILE), study.load(checkout, STUDY)
    assert (
        further.planned(checkout, selection, spec).batches
        == planning.planned(checkout, selection, spec).batches
    )


def test_most_trials_are_more_than_those_of_every_point(checkout):
    with edited_study(checkout) as content:
        standard = content["profiles"]["standard"]
        standard["most_trials"] = standard["trials"]
    with pytest.raises(StudyError, match=r"most_trials.*is not more than trials, 2"):
        study.load(checkout, STUDY)


def test_trials_to_narrow_an_interval():
    # half as wide with four times as many trials: 1.2 (1.0 to 1.44) then excludes 1.1
    assert trials_to_narrow(Estimate(1.2, 1.0, 1.44, 3), [1.1]) == 14
    assert trials_to_narrow(Estimate(1.2, 1.0, 1.44, 3), [1.1, 9]) == 14
    assert trials_to_narrow(Estimate(1.2, 1.19, 1.21, 3), [1.1]) == 4
    assert trials_to_narrow(Estimate(1.1, 1.0, 1.2, 3), [1.1]) is None
