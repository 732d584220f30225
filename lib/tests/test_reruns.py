"""The verdicts of other reruns, and whether a rerun agrees with them."""

import shutil

import pytest
from benchlab.claims import reruns
from benchlab.claims.judge import judge
from benchlab.raw.record import OUT_OF_MEMORY
from benchlab.report import agreement, reference
from benchlab.report.sections import Source
from benchlab.store import open_any, open_store
from conftest import STUDY, rerun, set_claims

INSERT, TUNED = ("postgres", "default", "oltp_insert"), ("postgres", "tuned", "oltp_insert")
PLAIN = {16: [100.0, 101.0, 102.0]}
STRONG = {INSERT: PLAIN, TUNED: {16: [400.0, 404.0, 408.0]}}
WEAK = {INSERT: PLAIN, TUNED: {16: [101.0, 102.0, 103.0]}}


def above(by: float, engine: str = "postgres") -> dict:
    """The test of a claim that tuning gains more than a factor."""
    curves = {"engine": engine, "workload": "oltp_insert"}
    return {
        "test": "above",
        "of": {**curves, "variant": "tuned"},
        "over": {**curves, "variant": "default"},
        "at": [64],  # 16 here
        "by": by,
    }


@pytest.fixture
def replaced(checkout, measured):
    """The reference's rerun, of a strong effect, is replaced by one of no effect; returns this one."""
    set_claims(checkout, [above(2), above(0.5), above(2, "tidb")])
    measured(STRONG).close()
    with open_store(checkout.store) as own:
        reruns.record_replaced(checkout, own)  # there is no reference yet
        reference.take(own, checkout.reference)
        reruns.record_replaced(checkout, own)  # the same runs: it is continued, not replaced
    assert not checkout.reruns.exists()
    shutil.rmtree(checkout.raw)
    shutil.rmtree(checkout.store)
    measured(WEAK).close()
    with open_store(checkout.store) as own:
        reruns.record_replaced(checkout, own)
        yield rerun(own)


def compared(checkout, now, shipped=None):
    """Compare a rerun with the others; returns the summary, and the verdicts that differ."""
    own = reruns.judged(now, judge(checkout, STUDY, now))
    others = agreement.others(checkout, now, shipped)
    return agreement.summary(own, others), agreement.differing(own, others)


def test_a_rerun_is_compared_with_the_one_that_it_replaced(checkout, replaced):
    summary, differing = compared(checkout, replaced)
    (row,) = summary.to_dicts()
    day = row.pop("other rerun begun")
    assert row == {
        "its CPU": "",  # its recorded host has no speed
        "its runs": 6,
        "tested by one": 0,
        "tested by both": 2,  # there is no TiDB
        "agree": 1,
        "same verdict": 1,
        "opposite": 1,
    }
    (other,) = differing.to_dicts()
    assert other["here"].startswith("not reproduced: 1.01 (")
    assert other["there"].startswith("reproduced: 4.00 (")
    assert other["agree"] == "no"
    assert other["other rerun begun"] == day


def test_a_rerun_is_compared_with_the_reference(checkout, replaced):
    checkout.reruns.unlink()
    with open_any(checkout.reference) as shipped:
        another = Source(checkout, replaced, shipped).shipped
        summary, _ = compared(checkout, replaced, another)
        same = rerun(shipped)
        itself, _ = compared(checkout, same, Source(checkout, same, shipped).shipped)
    assert summary["opposite"].to_list() == [1]
    assert itself.is_empty()


def test_a_claim_whose_test_has_changed_is_not_compared(checkout, replaced):
    set_claims(checkout, [above(3), above(0.5)])
    summary, differing = compared(checkout, rerun(replaced.store))
    assert summary["tested by both"].to_list() == [1]
    assert differing.is_empty()


def test_every_replaced_rerun_is_recorded(checkout, replaced, measured):
    reference.take(replaced.store, checkout.reference)
    shutil.rmtree(checkout.raw)
    shutil.rmtree(checkout.store)
    measured(STRONG).close()
    with open_store(checkout.store) as own:
        reruns.record_replaced(checkout, own)
        summary, _ = compared(checkout, rerun(own))
    assert summary["same verdict"].to_list() == [2, 1]


def test_a_rerun_that_ran_out_of_memory_as_claimed_is_compared(checkout, measured):
    engine, variant, workload = TUNED
    of = {"engine": engine, "variant": variant, "workload": workload}
    set_claims(checkout, [{"test": "out_of_memory", "of": of, "at": 64}, above(2)])
    store = measured({TUNED: {16: [None, None]}, INSERT: PLAIN})
    store.connection.execute("UPDATE run SET error = ?", [OUT_OF_MEMORY])
    found = reruns.judged(now := rerun(store), judge(checkout, STUDY, now))
    assert [one.verdict for one in found.verdicts] == ["reproduced"]


def test_a_rerun_is_recorded_once_and_not_compared_with_itself(checkout, replaced):
    checkout.reruns.unlink()
    for _ in range(2):
        reruns.record(checkout, [(replaced, judge(checkout, STUDY, replaced))])
    assert checkout.reruns.read_text().count(f"{STUDY},") == 2  # a row for each of its claims
    assert compared(checkout, replaced)[0].is_empty()
    with open_any(checkout.reference) as shipped:
        summary, _ = compared(checkout, rerun(shipped))
    assert summary["opposite"].to_list() == [1]


def test_a_recorded_number_is_compared(checkout, measured):
    """The claim is that of an effect above 1; in one of the reruns few trials leave it open."""
    set_claims(checkout, [above(1)])
    level = {INSERT: PLAIN, TUNED: {16: [110.0, 111.0, 112.0]}}
    now = rerun(measured(level))
    reruns.record(checkout, [(now, judge(checkout, STUDY, now))])
    shutil.rmtree(checkout.raw)
    shutil.rmtree(checkout.store)
    few = rerun(measured({INSERT: {16: [100.0, 101.0]}, TUNED: {16: [111.0]}}))
    summary, differing = compared(checkout, few)
    assert summary.select("agree", "same verdict").rows() == [(1, 0)]
    assert differing["agree"].to_list() == ["yes"]


def test_a_rerun_that_was_recorded_and_then_continued_is_not_compared_with_itself(
    checkout, measured
):
    set_claims(checkout, [above(2)])
    first = rerun(measured({INSERT: {16: [None, 101.0, 102.0]}, TUNED: STRONG[TUNED]}))
    reruns.record(checkout, [(first, judge(checkout, STUDY, first))])
    # only the trials that failed are repeated
    now = rerun(measured({INSERT: {16: [100.0]}}))
    assert now.last["started"].min() > first.last["started"].min()
    assert compared(checkout, now)[0].is_empty()
