"""What the engines' plans have in common: which tables a query reads, how, and how many rows of each.

Each engine writes its plans in its own format, with what every step did when the query was run. A
table that the query itself makes, such as the one that a recursion adds to, is left out.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Access:
    """One step of a plan that reads a table."""

    table: str
    """Name of the table in the plan: in PostgreSQL that of the partition."""
    index: str | None
    """Index by which rows are looked up; ``None``: the table, or a partition of it, is scanned."""
    loops: int
    """How many times the step was run."""
    rows: int
    """Rows that it read over all loops, including those that a condition then removed."""


def of_postgres(plan: str) -> list[Access]:
    """Read ``EXPLAIN (ANALYZE, FORMAT JSON)``. Rows are means over loops, rounded before version 18."""
    found = []
    for node in _nodes(json.loads(plan), "Node Type"):
        if "Relation Name" in node:
            loops = node["Actual Loops"]
            read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            # a separate step below makes a bitmap
            below = (inner.get("Index Name") for inner in node.get("Plans", []))
            index = node.get("Index Name") or next(filter(None, below), None)
            found.append(Access(node["Relation Name"], index, loops, round(read * loops)))
    return found


def of_mysql(plan: str) -> list[Access]:
    """Read ``EXPLAIN ANALYZE FORMAT=JSON``, version 2 of the format. Its rows are means over loops.

    Empty for ``EXPLAIN FORMAT=JSON``, which runs no query: it has no counts.
    """
    return [
        Access(
            node["table_name"],
            node.get("index_name"),
            node["actual_loops"],
            round(node["actual_rows"] * node["actual_loops"]),
        )
        for node in _nodes(json.loads(plan), "operation")
        if "actual_loops" in node and "schema_name" in node
    ]


def of_mariadb(plan: str) -> list[Access]:
    """Read ``ANALYZE FORMAT=JSON``. Its rows are means over loops; tables go by their aliases."""
    return [
        Access(
            node["table_name"],
            node.get("key"),
            node["r_loops"],
            # the rows of a step that was never run are null
            round((node["r_rows"] or 0) * node["r_loops"]),
        )
        for node in _nodes(json.loads(plan), "access_type")
        if not node["table_name"].startswith("<")
    ]


def _nodes(tree: Any, mark: str) -> Iterator[Mapping[str, Any]]:
    """Yield every object of a plan that has the key ``mark``, outer ones first."""
    if isinstance(tree, Mapping):
        if mark in tree:
            yield tree
        children = tree.values()
    else:
        children = tree if isinstance(tree, list) else ()
    for child in children:
        yield from _nodes(child, mark)
