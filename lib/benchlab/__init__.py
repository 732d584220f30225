"""benchlab: rerun published database benchmarks end to end.

The one import that you need to explore results::

    import benchlab

    lab = benchlab.open()            # this checkout's store; "reference": the shipped result set
    lab.runs(status="ok")            # every run of the store, a Polars frame
    lab.table("interval", run_id)    # one run's seconds

    rerun = benchlab.rerun("spec_tree")    # the runs that are a study's results, and their metrics
    rerun.metrics
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

__version__ = version("benchlab")

if TYPE_CHECKING:
    from benchlab.store import Store
    from benchlab.store.results import Rerun


def open(source: str = "store") -> "Store":
    """Open results for reading.

    Args:
        source: ``store``: this checkout's own runs; ``reference``: the result set that it ships; or
            the path or object-store URL of a folder that ``benchlab export`` wrote.

    Raises:
        StoreError: there are no results at that place.
    """
    from benchlab import repo, store

    checkout = repo.find()
    return store.open_any(
        {"store": checkout.store, "reference": checkout.reference}.get(source, source)
    )


def rerun(
    study: str, source: str = "store", profile: str | None = None, target: str | None = None
) -> "Rerun":
    """Open the results of one study for reading.

    Args:
        study: name.
        source: see :func:`open`.
        profile: name; ``None``: the largest one that has a run that counts.
        target: name; ``None``: the target of the last run that counts.

    Raises:
        StoreError: there are no results at that place, or no run of the study counts.
        UnknownName: no such study, profile or target.
    """
    from benchlab import repo
    from benchlab.store import results

    return results.open_rerun(repo.find(), open(source), study, profile, target)
