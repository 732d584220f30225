"""Stability: whether two reruns of a study come to the same verdicts."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchlab.claims.judge import Judgement

#: Share of the testable claims that must have the same verdict in both.
LEAST_SAME = 0.95

_OPPOSITE = {"reproduced", "not reproduced"}


@dataclass(frozen=True)
class Stability:
    """How the verdicts of two reruns compare."""

    testable: int
    """Claims that at least one rerun could test: decided, or inconclusive."""
    differing: list[tuple[Judgement, Judgement]]
    """Testable claims with two different verdicts."""

    @property
    def same_share(self) -> float:
        """Share of the testable claims with the same verdict in both; 1 if there are none."""
        return 1 - len(self.differing) / self.testable if self.testable else 1.0

    @property
    def opposite(self) -> int:
        """Number of claims that one rerun reproduces and the other does not."""
        return sum({one.verdict, other.verdict} == _OPPOSITE for one, other in self.differing)

    @property
    def is_stable(self) -> bool:
        """Whether enough verdicts are the same, and none are opposite."""
        return self.same_share >= LEAST_SAME and not self.opposite


def compare(first: Iterable[Judgement], second: Iterable[Judgement]) -> Stability:
    """Compare the verdicts of two reruns.

    Audits need no run; the caller leaves them out.

    Args:
        first: verdicts of one rerun.
        second: verdicts of the other; claims that only one of them has are not compared.
    """
    others = {(one.study, one.claim.id): one for one in second}
    keyed = [(one, (one.study, one.claim.id)) for one in first]
    pairs = [(one, others[key]) for one, key in keyed if key in others]
    testable = [pair for pair in pairs if any(one.verdict != "not testable here" for one in pair)]
    return Stability(
        len(testable), [pair for pair in testable if pair[0].verdict != pair[1].verdict]
    )
