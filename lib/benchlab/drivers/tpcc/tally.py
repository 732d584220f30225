"""What the terminals of a process did, second by second and in all."""

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum

from benchlab.workloads.tpcc.dataset import TYPES

NEW_ORDER = TYPES.index("new_order")

#: Lateness is counted to this.
_STEP_US = 100


class Status(IntEnum):
    """What became of a transaction: the numbers of :data:`records.STATUSES`."""

    OK = 0
    ROLLED_BACK = 1
    REFUSED = 2
    ERROR = 3
    LOST = 4


@dataclass(slots=True)
class Tally:
    """Counts over some time.

    ``all`` are the transactions that ended well, ``new_order`` those of them that tpmC counts (clause
    5.4.2); both include those that rolled back on purpose.
    """

    new_order: int = 0
    all: int = 0
    rolled_back: int = 0
    refused: int = 0
    errors: int = 0
    lost: int = 0
    late: Counter[int] = field(default_factory=Counter)
    """Sent how much after due, in steps of 0.1 ms → how many."""

    def sent(self, late_us: int) -> None:
        """Count a request that was sent so much after it was due."""
        self.late[late_us // _STEP_US] += 1

    def ended(self, number: int, status: Status) -> None:
        """Count a transaction of the type of that number."""
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
        """Count what another one has counted."""
        self.late.update(other.late)
        for name, count in other.counts().items():
            setattr(self, name, getattr(self, name) + count)

    def counts(self) -> dict[str, int]:
        """Return all but lateness."""
        names = ("new_order", "all", "rolled_back", "refused", "errors", "lost")
        return {name: getattr(self, name) for name in names}

    def late_p99_ms(self) -> float:
        """Return the 99th percentile of lateness, rounded up to 0.1 ms; 0 where nothing was sent."""
        left = self.late.total() * 0.99
        for step in sorted(self.late):
            left -= self.late[step]
            if left <= 0:
                return (step + 1) * _STEP_US / 1000
        return 0.0

    def line(self, second: int) -> str:
        """Return it as the line of a second of the Unix clock."""
        counts = " ".join(f"{name}={count}" for name, count in self.counts().items())
        return f"{second} {counts} late_p99_ms={self.late_p99_ms():.1f}"
