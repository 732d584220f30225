"""Checks of whether a run keeps the standard's rules (TPC-C 5.11), from what its terminals recorded.

:func:`checks` returns a row for each rule: what was measured, what is allowed, and the answer: kept,
broken or undecided (:mod:`benchlab.drivers.tpcc.chance`).
"""

from dataclasses import dataclass

import polars as pl

from benchlab.drivers.base import RULES
from benchlab.drivers.tpcc import checks as rules
from benchlab.drivers.tpcc import measured
from benchlab.drivers.tpcc.checks import Mix
from benchlab.drivers.tpcc.measured import Interval

#: Result of a Delivery's deferred part (clause 2.7.2): when it was queued; when it was completed, null
#: if never; in how many districts an order was delivered, and how many districts had no order; how
#: often it was repeated, since the database broke it off.
DELIVERIES = {
    "w_id": pl.Int32,
    "carrier": pl.Int8,
    "queued_us": pl.Int64,
    "completed_us": pl.Int64,
    "delivered": pl.Int8,
    "skipped": pl.Int8,
    "retries": pl.Int64,
}

#: Rows of the tables before the run.
CARDINALITIES = {"table": pl.String, "rows": pl.Int64}


@dataclass(frozen=True)
class Facts:
    """Facts about a run that its records do not hold."""

    warehouses: int
    """Number of active warehouses."""
    interval: Interval
    mix: Mix
    """How terminals drew the types of transactions."""
    ramp_up: Interval | None = None
    """Part of the ramp-up with all terminals connected; ``None``: it was not recorded."""


@dataclass(frozen=True)
class Recorded:
    """What was recorded of a run; if a part is ``None``, its checks are undecided."""

    records: pl.DataFrame
    """See :data:`benchlab.drivers.tpcc.records.RECORDS`; may include records of other phases."""
    deliveries: pl.DataFrame | None = None
    """See :data:`DELIVERIES`."""
    checkpoints: pl.DataFrame | str = "no checkpoints were recorded"
    """See :data:`benchlab.engines.base.CHECKPOINTS`, including those before and after the interval;
    or why there are none."""
    cardinalities: pl.DataFrame | None = None
    """See :data:`CARDINALITIES`."""


def checks(recorded: Recorded, facts: Facts) -> pl.DataFrame:
    """Return a row for each rule; see :data:`benchlab.drivers.base.RULES`."""
    records, interval = recorded.records, facts.interval
    ended = measured.ended(records, interval)
    found = [
        *rules.mix(ended, facts.mix),
        *rules.profiles(ended, facts.warehouses),
        *rules.keying(ended),
        *rules.thinking(ended),
        *rules.responses(ended),
        *rules.menus(ended),
        *rules.deferred(recorded.deliveries, interval),
        rules.ramp_up(_ramp_up(recorded, facts)),
        *rules.throughput(measured.new_orders_us(records, interval), interval, facts.warehouses),
        *rules.checkpoints(recorded.checkpoints, interval),
        *rules.cardinalities(recorded.cardinalities, facts.warehouses),
        *rules.emulator(ended, measured.unended(records, interval)),
    ]
    return pl.DataFrame([one.row for one in found], schema=RULES, orient="row")


def remote_orders(records: pl.DataFrame, facts: Facts) -> pl.DataFrame:
    """Return the share of New-Orders with a remote line, as a row like those of :func:`checks`.

    No rule limits it. It follows from a rule: if 1 in 100 lines is from another warehouse, 1 in 10
    orders has such a line (clause 2.4.1.5).
    """
    orders = measured.ended(records, facts.interval).filter(type="new_order")
    share = (orders["remote_lines"] > 0).mean()
    # with one warehouse there is no other
    percent = None if share is None or facts.warehouses == 1 else 100 * share
    row = ("New-Orders with a remote line", "2.4.1.5", percent, None, None, "%", len(orders))
    return pl.DataFrame([(*row, "no rule", "")], schema=RULES, orient="row")


def _ramp_up(recorded: Recorded, facts: Facts) -> list[rules.Check]:
    """Return the checks of the rules that also hold in ramp-up; none if it was not recorded."""
    if facts.ramp_up is None:
        return []
    ended = measured.ended(recorded.records, facts.ramp_up)
    return [
        *rules.mix(ended, facts.mix),
        *rules.keying(ended),
        *rules.thinking(ended),
    ]
