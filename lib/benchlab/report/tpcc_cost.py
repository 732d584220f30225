"""Cost of a TPC-C result: disk space for 60 days, and the price of a tpmC from a user's prices.

benchlab includes no prices. Without a user's file of prices there is no price/performance.
"""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from benchlab.drivers.tpcc.limits import PER_WAREHOUSE
from benchlab.engines import TABLE_BYTES
from benchlab.errors import BenchlabError
from benchlab.report import points
from benchlab.report.tpcc import Run
from benchlab.store.results import Rerun
from benchlab.store.schema import quoted

#: Days for which space is to be priced, and the divisor of a day's growth (TPC-C 5.11, clause 4.2.3). A
#: warehouse begins with 30,000 orders; a day of 8 hours adds 480 orders per tpmC (30,000 / 480 = 62.5).
_DAYS, _OF_DAY = 60, 62.5

#: File of a user's prices, relative to the checkout.
FILE = Path("data", "prices", "tpcc.csv")

#: Tables to which orders add rows (clause 4.2.3): HISTORY, ORDER and ORDER-LINE.
_GROWING = ("history", "orders", "order_line")

#: Columns of a file of prices. ``maintenance_3_years`` is for all units together. ``category`` is the
#: user's word, such as hardware or software; shares of the total are given by category.
PRICES = {
    "part": pl.String,
    "category": pl.String,
    "quantity": pl.Int64,
    "unit_price": pl.Float64,
    "maintenance_3_years": pl.Float64,
    "currency": pl.String,
}


def space(rerun: Rerun) -> pl.DataFrame:
    """Return the space of each engine's tables for 60 days of 8 hours.

    Sizes are the smallest at the start of a measured part among the runs that represent their points:
    a ramp-up adds rows. The tpmC is the most that the warehouses give at TPC-C's pacing, since an
    order's rows do not depend on the pace. Free space is not known, so the space for daily spread is
    left out.

    Columns: ``engine``, ``version``, ``runs``, ``tpmC``, and in MB ``loaded``, ``dynamic space``,
    ``static space``, ``daily growth``, ``60-day space``. There are no rows for engines whose runs have
    no sizes of tables, as those of an older benchlab.
    """
    warehouses = rerun.study.profile(rerun.profile).dataset.warehouses
    tpmc = PER_WAREHOUSE[1] * warehouses
    growing = ", ".join(quoted(f"{TABLE_BYTES}{table}") for table in _GROWING)
    sizes = rerun.of_runs(
        f"SELECT run_id, sum(at_begin) AS dynamic FROM engine_counter SEMI JOIN chosen USING (run_id)"
        f" WHERE name IN ({growing}) GROUP BY run_id"
    )
    found = (
        rerun.metrics.join(sizes, on="run_id")
        .group_by("engine", pl.col("engine_version").alias("version"))
        .agg(pl.len().alias("runs"), pl.col("dataset_bytes", "dynamic").min())
    )
    rows = []
    for one in points.in_order(found, rerun.study, "version").iter_rows(named=True):
        loaded, dynamic = one["dataset_bytes"], one["dynamic"]
        after = sixty_days(dynamic, loaded - dynamic, warehouses, tpmc)
        rows.append(
            {
                "engine": rerun.study.label(one["engine"]),
                "version": one["version"],
                "runs": one["runs"],
                "tpmC": tpmc,
                "loaded (MB)": loaded / 1e6,
                **{f"{what} (MB)": of / 1e6 for what, of in after.items()},
            }
        )
    return pl.DataFrame(rows)


def sixty_days(
    dynamic_bytes: float, static_bytes: float, warehouses: int, tpmc: float
) -> dict[str, float]:
    """Return the space of the tables for 60 days of 8 hours, in bytes (clause 4.2.3).

    Keys: ``dynamic space``, ``static space``, ``daily growth``, ``60-day space``.

    Args:
        dynamic_bytes: size of HISTORY, ORDERS and ORDER_LINE with their indexes, as loaded.
        static_bytes: all other allocated space.
        warehouses: number of loaded warehouses.
        tpmc: the run's tpmC.
    """
    growth = dynamic_bytes / (warehouses * _OF_DAY) * tpmc
    return {
        "dynamic space": dynamic_bytes,
        "static space": static_bytes,
        "daily growth": growth,
        "60-day space": static_bytes + _DAYS * growth,
    }


def prices(path: Path) -> pl.DataFrame:
    """Return a user's prices: columns :data:`PRICES`, one row per part; no rows if none is filled in.

    Raises:
        BenchlabError: the file cannot be read, lacks a column, has an empty cell, or has prices in
            several currencies.
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


def price_performance(prices: pl.DataFrame, runs: Iterable[Run]) -> pl.DataFrame:
    """Return the price of a tpmC over three years, and the share of each category in the total.

    Columns: ``curve``, ``what``, ``value``, ``unit``. It is empty without prices. Runs without a tpmC
    (:attr:`Run.tpmc <benchlab.report.tpcc.Run.tpmc>`), or that did not pass the gate, are left out.

    Args:
        prices: see :func:`prices`.
        runs: see :func:`benchlab.report.tpcc.reported`.
    """
    schema = {"curve": pl.String, "what": pl.String, "value": pl.Float64, "unit": pl.String}
    priced = [run for run in runs if run.tpmc and run.passed_gate]
    if prices.is_empty() or not priced:
        return pl.DataFrame(schema=schema)
    cost = pl.col("quantity") * pl.col("unit_price") + pl.col("maintenance_3_years")
    by_category = prices.group_by("category", maintain_order=True).agg(cost.sum().alias("cost"))
    total, currency = by_category["cost"].sum(), prices["currency"][0]
    shares = [(f"share of {name}", 100 * cost / total, "%") for name, cost in by_category.rows()]
    rows = [
        (run.curve, *row)
        for run in priced
        for row in (
            ("total over three years", total, currency),
            ("price/performance", total / run.tpmc, f"{currency}/tpmC"),
            *shares,
        )
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def unpriced(prices: pl.DataFrame, runs: Iterable[Run]) -> str:
    """Say why there is no price/performance; empty if there is one.

    Args:
        prices: see :func:`prices`.
        runs: see :func:`benchlab.report.tpcc.reported`.
    """
    if prices.is_empty():
        return "No price is given: data/prices/README.md says how to give one."
    if price_performance(prices, runs).is_empty():
        return (
            "No run that passed the gate had ten terminals a warehouse at TPC-C's pacing, so there is"
            " no tpmC to divide a price by."
        )
    return ""
