"""Records of terminals that never ran, drawn by the standard's rules, for tests alone.

What a check answers is known only of records whose law is known; no measured number is among these.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from benchlab.drivers.tpcc.checks import Mix
from benchlab.drivers.tpcc.limits import KEYING, THINK
from benchlab.drivers.tpcc.measured import Interval
from benchlab.drivers.tpcc.records import RECORDS
from benchlab.drivers.tpcc.validity import CARDINALITIES, DELIVERIES, Facts, Recorded
from benchlab.engines.base import CHECKPOINTS
from benchlab.workloads.tpcc.dataset import TYPES

#: Cards of each type in a deck.
DECK = (10, 10, 1, 1, 1)
SHARES = dict(zip(TYPES, (cards / sum(DECK) for cards in DECK), strict=True))

#: 24 November 2026, 12:00 UTC.
BEGIN = 1_795_521_600_000_000

MINUTE = 60_000_000


@dataclass(frozen=True)
class Drawn:
    """How records are drawn."""

    warehouses: int = 60
    minutes: int = 120
    ramp_up: int = 10
    rollback: float = 0.01
    remote_line: float = 0.01
    remote_payment: float = 0.15
    by_name: float = 0.6
    think: float = 1.01
    """Mean think time over the least."""
    response_ms: float = 40.0
    seed: int = 1

    @property
    def interval(self) -> Interval:
        return Interval(BEGIN, BEGIN + self.minutes * MINUTE)


def records(drawn: Drawn) -> pl.DataFrame:
    """Draw what terminals keep, from ramp-up to five minutes after the interval."""
    random = np.random.default_rng(drawn.seed)
    terminals = 10 * drawn.warehouses
    begin = BEGIN - drawn.ramp_up * MINUTE
    end = BEGIN + (drawn.minutes + 5) * MINUTE
    decks = int((end - begin) / 1e6 / 20 / sum(DECK)) + 2  # 23.8 s a transaction
    deck = np.repeat(np.arange(5), DECK)
    kind = random.permuted(np.tile(deck, (terminals, decks, 1)), axis=2).reshape(terminals, -1)
    shape = kind.shape
    keying = np.array([KEYING[name] for name in TYPES])[kind] * 1_000_000
    mean = np.array([THINK[name] for name in TYPES])[kind] * 1e6 * drawn.think
    think = np.minimum(random.exponential(mean), 10 * mean).astype(int)
    menu = random.lognormal(np.log(5e3), 0.3, shape).astype(int)
    response = random.lognormal(np.log(drawn.response_ms * 1e3), 0.4, shape).astype(int)
    start = begin + random.integers(0, 24_000_000, (terminals, 1))
    answered = start + np.cumsum(menu + keying + response + think, axis=1) - think
    due = answered - response
    lines = random.integers(5, 16, shape)
    invalid = random.random(shape) < drawn.rollback
    is_new_order, is_payment, is_status = (kind == number for number in range(3))
    terminal = np.repeat(np.arange(terminals), shape[1])

    def where(condition: np.ndarray, values: np.ndarray) -> pl.Series:
        values, condition = pl.Series(values.ravel()), pl.Series(condition.ravel())
        return pl.select(pl.when(condition).then(values)).to_series()

    frame = pl.DataFrame(
        {
            "terminal": terminal,
            "w_id": terminal // 10 + 1,
            "type": np.array(TYPES)[kind.ravel()],
            "due_us": due.ravel(),
            "sent_us": (due + random.exponential(500, shape).astype(int)).ravel(),
            "answered_us": answered.ravel(),
            "menu_us": menu.ravel(),
            "menu_late_us": random.exponential(500, shape).astype(int).ravel(),
            "keying_us": keying.ravel(),
            "think_us": think.ravel(),
            "status": np.where(is_new_order & invalid, "rolled_back", "ok").ravel(),
            "retries": np.zeros(kind.size, dtype=int),
            "lines": where(is_new_order, lines),
            "remote_lines": where(is_new_order, random.binomial(lines, drawn.remote_line)),
            "remote": where(is_payment, random.random(shape) < drawn.remote_payment),
            "by_name": where(is_payment | is_status, random.random(shape) < drawn.by_name),
            "o_id": where(is_new_order, np.full(shape, 3001)),
        }
    )
    return frame.cast(RECORDS).filter(pl.col("answered_us") < end)


def facts(drawn: Drawn) -> Facts:
    return Facts(
        drawn.warehouses,
        drawn.interval,
        mix=Mix(SHARES, deck=sum(DECK)),
        ramp_up=Interval(BEGIN - drawn.ramp_up * MINUTE, BEGIN),
    )


def recorded(drawn: Drawn) -> Recorded:
    """Draw all that is recorded of a run, of which every rule is kept if it is long enough."""
    made = records(drawn)
    queued = made.filter(type="delivery")
    deliveries = queued.select(
        "w_id",
        pl.lit(1).alias("carrier"),
        pl.col("answered_us").alias("queued_us"),
        (pl.col("answered_us") + 200_000).alias("completed_us"),
        pl.lit(10).alias("delivered"),
        pl.lit(0).alias("skipped"),
        pl.lit(0).alias("retries"),
    ).cast(DELIVERIES)
    minutes = range(-10, drawn.minutes, 25)
    begun = [BEGIN + minute * MINUTE for minute in minutes]
    checkpoints = pl.DataFrame(
        {"begin_us": begun, "end_us": [one + 10 * MINUTE for one in begun]}, schema=CHECKPOINTS
    )
    return Recorded(made, deliveries, checkpoints, rows(drawn.warehouses))


def rows(warehouses: int) -> pl.DataFrame:
    """Rows of the tables as a load makes them."""
    of_warehouse = {
        "warehouse": 1,
        "district": 10,
        "customer": 30_000,
        "history": 30_000,
        "orders": 30_000,
        "new_order": 9_000,
        "order_line": 299_700,
        "stock": 100_000,
    }
    counts = {table: warehouses * count for table, count in of_warehouse.items()}
    counts["item"] = 100_000
    return pl.DataFrame(
        {"table": list(counts), "rows": list(counts.values())}, schema=CARDINALITIES
    )
