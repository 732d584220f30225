"""What a report of a TPC-C run discloses: the frames add up, and the charts show all of them."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import tpcc_synthetic as synthetic
import vl_convert
from benchlab import drivers
from benchlab.drivers.tpcc import measured
from benchlab.drivers.tpcc.limits import NAMES
from benchlab.drivers.tpcc.measured import BROWSER_DELAY_US
from benchlab.drivers.tpcc.validity import Recorded
from benchlab.errors import BenchlabError
from benchlab.report import theme, tpcc, tpcc_charts, tpcc_cost
from benchlab.report.tpcc import Run
from benchlab.study import Workload
from conftest import ROOT

DRAWN = synthetic.Drawn(warehouses=4, minutes=30)
MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return synthetic.recorded(DRAWN)


@pytest.fixture(scope="module")
def ended(recorded) -> pl.DataFrame:
    return measured.ended(recorded.records, DRAWN.interval)


def left(recorded: Recorded, folder: Path) -> Path:
    """Leave in a folder what a run leaves of which that was recorded."""
    begin_us, end_us = DRAWN.interval.begin_us, DRAWN.interval.end_us
    totals = {
        "begun": begin_us // 1_000_000,
        "seconds": (end_us - begin_us) / 1e6,
        "of_warehouses": DRAWN.warehouses,
        **dict.fromkeys(("all", "refused", "errors", "lost", "lost_terminals"), 0),
    }
    (folder / "terminals-000001-000004.out").write_text(json.dumps(totals) + "\n")
    recorded.records.write_parquet(folder / "terminals-000001-000004.parquet")
    if recorded.deliveries is not None:
        lines = [
            {**row, "o_carrier_id": row["carrier"], "delivered": {"1": 1}, "skipped": []}
            for row in recorded.deliveries.iter_rows(named=True)
        ]
        (folder / "deliveries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    return folder


def read(folder: Path, pacing: float = 1, passed_gate: bool = True) -> Run:
    """Read such a folder as an ingest does."""
    driver, options = drivers.driver("tpcc"), {"mix": "decks", "pacing": pacing}
    workload = Workload(driver="tpcc", scripts=MIX, writes=True, options=options)
    found = driver.measured(folder, workload)
    at = [DRAWN.interval.begin_us / 1e6 + second for second in (-60, 0, 300, 301, 1200, 1900)]
    return Run(
        "PostgreSQL",
        "paced",
        pacing,
        10 * DRAWN.warehouses,
        DRAWN.warehouses,
        found.totals.seconds,
        DRAWN.interval.begin_us / 1e6,
        passed_gate,
        driver.rules(folder, workload, "none"),
        found.operations,
        found.buckets,
        driver.times(folder, workload),
        driver.seconds(folder, workload),
        pl.DataFrame(schema={"begin_s": pl.Float64, "end_s": pl.Float64}),
        pl.DataFrame({"t": at, "value": [0.2, 0.9, 1.0, 1.5, 3.1, 4.0]}),
    )


@pytest.fixture(scope="module")
def run(recorded, tmp_path_factory) -> Run:
    return read(left(recorded, tmp_path_factory.mktemp("run")))


# Pacing


def test_every_pacing_but_the_standards_is_told_to_be_none_of_tpcc():
    assert tpcc.paced(1) == "TPC-C pacing"
    assert tpcc.paced(0.02) == "not TPC-C pacing (× 50)"
    assert tpcc.paced(0).startswith("not TPC-C pacing")


# Frames


def test_checks_are_shown_with_what_is_allowed(run):
    shown = tpcc.checks(run.rules)
    assert len(shown) == len(run.rules)
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


def test_what_was_not_measured_is_shown_as_such(recorded, tmp_path):
    without = read(left(replace(recorded, deliveries=None), tmp_path))
    skipped = tpcc.checks(without.rules).filter(rule="Deliveries that skipped a district")
    assert skipped.select("measured", "allowed", "why").row(0) == (
        "–",
        "–",
        "no deliveries were recorded",
    )
    found = dict(tpcc.counts([without]).select("what", "count").iter_rows())
    assert found["Deliveries queued"] is None


def test_responses_are_of_all_that_ended_in_the_interval(run, ended):
    found = tpcc.responses([run])
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


def test_keying_and_think_times_of_each_type(run):
    found = tpcc.times([run])
    assert found["type"].to_list() == list(NAMES.values())
    assert found["keying, least (s)"].to_list() == [18, 3, 2, 2, 2]
    assert found["keying, greatest (s)"].to_list() == [18, 3, 2, 2, 2]
    assert found["think, mean (s)"][0] == pytest.approx(12.12, rel=0.1)
    assert found["think, greatest (s)"][0] <= 121.2


def test_counts_tell_how_transactions_ended(run, ended):
    found = dict(tpcc.counts([run]).select("what", "count").iter_rows())
    assert found["transactions that ended well"] == len(ended)
    assert found["New-Orders"] == run.new_orders == len(ended.filter(type="new_order"))
    rolled_back = len(ended.filter(status="rolled_back"))
    assert found["New-Orders rolled back on purpose"] == rolled_back > 0
    assert found["transactions refused, in error or lost"] == 0
    assert found["Deliveries queued"] > 0
    assert found["Deliveries acknowledged and not done"] == 0


def test_terminals_that_were_lost_are_counted(recorded, tmp_path):
    status = pl.when(pl.col("terminal") == 7).then(pl.lit("lost")).otherwise("status")
    lost = replace(recorded, records=recorded.records.with_columns(status=status))
    found = dict(tpcc.counts([read(left(lost, tmp_path))]).select("what", "count").iter_rows())
    assert found["transactions refused, in error or lost"] > 0


def test_a_response_histogram_has_each_transaction_once(run):
    found = tpcc.response_histogram(run)
    responses = tpcc.responses([run])
    delay = BROWSER_DELAY_US / 1e6
    for name in NAMES.values():
        bins = found.filter(type=name)
        of_type = responses.row(by_predicate=pl.col("type") == name, named=True)
        assert bins["count"].sum() == of_type["transactions"]
        inside = bins.drop_nulls("to_s")
        assert len(inside) >= 20  # clause 5.6.1
        assert inside["from_s"][0] == delay
        assert inside["from_s"][1:].to_list() == pytest.approx(inside["to_s"][:-1].to_list())
        p90 = of_type["90th percentile (s)"]
        assert inside["to_s"][-1] == pytest.approx(delay + 4 * (p90 - delay))
        assert inside.filter(pl.col("from_s") <= p90)["count"].sum() >= 0.9 * bins["count"].sum()


def test_a_histogram_keeps_what_lies_beyond_its_end(run, ended):
    found = tpcc.think_histogram(run)
    thought = ended.filter(type="new_order")["think_us"].cast(pl.Float64).round_sig_figs(3)
    end = found["to_s"].max()
    assert end == pytest.approx(4 * thought.mean() / 1e6)
    beyond = found.filter(pl.col("to_s").is_null())["count"].item()
    assert beyond == (thought / 1e6 >= end).sum() > 0
    assert found["count"].sum() == len(thought)


def test_of_a_run_without_think_times_there_is_no_histogram_of_them(recorded, tmp_path):
    rushed = recorded.records.with_columns(think_us=pl.lit(0, dtype=pl.Int32))
    found = read(left(replace(recorded, records=rushed), tmp_path), pacing=0)
    assert tpcc.think_histogram(found).is_empty()
    assert not shown(tpcc_charts.think_times([found]))["concat"]


def test_throughput_over_time_adds_up(run):
    found = tpcc.over_time(run)
    assert tpcc.step_s(run) == 30
    assert len(found) == 60
    assert found["minute"][0] == 0.25
    assert found["per_minute"].sum() / 2 == pytest.approx(run.new_orders)
    assert found["cumulative"][-1] == pytest.approx(run.per_minute)
    assert run.tpmc == int(run.per_minute)


@pytest.mark.parametrize(
    ("seconds", "step"), [(7200, 30), (28800, 30), (600, 30), (300, 15), (60, 3), (15, 1)]
)
def test_a_short_interval_has_shorter_steps(run, seconds, step):
    assert tpcc.step_s(replace(run, seconds=seconds)) == step


def test_a_cycle_is_where_it_was_done_within_the_interval(run):
    assert tpcc.cycles(run)["minute"].to_list() == pytest.approx([5, 20])


def with_checkpoints(run: Run) -> Run:
    minutes = [(-20, -10), (-5, 1), (2, 4), (5, 10), (12, 13), (28, None), (40, 60)]
    at = [[one and run.begin_s + 60 * one for one in row] for row in minutes]
    schema = {"begin_s": pl.Float64, "end_s": pl.Float64}
    return replace(run, checkpoints=pl.DataFrame(at, schema=schema, orient="row"))


def test_the_four_longest_checkpoints_that_touch_the_interval(run):
    found = tpcc.longest_checkpoints([with_checkpoints(run), run])
    assert found["duration (s)"].to_list() == pytest.approx([360, 300, 120, 120])
    assert found["begin (min)"].to_list()[:2] == pytest.approx([-5, 5])


# Charts


def shown(chart) -> dict:
    """The specification of a chart that can be drawn."""
    with theme.enable():
        spec = chart.to_dict()
    assert vl_convert.vegalite_to_svg(spec).startswith("<svg")
    return spec


def rows(spec: dict) -> list[dict]:
    return [row for data in spec["datasets"].values() for row in data]


def test_response_times_are_drawn_by_type(run):
    spec = shown(tpcc_charts.response_times(run))
    assert [view["title"]["text"] for view in spec["concat"]] == list(NAMES.values())
    bars = [row for row in rows(spec) if "count" in row]
    assert len(bars) == len(tpcc.response_histogram(run).drop_nulls("to_s"))
    assert spec["title"]["text"] == "PostgreSQL, 40 terminals: TPC-C pacing"


def test_a_type_without_transactions_has_no_view(recorded, tmp_path):
    some = recorded.records.filter(pl.col("type") != "delivery")
    run = read(left(replace(recorded, records=some), tmp_path))
    assert len(shown(tpcc_charts.response_times(run))["concat"]) == len(NAMES) - 1


def test_think_times_say_how_many_are_not_shown(run):
    (view,) = shown(tpcc_charts.think_times([run]))["concat"]
    beyond = tpcc.think_histogram(run).filter(pl.col("to_s").is_null())["count"].item()
    assert view["title"]["subtitle"][-1].startswith(f"{beyond} of ")


def test_throughput_over_time_has_every_step_and_cycle(run):
    spec = shown(tpcc_charts.over_time([run, replace(run, cycles=run.cycles.clear())]))
    steps = [row for row in rows(spec) if row.get("throughput") == "within a step"]
    each = tpcc.over_time(run)["per_minute"].to_list()
    assert [row["per_minute"] for row in steps] == each  # of both, which are the same
    marks = [row["at"] for row in rows(spec) if "throughput" not in row]
    assert marks == pytest.approx([5, 20])
    titles = [view["title"]["subtitle"][1] for view in spec["concat"]]
    assert [one.rpartition(": ")[2] for one in titles] == ["2", "0"]


def test_checkpoints_take_the_place_of_cycles(run):
    spec = shown(tpcc_charts.over_time([with_checkpoints(run)]))
    spans = [at for row in rows(spec) if "end" in row for at in (row["at"], row["end"])]
    assert spans == pytest.approx([-5, 1, 2, 4, 5, 10, 12, 13, 28, 30])
    (view,) = spec["concat"]
    assert view["title"]["subtitle"][1].endswith("checkpoints: 5")


# Space and price


def test_60_days_of_space_by_the_formulas_of_the_standard():
    # 100 warehouses at 12.5 tpmC each: a day grows the dynamic space by a fifth
    found = tpcc_cost.sixty_days(1000, 500, 100, 1250)
    assert found["daily growth"] == pytest.approx(200)
    assert found["60-day space"] == pytest.approx(500 + 60 * 200)


def test_without_prices_there_is_no_price_performance_and_it_is_said(run):
    found = tpcc_cost.prices(ROOT / tpcc_cost.FILE)
    assert found.is_empty()
    assert tpcc_cost.price_performance(found, [run]).is_empty()
    assert "data/prices/README.md" in tpcc_cost.unpriced(found, [run])


def priced(tmp_path, *lines: str):
    path = tmp_path / "prices.csv"
    path.write_text("\n".join([",".join(tpcc_cost.PRICES), *lines, ""]))
    return path


def test_a_users_prices_give_price_performance_and_shares(tmp_path, run):
    path = priced(tmp_path, "server,hardware,2,900.5,199,X", "licence,software,1,8000,0,X")
    prices = tpcc_cost.prices(path)
    found = tpcc_cost.price_performance(prices, [run])
    values = {what: (value, unit) for _, what, value, unit in found.iter_rows()}
    assert values["total over three years"] == (10_000, "X")
    assert values["price/performance"] == (10_000 / run.tpmc, "X/tpmC")
    assert values["share of hardware"] == (20, "%")
    assert not tpcc_cost.unpriced(prices, [run])


def test_what_is_no_tpmc_has_no_price(tmp_path, run):
    prices = tpcc_cost.prices(priced(tmp_path, "server,hardware,2,900.5,199,X"))
    faster = replace(run, pacing=0.02)
    assert tpcc_cost.price_performance(prices, [faster]).is_empty()
    assert "no tpmC" in tpcc_cost.unpriced(prices, [faster])
    half = replace(run, terminals=run.terminals // 2)
    assert tpcc_cost.price_performance(prices, [half]).is_empty()


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
