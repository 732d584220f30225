"""Whether a run keeps the standard's rules (TPC-C 5.11), by what its terminals recorded.

:func:`checks` has a row per rule: what was measured, what is allowed, and the answer: kept, broken or
undecided (:mod:`benchlab.drivers.tpcc.chance`).
"""

from dataclasses import dataclass

import polars as pl

from benchlab.drivers.base import RULES
from benchlab.drivers.tpcc import checks as rules
from benchlab.drivers.tpcc import measured
from benchlab.drivers.tpcc.checks import Mix
from benchlab.drivers.tpcc.measured import Interval

#: Result of a Delivery's deferred part (clause 2.7.2): ``queued_us`` when it was, ``completed_us`` null
#: if it never was; of how many districts an order was delivered, and how many had none.
DELIVERIES = {
    "w_id": pl.Int32,
    "carrier": pl.Int8,
    "queued_us": pl.Int64,
    "completed_us": pl.Int64,
    "delivered": pl.Int8,
    "skipped": pl.Int8,
}

#: Rows of the tables before the run.
CARDINALITIES = {"table": pl.String, "rows": pl.Int64}


@dataclass(frozen=True)
class Facts:
    """What of a run does not stand in its records."""

    warehouses: int
    """Active ones."""
    interval: Interval
    mix: Mix
    """How terminals drew the types of transactions."""
    ramp_up: Interval | None = None
    """Before the interval, with all terminals; ``None``: it was not recorded."""


@dataclass(frozen=True)
class Recorded:
    """What was recorded of a run; the checks of what is ``None`` are undecided."""

    records: pl.DataFrame
    """See :data:`benchlab.drivers.tpcc.records.RECORDS`; those of other phases may be among them."""
    deliveries: pl.DataFrame | None = None
    """See :data:`DELIVERIES`."""
    checkpoints: pl.DataFrame | str = "no checkpoints were recorded"
    """See :data:`benchlab.engines.base.CHECKPOINTS`, those before and after the interval included; or
    why there are none."""
    cardinalities: pl.DataFrame | None = None
    """See :data:`CARDINALITIES`."""


def checks(recorded: Recorded, facts: Facts) -> pl.DataFrame:
    """Return a row for each rule; see :data:`benchlab.drivers.base.RULES`."""
    records, interval = recorded.records, facts.interval
    ended = measured.ended(records, interval)
    found = [
        *rules.mix(ended, facts.mix),
        *rules.profiles(ended),
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
    """Return a row as :func:`checks` does for what is no rule: New-Orders with a remote line.

    That 1 in 100 lines is from another warehouse makes it 1 in 10 orders (clause 2.4.1.5).
    """
    orders = measured.ended(records, facts.interval).filter(type="new_order")
    share = (orders["remote_lines"] > 0).mean()
    percent = None if share is None else 100 * share
    row = ("New-Orders with a remote line", "2.4.1.5", percent, None, None, "%", len(orders))
    return pl.DataFrame([(*row, "no rule", "")], schema=RULES, orient="row")


def _ramp_up(recorded: Recorded, facts: Facts) -> list[rules.Check]:
    """The checks of what holds in ramp-up, too; none if that was not recorded."""
    if facts.ramp_up is None:
        return []
    ended = measured.ended(recorded.records, facts.ramp_up)
    return [
        *rules.mix(ended, facts.mix),
        *rules.keying(ended),
        *rules.thinking(ended),
    ]
