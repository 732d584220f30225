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
