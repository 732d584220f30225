"""The reference result set, made from a store of its own."""

import shutil
from pathlib import Path

import benchlab
import polars as pl
import pytest
from benchlab import store
from benchlab.claims import stored
from benchlab.errors import StoreError
from benchlab.repo import Repo
from benchlab.report import reference
from benchlab.store import catalogue, export, ingest, results, schema
from conftest import ROOT, STUDY, planned, share_trials
from polars.testing import assert_frame_equal


def test_each_study_is_there_with_its_own_largest_profile(checkout, close_run, tmp_path):
    for study, profile in (
        (STUDY, "smoke"),
        (STUDY, "standard"),
        ("spec_tree", "smoke"),
        ("spec_tree", "quick"),
    ):
        close_run(trial=planned(checkout, study, profile).trials[0])
    ingest.ingest_new(checkout)
    folder = tmp_path / "reference"
    (folder / "run" / "study=older").mkdir(parents=True)
    with store.open_store(checkout.store) as own:
        assert reference.take(own, folder) == {STUDY: "standard", "spec_tree": "quick"}
    assert not (folder / "run" / "study=older").exists()
    with store.open_any(folder) as taken:
        assert taken.sql("SELECT study, profile FROM run ORDER BY ALL").rows() == [
            (STUDY, "standard"),
            ("spec_tree", "quick"),
        ]
        # what programs printed stays where it is
        assert not taken.sql("FROM raw_file").is_empty()
        with pytest.raises(StoreError, match="are not here"):
            taken.raw(taken.runs()["run_id"][0], "sysbench.out")


@pytest.mark.parametrize("version", [schema.SCHEMA_VERSION, schema.SCHEMA_VERSION - 1])
def test_a_study_that_was_not_measured_again_stays(checkout, close_run, tmp_path, version):
    folder = tmp_path / "reference"
    both = [planned(checkout, name, "smoke").trials[0] for name in (STUDY, "spec_tree")]
    for trial in both:
        close_run(trial=trial)
    ingest.ingest_new(checkout)
    with store.open_store(checkout.store) as own:
        reference.take(own, folder)
    with store.open_any(folder) as taken:
        before = taken.sql("FROM run ORDER BY study").to_dicts()
        planned_before = taken.sql("FROM planned ORDER BY ALL")
    older = catalogue.read(folder).model_copy(update={"schema_version": version})
    catalogue.replace(folder, older)
    shutil.rmtree(checkout.raw)
    shutil.rmtree(checkout.store)
    close_run(trial=both[1])
    ingest.ingest_new(checkout)
    with store.open_store(checkout.store) as own:
        assert reference.take(own, folder) == {"spec_tree": "smoke"}
    with store.open_any(folder) as taken:
        kept, measured = taken.sql("FROM run ORDER BY study").to_dicts()
        assert kept == before[0]
        assert measured["run_id"] != before[1]["run_id"]
        assert taken.sql("FROM planned ORDER BY ALL").equals(planned_before)
        assert not taken.sql("FROM os_sample SEMI JOIN run USING (run_id)").is_empty()
    files = {path.relative_to(folder) for path in folder.rglob("*.parquet")}
    named = catalogue.read(folder)
    assert named.schema_version == schema.SCHEMA_VERSION
    assert not list(folder.parent.glob(".upgraded-*"))
    assert files == {Path(one) for table in schema.columns() for one in named.files(table)}


def test_a_trial_that_a_smaller_profile_measured_is_there(checkout, close_run, tmp_path):
    share_trials(checkout)
    large = planned(checkout, STUDY, "standard").save(checkout)
    keys = {trial.key for trial in large.trials}
    small = planned(checkout, STUDY, "quick").trials
    shared = next(trial for trial in small if trial.key in keys)
    for trial in (shared, next(trial for trial in small if trial.key not in keys)):
        close_run(trial=trial)
    ingest.ingest_new(checkout)
    folder = tmp_path / "reference"
    with store.open_store(checkout.store) as own:
        assert reference.take(own, folder) == {STUDY: "standard"}
    with store.open_any(folder) as taken:
        assert taken.runs()["trial_key"].to_list() == [shared.key]
        assert results.open_rerun(checkout, taken, STUDY).counted.height == 1


def test_a_store_without_a_run_that_counts_leaves_the_reference(checkout, close_run, tmp_path):
    close_run("failed", "it died")
    ingest.ingest_new(checkout)
    folder = tmp_path / "reference"
    folder.mkdir()
    with store.open_store(checkout.store) as own, pytest.raises(StoreError, match="no run counts"):
        reference.take(own, folder)
    assert folder.exists()


def test_studies_that_stay_are_judged_again(checkout, close_run, tmp_path):
    for name in (STUDY, "spec_tree"):
        close_run(trial=planned(checkout, name, "smoke").trials[0])
    ingest.ingest_new(checkout)
    folder = tmp_path / "reference"
    with store.open_store(checkout.store) as own:
        stored.write(checkout, own)
        reference.take(own, folder)
    with store.open_any(folder) as taken:
        judged = taken.sql("FROM verdict ORDER BY ALL")
    written = {path: path.read_bytes() for path in (folder / "verdict").rglob("*.parquet")}
    reference.judge_again(checkout, folder)
    assert {path: path.read_bytes() for path in written} == written
    (one,) = (folder / "verdict" / f"study={STUDY}").iterdir()
    pl.read_parquet(one).head(3).with_columns(verdict=pl.lit("of an older code")).write_parquet(one)
    reference.judge_again(checkout, folder)
    with store.open_any(folder) as taken:
        assert taken.sql("FROM verdict ORDER BY ALL").equals(judged)
    assert written.keys() == set((folder / "verdict").rglob("*.parquet"))


def test_the_shipped_verdicts_are_of_this_code():
    with benchlab.open("reference") as shipped:
        names = results.studies(shipped)
        for table, of_this_code in (
            ("claim", stored.claims(Repo(ROOT), names)),
            ("verdict", stored.verdicts(Repo(ROOT), shipped, names)),
        ):
            then = shipped.sql(f"FROM {table}").select(of_this_code.columns)
            order = ["study", "claim"]
            assert_frame_equal(of_this_code.sort(order), then.sort(order))


def test_the_shipped_attribution_and_gate_are_of_this_code(tmp_path):
    folder = tmp_path / "reference"
    shutil.copytree(ROOT / "data" / "reference", folder)
    reference.conclude_again(Repo(ROOT), folder)
    with store.open_any(folder) as again, benchlab.open("reference") as shipped:
        for table in ("attribution", "gate"):
            assert_frame_equal(*(one.sql(f"FROM {table} ORDER BY ALL") for one in (again, shipped)))


def test_rows_that_are_replaced_by_none_are_gone(tmp_path):
    folder = tmp_path / "reference"
    shutil.copytree(ROOT / "data" / "reference", folder)
    with store.open_any(folder) as before:
        none = before.sql("FROM elasticity LIMIT 0")
        assert len(before.sql("FROM elasticity"))
    export.replace_of_runs(folder, "elasticity", none)
    assert not list((folder / "elasticity").rglob("*.parquet"))
    with store.open_any(folder) as after:
        assert after.sql("FROM elasticity").is_empty()
        assert len(after.sql("FROM gate"))
