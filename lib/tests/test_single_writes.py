"""Single writes into a load, on an engine that keeps what it was told."""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchlab.engines.base import Ask
from benchlab.errors import BenchlabError, EngineError, TargetError
from benchlab.run.single_writes import RunningWrites
from benchlab.study.intervention import SingleWrites
from benchlab.workloads import tables_of
from benchlab.workloads.sysbench_oltp.dataset import SysbenchTables

TABLES = tables_of(SysbenchTables(kind="sysbench_oltp", tables=3, rows_per_table=1000))
REQUESTED = SingleWrites.model_construct(writes=3, every_s=0.05)


class Engine:
    """Takes every statement, or has an error for some."""

    table_states_query = None

    def __init__(self, error: BenchlabError | None = None, on: str = ""):
        self.error, self.on = error, on
        self.updates: dict[str, list[str]] = defaultdict(list)

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        if self.error and not self.on:
            raise self.error
        yield self._ask

    def _ask(self, statement: str) -> list:
        verb, table, *_ = [*statement.split(), ""]
        if verb == "UPDATE":
            self.updates[table].append(statement)
        if self.error and self.on == statement:
            raise self.error
        return []


def written(engine: Engine, seed: int = 7) -> tuple[list[dict], str | None]:
    """What one run with single writes captures, and why it broke off."""
    writes = RunningWrites(engine, TABLES, REQUESTED, seed)
    writes.begin()
    for thread in writes._threads:
        thread.join(10)
    captures, problem = writes.end()
    return [json.loads(line) for line in captures["single_writes.jsonl"].splitlines()], problem


def test_every_table_is_written_to_at_its_times_and_again_alike():
    first, second = Engine(), Engine()
    rows, problem = written(first)
    assert problem is None
    assert {row["table"] for row in rows} == set(first.updates) == set(TABLES.single_writes(1))
    assert all(row["due"] <= row["begin"] <= row["commit"] <= row["end"] for row in rows)
    written(second)
    assert second.updates == first.updates
    assert len({tuple(of_table) for of_table in first.updates.values()}) == 3


@pytest.mark.parametrize(
    ("error", "on", "rows"),
    [
        (EngineError("it died"), "COMMIT", 3),
        (TargetError("the tunnel is gone"), "COMMIT", 3),
        (TargetError("the tunnel is gone"), "", 0),
    ],
)
def test_a_write_that_fails_ends_the_writes_and_says_why(error, on, rows):
    found, problem = written(Engine(error, on))
    assert problem.startswith("single write into sbtest")
    assert problem.endswith(f": {error}")
    assert len(found) == rows
    assert all(row["error"] == str(error) and "end" not in row for row in found)
