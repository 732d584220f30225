"""What a sweep takes for done and what it repeats, by its records alone: no host is reached."""

import io
import json
import shutil
from collections import Counter
from contextlib import contextmanager
from typing import ClassVar

import pytest
from benchlab import study, target
from benchlab.engines import EngineSetting
from benchlab.errors import NotebookError
from benchlab.plan import plan as plans
from benchlab.raw import folders
from benchlab.raw.record import RECORD_NAME
from benchlab.run import planning, sweep
from benchlab.run.planning import Selection
from benchlab.target import EngineFound, Provisioned
from conftest import CAPTURES, STUDY
from rich.console import Console

SELECTION = Selection(
    STUDY, "smoke", engines=["postgres"], variants=["default"], workloads=["oltp_insert"]
)

#: A run that ended well as far as it could see, and whose output no parser takes.
ODD = {**CAPTURES, "sysbench.out": b"hello\n"}


class Session:
    """An engine that is there."""

    def __init__(self, provisioned: Provisioned, engine: str):
        self.found = provisioned.engines[engine]
        self.roles = provisioned.deployment.roles

    #: Settings that the server reports; none: they are as requested.
    said: ClassVar[list[EngineSetting]] = []

    @property
    def engine(self) -> "Session":
        return self

    def settings(self, requested: dict) -> list[EngineSetting]:
        return self.said

    def bring_up(self) -> None:
        pass

    def cold(self, variant: str, restore: str | None = None) -> None:
        pass

    def stop(self) -> None:
        pass

    def restore(self, key: str) -> None:
        pass


class Sweeps:
    """Sweeps of one curve of two trials, whose notebook is a function that closes runs."""

    def __init__(self, checkout, close_run, monkeypatch):
        self.checkout, self.close_run = checkout, close_run
        spec = study.load(checkout, SELECTION.study)
        (curve,) = SELECTION.part(spec, planning.planned(checkout, SELECTION, spec))
        self.trials = curve.trials
        self.executed: list[str] = []
        # the tests of this machine may hold it meanwhile
        monkeypatch.setattr(sweep, "_refuse", lambda on: None)
        monkeypatch.setattr(sweep, "ready", self._ready)
        monkeypatch.setattr(sweep, "open_session", Session)
        monkeypatch.setattr(sweep.dataset, "ensure", lambda *_: None)
        monkeypatch.setattr(sweep, "execute_notebook", self._execute)

    @contextmanager
    def _ready(self, *_: object):
        found = EngineFound(engine="postgres", version="unknown")
        yield Provisioned(
            deployment=target.load(self.checkout, "local"), hosts={}, engines={"postgres": found}
        )

    def _execute(self, repo, plan, curve, bar) -> None:
        self.executed += [trial.key for trial in curve.trials]
        self.notebook(curve)

    def notebook(self, curve) -> None:
        """All goes well."""
        for trial in curve.trials:
            self.close_run(trial=trial)

    def run(self) -> tuple[Counter, str]:
        """Return what a sweep returned and what it said."""
        stream = io.StringIO()
        outcome = sweep.run(self.checkout, SELECTION, Console(file=stream, width=300))
        return outcome, stream.getvalue()

    def statuses(self, trial) -> list[str]:
        """Status and error of every run of a trial, oldest first."""
        records = [folders.read(folder) for folder in folders.finished(self.checkout.raw)]
        return [(one.status, one.error) for one in records if one.trial_key == trial.key]


@pytest.fixture
def sweeps(checkout, close_run, monkeypatch) -> Sweeps:
    return Sweeps(checkout, close_run, monkeypatch)


def harm_record(folder) -> None:
    path = folder / RECORD_NAME
    path.write_bytes(path.read_bytes()[:-100])


def harm_capture(folder) -> None:
    (folder / "sysbench.out").write_bytes(CAPTURES["sysbench.out"][:-100])


@pytest.mark.parametrize(
    ("harm", "ingested"), [(harm_record, False), (harm_record, True), (harm_capture, False)]
)
def test_a_damaged_run_is_reported_and_its_trial_measured_again(sweeps, harm, ingested):
    first = sweeps.trials[0]
    assert sweeps.run()[0] == {"ok": 2}
    (folder,) = sweeps.checkout.raw.glob(f"*-{first.key[:8]}")
    harm(folder)
    if not ingested:
        shutil.rmtree(sweeps.checkout.store)  # it has the run as it was
    sweeps.executed.clear()
    outcome, said = sweeps.run()
    assert outcome == {"ok": 1}
    assert sweeps.executed == [first.key]
    assert said.count(f"damaged: {folder.name}: ") == 1
    # and not once more
    outcome, said = sweeps.run()
    assert outcome == {}
    assert "none repeated" in said
    assert said.count(f"damaged: {folder.name}: ") == 1
    assert sweeps.executed == [first.key]


def test_a_run_that_cannot_be_ingested_has_failed_and_is_reported_at_once(sweeps, close_run):
    first, second = sweeps.trials

    def notebook(curve) -> None:
        close_run(trial=first)
        close_run(trial=second, **ODD)

    sweeps.notebook = notebook
    outcome, said = sweeps.run()
    assert outcome == {"ok": 1, "failed": 1}
    assert said.count("damaged: ") == 1
    assert f"-{second.key[:8]}: sysbench: line 1: " in said
    del sweeps.notebook
    sweeps.executed.clear()
    assert sweeps.run()[0] == {"ok": 1}
    assert sweeps.executed == [second.key]


@pytest.mark.parametrize("before", [["failed"], ["ok", "failed"], []])
def test_a_notebook_that_breaks_off_leaves_a_record_of_every_trial(sweeps, close_run, before):
    first, second = sweeps.trials
    for status in before:
        for trial in sweeps.trials:
            close_run(status, "as before" if status == "failed" else None, trial=trial)

    def notebook(curve) -> None:
        close_run(trial=first)
        raise NotebookError("curve.ipynb broke off: kernel died")

    sweeps.notebook = notebook
    outcome, said = sweeps.run()
    assert outcome == {"ok": 1, "failed": 1}
    assert said.count("kernel died") == 1
    assert sweeps.statuses(first)[len(before) :] == [("ok", None)]
    assert sweeps.statuses(second)[len(before) :] == [
        ("failed", "curve.ipynb broke off: kernel died")
    ]


def test_a_study_file_that_changes_meanwhile_changes_nothing_of_what_runs(sweeps, checkout):
    as_planned = [trial.key for trial in sweeps.trials]

    def notebook(curve) -> None:
        path = checkout.studies / f"{STUDY}.yml"
        path.write_text(path.read_text().replace("log_checkpoints: true", "log_checkpoints: false"))
        for trial in curve.trials:
            sweeps.close_run(trial=trial)

    sweeps.notebook = notebook
    assert sweeps.run()[0] == {"ok": 2}
    assert sweeps.executed == as_planned
    (plan_id,) = plans.ids(checkout)
    assert set(as_planned) < {trial.key for trial in plans.read(checkout, plan_id).trials}
    # while the next sweep is of the file as it is now
    del sweeps.notebook
    sweeps.executed.clear()
    assert sweeps.run()[0] == {"ok": 2}
    assert not set(sweeps.executed) & set(as_planned)


def test_a_variant_stops_at_once_if_the_server_does_not_know_a_setting(sweeps, monkeypatch):
    unknown = EngineSetting(name="wal_compresion", requested="lz4", effective=None)
    monkeypatch.setattr(Session, "said", [unknown])
    outcome, said = sweeps.run()
    assert outcome == {"failed": 2}
    assert sweeps.executed == []
    reason = (
        "postgres: setting wal_compresion did not take effect: requested lz4, the server knows no such"
        " setting"
    )
    assert said.count(reason) == 1
    for trial in sweeps.trials:
        assert sweeps.statuses(trial) == [("failed", reason)]
        (folder,) = sweeps.checkout.raw.glob(f"*-{trial.key[:8]}")
        (kept,) = json.loads((folder / "settings.json").read_text())
        assert (kept["name"], kept["effective"]) == ("wal_compresion", None)
