"""Trials that are repeated: not steady, with others on the CPU, or while the host had another speed.

These are properties of the minute of the measurement, not of the system under test. A run is repeated
whatever its throughput was, and only once. Then the last run counts; if it does not pass either, the
trial has not passed.
"""

from collections.abc import Iterable

import polars as pl

from benchlab.gate.checks import ALONE, STEADY
from benchlab.gate.speed import uneven
from benchlab.plan import Batch, Plan
from benchlab.repo import Repo
from benchlab.store import metrics, open_store

#: Checks of the gate that another run may pass, besides the check of the speed.
CHECKS = (STEADY, ALONE)

# The last runs of some trials, those that ended well: whether a run goes on until it is steady, and how
# many runs of its trial ended well.
_LAST = """
    SELECT run_id, trial_key, longest_s IS NOT NULL AND intervention IS NULL AS goes_on,
        count(*) FILTER (status = 'ok') OVER (PARTITION BY trial_key) AS runs
    FROM run WHERE list_contains(?, trial_key) AND target = ?
    QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY started DESC) = 1 AND status = 'ok'
"""

_NOT_PASSED = """
    SELECT run_id FROM gate SEMI JOIN chosen USING (run_id)
    WHERE NOT passed AND list_contains(?, "check")
"""


def to_repeat(repo: Repo, target: str, batches: Iterable[Batch], plan: Plan) -> list[Batch]:
    """Return batches of a plan with only the trials that are to be run once more.

    The speed of the host is compared with that during all runs of the plan, as the gate does.
    """
    planned = [trial.key for trial in plan.trials]
    with open_store(repo.store) as store:
        last = store.sql(_LAST, planned, target)
        not_passed = store.sql(_NOT_PASSED, list(CHECKS), chosen=last["run_id"])
        of_other_speed = uneven(store.sql(metrics.SPEEDS, chosen=last["run_id"]))
    failed = pl.concat([not_passed["run_id"], of_other_speed["run_id"]])
    once = last.filter(pl.col("run_id").is_in(failed.implode()), "goes_on", runs=1)
    keys = set(once["trial_key"])
    return [part for batch in batches if (part := batch.only(lambda trial: trial.key in keys))]
