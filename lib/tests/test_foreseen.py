"""What a plan cannot decide is said before anything runs, and so is how long it will take."""

import pytest
from benchlab import study, target
from benchlab.claims.foreseen import only_refutable, undecidable
from benchlab.claims.judge import judge
from benchlab.gate.steady import LEAST_S, WRITEBACK_S
from benchlab.plan import Batch, Plan, Trial
from benchlab.run import estimate
from benchlab.run.trial import CONNECTIONS_S
from benchlab.study.claims import ABSOLUTE
from benchlab.study.intervention import OutcomeChecks
from conftest import (
    MEASURED_PROFILE,
    STUDY,
    edited_study,
    measure_all_points,
    planned,
    rerun,
    set_claims,
)

SERIES = {"engine": "postgres", "variant": "tuned", "workload": "oltp_write_only"}

#: Test → what is said of it in the profile `quick`, that runs 1, 16 and 64 clients, on 2 of 8 cores, if
#: it warmed up for long enough.
FORESEEN = {
    "a number of clients that is run": ({"test": "level", "at": 4, "value": 1, "unit": "s"}, None),
    "one that another profile runs": (
        {"test": "level", "at": 128, "value": 1, "unit": "/s"},
        "32 clients (the article's 128), which quick does not run",
    ),
    "one that none runs": (
        {"test": "change", "start": 4, "end": 20, "direction": "rises"},
        "5 clients (the article's 20), which no profile runs",
    ),
    "one of several that is run": ({"test": "bound", "at": [4, 20], "by": ["memory"]}, None),
    "several of which none is run": (
        {"test": "bound", "at": [20, 24], "by": ["memory"]},
        "5, 6 clients (the article's 20, 24), which no profile runs",
    ),
    "a range from which one is run": (
        {"test": "limit", "at": [16, 64, 1024], "least": 1, "unit": "/s"},
        None,
    ),
    "a rise from so many clients on": (
        {"test": "change", "start": 4, "end": [256, 1024], "direction": "rises"},
        None,
    ),
    "an end at a number of clients that none runs": (
        {"test": "out_of_memory", "at": 20},
        "5 clients (the article's 20), which no profile runs",
    ),
    "one client": ({"test": "ratio", "over": SERIES, "at": 1, "value": 1}, None),
    "a range without a point": (
        {"test": "peak", "first": 8, "last": 32},
        "2, 8 clients (the article's 8, 32), which quick does not run",
    ),
    "a curve that is not run": (
        {
            "test": "peak",
            "of": {"engine": "oceanbase", "variant": "default", "workload": "oltp_insert"},
            "first": 4,
            "last": 64,
        },
        "profile quick does not run oceanbase default oltp_insert",
    ),
    "every curve of two, of which one is run and may refute it": (
        {"test": "bound", "of": SERIES | {"variant": ["tuned", "no_full_pages"]}, "by": ["memory"]},
        None,
    ),
    "each curve of two, of which one is not run": (
        {
            "test": "bound",
            "of": SERIES | {"variant": ["tuned", "no_full_pages"]},
            "by": ["memory"],
            "take": "each",
        },
        "profile quick does not run postgres no_full_pages oltp_write_only",
    ),
    "a whole curve of several points": ({"test": "above", "over": SERIES, "at": "overall"}, None),
    "all of a curve": ({"test": "bound", "by": ["memory"]}, None),
    "what needs more than runs": ({"test": "none", "needs": "A lab."}, None),
}


@pytest.fixture
def of_claim(checkout):
    """Return the study with one claim that has the given test, and other lengths in `quick`."""

    def load(test: dict, **lengths: int) -> study.Study:
        set_claims(checkout, [test if test["test"] == "none" else {"of": SERIES} | test])
        with edited_study(checkout) as spec:
            spec["profiles"]["quick"] |= {"warmup_s": WRITEBACK_S} | lengths
        return study.load(checkout, STUDY)

    return load


@pytest.mark.parametrize("case", FORESEEN)
def test_claims_that_a_plan_cannot_decide_are_named(checkout, of_claim, case):
    test, expected = FORESEEN[case]
    spec = of_claim(test)
    instance = target.instance_type(checkout, spec.instance)
    found = [reason for _, reason in undecidable(spec, instance, planned(checkout))]
    assert found == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("series", "is_foreseen"),
    [
        (SERIES, True),
        (SERIES | {"metric": "dataset_bytes"}, False),
        (SERIES | {"workload": "oltp_point_select"}, False),
    ],
    ids=["writes", "size of the dataset", "reads"],
)
def test_a_warm_up_too_short_for_writes_decides_nothing_about_them(
    checkout, of_claim, series, is_foreseen
):
    spec = of_claim(
        {"test": "ratio", "of": series, "over": series, "at": 64, "value": 1}, warmup_s=39
    )
    instance = target.instance_type(checkout, spec.instance)
    found = [reason for _, reason in undecidable(spec, instance, planned(checkout))]
    reason = "profile quick warms up for 39 s; a workload that writes needs 40 s"
    assert found == ([reason] if is_foreseen else [])


@pytest.mark.parametrize(("measure_s", "is_foreseen"), [(LEAST_S - 1, True), (LEAST_S, False)])
def test_runs_too_short_to_tell_whether_they_are_steady_decide_nothing(
    checkout, of_claim, measure_s, is_foreseen
):
    series = SERIES | {"workload": "oltp_point_select"}
    spec = of_claim(
        {"test": "ratio", "of": series, "over": series, "at": 64, "value": 1}, measure_s=measure_s
    )
    instance = target.instance_type(checkout, spec.instance)
    found = [reason for _, reason in undecidable(spec, instance, planned(checkout))]
    assert [f"measures for {measure_s} s" in reason for reason in found] == [True] * is_foreseen


def test_one_number_of_clients_is_no_whole_curve(checkout, of_claim):
    series = SERIES | {"variant": "no_full_pages"}  # `standard` runs one point of it
    test = {"test": "ratio", "of": series, "over": series, "at": "greatest", "value": 1}
    spec = of_claim(test)
    instance = target.instance_type(checkout, spec.instance)
    plan = planned(checkout, STUDY, MEASURED_PROFILE)
    ((_, reason),) = undecidable(spec, instance, plan)
    assert reason == "a claim about a whole curve; standard runs one number of clients (16)"


def test_a_claim_about_several_curves_of_which_some_are_not_run_can_only_be_refuted(checkout):
    spec = study.load(checkout, "cached_tables")
    instance = target.instance_type(checkout, spec.instance)
    plan = planned(checkout, "cached_tables", "standard")
    ((claim, reason),) = only_refutable(spec, instance, plan)
    assert claim.id == "cached_not_better_with_writes"
    assert reason.startswith("profile standard does not run tidb ")
    assert claim.id not in {one.id for one, _ in undecidable(spec, instance, plan)}


@pytest.mark.parametrize(("name", "is_foreseen"), [("tpcc", False), (STUDY, True)])
def test_checks_after_a_load_decide_a_claim_about_them(checkout, name, is_foreseen):
    plan = planned(checkout, name)
    engine, variant, workload, _ = plan.trials[0].point.curve
    series = {"engine": engine, "variant": variant, "workload": workload}
    test = {"test": "outcome", "of": series, "answers": {"one": "holds"}}
    set_claims(checkout, [test], name=name)
    spec = study.load(checkout, name)
    instance = target.instance_type(checkout, spec.instance)
    found = [reason for _, reason in undecidable(spec, instance, plan)]
    reason = f"profile quick does not run {engine} {variant} {workload}"
    assert found == ([reason] if is_foreseen else [])


def test_what_is_foreseen_comes_true(checkout, measured):
    """With runs of all that the plan has, the judge calls just these claims not testable."""
    measure_all_points(checkout, STUDY)
    spec = study.load(checkout, STUDY)
    plan = planned(checkout, STUDY, MEASURED_PROFILE)
    runs: dict = {}
    for trial in plan.trials:
        *curve, envelope = trial.point.curve
        if envelope == "main" and not trial.intervention:
            runs.setdefault(tuple(curve), {})[trial.point.concurrency] = [1.0, 2.0, 3.0]
    store = measured(runs)
    instance = target.instance_type(checkout, spec.instance)
    foreseen = {claim.id for claim, _ in undecidable(spec, instance, plan)}
    assert foreseen
    judged = {one.claim.id: one for one in judge(checkout, STUDY, rerun(store))}
    for name in foreseen:
        assert judged[name].verdict == "not testable here"
    others = [
        one
        for one in judged.values()
        if one.verdict == "not testable here" and one.claim.id not in foreseen
    ]
    # those whose test needs what no run has, or other claims, and those of metrics that these captures
    # do not tell
    assert all(
        one.claim.decided_by.test in ("none", "together")
        or "no capture" in one.reason
        or "did not show what bound" in one.reason
        or one.reason == ABSOLUTE
        for one in others
    )


def test_the_time_of_a_plan_is_that_of_its_runs_and_what_lies_between(checkout, close_run):
    plan = planned(checkout)
    measured_s = sum(one.point.warmup_s + one.point.measure_s for one in plan.trials)
    before = estimate.of_batches(plan.batches, checkout, "local")
    assert before > measured_s + estimate.BATCH_S * len(plan.batches)


def test_the_time_of_a_run_is_the_mean_of_those_of_its_kind(checkout, close_run, at_sixteen):
    records = [close_run(trial=at_sixteen) for _ in range(2)]
    close_run("failed", "it died", trial=at_sixteen)
    took = [(one.ended - one.started).total_seconds() for one in records]
    recorded = estimate.recorded(checkout, "local")
    assert recorded == {estimate._kind(at_sixteen): pytest.approx(sum(took) / 2)}
    assert estimate.of_trial(at_sixteen, recorded) == pytest.approx(sum(took) / 2)
    assert estimate.recorded(checkout, "another") == {}
    # runs of another length, and of another workload, are of other kinds
    for one in (
        first(planned(checkout, profile="standard"), writes=True),
        first(planned(checkout), writes=False),
    ):
        assert estimate.of_trial(one, recorded) == estimate.of_trial(one, {})


def first(plan: Plan, writes: bool) -> Trial:
    """The first trial of a plan whose workload writes, or only reads."""
    return next(
        one for one in plan.trials if one.point.workload.writes is writes and not one.intervention
    )


def test_the_time_of_a_run_that_goes_on_has_its_warmup_and_a_share_of_its_longest_time(checkout):
    plan = planned(checkout, profile="standard")
    write = first(plan, writes=True)
    read = first(plan, writes=False)
    measured_s = 30 + 0.25 * (240 - 30)  # of the profile `standard`
    warmup_s = max(write.point.warmup_s, WRITEBACK_S) + CONNECTIONS_S
    assert estimate.of_trial(write, {}) == warmup_s + measured_s + estimate.RUN_S
    assert estimate.of_trial(read, {}) == read.point.warmup_s + measured_s + estimate.RUN_S


@pytest.mark.parametrize(("profile", "runs"), [("quick", 1), ("standard", 1.2)])
def test_runs_that_go_on_may_be_repeated(checkout, profile, runs):
    trial = first(planned(checkout, profile=profile), writes=False)
    batch = Batch(engine=trial.point.engine, trial=1, trials=(trial,))
    expected = runs * estimate.of_trial(trial, {}) + estimate.BATCH_S + 60  # a new engine
    assert estimate.of_batches([batch], checkout, "local") == pytest.approx(expected)


def test_checks_have_no_warmup(checkout):
    trials = planned(checkout, "cached_tables", "standard").trials
    trial = next(one for one in trials if isinstance(one.intervention, OutcomeChecks))
    assert estimate.of_trial(trial, {}) == trial.intervention.about_s + estimate.RUN_S
