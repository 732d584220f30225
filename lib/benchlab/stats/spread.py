"""How much trials spread, learnt from all points of a rerun at once; or blocks, from all of a run.

Three trials say next to nothing of their own spread: their Student interval is 2.2 times as wide as one
that knew it. But a rerun has dozens of points on one machine, whose spreads are not unlike. So each
point's variance is drawn towards theirs, the more the more alike they are (empirical Bayes; Smyth,
Statistical Applications in Genetics and Molecular Biology 3(1), 2004, article 3, sections 3 to 6.2:
the moderated t). Where points differ wildly in how noisy they are, each keeps its own.

There a common variance is learnt from thousands of genes; here it may be five points, and some may be
of another kind than the others. So for trials it counts for two more of them at most: with more, the
intervals of points that are noisier than the rest would cover too rarely (``make bench`` simulates it).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy.special import digamma, polygamma

#: Degrees of freedom that what points have in common counts for, at most.
_MOST_OF_TRIALS = 2.0


@dataclass(frozen=True)
class Spread:
    """A variance of logarithms or relative deviations, and on how many degrees of freedom it rests."""

    variance: float
    freedom: float

    def drawn_to(self, prior: "Spread | None") -> "Spread":
        """Return this variance as a prior one moderates it: the mean of both by their freedom."""
        if prior is None:
            return self
        freedom = self.freedom + prior.freedom
        variance = self.variance * self.freedom + prior.variance * prior.freedom
        return Spread(variance / freedom, freedom)


class Sample(tuple[float, ...]):
    """The values of a point's trials, and what trials of points like it have in common.

    A plain sequence will do wherever trials are requested; of that nothing is known beforehand.
    """

    prior: Spread | None
    is_exact: bool
    """Whether another trial could not differ, so that the value is known without an interval."""

    def __new__(
        cls, values: Iterable[float], prior: Spread | None = None, is_exact: bool = False
    ) -> "Sample":
        """Return the values with their prior."""
        sample = super().__new__(cls, values)
        sample.prior, sample.is_exact = prior, is_exact
        return sample


def prior_of(values: Sequence[float]) -> Spread | None:
    """Return what is known of a sample's spread beforehand; of a plain sequence nothing is."""
    return values.prior if isinstance(values, Sample) else None


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of the trials of one point, n ≥ 2, all of them positive.

    That of a :class:`Sample` is drawn to its prior.
    """
    logs = np.log(np.sort(np.asarray(values, dtype=float)))
    return Spread(float(logs.var(ddof=1)), len(logs) - 1).drawn_to(prior_of(values))


def common_spread(points: Iterable[Sequence[float]]) -> Spread | None:
    """Return what the points of a rerun have in common in how much their trials spread.

    Args:
        points: values of the trials of each. Left out: those with a single trial, with a value that is
            not positive, or whose trials are all equal, as numbers that a program merely counts may be.

    Returns:
        As of :func:`in_common`, with a ``freedom`` of two at most.
    """
    found = in_common(spread(values) for values in points if len(values) > 1 and min(values) > 0)
    return found and Spread(found.variance, min(found.freedom, _MOST_OF_TRIALS))


def in_common(spreads: Iterable[Spread]) -> Spread | None:
    """Return what spreads have in common.

    ``freedom`` says how alike they are: with 2 a point's own three trials count as much as all others
    together. It is at most the sum of theirs, where they differ no more than by chance.

    Args:
        spreads: those of nothing at all are left out.

    Returns:
        None: fewer than three are left, too few to say.
    """
    from scipy.optimize import brentq

    known = [one for one in spreads if one.variance > 0]
    if len(known) < 3:
        return None
    half = np.array([one.freedom for one in known]) / 2
    logs = np.log([one.variance for one in known]) - digamma(half) + np.log(half)
    most = float(2 * half.sum())
    # of the logarithm of a variance that all of them had in common, the least that there can be
    beyond_chance = float(logs.var(ddof=1) - polygamma(1, half).mean())
    if beyond_chance <= polygamma(1, most / 2):
        freedom = most
    else:
        freedom = 2 * brentq(lambda x: polygamma(1, x) - beyond_chance, 1e-6, most / 2)
    return Spread(exp(logs.mean() + digamma(freedom / 2) - log(freedom / 2)), freedom)
