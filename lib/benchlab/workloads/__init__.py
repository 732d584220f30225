"""Workloads: each kind of dataset a folder, with all that is to be known of it.

``dataset``  its model, as ``DATASET`` (light: study files are read with it)
``tables``   how it is loaded and checked, the load's options about it
             (:class:`~benchlab.workloads.base.Tables`, as ``TABLES``)

Script files of its own lie beside them. This module imports each when it is first needed.
"""

from typing import TYPE_CHECKING

from benchlab.study import DatasetModel, kinds

if TYPE_CHECKING:
    from benchlab.workloads.base import Tables


def tables_of(dataset: DatasetModel) -> "Tables":
    """Return what knows the tables of a dataset."""
    return kinds.part("workloads", dataset.kind, "tables").TABLES(dataset)
