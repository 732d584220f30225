"""Correlations of short samples, such as the columns of a published table.

An interval takes the pairs for independent draws. The rows of a table along concurrency are not: there
a correlation says that two columns rise together, which they may do for a third reason.
"""

from collections.abc import Sequence
from math import atanh, sqrt, tanh

import numpy as np

from benchlab.stats.quantiles import normal
from benchlab.stats.trials import CONFIDENCE, Estimate

#: With fewer pairs the standard error of Fisher's z is infinite.
_LEAST_PAIRS = 4


def pearson(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Linear correlation, −1 … 1, with its interval by Fisher's z (Metron 1, 1921).

    0 outside the interval: the columns are correlated, at the 5 % level, as far as their values are
    normal. 0 inside: they may be or not; with four pairs it takes 0.96 to decide. Fewer than four pairs
    have no interval.

    Raises:
        ValueError: fewer than two pairs, columns of different length, or one whose values are equal.
    """
    from scipy.stats import pearsonr

    _check(first, second)
    n = len(first)
    return _estimate(float(pearsonr(first, second).statistic), n, 1.0, 1 - 1e-12)


def spearman(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Correlation of the ranks, −1 … 1: 1 if one column always rises with the other.

    0 outside the interval and inside mean what they mean for ``pearson``, but for any distribution.
    The interval is that of Bonett & Wright (Psychometrika 65(1), 2000). Where few pairs are in perfect
    order theirs has no width, though pairs that are much less correlated are often so, too; there the
    bound is taken from half a step, the least that a correlation of n ranks can change by, below 1.

    Raises:
        ValueError: as in ``pearson``.
    """
    from scipy.stats import spearmanr

    _check(first, second)
    n = len(first)
    value = float(spearmanr(first, second).statistic)
    return _estimate(value, n, 1 + value**2 / 2, 1 - 6 / (n**3 - n))


def _check(first: Sequence[float], second: Sequence[float]) -> None:
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f"correlation of {len(first)} values with {len(second)}")
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        raise ValueError("correlation with values that are all equal")


def _estimate(value: float, n: int, variance: float, limit: float) -> Estimate:
    """Interval by Fisher's z, whose variance is ``variance`` / (n − 3), at ± ``limit`` at most."""
    if n < _LEAST_PAIRS:
        return Estimate(value, None, None, n)
    z = atanh(max(-limit, min(value, limit)))
    half = normal((1 + CONFIDENCE) / 2) * sqrt(variance / (n - 3))
    return Estimate(value, min(value, tanh(z - half)), max(value, tanh(z + half)), n)
