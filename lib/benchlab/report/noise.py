"""Noise for reading: as factors with a cap; above it, runs simply do not agree."""

import polars as pl

from benchlab.claims import noise
from benchlab.numbers import number
from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import Rerun

#: Factor between two runs of a point above which they do not agree: the machine was not quiet, or the
#: engine was not steady.
AGREEING = 1.5

_MOST_NOISE = 10
_MOST_TRIALS = 1000


def table(rerun: Rerun) -> pl.DataFrame:
    """Return :func:`benchlab.claims.noise.table` for reading; empty if no point has two trials.

    Columns: ``curve``, ``workload``, ``pairs`` (of runs of a point), ``noise`` with its 95 % interval
    (``× 1.09 (1.05 to 1.20)``; a value above 10 is ``> 10``), ``trials for 2 %``, … (``33``, or
    ``> 1,000``), ``do runs agree`` (*yes*: the noise is :data:`AGREEING` at most; *no*: all of its
    interval is above that; else, or if there is no interval, *too few pairs*).
    """
    found = points.in_order(with_curve(noise.table(rerun), rerun.study), rerun.study)
    text = pl.struct("noise", "low", "high").map_elements(_noise, return_dtype=pl.String)
    return found.select(
        "curve",
        points.named(rerun.study),
        "pairs",
        text.alias("noise"),
        *(
            pl.col(f"trials_for_{effect - 1:.0%}")
            .map_elements(_trials, return_dtype=pl.String)
            .alias(f"trials for {round(100 * (effect - 1))} %")
            for effect in noise.EFFECTS
        ),
        pl.when(pl.col("low").is_null())
        .then(pl.lit("too few pairs"))
        .when(pl.col("noise") <= AGREEING)
        .then(pl.lit("yes"))
        .when(pl.col("low") > AGREEING)
        .then(pl.lit("no"))
        .otherwise(pl.lit("too few pairs"))
        .alias("do runs agree"),
    )


def _noise(row: dict[str, float | None]) -> str:
    factor = f"> × {_MOST_NOISE}" if row["noise"] > _MOST_NOISE else f"× {number(row['noise'], 2)}"
    if row["low"] is None:
        return _unbroken(factor)
    return _unbroken(factor) + f" ({_end(row['low'])} to {_end(row['high'])})"


def _end(value: float) -> str:
    return _unbroken(f"> {_MOST_NOISE}") if value > _MOST_NOISE else number(value, 2)


def _trials(value: int) -> str:
    return _unbroken(f"> {_MOST_TRIALS:,}") if value > _MOST_TRIALS else number(value)


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")
