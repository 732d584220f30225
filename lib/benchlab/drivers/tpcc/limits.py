"""The limits that the standard sets for a run (TPC-C 5.11), and names of its rules."""

from benchlab.workloads.tpcc.dataset import CUSTOMERS, DISTRICTS, ITEMS, TYPES, UNDELIVERED

#: Type of a transaction → its name in the standard.
NAMES = dict(
    zip(TYPES, ("New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"), strict=True)
)

#: For each type, in s: the least keying time, the least mean think time, and the limit that 90 % of
#: the response times are below (clause 5.2.5.7).
KEYING = dict(zip(TYPES, (18, 3, 2, 2, 2), strict=True))
THINK = dict(zip(TYPES, (12, 12, 10, 5, 5), strict=True))
RESPONSE = dict(zip(TYPES, (5, 5, 5, 5, 20), strict=True))

#: Time that a browser takes to show a screen (clause 6.6.3.7), in s.
SHOWN = 0.1

#: Least share of the mix (clause 5.2.3); New-Order has the rest.
MIX = {"payment": 0.43, "order_status": 0.04, "delivery": 0.04, "stock_level": 0.04}

#: Time within which 90 % of the menus are answered, and within which 90 % of the deferred parts of
#: Deliveries are done (clause 5.2.5), in s.
MENU, DEFERRED = 2, 80

#: Terminals of a warehouse (clause 4.2.2); each has its own district for its Stock-Levels (clause
#: 2.8.1.1).
TERMINALS = DISTRICTS

#: Least and greatest tpmC of a warehouse (clause 4.1.3).
PER_WAREHOUSE = (9, 12.86)

#: Greatest cumulative variation of throughput, as a share (clause 5.5).
VARIATION = 0.02

#: Least length of the interval and greatest time between checkpoints, in minutes; least number of
#: checkpoints that begin and end in the interval (clause 5.5.2).
INTERVAL, CHECKPOINT, CHECKPOINTS_INSIDE = 120, 30, 4

#: 99 % of the sends are late by less than this, in ms. This rule is ours: if the emulator is later, it
#: shapes the load, and not the system under test.
LATE = 10

#: Names of rules whose rows are looked up. That about late sends begins with ``LATENESS``.
LATENESS = "send, later than due by"
THROUGHPUT = "throughput of a warehouse"
DEFERRED_PART = "Delivery, deferred part"
ROLLED_BACK = "New-Orders rolled back"
UNANSWERED = "transactions refused, in error or lost"
SKIPPED = "Deliveries that skipped a district"
NOT_DONE = "Deliveries acknowledged and not done"

#: Numbers of order lines of an order, all equally likely (clause 2.4.1.3).
LINES = range(5, 16)


def percentile(of: str, percent: int = 90) -> str:
    """Return the name of the rule about a percentile, such as that of a type's response times."""
    return f"{of}, {percent}th percentile"


def response(name: str) -> str:
    """Return what the rules about the response times of a type are about, by the type's name."""
    return f"{name}, response time"


def cardinalities(warehouses: int) -> dict[str, tuple[float, float]]:
    """Return the least and greatest number of rows of each table before a run (clause 4.3.3).

    The tables of orders, undelivered orders and order lines may be off by 1 % (clause 4.2.2).
    """
    customers = DISTRICTS * CUSTOMERS * warehouses
    exact = {
        "warehouse": warehouses,
        "district": DISTRICTS * warehouses,
        "customer": customers,
        "history": customers,
        "stock": ITEMS * warehouses,
        "item": ITEMS,
    }
    around = {
        "orders": customers,
        "new_order": DISTRICTS * UNDELIVERED * warehouses,
        "order_line": customers * sum(LINES) // len(LINES),
    }
    return {table: (rows, rows) for table, rows in exact.items()} | {
        table: (rows * 99 / 100, rows * 101 / 100) for table, rows in around.items()
    }
