"""A batch as the run notebook executes it: what its runs begin from, and what is shown of them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from benchlab import target
from benchlab.errors import StoreError
from benchlab.plan import Batch, Point, Trial
from benchlab.run import batch as batch_module
from benchlab.run.batch import BatchRun, restores
from benchlab.run.planning import Selection
from benchlab.run.ready import engines_left
from benchlab.run.trial import EndedTrial
from benchlab.target import EngineFound, Provisioned
from conftest import planned


@pytest.fixture
def kinds(batches) -> dict[str, Trial]:
    """One trial of each kind: ``r`` reads, ``w`` writes, ``W`` writes and has the dataset restored; in
    ``r2`` and ``w2`` another dataset.
    """
    trials = [one for batch in batches(engines=["postgres"]) for one in batch.trials]
    reads, writes = (
        next(one for one in trials if one.point.workload.writes is writing)
        for writing in (False, True)
    )

    def changed(trial: Trial, **update: object) -> Trial:
        return trial.model_copy(update={"point": trial.point.model_copy(update=update)})

    other = reads.point.dataset.model_copy(update={"rows_per_table": 7})
    return {
        "r": reads,
        "w": changed(writes, dataset_reset="none"),
        "W": changed(writes, dataset_reset="restore"),
        "r2": changed(reads, dataset=other),
        "w2": changed(writes, dataset_reset="none", dataset=other),
    }


# runs in their order, and with a plus those that begin from the dataset
ORDERS = {
    "the first always does": ("r", "+"),
    "reading changes nothing": ("r r r", "+ . ."),
    "those that write follow each other": ("w w w", "+ . ."),
    "unless each is to begin from it": ("W W W", "+ + +"),
    "after those that only read, too": ("r W r r W", "+ + + . +"),
    "what was written is not read by another": ("w r r w w r", "+ + . . . +"),
    "nor by one that comes later": ("r w w r", "+ . . +"),
    "another dataset": ("r r2 r2 r", "+ + . +"),
    "another dataset, which nobody has written": ("w r2 w2 w", "+ + . +"),
}


@pytest.mark.parametrize("case", ORDERS)
def test_a_run_begins_from_the_dataset_if_it_would_find_another_one(kinds, case):
    order, expected = (line.split() for line in ORDERS[case])
    since: list[Point] = []
    found = []
    for kind in order:
        point = kinds[kind].point
        restore = restores(point, since)
        since = [point] if restore else [*since, point]
        found.append(restore)
    assert found == [one == "+" for one in expected]


@pytest.mark.parametrize("fails", [None, "r"])
def test_the_trials_of_a_batch_run_in_their_order(kinds, fails, monkeypatch, capsys):
    again = kinds["r"].model_copy(update={"number": 2})
    trials = [kinds["w"], kinds["r"], again, kinds["w2"]]
    peaks_tps = {kinds["r"].key: 100.0}
    failing = fails and kinds[fails].key
    begun = []

    def run_trial(session, trial, raw, restore, before_load, peak_tps):
        before_load()
        begun.append((trial.key, restore, peak_tps))
        return EndedTrial(
            trial.key != failing, lambda: SimpleNamespace(trial=trial, line=lambda: trial.key)
        )

    monkeypatch.setattr(batch_module, "run_trial", run_trial)
    session = SimpleNamespace(bring_up=lambda: None)
    batch = Batch(engine="postgres", trial=1, trials=trials)
    records = list(BatchRun(Path(), session, batch, peaks_tps).run())
    assert [one.trial for one in records] == trials
    assert capsys.readouterr().out.split("\n")[:-1] == [f"run {one.key}" for one in trials]
    assert begun == [
        (kinds["w"].key, True, None),
        (kinds["r"].key, True, 100.0),
        # what failed before it began may not have restored the dataset
        (again.key, fails == "r", None),
        (kinds["w2"].key, True, None),
    ]


def test_what_is_shown_of_a_batch_names_the_curves_of_its_runs(checkout, batches, close_run):
    batch = batches(engines=["postgres"])[0]
    run = BatchRun(checkout.raw, None, batch, {})
    curves = [trial.point.curve for trial in batch.trials]
    columns = ("variant", "workload", "envelope")
    shown = run.points()
    assert shown.select(*columns).rows() == [curve[1:] for curve in curves]
    assert shown["trial_key"].to_list() == [trial.key for trial in batch.trials]
    first, second, *_ = batch.trials
    records = [close_run(trial=first), close_run("failed", "it died", trial=second)]
    summary = run.summary(records)
    assert sorted(summary.select(*columns).rows()) == sorted(one[1:] for one in curves[:2])
    assert set(summary["status"]) == {"ok", "failed"}


def test_an_open_loop_is_opened_with_the_peak_of_each_trials_own_curve(checkout, close_run):
    found = EngineFound(engine="postgres", version="1.0")
    on = target.load(checkout, "local")
    Provisioned(deployment=on, hosts={}, engines={"postgres": found}).save(checkout)
    plan = planned(checkout)
    closed = next(batch for batch in plan.batches if batch.engine == "postgres")
    shares = [
        one.model_copy(update={"point": one.point.model_copy(update={"share_of_peak": 0.8})})
        for one in closed.trials[:2]
    ]
    opened = Batch(engine="postgres", trial=1, trials=shares)
    batches = (*plan.batches, opened)
    plan = plan.model_copy(update={"batches": batches}).save(checkout)
    keys = [one.key for one in shares]
    close_run(trial=closed.trials[0])
    with pytest.raises(StoreError, match="no run of the closed loop"):
        batch_module.open_batch(plan.id, keys)
    assert batch_module.open_batch(plan.id, keys[:1]).peaks_tps.keys() == set(keys[:1])
    close_run(trial=closed.trials[1])
    run = batch_module.open_batch(trials=keys)
    assert run.batch == opened
    assert run.peaks_tps.keys() == set(keys)
    # a closed loop has none
    assert batch_module.open_batch(plan.id, sorted(closed.keys)).peaks_tps == {}


def test_what_later_studies_still_need_is_known_beforehand(checkout):
    on = target.load(checkout, "local")
    later = Selection("spec_tree", "quick", on.name)

    def names() -> set[str]:
        return {one["engine"] for one in engines_left(checkout, later, on)}

    assert names() == {"mariadb", "mysql", "postgres"}
    found = EngineFound(engine="mysql", version="9.7.0")
    Provisioned(deployment=on, hosts={}, engines={"mysql": found}).save(checkout)
    assert names() == {"mariadb", "postgres"}
