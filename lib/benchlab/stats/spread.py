"""How much trials spread, learnt from all points of a rerun at once; or blocks, from all of a run.

Three trials say next to nothing of their own spread: their Student interval is 2.2 times as wide as one
that knew it. But a rerun has dozens of points on one machine, whose spreads are not unlike. So each
point's variance is drawn towards theirs, the more the more alike they are (empirical Bayes; Smyth,
Statistical Applications in Genetics and Molecular Biology 3(1), 2004, article 3, sections 3 to 6.2:
the moderated t).

There a common variance is learnt from thousands of genes; here it may be five points, and some may be
of another kind than the others. So for trials it counts for two more of them; where points are too
unlike for that, as idle workloads beside saturated ones are, each keeps its own: else the intervals of
points that are noisier than the rest would cover too rarely (``make bench`` simulates it).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy.special import digamma, polygamma

#: Degrees of freedom that what points have in common counts for: so many, or none.
_OF_TRIALS = 2.0

#: Fewer spreads say nothing of others.
_FEWEST = 3


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


def common_spreads(
    points: Mapping[str, Iterable[Sequence[float]]],
) -> dict[str, Spread | None]:
    """Return what the points of each engine of a rerun have in common in how much their trials spread.

    How much they spread is learnt from each engine's own points, or from all where it has fewer than
    three; how alike they are from all points, each beside those of its engine.

    Args:
        points: by engine, the values of the trials of each. Left out: those with a single trial, with
            a value that is not positive, or whose trials are all equal, as numbers that a program
            merely counts may be.

    Returns:
        By engine, with a ``freedom`` of two. None for all: the points are too unlike for that, or
        fewer than three are left.
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
    # engines with few points share one
    means = len({id(like[engine]) for engine, own in known.items() if own})
    freedom = _freedom(np.concatenate(beside), means, every)
    if freedom < _OF_TRIALS:
        return dict.fromkeys(points)
    return {engine: Spread(_level(of, freedom), _OF_TRIALS) for engine, of in like.items()}


def in_common(spreads: Iterable[Spread]) -> Spread | None:
    """Return what spreads have in common.

    ``freedom`` says how alike they are: with 2 a point's own three trials count as much as all others
    together. It is at most the sum of theirs, where they differ no more than by chance.

    Args:
        spreads: those of nothing at all are left out.

    Returns:
        None: fewer than three are left, too few to say.
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
    """Return the logarithm of each variance, less what it is too low by in the mean."""
    half = np.array([one.freedom for one in spreads]) / 2
    return np.log([one.variance for one in spreads]) - digamma(half) + np.log(half)


def _freedom(beside: np.ndarray, means: int, spreads: Sequence[Spread]) -> float:
    """Return how many degrees of freedom what spreads have in common counts for.

    Args:
        beside: logarithms of their variances, each less the mean of those that it is like.
        means: how many such means there are.
        spreads: their own.
    """
    from scipy.optimize import brentq

    half = np.array([one.freedom for one in spreads]) / 2
    most = float(2 * half.sum())
    by_chance = float(polygamma(1, half).mean())
    beyond_chance = float((beside**2).sum()) / (len(beside) - means) - by_chance
    # of the logarithm of a variance that all of them had in common, the least that there can be
    if beyond_chance <= polygamma(1, most / 2):
        return most
    return 2 * brentq(lambda x: polygamma(1, x) - beyond_chance, 1e-6, most / 2)


def _level(spreads: Sequence[Spread], freedom: float) -> float:
    """Return the variance that spreads have in common."""
    return exp(_logs(spreads).mean() + digamma(freedom / 2) - log(freedom / 2))
