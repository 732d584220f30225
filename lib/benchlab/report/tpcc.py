"""What a report of a TPC-C run discloses (TPC-C 5.11, clauses 5.6, 8.1.6 and appendix C), as frames.

All are of one run and its measurement interval. Response times have the browser's delay in them
(:data:`benchlab.drivers.tpcc.measured.BROWSER_DELAY_US`).
"""

import polars as pl

from benchlab.drivers.tpcc import measured
from benchlab.drivers.tpcc.limits import NAMES
from benchlab.drivers.tpcc.measured import Interval
from benchlab.drivers.tpcc.validity import Facts, Recorded
from benchlab.numbers import NOTHING, number

#: Bins of a histogram; clause 5.6.1 requires 20 or more.
_BINS = 40

#: ``to_s`` is null of what lies beyond the histogram's end.
_HISTOGRAM = {"from_s": pl.Float64, "to_s": pl.Float64, "count": pl.Int64}

#: How many of the longest checkpoints are disclosed.
_LONGEST = 4


def checks(found: pl.DataFrame) -> pl.DataFrame:
    """Return the checks of a run for reading: ``rule``, ``clause``, ``measured``, ``allowed``, ``of``,
    ``answer``, ``why``.

    Args:
        found: see :func:`benchlab.drivers.tpcc.validity.checks`.
    """
    rows = [
        {
            "rule": one["check"],
            "clause": one["clause"],
            "measured": _with_unit(one["value"], one["unit"]),
            "allowed": _allowed(one["least"], one["most"], one["unit"]),
            "of": one["n"],
            "answer": one["answer"],
            "why": one["why"],
        }
        for one in found.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema_overrides={"of": pl.Int64})


def _with_unit(value: float | None, unit: str) -> str:
    if value is None:
        return NOTHING
    return f"{_limit(value) if value.is_integer() else number(value)} {unit}".strip()


def _allowed(least: float | None, most: float | None, unit: str) -> str:
    match least, most:
        case None, None:
            return NOTHING
        case None, _:
            text = f"≤ {_limit(most)}"
        case _, None:
            text = f"≥ {_limit(least)}"
        case _ if least == most:
            text = _limit(most)
        case _:
            text = f"{_limit(least)}–{_limit(most)}"
    return f"{text} {unit}".strip()


def _limit(value: float) -> str:
    """A number with as many digits as the standard gives it."""
    return f"{value:,.0f}" if value.is_integer() else f"{value:g}"


def responses(records: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return the share of each type of transaction, and its response times.

    Columns: ``type``, ``transactions``, ``mix (%)``, ``mean (s)``, ``90th percentile (s)``,
    ``maximum (s)``; the last row is of the menu.
    """
    ended = measured.ended(records, interval)
    of_type = {name: ended.filter(type=kind)["response_us"] for kind, name in NAMES.items()}
    menus = ended["menu_us"].drop_nulls().cast(pl.Int64) + measured.BROWSER_DELAY_US
    rows = [
        (
            name,
            len(times),
            None if name == "menu" or not len(ended) else 100 * len(times) / len(ended),
            *map(_seconds, (times.mean(), measured.percentile(times, 90), times.max())),
        )
        for name, times in (of_type | {"menu": menus}).items()
    ]
    names = ("mix (%)", "mean (s)", "90th percentile (s)", "maximum (s)")
    schema = {"type": pl.String, "transactions": pl.Int64} | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def times(records: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return the least, mean and greatest keying and think time of each type, in s.

    Columns: ``type``; ``keying, least (s)``, ``keying, mean (s)``, ``keying, greatest (s)``; and the
    same of ``think``.
    """
    ended = measured.ended(records, interval)
    columns = {
        f"{what}, {name} (s)": getattr(pl.col(f"{what}_us"), function)() / 1e6
        for what in ("keying", "think")
        for name, function in (("least", "min"), ("mean", "mean"), ("greatest", "max"))
    }
    found = ended.group_by("type").agg(**columns)
    types = pl.DataFrame({"type": list(NAMES)})
    return types.join(found, on="type", how="left", maintain_order="left").with_columns(
        pl.col("type").replace_strict(NAMES)
    )


def counts(recorded: Recorded, facts: Facts) -> pl.DataFrame:
    """Return how many transactions of the interval ended how: ``what``, ``count``.

    What was not recorded is null.
    """
    ended = measured.ended(recorded.records, facts.interval)
    unended = measured.unended(recorded.records, facts.interval)
    lost = unended.filter(status="lost")
    queued = None
    if recorded.deliveries is not None:
        queued = recorded.deliveries.filter(facts.interval.has("queued_us"))
    rows = {
        "transactions that ended well": len(ended),
        "New-Orders": len(ended.filter(type="new_order")),
        "New-Orders rolled back on purpose": len(ended.filter(status="rolled_back")),
        "repeats of transactions that the database broke off": ended["retries"].sum(),
        "transactions refused": len(unended.filter(status="refused")),
        "transactions in error": len(unended.filter(status="error")),
        "terminals lost": lost["terminal"].n_unique(),
        "Deliveries queued": None if queued is None else len(queued),
        "districts skipped by Deliveries": None if queued is None else queued["skipped"].sum(),
    }
    return pl.DataFrame(
        {"what": list(rows), "count": list(rows.values())}, schema_overrides={"count": pl.Int64}
    )


def longest_checkpoints(checkpoints: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return the longest checkpoints, longest first: ``begin (min)`` (from the interval's begin),
    ``duration (s)``.

    Args:
        checkpoints: see :data:`benchlab.engines.base.CHECKPOINTS`.
        interval: of measurement; those count that have a part in it.
    """
    return (
        checkpoints.drop_nulls()
        .filter(pl.col("end_us") > interval.begin_us, pl.col("begin_us") < interval.end_us)
        .select(
            ((pl.col("begin_us") - interval.begin_us) / 60e6).alias("begin (min)"),
            ((pl.col("end_us") - pl.col("begin_us")) / 1e6).alias("duration (s)"),
        )
        .sort("duration (s)", descending=True)
        .head(_LONGEST)
    )


def response_histogram(records: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return how many response times of each type lie where, from 0 to four times the 90th percentile.

    Columns: ``type`` (as the standard calls it), ``from_s``, ``to_s`` (null: all beyond), ``count``.
    """
    ended = measured.ended(records, interval)
    return pl.concat(
        [
            _histogram(found, 4 * (measured.percentile(found, 90) or 0)).select(
                pl.lit(name).alias("type"), *_HISTOGRAM
            )
            for kind, name in NAMES.items()
            for found in (ended.filter(type=kind)["response_us"],)
        ]
    )


def think_histogram(records: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Return how many think times of New-Orders lie where, from 0 to four times their mean.

    Columns: ``from_s``, ``to_s`` (null: all beyond), ``count``.
    """
    found = measured.ended(records.filter(type="new_order"), interval)["think_us"].drop_nulls()
    return _histogram(found, 4 * (found.mean() or 0))


def _histogram(values_us: pl.Series, end_us: float) -> pl.DataFrame:
    if not end_us:
        return pl.DataFrame(schema=_HISTOGRAM)
    width = end_us / _BINS
    number = (values_us / width).floor().cast(pl.Int64).clip(0, _BINS).alias("bin")
    counted = number.value_counts(name="count")
    bins = pl.DataFrame({"bin": range(_BINS + 1)}, schema={"bin": pl.Int64})
    bound = pl.col("bin") * width / 1e6
    return bins.join(counted, on="bin", how="left", maintain_order="left").select(
        bound.alias("from_s"),
        pl.when(pl.col("bin") < _BINS).then(bound + width / 1e6).alias("to_s"),
        pl.col("count").fill_null(0).cast(pl.Int64),
    )


def level(recorded: Recorded, facts: Facts, load: float) -> pl.DataFrame:
    """Return a run's row for the chart of response times against throughput.

    Columns: ``load``, ``per_minute`` (New-Orders), ``p90_s`` (of them).

    Args:
        recorded: of the run.
        facts: of the run.
        load: its load as a share of the reported run's; clause 5.6.2 requires about 0.5, 0.8 and 1.
    """
    orders = measured.ended(recorded.records.filter(type="new_order"), facts.interval)
    row = {
        "load": load,
        "per_minute": len(orders) / facts.interval.minutes,
        "p90_s": _seconds(measured.percentile(orders["response_us"], 90)),
    }
    return pl.DataFrame([row], schema=dict.fromkeys(row, pl.Float64))


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6
