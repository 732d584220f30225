"""Simulations: how often intervals cover, how many verdicts are wrong, whether two reruns agree.

The truth is known: every point of a rerun gets the same median, and trials around it with the spread
that the point's measured trials probably have. So every ratio is 1, every curve is flat, and no claim
of an effect is true. Only the simulation of agreement uses the measured medians.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import polars as pl

from benchlab import stats
from benchlab.claims import further, stability, words
from benchlab.claims.judge import DECIDED, Judgement, judge_claims
from benchlab.repo import Repo
from benchlab.stats import Sample
from benchlab.store import results
from benchlab.store.results import POINT, Rerun
from benchlab.study import Study
from benchlab.study.claims import Audit, Level, Limit, Together
from benchlab.study.vocabulary import METRICS

#: Number of simulated reruns.
RERUNS = 200

#: Number of simulated pairs of reruns that are compared.
PAIRS = 100

#: Numbers of trials of a point.
TRIALS = (2, 3, 5, 10)

#: A point is noisy if its spread is more than this many times the median of its engine's points.
NOISY = 1.3

#: Seed of every simulation.
SEED = 1


def intervals(rerun: Rerun, trials: int, reruns: int = RERUNS) -> pl.DataFrame:
    """Return how often the 95 % intervals of throughput cover the true value.

    Columns: ``study``; ``statistic`` (*median*, or *ratio* of two points); ``points`` (*any*, or
    *noisy*: noisier than the others of their engine, if two or more are); ``trials``; ``covered``, a
    share, with its standard ``error``; ``simulated`` (points of each rerun); ``cv_low``,
    ``cv_median``, ``cv_high`` (10 %, 50 % and 90 % quantile of the points' coefficients of variation);
    ``reruns``; ``seed``.

    Args:
        rerun: source of the spreads of the simulated trials.
        trials: number of trials of each point.
        reruns: number of simulated reruns.
    """
    random = np.random.default_rng([SEED, trials])
    points = _trials(rerun, "tps").filter(pl.col("tps").list.len() > 1)
    points = _with_deviations(points, "tps")
    deviations = points["tps deviation"].to_numpy()
    engines = points["engine"].to_list()
    usual = points.select("engine", deviation=deviations).group_by("engine").median()
    threshold = NOISY * np.array([dict(usual.iter_rows())[engine] for engine in engines])
    noisy = np.flatnonzero(deviations > threshold)
    groups = {"any": np.arange(len(engines))} | ({"noisy": noisy} if len(noisy) > 1 else {})
    covered = defaultdict(list)
    for _ in range(reruns):
        values = np.exp(random.normal(0, deviations[:, None], (len(deviations), trials)))
        priors = results.spreads(points.select("engine", tps=pl.Series(values.tolist())), "tps")
        samples = [Sample(*one) for one in zip(values, map(priors.get, engines), strict=True)]
        for name, group in groups.items():
            order = [samples[at] for at in random.permutation(group)]
            estimates = {
                "median": [stats.median(one) for one in order],
                # with an odd number of points the last has no partner
                "ratio": [
                    stats.ratio(*pair) for pair in zip(order[::2], order[1::2], strict=False)
                ],
            }
            for statistic, found in estimates.items():
                covered[statistic, name].append(np.mean([not one.excludes(1) for one in found]))
    variations = np.sqrt(np.expm1(deviations**2))
    rows = []
    for (statistic, name), shares in covered.items():
        low, middle, high = np.quantile(variations[groups[name]], [0.1, 0.5, 0.9])
        rows.append(
            {
                "study": rerun.study.study,
                "statistic": statistic,
                "points": name,
                "trials": trials,
                "covered": float(np.mean(shares)),
                "error": standard_error(shares),
                "simulated": len(groups[name]),
                "cv_low": float(low),
                "cv_median": float(middle),
                "cv_high": float(high),
                "reruns": reruns,
                "seed": SEED,
            }
        )
    return pl.DataFrame(rows)


def verdicts(repo: Repo, rerun: Rerun, reruns: int = RERUNS) -> pl.DataFrame:
    """Return how many of a rerun's verdicts are wrong if nothing has an effect.

    Columns: ``study``; ``testable``, ``decided`` (verdicts of a rerun, on average); ``wrong``, the
    share of wrong ones among the decided, averaged over reruns, with its standard ``error``;
    ``wrong_verdicts``, the number of wrong ones in a rerun, on average, with its standard error
    ``wrong_verdicts_error``; ``reruns``; ``seed``.

    Claims that few trials leave open get further trials, as in a sweep, and are judged once more.
    Claims about what binds are left out: simulated runs have no captures that show it. So are claims
    about a value: without effects none has any particular one.

    Args:
        repo: the checkout.
        rerun: source of the spreads of the simulated trials.
        reruns: number of simulated reruns.
    """
    random = np.random.default_rng(SEED)
    truth = _truth(rerun, has_effects=False)
    spec = _without(rerun.study, Audit, Together, Level, Limit)
    testable, decided, wrong, wrong_verdicts = [], [], [], []
    for _ in range(reruns):
        of_chance = _judged(repo, spec, rerun, truth, random)
        found = [one for one in of_chance if one.verdict in DECIDED]
        testable.append(len(of_chance))
        decided.append(len(found))
        wrong_verdicts.append(sum(map(_is_wrong, found)))
        wrong.append(wrong_verdicts[-1] / max(len(found), 1))
    return pl.DataFrame(
        {
            "study": rerun.study.study,
            "testable": float(np.mean(testable)),
            "decided": float(np.mean(decided)),
            "wrong": float(np.mean(wrong)),
            "error": standard_error(wrong),
            "wrong_verdicts": float(np.mean(wrong_verdicts)),
            "wrong_verdicts_error": standard_error(wrong_verdicts),
            "reruns": reruns,
            "seed": SEED,
        }
    )


def of_all_studies(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return the verdicts of all studies as one family, the paper's: a row like those of each study.

    ``wrong`` is the number of wrong verdicts that are expected in a paper, over the number of decided
    ones that are. The studies are simulated independently of each other.

    Args:
        verdicts: a row for each study; see :func:`verdicts`.
    """
    decided = pl.col("decided").sum()
    return verdicts.select(
        pl.lit("all studies").alias("study"),
        pl.col("testable").sum(),
        decided,
        (pl.col("wrong_verdicts").sum() / decided).alias("wrong"),
        (pl.col("wrong_verdicts_error").pow(2).sum().sqrt() / decided).alias("error"),
        pl.col("wrong_verdicts").sum(),
        pl.col("wrong_verdicts_error").pow(2).sum().sqrt(),
        pl.col("reruns").min(),
        pl.col("seed").first(),
    )


def agreement(repo: Repo, rerun: Rerun, pairs: int = PAIRS) -> pl.DataFrame:
    """Return how often two reruns agree if they differ only by chance.

    Columns: ``study``; ``trials`` and ``most_trials`` of its profile; ``tested`` (claims that both
    tested, on average); ``agreeing``, the share of them on which both agree
    (:mod:`benchlab.claims.stability`), and ``same``, of those with the same verdict in both, each with
    its standard error (``agreeing_error``, ``same_error``); ``opposite``, the share of pairs in which a
    claim has opposite verdicts; ``pairs``; ``seed``.

    Claims about what binds are left out, as in :func:`verdicts`.

    Args:
        repo: the checkout.
        rerun: source of the true medians and of the spreads of the simulated trials.
        pairs: number of simulated pairs.
    """
    random = np.random.default_rng(SEED)
    truth = _truth(rerun, has_effects=True)
    spec = _without(rerun.study, Audit, Together)
    found = []
    for _ in range(pairs):
        both = [_judged(repo, spec, rerun, truth, random) for _ in range(2)]
        found.append(stability.compare(*both))
    agreeing = [one.share_of(one.agreeing) for one in found]
    same = [one.share_of(one.same) for one in found]
    profile = rerun.study.profile(rerun.profile)
    return pl.DataFrame(
        {
            "study": rerun.study.study,
            "trials": profile.trials,
            "most_trials": profile.most_trials or profile.trials,
            "tested": float(np.mean([len(one.pairs) for one in found])),
            "agreeing": float(np.mean(agreeing)),
            "agreeing_error": standard_error(agreeing),
            "same": float(np.mean(same)),
            "same_error": standard_error(same),
            "opposite": float(np.mean([one.opposite > 0 for one in found])),
            "pairs": pairs,
            "seed": SEED,
        }
    )


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of independent simulations.

    If each found 0, or each found 1, it is that of a share: the next one might find something else.
    """
    sample, n = np.asarray(values, dtype=float), len(values)
    if sample.min() == sample.max() in (0, 1):
        return error_of_share(int(sample.sum()), n)
    return float(sample.std(ddof=1)) / sqrt(n)


def error_of_share(count: int, n: int) -> float:
    """Return the standard error of a share, which is not 0 even if all or none of n are counted.

    It is calculated with two more of either kind (Agresti & Coull, American Statistician 52(2), 1998).
    """
    nearer = (count + 2) / (n + 4)
    return sqrt(nearer * (1 - nearer) / (n + 4))


def _without(spec: Study, *tests: type) -> Study:
    """Return a study without the claims that have one of some tests."""
    claims = [one for one in spec.claims if not isinstance(one.decided_by, tests)]
    return spec.model_copy(update={"claims": claims})


def _judged(
    repo: Repo, spec: Study, rerun: Rerun, truth: pl.DataFrame, random: np.random.Generator
) -> list[Judgement]:
    """Return the verdicts of a simulated rerun that depend on chance.

    It is judged once more if trials are added, as in a sweep.
    """
    profile = spec.profile(rerun.profile)
    drawn = _drawn(rerun, truth, random, profile.most_trials)
    at_first = pl.lit(True) if profile.most_trials is None else pl.col("trial") <= profile.trials
    judged = judge_claims(repo, spec, drawn.only(at_first))
    if profile.most_trials:
        run = drawn.simulated.select(POINT).unique().rows()
        cores = drawn.simulated["limit_cores"][0] / rerun.instance.cores
        if again := further.points(spec, judged, run, cores, profile.most_trials):
            point = pl.concat_list(pl.col(POINT).cast(pl.String))
            is_again = point.is_in([list(map(str, one)) for one in again])
            judged = judge_claims(repo, spec, drawn.only(at_first | is_again))
    return [one for one in judged if one.confidence is not None]


@dataclass(frozen=True)
class _Simulated(Rerun):
    """A rerun with simulated metrics in place of the measured ones."""

    simulated: pl.DataFrame

    def only(self, chosen: pl.Expr) -> "_Simulated":
        """Return the rerun with only the chosen runs."""
        return replace(self, simulated=self.simulated.filter(chosen))

    @property
    def metrics(self) -> pl.DataFrame:
        """The simulated metrics."""
        return self.simulated

    @property
    def gate(self) -> pl.DataFrame:
        """A check for each run at a point where no measured run passed."""
        failed = self.simulated.filter(~pl.col("valid"))
        found = pl.lit("no measured run passed")
        return failed.select("run_id", found.alias("check"), found.alias("found"))

    @property
    def single_writes(self) -> pl.DataFrame:
        """Empty: only whole runs are simulated."""
        return super().single_writes.clear()

    @property
    def outcomes(self) -> pl.DataFrame:
        """Empty: outcomes do not depend on chance."""
        return super().outcomes.clear()


def _truth(rerun: Rerun, has_effects: bool) -> pl.DataFrame:
    """Return the runs of a rerun with the truth about their points.

    It has two more columns for every metric: its true value, ``… true``, and the true standard
    deviation of the logarithms of trials, ``… deviation``.

    Args:
        rerun: with the measured runs.
        has_effects: whether each point's measured median is its true value; if not, it is 1.
    """
    truth = rerun.metrics
    for name in METRICS:
        points = _with_deviations(_trials(rerun, name), name).select(
            *POINT,
            (pl.col(name).list.median() if has_effects else pl.lit(1.0)).alias(f"{name} true"),
            f"{name} deviation",
        )
        truth = truth.join(points, on=POINT, how="left", maintain_order="left")
    return truth


def _trials(rerun: Rerun, metric: str) -> pl.DataFrame:
    """Return the values of a metric by point, of the runs that verdicts use."""
    runs = rerun.metrics if METRICS[metric].is_of_the_dataset else rerun.metrics.filter("valid")
    return results.trials(runs, metric)


def _with_deviations(points: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Add the true deviation of trials to points; those of an engine are similar.

    Args:
        points: result of :func:`benchlab.store.results.trials`.
        metric: name of the column with the values; the deviation's is ``… deviation``.
    """
    engines = points.partition_by("engine", maintain_order=True)
    return pl.concat(
        own.with_columns(
            pl.Series(
                f"{metric} deviation",
                stats.true_deviations(own[metric].to_list()),
                dtype=pl.Float64,
            )
        )
        for own in engines or [points]
    )


def _drawn(
    rerun: Rerun, truth: pl.DataFrame, random: np.random.Generator, trials: int | None
) -> _Simulated:
    """Return a simulated outcome of a rerun.

    The simulated runs are in no store. Only the metrics, on which verdicts rest, are simulated. Points
    at which no measured run passed the gate do not pass it either.

    Args:
        rerun: the measured one.
        truth: see :func:`_truth`.
        random: generator of the simulated trials.
        trials: number of trials of each point; ``None``: as many as were measured.
    """
    found = truth
    if trials:
        numbers = pl.DataFrame({"trial": range(1, trials + 1)}, schema={"trial": pl.Int32})
        one_each = found.unique(POINT, keep="first", maintain_order=True).drop("trial")
        found = one_each.join(numbers, how="cross").select(found.columns)
    noise = random.normal(size=(len(METRICS), found.height))
    found = found.with_columns(
        pl.format("simulated-{}-{}", "run_id", "trial").alias("run_id"),
        *(
            pl.when(pl.col(name) > 0)
            .then(pl.col(f"{name} true") * (pl.col(f"{name} deviation") * pl.Series(of_it)).exp())
            .alias(name)
            for name, of_it in zip(METRICS, noise, strict=True)
        ),
    )
    return _Simulated(rerun.store, rerun.study, rerun.instance, rerun.profile, rerun.target, found)


def _is_wrong(one: Judgement) -> bool:
    """Whether a verdict is wrong, given that every ratio is 1 and no curve has a peak."""
    accepted = words.accepted(one.claim.decided_by)
    if accepted is None:
        return True  # a place on a flat curve
    low, high = accepted
    right = "reproduced" if low < 1 < high else "not reproduced" if not low <= 1 <= high else ""
    return one.verdict != right
