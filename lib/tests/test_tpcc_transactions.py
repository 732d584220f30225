"""The five transactions of TPC-C on every engine, in every form: what they change and answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import aiomysql
import psycopg
import pymysql
import pytest
from benchlab.engines import ENGINES, Endpoint, Engine
from benchlab.engines.waits import Wait
from benchlab.errors import BenchlabError, DatasetError, EngineError, UnknownName
from benchlab.workloads.tpcc import schema, transactions
from benchlab.workloads.tpcc.transactions import Options, RepeatTransaction, Transactions
from benchlab.workloads.tpcc.transactions.base import rounds
from benchlab.workloads.tpcc.transactions.contract import (
    Address,
    Delivered,
    Delivery,
    LowStock,
    NewOrder,
    OrderedItem,
    OrderedLine,
    OrderStatus,
    OrderTaken,
    Payment,
    PricedItem,
    StatusOfOrder,
    StockLevel,
)
from conftest import EVERY_ENGINE, tidb_server

#: Form and options of what a New-Order is tested with.
FORMS = {
    "procedures": ("procedures", Options()),
    "statements": ("statements", Options()),
    "line-by-line": ("statements", Options(batched=False)),
    "joined": ("statements", Options(joined=True)),
    "joined-line-by-line": ("statements", Options(batched=False, joined=True)),
    "unprepared": ("statements", Options(prepared=False)),
}

#: Those that differ in the other transactions, too.
BOTH = ("procedures", "statements")

LOADED = datetime(2026, 1, 2, 3, 4, 5)
NAMES = {  # customer → last and first name, the same in every district
    1: ("BARBARBAR", "Dora"),
    2: ("BARBARBAR", "Bert"),
    3: ("BARBARBAR", "Carl"),
    4: ("BARBARBAR", "Anna"),
    5: ("OUGHTABLEPRI", "Otto"),
    6: ("PRESESEANTI", "Zoe"),
    7: ("PRESESEANTI", "Yuri"),
    8: ("PRESESEANTI", "Xena"),
}
BAD_CREDIT = (2, 5)
STOCK = {1: 50, 2: 15, 3: 17, 4: 10, 5: 100, 6: 9}  # item → quantity, in both warehouses
PRICES = {i_id: Decimal(f"{i_id}.50") for i_id in STOCK}

#: Districts of the first warehouse without an open order. The second one has no open order at all.
DELIVERED = (4, 7)

#: The oldest open order of the other districts; the next one is the last.
OPEN = 2101

Table = dict[tuple, dict[str, Any]]


def dist_info(w_id: int, i_id: int, d_id: int) -> str:
    return f"w{w_id}-i{i_id}-d{d_id}".ljust(24, ".")


def address(prefix: str, of: str) -> dict[str, str]:
    return {
        f"{prefix}_street_1": f"{of} street",
        f"{prefix}_street_2": f"{of} house",
        f"{prefix}_city": f"{of} city",
        f"{prefix}_state": "ZZ",
        f"{prefix}_zip": "123411111",
    }


def an_address(of: str) -> Address:
    return Address(*address("", of).values())


def warehouse_row(w_id: int) -> dict:
    return {
        "w_id": w_id,
        "w_name": f"ware{w_id}",
        **address("w", f"w{w_id}"),
        "w_tax": Decimal("0.1000"),
        "w_ytd": Decimal("300000.00"),
    }


def district_row(w_id: int, d_id: int) -> dict:
    return {
        "d_id": d_id,
        "d_w_id": w_id,
        "d_name": f"dist{d_id}",
        **address("d", f"d{d_id}"),
        "d_tax": Decimal("0.0500"),
        "d_ytd": Decimal("30000.00"),
        "d_next_o_id": OPEN + (2 if is_open(w_id, d_id) else 0),
    }


def customer_row(w_id: int, d_id: int, c_id: int) -> dict:
    return {
        "c_id": c_id,
        "c_d_id": d_id,
        "c_w_id": w_id,
        "c_first": NAMES[c_id][1],
        "c_middle": "OE",
        "c_last": NAMES[c_id][0],
        **address("c", f"c{c_id}"),
        "c_phone": "0123456789012345",
        "c_since": LOADED,
        "c_credit": "BC" if c_id in BAD_CREDIT else "GC",
        "c_credit_lim": Decimal("50000.00"),
        "c_discount": Decimal("0.2500"),
        "c_balance": Decimal("-10.00"),
        "c_ytd_payment": Decimal("10.00"),
        "c_payment_cnt": 1,
        "c_delivery_cnt": 0,
        "c_data": "abcde" * (100 if c_id == 5 else 60),
    }


def is_open(w_id: int, d_id: int) -> bool:
    return w_id == 1 and d_id not in DELIVERED


def order_rows(w_id: int, d_id: int) -> list[dict]:
    """A delivered order of customer 3, and open ones of customers 1 and 2."""
    numbers = range(OPEN - 1, OPEN + (2 if is_open(w_id, d_id) else 0))
    return [
        {
            "o_id": o_id,
            "o_d_id": d_id,
            "o_w_id": w_id,
            "o_c_id": c_id,
            "o_entry_d": LOADED,
            "o_carrier_id": 5 if o_id < OPEN else None,
            "o_ol_cnt": 2,
            "o_all_local": 1,
        }
        for o_id, c_id in zip(numbers, (3, 1, 2), strict=False)
    ]


def line_rows(order: dict) -> list[dict]:
    is_delivered = order["o_carrier_id"] is not None
    return [
        {
            "ol_o_id": order["o_id"],
            "ol_d_id": order["o_d_id"],
            "ol_w_id": order["o_w_id"],
            "ol_number": number,
            "ol_i_id": i_id,
            "ol_supply_w_id": order["o_w_id"],
            "ol_delivery_d": LOADED if is_delivered else None,
            "ol_quantity": 5,
            "ol_amount": Decimal(0) if is_delivered else amount,
            "ol_dist_info": "loaded".ljust(24, "."),
        }
        for number, i_id, amount in ((1, 6, Decimal("10.50")), (2, 4, Decimal("4.25")))
    ]


def stock_row(w_id: int, i_id: int) -> dict:
    return {
        "s_i_id": i_id,
        "s_w_id": w_id,
        "s_quantity": STOCK[i_id],
        **{f"s_dist_{d_id:02}": dist_info(w_id, i_id, d_id) for d_id in range(1, 11)},
        "s_ytd": 0,
        "s_order_cnt": 0,
        "s_remote_cnt": 0,
        "s_data": "an ORIGINAL one" if i_id in (3, 4) else "stock of an item",
    }


def seed() -> dict[str, list[dict]]:
    """Two warehouses with ten districts, eight customers in each, six items."""
    districts = [(w_id, d_id) for w_id in (1, 2) for d_id in range(1, 11)]
    orders = [order for where in districts for order in order_rows(*where)]
    return {
        "warehouse": [warehouse_row(w_id) for w_id in (1, 2)],
        "district": [district_row(*where) for where in districts],
        "customer": [customer_row(*where, c_id) for where in districts for c_id in NAMES],
        "history": [],
        "new_order": [
            {"no_o_id": one["o_id"], "no_d_id": one["o_d_id"], "no_w_id": one["o_w_id"]}
            for one in orders
            if one["o_carrier_id"] is None
        ],
        "orders": orders,
        "order_line": [line for order in orders for line in line_rows(order)],
        "item": [
            {
                "i_id": i_id,
                "i_im_id": 1,
                "i_name": f"item{i_id}",
                "i_price": price,
                "i_data": "ORIGINAL item" if i_id in (2, 3) else "item data",
            }
            for i_id, price in PRICES.items()
        ],
        "stock": [stock_row(w_id, i_id) for w_id in (1, 2) for i_id in STOCK],
    }


class Database:
    """A server's database with the nine tables and the procedures."""

    def __init__(self, engine: Engine):
        self.engine = engine
        for statement in schema.tables(engine.name):
            engine.query(statement)
        for of_table in schema.indexes(engine.name).values():
            for statement in of_table.values():
                engine.query(statement)
        made = [transactions.view_sql]
        if engine.name != "tidb":
            made.append(transactions.procedures_sql)
        for statements in made:
            for statement in statements(engine.name):
                engine.query(statement)

    def fill(self) -> None:
        """Bring the tables back to what :func:`seed` has."""
        with self.engine.asking() as ask:
            for table, rows in seed().items():
                ask(f"DELETE FROM {table}")
                if not rows:
                    continue
                one = f"({', '.join(['%s'] * len(rows[0]))})"
                ask(
                    f"INSERT INTO {table} ({', '.join(rows[0])})"
                    f" VALUES {', '.join([one] * len(rows))}",
                    tuple(value for row in rows for value in row.values()),
                )

    def tables(self) -> dict[str, Table]:
        """All rows of all tables, by key; of history, which has none, by all columns."""
        found = {}
        with self.engine.asking() as ask:
            for name, table in schema.TABLES.items():
                key = table.key or tuple(table.columns)
                rows = ask(f"SELECT * FROM {name}")
                found[name] = {tuple(row[column] for column in key): row for row in rows}
        return found

    def one(self, sql: str) -> Any:
        """The only value that a query gives."""
        return next(iter(self.engine.query(sql)[0].values()))

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """A connection as the application server has it."""
        at = self.engine.endpoint
        if self.engine.protocol == "postgres":
            connection = await psycopg.AsyncConnection.connect(
                host=at.host,
                port=at.port,
                user=at.user,
                password=at.password,
                dbname=at.database,
                autocommit=True,
            )
            async with connection:
                yield connection
        else:
            connection = await aiomysql.connect(
                host=at.host,
                port=at.port,
                user=at.user,
                password=at.password,
                db=at.database,
                autocommit=True,
            )
            async with connection:
                yield connection

    async def waiting(self, task: asyncio.Task, sessions: int = 1) -> None:
        """Return when so many sessions wait for locks; a task that ends without is an error."""
        with self.engine.asking() as ask:
            for _ in range(600):
                assert not task.done(), f"did not wait: {task.result()}"
                rows = self.engine.sample_sessions(ask)
                waits = [found for row in rows if (found := self.engine.wait(row))]
                if sum(count for kind, _, count in waits if kind == Wait.LOCK) >= sessions:
                    return
                # InnoDB looks at its transactions anew only a tenth of a second after a query
                await asyncio.sleep(0.15)
        raise AssertionError("waited in vain for a lock")


def changes(before: dict[str, Table], after: dict[str, Table]) -> dict[str, Table]:
    """Table → key → columns with a new value; of a new row all, of one that is gone ``None``."""
    found: dict[str, Table] = {}
    for table in before:
        for key in before[table].keys() | after[table].keys():
            old, new = before[table].get(key), after[table].get(key)
            if old != new:
                found.setdefault(table, {})[key] = (
                    {column: value for column, value in new.items() if value != old[column]}
                    if old and new
                    else new
                )
    return found


def is_now(time: datetime) -> bool:
    """Whether a transaction that has just run may have put that time into its rows."""
    return abs(datetime.now(UTC).replace(tzinfo=None) - time) < timedelta(minutes=5)


ORDER = NewOrder(
    w_id=1,
    d_id=3,
    c_id=2,
    lines=[
        OrderedItem(i_id=3, supply_w_id=2, quantity=7),
        OrderedItem(i_id=1, supply_w_id=1, quantity=5),
        OrderedItem(i_id=2, supply_w_id=1, quantity=6),
        OrderedItem(i_id=4, supply_w_id=1, quantity=10),
        OrderedItem(i_id=1, supply_w_id=1, quantity=10),
        OrderedItem(i_id=1, supply_w_id=2, quantity=1),
        OrderedItem(i_id=1, supply_w_id=1, quantity=26),
    ],
)
LOCAL = NewOrder(1, 3, 2, [OrderedItem(i_id=5, supply_w_id=1, quantity=2)])
UNUSED = NewOrder(
    1,
    3,
    2,
    [
        OrderedItem(i_id=5, supply_w_id=2, quantity=1),
        OrderedItem(i_id=6, supply_w_id=1, quantity=1),
        OrderedItem(i_id=999_999, supply_w_id=1, quantity=1),
    ],
)


def payment(c_id: int | None = None, c_last: str | None = None, **of: int) -> Payment:
    where = {"w_id": 1, "d_id": 3, "c_w_id": 1, "c_d_id": 3} | of
    return Payment(h_amount=Decimal("12.50"), c_id=c_id, c_last=c_last, **where)


class TransactionsContract:
    """What they do, on an engine that an inheriting class names."""

    engine: ClassVar[str]
    #: Names of forms that the engine lacks.
    refused: ClassVar[tuple[str, ...]] = ("unprepared",)
    #: SQL that makes a connection's transactions fail by a conflict that is none at its default
    #: level; none: the engine detects deadlocks at once.
    conflicts: ClassVar[str | None] = None

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, endpoint: Endpoint) -> Database:
        return Database(ENGINES[cls.engine](endpoint))

    @pytest.fixture
    def seeded(self, database: Database) -> Database:
        database.fill()
        return database

    @pytest.fixture(params=BOTH)
    def form(self, request) -> Transactions:
        return self.made(request.param)

    @pytest.fixture(params=list(FORMS))
    def every_form(self, request) -> Transactions:
        return self.made(request.param)

    def made(self, name: str) -> Transactions:
        form, options = FORMS[name]
        if name not in self.refused:
            return transactions.transactions_of(self.engine, form, options)
        with pytest.raises(EngineError) as refused:
            transactions.transactions_of(self.engine, form, options)
        pytest.skip(str(refused.value))

    def ran(self, database: Database, form: Transactions, request) -> tuple[Any, dict[str, Table]]:
        """Run one transaction; return its answer and what it changed."""
        before = database.tables()

        async def run() -> Any:
            async with database.connected() as connection:
                return await form.run(connection, request)

        answer = asyncio.run(run())
        return answer, changes(before, database.tables())

    # New-Order

    def test_a_new_order_changes_just_what_it_should(self, seeded, every_form):
        answer, changed = self.ran(seeded, every_form, ORDER)
        now = answer.o_entry_d
        assert is_now(now)
        amounts = [Decimal(one) for one in ("24.5", "7.5", "15", "45", "15", "1.5", "39")]
        left = [10, 45, 100, 91, 35, 49, 100]  # of each line, at its time
        expected = OrderTaken(
            o_id=2103,
            c_last="BARBARBAR",
            c_credit="BC",
            o_entry_d=now,
            c_discount=Decimal("0.25"),
            w_tax=Decimal("0.1"),
            d_tax=Decimal("0.05"),
            total_amount=Decimal("127.22"),  # 147.50 * 0.75 * 1.15, rounded
            lines=[
                PricedItem(
                    i_name=f"item{line.i_id}",
                    s_quantity=quantity,
                    brand_generic="B" if line.i_id == 3 else "G",
                    i_price=PRICES[line.i_id],
                    ol_amount=amount,
                )
                for line, amount, quantity in zip(ORDER.lines, amounts, left, strict=True)
            ],
        )
        assert answer == expected
        assert changed == {
            "district": {(1, 3): {"d_next_o_id": 2104}},
            "orders": {
                (1, 3, 2103): {
                    "o_id": 2103,
                    "o_d_id": 3,
                    "o_w_id": 1,
                    "o_c_id": 2,
                    "o_entry_d": now,
                    "o_carrier_id": None,
                    "o_ol_cnt": 7,
                    "o_all_local": 0,
                }
            },
            "new_order": {(1, 3, 2103): {"no_o_id": 2103, "no_d_id": 3, "no_w_id": 1}},
            "order_line": {
                (1, 3, 2103, number): {
                    "ol_o_id": 2103,
                    "ol_d_id": 3,
                    "ol_w_id": 1,
                    "ol_number": number,
                    "ol_i_id": line.i_id,
                    "ol_supply_w_id": line.supply_w_id,
                    "ol_delivery_d": None,
                    "ol_quantity": line.quantity,
                    "ol_amount": amount,
                    "ol_dist_info": dist_info(line.supply_w_id, line.i_id, 3),
                }
                for number, (line, amount) in enumerate(
                    zip(ORDER.lines, amounts, strict=True), start=1
                )
            },
            "stock": {
                (1, 1): {"s_quantity": 100, "s_ytd": 41, "s_order_cnt": 3},
                (1, 2): {"s_quantity": 100, "s_ytd": 6, "s_order_cnt": 1},
                (1, 4): {"s_quantity": 91, "s_ytd": 10, "s_order_cnt": 1},
                (2, 1): {"s_quantity": 49, "s_ytd": 1, "s_order_cnt": 1, "s_remote_cnt": 1},
                (2, 3): {"s_quantity": 10, "s_ytd": 7, "s_order_cnt": 1, "s_remote_cnt": 1},
            },
        }

    def test_stock_is_filled_up_below_ten_more_than_is_ordered(self, seeded, every_form):
        for quantity, left in ((5, 10), (6, 100)):  # of 15
            seeded.fill()
            order = NewOrder(1, 10, 1, [OrderedItem(2, 1, quantity)])
            answer, changed = self.ran(seeded, every_form, order)
            assert [line.s_quantity for line in answer.lines] == [left]
            assert changed["stock"][1, 2]["s_quantity"] == left
            (line,) = changed["order_line"].values()
            assert line["ol_dist_info"] == dist_info(1, 2, 10)

    def test_an_order_of_the_own_warehouse_is_all_local(self, seeded, form):
        _, changed = self.ran(seeded, form, LOCAL)
        assert changed["orders"][1, 3, 2103]["o_all_local"] == 1
        assert changed["stock"] == {(1, 5): {"s_quantity": 98, "s_ytd": 2, "s_order_cnt": 1}}

    def test_an_order_with_an_unused_item_leaves_nothing(self, seeded, every_form):
        answer, changed = self.ran(seeded, every_form, UNUSED)
        assert answer == OrderTaken(o_id=2103, c_last="BARBARBAR", c_credit="BC", rolled_back=True)
        assert changed == {}

    def test_its_valid_items_are_processed_before_it_is_rolled_back(self, seeded, every_form):
        seen = {}

        async def run() -> None:
            async with seeded.connected() as connection:

                async def look() -> None:
                    rows = await every_form._rows(
                        connection,
                        "SELECT s_w_id, s_i_id, s_quantity FROM stock WHERE s_order_cnt = 1",
                    )
                    seen["stock"] = sorted(rows)
                    rows = await every_form._rows(
                        connection, "SELECT ol_number FROM order_line WHERE ol_o_id = 2103"
                    )
                    seen["lines"] = sorted(rows)

                await every_form.new_order(connection, UNUSED, look)

        before = seeded.tables()
        asyncio.run(run())
        assert seen == {"stock": [(1, 6, 99), (2, 5, 99)], "lines": [(1,), (2,)]}
        assert changes(before, seeded.tables()) == {}

    # Payment

    def test_a_payment_changes_just_what_it_should(self, seeded, form):
        answer, changed = self.ran(seeded, form, payment(c_id=1))
        assert is_now(answer.h_date)
        history = {
            "h_c_id": 1,
            "h_c_d_id": 3,
            "h_c_w_id": 1,
            "h_d_id": 3,
            "h_w_id": 1,
            "h_date": answer.h_date,
            "h_amount": Decimal("12.50"),
            "h_data": "ware1    dist3",
        }
        assert changed == {
            "warehouse": {(1,): {"w_ytd": Decimal("300012.50")}},
            "district": {(1, 3): {"d_ytd": Decimal("30012.50")}},
            "customer": {
                (1, 3, 1): {
                    "c_balance": Decimal("-22.50"),
                    "c_ytd_payment": Decimal("22.50"),
                    "c_payment_cnt": 2,
                }
            },
            "history": {tuple(history.values()): history},
        }
        assert answer.warehouse == an_address("w1")
        assert answer.district == an_address("d3")
        assert answer.customer == an_address("c1")
        shown = {name: getattr(answer, name) for name in answer.__struct_fields__[3:]}
        assert shown == {
            "c_id": 1,
            "c_first": "Dora",
            "c_middle": "OE",
            "c_last": "BARBARBAR",
            "c_phone": "0123456789012345",
            "c_since": LOADED,
            "c_credit": "GC",
            "c_credit_lim": Decimal(50000),
            "c_discount": Decimal("0.25"),
            "c_balance": Decimal("-22.50"),
            "h_date": answer.h_date,
            "c_data": None,
        }

    @pytest.mark.parametrize(
        ("c_last", "c_id"), [("BARBARBAR", 2), ("OUGHTABLEPRI", 5), ("PRESESEANTI", 7)]
    )
    def test_a_name_stands_for_the_customer_in_the_middle(self, seeded, form, c_last, c_id):
        # of four the second, of one that one, of three the second, by first name
        answer, changed = self.ran(seeded, form, payment(c_last=c_last))
        assert answer.c_id == c_id
        assert list(changed["customer"]) == [(1, 3, c_id)]

    def test_bad_credit_is_written_down(self, seeded, form):
        answer, changed = self.ran(seeded, form, payment(c_id=2, c_w_id=2, c_d_id=9))
        data = changed["customer"][2, 9, 2]["c_data"]
        assert data == "2 9 2 3 1 12.50 " + customer_row(2, 9, 2)["c_data"]
        assert answer.c_data == data[:200]
        assert answer.c_credit == "BC"

    def test_what_does_not_fit_of_it_is_cut_off(self, seeded, form):
        _, changed = self.ran(seeded, form, payment(c_id=5))
        data = changed["customer"][1, 3, 5]["c_data"]
        assert data == ("5 3 1 3 1 12.50 " + "abcde" * 100)[:500]

    def test_a_remote_payment_is_the_home_warehouses_income(self, seeded, form):
        answer, changed = self.ran(seeded, form, payment(c_last="PRESESEANTI", c_w_id=2, c_d_id=8))
        assert answer.c_id == 7
        assert answer.warehouse == an_address("w1")
        assert changed["warehouse"] == {(1,): {"w_ytd": Decimal("300012.50")}}
        assert changed["district"] == {(1, 3): {"d_ytd": Decimal("30012.50")}}
        assert list(changed["customer"]) == [(2, 8, 7)]
        ((c_id, c_d_id, c_w_id, d_id, w_id, *_),) = changed["history"]
        assert (c_id, c_d_id, c_w_id, d_id, w_id) == (7, 8, 2, 3, 1)

    # Order-Status

    def test_the_status_of_an_open_order_is_read(self, seeded, form):
        # the second of four with this name
        answer, changed = self.ran(seeded, form, OrderStatus(1, 3, c_last="BARBARBAR"))
        assert answer == StatusOfOrder(
            c_id=2,
            c_first="Bert",
            c_middle="OE",
            c_last="BARBARBAR",
            c_balance=Decimal("-10"),
            o_id=2102,
            o_entry_d=LOADED,
            o_carrier_id=None,
            lines=[
                OrderedLine(6, 1, 5, Decimal("10.5"), None),
                OrderedLine(4, 1, 5, Decimal("4.25"), None),
            ],
        )
        assert changed == {}

    def test_the_status_of_a_delivered_order_is_read(self, seeded, form):
        answer, _ = self.ran(seeded, form, OrderStatus(2, 9, c_id=3))
        assert (answer.c_id, answer.o_id, answer.o_carrier_id) == (3, 2100, 5)
        assert answer.lines[0] == OrderedLine(6, 2, 5, Decimal(0), LOADED)

    def test_the_last_order_counts_and_its_lines_keep_their_order(self, seeded, form):
        self.ran(seeded, form, ORDER)
        answer, _ = self.ran(seeded, form, OrderStatus(1, 3, c_id=2))
        assert answer.o_id == 2103
        ordered = [(one.ol_i_id, one.ol_supply_w_id, one.ol_quantity) for one in answer.lines]
        assert ordered == [(one.i_id, one.supply_w_id, one.quantity) for one in ORDER.lines]

    # Delivery

    def test_a_delivery_changes_just_what_it_should(self, seeded, form):
        answer, changed = self.ran(seeded, form, Delivery(1, o_carrier_id=8))
        districts = [d_id for d_id in range(1, 11) if is_open(1, d_id)]
        assert answer == Delivered(dict.fromkeys(districts, OPEN))
        times = {line["ol_delivery_d"] for line in changed["order_line"].values()}
        (now,) = times
        assert is_now(now)
        assert changed == {
            "new_order": {(1, d_id, OPEN): None for d_id in districts},
            "orders": {(1, d_id, OPEN): {"o_carrier_id": 8} for d_id in districts},
            "order_line": {
                (1, d_id, OPEN, number): {"ol_delivery_d": now}
                for d_id in districts
                for number in (1, 2)
            },
            "customer": {
                (1, d_id, 1): {"c_balance": Decimal("4.75"), "c_delivery_cnt": 1}
                for d_id in districts
            },
        }

    def test_districts_without_open_orders_are_skipped(self, seeded, form):
        answer, changed = self.ran(seeded, form, Delivery(2, o_carrier_id=8))
        assert answer == Delivered({})
        assert changed == {}

    def test_the_next_delivery_delivers_the_next_orders(self, seeded, form):
        for o_id in (OPEN, OPEN + 1):
            answer, _ = self.ran(seeded, form, Delivery(1, o_carrier_id=8))
            assert set(answer.orders.values()) == {o_id}
        answer, changed = self.ran(seeded, form, Delivery(1, o_carrier_id=8))
        assert (answer, changed) == (Delivered({}), {})

    # Stock-Level

    def test_items_of_recent_orders_that_are_low_are_counted_once(self, seeded, form):
        # all orders are of items 6 (9 in stock) and 4 (10)
        for threshold, low in ((9, 0), (10, 1), (11, 2), (100, 2)):
            answer, changed = self.ran(seeded, form, StockLevel(1, 3, threshold))
            assert (answer, changed) == (LowStock(low), {})

    def test_the_last_twenty_orders_and_no_more_count(self, seeded, form):
        # the newest order, of item 5, and two before it of items 6 and 4
        seeded.engine.query("UPDATE order_line SET ol_i_id = 5 WHERE ol_o_id = 2102")
        for next_o_id, low in ((2102, 2), (2103, 3), (2121, 3), (2122, 1), (2123, 0)):
            seeded.engine.query(f"UPDATE district SET d_next_o_id = {next_o_id}")
            answer, _ = self.ran(seeded, form, StockLevel(1, 3, 101))
            assert answer == LowStock(low)

    # the end of a transaction

    def test_what_a_transaction_did_is_seen_by_others_only_after_the_hook(self, seeded, form):
        before = seeded.tables()

        async def run() -> dict:
            async with seeded.connected() as connection:

                async def look() -> None:
                    rows = await form._rows(
                        connection, "SELECT d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = 3"
                    )
                    assert list(rows) == [(2104,)]
                    assert changes(before, seeded.tables()) == {}

                await form.new_order(connection, LOCAL, look)
                return changes(before, seeded.tables())

        assert asyncio.run(run())["district"] == {(1, 3): {"d_next_o_id": 2104}}

    @pytest.mark.parametrize(("first", "o_id"), [(LOCAL, 2104), (UNUSED, 2103)])
    def test_another_order_of_the_district_waits_for_the_end(self, seeded, form, first, o_id):
        """Isolation tests 3 and 4 of clause 3.4.2."""

        async def run(one: Any, other: Any) -> tuple[OrderTaken, OrderTaken]:
            started = []

            async def hold() -> None:
                started.append(asyncio.create_task(form.new_order(other, LOCAL)))
                await seeded.waiting(started[0])

            return await form.new_order(one, first, hold), await started[0]

        answers = self.by_two(seeded, run)
        assert [answer.o_id for answer in answers] == [2103, o_id]
        assert seeded.one("SELECT MAX(d_next_o_id) FROM district WHERE d_w_id = 1") == o_id + 1

    def test_another_delivery_waits_and_delivers_the_next_orders(self, seeded, form):
        async def run(one: Any, other: Any) -> tuple[Delivered, Delivered]:
            started = []

            async def hold() -> None:
                started.append(asyncio.create_task(form.delivery(other, Delivery(1, 9))))
                await seeded.waiting(started[0])

            return await form.delivery(one, Delivery(1, 8), hold), await started[0]

        answers = self.by_two(seeded, run)
        assert [set(answer.orders.values()) for answer in answers] == [{OPEN}, {OPEN + 1}]
        assert seeded.one("SELECT COUNT(*) FROM new_order") == 0

    def by_two(self, database: Database, work: Callable[[Any, Any], Coroutine]) -> Any:
        """Do work that needs two connections."""

        async def run() -> Any:
            async with database.connected() as one, database.connected() as other:
                return await work(one, other)

        return asyncio.run(run())

    @pytest.mark.parametrize(
        "request_",
        [LOCAL, payment(c_id=1), OrderStatus(1, 3, c_id=1), Delivery(1, 8), StockLevel(1, 3, 10)],
        ids=lambda request: request.type,
    )
    def test_what_a_hook_raises_undoes_the_transaction(self, seeded, form, request_):
        before = seeded.tables()

        async def run() -> None:
            async with seeded.connected() as connection:

                async def broken() -> None:
                    raise ZeroDivisionError

                with pytest.raises(ZeroDivisionError):
                    await form.run(connection, request_, broken)
                assert changes(before, seeded.tables()) == {}
                # the connection is good for the next one, committed by itself
                await form.run(connection, request_)

        asyncio.run(run())
        changing = not isinstance(request_, OrderStatus | StockLevel)
        assert bool(changes(before, seeded.tables())) == changing

    @pytest.mark.parametrize(
        "request_",
        [
            NewOrder(1, 3, 77, LOCAL.lines),
            payment(c_id=77),
            payment(c_last="NOBODY"),
            OrderStatus(1, 3, c_id=77),
            OrderStatus(1, 3, c_last="NOBODY"),
            StockLevel(3, 1, 10),
        ],
        ids=lambda request: request.type,
    )
    def test_an_error_undoes_the_transaction(self, seeded, form, request_):
        before = seeded.tables()
        errors = (DatasetError, psycopg.Error, pymysql.MySQLError)

        async def run() -> None:
            async with seeded.connected() as connection:
                with pytest.raises(errors):
                    await form.run(connection, request_)
                await form.new_order(connection, LOCAL)

        asyncio.run(run())
        changed = changes(before, seeded.tables())
        assert changed["district"] == {(1, 3): {"d_next_o_id": 2104}}
        assert "customer" not in changed

    def test_a_transaction_that_is_to_be_repeated_is_undone_and_said_to_be(self, seeded, form):
        before = seeded.tables()

        async def run(one: Any, other: Any) -> None:
            paid = await (self.conflict if self.conflicts else self.deadlock)(
                seeded, form, one, other
            )
            with pytest.raises(RepeatTransaction) as raised:
                await paid
            assert "\n" not in str(raised.value)
            changed = changes(before, seeded.tables())
            assert changed["warehouse"] == {(1,): {"w_ytd": Decimal("300001.00")}}
            assert "customer" not in changed
            # the caller may repeat it on the same connection
            await form.payment(one, payment(c_id=1))

        self.by_two(seeded, run)
        assert seeded.one("SELECT w_ytd FROM warehouse WHERE w_id = 1") == Decimal("300013.50")

    async def conflict(self, seeded, form, one: Any, other: Any) -> asyncio.Task:
        """Return a payment that waits for a row which another transaction changes."""
        await form._rows(one, self.conflicts)
        await form._begin(other)
        await form._rows(other, "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1")
        paid = asyncio.create_task(form.payment(one, payment(c_id=1)))
        await seeded.waiting(paid)
        await form._commit(other)
        return paid

    async def deadlock(self, seeded, form, one: Any, other: Any) -> asyncio.Task:
        """Return a payment whose wait closes a cycle, with a transaction that has changed more.

        Some engines undo the transaction that closed the cycle, others the one that changed least.
        """
        district = "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 1"
        async with seeded.connected() as first:
            await form._begin(first)
            await form._rows(first, district)
            paid = asyncio.create_task(form.payment(one, payment(c_id=1)))
            await seeded.waiting(paid)
            await form._begin(other)
            await form._rows(other, "UPDATE item SET i_im_id = i_im_id + 1")
            await form._rows(other, "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1")
            changed = asyncio.create_task(form._rows(other, district))
            await seeded.waiting(changed, sessions=2)
            await form._rollback(first)
            await changed
            await form._commit(other)
        return paid


@pytest.fixture(scope="class")
def endpoint(request, machine) -> Iterator[Endpoint]:
    """A server with an empty database, provisioned as for a study."""
    name = request.cls.engine
    machine.up()
    session = machine.session(name)
    (batch,) = machine.plan(EVERY_ENGINE, engines=[name], variants=["tuned"])
    session.cold("tuned", restore=f"empty-{batch.trials[0].point.init_key}")
    yield session.engine.endpoint
    session.stop()


@pytest.mark.machine
class TestPostgres(TransactionsContract):
    engine = "postgres"
    refused = ()
    conflicts = "SET default_transaction_isolation = 'repeatable read'"


@pytest.mark.machine
class TestMariaDB(TransactionsContract):
    engine = "mariadb"


@pytest.mark.machine
class TestMySQL(TransactionsContract):
    engine = "mysql"


@pytest.mark.machine
class TestOceanBase(TransactionsContract):
    engine = "oceanbase"
    conflicts = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"


@pytest.mark.machine
@pytest.mark.skipif(not tidb_server(), reason="no TiDB: BENCHLAB_TIDB names none")
class TestTiDB(TransactionsContract):
    engine = "tidb"
    refused = ("procedures", "joined", "joined-line-by-line", "unprepared")


def test_every_engine_is_tested_here():
    tested = {cls.engine for cls in TransactionsContract.__subclasses__()}
    assert tested == set(transactions.ENGINES) == set(ENGINES)


def test_a_row_of_stock_is_in_a_round_once_and_rows_go_by_key():
    found = [[(one.supply_w_id, one.i_id, one.number) for one in lines] for lines in rounds(ORDER)]
    assert found == [
        [(1, 1, 2), (1, 2, 3), (1, 4, 4), (2, 1, 6), (2, 3, 1)],
        [(1, 1, 5)],
        [(1, 1, 7)],
    ]
    remote = {one.number for lines in rounds(ORDER) for one in lines if one.remote}
    assert remote == {1, 6}


@pytest.mark.parametrize(
    ("engine", "form", "options", "said"),
    [
        ("oracle", "statements", Options(), "unknown engine of TPC-C's transactions 'oracle'"),
        ("mysql", "functions", Options(), "unknown form of transactions 'functions'"),
        ("tidb", "procedures", Options(), "tidb: it has no stored procedures"),
        ("tidb", "statements", Options(joined=True), "tidb: it has no updatable views"),
        (
            "oceanbase",
            "statements",
            Options(prepared=False),
            "oceanbase: .* no prepared statements",
        ),
        (
            "mysql",
            "procedures",
            Options(batched=False),
            "mysql: stored procedures have none of the",
        ),
    ],
)
def test_what_an_engine_lacks_is_said(engine, form, options, said):
    with pytest.raises(BenchlabError, match=said):
        transactions.transactions_of(engine, form, options)


def test_procedures_of_an_engine_without_them_are_refused():
    with pytest.raises(EngineError, match="no stored procedures"):
        transactions.procedures_sql("tidb")
    with pytest.raises(UnknownName):
        transactions.view_sql("oracle")


@pytest.mark.parametrize("engine", ["mariadb", "mysql", "oceanbase"])
def test_the_plan_of_stock_level_is_given_to_oceanbase_alone(engine):
    created = "\n".join(transactions.procedures_sql(engine))
    assert "/* hint */" not in created
    assert ("USE_NL(stock)" in created) == (engine == "oceanbase")
