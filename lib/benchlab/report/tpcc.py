"""What a report of a TPC-C run discloses (TPC-C 5.11, clauses 5.6, 8.1.6 and appendix C), as frames.

All frames describe runs of a store, within their measurement intervals. Response times include the
browser's delay (:data:`benchlab.drivers.tpcc.measured.BROWSER_DELAY_US`); the store's latencies do not.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from benchlab.drivers.base import MEASURE
from benchlab.drivers.tpcc import limits
from benchlab.drivers.tpcc.limits import NAMES
from benchlab.drivers.tpcc.measured import BROWSER_DELAY_US
from benchlab.numbers import NOTHING, number
from benchlab.observers import background
from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import POINT, Rerun
from benchlab.study import Study

#: Bins of a histogram; clause 5.6.1 requires 20 or more.
_BINS = 40

#: Columns of a histogram; ``to_s`` is null in the last row, which counts all beyond the end.
_HISTOGRAM = {"from_s": pl.Float64, "to_s": pl.Float64, "count": pl.Int64}

_DELAY_S = BROWSER_DELAY_US / 1e6

#: Throughput over time: longest step in s, and number of steps of a short interval. Clause 5.6 requires
#: 240 steps of at most 30 s, which make an interval of two hours.
_STEP_S, _STEPS = 30, 20

#: How many of the longest checkpoints are disclosed.
_LONGEST = 4

#: Tables of a :class:`Run`, in the order of its fields.
_TABLES = ("rule", "operation", "latency_bucket", "time_bucket", "interval", "checkpoint")

_MENU = "menu"


@dataclass(frozen=True)
class Run:
    """A run: its curve, workload and size, and its rows of the store."""

    curve: str
    workload: str
    """The workload's label."""
    pacing: float
    """Share of the standard's keying and think times that terminals keep: 1 is TPC-C, 0 is none."""
    terminals: int
    warehouses: int
    seconds: float
    """Length of the measurement interval."""
    begin_s: float
    """Start of the interval, in Unix seconds."""
    passed_gate: bool
    rules: pl.DataFrame = field(repr=False)
    operations: pl.DataFrame = field(repr=False)
    latencies: pl.DataFrame = field(repr=False)
    """Rows of ``latency_bucket``."""
    times: pl.DataFrame = field(repr=False)
    """Rows of ``time_bucket``."""
    intervals: pl.DataFrame = field(repr=False)
    checkpoints: pl.DataFrame = field(repr=False)
    """Rows of ``checkpoint``; none if the engine does not report when checkpoints begin and end."""
    cycles: pl.DataFrame = field(repr=False)
    """Cycles of the engine's background work: ``t`` in Unix seconds, ``value`` (cycle counter)."""

    @property
    def heading(self) -> str:
        """The run's curve, its terminals, how they were paced, and whether it failed the gate."""
        failed = "" if self.passed_gate else "; did not pass the gate"
        return f"{self.curve}, {self.terminals} terminals: {paced(self.pacing)}{failed}"

    @property
    def new_orders(self) -> int:
        """New-Orders that ended well in the interval; an intended rollback counts (clause 5.4)."""
        return self.operations.filter(operation="new_order")["transactions"].sum()

    @property
    def per_minute(self) -> float:
        """New-Orders per minute."""
        return 60 * self.new_orders / self.seconds

    @property
    def tpmc(self) -> int | None:
        """New-Orders per minute, truncated (clause 5.4).

        ``None``: they are no tpmC, since terminals are paced otherwise, or not ten a warehouse.
        """
        is_whole = self.terminals == limits.TERMINALS * self.warehouses
        return math.floor(self.per_minute) if self.pacing == 1 and is_whole else None

    def rule(self, check: str) -> dict[str, object]:
        """Return the row of a rule.

        Raises:
            polars.exceptions.NoRowsReturnedError: there is no such rule.
        """
        return self.rules.row(by_predicate=pl.col("check") == check, named=True)


def pacing(study: Study, workload: str) -> float:
    """Return the share of the standard's keying and think times that a workload's terminals keep."""
    return float(study.workloads[workload].options.get("pacing", 1))


def paced(pacing: float) -> str:
    """Say how terminals are paced; every pacing but the standard's is called not TPC-C's."""
    if pacing == 1:
        return "TPC-C pacing"
    if pacing == 0:
        return "not TPC-C pacing (no waits)"
    return f"not TPC-C pacing (× {1 / pacing:.3g})"


def of_any_pacing(study: Study) -> list[str]:
    """Return the workloads that equal the standard's, or differ from it only in their pacing."""
    return [name for name, one in study.workloads.items() if one.options.keys() <= {"pacing"}]


def plain(study: Study) -> list[str]:
    """Return the workloads of :func:`of_any_pacing` whose terminals wait, at whatever pacing."""
    return [name for name in of_any_pacing(study) if pacing(study, name) > 0]


def reported(rerun: Rerun) -> list[Run]:
    """Return the runs that are reported: one for each curve of a plain workload, at its best point.

    The best point has the greatest median of New-Orders per minute; one that passed the gate is better
    than any that did not. Its run with the median is taken.
    """
    study = rerun.study
    metrics = rerun.metrics.drop_nulls("tpmc").filter(pl.col("workload").is_in(plain(study)))
    best = (
        median_runs(metrics)
        .sort("valid", "tpmc", "concurrency", descending=True)
        .unique(["engine", "variant", "workload"], keep="first", maintain_order=True)
    )
    return read(rerun, points.in_order(best, study))


def nearest(runs: Sequence[Run]) -> Run:
    """Return the first run at TPC-C's pacing, or the first of all if none has that pacing."""
    return min(runs, key=lambda run: run.pacing != 1)


def median_runs(metrics: pl.DataFrame) -> pl.DataFrame:
    """Return the run of each point that has the median of New-Orders per minute.

    Args:
        metrics: rows of :attr:`benchlab.store.results.Rerun.metrics`.
    """
    rank = pl.col("tpmc").rank("ordinal").over(POINT)
    middle = (pl.len().over(POINT) + 1) // 2
    return metrics.drop_nulls("tpmc").filter(rank == middle)


def read(rerun: Rerun, runs: pl.DataFrame) -> list[Run]:
    """Return runs with their rows of the store, in the given order.

    Args:
        rerun: the rerun that has the runs.
        runs: rows of :attr:`benchlab.store.results.Rerun.metrics`.
    """
    study = rerun.study
    found = {
        table: rerun.of_runs(f'SELECT * FROM "{table}" SEMI JOIN chosen USING (run_id)', runs)
        for table in _TABLES
    }
    found["cycles"] = rerun.of_runs(
        "SELECT run_id, t, value FROM os_sample SEMI JOIN chosen USING (run_id)"
        f" WHERE observer = '{background.OBSERVER}' AND metric = '{background.METRIC}' ORDER BY t",
        runs,
    )
    return [
        Run(
            row["curve"],
            study.workload_label(row["workload"]),
            pacing(study, row["workload"]),
            row["concurrency"],
            json.loads(row["dataset"])["warehouses"],
            row["measured_s"],
            row["measure_begin"],
            row["valid"],
            *(frame.filter(run_id=row["run_id"]).drop("run_id") for frame in found.values()),
        )
        for row in with_curve(runs, study).iter_rows(named=True)
    ]


def checks(found: pl.DataFrame) -> pl.DataFrame:
    """Return the checks of a run for reading.

    Columns: ``rule``, ``clause``, ``measured``, ``allowed``, ``of``, ``answer``, ``why``.

    Args:
        found: rows of ``rule``.
    """
    rows = [
        {
            "rule": one["check"],
            "clause": one["clause"],
            "measured": _with_unit(one["value"], one["unit"]),
            "allowed": _allowed(one["least"], one["most"], one["unit"]),
            "of": one["n"],
            "answer": one["answer"],
            "why": one["why"],
        }
        for one in found.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema_overrides={"of": pl.Int64})


def _with_unit(value: float | None, unit: str) -> str:
    if value is None:
        return NOTHING
    return f"{_limit(value) if value.is_integer() else number(value)} {unit}".strip()


def _allowed(least: float | None, most: float | None, unit: str) -> str:
    match least, most:
        case None, None:
            return NOTHING
        case None, _:
            text = f"≤ {_limit(most)}"
        case _, None:
            text = f"≥ {_limit(least)}"
        case _ if least == most:
            text = _limit(most)
        case _:
            text = f"{_limit(least)}–{_limit(most)}"
    return f"{text} {unit}".strip()


def _limit(value: float) -> str:
    """Write a limit with as many digits as the standard gives."""
    return f"{value:,.0f}" if value.is_integer() else f"{value:g}"


def responses(runs: Iterable[Run]) -> pl.DataFrame:
    """Return the share of each type of transaction, and its response times.

    Columns: ``curve``, ``pacing``, ``type``, ``transactions``, ``mix (%)``, ``mean (s)``,
    ``90th percentile (s)``, ``maximum (s)``. The last row of a run is the menu. Values that a run does
    not have are null.
    """
    rows = []
    for run in runs:
        every = run.operations["transactions"].sum()
        for kind, name in NAMES.items():
            of_type = run.operations.filter(operation=kind)
            count = of_type["transactions"].sum()
            rows.append(
                (
                    *(run.curve, paced(run.pacing), name, count),
                    100 * count / every if every else None,
                    _response(of_type["latency_mean_us"].max()),
                    _p90(run, name),
                    _response(of_type["latency_max_us"].max()),
                )
            )
        menus = run.times.filter(what=_MENU)
        rows.append(
            (
                *(run.curve, paced(run.pacing), _MENU, menus["count"].sum(), None),
                _response(_mean(menus["time_us"], menus["count"])),
                _p90(run, _MENU),
                _response(menus["time_us"].max()),
            )
        )
    text = dict.fromkeys(("curve", "pacing", "type"), pl.String)
    names = ("mix (%)", "mean (s)", "90th percentile (s)", "maximum (s)")
    schema = text | {"transactions": pl.Int64} | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _response(latency_us: float | None) -> float | None:
    """Return the response time, in s, that belongs to a latency of the store."""
    return None if latency_us is None else (latency_us + BROWSER_DELAY_US) / 1e6


def _p90(run: Run, name: str) -> float | None:
    return run.rule(limits.percentile(limits.response(name)))["value"]


def _mean(values: pl.Series, counts: pl.Series) -> float | None:
    return (values * counts).sum() / counts.sum() if counts.sum() else None


def times(runs: Iterable[Run]) -> pl.DataFrame:
    """Return the least, mean and greatest keying and think time of each type, in s.

    Columns: ``curve``, ``pacing``, ``type``; ``keying, least (s)``, ``keying, mean (s)``,
    ``keying, greatest (s)``; and the same three for ``think``.
    """
    rows = []
    for run in runs:
        for kind, name in NAMES.items():
            row: dict[str, object] = {
                "curve": run.curve,
                "pacing": paced(run.pacing),
                "type": name,
            }
            for what in ("keying", "think"):
                found = run.times.filter(operation=kind, what=what)
                mean = _mean(found["time_us"], found["count"])
                for which, value in (
                    ("least", found["time_us"].min()),
                    ("mean", mean),
                    ("greatest", found["time_us"].max()),
                ):
                    row[f"{what}, {which} (s)"] = None if value is None else value / 1e6
            rows.append(row)
    return pl.DataFrame(rows)


def counts(runs: Iterable[Run]) -> pl.DataFrame:
    """Return how many transactions of the interval ended in which way.

    Columns: ``curve``, ``pacing``, ``what``, ``count`` (null if it was not recorded).
    """
    rows = []
    for run in runs:
        rolled_back = run.rule(limits.ROLLED_BACK)
        deferred = run.rule(limits.percentile(limits.DEFERRED_PART))
        skipped = run.rule(limits.SKIPPED)
        was_recorded = skipped["value"] is not None
        # runs of an older benchlab do not have it
        not_done = run.rules.filter(check=limits.NOT_DONE)["value"]
        found = {
            "transactions that ended well": run.operations["transactions"].sum(),
            "New-Orders": run.new_orders,
            "New-Orders rolled back on purpose": round(
                (rolled_back["value"] or 0) / 100 * rolled_back["n"]
            ),
            "repeats of transactions that the database broke off": run.operations["retries"].sum(),
            limits.UNANSWERED: run.rule(limits.UNANSWERED)["value"],
            "Deliveries queued": deferred["n"] if was_recorded else None,
            "Deliveries that skipped a district": skipped["value"],
            "Deliveries acknowledged and not done": next(iter(not_done), None),
        }
        rows += [
            (run.curve, paced(run.pacing), what, None if count is None else int(count))
            for what, count in found.items()
        ]
    text = dict.fromkeys(("curve", "pacing", "what"), pl.String)
    return pl.DataFrame(rows, schema=text | {"count": pl.Int64}, orient="row")


def response_histogram(run: Run) -> pl.DataFrame:
    """Return a histogram of the response times of each type.

    It starts at the browser's delay, which every response time includes. From there it spans four times
    the 90th percentile of what was measured beyond the delay.

    Columns: ``type`` (as the standard calls it), ``from_s``, ``to_s`` (null: all beyond), ``count``.
    """
    found = []
    for kind, name in NAMES.items():
        of_type, p90 = run.latencies.filter(operation=kind), _p90(run, name)
        bins = _histogram(
            of_type["latency_us"] / 1e6, of_type["count"], 4 * ((p90 or _DELAY_S) - _DELAY_S)
        )
        shifted = pl.col("from_s", "to_s") + _DELAY_S
        found.append(bins.with_columns(shifted, type=pl.lit(name)).select("type", *_HISTOGRAM))
    return pl.concat(found)


def think_histogram(run: Run) -> pl.DataFrame:
    """Return a histogram of the think times of New-Orders, from 0 to four times their mean.

    Columns: ``from_s``, ``to_s`` (null: all beyond), ``count``.
    """
    found = run.times.filter(operation="new_order", what="think")
    seconds = found["time_us"] / 1e6
    return _histogram(seconds, found["count"], 4 * (_mean(seconds, found["count"]) or 0))


def _histogram(seconds: pl.Series, counts: pl.Series, end_s: float) -> pl.DataFrame:
    if end_s <= 0:
        return pl.DataFrame(schema=_HISTOGRAM)
    width = end_s / _BINS
    counted = (
        pl.DataFrame({"bin": (seconds / width).floor().cast(pl.Int64), "count": counts})
        .group_by(pl.col("bin").clip(0, _BINS))
        .agg(pl.col("count").sum())
    )
    bins = pl.DataFrame({"bin": range(_BINS + 1)}, schema={"bin": pl.Int64})
    bound = pl.col("bin") * width
    return bins.join(counted, on="bin", how="left", maintain_order="left").select(
        bound.alias("from_s"),
        pl.when(pl.col("bin") < _BINS).then(bound + width).alias("to_s"),
        pl.col("count").fill_null(0).cast(pl.Int64),
    )


def levels(rerun: Rerun) -> pl.DataFrame:
    """Return the response times of New-Orders against their throughput (clause 5.6.2).

    One row per point of every curve of a plain workload that has several points. Columns: ``engine``,
    ``variant``, ``curve``, ``workload``, ``pacing``, ``concurrency``, ``load`` (terminals over the most
    terminals of the workload's runs, failed ones included; about 0.5, 0.8 and 1), ``per_minute`` and
    ``p90_s`` (medians over the trials), ``valid``.
    """
    study = rerun.study
    rule = limits.percentile(limits.response(NAMES["new_order"]))
    p90 = rerun.of_runs(
        'SELECT run_id, value AS p90_s FROM rule SEMI JOIN chosen USING (run_id) WHERE "check" ='
        f" '{rule}'"
    )
    found = (
        rerun.metrics.filter(pl.col("workload").is_in(plain(study)))
        .join(p90, on="run_id")
        .group_by(*POINT, "valid")
        .agg(pl.col("tpmc").median().alias("per_minute"), pl.col("p90_s").median())
    )
    curve = ["engine", "variant", "workload"]
    most = rerun.runs.group_by("workload").agg(pl.col("concurrency").max().alias("most"))
    paces = {name: pacing(study, name) for name in plain(study)}
    several = found.filter(pl.len().over(curve) > 1)
    shown = with_curve(several.join(most, on="workload"), study)
    return points.in_order(shown, study, "concurrency").select(
        "engine",
        "variant",
        "curve",
        "workload",
        pl.col("workload").replace_strict(paces, return_dtype=pl.Float64).alias("pacing"),
        "concurrency",
        (pl.col("concurrency") / pl.col("most")).alias("load"),
        "per_minute",
        "p90_s",
        "valid",
    )


def step_s(run: Run) -> int:
    """Return the length of a step of :func:`over_time`: 30 s, or less if the interval is short."""
    return min(_STEP_S, max(1, math.floor(run.seconds / _STEPS)))


def over_time(run: Run) -> pl.DataFrame:
    """Return the throughput of New-Orders, step by step, within the measured part.

    Columns: ``minute`` (a step's middle), ``per_minute`` within the step, ``cumulative`` (New-Orders
    per minute from the interval's start to the step's end). An incomplete last step is left out.
    """
    step = step_s(run)
    minutes = step / 60
    return (
        run.intervals.filter(operation="new_order", phase=MEASURE)
        .group_by(step=(pl.col("second") - 1) // step)
        .agg(pl.col("tps").sum().alias("count"), pl.len().alias("seconds"))
        .filter(seconds=step)
        .sort("step")
        .select(
            ((pl.col("step") + 0.5) * minutes).alias("minute"),
            (pl.col("count") / minutes).alias("per_minute"),
            (pl.col("count").cum_sum() / ((pl.col("step") + 1) * minutes)).alias("cumulative"),
        )
    )


def checkpoints(run: Run) -> pl.DataFrame:
    """Return the checkpoints that overlap the interval.

    Columns: ``minute`` (start) and ``end``, both in minutes from the interval's start. A checkpoint
    that had not ended ends with the interval.
    """
    length = run.seconds / 60
    begin, end = ((pl.col(name) - run.begin_s) / 60 for name in ("begin_s", "end_s"))
    found = run.checkpoints.select(begin.alias("minute"), end.fill_null(length).alias("end"))
    return found.filter(pl.col("end") > 0, pl.col("minute") < length).sort("minute")


def longest_checkpoints(runs: Iterable[Run]) -> pl.DataFrame:
    """Return the four longest checkpoints of each run, longest first.

    Columns: ``curve``, ``pacing``, ``begin (min)`` (from the interval's start), ``duration (s)``.
    """
    found = [
        checkpoints(run)
        .select(
            pl.lit(run.curve).alias("curve"),
            pl.lit(paced(run.pacing)).alias("pacing"),
            pl.col("minute").alias("begin (min)"),
            (60 * (pl.col("end") - pl.col("minute"))).alias("duration (s)"),
        )
        .sort("duration (s)", descending=True)
        .head(_LONGEST)
        for run in runs
    ]
    text = dict.fromkeys(("curve", "pacing"), pl.String)
    schema = text | dict.fromkeys(("begin (min)", "duration (s)"), pl.Float64)
    return pl.concat([pl.DataFrame(schema=schema), *found])


def cycles(run: Run) -> pl.DataFrame:
    """Return when a new cycle of the engine's background work was first seen, in the interval.

    A cycle is a checkpoint of PostgreSQL, a round of InnoDB's log, a freeze of OceanBase's memory, a
    merge of four flushed memtables of TiKV. ``minute`` counts from the interval's start. It is exact to
    the time between two questions to the engine (:mod:`benchlab.observers.background`).
    """
    minute = (pl.col("t") - run.begin_s) / 60
    done = pl.col("value").floor()
    return (
        run.cycles.sort("t")
        .filter(done > done.shift())
        .select(minute.alias("minute"))
        .filter(pl.col("minute").is_between(0, run.seconds / 60))
    )


def conditions(rerun: Rerun) -> pl.DataFrame:
    """Return the checks made at the end of the runs, one row per check.

    Columns: ``check``, and one per engine with a text such as ``3 of 3: holds``. It gives how many of
    the decided checks passed (left out if there is no right answer), and the answer of the first check
    that did not pass, else of the first one.
    """
    found = rerun.outcomes.group_by("engine", "check", maintain_order=True).agg(
        pl.col("passed").sum().alias("kept"),
        pl.col("passed").count().alias("of"),
        pl.col("answer").sort_by(pl.col("passed").fill_null(True), maintain_order=True).first(),
    )
    passed = pl.when(pl.col("of") > 0).then(pl.format("{} of {}", "kept", "of"))
    answers = points.in_order(found, rerun.study).select(
        points.engine_named(rerun.study),
        "check",
        pl.concat_str(passed, "answer", separator=": ", ignore_nulls=True).alias("found"),
    )
    return answers.pivot("engine", index="check", values="found")
