"""The twelve consistency conditions (clause 3.3.2), each as one query for the rows that break it.

The queries use only SQL that all engines have. A sum over no rows counts as 0: a customer without a
delivered order has to balance, too. Nothing may write while the queries run.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchlab.engines.base import Ask
from benchlab.errors import EngineError
from benchlab.observers.outcomes import UNDECIDED, Outcome
from benchlab.workloads.tpcc.population import STANDARD, Scale

#: Rows that are returned for a broken condition, at most.
LIMIT = 10

#: Number of the condition that holds in loaded tables until the first delivery.
AS_LOADED = 11

#: Name of the outcome for all conditions together.
ALL = "consistency conditions (3.3.2)"


@dataclass(frozen=True)
class Condition:
    """One of the conditions: its number, what it says, and the query for what breaks it."""

    number: int
    says: str
    query: str

    @property
    def clause(self) -> str:
        """Clause of the standard."""
        return f"3.3.2.{self.number}"


@dataclass(frozen=True)
class Violation:
    """A condition that does not hold, and the first rows that break it: keys, and what differs."""

    condition: Condition
    rows: list[dict[str, Any]]

    def __str__(self) -> str:
        first = ", ".join(f"{name} = {value}" for name, value in self.rows[0].items())
        several = "or more " if len(self.rows) == LIMIT else ""
        return (
            f"condition {self.condition.number} (clause {self.condition.clause},"
            f" {self.condition.says}) is broken by {len(self.rows)} {several}rows, the first:"
            f" {first}"
        )


@dataclass(frozen=True)
class Checked:
    """The result of one condition, and how long its query took."""

    condition: Condition
    violation: Violation | None
    seconds: float


def _sums(left: str, right: str) -> str:
    """Return a query for the groups in which the sums of two grouped queries differ.

    A group that only one query returns counts as 0 in the other; a join would miss it.

    Args:
        left: ``SELECT w_id, d_id, sum FROM …`` with these names.
        right: the same names.
    """
    return (
        "SELECT w_id, d_id, SUM(a) AS sum_a, SUM(b) AS sum_b FROM ("
        f"SELECT w_id, d_id, total AS a, 0 AS b FROM ({left}) AS l"
        f" UNION ALL SELECT w_id, d_id, 0 AS a, total AS b FROM ({right}) AS r"
        ") AS both_sums GROUP BY w_id, d_id HAVING SUM(a) <> SUM(b)"
    )


_BY_CUSTOMER = (
    "SELECT c_w_id AS w_id, c_d_id AS d_id, c_id, c_balance, c_ytd_payment,"
    " COALESCE(delivered, 0) AS delivered{also}"
    " FROM customer LEFT JOIN ("
    "SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS delivered FROM orders JOIN order_line"
    " ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
    " WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id"
    ") AS d ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id"
)

_PAID = (
    " LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history"
    " GROUP BY h_c_w_id, h_c_d_id, h_c_id"
    ") AS p ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id"
)


def conditions(scale: Scale = STANDARD) -> list[Condition]:
    """Return all twelve conditions, in the standard's order.

    Args:
        scale: cardinalities that the tables were loaded with.
    """
    return [
        Condition(
            1,
            "W_YTD = sum(D_YTD)",
            "SELECT w_id, w_ytd, COALESCE(total, 0) AS d_ytd FROM warehouse LEFT JOIN"
            " (SELECT d_w_id, SUM(d_ytd) AS total FROM district GROUP BY d_w_id) AS d"
            " ON d_w_id = w_id WHERE w_ytd <> COALESCE(total, 0)",
        ),
        Condition(
            2,
            "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
            "SELECT d_w_id AS w_id, d_id, d_next_o_id, max_o_id, max_no_o_id FROM ("
            "SELECT d_w_id, d_id, d_next_o_id,"
            " (SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS max_o_id,"
            " (SELECT MAX(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)"
            " AS max_no_o_id FROM district) AS d"
            # a district in which everything is delivered has no NEW-ORDER rows
            " WHERE d_next_o_id - 1 <> COALESCE(max_o_id, 0) OR d_next_o_id - 1 <> max_no_o_id",
        ),
        Condition(
            3,
            "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER",
            "SELECT no_w_id AS w_id, no_d_id AS d_id, MIN(no_o_id) AS min_no_o_id,"
            " MAX(no_o_id) AS max_no_o_id, COUNT(*) AS new_orders FROM new_order"
            " GROUP BY no_w_id, no_d_id HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)",
        ),
        Condition(
            4,
            "sum(O_OL_CNT) = rows of ORDER-LINE",
            _sums(
                "SELECT o_w_id AS w_id, o_d_id AS d_id, SUM(o_ol_cnt) AS total FROM orders"
                " GROUP BY o_w_id, o_d_id",
                "SELECT ol_w_id AS w_id, ol_d_id AS d_id, COUNT(*) AS total FROM order_line"
                " GROUP BY ol_w_id, ol_d_id",
            ),
        ),
        Condition(
            5,
            "O_CARRIER_ID is null where there is a row of NEW-ORDER, and only there",
            "SELECT o_w_id AS w_id, o_d_id AS d_id, o_id, o_carrier_id, no_o_id FROM orders"
            " LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id"
            " WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
        ),
        Condition(
            6,
            "O_OL_CNT = rows of ORDER-LINE, of each order",
            "SELECT o_w_id AS w_id, o_d_id AS d_id, o_id, o_ol_cnt, COALESCE(n, 0) AS lines_there"
            " FROM orders LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS n FROM order_line"
            " GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l"
            " ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
            " WHERE o_ol_cnt <> COALESCE(n, 0)",
        ),
        Condition(
            7,
            "OL_DELIVERY_D is null where the order's O_CARRIER_ID is, and only there",
            "SELECT ol_w_id AS w_id, ol_d_id AS d_id, ol_o_id, ol_number, ol_delivery_d,"
            " o_carrier_id FROM order_line JOIN orders"
            " ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id"
            " WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
        ),
        Condition(
            8,
            "W_YTD = sum(H_AMOUNT)",
            "SELECT w_id, w_ytd, COALESCE(total, 0) AS h_amount FROM warehouse LEFT JOIN"
            " (SELECT h_w_id, SUM(h_amount) AS total FROM history GROUP BY h_w_id) AS h"
            " ON h_w_id = w_id WHERE w_ytd <> COALESCE(total, 0)",
        ),
        Condition(
            9,
            "D_YTD = sum(H_AMOUNT)",
            "SELECT d_w_id AS w_id, d_id, d_ytd, COALESCE(total, 0) AS h_amount FROM district"
            " LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS total FROM history"
            " GROUP BY h_w_id, h_d_id) AS h ON h_w_id = d_w_id AND h_d_id = d_id"
            " WHERE d_ytd <> COALESCE(total, 0)",
        ),
        Condition(
            10,
            "C_BALANCE = sum(OL_AMOUNT) - sum(H_AMOUNT), of delivered orders",
            _BY_CUSTOMER.format(also=", COALESCE(paid, 0) AS paid")
            + _PAID
            + " WHERE c_balance <> COALESCE(delivered, 0) - COALESCE(paid, 0)",
        ),
        Condition(
            AS_LOADED,
            f"rows of ORDER - rows of NEW-ORDER = {scale.delivered:,}",
            "SELECT d_w_id AS w_id, d_id, COALESCE(o, 0) AS orders, COALESCE(n, 0) AS new_orders"
            " FROM district LEFT JOIN (SELECT o_w_id, o_d_id, COUNT(*) AS o FROM orders"
            " GROUP BY o_w_id, o_d_id) AS os ON o_w_id = d_w_id AND o_d_id = d_id"
            " LEFT JOIN (SELECT no_w_id, no_d_id, COUNT(*) AS n FROM new_order"
            " GROUP BY no_w_id, no_d_id) AS ns ON no_w_id = d_w_id AND no_d_id = d_id"
            f" WHERE COALESCE(o, 0) - COALESCE(n, 0) <> {scale.delivered}",
        ),
        Condition(
            12,
            "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT), of delivered orders",
            _BY_CUSTOMER.format(also="")
            + " WHERE c_balance + c_ytd_payment <> COALESCE(delivered, 0)",
        ),
    ]


def checked(
    ask: Ask, numbers: Iterable[int] = range(1, 13), scale: Scale = STANDARD
) -> Iterator[Checked]:
    """Check conditions by their numbers, and yield each as it is done.

    Args:
        ask: the server.
        numbers: numbers of the conditions.
        scale: cardinalities that the tables were loaded with.

    Raises:
        EngineError: the server refused a query.
    """
    all_ = {condition.number: condition for condition in conditions(scale)}
    for condition in (all_[number] for number in numbers):
        begin = time.monotonic()
        rows = ask(f"{condition.query} LIMIT {LIMIT}")
        violation = Violation(condition, rows) if rows else None
        yield Checked(condition, violation, time.monotonic() - begin)


def outcomes(ask: Ask, scale: Scale = STANDARD) -> Iterator[Outcome]:
    """Yield the outcome of each condition; transactions may have changed the tables since the load.

    Raises:
        EngineError: the server refused a query.
    """
    for one in checked(ask, scale=scale):
        yield _outcome(one)


def outcomes_after_a_load(ask: Ask, scale: Scale = STANDARD) -> Iterator[Outcome]:
    """Yield the outcome of each condition as :func:`outcomes` does, then one outcome for all.

    If the server refuses a query, its condition is undecided, and the outcome has the error message.

    Args:
        ask: the server; it may raise EngineError, and must still answer after that.
        scale: cardinalities that the tables were loaded with.
    """
    begin, undecided, broken = time.monotonic(), [], []
    for condition in conditions(scale):
        try:
            (one,) = checked(ask, [condition.number], scale)
        except EngineError as error:
            undecided.append(condition.number)
            yield Outcome(_named(condition), f"{UNDECIDED}: {error}")
            continue
        outcome = _outcome(one)
        if outcome.passed is False:
            broken.append(condition.number)
        yield replace(outcome, answer=f"{outcome.answer}, {one.seconds:.2f} s")
    took = f"{time.monotonic() - begin:.1f} s"
    if broken:
        yield Outcome(ALL, f"broken: {', '.join(map(str, broken))}; {took}", False)
    elif undecided:
        yield Outcome(ALL, f"{UNDECIDED}: {', '.join(map(str, undecided))}; {took}")
    else:
        yield Outcome(ALL, f"hold, condition {AS_LOADED} until the first delivery; {took}", True)


def _outcome(one: Checked) -> Outcome:
    if one.violation is None:
        return Outcome(_named(one.condition), "holds", True)
    if one.condition.number == AS_LOADED:
        return Outcome(_named(one.condition), "as loaded only, and orders were delivered since")
    return Outcome(_named(one.condition), str(one.violation), False)


def _named(condition: Condition) -> str:
    return f"condition {condition.number} ({condition.clause}): {condition.says}"
