"""Evidence: runs in the form that the test of a claim needs.

Claims name the article's concurrencies. On a machine with fewer cores they are scaled to the same
number of clients per core: the article's 64 threads on 8 cores are 16 threads on 2. Two exceptions: a
study may say that clients are not scaled, and one client is always one client.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from benchlab.claims.runs import NotTestable, Runs
from benchlab.claims.words import listed
from benchlab.stats import CONFIDENCE
from benchlab.store.results import Rerun
from benchlab.study.claims import Claim, clients_here, of_other_load

#: What a message says about clients that were not run.
_NOT_RUN = "were not run"


@dataclass(frozen=True)
class Covered:
    """At which of the numbers of clients that a claim names there is a run that counts."""

    here: list[int]
    """Our equivalents of the article's numbers; at least one."""
    missing: list[int] = field(default_factory=list)
    """The article's numbers that were not run here."""
    not_counted: dict[int, str] = field(default_factory=dict)
    """Our numbers at which no run counts → the reason; see :meth:`Runs.not_counted`."""
    reaches_end: bool = True
    """Whether the last of the claim's numbers is among :attr:`here`."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return not (self.missing or self.not_counted)

    def __str__(self) -> str:
        """Say what is missing."""
        said = []
        if self.missing:
            said.append(f"the article's {listed(self.missing)} clients {_NOT_RUN}")
        by_reason = defaultdict(list)
        for one, reason in self.not_counted.items():
            by_reason[reason.partition(":")[0]].append(one)
        said += [f"{listed(those)} clients {reason}" for reason, those in by_reason.items()]
        return "; ".join(said)


@dataclass(frozen=True)
class Evidence:
    """The runs that a claim is tested with, for intervals of a confidence."""

    runs: Runs
    clients_per_core: bool
    """Whether a machine with fewer cores runs fewer clients for the same claim."""
    of_one_client: bool = False
    """Whether the claim is about a single client, which is one on every machine."""
    confidence: float = CONFIDENCE

    @classmethod
    def of(cls, rerun: Rerun) -> "Evidence":
        """Return the runs of a rerun, with clients counted as its study counts them."""
        return cls(Runs(rerun), rerun.study.clients_per_core)

    def for_claim(self, claim: Claim) -> "Evidence":
        """Return the same runs with clients counted as a claim counts them.

        Raises:
            NotTestable: the claim is about the number of clients, and these are another load here; or
                no run is along the number of clients.
        """
        if self.runs.cores is None:
            raise NotTestable("no run is along the number of clients")
        per_core = claim.counts_per_core(self.clients_per_core)
        cores = self.runs.cores, self.runs.instance.cores
        if reason := of_other_load(claim, per_core, *cores):
            raise NotTestable(reason)
        return replace(self, clients_per_core=per_core, of_one_client=claim.names_one_client)

    def with_confidence(self, confidence: float) -> "Evidence":
        """Return the same runs for intervals of another confidence."""
        return replace(self, confidence=confidence)

    def elsewhere(self) -> dict[str, "Evidence"]:
        """Return the same for the runs in the other envelopes."""
        return {name: replace(self, runs=one) for name, one in self.runs.elsewhere.items()}

    def here(self, in_article: int) -> float:
        """Return the concurrency here that corresponds to the article's."""
        return clients_here(in_article, self._share_of_cores)

    def in_article(self, here: int) -> float:
        """Return the article's concurrency that corresponds to one here."""
        return 1 if here == 1 and self.of_one_client else here / self._share_of_cores

    def not_run(self, curve: dict) -> list[int]:
        """Return the article's numbers of clients that a curve lacks here."""
        return [one for one in self.runs.study.clients_in_article if self.here(one) not in curve]

    def could_run(self, curve: dict) -> list[int]:
        """Return those of :meth:`not_run` that could be run: they are at least one client here."""
        return [one for one in self.not_run(curve) if self.here(one) >= 1]

    def among(self, curve: dict, in_article: int, not_counted: Mapping[int, str]) -> int:
        """Return the concurrency of a curve that corresponds to the article's.

        Args:
            curve: by our concurrencies.
            in_article: the article's.
            not_counted: see :meth:`Runs.not_counted`.

        Raises:
            NotTestable: the curve does not have that concurrency.
        """
        here = self.here(in_article)
        if here in curve:
            return int(here)
        why = not_counted.get(here, _NOT_RUN)
        raise NotTestable(f"the article's {in_article:,} clients are {here:,g} here, which {why}")

    def covered(
        self, curve: dict, in_article: Sequence[int], not_counted: Mapping[int, str]
    ) -> Covered:
        """Return which concurrencies of a curve correspond to the article's, and which are missing.

        Args:
            curve: by our concurrencies.
            in_article: the article's, the farthest one last.
            not_counted: see :meth:`Runs.not_counted`.

        Raises:
            NotTestable: the curve has none of them.
        """
        run = [one for one in in_article if self.here(one) in curve]
        failed = [one for one in in_article if self.here(one) in not_counted]
        if not run:
            here = ", ".join(f"{self.here(one):,g}" for one in in_article)
            why = not_counted[self.here(failed[0])] if failed else _NOT_RUN
            raise NotTestable(f"the article's clients are {here} here; these {why}")
        return Covered(
            list(dict.fromkeys(int(self.here(one)) for one in run)),
            [one for one in in_article if one not in (*run, *failed)],
            {(here := int(self.here(one))): not_counted[here] for one in failed},
            in_article[-1] in run,
        )

    @property
    def _share_of_cores(self) -> float:
        return self.runs.cores / self.runs.instance.cores if self.clients_per_core else 1.0


def not_run_about(
    within: tuple[float, float], clients: Mapping[int, float], run: Collection[int]
) -> tuple[list[int], list[int]]:
    """Return the article's clients that were not run and at which a curve may be as high as in a range.

    It may be as high within the range, between the range and what was run next to it, and beyond all
    that was run.

    Args:
        within: our first and last number of the range.
        clients: the article's numbers, with ours; one below 1 cannot be run.
        run: our numbers that were run.

    Returns:
        Those within the range, and those beside it.
    """
    first, last = within
    below = max((one for one in run if one < first), default=0)
    above = min((one for one in run if one > last), default=inf)
    inside, beside = [], []
    for one, here in clients.items():
        if here < 1 or here in run:
            continue
        if first <= here <= last:
            inside.append(one)
        elif below < here < above or here > max(run):
            beside.append(one)
    return inside, beside
