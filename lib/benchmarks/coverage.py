"""How often do intervals cover, and how many verdicts are wrong? Simulated from the reference.

The truth is known: every point of the reference gets the same median, and trials around it that spread
as that point's own did. So every ratio is 1, every curve is flat, and no claim of an effect is true.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import polars as pl
from benchlab import stats
from benchlab.claims import words
from benchlab.claims.judge import DECIDED, Judgement, judge
from benchlab.repo import Repo
from benchlab.stats import CONFIDENCE, Estimate, Sample
from benchlab.store import open_any, results
from benchlab.store.results import POINT, Rerun
from benchlab.study.claims import Knee, Peak
from benchlab.study.vocabulary import METRICS
from rich.console import Console
from table import Row

#: Reruns that are simulated, for the intervals and for the verdicts, which take longer.
INTERVALS, VERDICTS = 400, 100

#: Trials of a point.
TRIALS = (3, 5)

#: Times the median spread of its engine's points from which on a point is a noisy one.
NOISY = 1.3


def measure(checkout: Repo, console: Console) -> Iterator[Row]:
    """Simulate reruns of every study that the reference has."""
    with open_any(checkout.reference) as store:
        for name in store.sql("SELECT DISTINCT study FROM run ORDER BY study")["study"]:
            rerun = results.open_rerun(checkout, store, name)
            with console.status(f"simulating {name}"):
                for trials in TRIALS:
                    yield from _intervals(rerun, trials)
                yield _verdicts(checkout, rerun)


def _intervals(rerun: Rerun, trials: int) -> Iterator[Row]:
    """Coverage of the ratio of two points: any two, and two that are noisier than the others."""
    random = np.random.default_rng(trials)
    points = results.trials(rerun.metrics, "tps").filter(pl.col("tps").list.len() > 1)
    deviations = np.array([np.log(values.to_numpy()).std(ddof=1) for values in points["tps"]])
    engines = points["engine"].to_list()
    usual = points.select("engine", deviation=deviations).group_by("engine").median()
    threshold = NOISY * np.array([dict(usual.iter_rows())[engine] for engine in engines])
    noisy = np.flatnonzero(deviations > threshold)
    inside: dict[str, list[bool]] = {"any two points": [], "two noisy points": []}
    for _ in range(INTERVALS):
        values = np.exp(random.normal(0, deviations[:, None], (len(deviations), trials)))
        simulated = points.select("engine", tps=pl.Series(values.tolist()))
        priors = results.spreads(simulated, "tps")
        for what, among in zip(inside, (np.arange(len(engines)), noisy), strict=True):
            one, other = random.choice(among, 2, replace=False)
            pair = (Sample(values[at], priors[engines[at]]) for at in (one, other))
            inside[what].append(not stats.ratio(*pair).excludes(1))
    for what, found in inside.items():
        name = f"{rerun.study.study}: intervals of {what}, {trials} trials, that cover"
        yield Row(name, _share(found), "0.94 to 0.96")


def _verdicts(checkout: Repo, rerun: Rerun) -> Row:
    """Share of wrong verdicts among those of a rerun that say something, on average."""
    random = np.random.default_rng(1)
    wrong = []
    for _ in range(VERDICTS):
        judged = judge(checkout, rerun.study.study, _flat(rerun, random))
        decided = [
            one for one in judged if (one.verdict in DECIDED and one.number) or _is_place(one)
        ]
        wrong.append(sum(map(_is_wrong, decided)) / max(len(decided), 1))
    error = float(np.std(wrong, ddof=1)) / sqrt(len(wrong))
    value = float(np.mean(wrong))
    return Row(
        f"{rerun.study.study}: verdicts that are wrong, of those that say something",
        Estimate(value, max(0.0, value - 2 * error), value + 2 * error, len(wrong)),
        f"≤ {1 - CONFIDENCE:.2f}",
    )


@dataclass(frozen=True)
class _Simulated(Rerun):
    """A rerun with other metrics than were measured."""

    simulated: pl.DataFrame

    @property
    def metrics(self) -> pl.DataFrame:
        """In place of the measured ones."""
        return self.simulated


def _flat(rerun: Rerun, random: np.random.Generator) -> _Simulated:
    """Return the rerun as it may have come out if nothing had any effect on any metric."""
    found = rerun.metrics
    for name in METRICS:
        deviation = pl.col(name).log().std(ddof=1).over(POINT)
        noise = pl.Series(random.normal(size=found.height))
        measured = pl.col(name) > 0
        flat = pl.when(measured).then((deviation.fill_null(0) * noise).exp())
        found = found.with_columns(flat.alias(name))
    return _Simulated(rerun.store, rerun.study, rerun.instance, rerun.profile, rerun.target, found)


def _is_place(one: Judgement) -> bool:
    return one.verdict in DECIDED and isinstance(one.claim.decided_by, Peak | Knee)


def _is_wrong(one: Judgement) -> bool:
    """Whether a verdict is not the one for ratios of 1 and a curve without a peak."""
    accepted = words.accepted(one.claim.decided_by)
    if accepted is None:
        return True  # a place of a flat curve
    low, high = accepted
    right = "reproduced" if low < 1 < high else "not reproduced" if not low <= 1 <= high else ""
    return one.verdict != right


def _share(found: Sequence[bool]) -> Estimate:
    share, n = float(np.mean(found)), len(found)
    error = 1.96 * sqrt(share * (1 - share) / n)
    return Estimate(share, share - error, min(1.0, share + error), n)
