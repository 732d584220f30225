"""Trials that are run once more, since their run was not steady or shared the machine with others.

That is no property of the system under test but of the minute in which it was measured. A run is
repeated whatever its throughput was, and once only: then the last one counts, and where it does not
pass either, the point did not.
"""

from collections.abc import Iterable

from benchlab.gate.checks import ALONE, STEADY
from benchlab.plan import Batch
from benchlab.repo import Repo
from benchlab.store import open_store

#: Checks of the gate that another run may pass.
CHECKS = (STEADY, ALONE)

# Trials that were run once, for as long as it might take, and did not pass.
_TO_REPEAT = """
    SELECT trial_key FROM run LEFT JOIN gate USING (run_id)
    WHERE target = ? AND longest_s IS NOT NULL AND intervention IS NULL
    GROUP BY trial_key
    HAVING count(DISTINCT run_id) = 1 AND bool_or(NOT passed AND list_contains(?, "check"))
"""


def to_repeat(repo: Repo, target: str, batches: Iterable[Batch]) -> list[Batch]:
    """Return the batches with those trials alone that are to be run once more."""
    with open_store(repo.store) as store:
        keys = set(store.sql(_TO_REPEAT, target, list(CHECKS))["trial_key"])
    return [part for batch in batches if (part := batch.only(lambda trial: trial.key in keys))]
