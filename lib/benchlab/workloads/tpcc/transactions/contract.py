"""The requests of a terminal and the answers to them, for each of the five transactions.

The fields are those of the input and output screens (TPC-C 5.11, clauses 2.4 to 2.8), under the
names of the columns that they come from. Amounts of money are decimal numbers, so that no cent is lost
on the way; times are UTC.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

import msgspec

#: Called right before a transaction commits or rolls back, while it holds all its locks.
Hook = Callable[[], Awaitable[None]]

#: Text that a terminal shows if a New-Order names an item that does not exist (clause 2.4.3.4).
INVALID_ITEM = "Item number is not valid"


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request that a terminal sends. Subclasses name the type of their transaction."""

    type: ClassVar[str]

    w_id: int


class OrderedItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a New-Order (clause 2.4.1.5)."""

    i_id: int
    supply_w_id: int
    quantity: int


class NewOrder(Request, frozen=True):
    """An order of a customer (clause 2.4)."""

    type = "new_order"

    d_id: int
    c_id: int
    lines: list[OrderedItem]


class Payment(Request, frozen=True):
    """A payment of a customer, who is given by number or by last name (clause 2.5)."""

    type = "payment"

    d_id: int
    c_w_id: int
    c_d_id: int
    h_amount: Decimal
    c_id: int | None = None
    c_last: str | None = None


class OrderStatus(Request, frozen=True):
    """Question for the status of a customer's last order (clause 2.6)."""

    type = "order_status"

    d_id: int
    c_id: int | None = None
    c_last: str | None = None


class Delivery(Request, frozen=True):
    """Delivery of the oldest open order of each district (clause 2.7)."""

    type = "delivery"

    o_carrier_id: int


class StockLevel(Request, frozen=True):
    """Question for how many recently sold items are low in stock (clause 2.8)."""

    type = "stock_level"

    d_id: int
    threshold: int


class PricedItem(msgspec.Struct):
    """One line of an order that was taken (clause 2.4.3.3)."""

    i_name: str
    s_quantity: int
    brand_generic: str
    i_price: Decimal
    ol_amount: Decimal


class OrderTaken(msgspec.Struct):
    """Answer to a :class:`NewOrder`.

    An order with an unknown item is rolled back. Its answer has only the customer and the number of
    the order (clause 2.4.3.4).
    """

    o_id: int
    c_last: str
    c_credit: str
    rolled_back: bool = False
    o_entry_d: datetime | None = None
    c_discount: Decimal | None = None
    w_tax: Decimal | None = None
    d_tax: Decimal | None = None
    total_amount: Decimal | None = None
    lines: list[PricedItem] = []


class Address(msgspec.Struct):
    """Address of a warehouse, a district or a customer."""

    street_1: str
    street_2: str
    city: str
    state: str
    zip: str


class PaymentTaken(msgspec.Struct):
    """Answer to a :class:`Payment` (clause 2.5.3.3)."""

    warehouse: Address
    district: Address
    customer: Address
    c_id: int
    c_first: str
    c_middle: str
    c_last: str
    c_phone: str
    c_since: datetime
    c_credit: str
    c_credit_lim: Decimal
    c_discount: Decimal
    c_balance: Decimal
    h_date: datetime
    c_data: str | None = None
    """First 200 characters; only for a customer with bad credit."""


class OrderedLine(msgspec.Struct):
    """One line of an order (clause 2.6.3.3)."""

    ol_i_id: int
    ol_supply_w_id: int
    ol_quantity: int
    ol_amount: Decimal
    ol_delivery_d: datetime | None


class StatusOfOrder(msgspec.Struct):
    """Answer to an :class:`OrderStatus` (clause 2.6.3.3)."""

    c_id: int
    c_first: str
    c_middle: str
    c_last: str
    c_balance: Decimal
    o_id: int
    o_entry_d: datetime
    o_carrier_id: int | None
    lines: list[OrderedLine]


class Delivered(msgspec.Struct):
    """What a :class:`Delivery` did: district → number of the order that was delivered there.

    A district without an open order is skipped and is not in it (clause 2.7.4.2).
    """

    orders: dict[int, int]


class LowStock(msgspec.Struct):
    """Answer to a :class:`StockLevel` (clause 2.8.3.3)."""

    low_stock: int


Answer = OrderTaken | PaymentTaken | StatusOfOrder | Delivered | LowStock

#: Type of a transaction → its request.
REQUESTS: dict[str, type[Request]] = {
    one.type: one for one in (NewOrder, Payment, OrderStatus, Delivery, StockLevel)
}
