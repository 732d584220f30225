"""Runs during which the host was faster or slower than it usually was."""

import json

import polars as pl
import pytest
from benchlab.agent import speed as agent
from benchlab.errors import ParseError
from benchlab.gate.speed import apart, uneven
from benchlab.observers import speed
from benchlab.run.repeats import to_repeat
from conftest import MEASURED_PROFILE, STUDY, judged, planned, rerun

CURVE = ("postgres", "default", "oltp_write_only")
POINTS = {CURVE: {1: [10, 20, 30], 4: [11, 12, 13]}}


def speeds(
    *rows: tuple[str, str, float],
    cpu: str | None = "one",
    workload: str = "inserts",
    boot: str | None = None,
) -> pl.DataFrame:
    columns = {"run_id": pl.String, "node": pl.String, "value": pl.Float64}
    found = pl.DataFrame(rows, schema=columns, orient="row")
    return found.with_columns(
        pl.lit(value, pl.String).alias(name)
        for name, value in (("cpu_model", cpu), ("workload", workload), ("boot_id", boot))
    )


def on_two_hosts(reads: float, inserts: float) -> pl.DataFrame:
    """Three runs of two workloads each, on hosts that took so long."""
    return pl.concat(
        speeds(
            *((f"{name} {n}", "a", ns) for n in range(3)),
            cpu=f"{ns:g}",
            workload=name,
            boot=f"for {name}",
        )
        for name, ns in (("reads", reads), ("inserts", inserts))
    )


def captures(before_ns: float, after_ns: float) -> dict[str, bytes]:
    """What the agent prints before and after a load."""
    both = zip(speed.MOMENTS, (before_ns, after_ns), strict=True)
    return {
        speed.name(moment): json.dumps({"t": 0.5, "memory_copy_ns": ns}).encode()
        for moment, ns in both
    }


def host(boot_id: str, copy_ns: float) -> dict[str, bytes]:
    """What a run records of a host that is as fast before as after the load."""
    facts = {"cpu_model": "A", "cores": 2, "memory_bytes": 2**34, "boot_id": boot_id}
    return {"host.json": json.dumps(facts).encode()} | captures(copy_ns, copy_ns)


def test_a_run_is_held_against_the_median_of_the_others():
    found = uneven(speeds(*((f"r{n}", "a", 100.0 + n) for n in range(9)), ("s", "a", 140.0)))
    assert found.select("run_id", "check").rows() == [("s", "speed")]
    assert found["value"].item() == pytest.approx(140 / 104)


def test_the_faster_of_two_measurements_counts():
    usual = [(f"r{n}", "a", 100.0) for n in range(5)]
    found = uneven(speeds(*usual, ("busy after", "a", 101.0), ("busy after", "a", 180.0)))
    assert found.is_empty()
    found = uneven(speeds(*usual, ("slow", "a", 130.0), ("slow", "a", 180.0)))
    assert found["value"].to_list() == [1.3]


def test_a_host_is_held_against_itself():
    hosts = [(f"r{n}", node, ns) for n in range(5) for node, ns in (("a", 100.0), ("b", 300.0))]
    assert uneven(speeds(*hosts)).is_empty()
    found = uneven(speeds(*hosts, ("fast", "a", 100.0), ("fast", "b", 200.0)))
    assert found["run_id"].to_list() == ["fast"]
    assert found["value"].item() == pytest.approx(2 / 3)


def test_another_cpu_is_named():
    usual = speeds(*((f"r{n}", "a", 100.0) for n in range(5)), cpu="fast one")
    other = speeds(("s", "a", 180.0), cpu="slow one")
    found = uneven(pl.concat([usual, other]))["found"].item()
    on_it = (
        "copying memory took 1.8 times as long on its host as where most of its workload was run"
    )
    assert found == f"{on_it}; the CPU was slow one, and fast one there"
    unknown = speeds(("s", "a", 180.0), cpu=None)
    assert uneven(pl.concat([usual, unknown]))["found"].item() == on_it


def test_a_run_on_another_cpu_does_not_pass_however_fast_it_copies():
    usual = speeds(*((f"r{n}", "a", 100.0) for n in range(5)), cpu="one")
    other = speeds(("s", "a", 100.0), cpu="another")
    assert uneven(pl.concat([usual, other]))["run_id"].to_list() == ["s"]


def test_two_runs_that_differ_are_both_in_doubt():
    assert uneven(speeds(("x", "a", 100.0), ("y", "a", 129.0))).height == 2
    assert uneven(speeds(("x", "a", 100.0))).is_empty()


def test_a_run_is_held_against_its_workloads_host():
    two = on_two_hosts(100.0, 200.0)
    assert uneven(two).is_empty()
    elsewhere = speeds(("s", "a", 100.0), cpu="100", workload="inserts", boot="for reads")
    assert uneven(pl.concat([two, elsewhere])).select("run_id", "value").rows() == [("s", 0.5)]


def test_the_workloads_of_a_host_are_held_against_it_together():
    """The two runs of one workload do not tell which of them is unusual."""
    reads = speeds(*((f"r{n}", "a", 100.0) for n in range(5)), workload="reads", boot="b")
    inserts = speeds(("usual", "a", 101.0), ("slow", "a", 160.0), boot="b")
    both = pl.concat([reads, inserts])
    assert uneven(both)["run_id"].to_list() == ["slow"]
    assert apart(both, ["reads", "inserts"]) is None


def test_workloads_on_hosts_of_other_speeds_are_apart():
    found = on_two_hosts(100.0, 200.0)
    assert apart(found, ["reads", "inserts"]) == (
        "copying memory took 2.00 times as long on the host of inserts as on that of reads"
    )
    assert apart(found, ["reads"]) is None
    assert apart(found.clear(), ["reads", "inserts"]) is None
    similar = on_two_hosts(100.0, 103.0)
    assert apart(similar, ["reads", "inserts"]) == "reads ran on 100; inserts ran on 103"
    assert apart(similar.with_columns(cpu_model=pl.lit("one")), ["reads", "inserts"]) is None


def test_runs_without_measurements_pass():
    assert uneven(speeds()).columns == ["run_id", "check", "value", "found"]


def test_the_parser_reads_what_the_agent_says():
    said = agent.measured()
    (row,) = speed.samples(json.dumps(said)).rows(named=True)
    assert row["value"] == said["memory_copy_ns"] > 0
    assert (row["t"], row["observer"]) == (said["t"], "speed")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"t": 1}', '{"t": 1, "memory_copy_ns": null}'])
def test_anything_else_is_refused(text):
    with pytest.raises(ParseError, match="speed"):
        speed.samples(text)


def test_a_run_of_another_speed_does_not_count_and_is_run_once_more(measured, checkout):
    def also(trial):
        slow = trial.number == 2 and trial.point.concurrency == 4
        return captures(140e4, 150e4) if slow else captures(100e4, 101e4)

    rows = rerun(measured(POINTS, also=also))
    assert rows.gate.select("check", "found").rows() == [
        ("speed", "copying memory took 1.4 times as long as in the other runs on its host")
    ]
    assert sorted(rows.metrics["memory_copy_us"]) == [1000.0] * 5
    assert rows.metrics["valid"].all()
    plan = planned(checkout, STUDY, MEASURED_PROFILE)
    batches = to_repeat(checkout, "local", plan.batches, plan)
    again = [trial for batch in batches for trial in batch.trials]
    assert [(one.point.concurrency, one.number) for one in again] == [(4, 2)]


def test_a_claim_about_two_workloads_takes_hosts_of_one_speed(measured, checkout):
    """The claims about each of them stay testable."""
    writes, inserts = CURVE, ("postgres", "default", "oltp_insert")

    def also(trial):
        return host("b", 2e6) if inserts[-1] in trial.point.curve else host("a", 1e6)

    found = rerun(measured({writes: {16: [9, 10, 11]}, inserts: {16: [99, 100, 101]}}, also=also))
    assert found.gate.is_empty()
    of, over = ({"engine": "postgres", "workload": name} for name in (inserts[-1], writes[-1]))
    compared = judged(checkout, found, {"test": "above", "of": of, "over": over, "at": [64]})
    assert compared.verdict == "not testable here"
    assert compared.reason.startswith(
        "copying memory took 2.00 times as long on the host of oltp_i"
    )
    alone = {"test": "limit", "of": of, "at": [64], "least": 50, "unit": "/s"}
    assert judged(checkout, found, alone).verdict == "reproduced"
