"""Which runs are a study's results: those of the trials that were planned last, and no others."""

from pathlib import Path

import pytest
from benchlab import study
from benchlab.claims import stored
from benchlab.errors import StoreError
from benchlab.repo import Repo
from benchlab.report import points
from benchlab.store import Store, ingest, open_any, open_store, results
from benchlab.target import Provisioned, load
from conftest import STUDY, planned, rerun, share_trials

#: A curve of which two profiles share trials.
CURVE = ("postgres", "default", "oltp_write_only", "main")


def trials_of(checkout: Repo, profile: str) -> list:
    """The trials of one curve, all repetitions of it."""
    return [
        trial
        for trial in planned(checkout, STUDY, profile).trials
        if trial.point.curve == CURVE and not trial.intervention
    ]


def opened(checkout: Repo) -> Store:
    ingest.ingest_new(checkout)
    return open_store(checkout.store)


def test_a_trial_that_two_profiles_share_is_a_result_of_both(checkout, close_run):
    """It is measured once, by the first of them."""
    share_trials(checkout)
    quick, standard = (trials_of(checkout, profile) for profile in ("quick", "standard"))
    shared = {one.key for one in quick} & {one.key for one in standard}
    assert shared
    for trial in quick:
        close_run(trial=trial)
    planned(checkout, STUDY, "quick").save(checkout)
    # a sweep of the other profile runs only what is left
    for trial in standard:
        if trial.key not in shared:
            close_run(trial=trial)
    planned(checkout, STUDY, "standard").save(checkout)
    with opened(checkout) as store:
        assert set(rerun(store, "quick").counted["trial_key"]) == {one.key for one in quick}
        counted = rerun(store, "standard").counted
        assert set(counted["trial_key"]) == {one.key for one in standard}
        assert set(counted["profile"]) == {"standard"}
        found = points.points(rerun(store, "standard"))
        assert set(found["n"]) == {3}


def test_runs_of_an_older_definition_of_a_point_are_none_of_its_trials(checkout, close_run):
    first, *_ = trials_of(checkout, "standard")
    for trial in trials_of(checkout, "standard"):
        close_run(trial=trial)
    planned(checkout, STUDY, "standard").save(checkout)
    path = checkout.studies / f"{STUDY}.yml"
    path.write_text(path.read_text().replace("log_checkpoints: true", "log_checkpoints: false"))
    edited, *_ = trials_of(checkout, "standard")
    assert (edited.number, edited.point.concurrency) == (first.number, first.point.concurrency)
    assert edited.key != first.key
    close_run(trial=edited)
    with opened(checkout) as store:
        # as long as nothing is planned of it, the old definition stands
        assert first.key in set(rerun(store).counted["trial_key"])
        assert edited.key not in set(rerun(store).counted["trial_key"])
    planned(checkout, STUDY, "standard").save(checkout)
    with opened(checkout) as store:
        (run,) = rerun(store).counted.to_dicts()
        assert run["trial_key"] == edited.key
        (point,) = points.points(rerun(store)).to_dicts()
        assert point["n"] == 1
        # the old runs are still there to query
        assert len(store.runs(trial_key=first.key)) == 1


def test_another_version_of_an_engine_begins_anew(checkout, close_run):
    for trial in trials_of(checkout, "quick"):
        close_run(trial=trial)
    planned(checkout, STUDY, "quick").save(checkout)
    software = study.load(checkout, STUDY).engines["postgres"].software("postgres")
    known = {"engines": {}, "last_versions": {software: "15.19"}}
    Provisioned(deployment=load(checkout, "local"), hosts={}, **known).save(checkout)
    (trial, *_) = trials_of(checkout, "quick")
    close_run(trial=trial)
    planned(checkout, STUDY, "quick").save(checkout)
    with opened(checkout) as store:
        counted = rerun(store, "quick").counted
    assert counted.select("engine_version", "trial_key").rows() == [("15.19", trial.key)]


def test_runs_that_are_older_than_plans_have_their_last_definition(checkout, close_run):
    for trial in trials_of(checkout, "quick"):
        close_run(trial=trial)
    path = checkout.studies / f"{STUDY}.yml"
    path.write_text(path.read_text().replace("log_checkpoints: true", "log_checkpoints: false"))
    edited = trials_of(checkout, "quick")
    close_run(trial=edited[0])
    with opened(checkout) as store:
        counted = rerun(store, "quick").counted
        assert len(counted) == len(edited)
        assert edited[0].key in set(counted["trial_key"])


def test_results_are_not_mixed_with_those_of_another_store_or_profile(checkout, close_run):
    planned(checkout, STUDY, "quick").save(checkout)
    with opened(checkout) as store, pytest.raises(StoreError, match="no run of study"):
        rerun(store, "quick")
    close_run(trial=trials_of(checkout, "smoke")[0])
    with opened(checkout) as store:
        with pytest.raises(StoreError, match="in profile quick"):
            rerun(store, "quick")
        assert len(rerun(store, "smoke").counted) == 1


def test_an_open_loops_rate_is_a_share_of_what_passed_the_gate(measured, checkout):
    def peak(throughputs: dict, passed: set[int]) -> float:
        store = measured(throughputs, passed=lambda trial: trial.number in passed)
        keys = [one.key for one in trials_of(checkout, "standard") if one.point.concurrency == 4]
        return results.closed_loop(store, "local", keys)

    curve = {CURVE[:3]: {4: [100, 60, 80]}}
    assert peak(curve, {1, 3}) == 90
    # if none did, of all
    assert peak(curve, set()) == 80


def test_plans_are_in_the_store_and_its_export(checkout, close_run, tmp_path: Path):
    plan = planned(checkout, STUDY, "quick").save(checkout)
    close_run(trial=plan.trials[0])
    with opened(checkout) as store:
        kept = store.sql("SELECT * FROM planned_trial ORDER BY position")
        stored.write(checkout, store)
        concluded = store.sql("SELECT * FROM claim").height
        store.export(tmp_path / "export")
    assert kept["trial_key"].to_list() == [trial.key for trial in plan.trials]
    assert set(kept["plan"]) == {plan.id}
    assert kept["intervened"].sum() == sum(trial.intervention is not None for trial in plan.trials)
    with open_any(tmp_path / "export") as exported:
        assert exported.sql("SELECT * FROM planned_trial").height == kept.height
        assert rerun(exported, "quick").counted["trial_key"].to_list() == [plan.trials[0].key]
        # plans and conclusions share files there
        stored.write(checkout, exported)
    with open_any(tmp_path / "export") as exported:
        assert exported.sql("SELECT * FROM planned_trial").height == kept.height
        assert exported.sql("SELECT * FROM claim").height == concluded
