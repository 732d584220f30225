"""Model of the throughput of commits, from their CPU time and the latency of the log.

The model is a closed form that is fitted to the data. It gives the concurrency at which a slow log
stops mattering. By the operational laws of closed systems (Denning and Buzen, ACM Computing Surveys
10(3), 1978) throughput stays below two asymptotes:

- with few clients, each is busy for its CPU time and waits ``log_waits`` times for the log's latency.
  Commits that arrive during a write are written together by the next one (group commit). So a single
  client waits once, and one of many waits up to twice, however many there are;
- with many clients, all cores are busy. Each further client may raise the CPU time of a transaction,
  by the share ``contention``.

Near the knee throughput is below both; ``sharpness`` says how closely it follows the lower one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Least number of points of a fit: one more than there are parameters.
LEAST_POINTS = 5

#: Where the fit stops, relative; and the significant digits of what it finds. The digits after them
#: depend on the last ones of a double, and these differ from CPU to CPU.
_TOLERANCE = 1e-14
_DIGITS = 5

#: Fewest and most latencies of the log that a commit waits for: of a single client, of one of many.
LOG_WAITS = (1.0, 2.0)

#: Lower and upper bound of each parameter. No transaction of a benchmark takes less than 1 µs or more
#: than 1 s of CPU time; the other bounds follow from the meaning of the model.
_BOUNDS = {
    "cpu_s": (1e-6, 1.0),
    "log_waits": LOG_WAITS,
    "contention": (0.0, 0.1),
    "sharpness": (1.0, 20.0),
}


@dataclass(frozen=True)
class CommitModel:
    """The model of this module, with its parameters."""

    cores: float
    """Cores that engine and load generator share."""
    cpu_s: float
    """CPU time of a transaction without contention, s."""
    log_waits: float
    """How many latencies of the log a commit waits for, on average."""
    contention: float
    """Share by which each further client raises the CPU time of a transaction."""
    sharpness: float
    """Exponent that joins the asymptotes; at infinity throughput is the lower one."""

    def tps(self, clients: Sequence[float], latency_s: Sequence[float] | float) -> np.ndarray:
        """Return throughput in transactions per second, one for each number of clients.

        Args:
            clients: numbers of clients, n ≥ 1.
            latency_s: latency of a durable write to the log, s; one for all, or one for each.
        """
        n, latency = np.asarray(clients, dtype=float), np.asarray(latency_s, dtype=float)
        few = n / (self.cpu_s + self.log_waits * latency)
        many = self.cores / (self.cpu_s * (1 + self.contention * (n - 1)))
        asymptotes = np.array(np.broadcast_arrays(few, many))
        lowest = asymptotes.min(axis=0)
        # relative to the lowest, since a high power would overflow
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
            fast_s: latency of the fast log, s.
            share: 0 < share < 1.
            most_clients: largest number of clients that is tried.
        """
        clients = np.arange(1, most_clients + 1)
        reached = self.tps(clients, slow_s) >= share * self.tps(clients, fast_s)
        return int(clients[reached.argmax()]) if reached.any() else None


def fit_commits(
    clients: Sequence[float], latency_s: Sequence[float], tps: Sequence[float], cores: float
) -> CommitModel:
    """Fit the model to measured points by least squares of the relative errors.

    Args:
        clients: number of clients of each point.
        latency_s: latency of a durable write to the log at each point, s.
        tps: measured throughput of each point, transactions per second.
        cores: number of cores that engine and load generator share.

    Raises:
        ValueError: fewer than five points, sequences of different length, or a value that is not
            above 0.
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
    # the point with the highest throughput is nearest to the asymptote of all cores
    begin = np.clip([np.log(cores / measured.max()), 1.5, 1e-4, 3.0], low, high)
    found = least_squares(
        errors,
        begin,
        jac="3-point",
        bounds=(low, high),
        x_scale=[1.0, 0.5, 1e-3, 3.0],
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
        gtol=_TOLERANCE,
    )
    fitted = np.exp(found.x[0]), *found.x[1:]
    return CommitModel(cores, *(float(f"{one:.{_DIGITS}g}") for one in fitted))
