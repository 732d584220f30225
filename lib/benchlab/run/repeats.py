"""Trials that are run once more: their run was not steady, not alone, or on a host of unusual speed.

These are properties of the minute of the measurement, not of the system under test. A run is repeated
whatever its throughput was, and only once. Then the last run counts; if it does not pass either, the
trial has not passed.
"""

from collections.abc import Iterable

import polars as pl

from benchlab.gate.checks import ALONE, STEADY
from benchlab.gate.speed import uneven
from benchlab.plan import Batch
from benchlab.repo import Repo
from benchlab.store import metrics, open_store

#: Checks of the gate that another run may pass, besides the check of the speed.
CHECKS = (STEADY, ALONE)

# The last run of each of some trials, and the number of its runs; only runs that go on until they are
# steady.
_LAST = """
    SELECT run_id, trial_key, count(*) OVER (PARTITION BY trial_key) AS runs
    FROM run WHERE list_contains(?, trial_key) AND target = ?
        AND longest_s IS NOT NULL AND intervention IS NULL
    QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY started DESC) = 1
"""

_NOT_PASSED = """
    SELECT run_id FROM gate SEMI JOIN chosen USING (run_id)
    WHERE NOT passed AND list_contains(?, "check")
"""


def to_repeat(repo: Repo, target: str, batches: Iterable[Batch]) -> list[Batch]:
    """Return the batches with only the trials that are to be run once more."""
    batches = list(batches)
    planned = [trial.key for batch in batches for trial in batch.trials]
    with open_store(repo.store) as store:
        last = store.sql(_LAST, planned, target)
        not_passed = store.sql(_NOT_PASSED, list(CHECKS), chosen=last["run_id"])
        of_other_speed = uneven(store.sql(metrics.SPEEDS, chosen=last["run_id"]))
    failed = pl.concat([not_passed["run_id"], of_other_speed["run_id"]])
    once = last.filter(pl.col("run_id").is_in(failed.implode()), runs=1)
    keys = set(once["trial_key"])
    return [part for batch in batches if (part := batch.only(lambda trial: trial.key in keys))]
