"""The gate: what a run must pass before a verdict uses it."""

import json
import threading

import numpy as np
import polars as pl
import pytest
from benchlab import study
from benchlab.drivers.tpcc.limits import LATENESS
from benchlab.gate import checks, steady
from benchlab.gate.checks import ALONE, CLIENT, OFFERED, ON_TIME, STEADY
from benchlab.observers import background
from benchlab.repo import Repo
from benchlab.run.until import Until
from benchlab.study.resources import CLIENT_CPU, ENGINE_CPU
from conftest import DATA, ROOT, STUDY
from hypothesis import given
from hypothesis import strategies as st

#: Curve → throughput of each second of a run that wrote for 200 s from the dataset on, at 16 clients.
RECORDED = json.loads((DATA / "seconds" / "write_runs.json").read_text())


#: What nothing is asked of that only writing brings about.
READS = {"writes": False, "cycles": None, "warmed_s": 0.0}


def unsteady(tps: list[float], **so: object) -> str | None:
    """Of a workload that writes, warmed up and over two cycles unless it is said otherwise."""
    return steady.unsteady(tps, **{"writes": True, "cycles": 2.0, "warmed_s": 40.0} | so)


@pytest.mark.parametrize(
    ("curve", "reason"),
    [
        # until the first checkpoint nothing is written but the log
        ("postgres-tuned-oltp_write_only", "settled to within 5% only after 12 of 200 s"),
        # until the kernel writes back what has been dirty for 30 s
        ("postgres-default-oltp_write_only", "settled to within 5% only after 40 of 200 s"),
        ("postgres-default-oltp_write_only-as_sold", None),
        # pages of its indexes are split, and changed for the first time since a checkpoint
        ("postgres-default-oltp_insert", "not settled to within 5% in 200 s"),
        ("oceanbase-tuned-oltp_insert", "not settled to within 5% in 200 s"),
    ],
)
def test_a_recorded_run_is_steady_or_is_told_why_not(curve, reason):
    assert unsteady(RECORDED[curve], cycles=8) == reason


@pytest.mark.parametrize(
    ("curve", "at_last"),
    [
        ("postgres-tuned-oltp_write_only", None),
        # its throughput grows slowly; over a shorter time that cannot be told from bursts
        ("postgres-default-oltp_write_only", "drifted by +16% in 160 s"),
    ],
)
def test_what_comes_after_a_warm_up_is_steady(curve, at_last):
    measured = RECORDED[curve][steady.WRITEBACK_S :]
    for seconds in (30, 60):
        assert unsteady(measured[:seconds]) is None
    assert unsteady(measured[:160]) == at_last


def test_inserts_are_steady_after_a_longer_warm_up():
    """As long as the study has it."""
    blocks = study.load(Repo(ROOT), STUDY).matrix
    (warmup_s,) = {one.warmup_s for one in blocks if one.warmup_s}
    inserts = RECORDED["postgres-default-oltp_insert"]
    assert unsteady(inserts[steady.WRITEBACK_S :], cycles=8)
    for seconds in (30, 60, 80):
        assert unsteady(inserts[warmup_s : warmup_s + seconds], cycles=8) is None


@pytest.mark.parametrize(
    ("per_minute", "reason"),
    [(1.0, None), (0.64, "drifted by -83% in 240 s"), (1.05, "drifted by +22% in 240 s")],
)
def test_dips_of_the_background_work_do_not_hide_a_drift(per_minute, reason):
    seconds = np.arange(240)
    dips = np.where(seconds % 10 < 3, 0.6, 1.0)
    assert unsteady(1000 * dips * per_minute ** (seconds / 60), **READS) == reason


@pytest.mark.parametrize(
    ("first", "last", "spanned"),
    [
        (7.25, 9.5, 2.25),  # as InnoDB's log goes round
        (4, 4, 0),
        (4, 5, 0),
        (4, 7, 2),  # three checkpoints have begun
    ],
)
def test_whole_counts_are_of_cycles_begun(first, last, spanned):
    assert steady.cycles_between(first, last) == spanned


@pytest.mark.parametrize(
    ("first", "second", "enough"), [(100, 104, True), (100, 106, False), (100, 94, False)]
)
def test_a_run_goes_on_while_its_halves_differ(first, second, enough):
    """The noise is such that no change of level can be detected."""
    noise = np.tile([0.8, 1.2], 10)
    tps = np.concatenate([first * noise, second * noise])
    assert steady.unsteady(tps, **READS) is None
    assert steady.may_end(tps, **READS) is enough


@pytest.mark.parametrize(
    ("seconds", "so", "reason"),
    [
        (6, READS, "6 s are too short to tell whether it was steady, which takes 12 s"),
        (30, READS, None),
        (30, {"cycles": None}, "the engine does not report its background work"),
        (30, {"cycles": 1.25}, "1.2 of 2 cycles of the engine's background work in 30 s"),
        (30, {"warmed_s": 2.3}, "warmed up for 2 s, where a workload that writes takes 40 s"),
        (30, {}, None),
    ],
)
def test_a_level_run_has_to_be_long_enough(seconds, so, reason):
    level = [100.0, 101.0, 99.0] * (seconds // 3)
    assert unsteady(level, **so) == reason


@given(st.integers(0, 2**16), st.integers(30, 120), st.floats(0.15, 3))
def test_a_run_whose_level_rises_by_more_than_its_noise_is_not_steady(seed, seconds, rise):
    noise = np.random.default_rng(seed).normal(0, 0.01, seconds)
    middle = np.arange(seconds) >= seconds // 2
    rising = 1000 * (1 + rise * middle) * (1 + noise)
    assert unsteady(rising.tolist(), **READS)


@pytest.mark.parametrize(
    ("seconds", "writes", "cycles", "warm"),
    [
        (4, False, None, False),
        (5, False, None, True),
        (39, True, 9.0, False),
        (40, True, 0.9, False),
        (40, True, 1.0, True),
        (40, True, None, True),  # how far it is nobody knows, and the run does not pass anyway
    ],
)
def test_a_warm_up_takes_its_time_and_a_cycle_of_what_writing_brings_about(
    seconds, writes, cycles, warm
):
    assert steady.is_warm(seconds, 5, writes, cycles) is warm


# What is worked out of a run's rows


def tables(
    *, tps: int = 100, seconds: int = 60, due: float | None = None, cycles: tuple[float, ...] = ()
) -> dict[str, pl.DataFrame]:
    """Rows of a run that is measured from 1,000 s on; cycles are reported every 10 s from 990 s on."""
    run = {
        "measure_begin": 1000.0,
        "measure_end": 1000.0 + seconds,
        "tps": 100.0,
        "rate_per_s": due,
    }
    phases = {
        "phase": ["warmup", "measure"],
        "begin_s": [959.5, 1e3],
        "end_s": [999.9, 1e3 + seconds],
    }
    interval = [
        {"phase": phase, "second": second + 1, "operation": operation, "tps": tps / 2}
        for phase, length in (("warmup", 5), ("measure", seconds))
        for second in range(length)
        for operation in ("a", "b")
    ]
    polled = [
        {
            "t": 990.0 + 10 * number,
            "observer": background.OBSERVER,
            "subject": background.SUBJECT,
            "metric": background.METRIC,
            "value": value,
        }
        for number, value in enumerate(cycles)
    ]
    schema = {"rate_per_s": pl.Float64}
    found = {
        "run": pl.DataFrame([run], schema_overrides=schema),
        "phase": pl.DataFrame(phases),
        "interval": pl.DataFrame(interval),
    }
    return found | ({"os_sample": pl.DataFrame(polled)} if polled else {})


def outcome(tables: dict[str, pl.DataFrame], check: str, writes: bool = False) -> tuple | None:
    """Whether a check was passed and what was found; ``None``: it does not apply."""
    found = checks.checks(tables, writes).filter(check=check)
    return found.select("passed", "found").row(0) if len(found) else None


def test_all_types_of_transactions_together_are_steady():
    assert outcome(tables(), STEADY) == (True, "no change of level by more than 5% in 60 s")


def test_cycles_count_from_the_last_answer_before_the_measured_part():
    cycles = (6, 7, 8, 9, 10, 10, 10, 10, 99)  # at 1,070 s it is over
    assert outcome(tables(cycles=cycles), STEADY, writes=True) == (
        True,
        "no change of level by more than 5% in 60 s and 2 cycles of the engine's background work",
    )
    late = tables(cycles=(7.0, 7.5, 8.0))
    assert outcome(late, STEADY, writes=True) == (
        False,
        "0.5 of 2 cycles of the engine's background work in 60 s",
    )


def test_an_open_loop_has_to_meet_its_rate():
    assert outcome(tables(), OFFERED) is None
    # of 6,240 that are due in 60 s, 240 fewer end: 3.04 standard deviations
    assert outcome(tables(due=104.0), OFFERED) == (False, "100 of 104 due per s")
    assert outcome(tables(due=103.9), OFFERED) == (True, "100 of 104 due per s")
    # the same share is no more than chance in a shorter run
    assert outcome(tables(due=104.0, seconds=30), OFFERED) == (True, "100 of 104 due per s")


@pytest.mark.parametrize(
    ("answer", "passed"), [("kept", True), ("undecided", True), ("broken", False)]
)
def test_terminals_have_to_send_on_time(answer, passed):
    assert outcome(tables(), ON_TIME) is None
    names, values = ["90th percentile", f"{LATENESS}, 99th percentile"], [1.0, 12.46]
    rule = pl.DataFrame({"check": names, "value": values, "n": [9, 9], "answer": ["kept", answer]})
    found = "99 % of the requests were sent less than 12.5 ms late"
    assert outcome(tables() | {"rule": rule}, ON_TIME) == (passed, found)
    assert outcome(tables() | {"rule": rule.with_columns(n=0)}, ON_TIME) is None


@pytest.mark.parametrize(
    ("binds", "confidence", "outcome_is"),
    [
        (CLIENT_CPU, 0.9, (False, "the load generator bound it")),
        (ENGINE_CPU, 0.9, (True, "the load generator did not bind it")),
        (None, 0.0, None),  # without samples it is not known
    ],
)
def test_the_load_generator_may_not_bind(binds, confidence, outcome_is):
    bound = [
        {"resource": name, "binds": name == binds, "utilisation": 0.9, "confidence": confidence}
        for name in (CLIENT_CPU, ENGINE_CPU)
    ]
    found = outcome(tables() | {"attribution": pl.DataFrame(bound)}, CLIENT)
    assert found == outcome_is


def on_nodes(
    cpu: dict[tuple[str, str], float], facts: dict[str, dict], seconds: int = 60
) -> dict[str, pl.DataFrame]:
    """Rows of a run on hosts with these facts; cores used by node and subject."""
    samples = pl.DataFrame(
        [
            {"node": node, "t": 1000.0 + second, "subject": subject, "value": cores * 1e6}
            for second in range(1, seconds)
            for (node, subject), cores in cpu.items()
        ]
    ).with_columns(observer=pl.lit("sample"), metric=pl.lit("cpu_us_per_s"))
    host = pl.DataFrame(
        [
            {"node": node, "fact": fact, "value": value}
            for node, of_node in facts.items()
            for fact, value in of_node.items()
        ]
    )
    return tables() | {"os_sample": samples, "host": host}


@pytest.mark.parametrize(
    ("busy", "kernel", "passed"), [(1.3, 0.0, True), (1.9, 0.0, False), (1.9, 0.6, True)]
)
def test_nobody_else_may_use_the_host(busy, kernel, passed):
    cpu = {"host": busy, "engine": 0.7, "client": 0.3, "kernel threads": kernel}
    of_one = on_nodes({("db", name): cores for name, cores in cpu.items()}, {"db": {"cores": "2"}})
    assert outcome(of_one, ALONE)[0] is passed


def test_a_sampler_that_ended_early_does_not_show_who_used_the_host():
    cpu = {("db", name): 0.5 for name in ("host", "engine", "client")}
    of_one = on_nodes(cpu, {"db": {"cores": "2"}}, seconds=40)
    assert outcome(of_one, ALONE) == (False, "the host's CPU was sampled in 40 of 60 s")


# Three hosts of a lab on a machine of two cores, as they were sampled: inserts by 64 clients, with a
# synchronous standby. Each host counts all of the machine.
LAB = {
    ("db1", "engine"): 0.808,
    ("db1", "host"): 1.330,
    ("db2", "engine"): 0.133,
    ("db2", "host"): 1.329,
    ("load1", "client"): 0.200,
    ("load1", "host"): 1.333,
}


def facts(**boots: str | None) -> dict[str, dict]:
    return {
        node: {"cores": "2"} | ({"boot_id": boot} if boot else {}) for node, boot in boots.items()
    }


def test_hosts_of_one_machine_count_as_one():
    one_machine = facts(db1="a", db2="a", load1="a")
    assert outcome(on_nodes(LAB, one_machine), ALONE) == (
        True,
        "9% of the host's CPU used by others than engine, load and kernel",
    )
    # somebody else uses half a core; or it is the kernel's threads, which all hosts see
    busy = LAB | {(node, "host"): 1.83 for node in one_machine}
    assert outcome(on_nodes(busy, one_machine), ALONE)[0] is False
    kernel = {(node, "kernel threads"): 0.5 for node in one_machine}
    assert outcome(on_nodes(busy | kernel, one_machine), ALONE)[0] is True


def test_of_several_machines_the_one_that_others_used_most_counts():
    apart = {
        ("db1", "engine"): 1.0,
        ("db1", "host"): 1.1,
        ("load1", "client"): 0.5,
        ("load1", "host"): 1.3,
    }
    found = outcome(on_nodes(apart, facts(db1="a", load1="b")), ALONE)
    assert found == (False, "40% of the host's CPU used by others than engine, load and kernel")


def test_whose_cpu_it_is_nobody_knows_where_nodes_do_not_say_which_machine_they_are():
    assert outcome(on_nodes(LAB, facts(db1="a", db2="a", load1=None)), ALONE) is None


# What ends a stage early


# Names as TiDB 6.0.0 prints them, and the label of 7.1.1; counts of oltp_read_only on a cached table.
@pytest.mark.parametrize(
    ("served", "fetched", "cached", "expected"),
    [
        (140_000, 12, "on", (True, "100% of the reads were from the cache")),
        (0, 20_000, "on", (False, "0% of the reads were from the cache")),
        (0, 0, "on", (False, "0% of the reads were from the cache")),
        (70_000, 70_000, "on", (False, "50% of the reads were from the cache")),
        (0, 20_000, "off", None),
    ],
)
def test_reads_of_a_cached_table_have_to_be_from_its_cache(served, fetched, cached, expected):
    counters = {
        "tidb.tidb_server_read_from_tablecache_total": served,
        'tidb.tidb_tikvclient_cop_duration_seconds_count{stale_read="false",store="1"}': fetched,
        'tidb.tidb_tikvclient_txn_cmd_duration_seconds_count{type="commit"}': 10_000,
        'tidb.tidb_tikvclient_txn_cmd_duration_seconds_count{scope="internal",type="get"}': 900_000,
    }
    of_run = tables() | {
        "engine_setting": pl.DataFrame({"name": ["table_cache"], "effective": [cached]}),
        "engine_counter": pl.DataFrame(
            {
                "name": [*counters, 'tidb.tidb_tikvclient_cop_duration_seconds_count{store="2"}'],
                "at_begin": [None, *[5] * 4],
                # a series may begin within the run, as the first, and end there, as the last
                "at_end": [served, *(5 + count for count in list(counters.values())[1:]), None],
            }
        ),
    }
    assert outcome(of_run, checks.CACHED) == expected
    # nobody may read the counters of an external server
    assert outcome(of_run | {"engine_counter": pl.DataFrame()}, checks.CACHED) is None


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (0.0, 0.0, (True, "100% of traced reads were from the cache")),
        (1.0, 0.0, (False, "50% of traced reads were from the cache")),
        (None, 1.0, (False, "0% of traced reads were from the cache")),
    ],
)
def test_traced_reads_tell_of_a_server_whose_counters_nobody_may_read(begin, end, expected):
    of_run = tables() | {
        "engine_setting": pl.DataFrame({"name": ["table_cache"], "effective": ["on"]}),
        "engine_counter": pl.DataFrame(
            {"name": ["traced_to_storage.sbtest1"], "at_begin": [begin], "at_end": [end]},
            schema_overrides={"at_begin": pl.Float64},
        ),
    }
    assert outcome(of_run, checks.CACHED) == expected


def second_of(line: str) -> tuple[int, float] | None:
    """A line is ``second tps``."""
    words = line.split()
    return (int(words[0]), float(words[1])) if len(words) == 2 else None


def test_a_stage_ends_once_when_the_seconds_of_all_its_processes_suffice():
    stopped, seen = threading.Event(), []

    def enough(tps: list[float]) -> bool:
        seen.append(list(tps))
        return len(tps) == 2

    def stop() -> None:
        assert not stopped.is_set()
        stopped.set()

    until = Until(2, second_of, enough, stop)
    for number, line in ((0, "1 10"), (0, "2 20"), (1, "ready"), (1, "1 1"), (1, "2 2")):
        until.line(number, line)
    assert stopped.wait(10)
    for number in (0, 1):
        until.line(number, "3 30")
    until.finish()
    assert seen[-1] == [11.0, 22.0]


def test_a_stage_that_has_ended_is_not_ended_again():
    asked, answer, stopped = threading.Event(), threading.Event(), []

    def enough(tps: list[float]) -> bool:
        asked.set()
        return answer.wait(10)

    until = Until(1, second_of, enough, lambda: stopped.append(True))
    until.line(0, "1 10")
    assert asked.wait(10)
    until.cancel()
    answer.set()
    until.finish()
    assert not stopped


def test_a_stage_that_cannot_be_ended_is_an_error():
    def fails() -> None:
        raise OSError("no such process")

    until = Until(1, second_of, lambda tps: True, fails)
    until.line(0, "1 10")
    with pytest.raises(OSError, match="no such process"):
        until.finish()


def test_a_run_in_which_nothing_ended_is_not_steady():
    assert unsteady([0.0] * 20, **READS) == "no transaction ended in 20 s"


@pytest.mark.parametrize(("tps", "enough"), [(3.0, False), (4.0, True)])
def test_a_run_of_few_transactions_goes_on(tps, enough):
    """30 s are too few for 100 of them, or enough."""
    assert steady.unsteady([tps] * 30, **READS) is None
    assert steady.may_end([tps] * 30, **READS) is enough
