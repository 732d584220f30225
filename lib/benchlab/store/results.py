"""Results: the runs of a study's profile on a target that count.

They are the last runs of the trials that were planned last, found by the keys of the trials. It does
not matter which profile measured a trial first. Runs of an older definition of a point are not results.
A key contains what is requested, but not the target; so results are always those of one target.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from benchlab import study, target
from benchlab.errors import NoRuns, UnknownName
from benchlab.gate.speed import uneven
from benchlab.repo import Repo
from benchlab.store import metrics
from benchlab.store.database import Store
from benchlab.study import PROFILES, Instance, Study

if TYPE_CHECKING:
    from benchlab.stats import Spread

#: Columns that identify a point within one study, profile and target.
POINT = ["engine", "variant", "workload", "envelope", "concurrency"]

# The last run of every planned trial, with the profile of the plan.
_LAST = """
    SELECT run.* REPLACE (planned.profile AS profile) FROM run JOIN planned USING (target, trial_key)
    WHERE planned.study = ? AND planned.profile = ? AND target = ?
    QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY started DESC) = 1
    ORDER BY ALL
"""

# When the first run of the planned trials began, also if it was repeated later.
_BEGAN = """
    SELECT min(started) AS began FROM run JOIN planned USING (target, trial_key)
    WHERE planned.study = ? AND planned.profile = ? AND target = ?
"""

# The planned trials of any kind that have no run.
_NOT_RUN = """
    SELECT * FROM planned_trial ANTI JOIN run USING (target, trial_key)
    WHERE study = ? AND profile = ? AND target = ?
        AND (study, profile, target, trial_key)
            IN (SELECT (study, profile, target, trial_key) FROM planned)
    QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY planned DESC) = 1
    ORDER BY position
"""

# The checks that runs did not pass; see benchlab.gate.checks.
_FAILED = """
    SELECT run_id, "check", value, found FROM gate SEMI JOIN chosen USING (run_id) WHERE NOT passed
    ORDER BY ALL
"""

_NEVER_CHECKED = """
    SELECT run_id, 'steady' AS "check", NULL::DOUBLE AS value,
        'measured before there was a gate' AS found
    FROM chosen WHERE run_id NOT IN (SELECT run_id FROM gate)
    ORDER BY ALL
"""

# Profile and target of every plan of a study with any run. When the last run of its trials began:
# `counted`: of those along concurrency that count; `last`: of all without an intervention.
_RAN = """
    WITH of_trials AS (
        SELECT run.* REPLACE (planned.profile AS profile)
        FROM run JOIN planned USING (target, trial_key) WHERE planned.study = ?
        QUALIFY row_number()
            OVER (PARTITION BY planned.profile, target, trial_key ORDER BY started DESC) = 1
    )
    SELECT profile, target,
        max(started)
            FILTER (intervention IS NULL AND share_of_peak IS NULL AND status = 'ok') AS counted,
        max(started) FILTER (intervention IS NULL) AS last
    FROM of_trials GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True)
class Rerun:
    """One rerun of a study: a profile on a target, and its runs in a store.

    It caches what it has read: open another rerun to see runs that are added to the store later.
    """

    store: Store
    study: Study
    instance: Instance
    """The instance type that the study names."""
    profile: str
    target: str

    @cached_property
    def last(self) -> pl.DataFrame:
        """The last run of every planned trial of any kind, whatever its status."""
        return self.store.sql(_LAST, self.study.study, self.profile, self.target)

    @cached_property
    def began(self) -> datetime:
        """When its first run began. This identifies a rerun: it stays the same if runs are repeated."""
        found = self.store.sql(_BEGAN, self.study.study, self.profile, self.target)
        return found["began"].item()

    @cached_property
    def not_run(self) -> pl.DataFrame:
        """The planned trials of any kind without a run, as rows of ``planned_trial``."""
        return self.store.sql(_NOT_RUN, self.study.study, self.profile, self.target)

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
        """The counted runs of open loops, whose requests were due at set times."""
        return self.last.filter(pl.col("share_of_peak").is_not_null(), status="ok")

    @property
    def interventions(self) -> pl.DataFrame:
        """The counted runs in which limits were lowered."""
        return self._intervened("$.blocks")

    @property
    def single_writes(self) -> pl.DataFrame:
        """The counted runs with single writes into a load that reads and that passed the gate."""
        return self._intervened("$.writes").join(
            self.invalid_single_writes, on="run_id", how="anti"
        )

    @cached_property
    def invalid_single_writes(self) -> pl.DataFrame:
        """Checks that counted runs with single writes did not pass; columns as :attr:`gate`."""
        return self._failed(self._intervened("$.writes"))

    @property
    def outcomes(self) -> pl.DataFrame:
        """The answers to checks in runs that count, made instead of a load or after one.

        Columns: those of ``outcome``, and ``engine``, ``variant``, ``workload`` and ``envelope``.
        """
        runs = pl.concat([self._intervened("$.checks"), self.counted])
        found = self.of_runs("SELECT * FROM outcome SEMI JOIN chosen USING (run_id)", runs)
        named = runs.select("run_id", "engine", "variant", "workload", "envelope")
        return found.join(named, on="run_id").sort("run_id", "number")

    def _intervened(self, with_key: str) -> pl.DataFrame:
        is_of_kind = pl.col("intervention").str.json_path_match(with_key).is_not_null()
        return self.last.filter(is_of_kind, status="ok").sort(POINT)

    @cached_property
    def gate(self) -> pl.DataFrame:
        """Checks that the last runs did not pass: ``run_id``, ``check``, ``value``, ``found``.

        A run that was measured before there was a gate did not pass.
        """
        curves = self.last.filter(pl.col("intervention").is_null(), status="ok")
        found = [self._failed(curves), self.of_runs(_NEVER_CHECKED, curves)]
        return pl.concat(found).sort("run_id", maintain_order=True)

    def _failed(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Return the checks that runs failed, with that of the host's speed, which takes all runs."""
        of_speed = uneven(self.speeds).join(runs, on="run_id", how="semi")
        return pl.concat([self.of_runs(_FAILED, runs), of_speed]).sort(
            "run_id", maintain_order=True
        )

    @cached_property
    def speeds(self) -> pl.DataFrame:
        """How fast the hosts were around each last run that ended well; see ``metrics.SPEEDS``."""
        return self.of_runs(metrics.SPEEDS, self.last.filter(status="ok"))

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """The runs that represent their points: their columns, every metric, and ``valid``.

        At each point these are the runs that count and passed the gate. If none passed, they are all
        runs that count, with ``valid`` false: no verdict or sentence of the paper uses them.
        """
        return metrics.of(self.store, self.representing(self.counted))

    def representing(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Return the runs that represent their points, with ``valid``; see :attr:`metrics`."""
        valid = ~pl.col("run_id").is_in(self.gate["run_id"].to_list())
        marked = runs.with_columns(valid.alias("valid"))
        passed_there = pl.col("valid").any().over(*POINT, "share_of_peak")
        return marked.filter(pl.col("valid") | ~passed_there)

    def of_runs(self, query: str, runs: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the rows of a query about some runs.

        Args:
            query: query that reads the table ``chosen``; its only column ``run_id`` has the runs' ids.
            runs: rows of the runs; ``None``: the runs that count.
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
        store: store with the runs.
        study_name: name of the study.
        profile: name of the profile; ``None``: the largest one with a run that counts (on
            that target, if one is named).
        target_name: name of the target; ``None``: that of the last run that counts or, if none counts,
            of the last run.

    Raises:
        UnknownName: no such study, the study has no such profile, or no study was run on that target.
        NoRuns: no run counts, or there is no run of the profile or on the target.
    """
    spec = study.load_rerun(repo, study_name)
    if target_name is not None:
        known = store.sql("SELECT DISTINCT target FROM run ORDER BY target")["target"].to_list()
        if target_name not in known:
            raise UnknownName("target", target_name, known)
    if profile is None:
        profile = largest_profile(store, study_name, target_name)
    spec.profile(profile)
    found = _ran(store, study_name, target_name).filter(profile=profile)
    if found.is_empty():
        there = f" on target {target_name}" if target_name else ""
        raise NoRuns(f"no run of study {study_name} in profile {profile}{there}")
    last = found.sort("counted", "last", descending=True, nulls_last=True)["target"][0]
    return Rerun(store, spec, target.instance_type(repo, spec.instance), profile, last)


def find_rerun(
    repo: Repo,
    store: Store,
    study_name: str,
    profile: str | None = None,
    target_name: str | None = None,
) -> Rerun | None:
    """Return what :func:`open_rerun` returns, or ``None`` if there is no such run."""
    try:
        return open_rerun(repo, store, study_name, profile, target_name)
    except NoRuns:
        return None


def studies(store: Store) -> list[str]:
    """Return the names of the studies that have runs."""
    return store.sql("SELECT DISTINCT study FROM run ORDER BY study")["study"].to_list()


def ran(store: Store, study_name: str) -> list[tuple[str, str]]:
    """Return (profile, target) of every rerun of a study that has a run to judge, counted or not."""
    return _ran(store, study_name).drop_nulls("last").select("profile", "target").rows()


def largest_profile(store: Store, study_name: str, target_name: str | None = None) -> str:
    """Return the largest profile of a study with a run that counts, on any target or on one.

    Raises:
        NoRuns: no run of the study counts there.
    """
    found = set(_ran(store, study_name, target_name).drop_nulls("counted")["profile"])
    for profile in reversed(PROFILES):
        if profile in found:
            return profile
    there, option = (
        (f" on target {target_name}", f" --target {target_name}") if target_name else ("", "")
    )
    raise NoRuns(
        f"no run of study {study_name} counts{there}; run `benchlab run {study_name}{option}`"
    )


def closed_loop(store: Store, target_name: str, keys: Collection[str]) -> float | None:
    """Return the median throughput of the last runs of the trials of one point.

    These are the runs that passed the gate or, if none did, all that ended well. The speed of the host,
    which depends on other points' runs, is not looked at.

    Args:
        store: the store.
        target_name: name of the target.
        keys: keys of the trials.

    Returns:
        Transactions per second; ``None`` if no run counts.
    """
    runs = store.sql(
        "SELECT trial_key, tps, status,"
        " run_id NOT IN (SELECT run_id FROM gate WHERE NOT passed) AS valid"
        " FROM run WHERE target = ?"
        " QUALIFY row_number() OVER (PARTITION BY trial_key ORDER BY started DESC) = 1",
        target_name,
    ).filter(pl.col("trial_key").is_in(list(keys)), status="ok")
    return runs.filter(pl.col("valid") | ~pl.col("valid").any())["tps"].median()


def trials(runs: pl.DataFrame, metric: str, by: Sequence[str] = POINT) -> pl.DataFrame:
    """Return the values of a metric at each point, as a list over its trials.

    Points and trials have a fixed order. Otherwise results computed from all of them would differ in
    their last digits from call to call.

    Args:
        runs: rows of runs, with the metric; rows without a value are left out.
        metric: name of the metric's column.
        by: columns that identify a point.
    """
    known = runs.drop_nulls(metric).sort(*by, "run_id")
    return known.group_by(by, maintain_order=True).agg(metric)


def spreads(points: pl.DataFrame, metric: str) -> dict[str, "Spread | None"]:
    """Return engine → the spread of trials that its points have in common.

    Args:
        points: result of :func:`trials`, with a column ``engine``.
        metric: name of the column with the values.
    """
    from benchlab import stats

    by_engine = points.group_by("engine", maintain_order=True).agg(metric)
    return stats.common_spreads(dict(by_engine.select("engine", metric).iter_rows()))


def _ran(store: Store, study_name: str, target_name: str | None = None) -> pl.DataFrame:
    found = store.sql(_RAN, study_name)
    return found if target_name is None else found.filter(target=target_name)
