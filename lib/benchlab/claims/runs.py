"""Runs of one profile on one target, by the curves that claims name."""

from collections import Counter
from collections.abc import Iterable
from functools import cache

import polars as pl

from benchlab.claims.words import listed
from benchlab.gate import speed
from benchlab.gate.similar import dissimilar
from benchlab.raw.record import OUT_OF_MEMORY
from benchlab.stats import Curve, Sample, Spread
from benchlab.store import metrics, results
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.study.claims import Claim, Series
from benchlab.study.vocabulary import METRICS, OF_CLAIMS, OF_SINGLE_WRITES

#: Lowest confidence at which an attribution counts; below it another answer remains possible.
_CONFIDENT = 0.5


#: Run, resource and share of the sampled time in which it bound, the largest one first. An export of an
#: older benchlab has neither confidence nor shares.
_ATTRIBUTION = """
    SELECT run_id, resource, sum(coalesce(share, binds::INT)) AS share
    FROM attribution SEMI JOIN chosen USING (run_id)
    WHERE coalesce(confidence, 1) >= ?
    GROUP BY run_id, resource
    QUALIFY bool_or(bool_or(binds)) OVER (PARTITION BY run_id)
    ORDER BY run_id, bool_or(binds) DESC, share DESC, resource
"""


#: Runs and the cores of the hosts that their database is on; there is none if somebody else runs it.
_HOST_CORES = """
    SELECT DISTINCT run_id, value::DOUBLE AS cores
    FROM host SEMI JOIN chosen USING (run_id) JOIN node USING (run_id, node)
    WHERE fact = 'cores' AND role LIKE 'db.%'
"""


class NotTestable(Exception):
    """These runs cannot decide a claim, whatever they measured; the message says why."""


class Runs:
    """The runs in one of a study's envelopes.

    Attributes:
        study: the study.
        instance: its instance type.
        cores: cores of the envelope.
        elsewhere: the runs in the other envelopes, by name; empty if this is not the main one.
    """

    def __init__(self, rerun: Rerun, envelope: str = DEFAULT_ENVELOPE):
        """Read the runs.

        Args:
            rerun: with the runs.
            envelope: name of the envelope.
        """
        self.study, self.instance = rerun.study, rerun.instance
        self._profile = rerun.profile
        self.cores = rerun.runs.filter(envelope=envelope)["limit_cores"].first()
        within = {"envelope": envelope}
        self._not_ok = rerun.runs.filter(**within).filter(pl.col("status") != "ok").sort("started")
        self._ok = rerun.counted.filter(**within)
        self._all = rerun.metrics.filter(**within).sort("started")
        self._runs = self._all.filter("valid")
        self._single_writes = metrics.of_single_writes(
            rerun.store, rerun.single_writes.filter(**within)
        )
        self._not_passed = self._all.filter(~pl.col("valid")).join(
            rerun.gate.unique("run_id", keep="first", maintain_order=True), on="run_id"
        )
        others = rerun.metrics["envelope"].unique().sort() if envelope == DEFAULT_ENVELOPE else []
        self.elsewhere = {name: Runs(rerun, name) for name in others if name != DEFAULT_ENVELOPE}
        self._outcomes = rerun.outcomes.filter(**within)
        self._dissimilar = dissimilar(rerun)
        self._other_versions = {
            engine: f"{spec.label} {version} for the article's {spec.in_article}"
            for engine, version in self._all.select("engine", "engine_version").unique().iter_rows()
            if (spec := rerun.study.engines.get(engine)) and spec.differs_from_article(version)
        }
        self._host_cores = rerun.of_runs(_HOST_CORES, self._all)
        self._attribution = rerun.store.sql(_ATTRIBUTION, _CONFIDENT, chosen=self._runs["run_id"])
        # many claims are about the same curves, and each is judged with several confidences
        self.curve, self.relative = cache(self.curve), cache(self.relative)
        self.bound, self.not_counted = cache(self.bound), cache(self.not_counted)
        self._spreads = cache(self._spreads)
        self._apart = cache(lambda workloads: speed.apart(rerun.speeds, workloads))

    @property
    def is_of_the_instance_type(self) -> bool:
        """Whether the runs were made on the article's own instance type, with nothing scaled."""
        own = {
            "envelope_enforced": False,
            "limit_cores": float(self.instance.cores),
            "limit_memory_bytes": self.instance.memory_bytes,
        }
        on_it = (pl.col("cores") == self.instance.cores).all().over("run_id")
        of_it = self._all.filter(**own).join(
            self._host_cores.filter(on_it), on="run_id", how="semi"
        )
        return not self._all.is_empty() and of_it.height == self._all.height

    def other_versions(self, claim: Claim) -> list[str]:
        """Say which of a claim's engines were run in another version than the article's."""
        engines = dict.fromkeys(series.engine for _, series in claim.series)
        return [self._other_versions[one] for one in engines if one in self._other_versions]

    def curve(self, series: Series) -> Curve:
        """Return the values of the trials of a series at each of our concurrencies.

        Of single writes these are all writes, or each run's median if a metric depends on the run.

        Raises:
            NotTestable: no run counts, no run has that metric, or the curve is not similar to the
                article's.
        """
        runs, prior = self._with(series), self._prior(series)
        if OF_CLAIMS[series.metric].depends_on_the_run:
            of_run = runs.group_by("run_id", "concurrency", "trial", maintain_order=True)
            runs = of_run.agg(pl.col(series.metric).median())
        return {
            one: Sample(values, prior, is_exact=self._is_exact(series, values))
            for one, values in self._by_concurrency(runs, series.metric).items()
        }

    def _is_exact(self, series: Series, values: list[float]) -> bool:
        """Whether another trial could not differ; of a load that writes, one trial does not show it."""
        if not OF_CLAIMS[series.metric].is_of_the_dataset or len(set(values)) > 1:
            return False
        return len(values) > 1 or not self.study.workloads[series.workload].writes

    def relative(self, above: Series, below: Series) -> Curve:
        """Return the ratio of two curves at each of our concurrencies, trial by trial.

        Trials with the same number ran in one block of the plan, so drift between blocks cancels out.

        Raises:
            NotTestable: see :meth:`curve`; or there are no clients, or some that both sides ran, for
                which no trial number counts on both.
        """
        sides = [
            self._with(series).select("concurrency", "trial", pl.col(series.metric).alias(side))
            for side, series in (("above", above), ("below", below))
        ]
        both = sides[0].join(sides[1], on=["concurrency", "trial"])
        shared = set(sides[0]["concurrency"]) & set(sides[1]["concurrency"])
        if both.is_empty():
            raise NotTestable("no number of clients that both sides ran in one block of the plan")
        if apart := sorted(shared - set(both["concurrency"])):
            raise NotTestable(
                f"at {listed(apart)} clients no block of the plan counts for both sides"
            )
        ratios = both.with_columns((pl.col("above") / pl.col("below")).alias("ratio"))
        return self._by_concurrency(ratios, "ratio")

    def require_one_speed(self, *several: Series) -> None:
        """Check that the hosts of the workloads of some curves are equally fast.

        What is known of a dataset does not depend on a speed.

        Raises:
            NotTestable: one is faster than another.
        """
        measured = frozenset(
            one.workload for one in several if not OF_CLAIMS[one.metric].is_of_the_dataset
        )
        if reason := self._apart(measured):
            raise NotTestable(reason)

    def require_whole(self, *several: Series) -> None:
        """Check that a run counts at all points of a curve, since each of them may be the peak.

        Args:
            several: the curve, or the two of which the ratio is a curve.

        Raises:
            NotTestable: at one none counts.
        """
        if reasons := self.not_counted(*several):
            at, curves = max(reasons), " over ".join(map(str, several))
            raise NotTestable(
                f"{curves}: any point may be the peak, and {at:,} clients {reasons[at]}"
            )

    def not_counted(self, *several: Series, bound: bool = False) -> dict[int, str]:
        """Return our concurrencies at which curves were run and no run counts → the reason.

        Of several curves these are only concurrencies at which all were run. The reason continues a
        sentence about the clients: *did not pass the gate: …*.

        Args:
            several: curves. A metric of the dataset is known without its clients, and single writes
                are not along a curve: these have no such points.
            bound: whether a run counts by what bound it, not by the series' metric.
        """
        found: dict[int, str] = {}
        for series in several:
            if OF_CLAIMS[series.metric].is_of_the_dataset or series.metric in OF_SINGLE_WRITES:
                continue
            passed = self._runs.filter(**_key(series))
            if bound:
                counted = passed.join(self._attribution, on="run_id", how="semi")
                lack = "did not show what bound them"
            else:
                counted, lack = passed.drop_nulls(series.metric), f"gave no {series.metric}"
            reasons = [
                *((at, lack) for at in passed["concurrency"]),
                *(
                    (at, f"did not pass the gate: {reason}")
                    for at, reason in self._failed_gate(series).items()
                ),
                *((at, _ended(*how)) for at, *how in self._not_ended_well(series)),
            ]
            for at, reason in reasons:
                if at not in counted["concurrency"]:
                    found.setdefault(at, reason)
        by_all = set.intersection(*map(self._clients, several))
        return {at: found[at] for at in sorted(found) if at in by_all}

    def _clients(self, series: Series) -> set[int]:
        """Return the concurrencies at which a curve was run, however the runs ended."""
        return {
            at
            for runs in (self._ok, self._not_ok)
            for at in runs.filter(**_key(series))["concurrency"]
        }

    def _failed_gate(self, series: Series) -> dict[int, str]:
        """Return the concurrencies at which runs ended well and none passed the gate → the reason."""
        runs = self._not_passed.filter(**_key(series)).sort("concurrency", "trial")
        first = runs.unique("concurrency", keep="first", maintain_order=True)
        return dict(first.select("concurrency", "found").iter_rows())

    def _not_ended_well(self, series: Series) -> list[tuple[int, str, str]]:
        """Return concurrency, status and error of each run that did not end well, in order of time."""
        runs = self._not_ok.filter(**_key(series))
        return runs.select("concurrency", "status", "error").rows()

    def bound(self, series: Series) -> dict[int, list[dict[str, float]]]:
        """Return what bound each trial at each concurrency, for trials whose captures show it.

        Each trial is a resource → the share of the time in which it bound, the largest share first.

        Raises:
            NotTestable: no run counts, no captures show what bound it, or the curve is not similar to
                the article's.
        """
        self._require_similar(series)
        runs = self._of(series, self._runs).join(self._attribution, on="run_id", how="semi")
        if runs.is_empty():
            raise NotTestable(f"no capture shows what bound {series}")
        trials = {
            key[0]: dict(of_run.select("resource", "share").iter_rows())
            for key, of_run in self._attribution.group_by("run_id", maintain_order=True)
        }
        return {
            at: [trials[run_id] for run_id in ids]
            for at, ids in self._by_concurrency(runs, "run_id").items()
        }

    def outcomes(self, series: Series) -> list[dict[str, str]]:
        """Return the answers to the checks of each run, one dictionary (check → answer) per run.

        Raises:
            NotTestable: no run made checks.
        """
        found = self._outcomes.filter(**_key(series))
        if found.is_empty():
            raise NotTestable(f"{series}: no run made checks")
        return [
            dict(of_run.select("check", "answer").iter_rows())
            for _, of_run in found.group_by("run_id", maintain_order=True)
        ]

    def ran_out_of_memory(self, series: Series, at: float) -> list[bool]:
        """Return for each run at one of our concurrencies whether it ended because memory ran out.

        Raises:
            NotTestable: there is no run, or one failed for another reason.
        """
        key = {**_key(series), "concurrency": at}
        ended = self._not_ok.filter(**key)
        others = ended.filter(~pl.col("error").str.contains(OUT_OF_MEMORY, literal=True))
        if not others.is_empty():
            status, error = others.select("status", "error").row(-1)
            raise NotTestable(f"{series} at {at:,g} clients: {status}: {error}")
        found = [True] * len(ended) + [False] * len(self._ok.filter(**key))
        if not found:
            raise NotTestable(f"profile {self._profile} has no run of {series} at {at:,g} clients")
        return found

    def _prior(self, series: Series) -> Spread | None:
        """Return the common spread of trials over the points of a series' engine, if it is known."""
        if series.metric in OF_SINGLE_WRITES:
            return None
        return self._spreads(series.metric).get(series.engine)

    def _spreads(self, metric: str) -> dict[str, Spread | None]:
        """Return engine → the common spread of a metric's trials over its points."""
        return results.spreads(results.trials(self._runs, metric), metric)

    def _with(self, series: Series) -> pl.DataFrame:
        """Return the runs of a series that have its metric, or their single writes.

        Single writes of one run count as independent trials; the report shows whether consecutive ones
        are correlated (:func:`benchlab.report.leases.summary`).

        A metric of the dataset is known whether or not a run passed the gate. Single writes count even
        if the curve is not similar: how a server makes a write wait for its readers does not depend on
        its store. Metrics with ``is_of_any_store`` count for the same reason.
        """
        metric = series.metric
        if metric in OF_SINGLE_WRITES:
            found = self._single_writes.filter(**_key(series)).drop_nulls(metric)
            if found.is_empty():
                raise NotTestable(f"{series}: no run has single writes")
            return found
        of_dataset = METRICS[metric].is_of_the_dataset
        if not (of_dataset or METRICS[metric].is_of_any_store):
            self._require_similar(series)
        found = self._of(series, self._all if of_dataset else self._runs).drop_nulls(metric)
        if found.is_empty():
            raise NotTestable(f"no capture of {series} gives {metric}")
        return found

    def _require_similar(self, series: Series) -> None:
        if found := self._dissimilar.get((series.engine, series.variant)):
            raise NotTestable(f"{series}: {found}")

    def _of(self, series: Series, runs: pl.DataFrame) -> pl.DataFrame:
        found = runs.filter(**_key(series))
        if found.is_empty():
            if failed := self._failed_gate(series):
                raise NotTestable(f"{series}: no run passed the gate; {_most(failed.values())}")
            ended = self._not_ended_well(series)
            if not ended:
                raise NotTestable(f"profile {self._profile} has no run of {series}")
            _, status, error = ended[-1]
            ending = "was refused" if status == "refused" else "failed"
            raise NotTestable(f"{series} {ending} here: {error.splitlines()[0]}")
        return found

    @staticmethod
    def _by_concurrency(runs: pl.DataFrame, column: str) -> dict[int, list]:
        return {
            key[0]: group[column].to_list()
            for key, group in runs.sort("concurrency", "trial", maintain_order=True).group_by(
                "concurrency", maintain_order=True
            )
        }


def _ended(status: str, error: str) -> str:
    """Say how clients' runs ended, if not well."""
    ending = "were refused" if status == "refused" else "failed"
    return f"{ending}: {error.splitlines()[0]}"


def _most(reasons: Iterable[str]) -> str:
    """Return the most frequent reason; the first one if several are equally frequent."""
    ((reason, _),) = Counter(reasons).most_common(1)
    return reason


def _key(series: Series) -> dict[str, str]:
    return {"engine": series.engine, "variant": series.variant, "workload": series.workload}
