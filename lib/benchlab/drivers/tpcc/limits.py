"""The numbers that the standard holds a run to (TPC-C 5.11)."""

from benchlab.workloads.tpcc.dataset import CUSTOMERS, DISTRICTS, ITEMS, TYPES, UNDELIVERED

#: Type of a transaction → its name in the standard.
NAMES = dict(
    zip(TYPES, ("New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"), strict=True)
)

#: Least keying time and least mean think time in s, and what 90 % of the response times are below,
#: in s, of each type (clause 5.2.5.7).
KEYING = dict(zip(TYPES, (18, 3, 2, 2, 2), strict=True))
THINK = dict(zip(TYPES, (12, 12, 10, 5, 5), strict=True))
RESPONSE = dict(zip(TYPES, (5, 5, 5, 5, 20), strict=True))

#: What a browser takes to show a screen (clause 6.6.3.7), in s.
SHOWN = 0.1

#: Least share of the mix (clause 5.2.3); New-Order has what the others leave.
MIX = {"payment": 0.43, "order_status": 0.04, "delivery": 0.04, "stock_level": 0.04}

#: What 90 % of the menus are answered within, and of the deferred parts of Deliveries are done within
#: (clause 5.2.5), in s.
MENU, DEFERRED = 2, 80

#: tpmC of a warehouse (clause 4.1.3).
PER_WAREHOUSE = (9, 12.86)

#: Of cumulative throughput at most (clause 5.5).
VARIATION = 0.02

#: Minutes that the interval lasts at least, and that checkpoints are apart at most; how many begin and
#: end in the interval at least (clause 5.5.2).
INTERVAL, CHECKPOINT, CHECKPOINTS_INSIDE = 120, 30, 4

#: What 99 % of the sends are late by less than, in ms. A rule of ours: it is an emulator that is later,
#: and not the system under test, that shapes the load.
LATE = 10

#: Order lines of an order, each number of them as likely (clause 2.4.1.3).
LINES = range(5, 16)


def cardinalities(warehouses: int) -> dict[str, tuple[float, float]]:
    """Return of each table how many rows it has at least and at most before a run (clause 4.3.3).

    Those of orders and what belongs to them may be off by 1 % (clause 4.2.2).
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
