"""Interventions: the schedule, what its blocks show, and what is said where they show too little."""

import json
from collections import Counter

import polars as pl
import pytest
from benchlab.attribution import blocks, elasticity
from benchlab.attribution.elasticity import Answer
from benchlab.drivers.sysbench import output as sysbench_output
from benchlab.errors import ParseError
from benchlab.run.schedule import Block, schedule
from benchlab.stats import Estimate
from benchlab.study.intervention import TRANSIENT_S, LimitBlocks
from benchlab.study.resources import LOWERED
from conftest import DATA
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

#: A run of PostgreSQL's write_only: two resources, four blocks of 4 s each, recorded.
RECORDED = (DATA / "intervene" / "blocks.jsonl").read_text()
SECONDS = sysbench_output.intervals((DATA / "intervene" / "sysbench.txt").read_text())
REQUESTED = LimitBlocks(resources=("cpu", "write_bandwidth"), block_s=4, blocks=4)
LATE_S = 0.06  # as its record says

INTERVENTIONS = st.builds(
    LimitBlocks,
    resources=st.lists(st.sampled_from(list(LOWERED)), min_size=1, unique=True).map(tuple),
    factor=st.floats(0.1, 0.9),
    block_s=st.integers(3, 20),
    blocks=st.integers(1, 12),
)


# The schedule


@given(requested=INTERVENTIONS, seed=st.integers(0, 2**31))
def test_every_resource_is_lowered_as_often_with_a_baseline_between(requested, seed):
    order = schedule(requested, seed)
    baseline = Block(None, 1.0, requested.block_s)
    assert order[::2] == [baseline] * (len(order) // 2 + 1)
    lowered = order[1::2]
    assert Counter(lowered) == {
        Block(one, requested.factor, requested.block_s): requested.blocks
        for one in requested.resources
    }
    size = len(requested.resources)
    for at in range(0, len(lowered), size):
        assert {block.resource for block in lowered[at : at + size]} == set(requested.resources)
    assert sum(block.duration_s for block in order) == requested.duration_s
    assert order == schedule(requested, seed)


def test_the_order_is_another_with_another_seed():
    requested = LimitBlocks(block_s=3, blocks=4)
    orders = {tuple(schedule(requested, seed)) for seed in range(20)}
    assert len(orders) == 20


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"factor": 0}, "greater than 0"),
        ({"factor": 1}, "less than 1"),
        ({"block_s": TRANSIENT_S + 1}, "greater than or equal to"),
        ({"block_s": 3.5}, "integer"),
        ({"blocks": 0}, "greater than 0"),
        ({"resources": ()}, "at least 1"),
        ({"resources": ("cpu", "cpu")}, "twice"),
        ({"resources": ("memory",)}, "'write_bandwidth', 'write_iops'"),
        ({"resource": ("cpu",)}, "unknown key 'resource'"),
    ],
)
def test_an_intervention_that_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(ValidationError, match=said):
        LimitBlocks(**{"block_s": 4, "blocks": 2} | wrong)


def test_without_an_envelope_the_cpu_alone_can_be_lowered():
    requested = LimitBlocks(block_s=4, blocks=2)
    assert requested.within(True) == requested
    assert requested.within(False).resources == ("cpu",)
    assert LimitBlocks(resources=("read_iops",), block_s=4, blocks=2).within(False) is None


# What the agent printed


def test_recorded_blocks_are_rows():
    found = blocks.blocks(RECORDED)
    planned = schedule(REQUESTED, 1)
    assert len(found) == len(planned)
    assert found["number"].to_list() == list(range(17))
    assert found["resource"][::2].is_null().all()
    names = ["CPU", "disk write bandwidth"]
    assert sorted(found["resource"][1::2].to_list()) == sorted(names * 4)
    cpu = found.filter(resource="CPU")
    assert set(cpu["in_force"]) == {2.0}
    assert set(cpu["lowered_to"]) == {1.6}
    assert set(cpu["factor"]) == {0.8}
    assert (found["end_s"] > found["begin_s"]).all()


@given(end=st.integers(0, len(RECORDED)))
def test_blocks_cut_anywhere_are_those_that_are_whole(end):
    found = blocks.blocks(RECORDED[:end])
    whole = blocks.blocks(RECORDED)
    assert len(found) == max(0, RECORDED[:end].count("\n") - 1)
    assert found.equals(whole.head(len(found)))


def changed(line: int, **changes: object) -> str:
    lines = RECORDED.splitlines()
    lines[line] = json.dumps(json.loads(lines[line]) | changes)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not JSON\n", "line 1: no block"),
        ("[1]\n", "line 1: no block"),
        ('{"header": {}}\n', "line 1: no block: KeyError: 'limits'"),
        (changed(2, limit="memory"), "line 3: no block: KeyError: 'memory'"),
        (changed(2, value=None), "line 3: no block: TypeError"),
        (changed(2, end_s=1.0), "line 3: no block: ValueError: it ends before it begins"),
        (changed(1, end_s=2e9), "line 3: the block begins before the one before it ends"),
    ],
)
def test_what_the_agent_does_not_print_is_refused_with_its_line(text, said):
    with pytest.raises(ParseError, match=said):
        blocks.blocks(text)


# What the blocks show


def run(requested: LimitBlocks, tps: dict[str | None, float], late_s: float = 0.0) -> tuple:
    """Blocks and seconds of a run in which throughput follows at once, and whole seconds are in step.

    The first second of every block shows another throughput, which must not count.
    """
    rows, seconds, at = [], [], 1000.0 + late_s
    for number, block in enumerate(schedule(requested, seed=1)):
        name = LOWERED[block.resource].name if block.resource else None
        rows.append((number, name, block.factor, None, None, at, at + block.duration_s))
        seconds += [1e9] + [tps[block.resource]] * (block.duration_s - 1)
        at += block.duration_s
    seconds += [tps[None]] * 2  # the run goes on
    frame = pl.DataFrame(rows, schema=blocks.SCHEMA, orient="row")
    return frame, pl.DataFrame({"second": range(1, len(seconds) + 1), "tps": seconds})


@given(requested=INTERVENTIONS, late_s=st.floats(0, 0.15))
def test_seconds_behind_the_transient_count_and_no_others(requested, late_s):
    tps = dict.fromkeys((None, *requested.resources), 100.0)
    found = elasticity.block_throughput(*run(requested, tps, late_s), late_s)
    assert set(found["seconds"]) == {requested.block_s - TRANSIENT_S}
    assert set(found["tps"]) == {100.0}


def test_blocks_that_begin_between_two_seconds_have_one_less():
    requested = LimitBlocks(resources=("cpu",), block_s=5, blocks=1)
    found = elasticity.block_throughput(*run(requested, {None: 1.0, "cpu": 1.0}, 0.5), 0.5)
    assert set(found["seconds"]) == {5 - TRANSIENT_S - 1}
    # a whole second later they are in step again
    found = elasticity.block_throughput(*run(requested, {None: 1.0, "cpu": 1.0}, 1.05), 1.05)
    assert found["seconds"].to_list() == [4, 4, 4]


@given(requested=INTERVENTIONS)
def test_the_limit_that_throughput_follows_binds_and_no_other(requested):
    binding, *others = requested.resources
    tps = dict.fromkeys((None, *others), 100.0) | {binding: 100.0 * requested.factor}
    found = elasticity.elasticities(
        elasticity.block_throughput(*run(requested, tps)), requested, enforced=True
    )
    assert len(found) == len(requested.resources)
    for row in found.iter_rows(named=True):
        assert row["blocks"] == requested.blocks
        binds = row["resource"] == LOWERED[binding].name
        assert row["elasticity"] == pytest.approx(1.0 if binds else 0.0, abs=1e-9)
        if requested.blocks < 3:
            assert (row["answer"], row["reason"]) == (Answer.UNCLEAR, "too few blocks")
        else:
            assert row["answer"] == (Answer.BINDS if binds else Answer.DOES_NOT)
            assert row["reason"] is None


def elasticities(text: str) -> dict[str, dict]:
    found = blocks.blocks(text)
    rows = elasticity.elasticities(
        elasticity.block_throughput(found, SECONDS, LATE_S), REQUESTED, enforced=True
    )
    return rows.rows_by_key("resource", named=True, unique=True)


def test_a_recorded_run():
    found = elasticities(RECORDED)
    assert list(found) == ["disk write bandwidth", "CPU"]
    assert found["disk write bandwidth"]["elasticity"] == pytest.approx(1.12, abs=0.01)
    assert found["CPU"]["elasticity"] == pytest.approx(0.15, abs=0.01)


@pytest.mark.parametrize("lines", range(1, 18))
def test_a_run_that_was_cut_says_less_and_never_more(lines):
    whole, cut = elasticities(RECORDED), elasticities("".join(RECORDED.splitlines(True)[:lines]))
    assert cut.keys() == whole.keys()
    for name, row in cut.items():
        assert row["blocks"] <= whole[name]["blocks"]
        if row["blocks"] < 3:
            assert row["answer"] == Answer.UNCLEAR
            assert row["low"] is None


def test_a_limit_that_is_not_in_force_is_not_testable():
    requested = LimitBlocks(block_s=4, blocks=4).within(False)
    tps = {None: 100.0, "cpu": 80.0}
    found = elasticity.elasticities(
        elasticity.block_throughput(*run(requested, tps)), requested, enforced=False
    )
    said = dict(found.select("resource", "answer").iter_rows())
    assert said.pop("CPU") == Answer.BINDS
    assert set(said.values()) == {Answer.NOT_TESTABLE}
    assert len(said) == 4
    assert set(found.filter(answer=Answer.NOT_TESTABLE)["reason"]) == {"no limit is in force"}


def test_a_load_that_stood_still_says_nothing():
    requested = LimitBlocks(resources=("cpu",), block_s=4, blocks=4)
    (row,) = elasticity.elasticities(
        elasticity.block_throughput(*run(requested, {None: 0.0, "cpu": 0.0})),
        requested,
        enforced=True,
    ).rows(named=True)
    assert (row["answer"], row["reason"]) == (Answer.UNCLEAR, "no throughput")
    assert row["elasticity"] is None


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.8, 1.2, Answer.BINDS),
        (0.55, 3.0, Answer.BINDS),
        (1.3, 1.8, Answer.MORE_THAN_PROPORTIONAL),
        (-0.3, 0.4, Answer.DOES_NOT),
        (-3.0, 0.1, Answer.DOES_NOT),
        (0.25, 0.7, Answer.IN_PART),
        (0.0, 1.0, Answer.UNCLEAR),
        (0.3, 0.9, Answer.UNCLEAR),
        (None, None, Answer.UNCLEAR),
    ],
)
def test_an_answer_is_what_the_whole_interval_says(low, high, said):
    assert elasticity.answer(Estimate(0.5, low, high, 4)) == said
