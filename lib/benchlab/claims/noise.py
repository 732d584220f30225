"""Noise: how much two runs of the same point differ on a target (A/A), from its trials."""

from collections.abc import Iterable, Sequence

import polars as pl

from benchlab import stats
from benchlab.store.results import Rerun

#: Effects for which :func:`table` says how many trials would show them.
EFFECTS = (1.02, 1.05, 1.10)

_SCHEMA = {
    "engine": pl.String,
    "variant": pl.String,
    "workload": pl.String,
    "pairs": pl.Int64,
    "noise": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    **{f"trials_for_{effect - 1:.0%}": pl.Int64 for effect in EFFECTS},
}


def table(rerun: Rerun) -> pl.DataFrame:
    """Return the noise of every curve that has a point with at least two trials that passed the gate.

    Columns: engine, variant, workload, ``pairs`` (number of pairs of runs of the same point),
    ``noise`` (bound of the ratio of two such runs in 95 % of cases) with its interval ``low`` to
    ``high``, and ``trials_for_2%``, … (trials of each of two points that show a difference of that size
    between them in 80 % of cases).
    """
    rows = []
    main = rerun.metrics.filter("valid").sort("concurrency", "trial")
    key = ["engine", "variant", "workload"]
    for names, runs in main.sort(key, maintain_order=True).group_by(key, maintain_order=True):
        points = runs.group_by("envelope", "concurrency", maintain_order=True).agg("tps")
        pairs = _pairs(points["tps"])
        if not pairs:
            continue
        found = stats.noise_floor(pairs)
        variation = stats.variation(pairs)
        needed = [stats.trials_needed(effect, variation) for effect in EFFECTS]
        rows.append((*names, found.n, found.value, found.low, found.high, *needed))
    ratios = pl.col("noise", "low", "high").round(3)
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(ratios)


def _pairs(points: Iterable[Sequence[float]]) -> list[tuple[float, float]]:
    """Pairs of runs of the same point; each run is in one pair, so that pairs are independent."""
    return [
        pair
        for values in points
        for pair in zip(values[::2], values[1::2], strict=False)
        if min(pair) > 0
    ]
