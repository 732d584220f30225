"""What the study of a remote log shows of its runs, on runs that were made up."""

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from benchlab.plan import Trial
from benchlab.repo import Repo
from benchlab.report import gate, log_writes
from benchlab.stats import CommitModel
from benchlab.studies import remote_wal
from conftest import ROOT, rerun

REPO = Repo(ROOT)
RECORDED = Path(__file__).parent / "data" / "log_trace"
TRUE = CommitModel(cores=1.0, cpu_s=150e-6, log_waits=1.7, contention=0.002, sharpness=4.0)
LATENCY_US = {"local": 200.0, "remote": 1500.0}
CLIENTS = [2, 4, 8, 16, 64]


def throughputs(variant: str) -> dict[int, list[float]]:
    tps = TRUE.tps(CLIENTS, LATENCY_US[variant] / 1e6)
    return {
        n: [float(one), 1.01 * float(one), float(one)] for n, one in zip(CLIENTS, tps, strict=True)
    }


CURVES = {
    ("remote_log", variant, "oltp_insert"): throughputs(variant) for variant in LATENCY_US
} | {
    ("postgres", "sync_standby", "oltp_update_non_index"): {64: [100.0] * 3},
    ("postgres", "sync_no_full_pages", "oltp_update_non_index"): {64: [150.0] * 3},
}


def captured(trial: Trial) -> dict[str, bytes]:
    """What is captured of a run's log: 1,000 syncs in which 2 s went, and so many kB a client."""
    latency_us = LATENCY_US.get(trial.point.variant, 300.0)
    begin = dict.fromkeys(("wal_write", "wal_sync", "wal_write_time", "wal_sync_time"), 0.0)
    end = {
        "wal_write": 1100.0,
        "wal_sync": 1000.0,
        "wal_write_time": 500.0,
        "wal_sync_time": 1500.0,
    }
    counters = {
        f"counters-{moment}.json": json.dumps(
            {f"pg_stat_wal.{name}": value for name, value in (of | {"wal_bytes": b}).items()}
        ).encode()
        for moment, of, b in (("begin", begin, 0.0), ("end", end, 1e3 * trial.point.concurrency))
    }
    return counters | {
        "log-probe.json": json.dumps({"t": 1.0, "durable_write_ns": 1e3 * latency_us}).encode(),
        "log-trace.json": gzip.decompress((RECORDED / "remote_update_32.json.gz").read_bytes()),
        "replication.jsonl": (RECORDED / "replication.jsonl").read_bytes(),
    }


@pytest.fixture
def found(measured):
    return rerun(measured(CURVES, study=remote_wal.STUDY, also=captured), study=remote_wal.STUDY)


def test_writes_of_the_log_are_those_that_the_server_counts(found):
    row = log_writes.table(found).filter(curve="PostgreSQL alone, remote").row(0, named=True)
    assert row["wal_write_mean_us"] == 2000
    assert row["wal_bytes_per_write"] == row["concurrency"]
    assert row["probe (µs)"] == 1500
    metrics = found.metrics
    assert (metrics["wal_write_concurrency"] * metrics["measured_s"]).round(
        6
    ).unique().to_list() == [2]


def test_runs_are_counted_whose_hosts_others_may_have_used(found):
    counts = gate.summary(found)  # their samples have nothing of the host
    assert counts["not_known_alone"] == counts["runs"] > 0


def test_the_model_finds_what_made_the_curves(found):
    slow = remote_wal.slow_log(found)
    assert slow.points.filter("fitted")["concurrency"].unique().sort().to_list() == [2, 8, 64]
    assert slow.error < 0.05
    assert slow.model.cpu_s == pytest.approx(TRUE.cpu_s, rel=0.1)
    needed = slow.needed()
    # the slower a log is, the more clients it takes
    clients = needed["clients"].fill_null(remote_wal.MOST_CLIENTS + 1)
    assert clients.is_sorted()
    assert needed["share_of_one"].is_sorted(descending=True)
    expected = TRUE.enough_clients(1e-3, slow.local_s, remote_wal.ENOUGH, remote_wal.MOST_CLIENTS)
    assert dict(needed.select("latency_ms", "clients").iter_rows())[1.0] == pytest.approx(
        expected, rel=0.3
    )
    (drawn,) = [
        rows
        for rows in remote_wal.needed_chart(slow, "threads").to_dict()["datasets"].values()
        if "share" in rows[0]
    ]
    at_1_ms = {
        row["share"]: row["clients"] for row in drawn if row["latency_ms"] == pytest.approx(1)
    }
    assert at_1_ms["90%"] == dict(needed.select("latency_ms", "clients").iter_rows())[1.0]
    assert at_1_ms["80%"] < at_1_ms["90%"] < at_1_ms["95%"]
    for chart in (
        remote_wal.model_chart(found.study, slow, "threads"),
        remote_wal.decision_chart(slow, "threads"),
        remote_wal.needed_chart(slow, "threads"),
    ):
        assert "NaN" not in json.dumps(chart.to_dict())


def test_too_few_points_have_no_model(measured):
    few = {curve: {2: points[2], 4: points[4]} for curve, points in list(CURVES.items())[:2]}
    assert (
        remote_wal.slow_log(rerun(measured(few, study=remote_wal.STUDY), study=remote_wal.STUDY))
        is None
    )


def test_variants_with_and_without_full_pages_stand_side_by_side(found):
    (row,) = remote_wal.full_pages(found).rows(named=True)
    assert (row["engine"], row["with"], row["without"]) == (
        "PostgreSQL",
        "sync_standby",
        "sync_no_full_pages",
    )
    assert row["without : with"] == 1.5


def test_published_classes_add_up_to_all_writes():
    found = remote_wal.wal_classes(REPO)
    assert found["writes"].sum() == 2970589  # as the article's WAL tables have it
    shares = found.group_by("workload", "concurrency").agg(pl.col("share").sum())
    assert np.allclose(shares["share"], 1)
    assert set(found["class"]) == {*log_writes.CLASSES, log_writes.LAST_CLASS}
    within_2_ms = found.filter(pl.col("position") < 2, workload="oltp_insert", concurrency=16)[
        "share"
    ].sum()
    assert within_2_ms == pytest.approx((276873 + 11734) / 289156)


def test_correlations_are_of_curves_with_enough_points(found):
    table = remote_wal.correlations(found)
    assert set(table["curve"]) == {
        "PostgreSQL alone, local",
        "PostgreSQL alone, remote",
    }
    assert set(table["n"]) == {5}
    assert set(table["metric"]) >= {"wal_bytes_per_s", "wal_bytes_per_write"}


def test_the_trace_agrees_with_the_counters_where_it_is_within_a_twentieth():
    ratios = pl.DataFrame(
        {"writes": [1.04, 0.96, 1.06], "syncs": [1.0, 1.0, 0.9], "time": [0.94, 1.2, 0.5]}
    )
    found = log_writes.agreement(ratios)
    assert found == {"points": 3, "tolerance": 0.05, "writes": 2, "syncs": 2, "time": 0}
