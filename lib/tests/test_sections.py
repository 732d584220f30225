"""The paper of a study that has no Python and no text of its own, on recorded captures."""

import json
import re
import shutil
from collections import Counter

import nbformat
import polars as pl
import pytest
from benchlab import study
from benchlab.plan import Trial
from benchlab.repo import Repo
from benchlab.report import claimed, cpu, findings, paper, points, sections
from benchlab.report.build import publish
from benchlab.store import ingest, open_store, results
from conftest import CAPTURES, DATA, ROOT, content, leave_claims_only, mini_study, planned
from rich.console import Console
from ruamel.yaml import YAML

NAME = "wal_compression"
VARIANTS = ("off", "pglz", "lz4")
ENGINE = "postgres14"

HOST = b'{"cpu_model": "A", "cores": 2, "memory_bytes": 8589934592, "kernel": "6.1"}'
CLAIM = "Compression by lz4 makes writes faster."

NUMBERS = (
    "id,what,value,unit,qualifier,figure,where,engine,variant,workload,concurrency,metric\n"
    "lz4_at_4,throughput,2000,transactions/s,about,2000,results,postgres14,lz4,writes,8,tps\n"
    "cores,cores,8,cores,exact,8,set-up,,,,,\n"
)


@pytest.fixture
def unregistered(checkout: Repo) -> str:
    """Write a study's file, and what its article published; return its name."""
    spec = mini_study() | {"study": NAME}
    spec["article"] = {"title": "Should WAL be compressed?", "subject": "wal_compression"}
    postgres = spec["engines"]["postgres"]
    spec["engines"] = {
        ENGINE: {
            "label": "PostgreSQL 14",
            "role": "postgres",
            "load_variant": "off",
            "variants": {name: {"wal_compression": name} for name in VARIANTS},
            "settings": postgres["settings"],
        }
    }
    spec["workloads"] = {"writes": spec["workloads"]["oltp_write_only"] | {"label": "many writes"}}
    spec["matrix"] = [{"engines": [ENGINE], "variants": list(VARIANTS), "workloads": ["writes"]}]
    smoke = spec["profiles"]["smoke"] | {"trials": 2, "concurrency": [1, 2]}
    smoke.pop("overrides", None)
    smoke.pop("intervention", None)
    spec["profiles"] = {"standard": smoke}
    wal = {"engine": ENGINE, "workload": "writes", "metric": "wal_bytes_per_transaction"}
    spec["claims"] = [
        {
            "id": "lz4_logs_less",
            "where": "results",
            "claim": "With lz4 the WAL is smaller.",
            "kind": "order",
            "decided_by": {
                "test": "above",
                "of": wal | {"variant": "off"},
                "over": wal | {"variant": "lz4"},
            },
        },
        {
            "id": "lz4_is_faster",
            "where": "results",
            "claim": CLAIM,
            "kind": "order",
            "decided_by": {
                "test": "above",
                "of": {"engine": ENGINE, "variant": "lz4", "workload": "writes"},
                "over": {"engine": ENGINE, "variant": "off", "workload": "writes"},
            },
        },
    ]
    yaml = YAML(typ="safe")
    yaml.sort_base_mapping_type_on_output = False  # variants keep their order
    with (checkout.studies / f"{NAME}.yml").open("w") as stream:
        yaml.dump(spec, stream)
    _published(checkout)
    for folder in ("paper/sections", "paper/paper.md"):
        (checkout.root / folder).symlink_to(ROOT / folder)
    return NAME


def _published(checkout: Repo) -> None:
    folder = checkout.root / "data" / "published"
    (folder / NAME).mkdir()
    lines = {
        "articles.csv": f"{NAME},a1,Should WAL be compressed?,,",
        "sources.csv": f"{NAME}/numbers.csv,{NAME},a1,prose,2",
        "columns.csv": "\n".join(
            f"{NAME}/numbers.csv,{column},{kind},{of},,,0,,x"
            for column, kind, of in (
                ("id", "factor", "text"),
                ("what", "text", "text"),
                ("value", "value", "decimal"),
                *((one, "text", "text") for one in ("unit", "qualifier", "figure", "where")),
                *((one, "factor", "text") for one in ("engine", "variant", "workload")),
                ("concurrency", "factor", "int"),
                ("metric", "text", "text"),
            )
        ),
    }
    for name, added in lines.items():
        with (folder / name).open("a") as stream:
            stream.write(f"{added}\n")
    (folder / NAME / "numbers.csv").write_text(NUMBERS)


@pytest.fixture
def store(unregistered, measured):
    throughput = {"off": 100.0, "pglz": 90.0, "lz4": 200.0}
    curves = {
        (ENGINE, variant, "writes"): {1: [tps, 1.01 * tps], 2: [2 * tps, 2.02 * tps]}
        for variant, tps in throughput.items()
    }

    def captured(trial: Trial) -> dict[str, bytes]:
        foreign = 0.8 if trial.number == 2 else 0.1
        return {**CAPTURES, "host.json": HOST, "sample.jsonl": sampled(foreign)}

    return measured(curves, study=unregistered, also=captured)


def sampled(foreign: float) -> bytes:
    """Samples of a host on which others than engine and load generator use so many cores."""
    header, *samples = map(json.loads, CAPTURES["sample.jsonl"].decode().splitlines())
    for one in samples:
        cpu, seconds = one["cpu"], one["t"] - samples[0]["t"]
        busy = cpu["engine"] + cpu["client"] + foreign * 1e6 * seconds
        one["host"] = {"busy_us": round(busy), "runnable_tasks": 1}
    return "".join(f"{json.dumps(one)}\n" for one in (header, *samples)).encode()


def test_a_study_without_code_or_text_has_a_whole_section(checkout, store, tmp_path):
    made = content(checkout, store)
    (it,) = made.context["studies"]
    assert it["text"] == "sections/_default.md"
    assert it["gate"]["not_known_alone"] == 0
    assert {"throughputs-writes", "latencies-writes", "cpu"} <= set(it["drawn"])
    assert "beside-article-tps" not in it["drawn"]  # the article's one point makes no curve
    assert {"similitude", "costs", "evidence", "latencies", "verdicts", "beside-article"} <= set(
        it["listed"]
    )
    built = paper.build(
        checkout.root / "paper" / "paper.md", made.context, made.figures, made.tables, tmp_path
    )
    html = built.html.read_text()
    assert "Should WAL be compressed?" in html
    assert "PostgreSQL 14" in html  # the label of the study's file
    assert "PostgreSQL 14, lz4" not in html  # one engine: its name distinguishes nothing
    assert "Throughput of many writes" in html
    # 8 clients on 8 cores are 2 on 2; 404 and 400 a second here
    beside = made.tables["wal-compression-beside-article"]
    assert beside.select("threads, article", "threads, here", "article").row(0) == (8, 2, 2000)
    assert beside["here : article"].to_list() == [pytest.approx(0.201, abs=0.001)]


def test_tables_have_the_studys_labels_and_order(checkout, store):
    made = content(checkout, store)
    tables = {
        name.removeprefix("wal-compression-"): frame
        for name, frame in made.tables.items()
        if name.startswith("wal-compression-")
    }
    assert tables["overview"]["engine"].to_list() == ["PostgreSQL 14"] * 3
    assert tables["overview"]["variant"].to_list() == list(VARIANTS)
    for name in ("costs", "latencies", "evidence"):
        assert tables[name]["curve"].unique(maintain_order=True).to_list() == list(VARIANTS)
        assert set(tables[name]["workload"]) == {"many writes"}


def test_the_findings_come_first_and_say_what_is_not_there(checkout, store, tmp_path):
    leave_claims_only(checkout, "tpcc")
    made = content(checkout, store)
    by_study = {one["study"]: one for one in made.context["articles"]}
    assert set(by_study) == set(study.names(checkout))
    own = by_study[NAME]
    assert own["state"] == ""
    assert own["verdicts"]["reproduced"] == 1
    assert [one["claim"] for one in own["claims"]] == [CLAIM]
    assert own["claims"][0]["found"].startswith("a ratio of 2.0")
    assert by_study["postgres_vs_tidb"]["state"].startswith("not rerun here")
    assert by_study["tpcc"]["state"] == "not rerun yet"
    built = paper.build(
        checkout.root / "paper" / "paper.md", made.context, made.figures, made.tables, tmp_path
    )
    headings = re.findall(r"<h1[^>]*>(?:<[^>]*>|[\s\d])*([^<]+)", built.html.read_text())
    assert next(text.strip() for text in headings if "benchlab" not in text) == "Results"


#: What terminals left; all other loads leave what sysbench did.
OF_TERMINALS = {
    "terminals-000001-000002.out": (DATA / "tpcc/paced.txt").read_bytes(),
    "terminals-000001-000002.parquet": (DATA / "tpcc/paced.parquet").read_bytes(),
    "deliveries.jsonl": (DATA / "tpcc/deliveries.jsonl").read_bytes(),
}


@pytest.mark.parametrize("name", [name for name in study.names(Repo(ROOT)) if name != "spec_tree"])
def test_the_paper_of_every_study_is_built_of_the_few_runs_of_a_small_profile(
    checkout, close_run, tmp_path, name
):
    """spec_tree's own tests do so; the made-up captures of another study are of no use to it."""
    for folder in ("paper/sections", "paper/paper.md"):
        (checkout.root / folder).symlink_to(ROOT / folder)
    files = CAPTURES | {"host.json": HOST}
    if name == "tpcc":
        files = {one: text for one, text in files.items() if one != "sysbench.out"}
        files |= OF_TERMINALS
    for trial in planned(checkout, name, "quick").save(checkout).trials:
        if trial.intervention is None:
            close_run(trial=trial, **files)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as own:
        made = content(checkout, own)
    assert [one["study"] for one in made.context["studies"]] == [name]
    built = paper.build(
        checkout.root / "paper" / "paper.md", made.context, made.figures, made.tables, tmp_path
    )
    assert f'id="tab-{name.replace("_", "-")}-overview"' in built.html.read_text()


def test_a_study_of_which_no_run_counts_is_withheld_with_the_reason(
    checkout, unregistered, measured
):
    store = measured(
        {(ENGINE, "off", "writes"): {1: [None]}, (ENGINE, "lz4", "writes"): {1: [None]}},
        study=unregistered,
    )
    spec = study.load(checkout, unregistered)
    said = findings.withheld(spec, store)
    assert said == "withheld, since no run counts: 2 failed (it died)"


def test_the_paper_is_built_in_several_processes(checkout, store):
    store.close()
    checkout.notebooks.mkdir()
    shutil.copy(ROOT / "notebooks" / "study.ipynb", checkout.notebooks)
    built = publish(checkout, Console(quiet=True))
    assert "Should WAL be compressed?" in built.html.read_text()
    assert built.pdf.read_bytes().startswith(b"%PDF-")
    copy = nbformat.read(checkout.build / "wal-compression.ipynb", as_version=4)
    printed = str([cell.get("outputs") for cell in copy.cells])
    assert "Should WAL be compressed?" in printed
    assert CLAIM in printed


def test_every_module_of_a_study_is_found_by_its_name():
    repo = Repo(ROOT)
    own = {name for name in study.names(repo) if sections.own_section(name)}
    texts = {path.stem for path in (ROOT / "paper" / "sections").glob("[!_]*.md")}
    assert own == texts != set()
    assert sections.own_section("no such study") is None


def test_what_the_claims_are_about_is_shown(checkout, store):
    made = content(checkout, store)
    (it,) = made.context["studies"]
    metric = "wal_bytes_per_transaction"
    assert it["claimed"] == [{"figure": f"claimed-{metric}", "metric": "WAL"}]
    assert made.tables["wal-compression-claimed"]["WAL (bytes per transaction)"].min() > 0
    assert "WAL (bytes per transaction)" not in made.tables["wal-compression-costs"].columns
    of_study = results.open_rerun(checkout, store, NAME)
    chart = claimed.chart(of_study.study, claimed.values(of_study, metric), metric).to_dict()
    assert chart["title"] == "WAL (bytes per transaction)"
    (rows,) = chart["datasets"].values()
    at = {row["curve"]: row["at"] for row in rows if row["concurrency"] == 2}
    assert at["off"] < at["pglz"] == 2 < at["lz4"]  # beside each other


def test_runs_that_did_not_pass_the_gate_are_named(checkout, store, tmp_path):
    """The second trial of each point, whose host others used; at 2 clients of lz4 the first, too."""
    store.connection.execute(
        "UPDATE gate SET passed = false FROM run WHERE gate.run_id = run.run_id"
        " AND \"check\" = 'alone' AND (value > 0.25 OR (variant = 'lz4' AND concurrency = 2))"
    )
    made = content(checkout, store)
    failed = made.tables["wal-compression-gate"]
    assert set(failed["check"]) == {"alone"}
    assert sorted(failed["runs"]) == ["1 of 2"] * 5 + ["2 of 2"]
    assert failed["found"][0].startswith("40% of the host's CPU used by others")
    measured = points.points(results.open_rerun(checkout, store, NAME))
    assert measured.filter(~pl.col("valid")).select("variant", "concurrency").rows() == [("lz4", 2)]
    assert sorted(measured["n"]) == [1, 1, 1, 1, 1, 2]
    built = paper.build(
        checkout.root / "paper" / "paper.md", made.context, made.figures, made.tables, tmp_path
    )
    assert "Of 6 points, 5 passed the gate." in " ".join(built.html.read_text().split())


def test_the_appendix_is_there_where_something_was_simulated(checkout, store, tmp_path):
    def built() -> str:
        made = content(checkout, store)
        return paper.build(
            checkout.root / "paper" / "paper.md", made.context, made.figures, made.tables, tmp_path
        ).html.read_text()

    assert "Appendix: how far" not in built()
    (checkout.root / "data" / "simulated").symlink_to(ROOT / "data" / "simulated")
    assert "Appendix: how often intervals, verdicts and the gate are right" in built()


def test_variants_of_one_engine_have_a_view_of_their_own_each(checkout, store):
    of_study = results.open_rerun(checkout, store, NAME)
    used = cpu.used(of_study).with_columns(
        engine_cpu_percent=55.0, client_cpu_percent=30.0, kernel_cpu_percent=5.0
    )
    # a curve that another workload lacks leaves its view empty, and all others in their places
    other = used.filter(variant="off").with_columns(workload=pl.lit("reads"))
    chart = cpu.chart(of_study.study, pl.concat([used, other])).to_dict()
    assert chart["facet"]["row"]["sort"] == list(VARIANTS)
    assert chart["facet"]["column"]["sort"] == ["many writes", "reads"]
    assert chart["spec"]["encoding"]["y"]["scale"]["domain"] == [0, 100]
    (rows,) = chart["datasets"].values()
    bars = Counter((row["curve"], row["workload"], row["concurrency"]) for row in rows)
    assert len(bars) == 3 * 2 * 2
    assert set(bars.values()) == {3}  # engine, load generator and kernel, no other curve's
    assert sum(row["percent"] is not None for row in rows) == 3 * (3 * 2 + 2)
