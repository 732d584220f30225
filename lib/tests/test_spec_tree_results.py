"""What the recursive query's study shows, on a store whose throughputs are set by hand."""

import json
from pathlib import Path

import polars as pl
import pytest
from benchlab.drivers.sysbench.output import summary
from benchlab.repo import Repo
from benchlab.report import cpu, footprint, latencies, paper, points, published_beside
from benchlab.report.similitude import similitude
from benchlab.studies import spec_tree
from conftest import CAPTURES, ROOT, content, rerun

REPO = Repo(ROOT)
PLANS = Path(__file__).parent / "data" / "plans"

TRIALS = {10: [100.0, 110.0, 121.0], 80: [90.0, 91.0, 92.0]}
CURVES = {
    ("postgres", "default", "spec_tree"): TRIALS,
    ("postgres", "default", "spec_tree_partitioned"): {10: [30.0, 31.0, 32.0]},
    ("postgres", "indexed", "spec_tree_partitioned"): {10: [90.0, 95.0, 99.0]},
    ("postgres15", "default", "spec_tree"): {40: [120.0, 121.0, 122.0]},
    ("mysql", "default", "spec_tree"): {10: [40.0, 50.0, 60.0]},
    ("mariadb", "default", "spec_tree"): {10: [60.0, 61.0, 62.0]},
    ("mariadb", "by_directory", "spec_tree"): {10: [80.0, 81.0, 82.0]},
    ("mariadb", "tuned", "spec_tree"): {10: [120.0, 122.0, 124.0]},
    ("mariadb", "default", "spec_tree_scan"): {10: [0.5, 0.6, 0.7]},
    ("mariadb", "tuned", "spec_tree_scan"): {10: [6.0, 6.0, 6.0]},
}


def captured(trial) -> dict[str, bytes]:
    point = trial.point
    layout = point.workload_name.replace("_scan", "")
    plan = PLANS / f"{point.role or point.engine}-{layout}.json"
    return {
        "plan.json": plan.read_bytes(),
        "cold.json": json.dumps({"data_dir_bytes": 200_000_000}).encode(),
        "counters-begin.json": b'{"dataset_bytes": 1e8}',
        "waits.jsonl": b"",
        "host.json": json.dumps(
            {"cpu_model": "A", "cores": 2, "memory_bytes": 8 << 30, "kernel": "6.1"}
        ).encode(),
    }


@pytest.fixture
def lab(measured):
    return measured(CURVES, study=spec_tree.STUDY, also=captured)


@pytest.fixture
def of_study(lab):
    return rerun(lab, study=spec_tree.STUDY)


@pytest.fixture
def label(of_study):
    return of_study.study.label


def row(frame: pl.DataFrame, **equals: str) -> dict:
    return frame.row(
        by_predicate=pl.all_horizontal(pl.col(k) == v for k, v in equals.items()), named=True
    )


def test_the_articles_table_has_ours_beneath(of_study):
    table = spec_tree.article_table(REPO, of_study)
    assert table.columns == ["engine", "variant", "layout", "of", "10", "40", "60", "80"]
    of = {"engine": "PostgreSQL", "variant": "default", "layout": "not partitioned"}
    theirs, ours = row(table, **of, of="article"), row(table, **of, of="here")
    assert theirs["10"] == "0.506 / 1.452 / 28,320"
    assert ours["10"].endswith(" / 110")
    p99 = float(ours["10"].split(" / ")[0])
    printed = summary(CAPTURES["sysbench.out"].decode())["latency_percentile_ms"]
    assert p99 == pytest.approx(printed, rel=0.02)
    assert ours["40"] is None
    collapsed = row(
        table, engine="MariaDB", variant="default", layout="not partitioned", of="article"
    )
    assert (collapsed["10"], collapsed["40"]) == ("338.438 / 348.488 / 40", "N/A")
    # each of the article's seven rows once, in its order of engines
    assert table["engine"].unique(maintain_order=True).to_list() == [
        *("PostgreSQL", "PostgreSQL 15", "MySQL", "MariaDB")
    ]
    assert len(table.filter(of="article")) == 7


def test_what_the_third_trial_would_have_shown(of_study, label):
    found = row(
        spec_tree.third_trial(of_study),
        curve=label("postgres", "default"),
        layout="not partitioned",
    )
    assert (found["least"], found["greatest"]) == (round(92 / 91, 3), round(121 / 110, 3))
    assert (found["best"], found["points"]) == (2, 2)


def test_latencies_have_intervals_over_trials(of_study):
    found = latencies.latencies(of_study)
    assert set(found["percentile"]) == set(latencies.LATENCIES.values())
    # all runs have the same recorded histogram
    assert (found["ms_low"] <= found["ms"]).all()
    assert (found["ms"] <= found["ms_high"]).all()
    ordered = found.pivot(on="percentile", index=["curve", "workload", "concurrency"], values="ms")
    for lower, higher in (("p50", "p99"), ("p99", "p99.9"), ("p99.9", "max")):
        assert (
            ordered[lower] <= ordered[higher] * (1 + latencies.resolution(of_study.study))
        ).all()
    table = latencies.table(of_study)
    assert len(table) == len(ordered)


def test_plans_say_what_the_query_reads(of_study, label):
    found = spec_tree.plans(of_study)
    scanned = row(found, curve=label("postgres", "default"), layout="partitioned")
    assert scanned["specifications"] == "scan, 1 × 4,735 rows"
    assert scanned["rows"] == 4785
    # an engine under another name than its role's
    assert row(found, curve=label("postgres15", "default"), layout="not partitioned")["rows"] == 100
    aliased = row(found, curve=label("mariadb", "tuned"), layout="not partitioned")
    assert aliased["relationships"] == "index PRIMARY, 50 × 1 rows"


def test_pool_and_plan_are_distinguished(of_study, label):
    found = spec_tree.pool_or_plan(REPO, of_study)
    ratios = dict(found.select("read", "large : small by tables").iter_rows())
    by_index = row(found, read="by index")
    assert by_index["small by directory"] == 81
    assert by_index["large : small by directory"] == pytest.approx(122 / 81, rel=0.01)
    assert ratios["by index"] == 2
    assert ratios["by a scan of the whole table"] == pytest.approx(10)
    assert ratios["article, not partitioned"] == 459
    by_layout = spec_tree.partitions_or_plan(of_study, spec_tree.plans(of_study))
    indexed = row(by_layout, curve=label("postgres", "indexed"))
    assert (indexed["layout"], indexed["queries per s"]) == ("partitioned", 95)


def test_sizes_stand_beside_the_articles(of_study):
    found = row(footprint.table(of_study), engine="MySQL")
    assert (found["article"], found["tables"], found["data directory"]) == (928, 100, 200)


def test_charts_have_a_curve_for_each_that_ran(of_study, label):
    measured = points.points(of_study)
    of_layout = latencies.latencies(of_study)
    chart = latencies.chart(of_study.study, of_layout, "spec_tree").to_json()
    for engine, variant in measured.filter(workload="spec_tree").select("engine", "variant").rows():
        assert label(engine, variant) in chart
    assert "load generator" in cpu.chart(of_study.study, cpu.used(of_study)).to_json()


def test_the_section_is_written_of_whatever_ran(lab, tmp_path):
    made = content(REPO, lab)
    assert [one["study"] for one in made.context["studies"]] == [spec_tree.STUDY]
    built = paper.build(
        REPO.root / "paper" / "paper.md", made.context, made.figures, made.tables, tmp_path
    )
    html = built.html.read_text()
    for name in ("article", "plans", "pool-or-plan", "partitions-or-plan", "verdicts"):
        assert f'id="tab-spec-tree-{name}"' in html
    assert 'id="fig-spec-tree-throughput-whole"' in html
    assert "open loop" not in html  # none was run


def test_every_number_of_the_article_at_a_point_that_ran_stands_beside_ours(of_study, label):
    found = published_beside.beside(REPO, of_study)
    one = row(
        found.filter(clients=10, workload="spec_tree", metric="tps"),
        curve=label("postgres", "default"),
    )
    assert (one["article"], one["here"], one["concurrency"]) == (28_320, 110, 10)
    assert one["ratio"] == pytest.approx(110 / 28_320)
    # milliseconds there, microseconds here
    p99 = row(
        found.filter(clients=10, workload="spec_tree", metric="p99_us"),
        curve=label("postgres", "default"),
    )
    assert p99["article"] == 506
    # MariaDB's tuned curve was published, too; none of what ran at points that were not
    ran = set(found.select("engine", "variant", "workload").rows())
    assert ("mariadb", "tuned", "spec_tree") in ran
    assert ("postgres15", "default", "spec_tree") not in ran
    assert ("mariadb", "default", "spec_tree_scan") not in ran
    table = published_beside.table(of_study, found)
    assert {"throughput (transactions per s)", "99th percentile of latency (µs)"} < set(
        table["metric"]
    )
    assert "connections" in table.columns  # as many there as here
    chart = published_beside.chart(of_study.study, found, "tps").to_dict()
    (rows,) = chart["datasets"].values()
    assert len(rows) == 2 * len(found.filter(metric="tps"))


def test_similitude_has_the_sizes_of_the_article_and_here(of_study):
    found = {one["quantity"]: one for one in similitude(of_study).iter_rows(named=True)}
    assert found["operators"]["article"] == found["operators"]["here"] == 15
    most = found["connections : cores, at the highest number of connections"]
    assert (most["article"], most["here"]) == (80 / 16, 80 / 2)
    dataset = found["dataset : memory, MariaDB"]
    assert (dataset["article"], dataset["here"]) == (673e6 / (16 << 30), 1e8 / (2 << 30))
    # the servers' settings were not captured
    tuned = found["buffer pool : memory, MariaDB, tuned"]
    assert (tuned["article"], tuned["here"]) == (0.25, None)
