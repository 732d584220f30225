"""TPC-C's population: clause 4.3.3.1 held against one standard warehouse, and COPY's binary format."""

import struct
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from benchlab.workloads.tpcc import binary_copy, population, rules, schema, texts
from benchlab.workloads.tpcc.population import Scale
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from test_tpcc_rules import probabilities

NOON = datetime(2026, 11, 24, 12, 0, 0)
C_LAST = 123
TINY = Scale(items=30, districts=2, customers=12, undelivered=4)

Tables = dict[str, pl.DataFrame]


def made(w_id: int = 1, seed: int = 1, scale: Scale = TINY) -> Tables:
    """All rows of one warehouse, and the items."""
    of_warehouse = dict(population.warehouse(seed, w_id, C_LAST, NOON, scale))
    return of_warehouse | {"item": population.items(seed, scale)}


@pytest.fixture(scope="module")
def standard() -> Tables:
    return made(scale=population.STANDARD)


def is_uniform(series: pl.Series, least: int, most: int) -> bool:
    """Whether integers are as likely from ``least`` to ``most``, and none beyond."""
    counts = np.bincount(series.cast(pl.Int64).to_numpy() - least)
    assert len(counts) == most - least + 1
    return least == most or chisquare(counts).pvalue > 0.001


def is_text(series: pl.Series, least: int, most: int) -> bool:
    """Whether texts are of these lengths, each as likely, and of the alphabet alone."""
    assert series.str.contains("^[a-zA-Z0-9]*$").all()
    return is_uniform(series.str.len_bytes(), least, most)


def test_there_are_as_many_rows_as_the_standard_has(standard):
    counts = {name: len(rows) for name, rows in standard.items()}
    lines = counts.pop("order_line")
    assert counts == {
        "warehouse": 1,
        "district": 10,
        "customer": 30_000,
        "history": 30_000,
        "orders": 30_000,
        "new_order": 9_000,
        "stock": 100_000,
        "item": 100_000,
    }
    assert abs(lines - 300_000) <= 3_000
    assert lines == standard["orders"]["o_ol_cnt"].sum()


def test_tables_have_the_columns_of_the_schema(standard):
    assert standard.keys() == schema.TABLES.keys()
    for name, rows in standard.items():
        assert rows.columns == list(schema.TABLES[name].columns)
        nulls = {column for column in rows.columns if rows[column].null_count()}
        declared = schema.TABLES[name].columns.items()
        assert nulls == {column for column, type_ in declared if type_.endswith("NULL")}


def test_rows_are_in_the_order_of_their_primary_key_which_is_unique(standard):
    for name, rows in standard.items():
        if key := schema.TABLES[name].key:
            keys = rows.select(key)
            assert keys.equals(keys.sort(key))
            assert keys.is_unique().all()


def test_a_warehouse_is_the_same_whoever_makes_it_and_other_than_the_others():
    again, other, reseeded = made(2), made(3), made(2, seed=9)
    for name, rows in made(2).items():
        assert rows.equals(again[name])
        assert not rows.equals(reseeded[name]) or name == "new_order"
        # items are of all warehouses
        assert not rows.equals(other[name]) or name == "item"


def test_items(standard):
    rows = standard["item"]
    assert is_uniform((rows["i_im_id"] - 1) // 100, 0, 99)
    assert is_text(rows["i_name"], 14, 24)
    assert is_uniform((rows["i_price"].cast(pl.Float64) * 100).round(), 100, 10_000)
    assert is_text(rows["i_data"], 26, 50)


@pytest.mark.parametrize(("table", "column"), [("item", "i_data"), ("stock", "s_data")])
def test_original_is_in_a_tenth_of_the_texts_at_any_place(standard, table, column):
    texts_ = standard[table][column]
    with_it = texts_.filter(texts_.str.contains("ORIGINAL"))
    assert len(with_it) == 10_000
    # of the shortest ones, where it begins
    short = with_it.filter(with_it.str.len_bytes() <= 30)
    assert is_uniform(short.str.find("ORIGINAL").filter(short.str.len_bytes() == 26), 0, 18)


def test_stock(standard):
    rows = standard["stock"]
    assert is_uniform(rows["s_quantity"], 10, 100)
    assert is_text(rows["s_data"], 26, 50)
    for number in range(1, 11):
        assert is_text(rows[f"s_dist_{number:02}"], 24, 24)
    assert rows.select("s_ytd", "s_order_cnt", "s_remote_cnt").sum().row(0) == (0, 0, 0)


def test_customers(standard):
    rows = standard["customer"]
    assert is_text(rows["c_first"], 8, 16)
    assert is_text(rows["c_street_1"], 10, 20)
    assert is_text(rows["c_data"], 300, 500)
    assert rows["c_zip"].str.contains("^[0-9]{4}11111$").all()
    assert rows["c_phone"].str.contains("^[0-9]{16}$").all()
    assert is_uniform(rows["c_zip"].str.head(4).cast(pl.Int32) // 100, 0, 99)
    discounts = (rows["c_discount"].cast(pl.Float64) * 10_000).round()
    assert is_uniform(discounts.filter(discounts < 5000) // 50, 0, 99)
    assert discounts.max() <= 5000
    assert rows["c_credit"].value_counts(sort=True).rows() == [("GC", 27_000), ("BC", 3_000)]
    fixed = rows.select(pl.col("c_middle", "c_since", "c_credit_lim", "c_balance").unique())
    assert fixed.rows() == [("OE", NOON, Decimal(50_000), Decimal(-10))]
    counted = rows.select(pl.col("c_ytd_payment", "c_payment_cnt", "c_delivery_cnt").unique())
    assert counted.rows() == [(Decimal(10), 1, 0)]


def test_the_first_thousand_last_names_are_all_there_are_the_others_are_drawn(standard):
    rows = standard["customer"]
    names = {rules.last_name(number): number for number in range(1000)}
    first = rows.filter(pl.col("c_id") <= 1000)
    assert first["c_last"].to_list() == list(names) * 10
    drawn = rows.filter(pl.col("c_id") > 1000)["c_last"].replace_strict(names).to_numpy()
    expected = probabilities(rules.C_LAST_A, 0, 999, C_LAST) * len(drawn)
    bins = np.array_split(np.argsort(expected, kind="stable"), 50)
    counts = np.bincount(drawn, minlength=1000)
    found = [counts[one].sum() for one in bins]
    assert chisquare(found, [expected[one].sum() for one in bins]).pvalue > 0.001


def test_orders(standard):
    rows, new = standard["orders"], standard["new_order"]
    assert is_uniform(rows["o_ol_cnt"], 5, 15)
    assert is_uniform(rows["o_carrier_id"].drop_nulls(), 1, 10)
    is_new = rows.filter(pl.col("o_carrier_id").is_null())
    assert is_new["o_id"].unique().to_list() == list(range(2101, 3001))
    keys = is_new.select("o_id", "o_d_id", "o_w_id")
    assert new.rows() == keys.rows()
    of_districts = [one["o_c_id"].to_list() for one in rows.partition_by("o_d_id")]
    assert all(sorted(one) == list(range(1, 3001)) for one in of_districts)
    assert len(set(map(tuple, of_districts))) == 10


def test_order_lines(standard):
    rows = standard["order_line"]
    assert is_uniform(rows["ol_i_id"] % 1000, 0, 999)
    assert rows["ol_i_id"].min() >= 1
    assert rows["ol_i_id"].max() <= 100_000
    new, delivered = rows.filter(pl.col("ol_o_id") > 2100), rows.filter(pl.col("ol_o_id") <= 2100)
    assert new["ol_delivery_d"].null_count() == len(new)
    assert delivered["ol_delivery_d"].unique().to_list() == [NOON]
    assert delivered["ol_amount"].unique().to_list() == [Decimal(0)]
    cents = (new["ol_amount"].cast(pl.Float64) * 100).round().cast(pl.Int64)
    assert cents.min() >= 1
    assert cents.max() <= 999_999
    assert is_uniform((cents - 1) // 10_000, 0, 99)
    counted = rows.group_by("ol_d_id", "ol_o_id", maintain_order=True).agg(
        pl.len(), pl.col("ol_number").max().alias("last")
    )
    assert counted["len"].to_list() == standard["orders"]["o_ol_cnt"].to_list()
    assert counted["last"].to_list() == standard["orders"]["o_ol_cnt"].to_list()
    assert rows["ol_quantity"].unique().to_list() == [5]


def test_money_of_warehouse_and_districts_is_what_their_payments_are(standard):
    paid = standard["history"]["h_amount"].sum()
    assert standard["warehouse"]["w_ytd"].sum() == paid == Decimal(300_000)
    assert standard["district"]["d_ytd"].sum() == paid
    assert standard["district"]["d_next_o_id"].unique().to_list() == [3001]
    assert standard["warehouse"]["w_tax"].item() <= Decimal("0.2")


def test_every_character_is_as_likely_alone_and_after_any_other():
    drawn = texts.characters(np.random.default_rng(1), 2_000_001)
    assert len(drawn) == 2_000_001
    counts = np.bincount(drawn, minlength=128)
    assert (
        np.flatnonzero(counts).astype(np.uint8).tobytes()
        == "".join(sorted(texts.ALPHABET)).encode()
    )
    assert chisquare(counts[counts > 0]).pvalue > 0.001
    for first in (0, 1):  # within a pair that is drawn at once, and across two
        even = drawn[first:-1] if (len(drawn) - first) % 2 else drawn[first:]
        pairs = np.unique(even.copy().view(np.uint16), return_counts=True)[1]
        assert len(pairs) == len(texts.ALPHABET) ** 2
        assert chisquare(pairs).pvalue > 0.001


# COPY's binary format


def decoded(content: bytes) -> Iterator[list[bytes | None]]:
    """Read rows as the documentation of COPY has them."""
    at = 0
    while at < len(content):
        (width,) = struct.unpack_from(">h", content, at)
        at += 2
        row = []
        for _ in range(width):
            (length,) = struct.unpack_from(">i", content, at)
            at += 4
            row.append(None if length < 0 else content[at : at + length])
            at += max(length, 0)
        yield row


def decimal(content: bytes) -> Decimal:
    """Read a numeric as PostgreSQL's ``numeric_recv`` does."""
    count, weight, sign, scale = struct.unpack_from(">hhHH", content)
    digits = struct.unpack_from(f">{count}H", content, 8)
    assert len(content) == 8 + 2 * count
    assert all(digit < 10_000 for digit in digits)
    value = sum(Decimal(digit).scaleb(4 * (weight - place)) for place, digit in enumerate(digits))
    return (-value if sign == 0x4000 else Decimal(value)).quantize(Decimal(1).scaleb(-scale))


def moment(content: bytes) -> datetime:
    (us,) = struct.unpack(">q", content)
    return datetime(2000, 1, 1) + timedelta(microseconds=us)


def integer(content: bytes) -> int:
    return int.from_bytes(content, signed=True)


READ = {
    pl.Int16(): integer,
    pl.Int32(): integer,
    pl.Int64(): integer,
    pl.Decimal(18, 2): decimal,
    pl.Decimal(18, 4): decimal,
    pl.Datetime("us"): moment,
    pl.String(): bytes.decode,
}
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**15), 2**15 - 1),
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(10**14), 10**14).map(lambda cents: Decimal(cents).scaleb(-2)),
        st.none() | st.integers(-(10**8), 10**8).map(lambda units: Decimal(units).scaleb(-4)),
        st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 12, 31)),
        st.text(st.characters(codec="utf-8"), max_size=6),
    ),
    min_size=1,
    max_size=5,
)


@given(ROWS)
def test_rows_of_any_values_are_read_from_the_binary_format(rows):
    frame = pl.DataFrame(rows, schema=dict(zip("abcdefg", READ, strict=True)), orient="row")
    read = [
        tuple(
            None if value is None else of_type(value)
            for value, of_type in zip(row, READ.values(), strict=True)
        )
        for row in decoded(bytes(binary_copy.encode(frame)))
    ]
    assert read == frame.rows() == rows


def test_rows_may_be_a_part_of_others():
    rows = made()["customer"]
    encoded = binary_copy.encode(rows)
    parts = [binary_copy.encode(rows[:5]), binary_copy.encode(rows[5:])]
    assert b"".join(parts) == encoded


@pytest.mark.parametrize("table", schema.TABLES)
def test_every_table_is_read_from_the_binary_format(table):
    rows = made()[table]
    read = [
        tuple(
            None if value is None else READ[of_type](value)
            for value, of_type in zip(row, rows.dtypes, strict=True)
        )
        for row in decoded(bytes(binary_copy.encode(rows)))
    ]
    assert read == rows.rows()
