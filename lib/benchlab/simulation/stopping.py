"""Simulations of runs that end once they look steady: bias of their means, and drift that passes.

The truth is known: seconds are simulated around a level that is constant or drifts. Their noise is
correlated from one second to the next, and the background work of an engine adds dips. A run ends by
:func:`benchlab.gate.steady.may_end`, which is evaluated after every second as in a real run. It passes
if :func:`benchlab.gate.steady.unsteady` gives no reason against it.
"""

from dataclasses import dataclass
from math import floor, log, log1p, sqrt

import numpy as np
import polars as pl

from benchlab.gate import steady
from benchlab.simulation.coverage import SEED, error_of_share, standard_error

#: Number of simulated runs of each case.
RUNS = 300

#: Shortest and longest measured part, as in the profile ``standard`` of ``postgres_vs_tidb``.
SHORTEST_S, LONGEST_S = 30, 240

#: Noise: coefficients of variation of the seconds, and correlations of each second with the next.
VARIATIONS, DEPENDENCES = (0.05, 0.2, 0.4), (0.0, 0.4, 0.8)

#: Shortest and longest cycle of the background work in seconds; part of the cycle, at its start, in
#: which it works; share of throughput that it takes meanwhile. These are assumptions: in the seconds of
#: recorded runs a cycle can hardly be distinguished from noise. A bias grows with the share.
CYCLE_S, WORK, DIP = (10, 40), 1 / 3, 0.4

#: Transactions per second, so many that their number does not keep a run from ending.
LEVEL_TPS = 1000

#: Relative change of the level in the time of a case, up or down; and the change in the measured part
#: above which a run should not pass.
DRIFT, TOO_FAR = 0.2, 0.1


@dataclass(frozen=True)
class Case:
    """A case that is simulated."""

    drift_s: int | None = None
    """Seconds in which the level changes by :data:`DRIFT`; ``None``: it is constant."""
    counts_parts: bool = False
    """Whether the engine reports parts of a cycle, as MySQL does; PostgreSQL counts started ones."""
    ends_early: bool = True
    """Whether the run ends once it is steady; if not, it is measured for the longest time."""


CASES = {
    "level, begins counted": Case(),
    "level, parts counted": Case(counts_parts=True),
    "slow drift": Case(LONGEST_S),
    "slow drift, longest time": Case(LONGEST_S, ends_early=False),
    "fast drift": Case(SHORTEST_S),
}


def stopping(name: str, variation: float, dependence: float, runs: int = RUNS) -> pl.DataFrame:
    """Return the results of the simulated runs of a case.

    Columns: ``case``; ``variation``, ``dependence``; ``passed``, the share of runs that passed;
    ``too_far``, the share of runs that passed although their level changed by more than
    :data:`TOO_FAR` in the measured part; the standard errors of both, ``…_error``; ``seconds`` and
    ``cycles``, medians of the runs that passed; if the level is constant, the ``bias`` of the means of
    these runs with its ``bias_error``; ``runs``; ``seed``.

    Args:
        name: name of the case, a key of :data:`CASES`.
        variation: coefficient of variation of the noise.
        dependence: correlation of the logarithm of a second's noise with that of the next.
        runs: number of simulated runs.
    """
    case = CASES[name]
    random = np.random.default_rng(
        [SEED, list(CASES).index(name), round(100 * variation), round(100 * dependence)]
    )
    found = pl.DataFrame([_run(random, case, variation, dependence) for _ in range(runs)])
    passed = found.filter("passed")
    bias = passed["mean"] - 1 if case.drift_s is None and len(passed) > 1 else None
    return pl.DataFrame(
        {
            "case": name,
            "variation": variation,
            "dependence": dependence,
            **_share("passed", found["passed"]),
            **_share("too_far", found["passed"] & found["too_far"]),
            "seconds": passed["seconds"].median(),
            "cycles": passed["cycles"].median(),
            "bias": None if bias is None else bias.mean(),
            "bias_error": None if bias is None else standard_error(bias),
            "runs": runs,
            "seed": SEED,
        },
        schema_overrides=dict.fromkeys(("seconds", "cycles", "bias", "bias_error"), pl.Float64),
    )


def _share(name: str, found: pl.Series) -> dict[str, float]:
    """Return a share with its standard error."""
    return {name: found.mean(), f"{name}_error": error_of_share(found.sum(), len(found))}


def _run(
    random: np.random.Generator, case: Case, variation: float, dependence: float
) -> dict[str, float | bool]:
    """Simulate a run; return whether it passed, how long it was measured, and its mean."""
    cycle_s, phase, sign = random.uniform(*CYCLE_S), random.random(), random.choice([-1, 1])
    seconds = np.arange(LONGEST_S)
    in_cycle = (phase + (seconds + 0.5) / cycle_s) % 1
    dips = np.where(in_cycle < WORK, 1 - DIP, 1) / (1 - DIP * WORK)
    drift = sign * log1p(DRIFT) / case.drift_s if case.drift_s else 0.0
    level = np.exp(drift * seconds)
    tps = level * dips * _noise(random, variation, dependence)

    def seen(end: int) -> tuple[np.ndarray, bool, float, float]:
        counts = (phase, phase + end / cycle_s)
        cycles = steady.cycles_between(*(counts if case.counts_parts else map(floor, counts)))
        return LEVEL_TPS * tps[:end], True, cycles, steady.WRITEBACK_S

    early = range(SHORTEST_S, LONGEST_S) if case.ends_early else ()
    measured = next((end for end in early if steady.may_end(*seen(end))), LONGEST_S)
    return {
        "passed": steady.unsteady(*seen(measured)) is None,
        "too_far": bool(abs(level[measured - 1] / level[0] - 1) > TOO_FAR),
        "seconds": measured,
        "cycles": measured / cycle_s,
        "mean": float(tps[:measured].mean()),
    }


def _noise(random: np.random.Generator, variation: float, dependence: float) -> np.ndarray:
    """Return factors around 1: lognormal, since throughput is positive; logarithms autoregressive."""
    from scipy.signal import lfilter  # slow to import, and not needed to read simulated tables

    variance = log(1 + variation**2)
    shocks = random.normal(size=LONGEST_S) * sqrt(1 - dependence**2)
    shocks[0] /= sqrt(1 - dependence**2)  # stationary from the first second on
    return np.exp(sqrt(variance) * lfilter([1], [1, -dependence], shocks) - variance / 2)
