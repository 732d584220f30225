"""Check that loaded tables have the standard's population: how many rows, with which values.

Rows are counted in every warehouse. Values are checked in the first warehouses only, so that a large
database takes no longer than a small one. A chi-square test compares each distribution with the
standard's.
"""

from collections.abc import Iterator, Mapping, Sequence

from benchlab.engines.base import Ask
from benchlab.observers.outcomes import Outcome
from benchlab.workloads.tpcc import rules, schema
from benchlab.workloads.tpcc.dataset import Tpcc
from benchlab.workloads.tpcc.population import PAID, STANDARD, Scale
from benchlab.workloads.tpcc.rules import Constants

#: Number of warehouses whose values are checked, from the first one on.
_LOOKED_AT = 10

#: Share of order lines that a warehouse may have more or fewer than the standard says (clause 4.2.2).
_TOLERANCE = 0.01

#: Share of rows with ORIGINAL, or with bad credit, and how far it may be off (clause 4.3.3.1).
_SHARE, _SHARE_TOLERANCE = 0.10, 0.05 * 0.10

#: A distribution with a smaller p-value is refused. The limit is so low that of a million good loads
#: about one is refused.
_P_VALUE = 1e-7

#: Rows that a chi-square test needs in each of its bins.
_EXPECTED_LEAST = 5


def outcomes(
    ask: Ask, dataset: Tpcc, load: Constants, scale: Scale = STANDARD
) -> Iterator[Outcome]:
    """Check the tables, and yield the outcome of each check.

    Args:
        ask: the server, with its tables as they were loaded.
        dataset: the dataset that they were loaded from.
        load: C-Load.
        scale: cardinalities of a warehouse.

    Raises:
        EngineError: the server refused a query.
    """
    yield from _cardinalities(ask, dataset.warehouses, scale)
    of = f"<= {min(_LOOKED_AT, dataset.warehouses)}"
    for name, query in _exceptions(of, scale).items():
        (row,) = ask(query)
        n = int(row["n"])
        yield Outcome(name, f"{n:,} rows do not" if n else "all rows do", n == 0)
    for name, (rows, table) in _shares(of).items():
        (row,) = ask(f"SELECT ({rows}) AS part, ({table}) AS n")
        n = row["n"]
        share = row["part"] / n if n else 0.0
        passed = n > 0 and abs(share - _SHARE) <= max(_SHARE_TOLERANCE, 1 / n)
        yield Outcome(name, f"{share:.2%}", passed)
    for name, (query, weights) in _distributions(of, scale, load).items():
        yield _compared(name, ask(query), weights)


def _cardinalities(ask: Ask, warehouses: int, scale: Scale) -> Iterator[Outcome]:
    of_district = scale.districts * scale.customers
    expected = {
        "warehouse": 1,
        "district": scale.districts,
        "customer": of_district,
        "history": of_district,
        "orders": of_district,
        "new_order": scale.districts * scale.undelivered,
        "stock": scale.items,
    }
    counted = {}
    for table, column in schema.WAREHOUSE_OF.items():
        rows = ask(f"SELECT {column} AS w_id, COUNT(*) AS n FROM {table} GROUP BY {column}")
        counted[table] = {row["w_id"]: row["n"] for row in rows}
    wanted = {table: dict.fromkeys(range(1, warehouses + 1), n) for table, n in expected.items()}
    for table, of_each in wanted.items():
        yield _rows(table, counted[table], counted[table] == of_each)
    lines = counted["order_line"]
    mean = of_district * 10
    within = (abs(n - mean) <= _tolerance(mean, of_district) for n in lines.values())
    yield _rows("order_line", lines, lines.keys() == wanted["orders"].keys() and all(within))
    (items,) = ask("SELECT COUNT(*) AS n FROM item")
    yield Outcome("rows of item (4.3.3.1)", f"{items['n']:,}", items["n"] == scale.items)


def _tolerance(mean: float, orders: int) -> float:
    """Return how far the number of a warehouse's order lines may be from the mean.

    Few orders, as in tests, vary by more than the standard allows: so at least six standard deviations.
    The variance of a number from 5 to 15 is 10.
    """
    return max(_TOLERANCE * mean, 6 * (10 * orders) ** 0.5)


def _rows(table: str, counted: Mapping[int, int], passed: bool) -> Outcome:
    least, most = (choose(counted.values(), default=0) for choose in (min, max))
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    answer = f"{each} in each of {len(counted):,} warehouses"
    return Outcome(f"rows of {table} (4.3.3.1)", answer, passed)


def _exceptions(of: str, scale: Scale) -> dict[str, str]:
    """Return a rule for all rows → query that counts those which break it (clause 4.3.3.1)."""
    where = {
        "W_YTD is what was paid": ("warehouse", f"w_ytd <> {scale.paid * scale.districts}"),
        "W_TAX and D_TAX are at most 0.2": (
            "warehouse JOIN district ON d_w_id = w_id",
            "w_tax NOT BETWEEN 0 AND 0.2 OR d_tax NOT BETWEEN 0 AND 0.2",
        ),
        "D_YTD is what was paid, D_NEXT_O_ID the next order's": (
            "district",
            f"d_ytd <> {scale.paid} OR d_next_o_id <> {scale.customers + 1}",
        ),
        "customers owe what they paid": (
            "customer",
            f"c_balance <> -{PAID} OR c_ytd_payment <> {PAID} OR c_payment_cnt <> 1"
            " OR c_delivery_cnt <> 0 OR c_credit_lim <> 50000 OR c_middle <> 'OE'",
        ),
        "ZIP codes end in 11111": ("customer", "c_zip NOT LIKE '____11111'"),
        "a payment is 10.00 and one's own": (
            "history",
            f"h_amount <> {PAID} OR h_w_id <> h_c_w_id OR h_d_id <> h_c_d_id",
        ),
        "orders up to the newest have a carrier, all are local": (
            "orders",
            f"(o_id <= {scale.delivered}) <> (o_carrier_id IS NOT NULL) OR o_all_local <> 1",
        ),
        "new orders are the newest": ("new_order", f"no_o_id <= {scale.delivered}"),
        "order lines are delivered when the order was made, or not at all": (
            "order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id",
            f"o_id <= {scale.delivered} AND (ol_delivery_d <> o_entry_d OR ol_delivery_d IS NULL"
            f" OR ol_amount <> 0) OR o_id > {scale.delivered} AND (ol_delivery_d IS NOT NULL"
            " OR ol_amount <= 0)",
        ),
        "order lines are of 5 pieces, from their own warehouse": (
            "order_line",
            "ol_quantity <> 5 OR ol_supply_w_id <> ol_w_id",
        ),
        "stock has not moved": ("stock", "s_ytd <> 0 OR s_order_cnt <> 0 OR s_remote_cnt <> 0"),
    }
    queries = {}
    for name, (tables, condition) in where.items():
        column = schema.WAREHOUSE_OF[tables.partition(" ")[0]]
        queries[name] = f"SELECT COUNT(*) AS n FROM {tables} WHERE {column} {of} AND ({condition})"
    queries["every customer has one order"] = (
        "SELECT COUNT(*) AS n FROM (SELECT o_w_id, o_d_id FROM orders"
        f" WHERE o_w_id {of} GROUP BY o_w_id, o_d_id"
        f" HAVING COUNT(DISTINCT o_c_id) <> {scale.customers}"
        f" OR MIN(o_c_id) <> 1 OR MAX(o_c_id) <> {scale.customers}) AS d"
    )
    return {f"{name} (4.3.3.1)": query for name, query in queries.items()}


def _shares(of: str) -> dict[str, tuple[str, str]]:
    """Return a property of a tenth of the rows → queries that count the rows with it, and all rows."""
    where = {
        "I_DATA with ORIGINAL": ("item", "i_id > 0", "i_data LIKE '%ORIGINAL%'"),
        "S_DATA with ORIGINAL": ("stock", f"s_w_id {of}", "s_data LIKE '%ORIGINAL%'"),
        "customers with bad credit": ("customer", f"c_w_id {of}", "c_credit = 'BC'"),
    }
    return {
        f"{name} (4.3.3.1)": (
            f"SELECT COUNT(*) FROM {table} WHERE {some} AND {condition}",
            f"SELECT COUNT(*) FROM {table} WHERE {some}",
        )
        for name, (table, some, condition) in where.items()
    }


def _distributions(
    of: str, scale: Scale, load: Constants
) -> dict[str, tuple[str, Mapping[str | int, float]]]:
    """Return what is distributed → query for how often each value occurs, and each value's weight."""
    lines = f"order_line WHERE ol_w_id {of}"
    grouped = {
        "O_OL_CNT": ("o_ol_cnt", f"orders WHERE o_w_id {of}", dict.fromkeys(range(5, 16), 1)),
        "O_CARRIER_ID": (
            "o_carrier_id",
            f"orders WHERE o_w_id {of} AND o_carrier_id IS NOT NULL",
            dict.fromkeys(range(1, 11), 1),
        ),
        "S_QUANTITY": ("s_quantity", f"stock WHERE s_w_id {of}", dict.fromkeys(range(10, 101), 1)),
        "OL_I_ID, its last two digits": (
            "MOD(ol_i_id, 100)",
            lines,
            {last: len(range(last or 100, scale.items + 1, 100)) for last in range(100)},
        ),
        "OL_AMOUNT, its hundreds": (
            "FLOOR(ol_amount / 100)",
            f"{lines} AND ol_amount > 0",
            {0: 9_999} | dict.fromkeys(range(1, 100), 10_000),  # from 0.01 to 9,999.99
        ),
        "C_DISCOUNT, its hundredths": (
            "FLOOR(c_discount * 100)",
            f"customer WHERE c_w_id {of}",
            dict.fromkeys(range(50), 100) | {50: 1},  # from 0.0000 to 0.5000
        ),
        "I_PRICE, without cents": (
            "FLOOR(i_price)",
            "item WHERE i_id > 0",
            dict.fromkeys(range(1, 100), 100) | {100: 1},  # from 1.00 to 100.00
        ),
        "length of C_DATA": (
            "CHAR_LENGTH(c_data)",
            f"customer WHERE c_w_id {of}",
            dict.fromkeys(range(300, 501), 1),
        ),
        "length of S_DATA": (
            "CHAR_LENGTH(s_data)",
            f"stock WHERE s_w_id {of}",
            dict.fromkeys(range(26, 51), 1),
        ),
    }
    if scale.customers > rules.LAST_NAMES:
        drawn = f"customer WHERE c_w_id {of} AND c_id > {rules.LAST_NAMES}"
        grouped["C_LAST (2.1.6)"] = ("c_last", drawn, _last_names(load))
    return {
        f"{name} (4.3.3.1)": (
            f"SELECT {value} AS value, COUNT(*) AS n FROM {rows} GROUP BY {value}",
            weights,
        )
        for name, (value, rows, weights) in grouped.items()
    }


def _last_names(load: Constants) -> dict[str, float]:
    """Return last name → how many of all pairs of NURand's draws give it, the rarest name first."""
    n, times = rules.LAST_NAMES, [0] * rules.LAST_NAMES
    for left in range(rules.C_LAST_A + 1):
        for right in range(n):
            times[((left | right) + load.c_last) % n] += 1
    return {rules.last_name(one): times[one] for one in sorted(range(n), key=times.__getitem__)}


def _compared(name: str, rows: Sequence[Mapping], weights: Mapping[str | int, float]) -> Outcome:
    """Compare how often values occur with how often they should."""
    kind = type(next(iter(weights)))
    found = {kind(row["value"]): int(row["n"]) for row in rows}
    if unknown := found.keys() - weights.keys():
        return Outcome(name, f"{len(unknown)} values that there should not be", False)
    # scipy takes a second to import
    from scipy.stats import chisquare

    total, whole = sum(found.values()), sum(weights.values())
    expected = [weight * total / whole for weight in weights.values()]
    bins = _bins([found.get(value, 0) for value in weights], expected)
    p_value = float(chisquare(*bins).pvalue)
    answer = f"p = {p_value:.2g} over {len(bins[0])} bins of {total:,} rows"
    return Outcome(name, answer, p_value >= _P_VALUE)


def _bins(found: Sequence[float], expected: Sequence[float]) -> tuple[list[float], list[float]]:
    """Join neighbouring bins until enough rows are expected in each."""
    bins: list[list[float]] = [[0, 0]]
    for one in zip(found, expected, strict=True):
        if bins[-1][1] >= _EXPECTED_LEAST:
            bins.append([0, 0])
        bins[-1] = [sum(pair) for pair in zip(bins[-1], one, strict=True)]
    if len(bins) > 1 and bins[-1][1] < _EXPECTED_LEAST:
        last = bins.pop()
        bins[-1] = [sum(pair) for pair in zip(bins[-1], last, strict=True)]
    return tuple(map(list, zip(*bins, strict=True)))
