"""TPC-C's consistency conditions and the checks of its population, on generated tables in DuckDB.

The same queries are held against real servers in test_tpcc_load.py.
"""

import re
from collections.abc import Iterable, Iterator

import duckdb
import pytest
from benchlab.engines.base import Ask
from benchlab.errors import EngineError
from benchlab.workloads.tpcc import conditions, population, verify
from benchlab.workloads.tpcc.dataset import Tpcc
from benchlab.workloads.tpcc.population import STANDARD, Scale
from benchlab.workloads.tpcc.rules import Constants
from test_tpcc_population import C_LAST, NOON

TINY = Scale(items=60, districts=3, customers=20, undelivered=6)
DATASET = Tpcc(warehouses=2, seed=5)
C_LOAD = Constants(C_LAST, 0, 0)


def asking(connection: duckdb.DuckDBPyConnection) -> Ask:
    def ask(sql: str, parameters: tuple = ()) -> list[dict]:
        found = connection.execute(sql, parameters or None)
        names = [one[0] for one in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    return ask


def filled(scale: Scale, dataset: Tpcc = DATASET) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    item = population.items(dataset.seed, scale)
    connection.register("rows_", item)
    connection.execute("CREATE TABLE item AS FROM rows_")
    for w_id in range(1, dataset.warehouses + 1):
        for table, rows in population.warehouse(dataset.seed, w_id, C_LAST, NOON, scale):
            connection.register("rows_", rows)
            if w_id == 1:
                connection.execute(f"CREATE TABLE {table} AS FROM rows_ LIMIT 0")
            connection.execute(f"INSERT INTO {table} FROM rows_")
    return connection


@pytest.fixture
def ask() -> Iterator[Ask]:
    with filled(TINY) as connection:
        yield asking(connection)


def violations(
    ask: Ask, numbers: Iterable[int] = range(1, 13), scale: Scale = STANDARD
) -> list[conditions.Violation]:
    """Conditions that do not hold."""
    found = conditions.checked(ask, numbers, scale)
    return [one.violation for one in found if one.violation]


def broken(ask: Ask) -> dict[int, list[dict]]:
    """Number of each condition that does not hold → rows that break it."""
    return {one.condition.number: one.rows for one in violations(ask, scale=TINY)}


def test_all_conditions_hold_as_loaded(ask):
    found = list(conditions.checked(ask, scale=TINY))
    assert [one.condition.number for one in found] == list(range(1, 13))
    assert [one.condition.clause for one in found][::11] == ["3.3.2.1", "3.3.2.12"]
    assert all(one.violation is None for one in found)
    assert all(one.seconds >= 0 for one in found)
    assert violations(ask, scale=TINY) == []


#: What is done to the tables → conditions that are broken by it, each with a key of the first row.
BREAKS: dict[str, dict[int, dict]] = {
    "UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 2": {1: {"w_id": 2}, 8: {"w_id": 2}},
    "UPDATE district SET d_ytd = d_ytd - 0.01 WHERE d_w_id = 1 AND d_id = 2": {
        1: {"w_id": 1},
        9: {"w_id": 1, "d_id": 2},
    },
    "UPDATE district SET d_next_o_id = 22 WHERE d_w_id = 1 AND d_id = 2": {2: {"d_id": 2}},
    # the newest order is lost, but its lines are not
    "DELETE FROM orders WHERE o_w_id = 1 AND o_d_id = 2 AND o_id = 20": {
        2: {"max_o_id": 19, "max_no_o_id": 20},
        4: {"w_id": 1, "d_id": 2},
        11: {"orders": 19, "new_orders": 6},
    },
    "DELETE FROM new_order WHERE no_w_id = 2 AND no_d_id = 1 AND no_o_id = 16": {
        3: {"w_id": 2, "d_id": 1, "new_orders": 5},
        5: {"o_id": 16, "no_o_id": None},
        11: {"new_orders": 5},
    },
    "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 3 AND ol_o_id = 18 AND ol_number = 1": {
        4: {"w_id": 2, "d_id": 3},
        6: {"w_id": 2, "d_id": 3, "o_id": 18},
    },
    "UPDATE orders SET o_carrier_id = 3 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 17": {
        5: {"o_id": 17, "o_carrier_id": 3},
        7: {"ol_o_id": 17, "ol_delivery_d": None},
    },
    "UPDATE order_line SET ol_delivery_d = NULL"
    " WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 2 AND ol_number = 2": {
        7: {"ol_o_id": 2, "ol_number": 2}
    },
    "DELETE FROM history WHERE h_w_id = 1 AND h_d_id = 3 AND h_c_id = 4": {
        8: {"w_id": 1},
        9: {"w_id": 1, "d_id": 3},
        10: {"w_id": 1, "d_id": 3, "c_id": 4, "paid": 0},
    },
    "UPDATE customer SET c_balance = 0 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 4": {
        10: {"c_id": 4},
        12: {"c_id": 4},
    },
    "UPDATE customer SET c_ytd_payment = 9 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 4": {
        12: {"c_id": 4}
    },
    # a customer who was never delivered anything has to balance, too
    "UPDATE customer SET c_balance = -11 FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 20"
    " AND c_w_id = 1 AND c_d_id = 1 AND c_id = o_c_id": {
        10: {"delivered": 0},
        12: {"delivered": 0},
    },
    # delivered lines count, and only they
    "UPDATE order_line SET ol_amount = 1"
    " WHERE ol_w_id = 2 AND ol_d_id = 2 AND ol_o_id = 1 AND ol_number = 1": {
        10: {"w_id": 2, "d_id": 2, "delivered": 1},
        12: {"w_id": 2, "d_id": 2, "delivered": 1},
    },
    "UPDATE order_line SET ol_amount = 1"
    " WHERE ol_w_id = 2 AND ol_d_id = 2 AND ol_o_id = 20 AND ol_number = 1": {},
}


@pytest.mark.parametrize("change", BREAKS)
def test_what_breaks_a_condition_is_found_with_its_key(ask, change):
    ask(change)
    found = broken(ask)
    assert found.keys() == BREAKS[change].keys()
    for number, key in BREAKS[change].items():
        row = found[number][0]
        assert row | key == row


def test_a_whole_district_without_new_orders_breaks_nothing_but_what_holds_as_loaded(ask):
    """As after as many deliveries as there were orders."""
    where = "w_id = 1 AND {}_d_id = 2"
    ask(f"DELETE FROM new_order WHERE no_{where.format('no')}")
    ask(f"UPDATE orders SET o_carrier_id = 1 WHERE o_{where.format('o')}")
    ask(f"UPDATE order_line SET ol_delivery_d = now() WHERE ol_{where.format('ol')}")
    ask(
        "UPDATE customer SET c_balance = delivered - 10 FROM (SELECT o_c_id, SUM(ol_amount) AS"
        " delivered FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id"
        " AND ol_o_id = o_id WHERE o_w_id = 1 AND o_d_id = 2 GROUP BY o_c_id) AS d"
        " WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = o_c_id"
    )
    assert broken(ask).keys() == {conditions.AS_LOADED}
    others = [number for number in range(1, 13) if number != conditions.AS_LOADED]
    assert violations(ask, others, TINY) == []
    outcomes = list(conditions.outcomes(ask, TINY))
    assert [one.passed for one in outcomes] == [True] * 10 + [None, True]


def test_an_outcome_names_condition_clause_and_the_first_row(ask):
    ask("UPDATE district SET d_ytd = d_ytd + 1")
    outcomes = list(conditions.outcomes(ask, TINY))
    failed = [one for one in outcomes if not one.passed]
    assert [one.check.partition(":")[0] for one in failed] == [
        "condition 1 (3.3.2.1)",
        "condition 9 (3.3.2.9)",
    ]
    assert "is broken by 2 rows, the first: w_id = " in failed[0].answer


def test_after_a_load_conditions_are_told_with_their_time_and_in_one(ask):
    *each, of_all = conditions.outcomes_after_a_load(ask, TINY)
    assert [one.passed for one in each] == [True] * 12
    assert all(re.fullmatch(r"holds, \d+\.\d\d s", one.answer) for one in each)
    assert (of_all.check, of_all.passed) == (conditions.ALL, True)
    assert of_all.answer.startswith("hold, condition 11 until the first delivery; ")
    ask("UPDATE district SET d_ytd = d_ytd + 1")
    *_, of_all = conditions.outcomes_after_a_load(ask, TINY)
    assert (of_all.passed, of_all.answer.partition(";")[0]) == (False, "broken: 1, 9")


def test_a_query_that_the_server_refuses_leaves_its_condition_undecided(ask):
    def refusing(sql: str, parameters: tuple = ()) -> list[dict]:
        if "FROM history" in sql:
            raise EngineError("oceanbase: Timeout")
        return ask(sql, parameters)

    *each, of_all = conditions.outcomes_after_a_load(refusing, TINY)
    assert [number for number, one in enumerate(each, 1) if one.passed is None] == [8, 9, 10]
    assert each[7].answer == "undecided: oceanbase: Timeout"
    assert (of_all.passed, of_all.answer.partition(";")[0]) == (None, "undecided: 8, 9, 10")


def test_many_violations_are_cut(ask):
    ask("UPDATE customer SET c_balance = 1000")
    (violation,) = violations(ask, [10], TINY)
    assert len(violation.rows) == conditions.LIMIT
    assert "by 10 or more rows" in str(violation)


# The population


def failed(ask: Ask, scale: Scale = TINY, dataset: Tpcc = DATASET) -> dict[str, str]:
    """Check that failed → its answer."""
    found = list(verify.outcomes(ask, dataset, C_LOAD, scale))
    assert len({one.check for one in found}) == len(found)
    return {one.check: one.answer for one in found if not one.passed}


def test_a_population_passes_all_its_checks(ask):
    assert failed(ask) == {}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ("DELETE FROM stock WHERE s_w_id = 2 AND s_i_id = 7", "rows of stock"),
        ("DELETE FROM orders WHERE o_w_id = 2", "rows of orders"),
        ("INSERT INTO item FROM item LIMIT 1", "rows of item"),
        ("DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id > 1", "rows of order_line"),
        ("UPDATE warehouse SET w_ytd = 1", "W_YTD is what was paid"),
        ("UPDATE district SET d_tax = 0.21", "W_TAX and D_TAX"),
        ("UPDATE district SET d_next_o_id = 1", "D_YTD is what was paid, D_NEXT_O_ID"),
        ("UPDATE customer SET c_delivery_cnt = 1", "customers owe what they paid"),
        ("UPDATE customer SET c_zip = '123456789'", "ZIP codes"),
        ("UPDATE history SET h_d_id = 1", "a payment is 10.00 and one's own"),
        ("UPDATE orders SET o_carrier_id = 1", "orders up to the newest have a carrier"),
        ("UPDATE new_order SET no_o_id = 1", "new orders are the newest"),
        ("UPDATE order_line SET ol_amount = 1", "order lines are delivered when"),
        ("UPDATE order_line SET ol_supply_w_id = 2", "order lines are of 5 pieces"),
        ("UPDATE stock SET s_ytd = 5 WHERE s_i_id = 3", "stock has not moved"),
        ("UPDATE orders SET o_c_id = 1 WHERE o_id = 9", "every customer has one order"),
        ("UPDATE item SET i_data = 'ORIGINAL' WHERE i_id < 30", "I_DATA with ORIGINAL"),
        ("UPDATE customer SET c_credit = 'BC'", "customers with bad credit"),
        ("UPDATE stock SET s_quantity = 10", "S_QUANTITY"),
        ("UPDATE stock SET s_quantity = 101 WHERE s_i_id = 1", "S_QUANTITY"),
        ("UPDATE orders SET o_ol_cnt = 5", "O_OL_CNT"),
    ],
)
def test_what_the_standard_does_not_have_is_found(ask, change, check):
    ask(change)
    assert any(name.startswith(check) for name in failed(ask))


@pytest.fixture(scope="module")
def standard() -> Iterator[Ask]:
    with filled(STANDARD, Tpcc(warehouses=1)) as connection:
        yield asking(connection)


def test_a_warehouse_of_the_standards_size_passes(standard):
    assert failed(standard, STANDARD, Tpcc(warehouses=1)) == {}
    assert violations(standard) == []


@pytest.mark.parametrize(
    ("column", "value", "check"),
    [
        # as some loaders do: always the same length, names drawn uniformly, items not uniformly
        ("customer.c_data", "repeat('a', 400)", "length of C_DATA"),
        ("customer.c_last", "c_last_of_another", "C_LAST"),
        ("order_line.ol_i_id", "(ol_i_id | 1)", "OL_I_ID"),
        ("order_line.ol_amount", "ol_amount / 2", "OL_AMOUNT"),
    ],
)
def test_other_distributions_are_told_from_the_standards(standard, column, value, check):
    table, _, name = column.partition(".")
    if value == "c_last_of_another":
        other = Constants((C_LAST + 100) % 256, 0, 0)
        found = list(verify.outcomes(standard, Tpcc(warehouses=1), other))
    else:
        standard("BEGIN")
        try:
            standard(f"UPDATE {table} SET {name} = {value}")
            found = list(verify.outcomes(standard, Tpcc(warehouses=1), C_LOAD))
        finally:
            standard("ROLLBACK")
    assert [one.check.startswith(check) for one in found if not one.passed] == [True]
