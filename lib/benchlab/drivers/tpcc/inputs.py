"""The random input of each transaction, which terminals enter (clauses 2.4.1 to 2.8.1).

A run is repeatable terminal by terminal: what a terminal enters in its n-th cycle follows from the
seed, the terminal's number, n and the type. It does not depend on the other terminals, nor on how
terminals are shared out among processes. A :class:`random.Random` of each terminal would take
2.5 KB. If all terminals of a process drew from one sequence, the order of the answers would
decide what each terminal draws. So a process has one generator, which is seeded again for each cycle
(:meth:`Draws.of`). Seeding takes 5 µs, and a terminal keeps only the number of its cycles.
"""

from decimal import Decimal
from random import Random

import msgspec

from benchlab.workloads.tpcc.dataset import CUSTOMERS, DISTRICTS, ITEMS
from benchlab.workloads.tpcc.rules import (
    C_ID_A,
    C_LAST_A,
    LAST_NAMES,
    OL_I_ID_A,
    Constants,
    last_name,
    nurand_int,
)
from benchlab.workloads.tpcc.transactions.contract import (
    Delivery,
    NewOrder,
    OrderedItem,
    OrderStatus,
    Payment,
    Request,
    StockLevel,
)

#: Item that does not exist, for the New-Orders that are to roll back (clause 2.4.1.5).
UNUSED_ITEM = ITEMS + 1

#: Least and greatest number of lines of an order (clause 2.4.1.3), and quantity of a line (2.4.1.5).
LINES, QUANTITIES = (5, 15), (1, 10)

#: Shares of New-Orders that roll back (clause 2.4.1.4), of order lines from another warehouse
#: (2.4.1.5), of Payments by customers of another warehouse (2.5.1.2), and of customers that are named
#: by last name (2.5.1.2, 2.6.1.2).
ROLLED_BACK, REMOTE_LINES, REMOTE_PAYMENTS, BY_NAME = 0.01, 0.01, 0.15, 0.6

#: Least and greatest amount of a payment, in cents (clause 2.5.1.3).
AMOUNTS = (100, 500_000)

CARRIERS = (1, 10)  # clause 2.7.1.2
THRESHOLDS = (10, 20)  # clause 2.8.1.2


class Traits(msgspec.Struct, frozen=True, gc=False):
    """What is kept of an input; ``None`` if the type of transaction has no such value."""

    rolled_back: bool = False
    """Whether the transaction is to roll back."""
    lines: int | None = None
    remote_lines: int | None = None
    remote: bool | None = None
    by_name: bool | None = None


class Draws:
    """The random numbers of all terminals of a process."""

    def __init__(self, seed: int):
        self._seed = seed
        self._random = Random()

    def of(self, terminal: int, cycle: int) -> Random:
        """Return the random numbers of a terminal's cycle; they are valid until the next call."""
        self._random.seed((self._seed << 32 | terminal) << 32 | cycle)
        return self._random


class Inputs:
    """Draws inputs.

    Args:
        constants: C-Run of NURand.
        warehouses: number of warehouses of the whole database.
    """

    def __init__(self, constants: Constants, warehouses: int):
        self._constants = constants
        self._warehouses = warehouses
        self._draw = (
            self._new_order,
            self._payment,
            self._order_status,
            self._delivery,
            self._stock_level,
        )

    def draw(self, number: int, random: Random, w_id: int, d_id: int) -> tuple[Request, Traits]:
        """Return the input of a transaction.

        Args:
            number: index of its type in :data:`TYPES`.
            random: generator to draw from.
            w_id: home warehouse of the terminal.
            d_id: district of the terminal's Stock-Levels.
        """
        return self._draw[number](random, w_id, d_id)

    def _new_order(self, random: Random, w_id: int, d_id: int) -> tuple[NewOrder, Traits]:
        del d_id  # only Stock-Levels use it
        district = _uniform(random, 1, DISTRICTS)
        customer = self._customer(random)
        rolled_back = random.random() < ROLLED_BACK
        lines, remote_lines = [], 0
        for _ in range(_uniform(random, *LINES)):
            item = nurand_int(random, OL_I_ID_A, 1, ITEMS, self._constants.ol_i_id)
            supplier = self._other(random, w_id) if random.random() < REMOTE_LINES else w_id
            remote_lines += supplier != w_id
            lines.append(OrderedItem(item, supplier, _uniform(random, *QUANTITIES)))
        if rolled_back:
            last = lines[-1]
            lines[-1] = OrderedItem(UNUSED_ITEM, last.supply_w_id, last.quantity)
        request = NewOrder(w_id=w_id, d_id=district, c_id=customer, lines=lines)
        return request, Traits(rolled_back, lines=len(lines), remote_lines=remote_lines)

    def _payment(self, random: Random, w_id: int, d_id: int) -> tuple[Payment, Traits]:
        del d_id  # only Stock-Levels use it
        district = _uniform(random, 1, DISTRICTS)
        customer_w_id, customer_d_id = w_id, district
        if random.random() < REMOTE_PAYMENTS:
            customer_w_id = self._other(random, w_id)
            customer_d_id = _uniform(random, 1, DISTRICTS)
        customer_id, customer_last = self._customer_by_either(random)
        request = Payment(
            w_id=w_id,
            d_id=district,
            c_w_id=customer_w_id,
            c_d_id=customer_d_id,
            h_amount=Decimal(_uniform(random, *AMOUNTS)).scaleb(-2),
            c_id=customer_id,
            c_last=customer_last,
        )
        return request, Traits(remote=customer_w_id != w_id, by_name=customer_last is not None)

    def _order_status(self, random: Random, w_id: int, d_id: int) -> tuple[OrderStatus, Traits]:
        del d_id  # only Stock-Levels use it
        district = _uniform(random, 1, DISTRICTS)
        customer_id, customer_last = self._customer_by_either(random)
        request = OrderStatus(w_id=w_id, d_id=district, c_id=customer_id, c_last=customer_last)
        return request, Traits(by_name=customer_last is not None)

    def _delivery(self, random: Random, w_id: int, d_id: int) -> tuple[Delivery, Traits]:
        del d_id  # only Stock-Levels use it
        return Delivery(w_id=w_id, o_carrier_id=_uniform(random, *CARRIERS)), Traits()

    def _stock_level(self, random: Random, w_id: int, d_id: int) -> tuple[StockLevel, Traits]:
        request = StockLevel(w_id=w_id, d_id=d_id, threshold=_uniform(random, *THRESHOLDS))
        return request, Traits()

    def _customer(self, random: Random) -> int:
        return nurand_int(random, C_ID_A, 1, CUSTOMERS, self._constants.c_id)

    def _customer_by_either(self, random: Random) -> tuple[int | None, str | None]:
        """Return a customer's number or last name."""
        if random.random() >= BY_NAME:
            return self._customer(random), None
        number = nurand_int(random, C_LAST_A, 0, LAST_NAMES - 1, self._constants.c_last)
        return None, last_name(number)

    def _other(self, random: Random, w_id: int) -> int:
        """Return another warehouse, all equally likely; the same one if it is the only one.

        Clauses 2.4.1.5 and 2.5.1.2.
        """
        if self._warehouses == 1:
            return w_id
        other = _uniform(random, 1, self._warehouses - 1)
        return other + (other >= w_id)


def _uniform(random: Random, low: int, high: int) -> int:
    # a sixth of the time of randint(), whose exactness in the last bits does not matter at such sizes
    return low + int(random.random() * (high - low + 1))
