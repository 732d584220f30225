"""The rows of the two tables, drawn from a seed."""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import polars as pl

from benchlab.errors import DatasetError
from benchlab.workloads.spec_tree.dataset import SpecTree

#: Levels from the root down; a row's ``psr_type`` is the number of its level.
LEVELS = ("product offering", "product spec", "CFSS", "RFSS", "resource spec")

#: Least and most rows that a query from any offering returns, as the article states for its data.
ROWS_OF_A_QUERY = (40, 60)

#: Characters of a description, at most.
DESCRIPTION_LENGTH = 2048

#: Share of an operator's entities on each level; least and most children of a node on each level but
#: the last. The article shows only a small example; these values give :data:`ROWS_OF_A_QUERY`.
_SHARES = (0.06, 0.12, 0.22, 0.28, 0.32)
_CHILDREN = ((2, 4), (3, 5), (1, 3), (1, 2))

#: Draws of an offering's children, at most, to find some that give the right number of rows.
_DRAWS = 1000

#: Every entity is valid over this time, in one or two revisions. A MySQL TIMESTAMP ends in 2038.
FIRST, LAST = np.datetime64("2020-01-01T00:00:00"), np.datetime64("2037-01-01T00:00:00")

_WORDS = (
    "data voice roaming bundle monthly prepaid handset tariff network service access quality"
    " subscriber bandwidth device contract premium family business international unlimited"
)


@dataclass(frozen=True)
class Operator:
    """The tree of one operator. Nodes are numbered from 0 on each level."""

    name: str
    sizes: tuple[int, ...]
    """Number of nodes on each level."""
    edges: tuple[np.ndarray, ...]
    """For each level but the last: an array of (parent, child), the child on the level below."""
    rows_of_queries: np.ndarray
    """For each offering, the number of rows that its query returns, with the offering's own."""


def operator_names(dataset: SpecTree) -> list[str]:
    """Return the names of all operators."""
    return [f"operator-{number:02}" for number in range(1, dataset.operators + 1)]


def sizes(dataset: SpecTree) -> tuple[int, ...]:
    """Return the number of nodes of one operator on each level."""
    above = [int(dataset.entities * share) for share in _SHARES[:-1]]
    return (*above, dataset.entities - sum(above))


def entity_id(dataset: SpecTree, operator: str, level: int, number: int) -> str:
    """Return an entity's id, 16 bytes in hex; ids are scattered as if they were drawn at random."""
    return _id(dataset.seed, operator, level, number)


def trees(dataset: SpecTree) -> Iterator[Operator]:
    """Draw the tree of every operator.

    Raises:
        DatasetError: no tree of that size gives queries of :data:`ROWS_OF_A_QUERY` rows.
    """
    for number, name in enumerate(operator_names(dataset)):
        yield _tree(dataset, name, np.random.default_rng([dataset.seed, number]))


def specifications(dataset: SpecTree, tree: Operator) -> pl.DataFrame:
    """Return the rows of table ``specification`` of one operator: ids are hex, times are UTC.

    Every entity has one revision; as many as ``dataset.revisions`` have a second one, which takes over
    from the first at some time between :data:`FIRST` and :data:`LAST`.
    """
    random = np.random.default_rng([dataset.seed, *tree.name.encode()])
    nodes = [(level, n) for level, size in enumerate(tree.sizes) for n in range(size)]
    revised = set(random.choice(len(nodes), size=dataset.revisions, replace=False).tolist())
    text = _text(random)
    rows = []
    for index, (level, number) in enumerate(nodes):
        times = [FIRST, LAST]
        if index in revised:
            seconds = int((LAST - FIRST).astype(int))
            times.insert(1, FIRST + np.timedelta64(int(random.integers(1, seconds)), "s"))
        for revision, (start, end) in enumerate(itertools.pairwise(times)):
            length = int(random.integers(1, DESCRIPTION_LENGTH + 1))
            begin = int(random.integers(0, len(text) - length))
            rows.append(
                (
                    start.item(),
                    end.item(),
                    entity_id(dataset, tree.name, level, number),
                    _id(dataset.seed, tree.name, level, number, revision),
                    tree.name,
                    level,
                    f"{LEVELS[level]} {number}",
                    text[begin : begin + length],
                    _properties(level, number, revision, random),
                )
            )
    return pl.DataFrame(rows, schema=_SPECIFICATION, orient="row")


def relationships(dataset: SpecTree, tree: Operator) -> pl.DataFrame:
    """Return the rows of table ``spec_relationship`` of one operator; ids are hex."""
    rows = [
        (
            tree.name,
            entity_id(dataset, tree.name, level, parent),
            entity_id(dataset, tree.name, level + 1, child),
        )
        for level, edges in enumerate(tree.edges)
        for parent, child in edges.tolist()
    ]
    return pl.DataFrame(rows, schema=_RELATIONSHIP, orient="row")


def statistics(dataset: SpecTree) -> pl.DataFrame:
    """Return the size of each operator's tree and of its queries, one row per operator.

    Columns: ``operator``, ``entities``, ``edges``, ``shared`` (share of the nodes below the offerings
    that have several parents), ``rows_least``, ``rows_mean``, ``rows_most`` (of a query).

    Raises:
        DatasetError: see :func:`trees`.
    """
    rows = []
    for tree in trees(dataset):
        parents = [np.bincount(edges[:, 1]) for edges in tree.edges]
        below = sum(tree.sizes[1:])
        shared = sum(int((count > 1).sum()) for count in parents) / below
        found = tree.rows_of_queries
        edges = sum(len(level) for level in tree.edges)
        of_queries = (int(found.min()), float(found.mean()), int(found.max()))
        rows.append((tree.name, sum(tree.sizes), edges, shared, *of_queries))
    columns = ("operator", "entities", "edges", "shared", "rows_least", "rows_mean", "rows_most")
    return pl.DataFrame(rows, schema=columns, orient="row")


_SPECIFICATION = {
    "start_time": pl.Datetime,
    "end_time": pl.Datetime,
    "entity_id": pl.String,
    "revision_id": pl.String,
    "operator_name": pl.String,
    "psr_type": pl.Int8,
    "name": pl.String,
    "description": pl.String,
    "properties": pl.String,
}
_RELATIONSHIP = {
    "operator_name": pl.String,
    "parent_entity_id": pl.String,
    "child_entity_id": pl.String,
}


def _tree(dataset: SpecTree, name: str, random: np.random.Generator) -> Operator:
    """Draw a tree from the leaves up: what a node reaches decides which offerings may have it."""
    counts = sizes(dataset)
    last = len(counts) - 1
    if any(most > size for (_, most), size in zip(_CHILDREN, counts[1:], strict=True)):
        raise DatasetError(
            f"{dataset.entities} entities are too few for a tree of {last + 1} levels"
        )
    reached = [frozenset([(last, number)]) for number in range(counts[last])]
    edges: list[np.ndarray] = []
    for level in reversed(range(last)):
        of_level, nodes = [], []
        for number in range(counts[level]):
            children, found = _children(random, level, counts[level + 1], reached)
            of_level += [(number, child) for child in children]
            nodes.append(found | {(level, number)})
        edges.insert(0, np.array(of_level))
        reached = nodes
    return Operator(name, counts, tuple(edges), np.array([len(found) for found in reached]))


def _children(
    random: np.random.Generator, level: int, below: int, reached: list[frozenset]
) -> tuple[list[int], frozenset]:
    """Draw a node's children; for an offering, draw until its query has the right number of rows."""
    least, most = _CHILDREN[level]
    for _ in range(_DRAWS):
        count = int(random.integers(least, most + 1))
        children = random.choice(below, size=count, replace=False).tolist()
        found = reduce(frozenset.union, (reached[child] for child in children))
        fewest, greatest = ROWS_OF_A_QUERY
        if level > 0 or fewest <= len(found) + 1 <= greatest:
            return children, found
    raise DatasetError(
        f"in {_DRAWS} draws no offering gave a query of {fewest} to {greatest} rows;"
        " with fewer entities more of them are shared, and a query returns less"
    )


def _id(*parts: object) -> str:
    return hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def _text(random: np.random.Generator) -> str:
    """Return a text; every description is a part of it."""
    return " ".join(random.choice(_WORDS.split(), size=DESCRIPTION_LENGTH * 8).tolist())


def _properties(level: int, number: int, revision: int, random: np.random.Generator) -> str:
    """Return a small JSON object, written as all engines keep it."""
    price, days = random.integers(1, 10_000), random.integers(1, 730)
    return (
        f'{{"level": {level}, "number": {number}, "revision": {revision},'
        f' "price": {price}, "days": {days}}}'
    )
