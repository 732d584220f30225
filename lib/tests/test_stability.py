"""Whether two reruns agree, and what `benchlab verdicts` and `benchlab noise` say."""

import shutil

import pytest
from benchlab import open as open_results
from benchlab import stats
from benchlab.claims import noise
from benchlab.claims.judge import Judgement
from benchlab.claims.stability import compare
from benchlab.stats import Estimate
from benchlab.study.claims import Claim
from conftest import STUDY, rerun

YES, NO, DEPENDS = "reproduced", "not reproduced", "depends"
OPEN, OUT = "inconclusive", "not testable here"


def verdicts(*given: str, found: str = "", number: Estimate | None = None) -> list[Judgement]:
    """One verdict each of the claims ``c0``, ``c1``, …, all with the same finding."""
    return [
        Judgement(
            "mine",
            Claim.model_validate(
                {
                    "id": f"c{at}",
                    "where": "here",
                    "claim": "So.",
                    "kind": "order",
                    "decided_by": {"test": "none", "needs": "more"},
                }
            ),
            verdict,
            found,
            number,
        )
        for at, verdict in enumerate(given)
    ]


#: verdicts of one rerun and of another → tested by both, agreeing, opposite, stable
CASES = {
    "the same": ([YES, NO, OPEN, OUT], [YES, NO, OPEN, OUT], 3, 3, 0, True),
    "one in twenty differs": ([YES] * 20, [YES] * 19 + [DEPENDS], 20, 19, 0, True),
    "one in ten differs": ([YES] * 10, [YES] * 9 + [DEPENDS], 10, 9, 0, False),
    "one is the opposite": ([YES] * 20, [YES] * 19 + [NO], 20, 19, 1, False),
    "tested by one": ([YES, OUT], [YES, YES], 1, 1, 0, True),
    "nothing tested": ([OUT], [OUT], 0, 0, 0, True),
}


@pytest.mark.parametrize("case", CASES)
def test_two_reruns_agree_or_not(case):
    first, second, tested, agreeing, opposite, stable = CASES[case]
    for one, other in ((first, second), (second, first)):
        found = compare(verdicts(*one), verdicts(*other))
        assert (len(found.pairs), found.agreeing, found.same) == (tested, agreeing, agreeing)
        assert (found.opposite, found.is_stable) == (opposite, stable)
        assert found.tested_once == (1 if {*first} != {*second} and OUT in first + second else 0)


@pytest.mark.parametrize(
    ("here", "there", "agrees"),
    [
        ({"number": Estimate(1.6, 1.4, 1.8, 3)}, {"number": Estimate(1.7, 0.9, 3, 3)}, True),
        ({"number": Estimate(1.6, 1.4, 1.8, 3)}, {"number": Estimate(1.1, 0.9, 1.3, 3)}, False),
        ({"number": Estimate(1.6, 1.4, 1.8, 3)}, {"number": Estimate(1.1, None, None, 1)}, True),
        ({"found": "CPU of the engine"}, {"found": "CPU of the engine"}, True),
        ({"found": "CPU of the engine"}, {"found": "commit latency"}, False),
    ],
)
def test_what_is_open_in_one_rerun_only_agrees_if_both_found_the_same(here, there, agrees):
    for verdict in (YES, NO, DEPENDS):
        found = compare(verdicts(verdict, **here), verdicts(OPEN, **there))
        assert (found.agreeing, found.same) == (agrees, 0)
    # a decision for and one against it never agree
    found = compare(verdicts(YES, **here), verdicts(NO, **there))
    assert (found.agreeing, found.opposite) == (0, 1)


def test_a_claim_that_one_rerun_lacks_is_not_compared():
    assert len(compare(verdicts(YES, NO), verdicts(YES)).pairs) == 1


INSERT, TUNED = ("postgres", "default", "oltp_insert"), ("postgres", "tuned", "oltp_insert")
#: The tuning as strong as the article says, and as good as none.
PLAIN = {4: [50.0, 51.0, 52.0], 256: [100.0, 101.0, 102.0]}
STRONG = {INSERT: PLAIN, TUNED: {4: [225.0, 229.5, 234.0], 256: [450.0, 454.5, 459.0]}}
WEAK = {INSERT: PLAIN, TUNED: {4: [50.0, 51.0, 52.0], 256: [101.0, 102.0, 103.0]}}


def test_verdicts_are_shown_stored_and_compared(checkout, measured, benchlab, tmp_path):
    measured(STRONG).close()
    code, said, _ = benchlab(f"verdicts {STUDY}")
    assert code == 0
    assert f"{STUDY}: 2 reproduced, 1 not reproduced, 0 depends, 1 inconclusive" in said
    assert "10 of 10 audits, which need no run, contradict the article" in said
    kept = tmp_path / "kept"
    shutil.copytree(checkout.store, kept)
    code, said, _ = benchlab(f"verdicts {STUDY} --against {kept}")
    assert (code, said.splitlines()[-1]) == (
        0,
        "the two reruns agree on 4 of the 4 claims that both tested; 4 have the same verdict in both,"
        " 0 more were tested by one",
    )
    folder = tmp_path / "exported"
    assert benchlab(f"export {folder}")[0] == 0
    with open_results(str(folder)) as lab:
        assert lab.sql("SELECT count(*) AS n FROM verdict")["n"].item() > 100
        stored = lab.sql("SELECT verdict FROM verdict WHERE claim = 'postgres_insert_gain'")
    assert stored["verdict"].to_list() == [YES]


def test_verdicts_of_other_runs_are_shown_where_there_are_no_own_ones(
    checkout, measured, benchlab, tmp_path
):
    measured(STRONG).close()
    kept = tmp_path / "kept"
    shutil.copytree(checkout.store, kept)
    shutil.rmtree(checkout.raw)
    shutil.rmtree(checkout.store)
    code, said, _ = benchlab(f"verdicts {STUDY}")
    assert code == 0
    assert said.startswith("no runs yet; `--source reference` shows")
    code, said, _ = benchlab(f"verdicts {STUDY} --source {kept}")
    assert code == 0
    assert said.startswith(f"{STUDY}: 2 reproduced, 1 not reproduced, ")
    code, _, reason = benchlab(f"verdicts {STUDY} --against {kept}")
    assert code == 1
    assert "cannot be compared: no claim was tested by both" in reason


def test_a_claim_is_shown_with_everything_that_its_verdict_rests_on(checkout, measured, benchlab):
    measured(STRONG).close()
    code, said, _ = benchlab(f"verdicts {STUDY} --why postgres_insert_gain")
    assert code == 0
    for found in (
        "reproduced",
        "4.50 (",
        "round 2, oltp_insert",
        "2 cores, 1 GiB",
        "8 cores, 32 GiB",
    ):
        assert found in said
    for value in (value for curve in STRONG.values() for of in curve.values() for value in of):
        assert f"{value:.4g}" in said
    assert benchlab(f"verdicts {STUDY} --why three_updates")[0] == 0  # an audit has no runs
    code, _, reason = benchlab("verdicts --why nosuch")
    assert code == 1
    assert "unknown claim 'nosuch'" in reason


def test_another_verdict_is_named_and_fails(checkout, measured, benchlab, tmp_path):
    measured(STRONG).close()
    kept = tmp_path / "kept"
    shutil.copytree(checkout.store, kept)
    shutil.rmtree(checkout.raw)
    shutil.rmtree(checkout.store)
    measured(WEAK).close()
    code, said, reason = benchlab(f"verdicts {STUDY} --against {kept}")
    assert code == 1
    assert f"{STUDY} postgres_insert_gain: inconclusive (1.01 (" in said
    assert "); there: reproduced (4.50 (" in said
    assert "benchlab: the two reruns differ: they agree on 50% of the claims" in reason


def test_noise_is_that_of_the_trials(measured):
    at_16 = {curve: {16: trials[256]} for curve, trials in STRONG.items()}
    store = measured(at_16 | {("oceanbase", "tuned", "oltp_write_only"): {16: [7.0]}})
    found = noise.table(rerun(store)).rows_by_key("variant", named=True, unique=True)
    assert set(found) == {"default", "tuned"}  # a point with one trial says nothing
    wanted = stats.noise_floor([(100.0, 101.0)])
    assert (found["default"]["pairs"], found["default"]["noise"]) == (1, round(wanted.value, 3))
    assert found["default"]["trials_for_2%"] >= found["default"]["trials_for_10%"] >= 2


def test_without_two_trials_there_is_no_noise(measured, benchlab):
    measured({INSERT: {16: [100.0]}}).close()
    code, _, reason = benchlab(f"noise {STUDY}")
    assert code == 1
    assert "no point of postgres_vs_tidb has two trials in profile standard" in reason
