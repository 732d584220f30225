"""Load the tables by each engine's bulk load, and check what the engine answers from them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from benchlab.engines import Engine
from benchlab.errors import DatasetError
from benchlab.study import SpecTree
from benchlab.workloads.spec_tree import generate, query, schema

#: Parameters that every engine is asked for before anything is timed.
ANSWERS = 1000


def load(engine: Engine, dataset: SpecTree) -> None:
    """Make the tables and fill them, an operator at a time; the indexes come last.

    Raises:
        DatasetError: the dataset cannot be made.
        EngineError: the server refused a statement.
    """
    for statement in schema.tables(engine.sysbench_driver, dataset):
        engine.query(statement)
    for tree in generate.trees(dataset):
        for table, rows in (
            ("specification", generate.specifications(dataset, tree)),
            ("spec_relationship", generate.relationships(dataset, tree)),
        ):
            engine.copy(table, rows, schema.IDS[table])
    for statement in schema.indexes():
        engine.query(statement)


def check(engine: Engine, dataset: SpecTree, kept: Path) -> None:
    """Compare what the engine answers to :data:`ANSWERS` queries with what was generated.

    Every engine is held to the same rows, so that all answer alike.

    Args:
        engine: with the dataset loaded.
        dataset: what was loaded.
        kept: file for both row sets, where they differ.

    Raises:
        DatasetError: an answer differs; the message names the first parameters of which it does.
        EngineError: the server refused the query.
    """
    expected = expected_answers(dataset)
    with engine.asking() as ask:
        for parameters in query.parameters(dataset, ANSWERS):
            generated = expected(parameters)
            statement = query.filled_in(engine.sysbench_driver, parameters)
            answered = query.canonical(ask(statement))
            if answered != generated:
                kept.parent.mkdir(parents=True, exist_ok=True)
                both = {"parameters": parameters, "generated": generated, "answered": answered}
                kept.write_text(json.dumps(both, indent=1))
                raise DatasetError(
                    f"{engine.name} answers {len(answered)} rows for {', '.join(parameters)},"
                    f" other than the {len(generated)} that were loaded: see {kept}"
                )


def expected_answers(dataset: SpecTree) -> Callable[[query.Parameters], list[list[Any]]]:
    """Return what tells the rows of an answer from the generated ones, without any engine."""
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
