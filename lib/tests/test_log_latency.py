"""How long writes of an engine's log take: what the agent probes and traces, and what is read of it.

The trace is of PostgreSQL 15 whose log lay on a slow disk, updates by 32 clients, on a lab; the
standby is that of another run there, with 16.
"""

import gzip
import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from benchlab.agent import log_latency
from benchlab.agent.config import AgentError
from benchlab.errors import ParseError
from benchlab.observers import log_probe, log_trace, replication
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parent / "data" / "log_trace"
TRACE = gzip.decompress((RECORDED / "remote_update_32.json.gz").read_bytes()).decode()
COUNTERS = json.loads((RECORDED / "counters.json").read_text())


def counted(name: str) -> float:
    return COUNTERS["end"][f"pg_stat_wal.{name}"] - COUNTERS["begin"][f"pg_stat_wal.{name}"]


def test_the_trace_agrees_with_the_servers_own_counters():
    begin, end = COUNTERS["measure"]
    rows = log_trace.samples(TRACE).filter(pl.col("t").is_between(begin + 1, end))
    seconds = rows["t"].n_unique()
    scale = (end - begin) / seconds

    def traced(metric: str, call: str | None = None) -> float:
        chosen = rows.filter(metric=metric)
        return scale * (chosen.filter(subject=call) if call else chosen)["value"].sum()

    assert traced("calls_per_s", "write") == pytest.approx(counted("wal_write"), rel=0.05)
    assert traced("calls_per_s", "sync") == pytest.approx(counted("wal_sync"), rel=0.05)
    time_us = 1e3 * (counted("wal_write_time") + counted("wal_sync_time"))
    assert traced("us_per_s") == pytest.approx(time_us, rel=0.05)
    # pages are written whole, and again when they have filled up
    assert traced("bytes_per_s") > counted("wal_bytes")


def test_histograms_hold_the_calls_of_whole_seconds():
    begin, end = COUNTERS["measure"]
    found = log_trace.latencies(TRACE, begin, end)
    calls = log_trace.samples(TRACE).filter(
        pl.col("t").is_between(begin + 1, end), metric="calls_per_s"
    )
    per_call = dict(calls.group_by("subject").agg(pl.col("value").sum()).iter_rows())
    totals = dict(found.group_by("call").agg(pl.col("calls").sum()).iter_rows())
    assert totals == {call: int(count) for call, count in per_call.items()}
    assert totals["flush"] == pytest.approx(totals["sync"], rel=0.01)
    bounds = found.filter(pl.col("to_us").is_not_null())
    assert (bounds["to_us"] - bounds["from_us"]).unique().to_list() == [100]

    def mean(call: str) -> float:
        rows = found.filter(call=call)
        return (rows["from_us"] * rows["calls"]).sum() / rows["calls"].sum()

    # a flush has a write in it, too
    assert mean("write") < mean("sync") <= mean("flush")


def test_a_capture_cut_off_gives_what_is_whole():
    whole = log_trace.samples(TRACE)
    for cut in (len(TRACE) // 2, TRACE.rindex('"printf"') - 10):
        part = log_trace.samples(TRACE[:cut])
        assert part.equals(whole.head(len(part)))
        assert len(part) < len(whole)
    assert log_trace.samples("").is_empty()


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"type": "hist"}', '{"type": "printf", "data": "later"}']
)
def test_what_is_not_bpftraces_is_refused(line):
    first, rest = TRACE.split("\n", 1)
    with pytest.raises(ParseError, match="log_trace: line 2: not bpftrace's JSON"):
        log_trace.samples(f"{first}\n{line}\n{rest}")


@given(st.binary(max_size=200))
def test_no_text_does_more_than_be_refused(noise):
    text = noise.decode(errors="replace")
    with suppress(ParseError):
        assert log_trace.samples(text).is_empty()


def test_a_bucket_may_be_open():
    lines = [
        {"type": "printf", "data": "10.0\n"},
        {"type": "printf", "data": "11.0\n"},
        {"type": "hist", "data": {"@sync": [{"min": 9900, "max": 9999, "count": 0}]}},
        {"type": "hist", "data": {"@flush": [{"min": 10000, "count": 3}]}},
        {"type": "printf", "data": "12.0\n"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert log_trace.latencies(text, 9, 12).rows() == [("flush", 10000, None, 3)]


def test_seconds_that_were_printed_at_once_have_their_mean():
    """Recorded from bpftrace 0.17 while compilers used all cores: two seconds lack their ends."""
    text = gzip.decompress((RECORDED / "skipped_seconds.json.gz").read_bytes()).decode()
    skipped = 1795702682.094844
    text += json.dumps({"type": "printf", "data": f"{skipped + 1}\n"}) + "\n"
    rows = log_trace.samples(text).filter(pl.col("t").is_between(skipped - 2.5, skipped))
    synced = rows.filter(subject="sync", metric="calls_per_s").sort("t")
    assert [round(skipped - t) for t in synced["t"]] == [2, 1, 0]
    assert synced["value"].n_unique() == 1
    busy = rows.filter(subject="sync", metric="us_per_s")["value"].sum()
    assert busy == pytest.approx(2788751.253)  # @sync_ns of the three
    found = log_trace.latencies(text, skipped - 3, skipped).filter(call="sync")
    assert found["calls"].sum() == pytest.approx(synced["value"].sum())
    # an interval that began before the phase is not the phase's
    assert log_trace.latencies(text, skipped - 2.9, skipped).is_empty()


def test_lags_are_of_each_standby():
    found = replication.samples((RECORDED / "replication.jsonl").read_text())
    assert set(found["subject"]) == {"db2"}
    assert set(found["metric"]) == set(replication.METRICS)
    assert found.filter(metric="is_synchronous")["value"].unique().to_list() == [1.0]
    lags = found.pivot(on="metric", index="t", values="value")
    assert (lags["replay_lag_bytes"] >= lags["write_lag_bytes"]).all()
    of_slot = {"write_lag_bytes": 0, "flush_lag_bytes": 0, "replay_lag_bytes": 416}
    row = of_slot | {"standby": "db2", "is_synchronous": 1, "slot_kept_bytes": "832"}
    kept = replication.samples(json.dumps({"t": 1, "standbys": [row]}) + "\n")
    assert kept.filter(metric="slot_kept_bytes")["value"].to_list() == [832.0]
    with pytest.raises(ParseError, match="replication"):
        replication.samples('{"t": 1, "standbys": [{"standby": "db2"}]}\n')


def test_the_probe_is_read():
    (row,) = log_probe.samples((RECORDED / "log-probe.json").read_text()).rows(named=True)
    assert 1e5 < row["value"] < 1e7
    for text in ("", "{}", '{"t": 1}'):
        with pytest.raises(ParseError, match="log_probe"):
            log_probe.samples(text)


def test_the_probe_writes_where_the_log_is_and_leaves_nothing(tmp_path):
    slow, data = tmp_path / "slow", tmp_path / "data"
    slow.mkdir()
    data.mkdir()
    (data / "pg_wal").symlink_to(slow)
    engine = SimpleNamespace(engine="postgres", data_dir=data)
    said = log_latency.probe(engine, "pg_wal")
    assert log_probe.samples(json.dumps(said))["value"].item() > 0
    assert not list(slow.iterdir())
    with pytest.raises(AgentError, match=r"engine postgres: no folder .*/data/nosuch"):
        log_latency.probe(engine, "nosuch")


def test_without_bpftrace_nothing_is_traced(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = SimpleNamespace(engine="postgres", data_dir=tmp_path)
    with pytest.raises(AgentError, match="bpftrace is not installed on this host"):
        log_latency.trace(engine, "pg_wal")
