"""Which runs a sweep makes once more."""

from benchlab.run.repeats import to_repeat
from conftest import MEASURED_PROFILE, STUDY, edited_study, planned

CURVE = ("postgres", "default", "oltp_write_only")
OTHER = ("postgres", "default", "oltp_insert")


def again(checkout) -> list[tuple[str, int, int]]:
    plan = planned(checkout, STUDY, MEASURED_PROFILE)
    batches = to_repeat(checkout, "local", plan.batches, plan)
    trials = [trial for batch in batches for trial in batch.trials]
    return [(one.point.workload_name, one.point.concurrency, one.number) for one in trials]


def test_what_was_not_steady_is_run_once_more_and_not_twice(measured, checkout):
    throughputs = {CURVE: {1: [10, 20, 30]}, OTHER: {1: [None, 5]}}
    measured(throughputs, passed=lambda trial: trial.number != 2)
    assert sorted(again(checkout)) == [("oltp_insert", 1, 2), ("oltp_write_only", 1, 2)]
    measured({CURVE: {1: [10, 20]}}, passed=lambda trial: False)
    assert again(checkout) == [("oltp_insert", 1, 2)]


def test_what_ran_on_another_target_is_not_repeated_here(measured, checkout):
    measured({CURVE: {1: [10]}}, target="elsewhere", passed=lambda trial: False)
    assert again(checkout) == []
    plan = planned(checkout, STUDY, MEASURED_PROFILE)
    assert len(to_repeat(checkout, "elsewhere", plan.batches, plan)) == 1


def test_runs_of_a_fixed_length_are_not_repeated(measured, checkout):
    with edited_study(checkout) as spec:
        del spec["profiles"][MEASURED_PROFILE]["longest_s"]
    store = measured({CURVE: {1: [10]}}, passed=lambda trial: False)
    assert (
        store.sql("""SELECT run_id FROM gate WHERE "check" = 'steady' AND NOT passed""").height == 1
    )
    assert again(checkout) == []
