"""What the tables of TPC-C hold at the start."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from benchlab.study.kinds import DatasetModel

#: The five types of transactions (clauses 2.4 to 2.8), in the standard's order.
TYPES = ("new_order", "payment", "order_status", "delivery", "stock_level")

#: Districts of a warehouse; customers of a district, which has as many orders (clause 1.2.1).
DISTRICTS, CUSTOMERS = 10, 3000

#: Items of the whole catalogue; every warehouse has a stock of each (clause 1.2.1).
ITEMS = 100_000

#: Number of the newest orders of a district, which are not delivered yet (clause 4.3.3.1; 4.3.1 prints
#: 2,000 for a warehouse, by mistake).
UNDELIVERED = 900

#: Order lines of an order on average (clause 4.3.3.1: 5 to 15, all equally likely).
_LINES = 10


class Tpcc(DatasetModel):
    """Warehouses, populated as clause 4.3.3 requires."""

    drivers: ClassVar = ("tpcc",)
    scripts: ClassVar = TYPES

    kind: Literal["tpcc"] = "tpcc"
    warehouses: Annotated[int, Field(gt=0)]
    seed: Annotated[int, Field(ge=0)] = 1

    @property
    def rows(self) -> int:
        """Rows of all tables, with the expected number of order lines."""
        of_district = CUSTOMERS * (3 + _LINES) + UNDELIVERED  # customer, history, order, its lines
        return ITEMS + self.warehouses * (1 + DISTRICTS + ITEMS + DISTRICTS * of_district)


DATASET = Tpcc
