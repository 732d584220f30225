"""Both methods of attribution on the labelled set: runs whose bottleneck was made on purpose.

The archives are what ``make bench-attribution`` keeps of its runs (with ``--keep``); labels come from
how each run was made (``lib/benchmarks/attribution/cases.py``).
"""

import importlib
import re
import runpy
import shutil
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest
from benchlab import study
from benchlab.attribution import attribute, binding
from benchlab.raw import folders
from benchlab.raw.record import Record, RunFolder
from benchlab.store import ingest
from benchlab.study.resources import UNKNOWN
from conftest import ALONE, DATA, ROOT
from rich.console import Console

BENCH = ROOT / "lib/benchmarks/attribution"
FOLDER = DATA / "attribution"
ARCHIVES = {
    str(path.relative_to(FOLDER)).removesuffix(".tar.xz"): path
    for path in sorted(FOLDER.glob("*/*.tar.xz"))
}
EVIDENCE = [name for name in ARCHIVES if name.startswith("evidence/")]


@pytest.fixture
def bench(monkeypatch) -> ModuleType:
    """The module of `make bench-attribution` that runs the cases; nothing may be run."""

    def run():
        raise AssertionError("a run is missing")

    monkeypatch.syspath_prepend(BENCH)
    module = importlib.import_module("run")
    monkeypatch.setattr(module, "locked", run)
    return module


@pytest.fixture
def tasks(bench) -> dict:
    """Case and method of every run that there may be, by the name of its archive."""
    cases, methods = (importlib.import_module(name) for name in ("cases", "methods"))
    all_methods = [*methods.METHODS, *(one.again for one in methods.METHODS if one.again)]
    return {
        f"{method.folder}/{case.name}": (case, method)
        for case in cases.CASES
        for method in all_methods
    }


def unpack(name: str, raw: Path) -> Record:
    """Put a kept run where runs lie."""
    before = set(folders.finished(raw))
    shutil.unpack_archive(ARCHIVES[name], raw)
    (folder,) = set(folders.finished(raw)) - before
    return folders.read(folder)


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_labelled_run_is_decided_correctly(name, tasks, checkout):
    case, method = tasks[name]
    answer, why = method.tell(checkout, unpack(name, checkout.raw))
    if method.again and answer == UNKNOWN:
        assert f"{method.again.folder}/{case.name}" in ARCHIVES
    else:
        assert answer == method.expected(case.label), why


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_is_sure_of_its_answers(name, checkout):
    frame = ingest.rows(checkout.raw / unpack(name, checkout.raw).run_id)["attribution"]
    assert frame["confidence"][0] > 0.9


@pytest.mark.parametrize("name", EVIDENCE)
def test_without_waits_or_samples_no_case_is_guessed(name, tasks, checkout):
    """An answer without a capture is right, or unsure, or there is none."""
    case, _ = tasks[name]
    tables = ingest.rows(checkout.raw / unpack(name, checkout.raw).run_id)
    for missing in ("engine_wait", "os_sample"):
        frame = attribute({key: rows for key, rows in tables.items() if key != missing})
        if binding(frame) not in (case.label, UNKNOWN):
            assert frame["confidence"][0] <= 0.8


def test_the_set_is_large_and_of_several_engines(tasks):
    assert len(EVIDENCE) >= 24
    engines = {tasks[name][0].engine for name in ARCHIVES}
    assert engines == {"postgres", "oceanbase", "mariadb"}
    for folder in FOLDER.iterdir():
        assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000


def test_the_bench_decides_kept_runs_as_its_cases_are_and_runs_none_again(
    bench, checkout, monkeypatch, capsys
):
    for name in ARCHIVES:
        unpack(name, checkout.data / "attribution/raw")
    monkeypatch.setattr(sys, "argv", [str(BENCH)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCH), run_name="__main__")
    assert not ended.value.code
    counts = re.findall(r"^(\w+): (\d+) of (\d+) right", capsys.readouterr().out, re.MULTILINE)
    every = str(len(EVIDENCE))
    assert counts == [(method, every, every) for method in ("evidence", "intervention")]


def test_what_is_kept_of_a_run_is_the_same_each_time(bench, checkout, tmp_path):
    name = EVIDENCE[0]
    record = unpack(name, checkout.raw)
    again = tmp_path / "again.tar.xz"
    bench.keep(checkout.raw / record.run_id, ["sample.jsonl"], again)
    shutil.unpack_archive(again, tmp_path / "raw")
    kept = folders.read(tmp_path / "raw" / record.run_id)
    assert kept == record.model_copy(update={"files": kept.files})
    assert list(kept.files) == ["sample.jsonl"]
    first = again.read_bytes()
    bench.keep(checkout.raw / record.run_id, ["sample.jsonl"], again)
    assert again.read_bytes() == first


def test_an_interrupted_bench_goes_on(bench, tasks, checkout):
    chosen = list(tasks.values())[:4]
    spec = study.parse(bench.STUDY)
    versions = dict.fromkeys(spec.engines, "1.0")
    done = []
    for (case, method), status in zip(chosen, ("ok", "ok", "ok", "failed"), strict=True):
        trial = bench._trial(checkout, spec, versions, case, method)
        done.append(RunFolder(checkout.raw, trial, "local", ALONE).finish(status))

    again = bench.run(checkout, chosen, Console())
    found = [((case, method), record.run_id) for case, method, record in islice(again, 3)]
    assert found == [
        (task, record.run_id) for task, record in zip(chosen[:3], done[:3], strict=True)
    ]
    with pytest.raises(AssertionError, match="a run is missing"):  # what failed is run again
        next(again)
