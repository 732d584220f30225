"""Stability: whether two reruns of a study agree on its claims.

They agree on a claim if it has the same verdict in both. They also agree if it is inconclusive in one
of them only, and what both found is compatible: two results may hardly differ where one is significant
and the other is not (Gelman & Stern, The American Statistician 60(4), 2006).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from benchlab import stats
from benchlab.claims.judge import Judgement

#: Share of the claims tested by both on which two reruns must agree.
LEAST_AGREEING = 0.95

_OPPOSITE = {"reproduced", "not reproduced"}
_UNTESTED, _OPEN = "not testable here", "inconclusive"


@dataclass(frozen=True)
class Stability:
    """How the verdicts of two reruns compare."""

    pairs: list[tuple[Judgement, Judgement]]
    """The verdicts of both on the claims that both tested: decided, or inconclusive."""
    tested_once: int
    """Number of claims that only one of them could test."""

    @property
    def differing(self) -> list[tuple[Judgement, Judgement]]:
        """Those with two different verdicts."""
        return [(one, other) for one, other in self.pairs if one.verdict != other.verdict]

    @property
    def agreeing(self) -> int:
        """Number of claims on which both agree."""
        return sum(agree(one, other) for one, other in self.pairs)

    @property
    def same(self) -> int:
        """Number of claims with the same verdict in both."""
        return len(self.pairs) - len(self.differing)

    @property
    def opposite(self) -> int:
        """Number of claims that one rerun reproduces and the other does not."""
        return sum({one.verdict, other.verdict} == _OPPOSITE for one, other in self.pairs)

    @property
    def is_stable(self) -> bool:
        """Whether both agree on enough claims, and no verdicts are opposite."""
        return self.share_of(self.agreeing) >= LEAST_AGREEING and not self.opposite

    def share_of(self, claims: int) -> float:
        """Return the share of a number of claims in those that both tested; 1 if there are none."""
        return claims / len(self.pairs) if self.pairs else 1.0


def compare(first: Iterable[Judgement], second: Iterable[Judgement]) -> Stability:
    """Compare the verdicts of two reruns.

    Audits need no run; the caller leaves them out.

    Args:
        first: verdicts of one rerun.
        second: verdicts of the other; claims that only one of them has are not compared.
    """
    others = {(one.study, one.claim.id): one for one in second}
    keyed = [(one, (one.study, one.claim.id)) for one in first]
    both = [(one, others[key]) for one, key in keyed if key in others]
    tested = [sum(one.verdict != _UNTESTED for one in pair) for pair in both]
    pairs = [pair for pair, count in zip(both, tested, strict=True) if count == 2]
    return Stability(pairs, tested.count(1))


def agree(one: Judgement, other: Judgement) -> bool:
    """Whether two reruns agree on a claim that both tested.

    Without numbers, what they found is compatible if it is the same. A number is the one that decided,
    or left open, so those of a claim about several numbers of clients may be of different ones. One
    without an interval contradicts nothing.
    """
    if one.verdict == other.verdict:
        return True
    if _OPEN not in (one.verdict, other.verdict):
        return False
    if one.number is None or other.number is None:
        return one.found == other.found
    return stats.compatible(one.number, other.number)
