"""How each engine's plan read the tables, read from plans as the servers gave them."""

from pathlib import Path
from typing import NoReturn
from unittest.mock import MagicMock, Mock

import pymysql
import pytest
from benchlab.engines import ENGINES
from benchlab.engines.plans import Access

FOLDER = Path(__file__).parent / "data" / "plans"

# MySQL's and PostgreSQL's small one with 2 x 550 rows, the others with 15 x 4,735
ACCESSES = {
    "postgres-spec_tree": [
        Access("spec_relationship", "spec_relationship_pkey", loops=50, rows=50),
        Access("specification", "specification_pkey", loops=50, rows=50),
    ],
    # the operator's whole partition, of which a condition leaves the old revisions out
    "postgres-spec_tree_partitioned": [
        Access("spec_relationship_p7", "spec_relationship_p7_pkey", loops=50, rows=50),
        Access("specification_p7", None, loops=1, rows=4735),
    ],
    "postgres-spec_tree_partitioned-small": [
        Access("spec_relationship_p1", None, loops=5, rows=3650),
        Access("specification_p1", None, loops=1, rows=550),
    ],
    "mysql-spec_tree": [
        Access("spec_relationship", "PRIMARY", loops=56, rows=58),
        Access("specification", "PRIMARY", loops=56, rows=60),
    ],
    "mysql-spec_tree_partitioned": [
        Access("spec_relationship", "PRIMARY", loops=56, rows=58),
        Access("specification", "PRIMARY", loops=56, rows=60),
    ],
    "mariadb-spec_tree": [
        Access("r", "PRIMARY", loops=50, rows=50),
        Access("s", "PRIMARY", loops=50, rows=53),
    ],
    # the whole table once for each filling of the join buffer
    "mariadb-spec_tree_scan": [
        Access("r", "PRIMARY", loops=50, rows=50),
        Access("s", None, loops=5, rows=355_125),
    ],
    "mariadb-spec_tree_partitioned": [
        Access("r", "spec_relationship_p", loops=50, rows=50),
        Access("s", "PRIMARY", loops=50, rows=53),
    ],
}


def test_every_recorded_plan_is_read():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(ACCESSES)


@pytest.mark.parametrize("name", ACCESSES)
def test_tables_are_reported_with_index_loops_and_rows(name):
    plan = (FOLDER / f"{name}.json").read_text()
    assert ENGINES[name.split("-")[0]].accesses(plan) == ACCESSES[name]


def test_a_step_that_was_never_run_read_nothing():
    """MariaDB gives such a step 0 loops and null rows, as the recorded plan does for the union."""
    recorded = (FOLDER / "mariadb-spec_tree.json").read_text()
    assert '"r_rows": null' in recorded
    plan = recorded.replace('"<union2,3>"', '"never"')
    assert Access("never", None, loops=0, rows=0) in ENGINES["mariadb"].accesses(plan)


def test_an_engine_that_does_not_run_the_query_returns_nothing():
    assert ENGINES["oceanbase"].accesses('{"ID": 0}') == []


def test_a_mysql_that_cannot_run_an_explained_query_explains_it_without(monkeypatch):
    """MySQL before 8.3, the article's 8.0 among them, does not know the variable."""
    unknown = pymysql.err.OperationalError(
        1193, "Unknown system variable 'explain_json_format_version'"
    )
    connection = MagicMock(description=["EXPLAIN"])
    connection.__enter__.return_value = connection.cursor.return_value = connection
    connection.execute.side_effect = lambda sql, _: (
        sql.startswith("EXPLAIN FORMAT") or raised(unknown)
    )
    connection.fetchall.return_value = [{"EXPLAIN": '{"query_block": {"select_id": 1}}'}]
    server = ENGINES["mysql"](Mock(), Mock())
    monkeypatch.setattr(server, "_connect", lambda endpoint: connection)
    plan = server.explain("SELECT 1")
    assert plan == '{"query_block": {"select_id": 1}}'
    assert server.accesses(plan) == []


def raised(error: Exception) -> NoReturn:
    raise error
