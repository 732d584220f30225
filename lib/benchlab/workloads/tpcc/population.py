"""The rows that the tables hold at the start (clause 4.3.3.1), as columns.

Every table of every warehouse has its own random generator, so any process can make any warehouse
alone, with the same rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl
import pyarrow as pa

from benchlab.workloads.tpcc import rules, schema, texts
from benchlab.workloads.tpcc.dataset import CUSTOMERS, DISTRICTS, ITEMS, UNDELIVERED

#: One row in this many has bad credit, or ORIGINAL in its data (clause 4.3.3.1).
_TENTH = 10

#: Amount that every customer has paid at the start, in one payment.
PAID = 10

_TABLES = tuple(schema.TABLES)

Column = np.ndarray | pa.Array | pl.Series


@dataclass(frozen=True)
class Scale:
    """Cardinalities of a warehouse. Values other than the standard's are for tests."""

    items: int = ITEMS
    districts: int = DISTRICTS
    customers: int = CUSTOMERS
    """Customers of a district, which has as many orders."""
    undelivered: int = UNDELIVERED
    """Newest orders of a district, which are not delivered yet."""

    @property
    def delivered(self) -> int:
        """Orders of a district that are delivered."""
        return self.customers - self.undelivered

    @property
    def paid(self) -> int:
        """Amount that a district's customers have paid, its D_YTD: 30,000 in the standard."""
        return PAID * self.customers


STANDARD = Scale()


def items(seed: int, scale: Scale = STANDARD) -> pl.DataFrame:
    """Return the rows of ITEM, which all warehouses share."""
    random, n = _generator(seed, 0, "item"), scale.items
    return _frame(
        "item",
        i_id=_numbered(n),
        i_im_id=_between(random, 1, 10_000, n),
        i_name=texts.a_strings(random, n, 14, 24),
        i_price=_decimal(random.integers(100, 10_000, n, endpoint=True), 2),
        i_data=texts.with_original(random, n, 26, 50, _tenth(random, n)),
    )


def warehouse(
    seed: int, w_id: int, c_last: int, moment: datetime, scale: Scale = STANDARD
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Make the rows of a warehouse, one table after another.

    Args:
        seed: seed of the whole dataset.
        w_id: number of the warehouse, from 1.
        c_last: C of NURand for last names (C-Load).
        moment: time of the system's clock, in UTC.
        scale: cardinalities.

    Yields:
        Name of a table, and its rows in the order of its primary key, with the table's columns.
    """
    yield "warehouse", _warehouse(seed, w_id, scale)
    yield "district", _district(seed, w_id, scale)
    yield "customer", _customer(seed, w_id, c_last, moment, scale)
    yield "history", _history(seed, w_id, moment, scale)
    yield from _orders(seed, w_id, moment, scale)
    yield "stock", _stock(seed, w_id, scale)


def _warehouse(seed: int, w_id: int, scale: Scale) -> pl.DataFrame:
    random = _generator(seed, w_id, "warehouse")
    return _frame(
        "warehouse",
        w_id=np.array([w_id], np.int32),
        w_name=texts.a_strings(random, 1, 6, 10),
        **_address(random, "w", 1),
        w_tax=_tax(random, 1),
        w_ytd=_money(scale.paid * scale.districts, 1),
    )


def _district(seed: int, w_id: int, scale: Scale) -> pl.DataFrame:
    random, n = _generator(seed, w_id, "district"), scale.districts
    return _frame(
        "district",
        d_id=_numbered(n).astype(np.int16),
        d_w_id=_all(w_id, n),
        d_name=texts.a_strings(random, n, 6, 10),
        **_address(random, "d", n),
        d_tax=_tax(random, n),
        d_ytd=_money(scale.paid, n),
        d_next_o_id=_all(scale.customers + 1, n),
    )


def _customer(seed: int, w_id: int, c_last: int, moment: datetime, scale: Scale) -> pl.DataFrame:
    random, n = _generator(seed, w_id, "customer"), scale.districts * scale.customers
    c_id = _of_each_district(_numbered(scale.customers), scale)
    # the first customers get each name once, the others a random one
    drawn = rules.nurand(random, rules.C_LAST_A, 0, rules.LAST_NAMES - 1, c_last, n)
    names = np.where(c_id <= rules.LAST_NAMES, c_id - 1, drawn)
    bad = np.zeros(n, np.int8)
    bad[_tenth(random, n)] = 1
    return _frame(
        "customer",
        c_id=c_id,
        c_d_id=_districts(scale),
        c_w_id=_all(w_id, n),
        c_first=texts.a_strings(random, n, 8, 16),
        c_middle=_constant("OE", n),
        c_last=_LAST_NAMES.take(pa.array(names)),
        **_address(random, "c", n),
        c_phone=texts.of_rows(texts.n_strings(random, n, 16)),
        c_since=_moments(moment, n),
        c_credit=_CREDITS.take(pa.array(bad)),
        c_credit_lim=_money(50_000, n),
        c_discount=_decimal(random.integers(0, 5000, n, endpoint=True), 4),
        c_balance=_money(-PAID, n),
        c_ytd_payment=_money(PAID, n),
        c_payment_cnt=_all(1, n, np.int16),
        c_delivery_cnt=_all(0, n, np.int16),
        c_data=texts.a_strings(random, n, 300, 500),
    )


def _history(seed: int, w_id: int, moment: datetime, scale: Scale) -> pl.DataFrame:
    random, n = _generator(seed, w_id, "history"), scale.districts * scale.customers
    return _frame(
        "history",
        h_c_id=_of_each_district(_numbered(scale.customers), scale),
        h_c_d_id=_districts(scale),
        h_c_w_id=_all(w_id, n),
        h_d_id=_districts(scale),
        h_w_id=_all(w_id, n),
        h_date=_moments(moment, n),
        h_amount=_money(PAID, n),
        h_data=texts.a_strings(random, n, 12, 24),
    )


def _orders(
    seed: int, w_id: int, moment: datetime, scale: Scale
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the orders, the new orders and the order lines."""
    random, n = _generator(seed, w_id, "orders"), scale.districts * scale.customers
    customers = np.tile(_numbered(scale.customers), (scale.districts, 1))
    o_id, d_id = customers.ravel(), _districts(scale)
    lines = random.integers(5, 15, n, dtype=np.int16, endpoint=True)
    is_new = o_id > scale.delivered
    yield (
        "orders",
        _frame(
            "orders",
            o_id=o_id,
            o_d_id=d_id,
            o_w_id=_all(w_id, n),
            o_c_id=random.permuted(customers, axis=1).ravel(),
            o_entry_d=_moments(moment, n),
            o_carrier_id=_or_null(_between(random, 1, 10, n).astype(np.int16), is_new),
            o_ol_cnt=lines,
            o_all_local=_all(1, n, np.int16),
        ),
    )
    new = scale.districts * scale.undelivered
    yield (
        "new_order",
        _frame("new_order", no_o_id=o_id[is_new], no_d_id=d_id[is_new], no_w_id=_all(w_id, new)),
    )
    yield "order_line", _order_line(seed, w_id, moment, scale, o_id, d_id, lines)


def _order_line(
    seed: int,
    w_id: int,
    moment: datetime,
    scale: Scale,
    o_id: np.ndarray,
    d_id: np.ndarray,
    lines: np.ndarray,
) -> pl.DataFrame:
    random, n = _generator(seed, w_id, "order_line"), int(lines.sum())
    ends = np.cumsum(lines, dtype=np.int32)
    number = np.arange(1, n + 1, dtype=np.int32) - np.repeat(ends - lines, lines)
    ol_o_id = np.repeat(o_id, lines)
    is_new = ol_o_id > scale.delivered
    cents = random.integers(1, 999_999, n, endpoint=True)
    return _frame(
        "order_line",
        ol_o_id=ol_o_id,
        ol_d_id=np.repeat(d_id, lines),
        ol_w_id=_all(w_id, n),
        ol_number=number.astype(np.int16),
        ol_i_id=_between(random, 1, scale.items, n),
        ol_supply_w_id=_all(w_id, n),
        ol_delivery_d=_or_null(_moments(moment, n), is_new),
        ol_quantity=_all(5, n, np.int16),
        ol_amount=_decimal(np.where(is_new, cents, 0), 2),
        ol_dist_info=texts.a_strings(random, n, 24),
    )


def _stock(seed: int, w_id: int, scale: Scale) -> pl.DataFrame:
    random, n = _generator(seed, w_id, "stock"), scale.items
    return _frame(
        "stock",
        s_i_id=_numbered(n),
        s_w_id=_all(w_id, n),
        s_quantity=_between(random, 10, 100, n).astype(np.int16),
        **{f"s_dist_{number:02}": texts.a_strings(random, n, 24) for number in range(1, 11)},
        s_ytd=_all(0, n),
        s_order_cnt=_all(0, n, np.int16),
        s_remote_cnt=_all(0, n, np.int16),
        s_data=texts.with_original(random, n, 26, 50, _tenth(random, n)),
    )


def _generator(seed: int, w_id: int, table: str) -> np.random.Generator:
    return np.random.default_rng([seed, w_id, _TABLES.index(table)])


def _frame(table: str, **columns: Column) -> pl.DataFrame:
    """Return the columns in the table's order."""
    return pl.DataFrame({name: _series(columns[name]) for name in schema.TABLES[table].columns})


def _series(column: Column) -> pl.Series:
    if isinstance(column, pa.Array):
        return pl.from_arrow(column)
    return column if isinstance(column, pl.Series) else pl.Series(column)


def _address(random: np.random.Generator, prefix: str, n: int) -> dict[str, pa.Array]:
    zips = np.full((n, 9), ord("1"), np.uint8)
    zips[:, :4] = texts.n_strings(random, n, 4)  # clause 4.3.2.7
    return {
        f"{prefix}_street_1": texts.a_strings(random, n, 10, 20),
        f"{prefix}_street_2": texts.a_strings(random, n, 10, 20),
        f"{prefix}_city": texts.a_strings(random, n, 10, 20),
        f"{prefix}_state": texts.a_strings(random, n, 2),
        f"{prefix}_zip": texts.of_rows(zips),
    }


def _tax(random: np.random.Generator, n: int) -> pa.Array:
    return _decimal(random.integers(0, 2000, n, endpoint=True), 4)


def _decimal(units: np.ndarray, places: int) -> pa.Array:
    """Return decimal numbers from units of their last place: 128 bits each, as in Arrow."""
    wide = np.empty((len(units), 2), np.int64)
    wide[:, 0], wide[:, 1] = units, units >> 63
    type_ = pa.decimal128(18, places)
    return pa.Array.from_buffers(type_, len(units), [None, pa.py_buffer(wide)])


def _money(amount: int, n: int) -> pa.Array:
    return _decimal(_all(amount * 100, n, np.int64), 2)


def _moments(moment: datetime, n: int) -> np.ndarray:
    return np.full(n, np.datetime64(moment, "us"))


def _or_null(values: np.ndarray, is_null: np.ndarray) -> pa.Array:
    return pa.array(values, mask=is_null)


def _constant(text: str, n: int) -> pa.Array:
    return texts.of_rows(np.tile(np.frombuffer(text.encode(), np.uint8), (n, 1)))


def _all(value: int, n: int, dtype: type = np.int32) -> np.ndarray:
    return np.full(n, value, dtype)


def _numbered(n: int) -> np.ndarray:
    return np.arange(1, n + 1, dtype=np.int32)


def _between(random: np.random.Generator, least: int, most: int, n: int) -> np.ndarray:
    return random.integers(least, most, n, dtype=np.int32, endpoint=True)


def _tenth(random: np.random.Generator, n: int) -> np.ndarray:
    """Return a tenth of the numbers below n, at random."""
    return random.permutation(n)[: n // _TENTH]


def _of_each_district(values: np.ndarray, scale: Scale) -> np.ndarray:
    return np.tile(values, scale.districts)


def _districts(scale: Scale) -> np.ndarray:
    """Return the district of each customer, or of each order."""
    return np.repeat(np.arange(1, scale.districts + 1, dtype=np.int16), scale.customers)


_LAST_NAMES = pa.array([rules.last_name(number) for number in range(rules.LAST_NAMES)])
_CREDITS = pa.array(["GC", "BC"])
