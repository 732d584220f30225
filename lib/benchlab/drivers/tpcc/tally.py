"""Counts of what the terminals of a process did, second by second and in total."""

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum

from benchlab.workloads.tpcc.dataset import TYPES

NEW_ORDER = TYPES.index("new_order")

#: Resolution of lateness.
_STEP_US = 100


class Status(IntEnum):
    """Outcome of a transaction: its index in :data:`records.STATUSES`."""

    OK = 0
    ROLLED_BACK = 1
    REFUSED = 2
    ERROR = 3
    LOST = 4


@dataclass(slots=True)
class Tally:
    """Counts over some time.

    ``all`` counts the transactions that ended well, ``new_order`` those of them that tpmC counts
    (clause 5.4.2). Both include transactions that rolled back on purpose.
    """

    new_order: int = 0
    all: int = 0
    rolled_back: int = 0
    refused: int = 0
    errors: int = 0
    lost: int = 0
    late: Counter[int] = field(default_factory=Counter)
    """Time from due to sent, in steps of 0.1 ms → number of requests."""

    def sent(self, late_us: int) -> None:
        """Count a request that was sent ``late_us`` µs after it was due."""
        self.late[late_us // _STEP_US] += 1

    def ended(self, number: int, status: Status) -> None:
        """Count a transaction; ``number`` is the index of its type in :data:`TYPES`."""
        if status is Status.REFUSED:
            self.refused += 1
        elif status is Status.ERROR:
            self.errors += 1
        elif status is Status.LOST:
            self.lost += 1
        else:
            self.all += 1
            self.new_order += number == NEW_ORDER
            self.rolled_back += status is Status.ROLLED_BACK

    def add(self, other: "Tally") -> None:
        """Add the counts of another tally."""
        self.late.update(other.late)
        for name, count in other.counts().items():
            setattr(self, name, getattr(self, name) + count)

    def counts(self) -> dict[str, int]:
        """Return all counts except lateness."""
        names = ("new_order", "all", "rolled_back", "refused", "errors", "lost")
        return {name: getattr(self, name) for name in names}

    def late_p99_ms(self) -> float:
        """Return the 99th percentile of lateness, rounded up to 0.1 ms; 0 if nothing was sent."""
        left = self.late.total() * 0.99
        for step in sorted(self.late):
            left -= self.late[step]
            if left <= 0:
                return (step + 1) * _STEP_US / 1000
        return 0.0

    def line(self, second: int) -> str:
        """Return the counts as the line of a second of the Unix clock."""
        counts = " ".join(f"{name}={count}" for name, count in self.counts().items())
        return f"{second} {counts} late_p99_ms={self.late_p99_ms():.1f}"
