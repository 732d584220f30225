"""What a report of a TPC-C run discloses: the frames add up, and the charts show all of them."""

from dataclasses import replace

import polars as pl
import pytest
import tpcc_synthetic as synthetic
import vl_convert
from benchlab.drivers.tpcc import measured, validity
from benchlab.drivers.tpcc.limits import NAMES
from benchlab.drivers.tpcc.measured import BROWSER_DELAY_US
from benchlab.drivers.tpcc.records import RECORDS
from benchlab.drivers.tpcc.validity import Facts, Recorded
from benchlab.engines.base import CHECKPOINTS
from benchlab.errors import BenchlabError
from benchlab.report import theme, tpcc, tpcc_charts, tpcc_cost
from conftest import ROOT

DRAWN = synthetic.Drawn(warehouses=4, minutes=30)


@pytest.fixture(scope="module")
def run() -> tuple[Recorded, Facts]:
    return synthetic.recorded(DRAWN), synthetic.facts(DRAWN)


@pytest.fixture
def records(run) -> pl.DataFrame:
    return run[0].records


# Frames


def test_checks_are_shown_with_what_is_allowed(run):
    found = validity.checks(*run)
    shown = tpcc.checks(found)
    assert len(shown) == len(found)
    assert shown.null_count().drop("of").sum_horizontal().item() == 0
    allowed = dict(shown.select("rule", "allowed").iter_rows())
    assert allowed["Payment in the mix"] == "≥ 43 %"
    assert allowed["New-Orders rolled back"] == "0.9–1.1 %"
    assert allowed["order lines of a remote warehouse"] == "0.95–1.05 %"
    assert allowed["throughput of a warehouse"] == "9–12.86 tpmC"
    assert allowed["Stock-Level, response time, 90th percentile"] == "≤ 20 s"
    assert allowed["stock, rows before the run"] == "400,000 rows"
    assert allowed["orders, rows before the run"] == "118,800–121,200 rows"
    interval = shown.filter(rule="measurement interval").row(0, named=True)
    assert (interval["measured"], interval["answer"], interval["of"]) == ("30 min", "broken", None)


def test_what_was_not_measured_is_shown_as_such(run):
    nothing = Recorded(pl.DataFrame(schema=RECORDS))
    shown = tpcc.checks(validity.checks(nothing, run[1]))
    skipped = shown.filter(rule="Deliveries that skipped a district").row(0, named=True)
    assert (skipped["measured"], skipped["allowed"]) == ("–", "–")
    assert skipped["why"] == "no deliveries were recorded"


def test_responses_are_of_all_that_ended_in_the_interval(run, records):
    facts = run[1]
    found = tpcc.responses(records, facts.interval)
    ended = measured.ended(records, facts.interval)
    assert found["type"].to_list() == [*NAMES.values(), "menu"]
    types = found.filter(pl.col("type") != "menu")
    assert types["transactions"].sum() == len(ended)
    assert types["mix (%)"].sum() == pytest.approx(100)
    orders = ended.filter(type="new_order")
    row = found.row(0, named=True)
    assert row["mean (s)"] == pytest.approx(orders["response_us"].mean() / 1e6)
    assert row["maximum (s)"] == orders["response_us"].max() / 1e6
    assert row["mean (s)"] < row["90th percentile (s)"] < row["maximum (s)"]
    assert found["mean (s)"].min() > BROWSER_DELAY_US / 1e6


def test_keying_and_think_times_of_each_type(run, records):
    found = tpcc.times(records, run[1].interval)
    assert found["type"].to_list() == list(NAMES.values())
    assert found["keying, least (s)"].to_list() == [18, 3, 2, 2, 2]
    assert found["keying, greatest (s)"].to_list() == [18, 3, 2, 2, 2]
    assert found["think, mean (s)"][0] == pytest.approx(12.12, rel=0.1)
    assert found["think, greatest (s)"][0] <= 121.2


def test_counts_tell_what_was_not_recorded_from_none(run):
    recorded, facts = run
    found = dict(tpcc.counts(recorded, facts).iter_rows())
    assert found["transactions refused"] == found["terminals lost"] == 0
    assert found["Deliveries queued"] > 0
    status = pl.when(pl.col("terminal") == 7).then(pl.lit("lost")).otherwise("status")
    lost = recorded.records.with_columns(status=status)
    found = dict(tpcc.counts(Recorded(lost), facts).iter_rows())
    assert found["terminals lost"] == 1
    assert found["Deliveries queued"] is None
    assert found["New-Orders"] == len(measured.new_orders_us(lost, facts.interval))


def test_the_four_longest_checkpoints_that_touch_the_interval():
    minutes = [(-20, -10), (-5, 1), (2, 4), (5, 10), (12, 13), (20, None), (40, 60), (29, 32)]
    at = [
        [None if one is None else synthetic.BEGIN + one * synthetic.MINUTE for one in row]
        for row in minutes
    ]
    found = tpcc.longest_checkpoints(
        pl.DataFrame(at, schema=CHECKPOINTS, orient="row"), DRAWN.interval
    )
    assert found["duration (s)"].to_list() == [360, 300, 180, 120]
    assert found["begin (min)"].to_list() == [-5, 5, 29, 2]


def test_a_response_histogram_has_each_transaction_once(run, records):
    interval = run[1].interval
    found = tpcc.response_histogram(records, interval)
    responses = tpcc.responses(records, interval)
    for name in NAMES.values():
        bins = found.filter(type=name)
        of_type = responses.row(by_predicate=pl.col("type") == name, named=True)
        assert bins["count"].sum() == of_type["transactions"]
        inside = bins.drop_nulls("to_s")
        assert len(inside) >= 20  # clause 5.6.1
        assert inside["from_s"][0] == 0
        assert inside["from_s"][1:].to_list() == pytest.approx(inside["to_s"][:-1].to_list())
        assert inside["to_s"][-1] == pytest.approx(4 * of_type["90th percentile (s)"])
        p90 = inside.filter(pl.col("from_s") <= of_type["90th percentile (s)"])["count"].sum()
        assert p90 >= 0.9 * of_type["transactions"]


def test_a_histogram_keeps_what_lies_beyond_its_end(run, records):
    interval = run[1].interval
    found = tpcc.think_histogram(records, interval)
    thought = measured.ended(records.filter(type="new_order"), interval)["think_us"]
    end = found["to_s"].max()
    assert end == pytest.approx(4 * thought.mean() / 1e6)
    beyond = found.filter(pl.col("to_s").is_null())["count"].item()
    assert beyond == (thought / 1e6 >= end).sum() > 0


def test_of_a_run_without_think_times_there_is_no_histogram_of_them(run, records):
    rushed = records.with_columns(think_us=pl.lit(0, dtype=pl.Int32))
    assert tpcc.think_histogram(rushed, run[1].interval).is_empty()


def test_a_level_is_of_all_new_orders(run):
    recorded, facts = run
    found = tpcc.level(recorded, facts, 0.5).row(0, named=True)
    assert found["load"] == 0.5
    assert int(found["per_minute"]) == validity.tpmc(recorded.records, facts)
    responses = tpcc.responses(recorded.records, facts.interval)
    assert found["p90_s"] == responses["90th percentile (s)"][0]


# Charts


def shown(chart) -> dict:
    """The specification of a chart that can be drawn."""
    with theme.enable():
        spec = chart.to_dict()
    assert vl_convert.vegalite_to_svg(spec).startswith("<svg")
    return spec


def rows(spec: dict) -> list[dict]:
    return [row for data in spec["datasets"].values() for row in data]


def test_response_times_are_drawn_by_type(run, records):
    interval = run[1].interval
    histogram = tpcc.response_histogram(records, interval)
    spec = shown(tpcc_charts.response_times(histogram, tpcc.responses(records, interval)))
    assert [view["title"]["text"] for view in spec["concat"]] == list(NAMES.values())
    bars = [row for row in rows(spec) if "count" in row]
    assert len(bars) == len(histogram.drop_nulls("to_s"))


def test_a_type_without_transactions_has_no_view(run, records):
    interval, some = run[1].interval, records.filter(pl.col("type") != "delivery")
    spec = shown(
        tpcc_charts.response_times(
            tpcc.response_histogram(some, interval), tpcc.responses(some, interval)
        )
    )
    assert len(spec["concat"]) == len(NAMES) - 1


def test_think_times_say_how_many_are_not_shown(run, records):
    interval = run[1].interval
    histogram = tpcc.think_histogram(records, interval)
    spec = shown(tpcc_charts.think_times(histogram, tpcc.times(records, interval)))
    beyond = histogram.filter(pl.col("to_s").is_null())["count"].item()
    assert spec["title"]["subtitle"][1].startswith(f"{beyond} of ")


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_throughput_over_time_has_every_step_and_checkpoint(run, has_checkpoints):
    recorded, facts = run
    steps = measured.over_time(recorded.records, facts.interval, 30)
    checkpoints = recorded.checkpoints if has_checkpoints else None
    spec = shown(tpcc_charts.over_time(steps, facts.interval, 30, checkpoints))
    drawn = [row for row in rows(spec) if row.get("throughput") == "of each 30 s"]
    assert [row["per_minute"] for row in drawn] == steps["per_minute"].to_list()
    assert "measurement interval" in str(spec)
    assert ("'checkpoints'" in str(spec)) is has_checkpoints


def test_response_against_throughput_has_a_point_for_each_level(run):
    recorded, facts = run
    levels = pl.concat(
        [
            tpcc.level(
                replace(recorded, records=recorded.records.filter(pl.col("w_id") <= load * 4)),
                facts,
                load,
            )
            for load in (0.5, 0.75, 1.0)
        ]
    ).with_columns(pl.lit("PostgreSQL").alias("curve"))
    spec = shown(tpcc_charts.response_against_throughput(levels))
    assert len(rows(spec)) == 3
    assert levels["per_minute"].is_sorted()


# Space and price


def test_60_days_of_space_by_the_formulas_of_the_standard():
    # 100 warehouses at 12.5 tpmC each: a day grows the dynamic space by a fifth
    found = dict(tpcc_cost.space(1000, 500, 0, 100, 1250).iter_rows())
    assert found["daily growth"] == pytest.approx(200)
    assert found["daily spread"] == 0
    assert found["60-day space"] == pytest.approx(500 + 60 * 200)


@pytest.mark.parametrize(("free", "spread"), [(0, 0), (300, 0), (310, 10), (1000, 700)])
def test_free_space_beyond_a_day_and_a_half_of_growth_is_spread(free, spread):
    found = dict(tpcc_cost.space(1000, 500, free, 100, 1250).iter_rows())
    assert found["daily spread"] == pytest.approx(spread)
    assert found["60-day space"] == pytest.approx(500 + 60 * (200 + spread))


def test_a_run_that_grows_by_what_loaded_orders_take_grows_as_the_formula_says():
    loaded = 30_000 * 100 * 610  # bytes of 100 warehouses' orders
    by_formula = dict(tpcc_cost.space(loaded, 0, 0, 100, 1250).iter_rows())
    by_run = dict(tpcc_cost.measured_growth(610 * 7_000, 7_000, 1250).iter_rows())
    assert by_run["growth by New-Order"] == 610
    assert by_run["daily growth, measured"] == pytest.approx(by_formula["daily growth"])


def test_without_prices_there_is_no_price_performance():
    found = tpcc_cost.prices(ROOT / "data" / "prices" / "tpcc.csv")
    assert found.is_empty()
    assert tpcc_cost.price_performance(found, 1260).is_empty()


def priced(tmp_path, *lines: str):
    path = tmp_path / "prices.csv"
    path.write_text("\n".join([",".join(tpcc_cost.PRICES), *lines, ""]))
    return path


def test_a_users_prices_give_price_performance_and_shares(tmp_path):
    path = priced(tmp_path, "server,hardware,2,900.5,199,X", "licence,software,1,8000,0,X")
    found = tpcc_cost.price_performance(tpcc_cost.prices(path), 1000)
    values = {what: (value, unit) for what, value, unit in found.iter_rows()}
    assert values["total over three years"] == (10_000, "X")
    assert values["price/performance"] == (10, "X/tpmC")
    assert values["share of hardware"] == (20, "%")
    assert tpcc_cost.price_performance(tpcc_cost.prices(path), 0).is_empty()


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["server,hardware,2,900,0,X", "rack,hardware,1,1,0,Y"], "several currencies: X, Y"),
        (["server,hardware,2,,0,X"], "the part 'server' has an empty cell"),
        (["server,hardware,two,1,0,X"], "two"),
    ],
)
def test_prices_that_cannot_be_added_are_an_error(tmp_path, lines, cause):
    with pytest.raises(BenchlabError, match=cause):
        tpcc_cost.prices(priced(tmp_path, *lines))


def test_a_file_that_is_not_there_or_lacks_a_column_is_an_error(tmp_path):
    with pytest.raises(BenchlabError, match=r"prices .*nosuch\.csv: "):
        tpcc_cost.prices(tmp_path / "nosuch.csv")
    path = tmp_path / "prices.csv"
    path.write_text("part,category,quantity,unit_price,currency\n")
    with pytest.raises(BenchlabError, match="no column maintenance_3_years"):
        tpcc_cost.prices(path)
