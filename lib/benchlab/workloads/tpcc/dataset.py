"""What the tables of TPC-C hold at the start."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from benchlab.study.kinds import DatasetModel

#: The five types of transactions (clauses 2.4 to 2.8), in the standard's order.
TYPES = ("new_order", "payment", "order_status", "delivery", "stock_level")

#: Districts of a warehouse, and customers of a district, as many as its orders (clause 1.2.1).
DISTRICTS, CUSTOMERS = 10, 3000

#: Items of the whole catalogue, each of which every warehouse has a stock of (clause 1.2.1).
ITEMS = 100_000

#: The newest orders of a district, which are not delivered yet (clause 4.3.3.1; 4.3.1 prints 2,000 of
#: a warehouse, by mistake).
UNDELIVERED = 900

#: Order lines of an order on average (clause 4.3.3.1: 5 to 15, each as likely).
_LINES = 10


class Tpcc(DatasetModel):
    """Warehouses, populated as clause 4.3.3 has it."""

    drivers: ClassVar = ("tpcc",)
    scripts: ClassVar = TYPES

    kind: Literal["tpcc"] = "tpcc"
    warehouses: Annotated[int, Field(gt=0)]
    seed: Annotated[int, Field(ge=0)] = 1

    @property
    def rows(self) -> int:
        """Rows over all tables, order lines as many as are expected."""
        of_district = CUSTOMERS * (3 + _LINES) + UNDELIVERED  # customer, history, order, its lines
        return ITEMS + self.warehouses * (1 + DISTRICTS + ITEMS + DISTRICTS * of_district)


DATASET = Tpcc
