"""What a sweep takes for done and what it repeats, by its records alone: no host is reached."""

import io
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import pytest
from benchlab import study, target
from benchlab.engines import EngineSetting
from benchlab.errors import (
    DatasetError,
    DatasetTooLarge,
    EngineError,
    NotebookError,
    TargetError,
)
from benchlab.plan import Batch, Plan, Trial
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

    #: Variant → settings that the server reports; none: they are as requested.
    said: ClassVar[dict[str, list[EngineSetting]]] = {}

    @property
    def engine(self) -> "Session":
        return self

    def tune(self, requested: dict) -> None:
        pass

    def settings(self, requested: dict) -> list[EngineSetting]:
        return self.said.get(self.variant, [])

    def bring_up(self) -> None:
        pass

    def cold(self, variant: str, *_: object) -> None:
        self.variant = variant

    def stop(self) -> None:
        pass

    def restore(self, key: str) -> None:
        pass


class Sweeps:
    """Sweeps of one batch, by default of two trials, whose notebook is a function that closes runs."""

    def __init__(self, checkout, close_run, monkeypatch):
        self.checkout, self.close_run = checkout, close_run
        self.selection = SELECTION
        self.refused: dict[str, str] = {}
        self.executed: list[str] = []
        # the tests of this machine may hold it meanwhile
        monkeypatch.setattr(sweep, "check_free", lambda on: None)
        monkeypatch.setattr(sweep, "ready", self._ready)
        monkeypatch.setattr(sweep, "open_session", Session)
        monkeypatch.setattr(sweep.dataset, "ensure", lambda *_: None)
        monkeypatch.setattr(sweep, "execute_notebook", self._execute)

    def planned(self, checkout, selection: Selection, spec) -> Plan:
        """The whole plan, with what is selected of it as its first batch."""
        whole = planning.planned(checkout, selection, spec)
        chosen = [one for batch in selection.part(spec, whole) for one in batch.trials]
        first = Batch(engine="postgres", trial=1, trials=chosen)
        others = [rest for batch in whole.batches if (rest := batch.without(first.keys))]
        return whole.model_copy(update={"batches": (first, *others)})

    @property
    def trials(self) -> Sequence[Trial]:
        """Those that are swept."""
        spec = study.load(self.checkout, STUDY)
        return self.planned(self.checkout, self.selection, spec).batches[0].trials

    def provision(self, version: str, software: str | None = None) -> Provisioned:
        """Leave what provisioning an engine of a version leaves; by default the study's."""
        found = EngineFound(engine="postgres", version=version, refused_variants=self.refused)
        of_study = study.load(self.checkout, STUDY).engines["postgres"].software("postgres")
        provisioned = Provisioned(
            deployment=target.load(self.checkout, "local"),
            hosts={},
            engines={"postgres": found},
            last_versions={of_study: "unknown"} | {software or of_study: version},
        )
        provisioned.save(self.checkout)
        return provisioned

    @contextmanager
    def _ready(self, *_: object):
        yield self.provision("unknown")

    def _execute(self, repo, plan, batch, bar) -> None:
        self.executed += [trial.key for trial in batch.trials]
        self.notebook(batch)

    def notebook(self, batch) -> None:
        """All goes well."""
        for trial in batch.trials:
            self.close_run(trial=trial)

    def run(self) -> tuple[Counter, str]:
        """Return how many trials a sweep left with which status, and what it said."""
        stream = io.StringIO()
        console = Console(file=stream, width=300)
        ended = sweep.run(self.checkout, self.selection, console, self.planned)
        return Counter(ended.values()), stream.getvalue()

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


def test_a_sweep_runs_once_more_what_was_not_steady(sweeps):
    sweeps.selection = replace(sweeps.selection, profile="standard")
    keys = [trial.key for trial in sweeps.trials]  # of runs that are too short to tell
    outcome, said = sweeps.run()
    assert outcome == {"ok": len(keys)}
    assert Counter(sweeps.executed) == dict.fromkeys(keys, 2)
    assert f"{len(keys)} runs were not steady, shared the CPU, or ran while the host had" in said
    outcome, said = sweeps.run()
    assert outcome == {}
    assert "none repeated" in said
    assert len(sweeps.executed) == 2 * len(keys)


def test_an_engine_that_does_not_stop_fails_the_batch_that_needs_the_host(sweeps, monkeypatch):
    class Held(Session):
        def stop(self) -> None:
            raise TargetError("mariadb: port 23306 is still held")

    other = EngineFound(engine="mariadb", version="10.11")
    provision = sweeps.provision

    def with_another(version: str) -> Provisioned:
        found = provision(version)
        return found.model_copy(update={"engines": found.engines | {"mariadb": other}})

    monkeypatch.setattr(sweeps, "provision", with_another)
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "open_session", Held)
        assert sweeps.run()[0] == {"failed": 2}
    for trial in sweeps.trials:
        assert sweeps.statuses(trial) == [("failed", "mariadb: port 23306 is still held")]
    assert sweeps.executed == []
    assert sweeps.run()[0] == {"ok": 2}


def test_nothing_is_repeated_where_another_study_left_another_version(sweeps):
    assert sweeps.run()[0] == {"ok": 2}
    sweeps.provision("16.0", "postgres postgres_version=16")
    sweeps.executed.clear()
    outcome, said = sweeps.run()
    assert outcome == {}
    assert sweeps.executed == []
    assert said.endswith("all runs are there, none repeated\n")


def test_a_run_that_cannot_be_ingested_has_failed_and_is_reported_at_once(sweeps, close_run):
    first, second = sweeps.trials

    def notebook(batch) -> None:
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

    def notebook(batch) -> None:
        close_run(trial=first)
        raise NotebookError("batch.ipynb broke off: kernel died")

    sweeps.notebook = notebook
    outcome, said = sweeps.run()
    assert outcome == {"ok": 1, "failed": 1}
    assert said.count("kernel died") == 1
    assert sweeps.statuses(first)[len(before) :] == [("ok", None)]
    assert sweeps.statuses(second)[len(before) :] == [
        ("failed", "batch.ipynb broke off: kernel died")
    ]


def test_a_study_file_that_changes_meanwhile_changes_nothing_of_what_runs(sweeps, checkout):
    as_planned = [trial.key for trial in sweeps.trials]

    def notebook(batch) -> None:
        path = checkout.studies / f"{STUDY}.yml"
        path.write_text(path.read_text().replace("log_checkpoints: true", "log_checkpoints: false"))
        for trial in batch.trials:
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
    monkeypatch.setattr(Session, "said", {"default": [unknown]})
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


@pytest.fixture
def both(sweeps) -> Sweeps:
    """A batch with two variants."""
    sweeps.selection = replace(SELECTION, variants=["default", "tuned"])
    assert len(sweeps.trials) == 4
    return sweeps


def ended(sweeps: Sweeps, variant: str) -> set[tuple[str, str | None]]:
    """How the runs of a variant ended, each once."""
    of_variant = [trial for trial in sweeps.trials if trial.point.variant == variant]
    return {status for trial in of_variant for status in sweeps.statuses(trial)}


def executed(sweeps: Sweeps) -> Counter[str]:
    """Variant → how many of its trials a notebook ran."""
    return Counter(
        trial.point.variant for trial in sweeps.trials if trial.key in set(sweeps.executed)
    )


def test_a_variant_that_is_refused_leaves_the_rest_of_its_batch(both):
    both.refused = {"tuned": "it takes more memory than there is"}
    outcome, said = both.run()
    assert outcome == {"ok": 2, "refused": 2}
    assert executed(both) == {"default": 2}
    assert ended(both, "tuned") == {("refused", "it takes more memory than there is")}
    assert ended(both, "default") == {("ok", None)}
    line = "postgres-tuned-oltp_insert-trial1: 2 runs refused: it takes more memory than there is"
    assert said.count(line) == 1


def test_a_variant_whose_setting_is_unknown_leaves_the_rest_of_its_batch(both, monkeypatch):
    unknown = EngineSetting(name="wal_compresion", requested="lz4", effective=None)
    monkeypatch.setattr(Session, "said", {"default": [unknown]})
    outcome, said = both.run()
    assert outcome == {"ok": 2, "failed": 2}
    assert executed(both) == {"tuned": 2}
    assert said.count("postgres-default-oltp_insert-trial1: 2 runs failed: ") == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [(EngineError, "failed"), (DatasetError, "failed"), (DatasetTooLarge, "refused")],
)
def test_a_dataset_that_cannot_be_loaded_ends_the_runs_on_it_alone(
    both, monkeypatch, error, status
):
    planned = both.planned

    def on_large(trial: Trial) -> Trial:
        dataset = trial.point.dataset.model_copy(update={"rows_per_table": 10**9})
        return trial.model_copy(
            update={"point": trial.point.model_copy(update={"dataset": dataset})}
        )

    def with_another_dataset(*arguments) -> Plan:
        plan = planned(*arguments)
        first = plan.batches[0]
        trials = (on_large(one) if one.point.variant == "tuned" else one for one in first.trials)
        first = first.model_copy(update={"trials": tuple(trials)})
        return plan.model_copy(update={"batches": (first,)})

    def ensure(session, point, *_: object) -> None:
        loaded.append(point.dataset.rows_per_table)
        if point.dataset.rows_per_table == 10**9:
            raise error("no space left")

    loaded: list[int] = []
    monkeypatch.setattr(both, "planned", with_another_dataset)
    monkeypatch.setattr(sweep.dataset, "ensure", ensure)
    outcome, said = both.run()
    assert outcome == {"ok": 2, status: 2}
    assert executed(both) == {"default": 2}
    assert ended(both, "tuned") == {(status, "no space left")}
    assert f"postgres-tuned-oltp_insert-trial1: 2 runs {status}: no space left" in said
    assert len(loaded) == 2  # each once


def test_an_open_loop_whose_peak_is_unknown_fails_alone(both, monkeypatch):
    """The closed loop of one variant fails, so that nothing is known to be a share of."""
    planned = both.planned

    def opened_too(*arguments) -> Plan:
        plan = planned(*arguments)
        closed = plan.batches[0]
        shares = [
            trial.model_copy(
                update={"point": trial.point.model_copy(update={"share_of_peak": 0.8})}
            )
            for trial in closed.trials
        ]
        opened = Batch(engine="postgres", trial=1, trials=shares)
        return plan.model_copy(update={"batches": (closed, opened)})

    def notebook(batch) -> None:
        for trial in batch.trials:
            failed = trial.point.variant == "tuned"
            both.close_run(*(["failed", "it died"] if failed else []), trial=trial)

    monkeypatch.setattr(both, "planned", opened_too)
    both.notebook = notebook
    outcome, said = both.run()
    assert outcome == {"ok": 4, "failed": 4}
    assert len(both.executed) == 6
    for clients in {trial.point.concurrency for trial in both.trials}:
        reason = (
            f"postgres-tuned-oltp_insert: no run of the closed loop with {clients} clients counts, of"
            " whose throughput it is a share"
        )
        assert f"postgres-tuned-oltp_insert-trial1: 1 run failed: {reason}" in said
