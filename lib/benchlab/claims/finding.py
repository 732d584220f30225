"""What one test of a claim found."""

from dataclasses import dataclass, replace

from benchlab.claims.evidence import Covered
from benchlab.stats import Answer, Estimate

#: Answers to one question that contradict each other.
OPPOSITE = {Answer.HOLDS, Answer.FAILS}


@dataclass(frozen=True)
class Finding:
    """An answer, with what it rests on."""

    answer: Answer
    found: str
    """What the runs show, in a few characters."""
    number: Estimate | None = None
    """The number that decided; ``None`` if no number did."""
    where: str = ""
    """At which numbers of clients, and which of the article's were not run."""
    trials_needed: int | None = None
    """Trials of each point that would probably be enough, if open; ``None``: unknown."""
    tends_to_fail: bool = False
    """Whether these trials would probably show that it fails, if open."""
    has_chance: bool = True
    """Whether another run might have found something else by chance."""
    others: str = ""
    """What was found for the other curves that the article may have meant just as well."""
    has_opposite: bool = False
    """Whether one of them has the opposite answer."""
    fails_at: frozenset[int] = frozenset()
    """Our numbers of clients at which a test of several fails."""
    holds_at: frozenset[int] = frozenset()
    """Our numbers of clients, if the test holds at all that were run and is open for the others."""

    @property
    def is_exact(self) -> bool:
        """Whether the finding does not depend on chance."""
        return not self.has_chance or (self.number is not None and self.number.is_exact)

    @property
    def lacks_interval(self) -> str:
        """Why it is open for want of an interval; empty if it is not."""
        number = self.number
        if self.answer is not Answer.OPEN or number is None or number.low is not None:
            return ""
        if number.n < 2:
            return "a single trial has no interval"
        return "trials that are all equal, or zero, have no interval"

    def within(self, covered: Covered, *decided_at: int) -> "Finding":
        """Return what the finding means for the whole claim, if only a part of it was run.

        Args:
            covered: what was run of it.
            decided_at: our numbers of clients of which each alone decides, if the test fails.
        """
        fails_at = decided_at if self.answer is Answer.FAILS else ()
        found = replace(self, fails_at=frozenset(fails_at))
        if covered.is_whole:
            return found
        found = replace(found, where=f"{self.where}; {covered}")
        if covered.reaches_end or self.answer is Answer.FAILS:
            return found
        holds_at = covered.here if self.answer is Answer.HOLDS else ()
        # what was not run may change that it holds, not that it fails
        needed = self.trials_needed if self.tends_to_fail else None
        return replace(
            found, answer=Answer.OPEN, trials_needed=needed, holds_at=frozenset(holds_at)
        )

    def contradicts(self, other: "Finding") -> bool:
        """Whether one of the two holds and the other fails, as far as both were run."""
        if {self.answer, other.answer} == OPPOSITE:
            return True
        return bool(self.fails_at & other.holds_at or self.holds_at & other.fails_at)
