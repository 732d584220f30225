"""What a TPC-C result takes: disk space for 60 days, and the price of a tpmC by a user's prices.

Nobody's prices are part of benchlab: without a file of them there is no price/performance.
"""

from pathlib import Path

import polars as pl

from benchlab.errors import BenchlabError

#: Days for which space is to be priced, and what a day of 8 hours comes to (TPC-C 5.11, clause 4.2.3):
#: of the orders that a warehouse begins with, 30,000, one per tpmC is entered in each of 480 minutes.
_DAYS, _OF_DAY = 60, 62.5
_DAY_MINUTES = 480

#: Free space that growth may take before it is spread (clause 4.2.3).
_HEADROOM = 1.5

#: A file of prices. ``maintenance_3_years`` is of all units together; ``category`` is a word of the
#: user's, such as hardware or software, by which shares of the total are told.
PRICES = {
    "part": pl.String,
    "category": pl.String,
    "quantity": pl.Int64,
    "unit_price": pl.Float64,
    "maintenance_3_years": pl.Float64,
    "currency": pl.String,
}


def space(
    dynamic_bytes: float, static_bytes: float, free_bytes: float, warehouses: int, tpmc: float
) -> pl.DataFrame:
    """Return the space that the tables take in 60 days of 8 hours (clause 4.2.3).

    Columns: ``what``, ``bytes``.

    Args:
        dynamic_bytes: of HISTORY, ORDERS and ORDER_LINE with their indexes, as loaded.
        static_bytes: of all else that is allocated, without free space.
        free_bytes: allocated for rows that are not there yet.
        warehouses: that are loaded.
        tpmc: of the run.
    """
    growth = dynamic_bytes / (warehouses * _OF_DAY) * tpmc
    spread = max(0.0, free_bytes - _HEADROOM * growth)
    return _bytes(
        {
            "dynamic space": dynamic_bytes,
            "static space": static_bytes,
            "free space": free_bytes,
            "daily growth": growth,
            "daily spread": spread,
            "60-day space": static_bytes + _DAYS * (growth + spread),
        }
    )


def measured_growth(grown_bytes: float, new_orders: int, tpmc: float) -> pl.DataFrame:
    """Return what the tables grow by, as a run made them grow: ``what``, ``bytes``.

    It takes the place of ``dynamic space`` in nothing that is disclosed; beside the daily growth of
    :func:`space` it says whether rows that are entered take what loaded ones do.

    Args:
        grown_bytes: by which all tables grew over the run.
        new_orders: that were entered meanwhile, one or more.
        tpmc: of the run.
    """
    of_order = grown_bytes / new_orders
    return _bytes(
        {"growth by New-Order": of_order, "daily growth, measured": of_order * tpmc * _DAY_MINUTES}
    )


def _bytes(rows: dict[str, float]) -> pl.DataFrame:
    return pl.DataFrame(
        {"what": list(rows), "bytes": [float(value) for value in rows.values()]},
        schema={"what": pl.String, "bytes": pl.Float64},
    )


def prices(path: Path) -> pl.DataFrame:
    """Return a user's prices: :data:`PRICES`, a row per part; none if nobody filled the file in.

    Raises:
        BenchlabError: the file lacks a column or a number, or has prices in several currencies.
    """
    try:
        found = pl.read_csv(path, schema_overrides=PRICES)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BenchlabError(f"prices {path}: {str(error).splitlines()[0]}") from error
    if missing := PRICES.keys() - set(found.columns):
        raise BenchlabError(f"prices {path}: no column {', '.join(sorted(missing))}")
    found = found.select(*PRICES)
    for part, row in zip(found["part"], found.iter_rows(), strict=True):
        if None in row:
            raise BenchlabError(f"prices {path}: the part {part!r} has an empty cell")
    if len(currencies := found["currency"].unique().sort()) > 1:
        raise BenchlabError(f"prices {path}: several currencies: {', '.join(currencies)}")
    return found


def price_performance(prices: pl.DataFrame, tpmc: float) -> pl.DataFrame:
    """Return the price of a tpmC over three years, and what shares of the total are for.

    Columns: ``what``, ``value``, ``unit``. It is empty without prices, and of a run without throughput.

    Args:
        prices: see :func:`prices`.
        tpmc: of a run in which terminals kept the standard's keying and think times.
    """
    schema = {"what": pl.String, "value": pl.Float64, "unit": pl.String}
    if prices.is_empty() or not tpmc:
        return pl.DataFrame(schema=schema)
    cost = pl.col("quantity") * pl.col("unit_price") + pl.col("maintenance_3_years")
    by_category = prices.group_by("category", maintain_order=True).agg(cost.sum().alias("cost"))
    total, currency = by_category["cost"].sum(), prices["currency"][0]
    rows = [
        ("total over three years", total, currency),
        ("price/performance", total / tpmc, f"{currency}/tpmC"),
        *((f"share of {name}", 100 * value / total, "%") for name, value in by_category.rows()),
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")
