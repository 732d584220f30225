"""Spread of trials, estimated from all points of a rerun at once; or of blocks, from all of a run.

Three trials say very little about their own spread: their Student interval is 2.2 times as wide as an
interval with known spread. But a rerun has dozens of points on one machine, with similar spreads. So
each point's variance is drawn towards the common one, the more the more alike the points are
(empirical Bayes; Smyth, Statistical Applications in Genetics and Molecular Biology 3(1), 2004, article
3, sections 3 to 6.2: the moderated t).

Smyth estimates the common variance from thousands of genes. Here there may be only five points, and
some may differ in kind from the others. So for trials the common variance counts for two degrees of
freedom. If points are too unlike for that, as idle and saturated workloads are, each keeps its own
variance. Otherwise the intervals of points noisier than the rest would cover too rarely
(``make bench`` simulates it).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy.special import digamma, polygamma

#: Degrees of freedom that the common variance of points counts for, if it counts.
_OF_TRIALS = 2.0

#: Least number of spreads from which a common one is estimated.
_FEWEST = 3


@dataclass(frozen=True)
class Spread:
    """A variance of logarithms or of relative deviations, and its degrees of freedom."""

    variance: float
    freedom: float

    def drawn_to(self, prior: "Spread | None") -> "Spread":
        """Return the mean of this variance and a prior one, weighted by their degrees of freedom."""
        if prior is None:
            return self
        freedom = self.freedom + prior.freedom
        variance = self.variance * self.freedom + prior.variance * prior.freedom
        return Spread(variance / freedom, freedom)


class Sample(tuple[float, ...]):
    """The values of a point's trials, and the common spread of similar points.

    Functions that take trials accept a plain sequence, too; it has no prior spread.
    """

    prior: Spread | None
    is_exact: bool
    """Whether another trial could not differ, so that the interval has no width."""

    def __new__(
        cls, values: Iterable[float], prior: Spread | None = None, is_exact: bool = False
    ) -> "Sample":
        """Return the values with their prior."""
        sample = super().__new__(cls, values)
        sample.prior, sample.is_exact = prior, is_exact
        return sample


def prior_of(values: Sequence[float]) -> Spread | None:
    """Return the prior spread of a sample; ``None`` if it is unknown, as for a plain sequence."""
    return values.prior if isinstance(values, Sample) else None


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of the trials of one point: two or more values, all positive.

    The spread of a :class:`Sample` is drawn to its prior.
    """
    logs = np.log(np.sort(np.asarray(values, dtype=float)))
    return Spread(float(logs.var(ddof=1)), len(logs) - 1).drawn_to(prior_of(values))


def common_spreads(
    points: Mapping[str, Iterable[Sequence[float]]],
) -> dict[str, Spread | None]:
    """Return the common spread of trials over the points of each engine of a rerun.

    The level is estimated from each engine's own points, or from all points if it has fewer than
    three. How alike spreads are is estimated from all points, each compared with its engine's.

    Args:
        points: engine → the values of the trials of each point. Points are left out if they have a
            single trial, a value that is not positive, or trials that are all equal (as counted
            numbers may be).

    Returns:
        Engine → spread with a ``freedom`` of two. ``None`` for all engines if the points are too
        unlike, or fewer than three are left.
    """
    known = {
        engine: _known(spread(one) for one in of_engine if len(one) > 1 and min(one) > 0)
        for engine, of_engine in points.items()
    }
    every = [one for own in known.values() for one in own]
    if len(every) < _FEWEST:
        return dict.fromkeys(points)
    like = {engine: own if len(own) >= _FEWEST else every for engine, own in known.items()}
    beside = [_logs(own) - _logs(like[engine]).mean() for engine, own in known.items() if own]
    # engines with few points share one mean
    means = len({id(like[engine]) for engine, own in known.items() if own})
    freedom = _freedom(np.concatenate(beside), means, every)
    if freedom < _OF_TRIALS:
        return dict.fromkeys(points)
    return {engine: Spread(_level(of, freedom), _OF_TRIALS) for engine, of in like.items()}


def true_deviations(points: Sequence[Sequence[float]]) -> list[float]:
    """Return the standard deviations of logarithms that the trials of similar points probably have.

    Those of few trials are further apart than the true ones, since they differ by chance, too. So each
    is drawn to their mean, on a logarithmic scale, until they are as far apart as they are beyond
    chance (constrained estimates; Louis, Journal of the American Statistical Association 79(386),
    1984).

    Args:
        points: the values of the trials of each point.

    Returns:
        One for each point. A point with a single trial, or with a value that is not positive, has their
        mean, or 0 if there are no others; one whose trials are all equal has 0. Fewer than three
        others are left as they are.
    """
    spreads = [spread(one) if len(one) > 1 and min(one) > 0 else None for one in points]
    known = _known(one for one in spreads if one)
    if not known:
        return [0.0] * len(points)
    if len(known) < _FEWEST:
        logs = np.log([one.variance for one in known])
        mean = logs.mean()
    else:
        by_chance = polygamma(1, np.array([one.freedom for one in known]) / 2)
        logs = _logs(known)
        mean = logs.mean()
        beyond_chance = max(float(logs.var(ddof=1) - by_chance.mean()), 0.0)
        logs = mean + np.sqrt(beyond_chance / (beyond_chance + by_chance)) * (logs - mean)
    drawn = iter(np.exp(logs / 2))
    return [
        float(np.exp(mean / 2)) if one is None else float(next(drawn)) if one.variance else 0.0
        for one in spreads
    ]


def in_common(spreads: Iterable[Spread]) -> Spread | None:
    """Return the common spread of several spreads.

    ``freedom`` says how alike they are: with 2, a point's own three trials count as much as all other
    points together. It is at most the sum of their ``freedom``, if they differ only by chance.

    Args:
        spreads: those with a variance of 0 are left out.

    Returns:
        ``None`` if fewer than three are left, which are too few.
    """
    known = _known(spreads)
    if len(known) < _FEWEST:
        return None
    logs = _logs(known)
    freedom = _freedom(logs - logs.mean(), 1, known)
    return Spread(_level(known, freedom), freedom)


def _known(spreads: Iterable[Spread]) -> list[Spread]:
    return [one for one in spreads if one.variance > 0]


def _logs(spreads: Sequence[Spread]) -> np.ndarray:
    """Return the logarithm of each variance, corrected for its bias."""
    half = np.array([one.freedom for one in spreads]) / 2
    return np.log([one.variance for one in spreads]) - digamma(half) + np.log(half)


def _freedom(beside: np.ndarray, means: int, spreads: Sequence[Spread]) -> float:
    """Return how many degrees of freedom the common variance of spreads counts for.

    Args:
        beside: logarithms of the variances, each less the mean of its group.
        means: number of groups, each with one mean.
        spreads: the spreads themselves.
    """
    from scipy.optimize import brentq

    half = np.array([one.freedom for one in spreads]) / 2
    most = float(2 * half.sum())
    by_chance = float(polygamma(1, half).mean())
    beyond_chance = float((beside**2).sum()) / (len(beside) - means) - by_chance
    # the least possible: variance of the logarithm of a variance that all of them share
    if beyond_chance <= polygamma(1, most / 2):
        return most
    return 2 * brentq(lambda x: polygamma(1, x) - beyond_chance, 1e-6, most / 2)


def _level(spreads: Sequence[Spread], freedom: float) -> float:
    """Return the common variance of spreads."""
    return exp(_logs(spreads).mean() + digamma(freedom / 2) - log(freedom / 2))
