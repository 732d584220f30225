"""Runs with single writes: in the store, out of the curves, and what claims and charts make of them."""

import json

import polars as pl
import pytest
import vl_convert
from benchlab import study, target
from benchlab.claims import words
from benchlab.errors import BenchlabError
from benchlab.numbers import NOTHING, number
from benchlab.plan import Planner
from benchlab.raw import folders
from benchlab.report import lease_charts, leases, points, why
from benchlab.stats import share, spearman
from benchlab.store import ingest, metrics, open_store
from benchlab.studies import cached_tables
from benchlab.study.claims import Share
from benchlab.study.intervention import SingleWrites
from conftest import CAPTURES, STUDY, editable, edited_study, judged, planned, rerun
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

REQUESTED = SingleWrites(writes=4, every_s=8)

#: Of the measured part of every run that `close_run` leaves.
BEGIN = 1795223897.0

LEASE_S = 3


def captures(waits: list[float], states: str = "RRIWWR") -> dict[str, bytes]:
    """What a run leaves whose COMMITs took so long, and the state of whose table is given by second."""
    names = {"R": "READ", "I": "INTEND", "W": "WRITE"}
    writes = [
        {
            "table": "sbtest1",
            "due": (due := BEGIN + 5 * number),
            "begin": due + 0.01,
            "commit": due + 0.02,
            "end": due + 0.02 + wait,
        }
        for number, wait in enumerate(waits)
    ]
    samples = [
        {"t": BEGIN + second, "tables": [{"name": "sbtest1", "state": names[one]}]}
        for second, one in enumerate(states)
    ]
    lease = {"name": "tidb_table_cache_lease", "requested": "3", "effective": f"{LEASE_S}"}
    return CAPTURES | {
        "single_writes.jsonl": lines(writes),
        "table_states.jsonl": lines(samples),
        "settings.json": json.dumps([lease]).encode(),
    }


def lines(objects: list[dict]) -> bytes:
    return "".join(f"{json.dumps(one)}\n" for one in objects).encode()


@pytest.fixture
def trials(at_sixteen):
    """A trial of write_only at 16 threads, with and without single writes."""
    return at_sixteen, at_sixteen.model_copy(update={"intervention": REQUESTED})


@pytest.fixture
def written(checkout, close_run, trials):
    """The runs of both; gives a rerun of given waits."""
    opened = []

    def write(waits: list[float], **also) -> object:
        close_run(trial=trials[0])
        close_run(trial=trials[1], **captures(waits, **also))
        assert ingest.ingest_new(checkout).damaged == {}
        opened.append(open_store(checkout.store))
        return rerun(opened[-1], "quick")

    yield write
    for store in opened:
        store.close()


WAITS = [0.5, 1.5, 2.5, 3.4]


def test_it_is_read_from_the_store_as_from_the_raw_files(checkout, written):
    found = written(WAITS)
    (run_id,) = found.single_writes["run_id"]
    stored = leases.stored(found.store, run_id)
    raw = leases.read(checkout.raw, folders.read(checkout.raw / run_id))
    assert stored.label == raw.label
    assert stored.label.endswith(", oltp_write_only, 16 clients, read lease of 3 s")
    for name in ("seconds", "writes", "states"):
        assert getattr(stored, name).rows() == getattr(raw, name).rows()
    assert (
        stored.writes.select(pl.col("end") - pl.col("commit")).to_series().round(3).to_list()
        == WAITS
    )
    assert stored.states.select("state", "begin", "end").rows()[:3] == [
        ("READ", 0.0, 2.0),
        ("INTEND", 2.0, 3.0),
        ("WRITE", 3.0, 5.0),
    ]
    # where sysbench stopped counting, not where it ended
    assert stored.states["end"][-1] == pytest.approx(5.2941)


def test_what_readers_do_in_a_write_lease_is_compared_with_before(written):
    found = written([2.9, 0.5])  # the second write comes after the lease
    first, second = metrics.of_single_writes(found.store, found.single_writes).rows(named=True)
    run = leases.stored(found.store, found.single_writes["run_id"][0])
    tps = dict(run.seconds.select("second", "tps").iter_rows())
    assert first["write_lease_s"] == pytest.approx(2)
    in_lease = 100 * (tps[4] + tps[5]) / (tps[1] + tps[2])
    assert first["reads_in_write_lease_percent"] == pytest.approx(in_lease)
    # how long the state after it lasted is not known
    assert first["reads_after_write_lease_percent"] is None
    assert second["commit_wait_s"] == pytest.approx(0.5)
    assert second["write_lease_s"] is None


def test_a_run_whose_server_reports_no_lease_is_read_from_its_files(checkout, close_run, trials):
    record = close_run(trial=trials[1], **captures(WAITS) | {"settings.json": b"[]"})
    assert leases.read(checkout.raw, record).label.endswith(", 16 clients, not cached")


def test_it_is_no_trial_of_a_curve(written, trials):
    found = written(WAITS)
    assert found.counted["trial_key"].to_list() == [trials[0].key]
    assert found.interventions.is_empty()
    assert points.not_counted(found).is_empty()
    assert trials[0].key != trials[1].key


def test_single_writes_on_a_host_that_others_used_do_not_count(checkout, written):
    written(WAITS)
    with editable(checkout.store) as store:
        found = rerun(store, "quick")
        (run_id,) = found.single_writes["run_id"]
        checked = found.of_runs("FROM gate SEMI JOIN chosen USING (run_id)", found.single_writes)
        assert set(checked["check"]) <= {"alone", "client"}  # they are not to be steady
        store.connection.execute(f"DELETE FROM gate WHERE run_id = '{run_id}'")
        assert rerun(store, "quick").single_writes["run_id"].to_list() == [run_id]
        used = "60% of the host's CPU used by others"
        store.connection.execute(
            'INSERT INTO gate (run_id, "check", passed, value, found) VALUES (?, ?, ?, ?, ?)',
            [run_id, "alone", False, 0.6, used],
        )
        found = rerun(store, "quick")
        assert found.single_writes.is_empty()
        assert points.not_counted(found).select("status", "error").rows() == [
            ("failed the gate", used)
        ]
        assert len(found.counted) == 1


def test_what_writes_waited_is_shown_by_lease(written):
    found = written(WAITS)
    waits = leases.waits(found)
    assert waits.select("lease_s", pl.col("wait_s").round(3)).rows() == [
        (3.0, one) for one in WAITS
    ]
    (row,) = leases.summary(waits).rows(named=True)
    assert row == {
        "lease (s)": 3.0,
        "writes": 4,
        "least (s)": 0.5,
        "median (s)": 2.0,
        "95th percentile (s)": 3.4,
        "greatest (s)": 3.4,
        "half a lease or longer": words.estimated(share([False, True, True, True])),
        "within the lease and 0.25 s": words.estimated(share([True, True, True, False])),
        "with the wait before": "1.00",
    }
    (lasted,) = leases.write_leases(found).rows()
    assert lasted == (3.0, 1, 2.0, 2.0)


def test_a_wait_is_compared_with_the_one_before_it(written):
    waits = [1.0, 2.0, 1.5, 2.5, 0.5, 3.0, 0.7]
    (row,) = leases.summary(leases.waits(written(waits))).rows(named=True)
    assert row["with the wait before"] == words.estimated(spearman(waits[:-1], waits[1:]))


def test_a_single_wait_has_none_before_it(written):
    (row,) = leases.summary(leases.waits(written([1.0]))).rows(named=True)
    assert row["with the wait before"] == NOTHING


def test_a_write_lease_that_had_not_ended_with_the_run_is_left_out(written):
    assert leases.write_leases(written(WAITS, states="RIWW")).is_empty()


def test_throughput_is_that_of_whole_periods(written):
    found = written(WAITS)
    run = leases.demonstration(found)
    seconds = run.seconds["tps"].to_list()
    assert len(seconds) < 8
    assert leases.throughput_by_period(run, 2) == [
        pytest.approx(sum(pair) / 2) for pair in zip(seconds[2::2], seconds[3::2], strict=False)
    ]
    of_one = [pytest.approx(sum(seconds[:4]) / 4)]
    assert leases.throughput_by_period(run, 4) == of_one
    assert leases.throughput_by_period(run, 8) == []


def test_readers_gain_is_told_by_the_time_between_writes(checkout, close_run):
    block = {
        "engines": ["tidb"],
        "variants": ["plain", "cached"],
        "workloads": ["oltp_point_select_5000"],
        "concurrency": 32,
    }
    # a period of eight seconds is longer than the runs that `close_run` leaves
    with edited_study(checkout, "cached_tables") as spec:
        spec["single_writes"] = [
            block | {"single_writes": {"writes": 2, "every_s": every_s}} for every_s in (4, 8)
        ]
    for trial in planned(checkout, "cached_tables", "standard").trials:
        if isinstance(trial.intervention, SingleWrites) and trial.number == 1:
            is_plain = trial.point.variant == "plain"
            without = {"settings.json": b"[]"} if is_plain else {}
            close_run(trial=trial, **captures(WAITS) | without)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        found = rerun(store, "standard", study="cached_tables")
        between = cached_tables.between_writes(found)
    assert between.select("rows_per_table", "lease_s", "every_s", "runs", "ratio").rows() == [
        (5000, 3.0, 4, 1, 1.0)
    ]
    assert between.select("low", "high").row(0) == (None, None)  # a single run on each side
    assert between["wait_s"].item() == pytest.approx(2.0)
    assert "NaN" not in vl_convert.vegalite_to_svg(cached_tables.pays(between).to_json())


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        # by hand: half of the way from 4 to 8 s is 5.7 s on a logarithmic axis
        ([0.9, 1.1, 1.3], ("5.7", "4.8 to 6.7", "1 in 57,000")),
        ([1.1, 1.2, 1.3], ("≤ 4", "≤ 4 to ≤ 4", "")),
        ([0.7, 0.8, 0.9], ("> 16", "> 16 to > 16", "")),
        # only the last crossing counts
        ([1.1, 0.9, 1.3], ("9.5", "8.7 to 10", "1 in 95,000")),
    ],
)
def test_it_pays_from_where_the_ratio_stays_above_one(ratios, expected):
    between = pl.DataFrame(
        {"rows_per_table": 5000, "lease_s": 3.0, "every_s": [4, 8, 16], "ratio": ratios}
    ).with_columns(
        low=pl.col("ratio") - 0.05,
        high=pl.col("ratio") + 0.05,
        write_share=1 / (10_000 * pl.col("every_s")),
    )
    assert cached_tables.pays_from(between).row(0)[2:] == expected
    alone = between.with_columns(low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64))
    assert cached_tables.pays_from(alone)["95 % interval"].item() == ""


def test_readers_do_less_while_a_write_lease_lasts(checkout, close_run):
    for trial in planned(checkout, "cached_tables", "standard").trials:
        if trial.intervention == SingleWrites(writes=1, every_s=30) and trial.number == 1:
            close_run(trial=trial, **captures(WAITS[:1]))
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        found = rerun(store, "standard", study="cached_tables")
        (row,) = leases.by_state(found).rows(named=True)
        tps = leases.demonstration(found).seconds["tps"]
    # by the states of `captures`, a letter a second: READ in the first two, WRITE in the fourth, fifth
    read, write = tps[:2].mean(), tps[3:5].mean()
    assert row["READ (1/s)"] == pytest.approx(read, rel=0.01)
    assert row["WRITE (1/s)"] == pytest.approx(write, rel=0.01)
    assert row["plain (1/s)"] is row["WRITE : plain"] is None  # no plain table was run
    if read > write:
        assert row["dip (s)"] == pytest.approx((read - tps).sum() / (read - write), rel=0.01)
    else:
        assert row["dip (s)"] is None


def test_charts_have_what_the_run_has(written):
    found = written(WAITS)
    demonstration = leases.demonstration(found)
    for chart in (lease_charts.over_time(demonstration), lease_charts.waits(leases.waits(found))):
        svg = vl_convert.vegalite_to_svg(chart.to_json())
        assert "NaN" not in svg
    assert "INTEND" in vl_convert.vegalite_to_svg(lease_charts.over_time(demonstration).to_json())


def test_a_run_that_failed_or_wrote_nothing_says_so(checkout, close_run, trials):
    failed = close_run("failed", "single write into sbtest1: it is gone", trial=trials[1])
    with pytest.raises(BenchlabError, match="failed: single write into sbtest1: it is gone"):
        leases.read(checkout.raw, failed)
    nothing = close_run(trial=trials[1], **captures([]))
    with pytest.raises(BenchlabError, match="no single write was answered"):
        leases.read(checkout.raw, nothing)


# What claims make of them

OF = {"engine": "postgres", "variant": "default", "workload": "oltp_write_only"}
BEYOND = {"test": "share", "of": OF | {"metric": "commit_wait_beyond_lease_s"}, "unit": "s"}


@pytest.mark.parametrize(
    ("waits", "most", "verdict"),
    [
        ([0.1 * number for number in range(1, 32)] * 4, 0.25, "reproduced"),
        ([0.1 * number for number in range(1, 32)], 0.25, "inconclusive"),  # 31 are too few
        ([0.2 * number for number in range(1, 32)] * 4, 0.25, "not reproduced"),
    ],
)
def test_nearly_all_of_the_waits_lie_within_the_lease_or_not(
    checkout, written, waits, most, verdict
):
    one = judged(checkout, written(waits), BEYOND | {"most": most})
    assert one.verdict == verdict
    assert f"of {len(waits):,}, the greatest {number(max(waits) - LEASE_S)} s" in one.found


def test_why_shows_the_median_of_a_runs_writes(checkout, written):
    found = written(WAITS)
    one = judged(checkout, found, BEYOND | {"most": 1})
    (row,) = why.runs(found, one).rows(named=True)
    assert row["value"] == pytest.approx(2 - LEASE_S, rel=1e-3)
    assert row["metric"] == "latency of a single write's COMMIT beyond the lease (s)"
    (bound,) = points.bound_by(found, found.single_writes)["binding"]
    assert row["bound by"] == bound


def test_without_single_writes_such_a_claim_is_not_testable(checkout, measured):
    store = measured({tuple(OF.values()): {16: [100, 101, 102]}})
    one = judged(checkout, rerun(store), BEYOND | {"most": 1})
    assert one.verdict == "not testable here"
    assert one.reason.endswith("no run has single writes")


def test_a_share_is_put_into_words():
    test = Share(**BEYOND | {"most": 0.25})
    assert words.condition(test) == "≤ 0.25 s in 95 % or more"


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_a_share_has_an_interval_around_it(holds):
    found = share(holds)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert share(holds, 0.99).low <= found.low
    assert share([not one for one in holds]).high == pytest.approx(1 - found.low)


def test_a_share_of_all_of_a_hundred():
    """Clopper and Pearson's by hand: 0.025 ** (1 / 100)."""
    assert share([True] * 100).low == pytest.approx(0.025 ** (1 / 100))


# What is planned


def test_single_writes_are_planned_last_and_are_as_long_as_they_take(checkout):
    with edited_study(checkout) as spec:
        spec["single_writes"] = [
            {
                "engines": ["postgres"],
                "variants": ["default", "tuned"],
                "workloads": ["oltp_point_select"],
                "concurrency": 32,
                "single_writes": {"writes": 5, "every_s": 30},
                "profiles": ["standard"],
            }
        ]
    loaded = study.load(checkout, STUDY)
    instance = target.instance_type(checkout, loaded.instance)
    planner = Planner(loaded, "standard", instance, dict.fromkeys(loaded.engines, "1.0"))
    batches = planner.single_writes()
    assert [batch.name for batch in batches] == [
        f"postgres-{variant}-oltp_point_select-trial{number}-single-writes32"
        for number in (1, 2)
        for variant in ("default", "tuned")
    ]
    for batch in batches:
        (trial,) = batch.trials
        assert trial.point.measure_s == 5 * 30
    assert list(planner.plan("local").batches[-4:]) == batches


@pytest.mark.parametrize("wrong", [{"writes": 0}, {"every_s": 3}])
def test_writes_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        SingleWrites(**{"writes": 1, "every_s": 30} | wrong)
