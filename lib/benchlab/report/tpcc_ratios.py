"""Effect of the ways of running TPC-C, as ratios of runs that differ in only one of them."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

import polars as pl

from benchlab import stats
from benchlab.drivers.tpcc import limits
from benchlab.gate.speed import apart
from benchlab.numbers import NOTHING, with_interval
from benchlab.report import points, tpcc
from benchlab.report.points import with_curve
from benchlab.store import results
from benchlab.store.results import Rerun
from benchlab.study import Scalar, Study

#: Option (name, value) that only one of two workloads has → what is compared with what, and whether the
#: workload with the option is the numerator.
_MECHANISMS: dict[tuple[str, Scalar], tuple[str, bool]] = {
    ("form", "statements"): ("stored procedures : statements of the client", False),
    ("batched", False): ("an order's lines in a batch : one by one", False),
    ("prepared", False): ("prepared statements : planned each time", False),
    ("joined", True): ("one joined update : two statements", True),
}

#: Metric → column of its ratio.
_METRICS = {
    "tpmc": "New-Orders/min",
    "latency_mean_us": "mean latency",
    "engine_cpu_us_per_transaction": "CPU of the engine a transaction",
    "client_cpu_us_per_transaction": "CPU of the clients a transaction",
}

#: Column with the repeated transactions of the numerator and of the denominator.
_REPEATS = "repeats of 100 transactions"

#: Metric of a warehouse.
_RATE = "tpmc_per_warehouse"

_CURVE = ["engine", "variant", "envelope", "concurrency"]


def mechanisms(rerun: Rerun) -> pl.DataFrame:
    """Return what each mechanism changes, as ratios with their 95 % intervals.

    Columns: ``curve``, ``mechanism`` (numerator : denominator), ``pacing``, ``terminals``, one column
    per metric (``0.81 (0.74 to 0.89)``, without an interval if a point has one trial), ``repeats of 100
    transactions`` (``1.2 : 3.4``; much of what differs may be due to these), ``gate passed`` (by the
    runs of both, on hosts that are alike).
    """
    study = rerun.study
    repeats = _repeats(rerun)
    rows = []
    for name, over, under in _pairs(study):
        both = _both(rerun, over, under)
        ratios = {
            column: _ratios(rerun, both.select(_CURVE), metric, over, under)
            for metric, column in _METRICS.items()
        }
        for place, row in enumerate(both.iter_rows(named=True)):
            rows.append(
                {
                    "engine": row["engine"],
                    "variant": row["variant"],
                    "mechanism": name,
                    "pacing": tpcc.paced(tpcc.pacing(study, over)),
                    "terminals": row["concurrency"],
                    **{column: texts[place] for column, texts in ratios.items()},
                    _REPEATS: " : ".join(
                        f"{repeats[workload, *(row[name] for name in _CURVE)]:.1f}"
                        for workload in (over, under)
                    ),
                    "valid": row["valid"],
                }
            )
    text = ("engine", "variant", "mechanism", "pacing", *_METRICS.values(), _REPEATS)
    schema = dict.fromkeys(text, pl.String) | {"terminals": pl.Int64, "valid": pl.Boolean}
    found = points.in_order(with_curve(pl.DataFrame(rows, schema=schema), study), study)
    return found.select(
        "curve",
        "mechanism",
        "pacing",
        "terminals",
        *_METRICS.values(),
        _REPEATS,
        points.gate_passed(),
    )


def baseline(rerun: Rerun) -> pl.DataFrame:
    """Return the throughput of terminals without waits, as ratios.

    The throughput itself is not printed, since it is no tpmC.

    Columns: ``curve``, ``terminals``, ``divided by`` (the most that a warehouse gives at TPC-C's
    pacing, clause 4.1.3, or runs with waits), ``ratio of New-Orders/min of a warehouse`` (with its 95 %
    interval if there are several trials), ``gate passed``.
    """
    study = rerun.study
    rows = []
    for workload in (name for name in study.workloads if not tpcc.pacing(study, name)):
        found = _points(rerun, workload)
        most = f"the most at TPC-C pacing, {limits.PER_WAREHOUSE[1]}"
        own = _samples(rerun, found.select(_CURVE), _RATE, workload)
        for row, sample in zip(found.iter_rows(named=True), own, strict=True):
            text = _text(stats.median(sample), limits.PER_WAREHOUSE[1]) if sample else NOTHING
            rows.append((*_point(row), most, text, row["valid"]))
        for other in tpcc.plain(study):
            both = _both(rerun, workload, other)
            over = tpcc.paced(tpcc.pacing(study, other))
            texts = _ratios(rerun, both.select(_CURVE), _RATE, workload, other)
            for row, text in zip(both.iter_rows(named=True), texts, strict=True):
                rows.append((*_point(row), over, text, row["valid"]))
    schema = {
        "engine": pl.String,
        "variant": pl.String,
        "terminals": pl.Int64,
        "divided by": pl.String,
        "ratio of New-Orders/min of a warehouse": pl.String,
        "valid": pl.Boolean,
    }
    found = with_curve(pl.DataFrame(rows, schema=schema, orient="row"), study)
    shown = points.in_order(found, study, "terminals")
    return shown.select("curve", *list(schema)[2:-1], points.gate_passed())


def background(rerun: Rerun) -> pl.DataFrame:
    """Return the throughput just after a new cycle of the engine's background work was first seen.

    Clause 5.5 limits only the variation of the cumulative throughput, to 2 %. There is one row per
    point whose engine reports its background work. Workloads are those of
    :func:`benchlab.report.tpcc.of_any_pacing`.

    Columns: ``curve``, ``pacing``, ``terminals``, ``throughput (%)`` (in the 5 s after a new cycle was
    first seen, in % of the throughput at other times; with its 95 % interval if there are several
    trials), ``gate passed``.
    """
    study = rerun.study
    rows = []
    for workload in tpcc.of_any_pacing(study):
        found = _points(rerun, workload)
        paced = tpcc.paced(tpcc.pacing(study, workload))
        samples = _samples(rerun, found.select(_CURVE), "tps_after_cycle_percent", workload)
        for row, sample in zip(found.iter_rows(named=True), samples, strict=True):
            if sample:
                engine, variant, terminals = _point(row)
                text = _text(stats.median(sample))
                rows.append((engine, variant, paced, terminals, text, row["valid"]))
    schema = {
        "engine": pl.String,
        "variant": pl.String,
        "pacing": pl.String,
        "terminals": pl.Int64,
        "throughput (%)": pl.String,
        "valid": pl.Boolean,
    }
    found = with_curve(pl.DataFrame(rows, schema=schema, orient="row"), study)
    shown = points.in_order(found, study)
    return shown.select("curve", *list(schema)[2:-1], points.gate_passed())


def _point(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["engine"], row["variant"], row["concurrency"]


def _pairs(study: Study) -> Iterator[tuple[str, str, str]]:
    """Yield each mechanism with the workloads of numerator and denominator, which differ only in it."""
    for less, more in permutations(study.workloads, 2):
        fewer, options = study.workloads[less].options, study.workloads[more].options
        added = options.items() - fewer.items()
        if len(added) != 1 or fewer.items() - options.items():
            continue
        if mechanism := _MECHANISMS.get(next(iter(added))):
            name, is_above = mechanism
            yield (name, more, less) if is_above else (name, less, more)


def _both(rerun: Rerun, over: str, under: str) -> pl.DataFrame:
    """Return the points that two workloads share: :data:`_CURVE`, ``valid`` (their ratio is)."""
    alike = apart(rerun.speeds, (over, under)) is None
    both = _points(rerun, over).join(_points(rerun, under), on=_CURVE, suffix=" under")
    return both.select(*_CURVE, valid=pl.col("valid") & pl.col("valid under") & alike)


def _points(rerun: Rerun, workload: str) -> pl.DataFrame:
    """Return the points of a workload that have runs: :data:`_CURVE`, ``valid``."""
    found = rerun.metrics.filter(workload=workload).select(*_CURVE, "valid").unique()
    return points.in_order(found, rerun.study, "envelope", "concurrency")


def _repeats(rerun: Rerun) -> dict[tuple[Any, ...], float]:
    """Return workload and :data:`_CURVE` of each point → repeats of 100 transactions, of all trials."""
    repeated = rerun.of_runs(
        "SELECT run_id, sum(retries)::BIGINT AS retries"
        " FROM operation SEMI JOIN chosen USING (run_id) GROUP BY run_id"
    )
    by_point = (
        rerun.metrics.join(repeated, on="run_id")
        .group_by("workload", *_CURVE)
        .agg(100 * pl.col("retries").sum() / pl.col("transactions").sum())
    )
    return {tuple(key): repeats for *key, repeats in by_point.iter_rows()}


def _samples(
    rerun: Rerun, wanted: pl.DataFrame, metric: str, workload: str
) -> list[stats.Sample | None]:
    """Return the trials of a workload's points, with the spread common to the points of an engine."""
    trials = results.trials(rerun.metrics, metric)
    priors = results.spreads(trials, metric)
    of_workload = {
        key: stats.Sample(group[metric][0], priors[key[0]])
        for key, group in trials.filter(workload=workload).group_by(_CURVE)
    }
    return [of_workload.get(key) for key in wanted.iter_rows()]


def _ratios(rerun: Rerun, wanted: pl.DataFrame, metric: str, over: str, under: str) -> list[str]:
    """Return the ratios of two workloads at some points, as text with 95 % intervals."""
    return [
        _ratio(above, below)
        for above, below in zip(
            _samples(rerun, wanted, metric, over),
            _samples(rerun, wanted, metric, under),
            strict=True,
        )
    ]


def _ratio(above: stats.Sample | None, below: stats.Sample | None) -> str:
    if not (above and below):
        return NOTHING
    try:
        return _text(stats.ratio(above, below))
    except stats.RatioToZero:  # a short run may have had no New-Order
        return NOTHING


def _text(estimate: stats.Estimate, divisor: float = 1) -> str:
    ends = (None if one is None else one / divisor for one in (estimate.low, estimate.high))
    return with_interval(estimate.value / divisor, *ends)
