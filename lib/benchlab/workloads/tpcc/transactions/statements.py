"""The five transactions as client SQL: a round trip for each statement.

The SQL is generic; an engine overrides the parts for which it has a better statement.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import partial

from benchlab.workloads.tpcc.dataset import DISTRICTS
from benchlab.workloads.tpcc.transactions.base import (
    ConnectionT,
    Line,
    Row,
    Transactions,
    rounds,
    utc_now,
)
from benchlab.workloads.tpcc.transactions.contract import (
    Address,
    Delivered,
    Delivery,
    Hook,
    LowStock,
    NewOrder,
    OrderedLine,
    OrderStatus,
    OrderTaken,
    Payment,
    PaymentTaken,
    PricedItem,
    StatusOfOrder,
    StockLevel,
)

#: Word in both I_DATA and S_DATA of an item whose brand is shown as B, not G (clause 2.4.2.2).
_ORIGINAL = "ORIGINAL"

_CENT = Decimal("0.01")

#: How many of a district's last orders Stock-Level looks at (clause 2.8.2.2).
ORDERS_LOOKED_AT = 20

ITEM = "i_name, i_price, i_data"

ORDER_LINE = (
    "ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity,"
    " ol_amount, ol_dist_info"
)


@dataclass(frozen=True)
class Options:
    """How client SQL is written. The default is what a careful program does.

    The article credits a part of its throughput to each option.
    """

    batched: bool = True
    """Whether each step is one statement for all lines of an order, or one for each line."""
    prepared: bool = True
    """Whether statements are parsed once per connection, or each time they run."""
    joined: bool = False
    """Whether the statement that takes from the stock also reads the item, if an engine can do both at
    once: the article's updatable view."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What an order line reads: columns :data:`ITEM`, then :func:`stock`."""

    i_name: str
    i_price: Decimal
    i_data: str
    s_quantity: int
    s_data: str
    dist_info: str


def stock(d_id: int) -> str:
    """Return the columns of stock that an order of a district reads (clause 2.4.2.2)."""
    return f"s_quantity, s_data, s_dist_{d_id:02d}"


def less(quantity: str, remote: str) -> str:
    """Return the changes of a stock row by an order line (clause 2.4.2.2); both arguments are SQL.

    ``quantity`` occurs three times in it, and then ``remote`` once.
    """
    return (
        f"s_quantity = s_quantity - {quantity}"
        f" + CASE WHEN s_quantity >= {quantity} + 10 THEN 0 ELSE 91 END,"
        f" s_ytd = s_ytd + {quantity}, s_order_cnt = s_order_cnt + 1,"
        f" s_remote_cnt = s_remote_cnt + {remote}"
    )


#: The same for one row, with its values as parameters.
LESS = less("%s", "%s")


def line_values(line: Line) -> Row:
    """Return the values of :data:`LESS` for a line."""
    return (line.quantity, line.quantity, line.quantity, line.remote)


def matching(key: Mapping[str, int]) -> str:
    """Return the condition that a row has a key, with the key's values as parameters."""
    return " AND ".join(f"{column} = %s" for column in key)


class Statements(Transactions[ConnectionT]):
    """See :class:`~benchlab.workloads.tpcc.transactions.base.Transactions`.

    All transactions lock rows in the same order, so that deadlocks are rare: district, customer,
    warehouse, then stock by key. The warehouse comes late: most transactions want its row, so it should
    be locked for the shortest time.
    """

    #: Hint to the planner in the query of Stock-Level, most engines need none.
    _low_stock_hint = ""

    def __init__(self, options: Options):
        self.options = options

    async def new_order(
        self, connection: ConnectionT, request: NewOrder, before_commit: Hook | None = None
    ) -> OrderTaken:
        """See :meth:`Transactions.new_order`."""
        work = partial(self._new_order, connection, request)
        return await self._transaction(connection, work, before_commit)

    async def payment(
        self, connection: ConnectionT, request: Payment, before_commit: Hook | None = None
    ) -> PaymentTaken:
        """See :meth:`Transactions.payment`."""
        work = partial(self._payment, connection, request)
        return await self._transaction(connection, work, before_commit)

    async def order_status(
        self, connection: ConnectionT, request: OrderStatus, before_commit: Hook | None = None
    ) -> StatusOfOrder:
        """See :meth:`Transactions.order_status`."""
        work = partial(self._order_status, connection, request)
        return await self._transaction(connection, work, before_commit)

    async def delivery(
        self, connection: ConnectionT, request: Delivery, before_commit: Hook | None = None
    ) -> Delivered:
        """See :meth:`Transactions.delivery`."""
        work = partial(self._delivery, connection, request)
        return await self._transaction(connection, work, before_commit)

    async def stock_level(
        self, connection: ConnectionT, request: StockLevel, before_commit: Hook | None = None
    ) -> LowStock:
        """See :meth:`Transactions.stock_level`."""
        work = partial(self._stock_level, connection, request)
        return await self._transaction(connection, work, before_commit)

    # statements that engines write in different ways

    @abstractmethod
    async def _updated(
        self,
        connection: ConnectionT,
        table: str,
        changes: str,
        values: Sequence[object],
        key: Mapping[str, int],
        columns: str,
    ) -> Row | None:
        """Update the row with a key and return its new columns; ``None`` if there is no such row.

        Args:
            connection: in a transaction.
            table: name.
            changes: what follows SET, with a ``%s`` for each of the ``values``.
            values: parameters of the changes.
            key: column → value; it names one row at most.
            columns: columns to return.
        """

    @abstractmethod
    async def _take_joined(self, connection: ConnectionT, d_id: int, line: Line) -> Row | None:
        """Take one line from its stock by a statement that reads the item, too.

        Returns:
            Columns :data:`ITEM`, then :func:`stock`; ``None`` if there is no such item.
        """

    @abstractmethod
    async def _take_batch(
        self, connection: ConnectionT, d_id: int, lines: Sequence[Line]
    ) -> Mapping[int, Row]:
        """Take lines of one round, whose items all exist, from the stock by one statement.

        Returns:
            Number of a line → columns :func:`stock`.
        """

    @abstractmethod
    async def _take_batch_joined(
        self, connection: ConnectionT, d_id: int, lines: Sequence[Line]
    ) -> Mapping[int, Row]:
        """Take lines of one round from the stock by a statement that reads the items, too.

        Returns:
            Number of each line whose item exists → columns :data:`ITEM`, then :func:`stock`.
        """

    async def _items(self, connection: ConnectionT, ids: Sequence[int]) -> Mapping[int, Row]:
        """Return the items that exist: number → :data:`ITEM`."""
        listed = ", ".join(["%s"] * len(ids))
        sql = f"SELECT i_id, {ITEM} FROM item WHERE i_id IN ({listed})"
        return {row[0]: row[1:] for row in await self._rows(connection, sql, ids)}

    async def _add_lines(self, connection: ConnectionT, rows: Sequence[Row]) -> None:
        """Insert rows of :data:`ORDER_LINE`."""
        one = f"({', '.join(['%s'] * 10)})"
        sql = f"INSERT INTO order_line ({ORDER_LINE}) VALUES {', '.join([one] * len(rows))}"
        await self._rows(connection, sql, [value for row in rows for value in row])

    # New-Order

    async def _new_order(self, connection: ConnectionT, request: NewOrder) -> OrderTaken:
        w_id, d_id, c_id = request.w_id, request.d_id, request.c_id
        d_tax, next_o_id = await self._changed(
            connection,
            "district",
            "d_next_o_id = d_next_o_id + 1",
            (),
            {"d_w_id": w_id, "d_id": d_id},
            "d_tax, d_next_o_id",
        )
        o_id = next_o_id - 1
        c_discount, c_last, c_credit, w_tax = await self._row(
            connection,
            "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse"
            " WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s AND w_id = c_w_id",
            (w_id, d_id, c_id),
            f"customer {c_id} of district {d_id} of warehouse {w_id}",
        )
        now = utc_now()
        in_rounds = rounds(request)
        lines = [line for one in in_rounds for line in one]
        await self._rows(
            connection,
            "INSERT INTO orders"
            " (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)"
            " VALUES (%s, %s, %s, %s, %s, NULL, %s, %s)",
            (o_id, d_id, w_id, c_id, now, len(lines), int(not any(one.remote for one in lines))),
        )
        await self._rows(
            connection,
            "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (%s, %s, %s)",
            (o_id, d_id, w_id),
        )
        answered: dict[int, PricedItem] = {}
        for batch in in_rounds if self.options.batched else [[line] for line in lines]:
            taken = await self._take(connection, d_id, batch)
            rows = []
            for line in batch:
                if (one := taken.get(line.number)) is None:
                    continue
                priced = _priced(line, one)
                answered[line.number] = priced
                order = (o_id, d_id, w_id)
                of_line = (line.number, line.i_id, line.supply_w_id, None, line.quantity)
                rows.append((*order, *of_line, priced.ol_amount, one.dist_info))
            if rows:
                await self._add_lines(connection, rows)
        if len(answered) < len(lines):
            return OrderTaken(o_id=o_id, c_last=c_last, c_credit=c_credit, rolled_back=True)
        amount = sum(one.ol_amount for one in answered.values())
        total = amount * (1 - c_discount) * (1 + w_tax + d_tax)
        return OrderTaken(
            o_id=o_id,
            c_last=c_last,
            c_credit=c_credit,
            o_entry_d=now,
            c_discount=c_discount,
            w_tax=w_tax,
            d_tax=d_tax,
            total_amount=total.quantize(_CENT, ROUND_HALF_UP),
            lines=[answered[number] for number in sorted(answered)],
        )

    async def _take(
        self, connection: ConnectionT, d_id: int, lines: Sequence[Line]
    ) -> Mapping[int, Taken]:
        """Take lines of one round; return number → what was read, without lines of unused items."""
        if self.options.joined and self.options.batched:
            found = await self._take_batch_joined(connection, d_id, lines)
            return {number: Taken(*row) for number, row in found.items()}
        if self.options.batched:
            items = await self._items(connection, [line.i_id for line in lines])
            valid = [line for line in lines if line.i_id in items]
            left = await self._take_batch(connection, d_id, valid) if valid else {}
            return {line.number: Taken(*items[line.i_id], *left[line.number]) for line in valid}
        (line,) = lines
        if self.options.joined:
            row = await self._take_joined(connection, d_id, line)
            return {line.number: Taken(*row)} if row else {}
        rows = await self._rows(
            connection, f"SELECT {ITEM} FROM item WHERE i_id = %s", (line.i_id,)
        )
        if not rows:
            return {}
        rest = await self._changed(
            connection,
            "stock",
            LESS,
            line_values(line),
            {"s_w_id": line.supply_w_id, "s_i_id": line.i_id},
            stock(d_id),
        )
        return {line.number: Taken(*rows[0], *rest)}

    async def _changed(
        self,
        connection: ConnectionT,
        table: str,
        changes: str,
        values: Sequence[object],
        key: Mapping[str, int],
        columns: str,
    ) -> Row:
        """See :meth:`_updated`; the row must exist."""
        row = await self._updated(connection, table, changes, values, key, columns)
        return self._there(row, f"{table} with {', '.join(f'{k} {v}' for k, v in key.items())}")

    # Payment

    async def _payment(self, connection: ConnectionT, request: Payment) -> PaymentTaken:
        w_id, d_id, amount = request.w_id, request.d_id, request.h_amount
        c_w_id, c_d_id = request.c_w_id, request.c_d_id
        now = utc_now()
        d_name, *district = await self._changed(
            connection,
            "district",
            "d_ytd = d_ytd + %s",
            (amount,),
            {"d_w_id": w_id, "d_id": d_id},
            f"d_name, {_address('d')}",
        )
        c_id = request.c_id
        if c_id is None:
            c_id, *_ = await self._named(connection, "c_id", c_w_id, c_d_id, request.c_last)
        # put before the data of a customer with bad credit (clause 2.5.2.2)
        reason = f"{c_id} {c_d_id} {c_w_id} {d_id} {w_id} {amount:.2f} "
        customer = await self._changed(
            connection,
            "customer",
            "c_balance = c_balance - %s, c_ytd_payment = c_ytd_payment + %s,"
            " c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC'"
            # the inner LEFT makes the parameter text for PostgreSQL; CONCAT takes any type
            " THEN LEFT(CONCAT(LEFT(%s, 500), c_data), 500) ELSE c_data END",
            (amount, amount, reason),
            {"c_w_id": c_w_id, "c_d_id": c_d_id, "c_id": c_id},
            f"{_address('c')}, c_id, c_first, c_middle, c_last, c_phone, c_since, c_credit,"
            " c_credit_lim, c_discount, c_balance,"
            " CASE WHEN c_credit = 'BC' THEN LEFT(c_data, 200) END",
        )
        w_name, *warehouse = await self._changed(
            connection,
            "warehouse",
            "w_ytd = w_ytd + %s",
            (amount,),
            {"w_id": w_id},
            f"w_name, {_address('w')}",
        )
        await self._rows(
            connection,
            "INSERT INTO history"
            " (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (c_id, c_d_id, c_w_id, d_id, w_id, now, amount, f"{w_name}    {d_name}"),
        )
        *shown, c_data = customer[5:]
        addresses = Address(*warehouse), Address(*district), Address(*customer[:5])
        return PaymentTaken(*addresses, *shown, now, c_data)

    async def _named(
        self, connection: ConnectionT, columns: str, w_id: int, d_id: int, c_last: str | None
    ) -> Row:
        """Return the middle customer, rounded up, of those with a last name (clause 2.5.2.2)."""
        rows = await self._rows(
            connection,
            # c_first alone is ambiguous if two customers have the same first and last name
            f"SELECT {columns} FROM customer WHERE c_w_id = %s AND c_d_id = %s AND c_last = %s"
            " ORDER BY c_first, c_id",
            (w_id, d_id, c_last),
        )
        middle = rows[(len(rows) - 1) // 2] if rows else None
        return self._there(middle, f"customer {c_last} of district {d_id} of warehouse {w_id}")

    # Order-Status

    async def _order_status(self, connection: ConnectionT, request: OrderStatus) -> StatusOfOrder:
        w_id, d_id = request.w_id, request.d_id
        columns = "c_id, c_first, c_middle, c_last, c_balance"
        if request.c_id is None:
            customer = await self._named(connection, columns, w_id, d_id, request.c_last)
        else:
            customer = await self._row(
                connection,
                f"SELECT {columns} FROM customer WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s",
                (w_id, d_id, request.c_id),
                f"customer {request.c_id} of district {d_id} of warehouse {w_id}",
            )
        order = await self._row(
            connection,
            "SELECT o_id, o_entry_d, o_carrier_id FROM orders"
            " WHERE o_w_id = %s AND o_d_id = %s AND o_c_id = %s ORDER BY o_id DESC LIMIT 1",
            (w_id, d_id, customer[0]),
            f"order of customer {customer[0]} of district {d_id} of warehouse {w_id}",
        )
        lines = await self._rows(
            connection,
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line"
            " WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s ORDER BY ol_number",
            (w_id, d_id, order[0]),
        )
        return StatusOfOrder(*customer, *order, [OrderedLine(*line) for line in lines])

    # Delivery

    async def _delivery(self, connection: ConnectionT, request: Delivery) -> Delivered:
        now = utc_now()
        delivered = {}
        for d_id in range(1, DISTRICTS + 1):
            oldest = await self._rows(
                connection,
                # locked, so that another delivery waits and then finds the next one
                "SELECT no_o_id FROM new_order WHERE no_w_id = %s AND no_d_id = %s"
                " ORDER BY no_o_id LIMIT 1 FOR UPDATE",
                (request.w_id, d_id),
            )
            if oldest:
                delivered[d_id] = oldest[0][0]
                await self._deliver(connection, request, now, d_id, oldest[0][0])
        return Delivered(delivered)

    async def _deliver(
        self, connection: ConnectionT, request: Delivery, now: datetime, d_id: int, o_id: int
    ) -> None:
        key = (request.w_id, d_id, o_id)
        await self._rows(
            connection,
            "DELETE FROM new_order WHERE no_w_id = %s AND no_d_id = %s AND no_o_id = %s",
            key,
        )
        (c_id,) = await self._changed(
            connection,
            "orders",
            "o_carrier_id = %s",
            (request.o_carrier_id,),
            {"o_w_id": request.w_id, "o_d_id": d_id, "o_id": o_id},
            "o_c_id",
        )
        await self._rows(
            connection,
            "UPDATE order_line SET ol_delivery_d = %s"
            " WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s",
            (now, *key),
        )
        ((amount,),) = await self._rows(
            connection,
            "SELECT SUM(ol_amount) FROM order_line"
            " WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s",
            key,
        )
        await self._rows(
            connection,
            "UPDATE customer SET c_balance = c_balance + %s, c_delivery_cnt = c_delivery_cnt + 1"
            " WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s",
            (amount, request.w_id, d_id, c_id),
        )

    # Stock-Level

    async def _stock_level(self, connection: ConnectionT, request: StockLevel) -> LowStock:
        w_id, d_id = request.w_id, request.d_id
        (next_o_id,) = await self._row(
            connection,
            "SELECT d_next_o_id FROM district WHERE d_w_id = %s AND d_id = %s",
            (w_id, d_id),
            f"district {d_id} of warehouse {w_id}",
        )
        ((low,),) = await self._rows(
            connection,
            f"SELECT {self._low_stock_hint} COUNT(DISTINCT s_i_id) FROM order_line, stock"
            " WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id >= %s AND ol_o_id < %s"
            " AND s_w_id = %s AND s_i_id = ol_i_id AND s_quantity < %s",
            (w_id, d_id, next_o_id - ORDERS_LOOKED_AT, next_o_id, w_id, request.threshold),
        )
        return LowStock(low)


def _address(prefix: str) -> str:
    return ", ".join(f"{prefix}_{name}" for name in Address.__struct_fields__)


def _priced(line: Line, taken: Taken) -> PricedItem:
    is_brand = _ORIGINAL in taken.i_data and _ORIGINAL in taken.s_data
    return PricedItem(
        i_name=taken.i_name,
        s_quantity=taken.s_quantity,
        brand_generic="B" if is_brand else "G",
        i_price=taken.i_price,
        ol_amount=line.quantity * taken.i_price,
    )
