"""benchlab: rerun published database benchmarks end to end.

The one import an explorer needs::

    import benchlab

    lab = benchlab.open()            # this checkout's store; "reference": the result set it ships
    lab.runs(status="ok")            # every run ever made, a Polars frame
    lab.table("interval", run_id)    # one run's seconds
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

__version__ = version("benchlab")

if TYPE_CHECKING:
    from benchlab.store import Store


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
