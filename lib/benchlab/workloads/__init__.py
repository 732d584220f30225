"""Workloads: the tables of each kind of dataset, and the drivers that load and run them."""

from benchlab.study import Dataset, SpecTree, SysbenchTables
from benchlab.workloads.base import Tables
from benchlab.workloads.oltp import OltpTables
from benchlab.workloads.spec_tree.tables import SpecTreeTables

_TABLES: dict[type, type[Tables]] = {SysbenchTables: OltpTables, SpecTree: SpecTreeTables}


def tables_of(dataset: Dataset) -> Tables:
    """Return what knows the tables of a dataset."""
    return _TABLES[type(dataset)](dataset)
