"""Trials that are run once more: their run was not steady, not alone, or the host not as fast as usual.

That is no property of the system under test but of the minute in which it was measured. A run is
repeated whatever its throughput was, and once only: then the last one counts, and where it does not
pass either, the point did not.
"""

from collections.abc import Iterable

import polars as pl

from benchlab.gate.checks import ALONE, STEADY
from benchlab.gate.speed import uneven
from benchlab.plan import Batch
from benchlab.repo import Repo
from benchlab.store import metrics, open_store

#: Checks of the gate that another run may pass, beside that of the speed.
CHECKS = (STEADY, ALONE)

# The last runs of some trials, of those that were run for as long as it might take, and how many there
# are of each.
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
    """Return the batches with those trials alone that are to be run once more."""
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
