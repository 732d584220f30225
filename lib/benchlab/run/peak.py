"""The peak of a closed loop; the rate of an open loop is a share of it."""

from benchlab.errors import NoRuns
from benchlab.plan import Plan, Trial, label
from benchlab.repo import Repo
from benchlab.store import open_store, results


def peak(repo: Repo, plan: Plan, trial: Trial) -> float:
    """Return the throughput of the closed loop on a trial's curve with the same number of clients.

    Another number of clients may have another throughput, which these clients could not reach.

    Raises:
        NoRuns: the store has no run of this closed loop that counts.
    """
    point = trial.point
    closed = {
        one.key
        for batch in plan.batches
        if not batch.is_open and not batch.intervention
        for one in batch.trials
        if one.point.curve == point.curve and one.point.concurrency == point.concurrency
    }
    with open_store(repo.store) as store:
        peak_tps = results.closed_loop(store, plan.target, closed)
    if peak_tps is None:
        raise NoRuns(
            f"{label([trial])}: no run of the closed loop with {point.concurrency} clients counts, of"
            " whose throughput it is a share"
        )
    return peak_tps
