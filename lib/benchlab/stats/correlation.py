"""Correlations of short samples, such as the columns of a published table.

Intervals assume that the pairs are independent draws. The rows of a table along concurrency are not
independent: there a correlation says that two columns rise together, perhaps for a third reason.
"""

from collections.abc import Sequence
from math import atanh, sqrt, tanh

import numpy as np

from benchlab.stats.quantiles import normal
from benchlab.stats.trials import CONFIDENCE, Estimate

#: With fewer pairs Fisher's z has no finite standard error.
_LEAST_PAIRS = 4


def pearson(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Linear correlation, −1 … 1, with its interval by Fisher's z (Metron 1, 1921).

    0 is outside the interval: the columns are correlated, at the 5 % level, if their values are normal.
    0 is inside: they may be correlated or not; with four pairs only a correlation of 0.96 or more
    decides. Fewer than four pairs have no interval.

    Raises:
        ValueError: fewer than two pairs, columns of different length, or all values of one are equal.
    """
    from scipy.stats import pearsonr

    _check(first, second)
    n = len(first)
    return _estimate(float(pearsonr(first, second).statistic), n, 1.0, 1 - 1e-12)


def spearman(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Correlation of the ranks, −1 … 1: 1 if one column always rises with the other.

    0 outside or inside the interval means the same as for ``pearson``, but for any distribution. The
    interval is that of Bonett & Wright (Psychometrika 65(1), 2000). For pairs in perfect order theirs
    has no width, although a few pairs are often in perfect order even if they are much less
    correlated. In that case the bound is calculated from half a step below 1; a step is the least by
    which a correlation of n ranks can change.

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
    """Interval by Fisher's z with variance ``variance`` / (n − 3), for a value within ± ``limit``."""
    if n < _LEAST_PAIRS:
        return Estimate(value, None, None, n)
    z = atanh(max(-limit, min(value, limit)))
    half = normal((1 + CONFIDENCE) / 2) * sqrt(variance / (n - 3))
    return Estimate(value, min(value, tanh(z - half)), max(value, tanh(z + half)), n)
