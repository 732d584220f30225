"""Workloads: a folder for each kind of dataset, with all that benchlab knows about it.

``dataset``  its model, as ``DATASET`` (imports little: study files are read with it)
``tables``   how it is loaded and checked, and the driver's options about it
             (:class:`~benchlab.workloads.base.Tables`, as ``TABLES``)

A folder may have script files, too. This module imports a kind when it is first needed.
"""

from typing import TYPE_CHECKING

from benchlab.study import DatasetModel, kinds

if TYPE_CHECKING:
    from benchlab.workloads.base import Tables


def tables_of(dataset: DatasetModel) -> "Tables":
    """Return the object for the tables of a dataset."""
    return kinds.part("workloads", dataset.kind, "tables").TABLES(dataset)
