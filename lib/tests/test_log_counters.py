"""What PostgreSQL counts of the calls on its log, as its versions give it (recorded from 15 to 18)."""

import json
import re

import pytest
from benchlab.engines import Endpoint
from benchlab.engines.postgres import Postgres
from benchlab.observers.metrics import COUNTED_AT
from benchlab.plan import Trial
from benchlab.studies import remote_wal
from conftest import DATA, MEASURED, rerun

#: Version → counters before and after 500 transactions of one row and one of 400,000.
COUNTERS = json.loads((DATA / "postgres" / "log_counters.json").read_text())
#: What 18.1 answers for the log in pg_stat_io.
VIEW = json.loads((DATA / "postgres" / "pg_stat_io.json").read_text())
CLIENTS = dict(zip(COUNTERS, (2, 4, 8, 16), strict=True))


class Recorded(Postgres):
    """A server of the version 18.1 with nothing but its log's calls."""

    def query(self, sql, parameters=()):
        if "pg_views" in sql:
            return [{"viewname": "pg_stat_io"}]
        if "pg_stat_io" in sql:
            return [dict(zip(VIEW["columns"], row, strict=True)) for row in VIEW["rows"]]
        return [{}] if "pg_stat_database" in sql else []


def captured(trial: Trial) -> dict[str, bytes]:
    version = {clients: one for one, clients in CLIENTS.items()}[trial.point.concurrency]
    return {
        f"counters-{moment}.json": json.dumps(counted).encode()
        for moment, counted in COUNTERS[version].items()
    }


def test_the_calls_of_all_processes_are_added_up():
    there = Endpoint(host="127.0.0.1", port=1, user="benchlab", password="", database="sbtest")
    counters = Recorded(there).counters()
    # client backends, autovacuum workers, the checkpointer, the walwriter, initdb's backend
    assert counters["pg_stat_io.wal.normal.writes"] == 8449 + 678 + 4 + 21 + 759
    assert counters["pg_stat_io.wal.normal.fsyncs"] == 3785 + 18 + 4 + 19
    assert counters["pg_stat_io.wal.normal.fsync_time"] == pytest.approx(
        5785.919 + 62.226 + 7.518 + 60.492
    )
    # those that make a segment count by themselves
    assert counters["pg_stat_io.wal.init.write_bytes"] == 3 * 16 * 2**20
    assert "pg_stat_io.wal.normal.hits" not in counters  # a log has none


def test_counters_are_of_the_time_between_which_they_were_read(measured):
    """The server was asked 1 s after the start, and, when the load had ended, 2 s after it."""
    oldest = next(iter(COUNTERS))
    curve = {("remote_log", "local", "oltp_insert"): {CLIENTS[oldest]: [100.0, 100.0]}}

    def timed(trial: Trial) -> dict[str, bytes]:
        times = {"begin": MEASURED[0] + 1, "end": MEASURED[1] + 2}
        return {
            f"counters-{moment}.json": json.dumps(
                counted | ({COUNTED_AT: times[moment]} if trial.number == 1 else {})
            ).encode()
            for moment, counted in COUNTERS[oldest].items()
        }

    rows = rerun(measured(curve, study=remote_wal.STUDY, also=timed), study=remote_wal.STUDY)
    timed_run, untimed = rows.metrics.sort("trial").iter_rows(named=True)
    counted_s = timed_run["measure_end"] - timed_run["measure_begin"] - 1
    longer = timed_run["measured_s"] / counted_s
    for metric in ("wal_writes_per_s", "wal_write_concurrency", "wal_bytes_per_transaction"):
        assert timed_run[metric] == pytest.approx(untimed[metric] * longer)
    assert timed_run["wal_write_mean_us"] == untimed["wal_write_mean_us"]


def test_every_version_has_the_same_metrics(measured):
    curve = {("remote_log", "local", "oltp_insert"): {n: [100.0] for n in CLIENTS.values()}}
    store = measured(curve, study=remote_wal.STUDY, also=captured)
    rows = rerun(store, study=remote_wal.STUDY).metrics.rows_by_key("concurrency", named=True)
    for version, clients in CLIENTS.items():
        (row,) = rows[clients]
        begin, end = (COUNTERS[version][moment] for moment in ("begin", "end"))
        used_s = sum(
            (end[name] - begin[name]) / 1e3
            for name in end
            if re.search(r"(?<!init)\.\w+_time", name)
        )
        durable = row["wal_writes_per_s"] * row["measured_s"]
        assert 501 <= durable <= 510  # each transaction waits for one
        assert row["wal_write_concurrency"] * row["measured_s"] == pytest.approx(used_s)
        assert row["wal_write_mean_us"] * durable / 1e6 == pytest.approx(used_s)
        written = row["wal_bytes_per_transaction"] * row["transactions"]
        assert written == pytest.approx(23.65e6, rel=0.001)
        assert row["wal_bytes_per_write"] * durable == pytest.approx(written)
        assert row["full_pages_per_transaction"] * row["transactions"] in (1, 2)
