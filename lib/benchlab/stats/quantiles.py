"""Quantiles of the distributions that intervals use.

They equal those of scipy.stats, but use scipy.special: importing scipy.stats would cost every command a
second.
"""

import numpy as np
from scipy import special


def normal(share: float) -> float:
    """Return the value below which ``share`` of a standard normal distribution is."""
    return float(special.ndtri(share))


def student(share: float, freedom: float | np.ndarray) -> float | np.ndarray:
    """Return the value below which ``share`` of Student's distribution is; one per ``freedom``."""
    return special.stdtrit(freedom, share)


def chi2(share: float, freedom: float) -> float:
    """Return the value below which ``share`` of a χ² distribution is."""
    return float(special.chdtri(freedom, 1 - share))


def f_beyond(share: float, above: float, below: float) -> float:
    """Return the value above which ``share`` of an F distribution is."""
    return float(special.fdtri(above, below, 1 - share))


def beta(share: float, successes: float, failures: float) -> float:
    """Return the value below which ``share`` of a beta distribution is."""
    return float(special.betaincinv(successes, failures, share))


def clopper_pearson(successes: float, n: float, tail: float) -> tuple[float, float]:
    """Return the bounds of a share, each missed in ``tail`` of all cases at most.

    Clopper and Pearson, Biometrika 26(4), 1934.
    """
    low = beta(tail, successes, n - successes + 1) if successes > 0 else 0.0
    high = beta(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    return low, high


def chi2_beyond(value: float, freedom: float) -> float:
    """Return the share of a χ² distribution above a value."""
    return float(special.chdtrc(freedom, value))


def noncentral_student_beyond(value: float, freedom: float, shift: float) -> float:
    """Return the share of a noncentral Student's distribution above a value."""
    return float(1 - special.nctdtr(freedom, shift, value))
