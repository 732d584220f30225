"""Results: the runs that count of a study's profile on a target.

They are the last runs of the trials that were planned last, found by the trials' keys. Which profile
measured a trial first does not matter, and a run of an older definition of a point is none of them. A
key is made of what is requested and not of where; so results are always of one target.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from benchlab import study, target
from benchlab.errors import StoreError, UnknownName
from benchlab.gate.speed import uneven
from benchlab.repo import Repo
from benchlab.store import metrics
from benchlab.store.database import Store
from benchlab.study import PROFILES, Instance, Study

if TYPE_CHECKING:
    from benchlab.stats import Spread

#: Columns that make a point within one study, profile and target.
POINT = ["engine", "variant", "workload", "envelope", "concurrency"]

# The last run of every planned trial, with the plan's profile and trial.
_LAST = """
    SELECT run.* REPLACE (planned.profile AS profile) FROM run JOIN planned USING (target, trial_key)
    WHERE planned.study = ? AND planned.profile = ? AND target = ?
    QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY started DESC) = 1
    ORDER BY ALL
"""

# The checks that runs did not pass, in the order in which they were made; see benchlab.gate.checks.
_NOT_PASSED = """
    SELECT run_id, "check", value, found FROM gate SEMI JOIN chosen USING (run_id) WHERE NOT passed
    UNION ALL (
        SELECT run_id, 'steady', NULL, 'measured before there was a gate'
        FROM chosen WHERE run_id NOT IN (SELECT run_id FROM gate)
    )
    ORDER BY ALL
"""

# Profile and target of every plan of a study of which anything was run; and when the last run of its
# curves began, that counts or not.
_RAN = """
    SELECT planned.profile, target,
        max(started) FILTER (run.intervention IS NULL AND status = 'ok') AS counted,
        max(started) FILTER (run.intervention IS NULL) AS last
    FROM run JOIN planned USING (target, trial_key) WHERE planned.study = ?
    GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True)
class Rerun:
    """One rerun of a study: a profile on a target, and the runs of it in a store.

    What it has read it keeps: runs that come into the store later are another one's.
    """

    store: Store
    study: Study
    instance: Instance
    """The instance type that the study names."""
    profile: str
    target: str

    @cached_property
    def last(self) -> pl.DataFrame:
        """The last run of every planned trial, whatever it is of and however it ended."""
        return self.store.sql(_LAST, self.study.study, self.profile, self.target)

    @property
    def runs(self) -> pl.DataFrame:
        """The last run of every trial of the curves along concurrency, whatever its status."""
        return self.last.filter(
            pl.col("intervention").is_null() & pl.col("share_of_peak").is_null()
        )

    @property
    def counted(self) -> pl.DataFrame:
        """Those of :attr:`runs` that count."""
        return self.runs.filter(status="ok")

    @property
    def open_loop(self) -> pl.DataFrame:
        """The runs that count whose requests were due at times of their own."""
        return self.last.filter(pl.col("share_of_peak").is_not_null(), status="ok")

    @property
    def interventions(self) -> pl.DataFrame:
        """The runs that count in which limits were lowered."""
        return self._intervened("$.blocks")

    @property
    def single_writes(self) -> pl.DataFrame:
        """The runs that count with single writes into a load that reads."""
        return self._intervened("$.writes")

    @property
    def outcomes(self) -> pl.DataFrame:
        """The answers to checks, in place of a load or after one, of runs that count.

        Columns: those of ``outcome``, with ``engine``, ``variant``, ``workload``.
        """
        runs = pl.concat([self._intervened("$.checks"), self.counted])
        found = self.of_runs("SELECT * FROM outcome SEMI JOIN chosen USING (run_id)", runs)
        named = runs.select("run_id", "engine", "variant", "workload")
        return found.join(named, on="run_id").sort("run_id", "number")

    def _intervened(self, with_key: str) -> pl.DataFrame:
        is_of_kind = pl.col("intervention").str.json_path_match(with_key).is_not_null()
        return self.last.filter(is_of_kind, status="ok").sort(POINT)

    @cached_property
    def gate(self) -> pl.DataFrame:
        """What the last runs did not pass: ``run_id``, ``check``, ``value``, ``found``.

        A run of before there was a gate did not pass it.
        """
        curves = self.last.filter(pl.col("intervention").is_null(), status="ok")
        speeds = self.of_runs(metrics.SPEEDS, self.last.filter(status="ok"))
        of_curves = uneven(speeds).join(curves, on="run_id", how="semi")
        return pl.concat([self.of_runs(_NOT_PASSED, curves), of_curves]).sort(
            "run_id", maintain_order=True
        )

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """The runs that stand for their points: their columns, every metric, and ``valid``.

        Of those that count they are the ones that passed the gate or, at a point where none did, all
        of them; ``valid`` is false for these. No verdict rests on them, and no sentence.
        """
        return metrics.of(self.store, self.standing(self.counted))

    def standing(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Return the runs that stand for their points, with ``valid``; see :attr:`metrics`."""
        valid = ~pl.col("run_id").is_in(self.gate["run_id"].to_list())
        marked = runs.with_columns(valid.alias("valid"))
        passed_there = pl.col("valid").any().over(*POINT, "share_of_peak")
        return marked.filter(pl.col("valid") | ~passed_there)

    def of_runs(self, query: str, runs: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return rows of some runs alone.

        Args:
            query: about the table ``chosen``, whose only column ``run_id`` names the runs.
            runs: these; ``None``: those that count.
        """
        chosen = self.counted if runs is None else runs
        return self.store.sql(query, chosen=chosen["run_id"])


def open_rerun(
    repo: Repo,
    store: Store,
    study_name: str,
    profile: str | None = None,
    target_name: str | None = None,
) -> Rerun:
    """Return a rerun of a study.

    Args:
        repo: the checkout, for the study file.
        store: with the runs.
        study_name: name.
        profile: name; ``None``: the largest of which a run counts.
        target_name: name; ``None``: the target of the last run that counts or, if none does, of the
            last run.

    Raises:
        UnknownName: no such study, the study has no such profile, or it was not run on that target.
        StoreError: no run counts, or none of the profile is there.
    """
    spec = study.load_rerun(repo, study_name)
    if profile is None:
        profile = largest_profile(store, study_name)
    spec.profile(profile)
    found = _ran(store, study_name).filter(profile=profile)
    if found.is_empty():
        raise StoreError(f"no run of study {study_name} in profile {profile}")
    targets = found.sort("counted", "last", descending=True, nulls_last=True)["target"].to_list()
    if target_name not in (None, *targets):
        raise UnknownName("target", target_name, targets)
    instance = target.instance_type(repo, spec.instance)
    return Rerun(store, spec, instance, profile, target_name or targets[0])


def studies(store: Store) -> list[str]:
    """Return the names of the studies that have runs."""
    return store.sql("SELECT DISTINCT study FROM run ORDER BY study")["study"].to_list()


def ran(store: Store, study_name: str) -> list[tuple[str, str]]:
    """Return every profile of a study and target that has a run to judge, counted or not."""
    return _ran(store, study_name).drop_nulls("last").select("profile", "target").rows()


def largest_profile(store: Store, study_name: str) -> str:
    """Return the largest profile of which a store has a run of a study that counts.

    Raises:
        StoreError: it has none.
    """
    found = set(_ran(store, study_name).drop_nulls("counted")["profile"])
    for profile in reversed(PROFILES):
        if profile in found:
            return profile
    raise StoreError(f"no run of study {study_name} counts; run `benchlab run {study_name}`")


def closed_loop(store: Store, target_name: str, keys: Collection[str]) -> float | None:
    """Return the median throughput of the last runs of some trials, those of one point.

    Args:
        store: the store.
        target_name: name.
        keys: of the trials.

    Returns:
        Transactions per second; ``None`` if no run counts.
    """
    runs = store.sql(
        "SELECT trial_key, tps FROM run WHERE target = ? AND status = 'ok'"
        " QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY started DESC) = 1",
        target_name,
    )
    return runs.filter(pl.col("trial_key").is_in(list(keys)))["tps"].median()


def trials(runs: pl.DataFrame, metric: str, by: Sequence[str] = POINT) -> pl.DataFrame:
    """Return the values of a metric at each point, as a list over its trials.

    Points and trials stand in one order, or what is learnt from all of them would differ in its last
    digits from reading to reading.

    Args:
        runs: rows of runs, with the metric; those without a value are left out.
        metric: name of its column.
        by: columns that distinguish points.
    """
    known = runs.drop_nulls(metric).sort(*by, "run_id")
    return known.group_by(by, maintain_order=True).agg(metric)


def spreads(points: pl.DataFrame, metric: str) -> dict[str, "Spread | None"]:
    """Return what the points of each engine have in common in how much their trials spread.

    Args:
        points: as of :func:`trials`, with a column ``engine``.
        metric: name of the column with the values.
    """
    from benchlab import stats

    by_engine = points.group_by("engine", maintain_order=True).agg(metric)
    return stats.common_spreads(dict(by_engine.select("engine", metric).iter_rows()))


def _ran(store: Store, study_name: str) -> pl.DataFrame:
    return store.sql(_RAN, study_name)
