"""Attribution by evidence on the labelled set: captures of runs whose bottleneck was made on purpose.

The files are what ``make bench-attribution`` keeps of its runs (``--keep lib/tests/data/attribution``);
labels come from how each run was made (``lib/benchmarks/attribution/cases.py``).
"""

import gzip
import importlib
import json
from itertools import islice
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
from benchlab import study
from benchlab.attribution import attribute, binding
from benchlab.capture import RunFolder
from benchlab.engines import engine_class
from benchlab.parse import sample, waits
from conftest import ROOT
from rich.console import Console

FOLDER = Path(__file__).parent / "data" / "attribution"
CASES = {path.name.removesuffix(".json.gz"): path for path in sorted(FOLDER.glob("*.json.gz"))}

#: Cases that the method tells wrong, with the reason.
WRONG = {
    "postgres-memory": "dropping pages and reading them again from a fast disk takes all of the CPU,"
    " and what of that is memory's the captures do not tell"
}


def tables(name: str) -> dict[str, pl.DataFrame]:
    """The rows that ingest would derive from a case's captures."""
    case = json.loads(gzip.decompress(CASES[name].read_bytes()))
    captures, run = case["captures"], case["run"]
    facts = [{"fact": fact, "value": str(value)} for fact, value in case["host"].items()]
    return {
        "label": case["label"],
        "run": pl.DataFrame([run]),
        "host": pl.DataFrame(facts),
        "os_sample": sample.samples(captures["sample.jsonl"], truncated_ok=True),
        "engine_wait": waits.looks(
            captures["waits.jsonl"], engine_class(run["engine"]).wait, truncated_ok=True
        ),
    }


@pytest.mark.parametrize("name", CASES)
def test_a_labelled_run_is_told_right(name):
    case = tables(name)
    frame = attribute(case)
    told_right = binding(frame) == case["label"]
    # a rule that mends a case is to take it off the list
    assert told_right != (name in WRONG), frame.filter("binds")["evidence"].to_list()
    assert frame["confidence"][0] > 0.9


def test_the_set_is_large_enough_and_of_several_engines():
    assert len(CASES) >= 24
    assert len(WRONG) <= 0.05 * len(CASES)
    engines = {name.split("-")[0] for name in CASES}
    assert engines == {"postgres", "oceanbase", "mariadb"}
    assert sum(path.stat().st_size for path in CASES.values()) < 300_000


@pytest.mark.parametrize("name", CASES)
def test_without_waits_or_samples_no_case_is_guessed(name):
    """What is told without a capture is right, or unsure, or not told at all."""
    case = tables(name)
    for missing in ("engine_wait", "os_sample"):
        frame = attribute({key: rows for key, rows in case.items() if key != missing})
        if binding(frame) not in (case["label"], "unknown"):
            assert frame["confidence"][0] <= 0.8


@pytest.fixture
def bench(monkeypatch) -> ModuleType:
    """The module of `make bench-attribution` that runs the cases."""
    monkeypatch.syspath_prepend(ROOT / "lib/benchmarks/attribution")
    return importlib.import_module("run")


def test_the_captures_are_of_the_labelled_set(bench):
    labels = {case.name: case.label for case in importlib.import_module("cases").CASES}
    assert {name: tables(name)["label"] for name in CASES}.items() <= labels.items()


def test_an_interrupted_bench_goes_on(bench, checkout, monkeypatch):
    class Reached(Exception):
        pass

    def reached():
        raise Reached

    monkeypatch.setattr(bench.sweep, "locked", reached)
    cases = importlib.import_module("cases").CASES[:2]
    methods = importlib.import_module("methods").METHODS
    tasks = [(case, method) for case in cases for method in methods]
    spec = study.parse(bench.STUDY)
    versions = dict.fromkeys(spec.engines, "1.0")
    done = []
    for (case, method), status in zip(tasks, ("ok", "ok", "ok", "failed"), strict=True):
        trial = bench._trial(checkout, spec, versions, case, method)
        done.append(RunFolder(checkout.raw, trial, "local", single_host=True).finish(status))

    again = bench.run(checkout, tasks, Console())
    found = [((case, method), record.run_id) for case, method, record in islice(again, 3)]
    assert found == [
        (task, record.run_id) for task, record in zip(tasks[:3], done[:3], strict=True)
    ]
    with pytest.raises(Reached):  # what failed is run again
        next(again)
