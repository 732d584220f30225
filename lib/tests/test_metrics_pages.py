"""Counters that services print for Prometheus, as TiDB 7.1.1 on its embedded store printed them."""

import gzip

import polars as pl
import pytest
from benchlab.errors import ParseError
from benchlab.observers import metrics
from benchlab.store import ingest
from conftest import CAPTURES, DATA

BEGIN, END = (
    gzip.decompress((DATA / "tidb_7.1.1" / f"metrics-unistore{name}.txt.gz").read_bytes()).decode()
    for name in ("", "-after")
)


def value(frame: pl.DataFrame, name: str) -> tuple[float | None, float | None]:
    (row,) = frame.filter(name=name).select("at_begin", "at_end").rows()
    return row


def test_what_changed_is_named_by_service_sample_and_labels():
    found = metrics.counters("tidb", BEGIN, END)
    reads = "tidb.tidb_server_read_from_tablecache_total"
    gets = 'tidb.tidb_tikvclient_txn_cmd_duration_seconds_count{scope="general",type="get"}'
    assert value(found, reads)[1] == 99_681
    assert value(found, gets)[1] == 33_624
    assert found["name"].is_sorted()
    assert found["name"].is_unique().all()
    assert not found["name"].str.contains(r"_bucket\{|quantile=").any()


def test_what_did_not_change_has_no_row():
    assert metrics.counters("tidb", END, END).is_empty()
    found = metrics.counters("tidb", BEGIN, END)
    assert "tidb.go_sched_gomaxprocs_threads" not in found["name"]


def test_a_sample_of_one_page_alone_is_null_on_the_other():
    page = "# TYPE pages counter\npages 3\n"
    assert metrics.counters("tikv", "", page).rows() == [("tikv.pages_total", None, 3.0)]
    assert metrics.counters("tikv", page, "").rows() == [("tikv.pages_total", 3.0, None)]


def test_no_number_is_no_value():
    assert metrics.counters("tikv", "load NaN\n", "load +Inf\n").is_empty()


def test_another_text_is_refused():
    with pytest.raises(ParseError, match="tidb: no page of counters: "):
        metrics.counters("tidb", "404 page not found {", END)


def test_services_have_a_page_of_each_moment():
    names = [
        "metrics-tikv-1-begin.txt",
        "metrics-tikv-1-end.txt",
        "metrics-pd-begin.txt",
        "run.json",
    ]
    assert list(metrics.services(names)) == ["tikv-1"]
    assert metrics.name("tikv-1", "end") == names[1]


def test_they_are_counters_of_the_run(checkout, close_run):
    pages = {"metrics-tidb-begin.txt": BEGIN.encode(), "metrics-tidb-end.txt": END.encode()}
    record = close_run(**CAPTURES | pages)
    found = ingest.rows(checkout.raw / record.run_id)["engine_counter"]
    assert value(found, "pg_stat_wal.wal_bytes") == (1.0, 5.5)
    assert value(found, "tidb.tidb_server_read_from_tablecache_total")[1] == 99_681
