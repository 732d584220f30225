"""Points and the article's numbers, on a store whose throughputs are set by hand."""

import pytest
from benchlab import ingest, study, sweep
from benchlab.analysis import points, tables
from benchlab.parse import sysbench
from benchlab.store import open_store
from benchlab.sweep import Selection
from conftest import CAPTURES, STUDY

PROFILE = "standard"


@pytest.fixture
def measured(checkout, close_run):
    """Return a store with the given throughputs, ``{(engine, variant, workload): {threads: [tps]}}``.

    ``None`` in place of a throughput is a trial that failed.
    """
    opened = []

    def measure(throughputs: dict) -> object:
        planned = sweep.planned(checkout, Selection(STUDY, PROFILE))
        expected = {}
        for curve in planned:
            name = (curve.engine, curve.variant, curve.workload)
            for trial in curve.trials:
                tps = throughputs.get(name, {}).get(trial.point.concurrency, [])
                if curve.envelope == "main" and trial.number <= len(tps):
                    value = tps[trial.number - 1]
                    record = close_run(
                        *(["failed", "it died"] if value is None else []), trial=trial
                    )
                    expected[record.run_id] = value
        ingest.ingest_new(checkout)
        store = open_store(checkout.store)
        for run_id, value in expected.items():
            store.connection.execute("UPDATE run SET tps = ? WHERE run_id = ?", [value, run_id])
        opened.append(store)
        return store

    yield measure
    for store in opened:
        store.close()


INSERT = ("postgres", "default", "oltp_insert")
TUNED = ("postgres", "tuned", "oltp_insert")


def test_a_point_is_the_median_of_the_trials_that_count(measured):
    store = measured({INSERT: {1: [50.0], 4: [300.0, 100.0, 110.0], 16: [7.0, None, 9.0]}})
    found = points.points(store, STUDY, PROFILE).rows_by_key("concurrency", named=True, unique=True)
    shown = {
        threads: (row["n"], row["tps"], row["tps_low"], row["tps_high"])
        for threads, row in found.items()
    }
    assert shown == {
        1: (1, 50.0, None, None),
        4: (3, 110.0, 100.0, 300.0),
        16: (2, 8.0, 7.0, 9.0),
    }
    printed = sysbench.summary(CAPTURES["sysbench.out"].decode())
    # sysbench prints the percentile of the same histogram, by interpolation within a bucket
    assert found[4]["p99_us"] == pytest.approx(printed["latency_percentile_ms"] * 1000, rel=0.02)
    assert points.not_counted(store, STUDY, PROFILE)["runs"].to_list() == [1]


def test_a_trial_that_was_repeated_counts_once_and_as_it_ended_last(checkout, measured, close_run):
    store = measured({INSERT: {4: [100.0, 110.0, 120.0]}})
    again = checkout.raw / store.runs(trial=1)["run_id"][0]
    close_run("failed", "it died", trial=ingest.capture.read(again).trial)
    store.close()
    ingest.ingest_new(checkout)
    with open_store(checkout.store, read_only=True) as store:
        row = points.points(store, STUDY, PROFILE).row(0, named=True)
    assert (row["n"], row["tps"]) == (2, 115.0)


def test_without_runs_there_are_the_same_columns(measured):
    empty = points.points(measured({}), STUDY, PROFILE)
    full = points.points(measured({INSERT: {1: [5.0]}}), STUDY, PROFILE)
    assert empty.is_empty()
    assert empty.columns == full.columns


def told(store, checkout) -> dict[str, dict]:
    spec = study.load(checkout, STUDY)
    found = tables.told(store, spec, PROFILE).rows(named=True)
    return {one.id: row for one, row in zip(spec.told, found, strict=True)}


def test_the_articles_numbers_stand_beside_ours(checkout, measured):
    store = measured(
        {
            INSERT: {1: [10.0, 10.0, 10.0], 4: [20.0, 20.0, 20.0], 64: [1.0]},
            TUNED: {1: [15.0, 15.0, 15.0], 4: [60.0, 70.0, 80.0]},
            ("postgres", "tuned", "oltp_write_only"): {4: [90.0, 80.0], 16: [300.0, 100.0, 200.0]},
        }
    )
    found = told(store, checkout)
    peak = found["postgres_tuned_peak_write_only"]
    assert (peak["article"], peak["ours"], peak["low"], peak["high"]) == (1600, 200, 100, 300)
    gain = found["postgres_tuned_over_default_insert"]
    assert (gain["ours"], gain["low"], gain["high"]) == (3.5, 3.0, 4.0)
    assert gain["note"] == "at 4 threads"
    for name in ("tidb_over_postgres_write_only_128", "tidb_tuned_peak_write_only"):
        assert found[name]["ours"] is None
        assert found[name]["note"].startswith("not run here: tidb")


def test_curves_that_share_no_concurrency_give_no_ratio(checkout, measured):
    store = measured({INSERT: {1: [10.0]}, TUNED: {4: [20.0]}})
    gain = told(store, checkout)["postgres_tuned_over_default_insert"]
    assert gain["ours"] is None
    assert gain["note"].startswith("not run here: ")
