"""Throughput of transactions that commit, from their CPU time and the latency of the log.

A closed form beside the data, to say at which concurrency a slow log stops mattering. By the
operational laws of closed systems (Denning and Buzen, ACM Computing Surveys 10(3), 1978) throughput
stays below two asymptotes:

- of few clients: each is busy for its CPU time, and waits for the log's latency, ``log_waits`` times.
  Commits that come while a write is under way go together with the next one (group commit), so a
  client that is alone waits once, and one of many up to twice, however many they are;
- of many clients: all cores are busy. What a transaction takes of them may grow with every client
  that contends, by the share ``contention``.

A log of a limited bandwidth is a third one, where it is known. Near the knee throughput is below all of
them; ``sharpness`` says how closely it follows the lowest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

#: Points that a fit takes: as many as there are parameters, and one more.
LEAST_POINTS = 5

#: Lower and upper bound of each parameter. A transaction of less than 1 µs or more than 1 s is none of
#: a benchmark's; the rest is what the model means.
_BOUNDS = {
    "cpu_s": (1e-6, 1.0),
    "log_waits": (1.0, 2.0),
    "contention": (0.0, 0.1),
    "sharpness": (1.0, 20.0),
}


@dataclass(frozen=True)
class CommitModel:
    """See this module."""

    cores: float
    """Cores that engine and load generator have together."""
    cpu_s: float
    """CPU time of a transaction, s, where nobody contends."""
    log_waits: float
    """Latencies of the log that a commit waits for, on average."""
    contention: float
    """Share by which each further client raises the CPU time of a transaction."""
    sharpness: float
    """Exponent that joins the asymptotes; at infinity throughput is the lowest of them."""

    def tps(
        self, clients: Sequence[float], latency_s: Sequence[float] | float, most: float = inf
    ) -> np.ndarray:
        """Return throughput in transactions per second, one for each number of clients.

        Args:
            clients: n ≥ 1.
            latency_s: of a durable write to the log, s; one for all, or one for each.
            most: transactions per second that the log's bandwidth allows.
        """
        n, latency = np.asarray(clients, dtype=float), np.asarray(latency_s, dtype=float)
        few = n / (self.cpu_s + self.log_waits * latency)
        many = self.cores / (self.cpu_s * (1 + self.contention * (n - 1)))
        asymptotes = np.array(np.broadcast_arrays(few, many, most))
        lowest = asymptotes.min(axis=0)
        # relative to the lowest, or a high power overflows
        return lowest * ((lowest / asymptotes) ** self.sharpness).sum(axis=0) ** (
            -1 / self.sharpness
        )

    def enough_clients(
        self, slow_s: float, fast_s: float, share: float, most_clients: int
    ) -> int | None:
        """Return the fewest clients at which a slow log reaches a share of a fast one's throughput.

        ``None``: more than ``most_clients``.

        Args:
            slow_s: latency of the slow log, s.
            fast_s: of the other.
            share: 0 < share < 1.
            most_clients: that are tried.
        """
        clients = np.arange(1, most_clients + 1)
        reached = self.tps(clients, slow_s) >= share * self.tps(clients, fast_s)
        return int(clients[reached.argmax()]) if reached.any() else None


def fit_commits(
    clients: Sequence[float], latency_s: Sequence[float], tps: Sequence[float], cores: float
) -> CommitModel:
    """Fit the model to measured points by least squares of the relative errors.

    Args:
        clients: of each point.
        latency_s: of a durable write to the log there, s.
        tps: measured there.
        cores: that engine and load generator have together.

    Raises:
        ValueError: fewer than five points, not as many of each, or a value that is not above 0.
    """
    from scipy.optimize import least_squares

    n, latency, measured = (np.asarray(one, dtype=float) for one in (clients, latency_s, tps))
    if len(n) < LEAST_POINTS or not len(n) == len(latency) == len(measured):
        raise ValueError(f"a model of {len(n)}, {len(latency)} and {len(measured)} values")
    if min(n.min(), latency.min(), measured.min()) <= 0:
        raise ValueError("a model of values that are not above 0")

    def model(parameters: np.ndarray) -> CommitModel:
        return CommitModel(cores, float(np.exp(parameters[0])), *map(float, parameters[1:]))

    def errors(parameters: np.ndarray) -> np.ndarray:
        return np.log(model(parameters).tps(n, latency) / measured)

    low, high = (np.array(bounds) for bounds in zip(*_BOUNDS.values(), strict=True))
    low[0], high[0] = np.log(low[0]), np.log(high[0])
    # the point with the highest throughput is nearest to that of all cores
    begin = np.clip([np.log(cores / measured.max()), 1.5, 1e-4, 3.0], low, high)
    found = least_squares(errors, begin, bounds=(low, high), x_scale=[1.0, 0.5, 1e-3, 3.0])
    return model(found.x)
