"""Quantiles of the distributions that intervals are made of.

They are those of scipy.stats, taken from scipy.special: importing the former takes every command a
second.
"""

import numpy as np
from scipy import special


def normal(share: float) -> float:
    """Return the value that ``share`` of a standard normal distribution lies below."""
    return float(special.ndtri(share))


def student(share: float, freedom: float | np.ndarray) -> float | np.ndarray:
    """Return the same of Student's distribution, for one number of degrees of freedom or several."""
    return special.stdtrit(freedom, share)


def chi2(share: float, freedom: float) -> float:
    """Return the same of the χ² distribution."""
    return float(special.chdtri(freedom, 1 - share))


def f_beyond(share: float, above: float, below: float) -> float:
    """Return the value that ``share`` of an F distribution lies above."""
    return float(special.fdtri(above, below, 1 - share))


def beta(share: float, successes: float, failures: float) -> float:
    """Return the value that ``share`` of a beta distribution lies below."""
    return float(special.betaincinv(successes, failures, share))


def chi2_beyond(value: float, freedom: float) -> float:
    """Return the share of a χ² distribution that lies above a value."""
    return float(special.chdtrc(freedom, value))


def noncentral_student_beyond(value: float, freedom: float, shift: float) -> float:
    """Return the share of a noncentral Student's distribution that lies above a value."""
    return float(1 - special.nctdtr(freedom, shift, value))
