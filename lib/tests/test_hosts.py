"""What the paper says about the hosts of a rerun."""

import pytest
from benchlab.report import hosts
from conftest import rerun
from test_speed import captures

WRITES, INSERTS = (("postgres", "default", name) for name in ("oltp_write_only", "oltp_insert"))
RUNS = {WRITES: {16: [9, 10, 11]}, INSERTS: {16: [99, 100, 101]}}


def test_one_host_takes_no_table(measured):
    found = rerun(measured(RUNS, also=lambda _: captures(1e6, 1e6)))
    assert hosts.table(found).is_empty()
    assert list(hosts.first(found)) == ["cpu_model", "cores", "memory_gib", "kernel"]


def test_hosts_of_two_speeds_are_told_by_workload(measured):
    def also(trial):
        slow = INSERTS[-1] in trial.point.curve
        return captures(*((2e6, 2.5e6) if slow else (1e6, 1e6)))

    found = rerun(measured(RUNS, also=also))
    told = hosts.table(found)
    shown = told.select("workload", "runs", "copying memory (µs)").rows()
    assert [(name, copying) for name, _, copying in shown] == [
        ("oltp_write_only", 1000),
        ("oltp_insert", 2000),
    ]
    assert sum(runs for _, runs, _ in shown) == found.counted.height
    first = hosts.first(found)
    assert told["CPU"].to_list() == [first["cpu_model"]] * 2
    assert told["memory (GiB)"][0] == pytest.approx(first["memory_gib"], abs=0.05)
