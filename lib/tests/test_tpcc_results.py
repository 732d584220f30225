"""What TPC-C's study shows of a store, whose runs left what terminals once left without a database."""

import json
import re

import polars as pl
import pytest
import vl_convert
from benchlab.repo import Repo
from benchlab.report import theme, tpcc, tpcc_charts, tpcc_cost, tpcc_ratios
from benchlab.report.sections import Source
from benchlab.store import ingest, open_store, results
from benchlab.studies import tpcc as section
from conftest import CAPTURES, DATA, planned

#: Sizes of the dataset and of some of its tables, at the start of a measured part.
SIZES = {
    "dataset_bytes": 400_000_000,
    "table_bytes.history": 10_000_000,
    "table_bytes.orders": 15_000_000,
    "table_bytes.order_line": 100_000_000,
    "table_bytes.new_order": 5_000_000,
}


def left(name: str) -> bytes:
    return (DATA / "tpcc" / name).read_bytes()


@pytest.fixture
def rerun(checkout: Repo, close_run):
    """Every trial of the profile `quick` with the same recording, one that failed among them."""
    plan = planned(checkout, "tpcc", "quick").save(checkout)
    files = {name: content for name, content in CAPTURES.items() if name != "sysbench.out"}
    files |= {
        "terminals-000001-000002.out": left("paced.txt"),
        "terminals-000001-000002.parquet": left("paced.parquet"),
        "deliveries.jsonl": left("deliveries.jsonl"),
        **dict.fromkeys(("counters-begin.json", "counters-end.json"), json.dumps(SIZES).encode()),
    }
    for trial in plan.trials:
        broke = trial.point.engine == "mariadb"
        close_run(*(["failed", "it died"] if broke else ["ok"]), trial=trial, **files)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        yield results.open_rerun(checkout, store, "tpcc", "quick")


def drawn(chart) -> str:
    with theme.enable():
        return vl_convert.vegalite_to_svg(chart.to_dict())


def test_one_run_of_each_plain_curve_is_reported(rerun):
    found = tpcc.reported(rerun)
    reported = ["PostgreSQL", "MySQL", "seekdb", "TiDB"]
    assert [one.curve.partition(",")[0] for one in found] == reported
    assert {one.pacing for one in found} == {0.02}
    assert all("not TPC-C pacing" in one.heading for one in found)
    for one in found:
        assert one.new_orders == tpcc.think_histogram(one)["count"].sum()
        assert "terminals: not TPC-C pacing" in drawn(tpcc_charts.response_times(one))


def test_every_workloads_label_says_how_it_is_paced(rerun):
    for name, workload in rerun.study.workloads.items():
        assert workload.label.startswith(tpcc.paced(tpcc.pacing(rerun.study, name)))


def test_plain_workloads_differ_in_their_pacing_alone(rerun):
    assert tpcc.plain(rerun.study) == ["tpcc", "tpcc_scaled"]


def test_a_single_level_is_no_curve(rerun):
    assert tpcc.levels(rerun).is_empty()


def test_levels_are_shares_of_the_most_terminals(checkout, close_run):
    path = checkout.studies / "tpcc.yml"
    text = path.read_text()
    path.write_text(
        re.sub(r"concurrency: \[40\]\n    trials", "concurrency: [20, 32, 40]\n    trials", text)
    )
    plan = planned(checkout, "tpcc", "quick").save(checkout)
    files = {
        "terminals-000001-000002.out": left("paced.txt"),
        "terminals-000001-000002.parquet": left("paced.parquet"),
    }
    for trial in plan.trials:
        broke = (trial.point.engine, trial.point.concurrency) == ("mariadb", 40)
        close_run(*(["failed", "it died"] if broke else ["ok"]), trial=trial, **files)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        found = results.open_rerun(checkout, store, "tpcc", "quick")
        levels = tpcc.levels(found)
        loads = {
            key: group["load"].to_list()
            for (key,), group in levels.group_by("engine", maintain_order=True)
        }
        assert loads["postgres"] == [0.5, 0.8, 1.0]
        assert loads["mariadb"] == [0.5, 0.8]
        assert "Not TPC-C pacing" in drawn(
            tpcc_charts.response_against_throughput(found.study, levels)
        )


def test_the_transactions_of_a_run_are_those_of_its_record(rerun, monkeypatch):
    kept = rerun.metrics
    older = kept.with_columns(
        pl.when(engine="postgres").then(pl.lit('{"isolation": "serializable"}')).alias("options")
    )
    monkeypatch.setitem(vars(rerun), "metrics", older)
    assert section.rules_kept(rerun)["transactions"].null_count() == 6
    told = older.with_columns(pl.lit('{"form": "statements", "isolation": "b-c"}').alias("options"))
    monkeypatch.setitem(vars(rerun), "metrics", told)
    assert section.rules_kept(rerun)["transactions"].unique().to_list() == ["statements, b c"]


def test_only_tpccs_own_pacing_has_a_tpmc(rerun):
    found = section.rules_kept(rerun)
    assert len(found) == 6  # four engines, and two other workloads of one
    assert found["tpmC"].null_count() == len(found)
    assert found["workload"].str.starts_with("not TPC-C pacing").all()
    assert dict(found.select("curve", "transactions").unique("curve").rows()) == {
        "PostgreSQL, default": "procedures, repeatable read",
        "MySQL, default": "procedures, serializable",
        "seekdb, default": "procedures, serializable",
        "TiDB, default": "statements, repeatable read",
    }
    assert found["New-Orders/min"].min() > 0
    else_broken = found["broken at any pace"].to_list()
    assert all("measurement interval" in one and "keying" not in one for one in else_broken)


def test_mechanisms_are_ratios_of_workloads_that_differ_in_one_option(rerun):
    found = tpcc_ratios.mechanisms(rerun)
    assert found.select("mechanism", "terminals", "New-Orders/min", "mean latency").rows() == [
        ("stored procedures : statements of the client", 40, "1.00", "1.00")
    ]
    operations = tpcc.reported(rerun)[0].operations
    repeats = 100 * operations["retries"].sum() / operations["transactions"].sum()
    assert found["repeats of 100 transactions"].item() == f"{repeats:.1f} : {repeats:.1f}"
    assert found["curve"].item().startswith("PostgreSQL")


def test_terminals_without_waits_are_a_ratio_alone(rerun):
    found = tpcc_ratios.baseline(rerun)
    (most, scaled) = found.select("divided by", "ratio of New-Orders/min of a warehouse").rows()
    assert most[0].startswith("the most at TPC-C pacing")
    of_warehouse = tpcc.reported(rerun)[0].rule("throughput of a warehouse")["value"]
    assert float(most[1]) == pytest.approx(of_warehouse / 12.86, rel=0.01)
    assert scaled == ("not TPC-C pacing (× 50)", "1.00")


def test_what_is_left_of_the_throughput_in_background_work_is_told_of_engines_that_report_it(
    rerun, monkeypatch
):
    assert tpcc_ratios.background(rerun).is_empty()
    metrics = rerun.metrics.with_columns(
        pl.when(engine="oceanbase").then(97.0).alias("tps_after_cycle_percent")
    )
    monkeypatch.setitem(vars(rerun), "metrics", metrics)
    found = tpcc_ratios.background(rerun)
    assert found.select("curve", "pacing", "terminals", "throughput (%)").rows() == [
        ("seekdb, default", "not TPC-C pacing (× 50)", 40, "97.0")
    ]


def test_space_for_60_days_is_of_the_tables_that_orders_make_grow(rerun):
    found = tpcc_cost.space(rerun)
    assert found["engine"].to_list() == ["PostgreSQL", "MySQL", "seekdb", "TiDB"]
    row = found.row(0, named=True)
    assert row["tpmC"] == pytest.approx(12.86 * 4)
    assert (row["dynamic space (MB)"], row["static space (MB)"]) == (125, 275)
    # a tpmC enters one order a minute, 480 in a day; 30,000 of a warehouse were loaded
    assert row["daily growth (MB)"] == pytest.approx(125 / (4 * 30_000) * row["tpmC"] * 480)


def test_runs_without_the_sizes_of_tables_have_no_space_for_60_days(rerun, monkeypatch):
    monkeypatch.setattr(tpcc_cost, "_GROWING", ("nosuch",))
    assert tpcc_cost.space(rerun).is_empty()


def test_conditions_are_shown_of_each_engine(rerun):
    assert tpcc.conditions(rerun).is_empty()
    run_ids = rerun.counted.filter(workload="tpcc_scaled")["run_id"].to_list()
    outcomes = pl.DataFrame(
        [
            (run_id, number, check, run_id != run_ids[0] or number == 1, f"answer {number}")
            for run_id in run_ids
            for number, check in ((1, "1 before"), (2, "1 after"))
        ],
        schema=("run_id", "number", "check", "passed", "answer"),
        orient="row",
    )
    rerun.store.connection.register("found", outcomes.to_arrow())
    rerun.store.connection.execute("CREATE OR REPLACE VIEW outcome AS FROM found")
    found = tpcc.conditions(rerun)
    assert found["check"].to_list() == ["1 before", "1 after"]
    before, after = found.drop("check").rows()
    assert before == ("1 of 1: answer 1",) * 4
    assert sorted(after) == ["0 of 1: answer 2", *["1 of 1: answer 2"] * 3]


def test_the_section_has_all_that_a_report_discloses(checkout, rerun):
    made = section.section(Source(checkout, rerun, None))
    figures = {"responses-0", "responses-1", "responses-2", "thinking", "over-time"}
    assert figures <= made.figures.keys()
    assert len(made.context["responses"]) == 4
    shown = {name for name, frame in made.tables.items() if not frame.is_empty()}
    assert {"rules-kept", "rules", "responses", "times", "counts", "space", "chain"} <= shown
    assert {"mechanisms", "baseline"} <= shown
    assert "No price is given" in made.context["unpriced"]
