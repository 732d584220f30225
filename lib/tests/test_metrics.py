"""Metrics of the reference runs."""

import benchlab
from benchlab.store import metrics
from polars.testing import assert_frame_equal


def test_a_store_gives_the_same_numbers_to_the_last_digit_each_time():
    with benchlab.open("reference") as store:
        runs = store.runs(status="ok")
        first = metrics.of(store, runs)
        assert first["written_kb_per_transaction"].count() > 100
        assert first["engine_cpu_percent"].is_between(0, 100).all()
        tables = first.filter(study="postgres_vs_tidb", engine="postgres")
        assert tables["dataset_bytes"].min() > 500e6
        for _ in range(10):
            assert_frame_equal(metrics.of(store, runs), first, check_exact=True)


def test_throughput_after_a_cycle_of_background_work_begins_is_held_against_the_rest(measured):
    store = measured({("postgres", "default", "oltp_write_only"): {16: [100, 100]}})
    runs = store.runs(status="ok").head(2)
    asked, silent = runs["run_id"]
    begin = runs["measure_begin"][0]
    # the last answer without it came at 9.5 s, the first with it at 10.5 s: seconds 10 to 15
    store.connection.execute('DELETE FROM "interval"')
    store.connection.execute(
        "INSERT INTO \"interval\" BY NAME SELECT run_id, 'measure' AS phase, second,"
        " if(second BETWEEN 10 AND 15, 80, 100) AS tps FROM run, range(1, 31) of_run(second)"
    )
    store.connection.execute(
        "INSERT INTO os_sample BY NAME SELECT ? AS run_id, ? + second + 0.5 AS t, 'server' AS subject,"
        " 'background' AS observer, 'cycles' AS metric, 7.3 + 0.07 * second AS value"
        " FROM range(0, 18) asked(second)",
        [asked, begin],
    )
    found = dict(metrics.of(store, runs).select("run_id", "tps_after_cycle_percent").iter_rows())
    assert found == {asked: 80, silent: None}
