"""The recursive query, its parameters, and the form in which answers are compared."""

import json
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchlab.workloads.spec_tree import generate
from benchlab.workloads.spec_tree.dataset import SpecTree

#: The statement. ``{root}`` is the place of an id as the dialect writes it; ``:root``, ``:operator``
#: and ``:at`` are those of the parameters, ``:hint`` that of a workload's hint to the optimizer. UNION
#: returns a node that several parents share once; UNION ALL would return it several times.
_STATEMENT = """
WITH RECURSIVE tree (entity_id) AS (
  SELECT {root}
  UNION
  SELECT r.child_entity_id FROM tree
  JOIN spec_relationship r ON r.operator_name = ':operator' AND r.parent_entity_id = tree.entity_id
)
SELECT s.entity_id, s.revision_id, s.start_time, s.end_time, s.operator_name, s.psr_type, s.name,
  s.description, s.properties
FROM tree
JOIN specification s :hint ON s.operator_name = ':operator' AND s.entity_id = tree.entity_id
  AND s.start_time <= ':at' AND s.end_time > ':at'
"""
_ROOT = {"mysql": "CAST(x':root' AS binary(16))", "postgres": r"'\x:root'::bytea"}


class Parameters(NamedTuple):
    """Parameters of one query."""

    operator: str
    root: str
    """Id of an offering, in hex."""
    at: str
    """The time at which revisions are to be valid, UTC."""


def statement(dialect: str) -> str:
    """Return the statement on one line, with the names of its parameters in it."""
    return " ".join(_STATEMENT.format(root=_ROOT[dialect]).split())


def filled_in(dialect: str, parameters: Parameters, hint: str = "") -> str:
    """Return the statement with its parameters, as the load sends it."""
    text = statement(dialect)
    for name, value in {**parameters._asdict(), "hint": hint}.items():
        text = text.replace(f":{name}", value)
    return text


@cache
def parameters(dataset: SpecTree, number: int) -> tuple[Parameters, ...]:
    """Draw parameters: a random offering of a random operator, at a random time.

    The first ones are the same for every number.
    """
    return tuple(_draw(dataset, number))


def _draw(dataset: SpecTree, number: int) -> Iterator[Parameters]:
    random = np.random.default_rng([dataset.seed, 1])
    operators, offerings = generate.operator_names(dataset), generate.sizes(dataset)[0]
    seconds = int((generate.LAST - generate.FIRST).astype(int))
    for _ in range(number):
        operator = operators[int(random.integers(len(operators)))]
        root = generate.entity_id(dataset, operator, 0, int(random.integers(offerings)))
        at = generate.FIRST + np.timedelta64(int(random.integers(seconds)), "s")
        yield Parameters(operator, root, f"{at.item():%Y-%m-%d %H:%M:%S}")


def canonical(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Bring an engine's rows into a form and order that are the same for all engines."""
    return sorted([_plain(value) for _, value in sorted(row.items())] for row in rows)


def _plain(value: Any) -> Any:
    """Return ids as hex, times as text, JSON with its keys in order."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
