"""An asynchronous standby beside a synchronous one, on runs that were made up."""

import json

import polars as pl
import pytest
from benchlab.plan import Trial
from benchlab.repo import Repo
from benchlab.report import standbys
from benchlab.studies import remote_wal
from conftest import CAPTURES, ROOT, rerun

UPDATES = "oltp_update_non_index"
CURVES = {
    ("postgres", "sync_standby", UPDATES): {4: [1000.0, 1010.0], 64: [3000.0, 3030.0]},
    ("postgres", "async_standby", UPDATES): {4: [1500.0, 1515.0], 64: [2700.0]},
    ("postgres", "sync_standby", "oltp_point_select"): {64: [9000.0] * 2},
}


def captured(trial: Trial) -> dict[str, bytes]:
    """A sync takes 2 ms; half of all sessions wait for a standby that is synchronous."""
    waits = [("Client", "ClientRead", 1), ("LWLock", "WALWrite", 3)]
    if trial.point.variant == "sync_standby":
        waits.append(("IPC", "SyncRep", 4))
    sessions = [
        {
            "backend_type": "client backend",
            "state": "active",
            "wait_event_type": kind,
            "wait_event": event,
            "sessions": count,
        }
        for kind, event, count in waits
    ]
    begun = json.loads(CAPTURES["sample.jsonl"].decode().splitlines()[-1])["t"]
    counters = {"pg_stat_wal.wal_sync": 0.0, "pg_stat_wal.wal_sync_time": 0.0}
    return {
        "counters-begin.json": json.dumps(counters).encode(),
        "counters-end.json": json.dumps(
            {"pg_stat_wal.wal_sync": 500.0, "pg_stat_wal.wal_sync_time": 1000.0}
        ).encode(),
        "waits.jsonl": json.dumps({"t": begun, "sessions": sessions}).encode() + b"\n",
    }


@pytest.fixture
def found(measured):
    return rerun(measured(CURVES, study=remote_wal.STUDY, also=captured), study=remote_wal.STUDY)


def test_ratios_stand_beside_the_articles(found):
    few, many = standbys.ratios(Repo(ROOT), found).rows(named=True)
    assert (few["concurrency"], few["sync"], few["async"], few["ratio"]) == (4, 1005, 1508, 1.5)
    assert few["low"] < 1.5 < few["high"]
    assert (many["concurrency"], many["ratio"], many["low"]) == (64, 0.9, None)
    # its table at 32 and 512 threads
    article = remote_wal.published.read(Repo(ROOT), remote_wal.STUDY, "throughput")
    for row, threads in ((few, 32), (many, 512)):
        at = article.filter(workload=UPDATES, concurrency=threads)
        by = dict(at.filter(engine="postgres").select("variant", "tps").iter_rows())
        assert row["article"] == round(by["async_standby"] / by["sync_standby"], 2)


def test_where_the_time_goes_is_known_of_workloads_with_both_standbys(found):
    rows = standbys.where(found)
    assert rows["curve"].unique(maintain_order=True).to_list() == [
        "PostgreSQL, sync_standby",
        "PostgreSQL, async_standby",
    ]
    assert len(rows) == 4
    assert set(rows["sync_us"]) == {2000}
    metrics = found.metrics.filter(variant="async_standby", concurrency=64)
    row = rows.filter(curve="PostgreSQL, async_standby", concurrency=64)
    syncs = 500 / metrics["measured_s"].item()
    assert row["transactions_per_sync"].item() == pytest.approx(2700 / syncs, rel=0.01)
    shares = rows.group_by("curve", maintain_order=True).agg(pl.col("for_log", "for_standby").max())
    assert shares.rows() == [
        ("PostgreSQL, sync_standby", 0.38, 0.5),
        ("PostgreSQL, async_standby", 0.75, 0.0),
    ]


@pytest.mark.parametrize(("standby", "is_shared"), [(0.1, False), (0.25, True), (0.4, False)])
def test_nodes_that_together_use_one_nodes_cores_shared_them(found, standby, is_shared):
    of_one = found.metrics["limit_cores"].max()
    cores = {"primary_cores": [0.3, 0.7], "standby_cores": [0.1, standby]}
    together = standbys.shared_cores(found, pl.DataFrame(cores).select(pl.all() * of_one))
    assert together == (pytest.approx(0.95 * of_one) if is_shared else None)
    assert standbys.shared_cores(found, standbys.where(found)) is None  # no capture has the cores


def test_without_an_asynchronous_standby_there_is_nothing_to_compare(measured):
    alone = {("remote_log", "local", "oltp_insert"): {4: [1000.0] * 2}}
    runs = rerun(measured(alone, study=remote_wal.STUDY), study=remote_wal.STUDY)
    assert standbys.ratios(Repo(ROOT), runs).is_empty()
    assert standbys.where(runs).is_empty()
