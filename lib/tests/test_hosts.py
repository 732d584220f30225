"""What the paper says about the hosts of a rerun."""

from benchlab.report import hosts
from conftest import rerun
from test_speed import host

WRITES, INSERTS = (("postgres", "default", name) for name in ("oltp_write_only", "oltp_insert"))
RUNS = {WRITES: {16: [9, 10, 11]}, INSERTS: {16: [99, 100, 101]}}


def test_one_host_takes_no_table(measured):
    found = rerun(measured(RUNS, also=lambda _: host("a", 1e6)))
    assert hosts.table(found).is_empty()
    assert hosts.first(found) == {"cpu_model": "A", "cores": 2, "memory_gib": 16, "kernel": None}


def test_hosts_of_two_speeds_are_told_by_workload(measured):
    def also(trial):
        return host("b", 2e6) if INSERTS[-1] in trial.point.curve else host("a", 1e6)

    found = rerun(measured(RUNS, also=also))
    told = hosts.table(found)
    assert told.select("workload", "CPU", "memory (GiB)", "copying memory (µs)").rows() == [
        ("oltp_write_only", "A", 16.0, 1000),
        ("oltp_insert", "A", 16.0, 2000),
    ]
    assert told["runs"].sum() == found.counted.height
