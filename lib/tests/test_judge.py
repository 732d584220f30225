"""Verdicts, on runs whose numbers are set by hand."""

import shutil
from collections.abc import Collection, Mapping
from types import MappingProxyType

import pytest
from benchlab import study, target
from benchlab.claims import judge, stored
from benchlab.claims.foreseen import undecidable
from benchlab.errors import ClaimError, StoreError, StudyError, UnknownName
from benchlab.numbers import percent
from benchlab.plan import Trial
from benchlab.raw import record
from benchlab.report import verdicts, why
from benchlab.store import open_store
from benchlab.study.claims import ABSOLUTE
from conftest import (
    MEASURED_PROFILE,
    ROOT,
    STUDY,
    editable,
    planned,
    rerun,
    set_claims,
)

ONE = {"engine": "postgres", "variant": "tuned", "workload": "oltp_write_only"}
OTHER = ONE | {"variant": "default"}
TUNED, DEFAULT = tuple(ONE.values()), tuple(OTHER.values())


def around(value: float) -> list[float]:
    """Three trials that differ by 1 %."""
    return [value * 0.99, value, value * 1.01]


def curve(*values: float) -> dict[int, list[float]]:
    """Trials at 1, 4, 16 and 32 threads, which stand for the article's 4, 16, 64 and 128."""
    return {
        threads: around(value)
        for threads, value in zip((1, 4, 16, 32), values, strict=False)
        if value
    }


@pytest.fixture
def judged(checkout, measured):
    """Judge one claim by the runs: ``judged(test, runs)``; its kind is ``order`` unless given.

    All runs passed the gate but those at ``failed``: (variant, concurrency) and number of the trial.
    """

    def decide(
        test: dict, runs: dict, kind: str = "order", failed: Collection[tuple] = ()
    ) -> judge.Judgement:
        set_claims(checkout, [test], kind)

        def passed(trial: Trial) -> bool:
            point = trial.point
            return (point.variant, point.concurrency, trial.number) not in failed

        return judge.judge(checkout, STUDY, rerun(measured(runs, passed=passed)))[0]

    return decide


HIGH, LOW = curve(100, 200, 400), curve(50, 100, 200)

#: Of inserts the profile has not so many points.
INSERT, PLAIN_INSERT = (("postgres", variant, "oltp_insert") for variant in ("tuned", "default"))
AT_16_HIGH, AT_16_LOW = ({16: values[16]} for values in (HIGH, LOW))

MIXED = curve(100, 90, 400)

#: The article's 1,024 clients.
FAR_END = {256: around(100)}

#: test, of the tuned and the default variant → verdict, found, where.
DECIDED = {
    "above everywhere": ({"test": "above"}, HIGH, LOW, "reproduced", "2.00 ("),
    "below at one": ({"test": "above"}, MIXED, LOW | {4: around(180)}, "not reproduced", "0.500"),
    "as high": ({"test": "above"}, HIGH, HIGH, "inconclusive", "1.00 ("),
    "above where it is said": (
        {"test": "above", "at": [64]},
        MIXED,
        LOW | {4: around(180)},
        "reproduced",
        "2.00 (",
        "16 clients (the article's 64)",
    ),
    "not by that much": ({"test": "above", "by": 3}, HIGH, LOW, "not reproduced", "2.00 ("),
    "above by the peaks": (
        {"test": "above", "at": "peak"},
        curve(1, 300, 2) | FAR_END,
        curve(2, 1, 200) | FAR_END,
        "reproduced",
        "1.50 (",
        "by their peaks",
    ),
    "the ratio": ({"test": "ratio", "at": 16, "value": 2}, HIGH, LOW, "reproduced", "2.00 ("),
    "another ratio": ({"test": "ratio", "at": 16, "value": 4}, HIGH, LOW, "not reproduced"),
    "ratio of peaks": (
        {"test": "ratio", "at": "peak", "value": 1.5},
        curve(1, 300, 2) | FAR_END,
        curve(2, 1, 200) | FAR_END,
        "reproduced",
        "1.50 (",
        "of their peaks",
    ),
    "greatest ratio": (
        {"test": "ratio", "at": "greatest", "value": 4},
        curve(100, 400, 100) | FAR_END,
        curve(50, 100, 100) | FAR_END,
        "reproduced",
        "4.00 (",
        "4 clients (the article's 16)",
    ),
    "greatest ratio too great": (
        {"test": "ratio", "at": "greatest", "value": 2},
        curve(100, 400, 100),
        curve(50, 100, 100),
        "not reproduced",
        "4.00 (",
    ),
    "least ratio": (
        {"test": "ratio", "at": "least", "value": 1},
        curve(100, 400, 100) | FAR_END,
        curve(50, 100, 90) | FAR_END,
        "reproduced",
        "1.00 (",
        "256 clients (the article's 1,024)",
    ),
    "greatest ratio without the far end, where it may be greater": (
        {"test": "ratio", "at": "greatest", "value": 4},
        curve(100, 400, 100),
        curve(50, 100, 100),
        "inconclusive",
        "4.00 (",
        "1,024 clients were not run",
    ),
    "rises": (
        {"test": "change", "start": 4, "end": 64, "direction": "rises", "by": 3},
        HIGH,
        {},
        "reproduced",
        "4.00 (",
        "1, 16 clients (the article's 4, 64)",
    ),
    "does not fall": (
        {"test": "change", "start": 4, "end": 64, "direction": "falls"},
        HIGH,
        {},
        "not reproduced",
        "4.00 (",
    ),
    "falls": (
        {"test": "change", "start": 4, "end": 16, "direction": "falls"},
        curve(100, 50),
        {},
        "reproduced",
        "0.500 (",
    ),
    "stays level": (
        {"test": "change", "start": 4, "end": 16, "direction": "level", "by": 1.1},
        curve(100, 101),
        {},
        "reproduced",
        "1.01 (",
    ),
    "peak": (
        {"test": "peak", "first": 8, "last": 32},
        curve(1, 3, 2) | {256: around(1)},
        {},
        "reproduced",
        "at 4 clients (the article's 16)",
    ),
    "peak elsewhere": (
        {"test": "peak", "first": 64, "last": 64},
        curve(1, 3, 2),
        {},
        "not reproduced",
        "at 4 clients",
    ),
    "peak on a plateau": (
        {"test": "peak", "first": 32, "last": 1024},
        curve(1, 3, 3.001),
        {},
        "inconclusive",
        "at 16 clients",
        "cannot be distinguished from 4, 16",
    ),
    "peak of a ratio": (
        {"test": "peak", "first": 8, "last": 32},
        curve(10, 60, 30) | {256: around(10)},
        # in reverse, since equal ratios of all blocks show no spread
        {at: trials[::-1] for at, trials in (curve(10, 20, 30) | {256: around(10)}).items()},
        "reproduced",
        "at 4 clients",
    ),
    "above on the whole": (
        {"test": "above", "at": "overall"},
        curve(400, 90, 400),
        curve(100, 100, 100),
        "reproduced",
        "2.43 (",
        "on average over 1, 4, 16 clients (the article's 4, 16, 64)",
    ),
    "not by that much on the whole": (
        {"test": "above", "at": "overall", "by": 3},
        curve(400, 90, 400),
        curve(100, 100, 100),
        "not reproduced",
        "2.43 (",
    ),
    "the same on the whole": (
        {"test": "ratio", "at": "overall", "value": 1},
        curve(200, 100, 100),
        curve(100, 100, 200),
        "reproduced",
        "1.00 (",
    ),
    "the same at each": (
        {"test": "ratio", "at": [16, 64], "value": 2},
        curve(1, 200, 210),
        curve(1, 100, 100),
        "reproduced",
        "2.00 (",
    ),
    "another at one": (
        {"test": "ratio", "at": [16, 64], "value": 2},
        curve(1, 200, 100),
        curve(1, 100, 100),
        "not reproduced",
        "1.00 (",
        "16 clients (the article's 64)",
    ),
    "rises from so many clients on": (
        {"test": "change", "start": 4, "end": [16, 64], "direction": "rises", "by": 3},
        curve(100, 400, 410),
        {},
        "reproduced",
        "4.00 (",
        "1, 4 clients (the article's 4, 16)",
    ),
    "rises only later": (
        {"test": "change", "start": 4, "end": [16, 64, 256], "direction": "rises", "by": 3},
        curve(100, 90, 400),
        {},
        "not reproduced",
        "0.900 (",
        "1, 4 clients (the article's 4, 16); the article's 256 clients were not run",
    ),
    "a level at each": (
        {"test": "level", "at": [16, 64], "value": 200, "unit": "/s"},
        curve(1, 200, 205),
        {},
        "reproduced",
        "200 (",
    ),
    "another level at one": (
        {"test": "level", "at": [16, 64], "value": 200, "unit": "/s"},
        curve(1, 200, 100),
        {},
        "not reproduced",
        "100 (",
    ),
    "never below": (
        {"test": "limit", "at": "all", "least": 90, "unit": "/s"},
        curve(100, 200, 400),
        {},
        "reproduced",
        "100 (",
    ),
    "below the limit at one": (
        {"test": "limit", "at": "all", "least": 150, "unit": "/s"},
        curve(200, 100, 400),
        {},
        "not reproduced",
        "100 (",
        "4 clients (the article's 16)",
    ),
    "never above": (
        {"test": "limit", "at": [16, 64], "most": 450, "unit": "/s"},
        curve(900, 200, 400),
        {},
        "reproduced",
        "200 (",
    ),
    "above a limit at the peak": (
        {"test": "limit", "at": "peak", "most": 300, "unit": "/s"},
        curve(100, 200, 400),
        {},
        "not reproduced",
        "400 (",
    ),
}

# Open cases that further trials of the same points cannot decide.
NOT_BY_TRIALS = ("as high", "greatest ratio without the far end, where it may be greater")


@pytest.mark.parametrize("case", DECIDED)
def test_a_claim_is_decided_by_its_test(judged, case):
    test, of, over, verdict, *found = DECIDED[case]
    runs = {TUNED: of} | ({DEFAULT: over} if over else {})
    sides = {"of": ONE} | ({"over": OTHER} if over else {})
    one = judged(test | sides, runs)
    assert one.verdict == verdict
    for part, shown in zip(found, (one.found, one.reason), strict=False):
        assert part in shown
    assert (one.trials_needed is None) == (verdict != "inconclusive" or case in NOT_BY_TRIALS)


def test_clients_that_were_not_run_may_have_a_greater_ratio(judged):
    """The article's 2 clients would be half a client here, and nobody can run that."""
    test = {"test": "ratio", "of": ONE, "over": OTHER, "at": "greatest", "value": 9}
    one = judged(test, {TUNED: HIGH, DEFAULT: LOW})
    assert (one.verdict, one.trials_needed) == ("inconclusive", None)
    assert "the article's 8, 32, 128, 256, 512, 1,024 clients were not run" in one.reason


@pytest.mark.parametrize(
    ("at", "least", "verdict", "missing"),
    [
        ([16, 64], 50, "reproduced", ""),
        ([8, 16, 64], 50, "reproduced", "; the article's 8 clients were not run"),
        ([16, 64, 1024], 50, "inconclusive", "; the article's 1,024 clients were not run"),
        ([64, 16, 2], 50, "inconclusive", "; the article's 2 clients were not run"),
        ([16, 64, 1024], 300, "not reproduced", "; the article's 1,024 clients were not run"),
    ],
)
def test_nothing_is_reproduced_of_a_range_without_its_far_end(judged, at, least, verdict, missing):
    test = {"test": "limit", "of": ONE, "at": at, "least": least, "unit": "/s"}
    one = judged(test, {TUNED: HIGH})
    assert one.verdict == verdict
    assert one.reason.partition(")")[2] == missing
    assert one.trials_needed is None


SHARED = "the clients share 2 cores here and 8 in the article"

# Captures of these runs are of five seconds
SHORT = "did not pass the gate: 5 s are too short to tell whether it was steady, which takes 12 s"
AT_16 = [("tuned", 16, trial) for trial in (1, 2, 3)]


@pytest.mark.parametrize(
    ("test", "verdict", "reason"),
    [
        # what the rest decides is decided, and nothing is reproduced without the far end
        ({"test": "above", "at": [16, 64]}, "inconclusive", "; 16 clients did not pass the gate"),
        ({"test": "above", "at": "all"}, "inconclusive", "; 16 clients did not pass the gate"),
        ({"test": "above", "at": "overall"}, "inconclusive", "; 16 clients did not pass the gate"),
        ({"test": "above", "at": "all", "by": 9}, "not reproduced", "; 16 clients did not pass"),
        ({"test": "above", "at": [64]}, "not testable here", f"are 16 here; these {SHORT}"),
        ({"test": "ratio", "at": 64, "value": 2}, "not testable here", f"16 here, which {SHORT}"),
        # any point of a curve may be its peak
        (
            {"test": "above", "at": "peak"},
            "not testable here",
            "any point may be the peak, and 16 clients did not pass the gate",
        ),
        ({"test": "ratio", "at": "greatest", "value": 2}, "not testable here", SHORT),
        # what is another point's
        ({"test": "ratio", "at": 16, "value": 2}, "reproduced", "4 clients (the article's 16)"),
    ],
)
def test_a_point_that_did_not_pass_the_gate_decides_nothing(judged, test, verdict, reason):
    one = judged({"of": ONE, "over": OTHER, **test}, {TUNED: HIGH, DEFAULT: LOW}, failed=AT_16)
    assert one.verdict == verdict
    assert reason in one.reason


@pytest.mark.parametrize(
    ("test", "verdict", "reason"),
    [
        ({"test": "above", "at": [16, 64]}, "inconclusive", "; 16 clients failed"),
        ({"test": "above", "at": "all"}, "inconclusive", "; 16 clients failed"),
        ({"test": "above", "at": "overall", "by": 9}, "inconclusive", "; 16 clients failed"),
        ({"test": "ratio", "at": 64, "value": 2}, "not testable here", "16 here, which failed: it"),
        (
            {"test": "above", "at": "peak"},
            "not testable here",
            "any point may be the peak, and 16 clients failed: it died",
        ),
        ({"test": "above", "at": [16]}, "reproduced", "4 clients (the article's 16)"),
    ],
)
def test_a_point_of_which_every_run_failed_decides_nothing(judged, test, verdict, reason):
    runs = {TUNED: HIGH | {16: [None, None]}, DEFAULT: LOW}
    one = judged({"of": ONE, "over": OTHER, **test}, runs)
    assert (one.verdict, reason in one.reason) == (verdict, True), one.reason


@pytest.mark.parametrize(
    "test", [{"test": "above", "at": "overall"}, {"test": "ratio", "at": "greatest", "value": 2}]
)
def test_a_point_that_only_one_side_was_to_have_does_not_matter(judged, test):
    """Whether it failed or was not run."""
    above, below = (
        {at: values for at, values in curve.items() if at != 16} for curve in (HIGH, LOW)
    )
    test = {"of": ONE, "over": OTHER, **test}
    failed = judged(test, {TUNED: HIGH, DEFAULT: below}, failed=AT_16)
    not_run = judged(test, {TUNED: above, DEFAULT: below})
    assert (failed.verdict, failed.reason) == (not_run.verdict, not_run.reason)


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ({"test": "peak", "first": 64, "last": 64}, "peak"),
        ({"test": "change", "start": 16, "end": 64, "direction": "rises", "by": 1.5}, "monotony"),
        ({"test": "bound", "at": [64], "by": ["CPU of the engine"]}, "mechanism"),
    ],
)
def test_a_curve_with_such_a_point_has_no_position(judged, test, kind):
    one = judged({"of": ONE, **test}, {TUNED: HIGH}, kind, failed=AT_16)
    assert (one.verdict, SHORT in one.reason) == ("not testable here", True)


def test_a_curve_of_which_no_run_passed_the_gate_says_why(judged):
    failed = [("tuned", at, trial) for at in HIGH for trial in (1, 2, 3)]
    one = judged(
        {"test": "above", "of": ONE, "over": OTHER}, {TUNED: HIGH, DEFAULT: LOW}, failed=failed
    )
    assert one.verdict == "not testable here"
    assert one.reason == (
        "postgres tuned oltp_write_only: no run passed the gate; 5 s are too short to tell whether it"
        " was steady, which takes 12 s"
    )


def test_the_trials_that_passed_the_gate_stand_for_their_point(judged):
    """One trial of three lies far off, and it is the one that did not pass."""
    runs = {TUNED: HIGH | {16: [40, 400, 404]}, DEFAULT: LOW}
    test = {"test": "ratio", "of": ONE, "over": OTHER, "at": 64, "value": 2, "within": 1.1}
    assert judged(test, runs).verdict == "inconclusive"
    one = judged(test, runs, failed=AT_16[:1])
    assert (one.verdict, one.number.n) == ("reproduced", 2)


def test_one_client_is_one_client_whatever_the_cores(judged):
    runs = {TUNED: curve(100, 200)}
    level = {"test": "level", "of": ONE, "unit": "/s"}
    one = judged(level | {"at": 1, "value": 100}, runs)
    assert (one.verdict, one.reason) == ("reproduced", "1 client")
    # as many a core, of more than one
    assert judged(level | {"at": 16, "value": 200}, runs).verdict == "reproduced"
    assert judged(level | {"at": 2, "value": 100}, runs).verdict == "not testable here"


def test_a_limit_has_one_bound(judged):
    with pytest.raises(StudyError, match="a limit has either a least or a most"):
        judged({"test": "limit", "of": ONE, "at": "all", "unit": "/s"}, {})


@pytest.fixture
def judged_in_two_envelopes(checkout, judged):
    """Judge a test by runs in the main envelope and by others in another one."""

    def judged_in_two(test: dict, main: dict, elsewhere: dict) -> judge.Judgement:
        judged(test, {DEFAULT: main, TUNED: elsewhere})
        with editable(checkout.store) as store:
            store.connection.execute(
                "UPDATE run SET envelope = 'as_sold', variant = 'default' WHERE variant = 'tuned'"
            )
            one = judge.judge(checkout, STUDY, rerun(store))[0]
            stored.write(checkout, store)
        return one

    return judged_in_two


@pytest.mark.parametrize(
    ("elsewhere", "verdict", "said"),
    [
        (curve(400, 200, 100), "depends", "; in the envelope as_sold, 0."),
        (curve(100, 200, 400), "reproduced", "; in the envelope as_sold, "),
        # it was not run where the claim is
        ({1: [100.0, 50, 200], 16: [100.0, 50, 200]}, "reproduced", "clients"),
        ({4: around(100)}, "reproduced", "clients"),
    ],
)
def test_a_verdict_that_another_envelope_turns_round_depends(
    checkout, judged_in_two_envelopes, elsewhere, verdict, said
):
    test = {"test": "change", "of": OTHER, "start": 4, "end": 64, "direction": "rises"}
    one = judged_in_two_envelopes(test, HIGH, elsewhere)
    assert one.verdict == verdict
    assert one.found.startswith("4.00 (")
    assert said in one.reason
    with open_store(checkout.store) as written:
        kept = written.sql("SELECT verdict FROM verdict WHERE claim = 'c0'")
    assert kept["verdict"].to_list() == [verdict]
    assert one.verdict in judge.DECIDED


@pytest.mark.parametrize(
    ("main", "elsewhere", "verdict"),
    [
        ({4: around(400), 16: around(100)}, {16: around(400)}, "depends"),
        ({4: around(400), 16: around(100)}, {4: around(400)}, "not reproduced"),
        ({4: around(400), 16: around(400)}, {16: around(100)}, "depends"),
        ({4: around(400), 16: around(400)}, {4: around(400)}, "inconclusive"),
    ],
    ids=["fails here", "was not run where it fails", "fails there", "fails nowhere"],
)
def test_a_verdict_on_several_clients_depends_where_both_envelopes_were_run(
    judged_in_two_envelopes, main, elsewhere, verdict
):
    """The far end of what is claimed, the article's 256 clients, was run in neither."""
    test = {"test": "limit", "of": OTHER, "at": [16, 64, 256], "least": 200, "unit": "/s"}
    assert judged_in_two_envelopes(test, main, elsewhere).verdict == verdict


@pytest.mark.parametrize(
    ("workload", "trials", "verdict", "confidences"),
    [
        ("oltp_point_select", [7.0], "reproduced", (None, 0.95)),
        ("oltp_write_only", [7.0], "inconclusive", (0.975, 0.975)),
        ("oltp_write_only", [7.0, 7.0], "reproduced", (None, 0.95)),
    ],
    ids=["only read", "written once", "written twice"],
)
def test_equal_sizes_of_a_dataset_have_no_chance(
    checkout, measured, workload, trials, verdict, confidences
):
    """So they are none of the family; but one trial does not show what another would write."""
    size = {"metric": "dataset_bytes", "workload": workload}
    test = {"test": "ratio", "of": ONE | size, "over": OTHER | size, "at": 4, "value": 1.5}
    set_claims(checkout, [test, CLEAR])
    runs = {TUNED: {16: around(400)}, DEFAULT: {16: around(100)}}
    for curve_of in list(runs):
        of_size = (*curve_of[:2], workload)
        runs[of_size] = runs.get(of_size, {}) | {1: trials}
    bytes_of = {"tuned": b"150.0", "default": b"100.0"}
    store = measured(
        runs,
        also=lambda trial: {
            f"counters-{end}.json": b'{"dataset_bytes": ' + bytes_of[trial.point.variant] + b"}"
            for end in ("begin", "end")
        },
    )
    size, speed = judge.judge(checkout, STUDY, rerun(store))
    assert (size.verdict, size.found, speed.verdict) == (verdict, "1.50", "reproduced")
    assert (size.confidence, speed.confidence) == pytest.approx(confidences)


def test_a_ratio_of_trials_is_of_those_of_one_number(judged):
    """The machine was slow in the first block of the plan and fast in the third; one trial failed."""
    blocks = [100.0, 200.0, 400.0]

    def times(*factors: float) -> list[float]:
        return [block * factor for block, factor in zip(blocks, factors, strict=True)]

    level, higher = times(0.99, 1, 1.01), times(1.49, 1.5, 1.51)
    tuned = {1: level, 4: [None, *times(0.99, 1, 1.01)[1:]], 16: higher}
    default = {1: blocks, 4: blocks, 16: blocks}
    test = {"test": "peak", "first": 64, "last": 64, "of": ONE, "over": OTHER}
    assert (
        judged(test, {TUNED: tuned, DEFAULT: default}).found == "at 16 clients (the article's 64)"
    )


def test_a_ratio_of_trials_that_never_ran_in_one_block_is_not_testable(judged):
    tuned, default = {4: [None, 200.0, None]}, {4: [100.0, None, 400.0]}
    test = {"test": "peak", "first": 16, "last": 16, "of": ONE, "over": OTHER}
    one = judged(test, {TUNED: tuned, DEFAULT: default})
    assert one.verdict == "not testable here"
    assert one.reason == "no number of clients that both sides ran in one block of the plan"


def test_trials_that_scatter_say_how_many_would_do(judged):
    wide = {16: [200.0, 300.0, 400.0]}
    one = judged(
        {"test": "above", "of": ONE, "over": OTHER}, {TUNED: wide, DEFAULT: {16: around(200)}}
    )
    assert one.verdict == "inconclusive"
    assert one.trials_needed > 3
    assert one.number.low < 1 < one.number.high


def test_one_trial_decides_nothing(judged):
    one = judged(
        {"test": "above", "of": ONE, "over": OTHER}, {TUNED: {1: [900.0]}, DEFAULT: {1: [1.0]}}
    )
    assert (one.verdict, one.found, one.trials_needed) == ("inconclusive", "900", 2)


NOT_TESTABLE = {
    "no run": (
        {"test": "above", "over": ONE | {"engine": "tidb"}},
        "order",
        "profile standard has no run of tidb tuned oltp_write_only",
    ),
    "other threads": (
        {"test": "ratio", "over": OTHER, "at": 1024, "value": 2},
        "ratio",
        "the article's 1,024 clients are 256 here, which were not run",
    ),
    "half a thread": (
        {"test": "above", "over": OTHER, "at": [2]},
        "order",
        "the article's clients are 0.5 here; these were not run",
    ),
    "a peak out of sight": (
        {"test": "peak", "first": 1024, "last": 1024},
        "peak",
        "no number of clients was run that stands for the article's 1,024",
    ),
    "an absolute number": (
        {"test": "level", "at": "peak", "value": 400, "unit": "transactions/s"},
        "absolute",
        ABSOLUTE,
    ),
    "no capture": (
        {"test": "above", "over": OTHER | {"metric": "checkpoints_per_s"}},
        "order",
        "no capture of postgres default oltp_write_only gives checkpoints_per_s",
    ),
}


@pytest.mark.parametrize("case", NOT_TESTABLE)
def test_what_runs_cannot_decide_is_said(judged, case):
    test, kind, reason = NOT_TESTABLE[case]
    one = judged(test | {"of": ONE}, {TUNED: HIGH, DEFAULT: LOW}, kind)
    assert (one.verdict, one.reason) == ("not testable here", reason)


def test_a_claim_without_a_test_says_what_it_would_take(judged):
    one = judged({"test": "none", "needs": "A lab."}, {TUNED: HIGH}, "mechanism")
    assert (one.verdict, one.reason) == ("not testable here", "A lab.")


#: Test of the first of two claims that are judged together → verdict, found, reason; the second holds.
TOGETHER = {
    "holds": ({"test": "above"}, "reproduced", "2 of 2 are reproduced", ""),
    "fails": (
        {"test": "above", "by": 3},
        "not reproduced",
        "1 of 2 are reproduced",
        "not reproduced: So it is.",
    ),
    "is of clients that were not run": (
        {"test": "above", "at": [1024]},
        "not testable here",
        "1 of 2 are reproduced",
        "not testable here: So it is.",
    ),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_claims_that_others_decide_together(checkout, measured, case):
    first, verdict, found, reason = TOGETHER[case]
    sides = {"of": ONE, "over": OTHER}
    set_claims(
        checkout,
        [
            first | sides,
            {"test": "above", "by": 1.5} | sides,
            {"test": "together", "claims": ["c0", "c1"]},
        ],
    )
    one = judge.judge(checkout, STUDY, rerun(measured({TUNED: HIGH, DEFAULT: LOW})))[2]
    assert (one.verdict, one.found, one.reason) == (verdict, found, reason)
    assert one.confidence is None


@pytest.mark.parametrize(
    ("first", "last", "reason"),
    [
        (
            16,
            16,
            "the article's 8, 32, 128, 256, 512, 1,024 clients, which may be as high, were not run",
        ),
        (
            32,
            1024,
            "the article's 32, 128, 256, 512, 1,024 clients, within the claimed range, were not run",
        ),
    ],
)
def test_a_peak_is_open_where_its_range_what_is_beside_it_or_the_far_end_was_not_run(
    judged, first, last, reason
):
    test = {"test": "peak", "first": first, "last": last, "of": ONE}
    one = judged(test, {TUNED: curve(1, 3, 2)}, "peak")
    assert (one.verdict, one.reason) == ("inconclusive", reason)
    assert one.found == "at 4 clients (the article's 16)"


def test_a_peak_is_not_testable_where_neither_answer_can_be_sure(judged):
    """Whatever is measured at 4 and 16, it may be as high beside the range; or higher within it."""
    test = {"test": "peak", "first": 32, "last": 64, "of": ONE}
    one = judged(test, {TUNED: curve(1, 3, 2)}, "peak")
    assert one.verdict == "not testable here"
    assert one.reason == (
        "the article's 32, 128, 256, 512, 1,024 clients, within the claimed range and beside it,"
        " were not run"
    )


@pytest.mark.parametrize(
    ("test", "of", "over", "verdict"),
    [
        # the curve still rises at its end, which can only confirm what is above, and only refute what
        # is not
        ({"test": "above"}, curve(1, 2, 300), curve(1, 200, 1) | FAR_END, "reproduced"),
        ({"test": "above"}, curve(1, 2, 100), curve(1, 200, 1) | FAR_END, "inconclusive"),
        ({"test": "above"}, curve(1, 300, 1) | FAR_END, curve(1, 2, 200), "inconclusive"),
        ({"test": "above"}, curve(1, 100, 1), curve(1, 2, 200), "not reproduced"),
        ({"test": "limit", "most": 300, "unit": "/s"}, curve(1, 2, 200), {}, "inconclusive"),
        ({"test": "limit", "least": 300, "unit": "/s"}, curve(1, 2, 400), {}, "reproduced"),
    ],
)
def test_a_peak_at_the_end_of_what_was_run_may_be_higher_beyond_it(judged, test, of, over, verdict):
    runs = {TUNED: of} | ({DEFAULT: over} if over else {})
    sides = {"of": ONE} | ({"over": OTHER} if over else {})
    one = judged(test | {"at": "peak"} | sides, runs)
    assert one.verdict == verdict
    is_said = "were not run" in one.reason and "rises" in one.reason
    assert is_said == (verdict == "inconclusive")


def test_equal_trials_are_told_as_the_reason(judged):
    same = {16: [100.0, 100.0, 100.0]}
    one = judged({"test": "limit", "at": 64, "most": 300, "unit": "/s", "of": ONE}, {TUNED: same})
    assert one.verdict == "inconclusive"
    assert one.reason.endswith("trials that are all equal, or zero, have no interval")


@pytest.mark.parametrize("unknown", ["c7", "c0"])
def test_claims_are_decided_together_by_others_that_have_a_test_of_their_own(checkout, unknown):
    set_claims(
        checkout,
        [
            {"test": "together", "claims": ["c1", unknown]},
            {"test": "above", "of": ONE, "over": OTHER},
        ],
    )
    with pytest.raises(StudyError, match=f"unknown claim '{unknown}'"):
        study.load(checkout, STUDY)


def test_a_version_other_than_the_articles_stands_beside_the_verdict(checkout, measured):
    above = {"test": "above", "of": ONE, "over": OTHER}
    set_claims(checkout, [above, above | {"at": [1024]}])
    store = measured({TUNED: HIGH, DEFAULT: LOW})
    of_version = {}
    for version in ("15.2", "16.1"):
        store.connection.execute("UPDATE run SET engine_version = ?", [version])
        of_version[version] = judge.judge(checkout, STUDY, rerun(store))
    same, untested = of_version["15.2"]
    other, still_untested = of_version["16.1"]
    said = "PostgreSQL 16.1 for the article's 15"
    assert other.verdict == same.verdict == "reproduced"
    assert other.reason == f"{same.reason}; {said}"
    assert verdicts.table([other])["why"].item().endswith(said)
    assert any(line.endswith(said) for line in why.lines(other))
    # of what was not judged no version matters
    assert still_untested.reason == untested.reason


OUT_OF_MEMORY = {"test": "out_of_memory", "of": ONE, "at": 128}


def _ending(checkout, measured, trials: list[float | None], error: str) -> judge.Judgement:
    """Judge by trials at the article's 128 threads, of which those without a value end by an error."""
    set_claims(checkout, [OUT_OF_MEMORY])
    store = measured({TUNED: HIGH | {32: trials}})
    store.connection.execute("UPDATE run SET error = ? WHERE status = 'failed'", [error])
    return judge.judge(checkout, STUDY, rerun(store))[0]


@pytest.mark.parametrize(
    ("trials", "verdict", "found"),
    [
        ([None, None], "reproduced", "2 of 2 runs ran out of memory"),
        ([None, 100.0], "inconclusive", "1 of 2 runs ran out of memory"),
        ([100.0, 100.0], "not reproduced", "0 of 2 runs ran out of memory"),
    ],
)
def test_a_load_that_ends_for_want_of_memory_is_an_answer(
    checkout, measured, trials, verdict, found
):
    one = _ending(checkout, measured, trials, f"the load failed ({record.OUT_OF_MEMORY})")
    assert (one.verdict, one.found) == (verdict, found)
    assert one.reason == "32 clients (the article's 128)"
    assert one.confidence is None


def test_a_load_that_ends_for_want_of_memory_at_its_only_point_is_an_answer(checkout, measured):
    set_claims(checkout, [OUT_OF_MEMORY])
    store = measured({TUNED: {32: [None, None]}})
    store.connection.execute("UPDATE run SET error = ?", [record.OUT_OF_MEMORY])
    assert judge.judge(checkout, STUDY, rerun(store))[0].verdict == "reproduced"


@pytest.mark.parametrize(
    ("trials", "reason"),
    [
        ([None], "postgres tuned oltp_write_only at 32 clients: failed: it died"),
        ([], "profile standard has no run of postgres tuned oltp_write_only at 32 clients"),
    ],
)
def test_a_load_that_ends_otherwise_says_nothing_of_memory(checkout, measured, trials, reason):
    one = _ending(checkout, measured, trials, "it died")
    assert (one.verdict, one.reason) == ("not testable here", reason)


def test_a_curve_that_never_ran_says_why(judged):
    one = judged({"test": "above", "of": ONE, "over": OTHER}, {TUNED: HIGH, DEFAULT: {1: [None]}})
    assert one.verdict == "not testable here"
    assert one.reason == "postgres default oltp_write_only failed here: it died"


def test_a_metric_that_is_missing_at_the_peak_decides_nothing(checkout, judged):
    cpu = {"metric": "engine_cpu_us_per_transaction"}
    test = {"test": "above", "of": ONE | cpu, "over": OTHER | cpu, "at": "peak"}
    judged(test, {TUNED: HIGH, DEFAULT: LOW})
    with editable(checkout.store) as store:
        store.connection.execute(
            "DELETE FROM os_sample WHERE run_id IN"
            " (SELECT run_id FROM run WHERE variant = 'tuned' AND concurrency = 16)"
        )
        one = judge.judge(checkout, STUDY, rerun(store))[0]
    assert one.verdict == "not testable here"
    assert one.reason == (
        "no capture of postgres tuned oltp_write_only at 16 clients, its peak, gives"
        " engine_cpu_us_per_transaction"
    )


@pytest.mark.parametrize(
    ("test", "verdicts"),
    [
        ({"test": "limit", "most": 900, "unit": "µs"}, ("inconclusive", "reproduced")),
        ({"test": "above", "over": OTHER}, ("inconclusive", "reproduced")),
    ],
)
def test_where_the_peak_may_be_another_metric_must_say_the_same(checkout, judged, test, verdicts):
    """As many transactions at 4 as at 16 clients: with either the latency may be that at the peak."""
    latency = {"metric": "latency_mean_us"}
    test = test | {"of": ONE | latency, "at": "peak"}
    if "over" in test:
        test["over"] = test["over"] | latency
    flat = {1: around(100), 4: around(400), 16: around(404)} | FAR_END
    judged(test, {TUNED: flat, DEFAULT: LOW | FAR_END})
    of_tuned = "CASE concurrency WHEN 4 THEN {} ELSE 800 END"
    with editable(checkout.store) as store:

        def judgement(at_4: int) -> judge.Judgement:
            latency = f"if(variant = 'tuned', {of_tuned.format(at_4)}, 700) + trial"
            store.connection.execute(f"UPDATE run SET latency_mean_us = {latency}")
            return judge.judge(checkout, STUDY, rerun(store))[0]

        either, same = judgement(1000 if "most" in test else 600), judgement(810)
    assert (either.verdict, same.verdict) == verdicts
    assert (
        "oltp_write_only may peak at any of 4, 16 clients (the article's 16, 64)" in either.reason
    )
    assert "may peak" not in same.reason


def test_a_ratio_to_zero_decides_nothing(checkout, judged):
    errors = {"metric": "errors_per_transaction"}
    test = {"test": "ratio", "of": ONE | errors, "over": OTHER | errors, "at": 16, "value": 2}
    judged(test, {TUNED: HIGH, DEFAULT: LOW})
    with editable(checkout.store) as store:
        store.connection.execute("UPDATE run SET ignored_errors = 0")
        one = judge.judge(checkout, STUDY, rerun(store))[0]
    assert (one.verdict, one.reason) == ("not testable here", "a ratio to zero")


def test_a_level_is_judged_on_the_instance_type(checkout, measured, judged):
    test = {"test": "level", "of": ONE, "at": "peak", "value": 410, "unit": "transactions/s"}
    judged(test, {TUNED: HIGH | FAR_END}, "absolute")
    with editable(checkout.store) as store:
        store.connection.execute(
            "UPDATE run SET envelope_enforced = false, limit_cores = 8, limit_memory_bytes = ?",
            [32 * 1000**3],
        )
        before = judge.judge(checkout, STUDY, rerun(store))[0]
        store.connection.execute("UPDATE run SET limit_memory_bytes = ?", [_memory(checkout)])
        on_another = judge.judge(checkout, STUDY, rerun(store))[0]
        store.connection.execute("UPDATE host SET value = '8' WHERE fact = 'cores'")
        one = judge.judge(checkout, STUDY, rerun(store))[0]
    assert before.verdict == on_another.verdict == "not testable here"
    assert one.verdict == "reproduced"
    assert one.found.startswith("400 (")


def _memory(checkout) -> int:
    from benchlab import target

    return target.instance_type(checkout, study.load(checkout, STUDY).instance).memory_bytes


# Bottlenecks


@pytest.fixture
def bound(checkout, judged):
    """Judge that the disk binds; ``bound({threads: [resource, …]})``."""
    test = {"test": "bound", "of": ONE, "by": ["disk write bandwidth", "disk write IOPS"]}

    def decide(
        found: dict[int, list[str]],
        at: object = "all",
        confidence: float = 1,
        shares: Mapping[str, float] = MappingProxyType({}),
    ) -> judge.Judgement:
        runs = {threads: around(100)[: len(of)] for threads, of in found.items()}
        judged(test | {"at": at}, {TUNED: runs}, "mechanism")
        with editable(checkout.store) as store:
            for run in store.runs().iter_rows(named=True):
                resource = found[run["concurrency"]][run["trial"] - 1]
                store.connection.execute(
                    "UPDATE attribution SET binds = (resource = $1), share = (resource = $1)::INT,"
                    " confidence = $2 WHERE run_id = $3",
                    [resource, confidence, run["run_id"]],
                )
            for resource, share in shares.items():
                store.connection.execute(
                    "UPDATE attribution SET share = ? WHERE resource = ?", [share, resource]
                )
            return judge.judge(checkout, STUDY, rerun(store))[0]

    return decide


DISK, IOPS, CPU = "disk write bandwidth", "disk write IOPS", "CPU of the engine"


def test_a_bottleneck_is_that_of_most_trials_at_each_concurrency(bound):
    one = bound({4: [DISK, DISK, IOPS], 16: [DISK] * 3})
    assert (one.verdict, one.found) == ("reproduced", f"{DISK} or {IOPS}")
    assert one.reason == "4, 16 clients (the article's 16, 64)"
    assert bound({4: [DISK, DISK, CPU], 16: [DISK] * 3}).verdict == "reproduced"


def test_another_bottleneck_at_one_concurrency_is_reported_with_it(bound):
    one = bound({4: [DISK] * 3, 16: [CPU, CPU, "none"]})
    assert (one.verdict, one.found) == ("not reproduced", f"{CPU} or none")
    assert one.reason == "16 clients (the article's 64)"


@pytest.mark.parametrize("trials", [{4: [DISK, CPU, CPU], 16: [DISK] * 3}, {4: [DISK, CPU]}])
def test_trials_that_differ_are_inconclusive(bound, trials):
    assert bound(trials).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({CPU: 0.4, DISK: 0.3, IOPS: 0.3}, "inconclusive"),
        ({CPU: 0.6, DISK: 0.4}, "inconclusive"),
        ({CPU: 0.7, DISK: 0.15, IOPS: 0.15}, "not reproduced"),
    ],
)
def test_the_named_resources_count_for_the_time_in_which_they_bound(bound, shares, verdict):
    one = bound({4: [CPU] * 3}, shares=shares)
    assert (one.verdict, one.found) == (verdict, CPU)
    of_time = f"{DISK} or {IOPS} bound {percent(shares[DISK] + shares.get(IOPS, 0))} of the time"
    assert (of_time in one.reason) == (verdict == "inconclusive")
    # what binds for the longest time need not be what mostly binds
    assert bound({4: [DISK] * 3}, shares={DISK: 0.4, IOPS: 0.3, CPU: 0.3}).verdict == "reproduced"


def test_a_bottleneck_counts_where_it_is_claimed(bound):
    assert bound({4: [CPU] * 3, 16: [DISK] * 3}, at=[64]).verdict == "reproduced"


def test_one_trial_shows_no_bottleneck(bound):
    one = bound({4: [DISK]})
    assert (one.verdict, one.found, one.trials_needed) == ("inconclusive", DISK, 2)
    # and takes nothing from what others show
    one = bound({4: [DISK], 16: [CPU] * 3})
    assert (one.verdict, one.trials_needed) == ("not reproduced", None)


@pytest.mark.parametrize(("resource", "confidence"), [("unknown", 1), (DISK, 0.4)])
def test_runs_whose_captures_do_not_tell_have_no_bottleneck(bound, resource, confidence):
    one = bound({4: [resource] * 3}, confidence=confidence)
    assert one.verdict == "not testable here"
    assert one.reason == "no capture shows what bound postgres tuned oltp_write_only"


# The whole

#: A study whose article has no numbers in data/published.
UNPUBLISHED = """\
study: mine
article: {title: A, subject: b}
claims:
  - id: mine_leads
    where: summary
    claim: A leads.
    kind: order
    decided_by: {test: above, of: {engine: a, workload: w}, over: {engine: b, workload: w}}
"""


def test_runs_of_another_target_are_not_judged(judged, checkout, measured):
    test = {"test": "above", "of": ONE, "over": OTHER}
    judged(test, {TUNED: HIGH, DEFAULT: LOW})
    store = measured({TUNED: {1: around(1)}, DEFAULT: {1: around(2)}}, target="lab")
    on = {
        name: judge.judge(checkout, STUDY, rerun(store, target=name))[0].verdict
        for name in ("local", "lab")
    }
    assert on == {"local": "reproduced", "lab": "not reproduced"}
    with pytest.raises(UnknownName, match="unknown target 'moon'; choose one of: lab, local"):
        rerun(store, target="moon")
    with pytest.raises(UnknownName, match="unknown profile 'huge'"):
        rerun(store, "huge")


def test_every_claim_of_every_study_gets_a_verdict(judged, checkout, measured):
    shutil.copytree(ROOT / "paper/studies", checkout.studies, dirs_exist_ok=True)
    (checkout.studies / "mine.yml").write_text(UNPUBLISHED)
    store = measured({INSERT: HIGH, PLAIN_INSERT: LOW})
    stored.write(checkout, store)
    verdicts = store.sql("SELECT * FROM verdict JOIN claim USING (study, claim)")
    wanted = [
        (name, claim.id)
        for name in study.names(checkout)
        for claim in study.load(checkout, name).claims
    ]
    assert sorted(verdicts.select("study", "claim").rows()) == sorted(wanted)
    assert set(verdicts.filter(kind="audit")["verdict"]) == {"reproduced", "not reproduced"}
    by_id = {row["claim"]: row for row in verdicts.iter_rows(named=True)}
    gain = by_id["postgres_insert_gain"]
    assert (gain["profile"], gain["target"], gain["condition"]) == (
        "standard",
        "local",
        "tuned : default ≈ 4.5 (4.00 to 5.06)",
    )
    assert (gain["verdict"], gain["value"], gain["n"]) == ("inconclusive", 2.0, 3)
    assert by_id["cached_leads_point_select"]["reason"] == "this study was not rerun here"
    assert by_id["cached_leads_point_select"]["profile"] is None
    assert by_id["mine_leads"]["reason"] == "this study was not rerun here"
    # a second time it is the same, not twice as much
    stored.write(checkout, store)
    assert store.sql("SELECT count(*) AS n FROM verdict")["n"].item() == len(wanted)
    assert store.sql("SELECT count(*) AS n FROM published")["n"].item() > 800


def test_a_target_on_which_limits_were_only_lowered_is_not_judged(judged, checkout, measured):
    judged({"test": "none", "needs": "A lab."}, {TUNED: HIGH}, "mechanism")
    store = measured({DEFAULT: {1: [5.0]}}, target="lab")
    store.connection.execute("UPDATE run SET intervention = '{}' WHERE target = 'lab'")
    stored.write(checkout, store)
    assert store.sql("SELECT DISTINCT target FROM verdict WHERE study = ?", STUDY).rows() == [
        ("local",)
    ]


def test_an_audit_that_fails_is_an_error_and_leaves_the_tables(judged, checkout, measured):
    judged({"test": "none", "needs": "A lab."}, {TUNED: HIGH}, "mechanism")
    store = measured({})
    stored.write(checkout, store)
    before = store.sql("SELECT * FROM verdict ORDER BY ALL")
    set_claims(checkout, [{"test": "audit", "query": "SELECT nonsense", "value": 1.0}], "audit")
    with pytest.raises(ClaimError, match=rf"study {STUDY}, claim c0: "):
        stored.write(checkout, store)
    assert store.sql("SELECT * FROM verdict ORDER BY ALL").equals(before)


def test_rows_that_do_not_fit_leave_the_tables(judged, measured):
    store = measured({TUNED: HIGH})
    wrong = store.sql("SELECT run_id FROM run")
    with pytest.raises(StoreError, match=r"^claim: "):
        store.replace({"claim": wrong})


# Several curves in one claim

PLAIN = {"engine": "postgres", "workload": "oltp_write_only"}
BOTH = {"of": ONE | {"workload": ["oltp_write_only", "oltp_insert"]}}
BOTH["over"] = BOTH["of"] | {"variant": "default"}

#: Twice as fast in write_only, half as fast in insert.
UNLIKE = {TUNED: HIGH, DEFAULT: LOW, INSERT: AT_16_LOW, PLAIN_INSERT: AT_16_HIGH}
ALIKE = {TUNED: HIGH, DEFAULT: LOW, INSERT: {16: around(640)}, PLAIN_INSERT: AT_16_LOW}


@pytest.mark.parametrize(
    ("runs", "verdict", "where"),
    [
        (ALIKE, "reproduced", "postgres tuned oltp_write_only, "),
        (UNLIKE, "not reproduced", "postgres tuned oltp_insert, "),
    ],
)
def test_lists_of_workloads_are_compared_one_by_one(judged, runs, verdict, where):
    one = judged({"test": "above", **BOTH}, runs)
    assert one.verdict == verdict
    assert one.reason.startswith(where)


def test_several_metrics_are_compared_one_by_one(checkout, judged):
    metrics = {"metric": ["tps", "latency_mean_us"]}
    test = {"test": "above", "of": ONE | metrics, "over": OTHER | metrics, "at": [64]}
    judged(test, {TUNED: HIGH, DEFAULT: LOW})
    with editable(checkout.store) as store:
        store.connection.execute("UPDATE run SET latency_mean_us = 1000 + trial")
        store.connection.execute(
            "UPDATE run SET latency_mean_us = 500 + trial WHERE variant = 'tuned'"
        )
        one = judge.judge(checkout, STUDY, rerun(store))[0]
    assert (one.verdict, one.found[:4]) == ("not reproduced", "0.50")
    assert one.reason.startswith("postgres tuned oltp_write_only latency_mean_us, ")


#: Test of several curves, of which the article may mean any.
EACH_AT_LEAST_100 = {"test": "limit", "at": [64], "least": 100, "unit": "/s", "take": "each"}


def test_what_holds_for_one_and_fails_for_another_depends_though_a_third_is_open(judged):
    test = EACH_AT_LEAST_100 | {"of": ONE | {"variant": ["tuned", "no_full_pages", "default"]}}
    third = (TUNED[0], "no_full_pages", TUNED[2])
    runs = {TUNED: {16: around(200)}, third: {16: [100.0]}, DEFAULT: {16: around(50)}}
    assert judged(test, runs).verdict == "depends"
    del runs[DEFAULT]
    assert (
        judged(test | {"of": test["of"] | {"variant": ["tuned", "no_full_pages"]}}, runs).verdict
        == "inconclusive"
    )


def test_two_of_which_one_holds_and_one_fails_depend_though_a_third_did_not_pass(judged):
    test = EACH_AT_LEAST_100 | {"of": ONE | {"variant": ["no_full_pages", "tuned", "default"]}}
    runs = {TUNED: {16: around(200)}, DEFAULT: {16: around(50)}}
    assert judged(test, runs).verdict == "depends"
    assert judged(test, runs | {DEFAULT: {16: around(300)}}).verdict == "not testable here"


def test_what_each_curve_is_compared_with_is_named_where_it_varies(judged):
    runs = {TUNED: HIGH, DEFAULT: LOW}
    test = {"test": "above", "of": ONE, "over": OTHER, "at": [64]}
    assert " over " not in judged(test, runs).reason
    several = test | {"over": OTHER | {"variant": ["default", "tuned"]}}
    assert "tuned oltp_write_only over postgres " in judged(several, runs).reason


def test_a_value_of_zero_is_never_above_a_limit(judged):
    test = {"test": "limit", "of": ONE, "at": [64], "most": 450, "unit": "/s"}
    assert judged(test, {TUNED: {16: [0.0]}}).verdict == "inconclusive"
    assert judged(test, {TUNED: {16: [0.0, 0.0]}}).verdict == "reproduced"
    assert judged(test, {TUNED: {16: [0.0, 100.0, 101.0]}}).verdict == "reproduced"
    # nor are the zeros among values that are above
    mostly = judged(test, {TUNED: {16: [0.0, 0.0, 800.0]}})
    assert (mostly.verdict, mostly.number.value) == ("inconclusive", 450)
    assert judged(test, {TUNED: {16: [0.0, 700.0, 701.0]}}).verdict != "reproduced"


def test_what_one_of_the_metrics_that_may_be_meant_turns_round_depends(checkout, judged):
    metrics = {"metric": ["tps", "latency_mean_us"]}
    test = {"test": "above", "of": ONE | metrics, "over": OTHER | metrics, "at": [64]}
    judged(test | {"take": "each"}, {TUNED: HIGH, DEFAULT: LOW})
    with editable(checkout.store) as store:

        def verdict(latency: str) -> judge.Judgement:
            store.connection.execute(f"UPDATE run SET latency_mean_us = {latency}")
            return judge.judge(checkout, STUDY, rerun(store))[0]

        lower = verdict("if(variant = 'tuned', 500, 1000) + trial")
        assert (lower.verdict, lower.found[:4]) == ("depends", "2.00")
        assert "; 0.50" in lower.found
        assert " for postgres tuned oltp_write_only latency_mean_us, 16 clients" in lower.found
        assert verdict("if(variant = 'tuned', 1000, 500) + trial").verdict == "reproduced"


@pytest.mark.parametrize("test", [{"test": "above", "at": "overall"}, {"test": "peak"}])
def test_one_number_of_clients_is_no_whole_curve(judged, test):
    test = {"of": ONE | {"workload": "oltp_insert"}, **test}
    if test["test"] == "above":
        test["over"] = test["of"] | {"variant": "default"}
    else:
        test |= {"first": 64, "last": 64}
    one = judged(test, {INSERT: AT_16_HIGH, PLAIN_INSERT: AT_16_LOW})
    assert one.verdict == "not testable here"
    assert one.reason.startswith("only 16 clients (the article's 64) counted")


def test_one_variant_may_be_held_against_several(judged):
    test = {"test": "above", "of": ONE, "over": PLAIN | {"variant": ["default", "tuned"]}}
    # nobody can tell whether it is above itself
    assert judged(test, {TUNED: HIGH, DEFAULT: LOW}).verdict == "inconclusive"


def test_a_curve_that_was_not_run_is_no_part_of_every_and_no_counterexample(judged):
    test = {"test": "above", **BOTH}
    missing = judged(test, {TUNED: HIGH, DEFAULT: LOW})
    assert missing.verdict == "not testable here"
    assert "postgres tuned oltp_insert" in missing.reason
    # one that contradicts is enough
    assert judged(test, {TUNED: LOW, DEFAULT: HIGH}).verdict == "not reproduced"


def test_what_fails_for_one_of_several_curves_must_fail_for_all_of_them_at_once(judged):
    """The interval of the ratio ends just below 1, and beyond 1 if it is to hold for 16 at once."""
    test = {"test": "above", "of": ONE, "over": OTHER, "at": [64]}
    runs = {TUNED: {16: around(97)}, DEFAULT: {16: around(100)}}
    assert judged(test, runs).verdict == "not reproduced"
    several = {"metric": ["tps"] * 4}
    test |= {"of": ONE | several, "over": OTHER | several}
    one = judged(test, runs)
    assert one.verdict == "inconclusive"
    assert one.trials_needed > 3  # so its points get further trials


def test_a_claim_may_say_itself_how_its_clients_scale(checkout, judged):
    test = {"test": "level", "of": ONE, "at": 4, "value": 100, "unit": "/s"}
    runs = {TUNED: curve(100, 200)}
    assert judged(test, runs).verdict == "reproduced"  # 1 client on 2 of 8 cores
    set_claims(checkout, [test], clients_per_core=False)
    (one, *_) = judge.judge(checkout, STUDY, rerun(open_store(checkout.store)))
    assert (one.verdict, one.found[:3]) == ("not reproduced", "200")


@pytest.mark.parametrize(
    "test",
    [
        {"test": "change", "start": 4, "end": 16, "direction": "rises"},
        {"test": "peak", "first": 4, "last": 16},
    ],
)
def test_what_changes_with_the_clients_is_not_judged_where_others_share_a_core(
    checkout, measured, test
):
    set_claims(checkout, [test | {"of": ONE}], clients_per_core=False)
    runs = {TUNED: curve(0, 100, 400)}
    (one,) = judge.judge(checkout, STUDY, rerun(measured(runs)))
    assert (one.verdict, one.reason) == ("not testable here", SHARED)
    spec = study.load(checkout, STUDY)
    instance = target.instance_type(checkout, spec.instance)
    ((_, foreseen),) = undecidable(spec, instance, planned(checkout, STUDY, MEASURED_PROFILE))
    assert foreseen == SHARED


def test_of_several_curves_the_one_that_speaks_least_for_the_claim_is_shown(judged):
    test = {"test": "change", "start": 4, "end": 64, "direction": "rises", "by": 3}
    both = test | {"of": ONE | {"variant": ["default", "tuned"]}}
    runs = {DEFAULT: {1: [100.0], 16: [900.0]}, TUNED: {1: [100.0], 16: [400.0]}}
    one = judged(both, runs)
    assert (one.verdict, one.found) == ("inconclusive", "4.00")


def test_a_single_trial_is_named_as_what_keeps_a_claim_open(judged):
    one = judged({"test": "above", "of": ONE, "over": OTHER}, {TUNED: {4: [9]}, DEFAULT: {4: [1]}})
    assert one.reason.endswith("; a single trial has no interval")
    # a zero has no interval either
    one = judged(
        {"test": "above", "of": ONE, "over": OTHER}, {TUNED: {4: [0, 9]}, DEFAULT: {4: [1, 1]}}
    )
    assert (one.verdict, one.number.low) == ("inconclusive", None)
    assert "single trial" not in one.reason


def test_more_trials_than_there_are_would_decide(judged):
    runs = {TUNED: {4: [100, 101, 140]}, DEFAULT: {4: [99, 100, 100]}}
    one = judged({"test": "above", "of": ONE, "over": OTHER}, runs)
    assert one.verdict == "inconclusive"
    assert one.trials_needed > 3


#: Ratios that hardly differ from 1, and that tend to be below it.
LEVEL, FALLING = ([99, 100.01, 101], [99, 100, 101]), ([90, 95, 100], [95, 100, 105])


@pytest.mark.parametrize("at", ["all", [16, 64], [16, 64, 1024]])
def test_one_place_that_tends_to_fail_would_decide(judged, at):
    """At the other one, thousands of trials would be needed to show that it holds."""
    tuned, default = zip(LEVEL, FALLING, strict=True)
    runs = {
        name: dict(zip((4, 16), trials, strict=True))
        for name, trials in ((TUNED, tuned), (DEFAULT, default))
    }
    one = judged({"test": "above", "of": ONE, "over": OTHER, "at": at}, runs)
    assert one.verdict == "inconclusive"
    assert 3 < one.trials_needed < 100
    level = judged({"test": "above", "of": ONE, "over": OTHER, "at": [16]}, runs)
    assert level.trials_needed > 1000


def test_one_curve_that_tends_to_fail_would_decide(judged):
    both = {"workload": ["oltp_write_only", "oltp_insert"]}
    (level, plain), (falling, plain_insert) = LEVEL, FALLING
    runs = {TUNED: {16: level}, DEFAULT: {16: plain}}
    runs |= {INSERT: {16: falling}, PLAIN_INSERT: {16: plain_insert}}
    one = judged({"test": "above", "of": ONE | both, "over": OTHER | both, "at": [64]}, runs)
    assert one.verdict == "inconclusive"
    assert 3 < one.trials_needed < 100


def test_of_several_curves_one_that_depends_on_chance_makes_the_whole_depend_on_it(judged):
    """Zeros are below any limit without doubt; the other curve is so by its interval."""
    of = ONE | {"variant": ["tuned", "default"]}
    runs = {TUNED: {16: [0, 0]}, DEFAULT: {16: [90, 91]}}
    one = judged({"test": "limit", "of": of, "at": "all", "most": 200, "unit": "/s"}, runs)
    assert one.verdict == "reproduced"
    assert one.confidence == 0.95


CLEAR = {"test": "above", "of": ONE, "over": OTHER, "at": [64]}
UNCLEAR = CLEAR | {"at": [4]}


@pytest.mark.parametrize(("unclear", "confidence"), [(0, 0.95), (1, 0.975), (4, 0.99)])
def test_the_fewer_claims_can_be_decided_the_more_confidence_each_takes(
    checkout, measured, unclear, confidence
):
    set_claims(
        checkout, [CLEAR, *[UNCLEAR] * unclear, {"test": "none", "needs": "another machine"}]
    )
    runs = {TUNED: curve(100, 100, 400), DEFAULT: curve(100, 100, 100)}
    decided, *others, untestable = judge.judge(checkout, STUDY, rerun(measured(runs)))
    assert decided.verdict == "reproduced"
    assert decided.confidence == pytest.approx(confidence)
    assert {(one.verdict, one.confidence) for one in others} <= {
        ("inconclusive", decided.confidence)
    }
    assert untestable.confidence is None


def test_what_an_interval_alone_decides_is_left_open_among_many(checkout, measured):
    runs = {TUNED: {16: [105, 110, 115]}, DEFAULT: {16: [90, 95, 100]}}

    def verdicts(claims: int) -> set[str]:
        set_claims(checkout, [CLEAR, *[UNCLEAR | {"at": [64], "by": 1.25}] * claims])
        return {one.verdict for one in judge.judge(checkout, STUDY, rerun(measured(runs)))}

    assert "reproduced" in verdicts(0)
    assert verdicts(30) == {"inconclusive"}
