"""Statistics over trials, over the seconds of a run, and along the concurrencies of a curve.

Decisions have three values (``Answer``): it holds, it does not hold, or the data cannot say. Intervals
have 95 % confidence, or the requested one. With too few values there is no interval: the bounds are
``None``, and decide nothing.
"""

from benchlab.stats.buckets import percentile_of_buckets
from benchlab.stats.commits import LEAST_POINTS, CommitModel, fit_commits
from benchlab.stats.correlation import pearson, spearman
from benchlab.stats.curves import (
    Position,
    greatest_ratio,
    highest,
    peak,
    peak_height,
    peak_ratio,
)
from benchlab.stats.decisions import (
    Answer,
    Curve,
    Decision,
    above_everywhere,
    compatible,
    equivalent,
    everywhere,
    exceeds,
    tends_to_fail,
)
from benchlab.stats.elasticity import block_spread, elasticity
from benchlab.stats.power import (
    noise_floor,
    trials_needed,
    trials_to_narrow,
    trials_to_tell,
    variation,
)
from benchlab.stats.seconds import (
    SHORTEST_WITH_DRIFT_S,
    change_points,
    drift,
    steady_from,
    trend,
)
from benchlab.stats.spread import Sample, Spread, common_spreads, in_common, true_deviations
from benchlab.stats.trials import (
    CONFIDENCE,
    Estimate,
    RatioToZero,
    mean_ratio,
    median,
    ratio,
    share,
)

__all__ = [
    "CONFIDENCE",
    "LEAST_POINTS",
    "SHORTEST_WITH_DRIFT_S",
    "Answer",
    "CommitModel",
    "Curve",
    "Decision",
    "Estimate",
    "Position",
    "RatioToZero",
    "Sample",
    "Spread",
    "above_everywhere",
    "block_spread",
    "change_points",
    "common_spreads",
    "compatible",
    "drift",
    "elasticity",
    "equivalent",
    "everywhere",
    "exceeds",
    "fit_commits",
    "greatest_ratio",
    "highest",
    "in_common",
    "mean_ratio",
    "median",
    "noise_floor",
    "peak",
    "peak_height",
    "peak_ratio",
    "pearson",
    "percentile_of_buckets",
    "ratio",
    "share",
    "spearman",
    "steady_from",
    "tends_to_fail",
    "trend",
    "trials_needed",
    "trials_to_narrow",
    "trials_to_tell",
    "true_deviations",
    "variation",
]
