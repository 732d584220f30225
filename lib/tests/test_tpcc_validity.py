"""TPC-C's rules about a run: each is told to be kept, to be broken, and not to be decided by few."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import tpcc_synthetic as synthetic
from benchlab.drivers.tpcc import chance, limits, measured, validity
from benchlab.drivers.tpcc.checks import Mix
from benchlab.drivers.tpcc.limits import NAMES
from benchlab.drivers.tpcc.measured import BROWSER_DELAY_US, Interval
from benchlab.drivers.tpcc.records import RECORDS
from benchlab.drivers.tpcc.validity import Facts, Recorded
from benchlab.workloads.tpcc.dataset import TYPES
from hypothesis import given
from hypothesis import strategies as st

#: Long enough, and of warehouses enough, that every rule can be told to be kept.
ENOUGH = synthetic.Drawn(warehouses=60, minutes=120, ramp_up=30, think=1.1)
FEW = synthetic.Drawn(warehouses=1, minutes=2)

Run = tuple[Recorded, Facts]


@pytest.fixture(scope="module")
def conforming() -> Run:
    return synthetic.recorded(ENOUGH), synthetic.facts(ENOUGH)


def answers(run: Run) -> dict[str, str]:
    found = validity.checks(*run)
    assert found["check"].is_unique().all()
    return dict(found.select("check", "answer").iter_rows())


def test_of_a_single_warehouse_nothing_is_remote():
    one = replace(ENOUGH, warehouses=1)
    found = validity.checks(synthetic.recorded(one), synthetic.facts(one))
    of_remote = found.filter(pl.col("check").str.contains("remote"))
    assert of_remote.select("value", "answer", "why").unique().rows() == [
        (None, "undecided", "there is one warehouse")
    ]
    assert len(of_remote) == 2


# Ways to break each rule


def changed(**values: pl.Expr) -> Callable[[Recorded, Facts], Run]:
    """Columns of the records set to other values."""
    return lambda run, facts: (replace(run, records=run.records.with_columns(**values)), facts)


def only(kind: str, value: pl.Expr, column: str) -> Callable[[Recorded, Facts], Run]:
    """A column of one type set to another value."""
    of_kind = pl.when(pl.col("type") == kind).then(value).otherwise(column)
    return changed(**{column: of_kind.cast(RECORDS[column])})


def without(condition: pl.Expr) -> Callable[[Recorded, Facts], Run]:
    """The records without those that meet a condition."""
    return lambda run, facts: (replace(run, records=run.records.filter(~condition)), facts)


def other(name: str, change: Callable[[pl.DataFrame], pl.DataFrame]):
    """Another frame that was recorded."""
    return lambda run, facts: (replace(run, **{name: change(getattr(run, name))}), facts)


EVERY_FIFTH = pl.int_range(pl.len()) % 5 == 0
EVERY_20TH = pl.int_range(pl.len()) % 20 == 0
SECOND = 1_000_000
HALFTIME = synthetic.BEGIN + 60 * synthetic.MINUTE

BROKEN_BY = (
    {
        f"{NAMES[kind]} in the mix": without((pl.col("type") == kind) & EVERY_FIFTH)
        for kind in limits.MIX
    }
    | {
        "New-Orders rolled back": changed(status=pl.lit("ok")),
        "order lines, mean of a New-Order": changed(lines=pl.col("lines") + 1),
        "order lines, uniform from 5 to 15: p of χ²": changed(lines=pl.col("lines").clip(6, 15)),
        "order lines of a remote warehouse": changed(remote_lines=pl.col("remote_lines") * 2),
        "Payments of a remote customer": only("payment", pl.lit(False), "remote"),
        "Payments by last name": only("payment", pl.lit(True), "by_name"),
        "Order-Statuses by last name": only("order_status", pl.lit(False), "by_name"),
    }
    | {
        f"{name}, shortest keying time": only(
            kind, pl.when(EVERY_20TH).then(1_900_000).otherwise("keying_us"), "keying_us"
        )
        for kind, name in NAMES.items()
    }
    | {
        f"{name}, mean think time": only(kind, pl.col("think_us") * 0.8, "think_us")
        for kind, name in NAMES.items()
    }
    | {
        f"{name}, response time, 90th percentile": only(
            kind, pl.col("due_us") - limits.RESPONSE[kind] * SECOND, "due_us"
        )
        for kind, name in NAMES.items()
    }
    | {
        f"{name}, 90th percentile : mean": only(
            kind,
            pl.when(EVERY_20TH).then(pl.col("due_us") - 90 * SECOND).otherwise("due_us"),
            "due_us",
        )
        for kind, name in NAMES.items()
    }
    | {
        "menu, response time, 90th percentile": changed(menu_us=pl.lit(1_900_000)),
        "Delivery, deferred part, 90th percentile": other(
            "deliveries",
            lambda found: found.with_columns(
                completed_us=pl.when(~EVERY_FIFTH).then("completed_us")
            ),
        ),
        "Deliveries acknowledged and not done": other(
            "deliveries",
            lambda found: found.with_columns(
                completed_us=pl.when(~EVERY_20TH).then("completed_us")
            ),
        ),
        "mix and pacing in ramp-up, rules broken": changed(
            keying_us=pl.when(pl.col("answered_us") < synthetic.BEGIN)
            .then(pl.lit(1))
            .otherwise("keying_us")
        ),
        "throughput of a warehouse": lambda run, facts: (run, replace(facts, warehouses=50)),
        "cumulative variation of tpmC": without(
            (pl.col("type") == "new_order")
            & (pl.col("answered_us") > HALFTIME)
            & (pl.int_range(pl.len()) % 10 == 0)
        ),
        "measurement interval": lambda run, facts: (
            run,
            replace(facts, interval=Interval(synthetic.BEGIN, HALFTIME)),
        ),
        "time between checkpoints": other("checkpoints", lambda found: found[[0, 1, 3, 4, 5]]),
        "checkpoints in the interval": other("checkpoints", lambda found: found[:4]),
    }
    | {
        f"{table}, rows before the run": other(
            "cardinalities",
            lambda found, table=table: found.with_columns(
                rows=pl.when(pl.col("table") == table)
                .then(pl.col("rows") * 102 // 100)
                .otherwise("rows")
            ),
        )
        for table in limits.cardinalities(1)
    }
    | {
        "send, later than due by, 99th percentile": changed(
            sent_us=pl.col("due_us") + pl.when(EVERY_20TH).then(10_000).otherwise(0)
        ),
        "transactions refused, in error or lost": only("stock_level", pl.lit("refused"), "status"),
    }
)


def test_a_run_by_the_rules_keeps_all_of_them(conforming):
    found = answers(conforming)
    assert found == dict.fromkeys(found, "kept")
    assert found.keys() == BROKEN_BY.keys() | {"Deliveries that skipped a district"}


def test_many_deliveries_that_skip_a_district_must_be_reported(conforming):
    run, facts = conforming
    skipped = EVERY_20TH.cast(pl.Int8)
    run = replace(run, deliveries=run.deliveries.with_columns(skipped=skipped))
    found = validity.checks(run, facts)
    row = found.filter(check="Deliveries that skipped a district").row(0, named=True)
    assert row["value"] > row["most"]
    assert (row["answer"], row["why"]) == ("kept", "as many must be reported, and are here")


@pytest.mark.parametrize("rule", BROKEN_BY)
def test_what_breaks_a_rule_is_told(conforming, rule):
    assert answers(BROKEN_BY[rule](*conforming))[rule] == "broken"


def test_a_menu_that_is_requested_late_is_told(conforming):
    late = changed(menu_late_us=pl.when(EVERY_20TH).then(10_000).otherwise(0))
    assert answers(late(*conforming))["send, later than due by, 99th percentile"] == "broken"


def test_records_without_the_lateness_of_menus_tell_that_of_the_forms(conforming):
    older = changed(menu_late_us=pl.lit(None, RECORDS["menu_late_us"]))
    assert answers(older(*conforming))["send, later than due by, 99th percentile"] == "kept"


#: Rules about what chance moves, of which 2 minutes of a warehouse say nothing.
CHANCE = (
    [name for name in BROKEN_BY if " in the mix" in name or " think time" in name]
    + [name for name in BROKEN_BY if "90th percentile" in name and "mean" not in name]
    + [
        "mix and pacing in ramp-up, rules broken",
        "New-Orders rolled back",
        "order lines, mean of a New-Order",
        "order lines, uniform from 5 to 15: p of χ²",
        "order lines of a remote warehouse",
        "Payments of a remote customer",
        "Payments by last name",
        "Order-Statuses by last name",
        "throughput of a warehouse",
        "cumulative variation of tpmC",
        "send, later than due by, 99th percentile",
    ]
)


@pytest.mark.parametrize("seed", range(5))
def test_of_few_transactions_nothing_is_told(seed):
    drawn = replace(FEW, seed=seed)
    found = validity.checks(synthetic.recorded(drawn), synthetic.facts(drawn))
    told = found.filter(pl.col("check").is_in(CHANCE), answer="kept")["check"].to_list()
    # of what is asked of every transaction, fifty are enough
    assert set(told) <= {
        "menu, response time, 90th percentile",
    }
    assert found.filter(pl.col("check").is_in(CHANCE), answer="broken").is_empty()
    undecided = found.filter(~pl.col("check").str.contains("remote"), answer="undecided")
    assert (undecided["why"] == "too few to tell").all()


def test_of_nothing_recorded_nothing_is_told_but_the_time_and_that_nothing_was_done():
    facts = synthetic.facts(ENOUGH)
    found = answers((Recorded(pl.DataFrame(schema=RECORDS)), facts))
    assert found.pop("measurement interval") == "kept"
    assert found.pop("throughput of a warehouse") == "broken"
    assert found == dict.fromkeys(found, "undecided")


def test_a_rule_that_is_undecided_for_another_reason_says_which(conforming):
    run, facts = conforming
    found = validity.checks(Recorded(run.records), replace(facts, ramp_up=None))
    why = dict(found.filter(answer="undecided").select("check", "why").iter_rows())
    assert why["Deliveries that skipped a district"] == "no deliveries were recorded"
    assert why["Deliveries acknowledged and not done"] == "no deliveries were recorded"
    assert why["checkpoints in the interval"] == "no checkpoints were recorded"
    assert why["stock, rows before the run"] == "they were not counted"
    assert why["mix and pacing in ramp-up, rules broken"] == "it was not recorded"


def test_without_a_checkpoint_before_the_interval_they_may_be_too_far_apart(conforming):
    run, facts = conforming
    late = replace(run, checkpoints=run.checkpoints[1:])
    found = validity.checks(late, facts).filter(check="time between checkpoints")
    assert found.select("value", "answer", "why").row(0) == (
        25,
        "broken",
        "none before the interval",
    )


# A run that takes no account of keying and think times is no TPC-C


def test_without_pacing_rules_are_broken(conforming):
    run, facts = conforming
    rushed = replace(run, records=run.records.with_columns(keying_us=pl.lit(0), think_us=pl.lit(0)))
    found = validity.checks(rushed, facts)
    broken = found.filter(answer="broken")["check"].to_list()
    assert len(broken) == 2 * len(TYPES) + 1  # and in ramp-up


# What belongs to the interval


def one(**values: object) -> pl.DataFrame:
    """A New-Order that was due 30 ms before it was answered."""
    row = dict.fromkeys(RECORDS) | {"type": "new_order", "status": "ok", "answered_us": 5_000_000}
    row |= {"due_us": 4_970_000} | values
    return pl.DataFrame([row], schema=RECORDS)


@pytest.mark.parametrize(
    ("answered", "belongs"), [(999_999, 0), (1_000_000, 1), (8_999_999, 1), (9_000_000, 0)]
)
def test_a_transaction_belongs_to_the_interval_in_which_it_was_answered(answered, belongs):
    interval = Interval(1_000_000, 9_000_000)
    assert len(measured.ended(one(answered_us=answered), interval)) == belongs
    assert len(measured.new_orders_us(one(answered_us=answered), interval)) == belongs


def test_a_response_time_counts_from_when_the_send_was_due_and_has_the_browsers_delay():
    interval = Interval(0, 9_000_000)
    late = one(sent_us=4_999_000)  # the emulator, which hides nothing by that
    assert measured.ended(late, interval)["response_us"].to_list() == [30_000 + BROWSER_DELAY_US]


@pytest.mark.parametrize(
    ("status", "ended"),
    [("ok", 1), ("rolled_back", 1), ("refused", 0), ("error", 0), ("lost", 0)],
)
def test_tpmc_counts_rollbacks_on_purpose_and_nothing_that_failed(status, ended):
    interval = Interval(0, 9_000_000)
    answered = None if status == "lost" else 5_000_000
    found = one(status=status, answered_us=answered)
    assert len(measured.new_orders_us(found, interval)) == ended
    assert len(measured.unended(found, interval)) == 1 - ended


def test_a_lost_transaction_belongs_to_the_interval_in_which_it_was_due():
    lost = one(status="lost", answered_us=None)
    assert measured.unended(lost, Interval(5_000_000, 9_000_000)).is_empty()


@pytest.mark.parametrize(
    ("new_orders", "seconds", "tpmc"), [(0, 60, 0), (1999, 120, 999), (2000, 120, 1000), (1, 7, 8)]
)
def test_tpmc_is_truncated(new_orders, seconds, tpmc):
    assert measured.tpmc(new_orders, Interval(0, seconds * 1_000_000)) == tpmc


# Percentiles and cumulative variation


@given(st.lists(st.integers(0, 10**9), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_least_value_with_that_share_at_or_below_it(values, percent):
    found = measured.percentile(pl.Series(values), percent)
    assert found in values
    at_or_below = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert 100 * at_or_below >= percent * len(values) > 100 * below


def test_of_nothing_there_is_no_percentile_and_no_variation():
    assert measured.percentile(pl.Series([], dtype=pl.Int64), 90) is None
    assert measured.variation(np.array([]), Interval(0, 10)) is None


LENGTH = 1000
MOMENTS = st.lists(st.integers(0, LENGTH - 1), min_size=1, max_size=50).map(sorted).map(np.array)


@given(MOMENTS)
def test_variation_is_the_greatest_distance_at_any_moment(at):
    """The definition itself, moment by moment: at whole ones, and right before the next."""
    found = measured.variation(at, Interval(0, LENGTH))
    moments = np.arange(LENGTH * measured.SETTLED, LENGTH + 1)
    so_far = np.searchsorted(at, moments, side="right")
    until = np.searchsorted(at, moments, side="left")[1:]
    distances = np.concatenate([so_far / moments, until / moments[1:]]) * LENGTH / len(at) - 1
    assert found == pytest.approx(np.abs(distances).max())


@given(MOMENTS, st.integers(2, 5))
def test_variation_depends_on_neither_unit_nor_size(at, times):
    found = measured.variation(at, Interval(0, LENGTH))
    assert measured.variation(at * times, Interval(0, LENGTH * times)) == pytest.approx(found)
    assert measured.variation(np.repeat(at, times), Interval(0, LENGTH)) == pytest.approx(found)


def test_an_even_throughput_does_not_vary_and_one_that_halves_does():
    even = np.arange(0, LENGTH) + 0.5
    assert measured.variation(even, Interval(0, LENGTH)) <= 0.5 / (LENGTH * measured.SETTLED)
    # 1 a time unit, from the middle on a half: of 0.75 a unit on the whole
    halved = np.concatenate([even[:500], even[500:][::2]])
    assert measured.variation(halved, Interval(0, LENGTH)) == pytest.approx(1 / 0.75 - 1, rel=0.01)


# What chance does


def test_a_steady_run_is_seldom_told_to_vary():
    """Answers at random moments: in 0.1 % of runs beyond what is taken to be chance."""
    random, n = np.random.default_rng(5), 4000
    runs = [np.sort(random.integers(0, 10**9, n)) for _ in range(5000)]
    varied = [measured.variation(at, Interval(0, 10**9)) for at in runs]
    broken = sum(chance.of_variation(one, n, 0.0) == "broken" for one in varied)
    assert 1 <= broken <= 12


@pytest.mark.parametrize("share", [0.009, 0.011])
@pytest.mark.parametrize("n", [50, 1000, 20_000])
def test_a_share_at_a_limit_is_seldom_told_to_be_beyond_it(share, n):
    random = np.random.default_rng(6)
    drawn = random.binomial(n, share, 2000)
    broken = sum(chance.of_share(int(one), n, 0.009, 0.011) == "broken" for one in drawn)
    assert broken <= 5


@pytest.mark.parametrize(
    ("n", "answer"),
    [(0, "undecided"), (100, "undecided"), (60_000, "undecided"), (75_000, "kept")],
)
def test_a_share_as_it_should_be_is_kept_once_the_sample_can_tell(n, answer):
    assert chance.of_share(n // 100, n, 0.009, 0.011) == answer


def test_a_deck_tells_of_its_mix_sooner_than_weights_do(conforming):
    run, facts = conforming
    few = replace(run, records=run.records.filter(pl.col("w_id") <= 10))
    rule = "Payment in the mix"
    assert answers((few, facts))[rule] == "kept"
    weighed = replace(facts, mix=Mix(synthetic.SHARES))
    assert answers((few, weighed))[rule] == "undecided"


@pytest.mark.parametrize(("share", "adjustment"), [(0.431, 0.05), (0.041, 0.2)])
def test_counts_scatter_as_much_as_is_said_of_adjusted_weights(share, adjustment):
    """Two ends of an interval, each as far off as its process had come."""
    draws, processes = 12_000, 300
    chances = np.random.default_rng(7).random((draws, processes))
    off, halfway = np.zeros(processes), None
    for number, chance_of in enumerate(chances):
        weight = share * np.where(off < 0, 1 + adjustment, 1 - adjustment)
        off += (chance_of < weight) - share
        if number == draws // 2:
            halfway = off.copy()
    n = draws // 2
    mix = Mix(synthetic.SHARES, adjustment=adjustment)
    expected = share * (1 - share) * n**2 / mix.independent(n, terminals=10, share=share)
    assert (off - halfway).var() == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(
    ("mean", "n", "answer"),
    [
        (12.1, 10_000, "kept"),
        (12.1, 100, "undecided"),
        (11.9, 1000, "undecided"),
        (11.9, 10**6, "broken"),
        (0, 3, "broken"),
        (0, 0, "undecided"),
    ],
)
def test_a_mean_think_time_is_held_to_chance(mean, n, answer):
    assert chance.of_think_time(mean, n, 12) == answer


@pytest.mark.parametrize(
    ("count", "minutes", "answer"),
    [
        (0, 0, "undecided"),
        (12, 1, "undecided"),
        (850, 100, "undecided"),
        (1200, 100, "kept"),
        (1450, 100, "broken"),
        (0, 100, "broken"),
    ],
)
def test_a_rate_is_held_to_chance(count, minutes, answer):
    assert chance.of_rate(count, minutes, 9, 12.86) == answer
