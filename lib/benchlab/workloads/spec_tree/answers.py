"""Expected answers of the recursive query, computed from the generated rows without any engine."""

from collections.abc import Callable
from typing import Any

import polars as pl

from benchlab.workloads.spec_tree import generate, query
from benchlab.workloads.spec_tree.dataset import SpecTree


def expected(dataset: SpecTree) -> Callable[[query.Parameters], list[list[Any]]]:
    """Return a function of parameters that returns the answer in the form of :func:`query.canonical`.

    Raises:
        DatasetError: the dataset cannot be made.
    """
    rows, children = {}, {}
    for tree in generate.trees(dataset):
        rows[tree.name] = generate.specifications(dataset, tree)
        edges = generate.relationships(dataset, tree).group_by("parent_entity_id")
        children[tree.name] = dict(edges.agg(pl.col("child_entity_id")).iter_rows())

    def answer(parameters: query.Parameters) -> list[list[Any]]:
        reached, left = set(), [parameters.root]
        while left:
            node = left.pop()
            if node not in reached:
                reached.add(node)
                left += children[parameters.operator].get(node, [])
        at = pl.lit(parameters.at).str.to_datetime()
        valid = rows[parameters.operator].filter(
            pl.col("entity_id").is_in(list(reached))
            & at.is_between("start_time", "end_time", "left")
        )
        return query.canonical(valid.to_dicts())

    return answer
