"""The standard's rules about a run, in groups. Each group yields its checks of what was measured.

:mod:`benchlab.drivers.tpcc.chance` answers the rules about numbers that vary by chance.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from benchlab.drivers.tpcc import chance, limits
from benchlab.drivers.tpcc.chance import Answer
from benchlab.drivers.tpcc.limits import NAMES
from benchlab.drivers.tpcc.measured import BROWSER_DELAY_US, Interval, percentile, tpmc, variation
from benchlab.stats.quantiles import chi2_beyond

#: Clause of our own rules.
OURS = "benchlab"

#: Least expected count of each number of order lines for which χ² holds; least p of χ² at which the
#: numbers count as uniform, as in :mod:`benchlab.drivers.tpcc.chance`.
_OF_CELL, _UNLIKELY = 5, 0.001

#: Least number of response times whose 90th percentile is compared with their mean.
_TIMES = 100


@dataclass(frozen=True)
class Mix:
    """How terminals draw the types of their transactions (clause 5.2.4.2)."""

    shares: Mapping[str, float]
    """Type → its share on average."""
    deck: int | None = None
    """Number of cards in a terminal's deck, from which it draws without replacement."""
    adjustment: float | None = None
    """Share of its weight by which a type is drawn more often while it is behind, and less often
    while it is ahead. Without this and without a deck, weights are fixed."""
    processes: int = 1
    """Processes of the emulator; each adjusts its own weights."""

    def independent(self, n: int, terminals: int, share: float) -> float:
        """Return how many independent draws scatter as much as ``n`` transactions do.

        A deck or an adjusted weight keeps a type's count near its aim: the error at either end of the
        interval does not grow with ``n``. Within a deck of D cards, the variance of a terminal's count
        is at most (D² / 4) / (D - 1) times that of a draw. With weights that are adjusted by a, each
        draw moves a count back by a times its share p, so the variance of a process's count is
        (1 - p) / (2 a² p) times that of a draw.
        """
        if self.deck is not None:
            off = terminals * (self.deck**2 / 4) / (self.deck - 1)
        elif self.adjustment is not None:
            off = self.processes * (1 - share) / (2 * self.adjustment**2 * share)
        else:
            return n
        return max(n, n**2 / (2 * off)) if n else n


@dataclass(frozen=True)
class Check:
    """A rule and its answer; see :data:`benchlab.drivers.base.RULES`."""

    name: str
    clause: str
    value: float | None
    least: float | None
    most: float | None
    unit: str
    n: int | None
    answer: Answer
    why: str = ""

    @property
    def row(self) -> tuple[object, ...]:
        """The check as a row of :data:`~benchlab.drivers.base.RULES`."""
        why = self.why or ("too few to tell" if self.answer == "undecided" else "")
        limits = (self.least, self.most)
        return self.name, self.clause, self.value, *limits, self.unit, self.n, self.answer, why


def mix(ended: pl.DataFrame, drawn: Mix) -> Iterator[Check]:
    """Check the least shares of the mix.

    Args:
        ended: see :func:`benchlab.drivers.tpcc.measured.ended`; the same in all groups.
        drawn: how terminals draw the types.
    """
    n, counts = len(ended), dict(ended["type"].value_counts().iter_rows())
    terminals = ended["terminal"].n_unique()
    for kind, least in limits.MIX.items():
        share, expected = counts.get(kind, 0) / n if n else None, drawn.shares[kind]
        size = drawn.independent(n, terminals, expected)
        answer = chance.of_share((share or 0) * size, size, least, 1, expected)
        name = f"{NAMES[kind]} in the mix"
        yield Check(name, "5.2.3", _percent(share), 100 * least, None, "%", n, answer)


#: Limits of the shares of order lines and of Payments that are of a remote warehouse.
_LINES, _PAYMENTS = (0.0095, 0.0105), (0.14, 0.16)


def profiles(ended: pl.DataFrame, warehouses: int) -> Iterator[Check]:
    """Check the inputs of transactions: rollbacks, order lines, remote warehouses, last names.

    Of a single warehouse no other is remote (clauses 2.4.1.5 and 2.5.1.2): there is nothing to check.
    """
    orders, payments, statuses = (
        ended.filter(type=kind) for kind in ("new_order", "payment", "order_status")
    )
    yield _share(
        limits.ROLLED_BACK,
        "5.5.1.5",
        (orders["status"] == "rolled_back").sum(),
        len(orders),
        0.009,
        0.011,
    )
    lines = orders["lines"].drop_nulls()
    mean, deviation = lines.mean(), ((len(limits.LINES) ** 2 - 1) / 12) ** 0.5
    answer = chance.of_mean(mean or 0, deviation, len(lines), 9.5, 10.5)
    yield Check(
        "order lines, mean of a New-Order", "5.5.1.5", mean, 9.5, 10.5, "lines", len(lines), answer
    )
    yield _uniform(lines)
    remote = (
        (
            "order lines of a remote warehouse",
            orders["remote_lines"],
            orders["lines"].sum(),
            _LINES,
        ),
        ("Payments of a remote customer", payments["remote"], len(payments), _PAYMENTS),
    )
    for name, found, n, (least, most) in remote:
        check = _share(name, "5.5.1.5", found.sum(), n, least, most)
        one = replace(check, value=None, answer="undecided", why="there is one warehouse")
        yield check if warehouses > 1 else one
    for name, found in (("Payments", payments), ("Order-Statuses", statuses)):
        by_name = found["by_name"].sum()
        yield _share(f"{name} by last name", "5.5.1.5", by_name, len(found), 0.57, 0.63)


def _uniform(lines: pl.Series) -> Check:
    cells = len(limits.LINES)
    expected, counts = len(lines) / cells, dict(lines.value_counts().iter_rows())
    name = f"order lines, uniform from {limits.LINES[0]} to {limits.LINES[-1]}: p of χ²"

    def check(value: float | None, answer: Answer, why: str = "") -> Check:
        return Check(name, "2.4.1.3", value, _UNLIKELY, None, "", len(lines), answer, why)

    if others := sorted(counts.keys() - set(limits.LINES)):
        return check(0.0, "broken", f"there are orders of {others[0]} lines")
    if expected < _OF_CELL:
        return check(None, "undecided")
    distance = sum((counts.get(count, 0) - expected) ** 2 / expected for count in limits.LINES)
    likely = chi2_beyond(distance, cells - 1)
    return check(likely, "kept" if likely >= _UNLIKELY else "broken")


def keying(ended: pl.DataFrame) -> Iterator[Check]:
    """Check that no keying time is shorter than the constant of its type."""
    for kind, name in NAMES.items():
        times = ended.filter(type=kind)["keying_us"].drop_nulls()
        shortest, least = _seconds(times.min()), limits.KEYING[kind]
        answer = _at_least(shortest, least)
        name = f"{name}, shortest keying time"
        yield Check(name, "5.2.5.7", shortest, least, None, "s", len(times), answer)


def thinking(ended: pl.DataFrame) -> Iterator[Check]:
    """Check the mean think time of each type."""
    for kind, name in NAMES.items():
        times = ended.filter(type=kind)["think_us"].drop_nulls()
        mean, least = _seconds(times.mean()), limits.THINK[kind]
        answer = chance.of_think_time(mean or 0, len(times), least)
        name = f"{name}, mean think time"
        yield Check(name, "5.2.5.7", mean, least, None, "s", len(times), answer)


def responses(ended: pl.DataFrame) -> Iterator[Check]:
    """Check each type's response times: their 90th percentile, and that it is no less than the mean."""
    for kind, name in NAMES.items():
        times = ended.filter(type=kind)["response_us"]
        of = limits.response(name)
        yield _percentile(of, "5.2.5.7", times, 90, limits.RESPONSE[kind])
        mean, p90 = times.mean(), percentile(times, 90)
        ratio = p90 / mean if mean else None
        name = f"{name}, 90th percentile : mean"
        # of a few times, one long one may put the mean above the percentile
        answer = _at_least(ratio, 1) if len(times) >= _TIMES else "undecided"
        yield Check(name, "5.2.5.7", ratio, 1, None, "", len(times), answer)


def menus(ended: pl.DataFrame) -> Iterator[Check]:
    """Check the response times of the menu, including the browser's delay."""
    times = ended["menu_us"].drop_nulls().cast(pl.Int64) + BROWSER_DELAY_US
    yield _percentile("menu, response time", "5.2.5", times, 90, limits.MENU)


def deferred(deliveries: pl.DataFrame | None, interval: Interval) -> Iterator[Check]:
    """Check the deferred parts of the Deliveries that were queued in the interval."""
    done, skipping, failing = limits.DEFERRED_PART, limits.SKIPPED, limits.NOT_DONE
    if deliveries is None:
        why = "no deliveries were recorded"
        yield Check(
            limits.percentile(done),
            "5.2.5",
            None,
            None,
            limits.DEFERRED,
            "s",
            0,
            "undecided",
            why,
        )
        yield Check(skipping, "2.7.4.2", None, None, None, "Deliveries", 0, "undecided", why)
        yield Check(failing, OURS, None, None, 0, "Deliveries", 0, "undecided", why)
        return
    queued = deliveries.filter(interval.has("queued_us"))
    never = pl.lit(float("inf"))
    took = (pl.col("completed_us") - pl.col("queued_us")).cast(pl.Float64).fill_null(never)
    yield _percentile(
        done, "5.2.5", queued.select(took).to_series(), 90, limits.DEFERRED, inclusive=True
    )
    skipped, most = (queued["skipped"] > 0).sum(), max(len(queued) / 100, 1)
    answer, why = "undecided" if queued.is_empty() else "kept", ""
    if skipped > most:
        why = "as many must be reported, and are here"
    yield Check(skipping, "2.7.4.2", skipped, None, most, "Deliveries", len(queued), answer, why)
    failed = queued["completed_us"].null_count()
    answer = "undecided" if queued.is_empty() else "broken" if failed else "kept"
    yield Check(failing, OURS, failed, None, 0, "Deliveries", len(queued), answer)


def ramp_up(found: list[Check]) -> Check:
    """Check that mix and pacing in ramp-up keep the rules of the interval.

    Args:
        found: checks of the mix, the keying times and the think times in ramp-up.
    """
    name, clause = "mix and pacing in ramp-up, rules broken", "5.5"
    if not found:
        why = "it was not recorded"
        return Check(name, clause, None, None, 0, "rules", 0, "undecided", why)
    broken = [one.name for one in found if one.answer == "broken"]
    undecided = any(one.answer == "undecided" for one in found)
    answer = "broken" if broken else "undecided" if undecided else "kept"
    why = ", ".join(broken)
    return Check(name, clause, len(broken), None, 0, "rules", len(found), answer, why)


def throughput(at_us: np.ndarray, interval: Interval, warehouses: int) -> Iterator[Check]:
    """Check the tpmC of a warehouse, its variation, and the length of the interval.

    Args:
        at_us: see :func:`benchlab.drivers.tpcc.measured.new_orders_us`.
        interval: measurement interval.
        warehouses: number of active warehouses.
    """
    n, minutes = len(at_us), interval.minutes
    least, most = limits.PER_WAREHOUSE
    rate = tpmc(n, interval) / warehouses
    answer = chance.of_rate(n, minutes * warehouses, least, most)
    yield Check(limits.THROUGHPUT, "4.1.3", rate, least, most, "tpmC", n, answer)
    varied, most = variation(at_us, interval), limits.VARIATION
    answer = chance.of_variation(varied or 0, n, most)
    name = "cumulative variation of tpmC"
    yield Check(name, "5.5", _percent(varied), None, 100 * most, "%", n, answer)
    least = limits.INTERVAL
    answer = _at_least(minutes, least)
    yield Check("measurement interval", "5.5.2", minutes, least, None, "min", None, answer)


def checkpoints(found: pl.DataFrame | str, interval: Interval) -> Iterator[Check]:
    """Check the time between starts of checkpoints, and how many start and end in the interval.

    Args:
        found: checkpoints of the engine, or why none are known.
        interval: measurement interval.
    """
    apart, inside = "time between checkpoints", "checkpoints in the interval"
    least, most = limits.CHECKPOINTS_INSIDE, limits.CHECKPOINT
    if isinstance(found, str):
        yield Check(apart, "5.5.2", None, None, most, "min", 0, "undecided", found)
        yield Check(inside, "5.5.2", None, least, None, "checkpoints", 0, "undecided", found)
        return
    begun = found["begin_us"].sort()
    before = begun.filter(begun < interval.begin_us).tail(1)
    within = begun.filter((begun >= interval.begin_us) & (begun < interval.end_us))
    moments = [*(before if len(before) else [interval.begin_us]), *within, interval.end_us]
    longest = float(np.diff(moments).max()) / 60e6
    answer = "kept" if longest <= most and len(before) else "broken"
    why = "" if len(before) else "none before the interval"
    yield Check(apart, "5.5.2", longest, None, most, "min", len(begun), answer, why)
    done = len(found.filter(interval.has("begin_us"), interval.has("end_us")))
    answer = _at_least(done, least)
    yield Check(inside, "5.5.2", done, least, None, "checkpoints", len(begun), answer)


def cardinalities(found: pl.DataFrame | None, warehouses: int) -> Iterator[Check]:
    """Check the numbers of rows of the tables before the run."""
    rows = {} if found is None else dict(found.select("table", "rows").iter_rows())
    for table, (least, most) in limits.cardinalities(warehouses).items():
        value, name = rows.get(table), f"{table}, rows before the run"
        answer, why = "undecided", "they were not counted"
        if value is not None:
            answer, why = "kept" if least <= value <= most else "broken", ""
        yield Check(name, "4.3.3", value, least, most, "rows", None, answer, why)


def emulator(ended: pl.DataFrame, unended: pl.DataFrame) -> Iterator[Check]:
    """Check our own rules: terminals send on time, and every transaction ends well.

    Args:
        ended: see :func:`mix`.
        unended: see :func:`benchlab.drivers.tpcc.measured.unended`.
    """
    forms = ended.select(pl.col("sent_us") - pl.col("due_us")).to_series()
    menus = ended["menu_late_us"].drop_nulls().cast(pl.Int64)
    late = pl.concat([forms, menus])
    yield _percentile(limits.LATENESS, OURS, late, 99, limits.LATE, unit="ms")
    n, lost = len(ended) + len(unended), len(unended)
    answer = "undecided" if not n else "broken" if lost else "kept"
    yield Check(limits.UNANSWERED, OURS, lost, None, 0, "transactions", n, answer)


def _share(name: str, clause: str, found: int, n: int, least: float, most: float) -> Check:
    """Check that a share is in a range."""
    share, answer = found / n if n else None, chance.of_share(found, n, least, most)
    return Check(name, clause, _percent(share), 100 * least, 100 * most, "%", n, answer)


#: Unit → µs.
_UNITS = {"s": 1e6, "ms": 1e3}


def _percentile(
    name: str,
    clause: str,
    times: pl.Series,
    percent: int,
    limit: float,
    unit: str = "s",
    inclusive: bool = False,
) -> Check:
    """Check that ``percent`` % of the times (µs) are below a limit in ``unit``, or not above it."""
    of_unit = times.cast(pl.Float64) / _UNITS[unit]
    below = (of_unit <= limit if inclusive else of_unit < limit).sum()
    answer = chance.of_share(below, len(times), percent / 100, 1, expected=1)
    value = percentile(of_unit, percent)
    return Check(
        limits.percentile(name, percent), clause, value, None, limit, unit, len(times), answer
    )


def _at_least(value: float | None, least: float) -> Answer:
    if value is None:
        return "undecided"
    return "kept" if value >= least else "broken"


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6
