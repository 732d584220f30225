"""Results of interventions beside those of the evidence: tables for notebooks and paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchlab.attribution.elasticity import BINDING, Answer
from benchlab.errors import BenchlabError
from benchlab.numbers import number
from benchlab.raw.record import Record
from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store import Store, ingest
from benchlab.store.results import POINT, Rerun
from benchlab.study.intervention import TRANSIENT_S, LimitBlocks
from benchlab.study.resources import CPU, LOWERED, RATES, UNKNOWN, Amount

#: Resource → its rank in tables.
_RANK = {resource.name: rank for rank, resource in enumerate(LOWERED.values())}

# Use of a metric by some subjects, in the blocks of each resource and in the blocks that lower no limit
# (null). A sample covers the second before it. The first second of a block does not count.
_USED = """
    WITH sampled AS (
        SELECT number, t, sum(value) AS value FROM os_sample JOIN intervention_block USING (run_id)
            JOIN node USING (run_id, node)
        WHERE run_id = ? AND role = 'db.primary' AND observer = 'sample'
            AND list_contains(?, subject) AND metric = ?
            AND t >= begin_s + 1 + ? AND t <= end_s
        GROUP BY number, t
    ), of_block AS (
        SELECT number, avg(value ORDER BY t) AS value FROM sampled GROUP BY number
    )
    SELECT resource, avg(value ORDER BY number) AS used, avg(tps ORDER BY number) AS tps
    FROM of_block JOIN intervention_block USING (number) WHERE run_id = ?
    GROUP BY resource
"""


@dataclass(frozen=True)
class IntervenedRun:
    """One run in which limits were lowered."""

    seconds: pl.DataFrame
    """``second`` (its end), ``tps``; measured part only."""
    blocks: pl.DataFrame
    """Rows of ``intervention_block``, with ``begin`` and ``end`` in seconds of the measured part."""
    elasticities: pl.DataFrame
    """Rows of ``elasticity``."""


def read(raw: Path, record: Record) -> IntervenedRun:
    """Read one run from its folder of raw captures.

    Raises:
        BenchlabError: the run does not count, or none of its blocks was completed.
    """
    tables = ingest.counted_rows(raw, record)
    if "intervention_block" not in tables:
        raise BenchlabError(f"{record.run_id}: no block came to its end")
    return _intervened(tables)


def stored(store: Store, run_id: str) -> IntervenedRun:
    """Read one run from a store."""
    names = ("run", "interval", "intervention_block", "elasticity")
    return _intervened({name: store.table(name, run_id) for name in names})


def elasticities(rerun: Rerun) -> pl.DataFrame:
    """Return the elasticity of throughput to every lowered limit, one row per point and limit.

    Columns: those of a point, ``curve``, ``point`` (as a chart names it), ``resource``,
    ``elasticity``, ``low``, ``high``, ``blocks``, ``answer``, ``reason``.
    """
    found = with_curve(rerun.interventions, rerun.study).select("run_id", "curve", *POINT)
    rows = rerun.of_runs("SELECT * FROM elasticity SEMI JOIN chosen USING (run_id)", found).join(
        found, on="run_id"
    )
    label = points.named(rerun.study).str.strip_prefix("oltp_")
    name = pl.format("{}, {} ×{}", "curve", label, "concurrency")
    return (
        rows.with_columns(
            name.alias("point"), pl.col("resource").replace_strict(_RANK).alias("rank")
        )
        .sort(*POINT, "rank")
        .select(
            "curve",
            *POINT,
            "point",
            "resource",
            "elasticity",
            "low",
            "high",
            "blocks",
            "answer",
            "reason",
        )
    )


def answers(rerun: Rerun) -> pl.DataFrame:
    """Return what bound each point by evidence and by intervention, and whether they agree.

    Both results are of the same run. Columns: ``curve``, ``workload``, ``concurrency``; ``blocks`` (how
    many per resource, how long, and the share of the limit that they leave); ``by evidence``;
    ``by intervention``; ``agree``. Values of ``agree``:

    - *yes*: the resource that the evidence names also binds by intervention.
    - *not contradicted*: its limit was not lowered, and no other resource binds by intervention.
    - *no*: another resource binds by intervention, or the named one does not.
    - *unclear*: the evidence names nothing, or the intervention does not decide.
    """
    found = with_curve(rerun.interventions, rerun.study)
    evidence = points.bound_by(rerun, found)
    measured = rerun.of_runs(
        "SELECT run_id, resource, answer FROM elasticity SEMI JOIN chosen USING (run_id)", found
    )
    rows = []
    for run in found.iter_rows(named=True):
        seen = evidence.filter(run_id=run["run_id"])["binding"].to_list()
        said = dict(measured.filter(run_id=run["run_id"]).select("resource", "answer").iter_rows())
        rows.append(
            {
                "curve": run["curve"],
                "workload": run["workload"],
                "concurrency": run["concurrency"],
                "blocks": _blocks(LimitBlocks.model_validate_json(run["intervention"])),
                "by evidence": ", ".join(seen) or UNKNOWN,
                "by intervention": _said(said),
                "agree": _agree({_lowered(name) for name in seen}, said),
            }
        )
    schema = {
        "curve": pl.String,
        "workload": pl.String,
        "concurrency": pl.Int64,
        "blocks": pl.String,
        "by evidence": pl.String,
        "by intervention": pl.String,
        "agree": pl.String,
    }
    return pl.DataFrame(rows, schema=schema).with_columns(points.named(rerun.study))


def used(rerun: Rerun) -> pl.DataFrame:
    """Return how much of every limit was used outside and inside the blocks that lowered it.

    Columns: ``curve``, ``workload``, ``concurrency``, ``resource``; ``limit``, ``used`` and
    ``a transaction takes``, each with both numbers and their unit. If a transaction takes more of the
    resource under the lower limit, throughput falls by more than the limit, and the elasticity is
    above 1.
    """
    rows = []
    for run in with_curve(rerun.interventions, rerun.study).iter_rows(named=True):
        limits = rerun.store.sql(
            "SELECT resource, any_value(in_force) AS in_force, any_value(lowered_to) AS lowered_to"
            " FROM intervention_block WHERE run_id = ? AND resource IS NOT NULL"
            " GROUP BY resource",
            run["run_id"],
        )
        for name, in_force, lowered_to in sorted(limits.iter_rows(), key=lambda row: _RANK[row[0]]):
            resource = RATES[name]
            # a load generator on another host is not under this host's limits
            subjects = resource.subjects if run["single_host"] else resource.subjects[:1]
            of_run = (run["run_id"], list(subjects), resource.metric, TRANSIENT_S, run["run_id"])
            found = {row[0]: row[1:] for row in rerun.store.sql(_USED, *of_run).iter_rows()}
            if not all(blocks in found and found[blocks][1] for blocks in (None, name)):
                continue  # no such block counts, or none of its seconds had a transaction
            # the limit of CPU is in cores, its use is sampled in microseconds per second
            of_limit = Amount(resource.rate.unit, 1) if resource is CPU else resource.rate
            use = [found[blocks][0] for blocks in (None, name)]
            of_one = [found[blocks][0] / found[blocks][1] for blocks in (None, name)]
            rows.append(
                {
                    **{key: run[key] for key in ("curve", "workload", "concurrency")},
                    "resource": name,
                    "limit": _change([in_force, lowered_to], of_limit),
                    "used": _change(use, resource.rate),
                    "a transaction takes": _change(of_one, resource.of_one),
                }
            )
    columns = (
        "curve",
        "workload",
        "concurrency",
        "resource",
        "limit",
        "used",
        "a transaction takes",
    )
    schema = dict.fromkeys(columns, pl.String) | {"concurrency": pl.Int64}
    return pl.DataFrame(rows, schema=schema).with_columns(points.named(rerun.study))


def _change(values: Sequence[float], amount: Amount) -> str:
    return f"{' → '.join(number(value / amount.scale) for value in values)} {amount.unit}"


def _intervened(tables: Mapping[str, pl.DataFrame]) -> IntervenedRun:
    measured = tables["interval"].filter(phase="measure")
    start = tables["run"]["measure_begin"].item()
    return IntervenedRun(
        measured.group_by("second").agg(pl.col("tps").sum()).sort("second"),
        tables["intervention_block"]
        .with_columns(
            (pl.col("begin_s") - start).alias("begin"), (pl.col("end_s") - start).alias("end")
        )
        .sort("number"),
        tables["elasticity"].drop("run_id"),
    )


def _blocks(intervention: LimitBlocks) -> str:
    percent = f"{intervention.factor:.0%}".replace("%", " %")
    return f"{intervention.blocks} blocks of {intervention.block_s} s at {percent}"


def _lowered(evidence: str) -> str:
    """Name of the limit on a resource of the evidence; engine and load share the limit of CPU."""
    return (RATES[evidence].under if evidence in RATES else "") or evidence


def _said(said: dict[str, str]) -> str:
    binding = [name for name, answer in said.items() if answer in BINDING]
    in_part = [f"{name} in part" for name, answer in said.items() if answer == Answer.IN_PART]
    if binding or in_part:
        return ", ".join(binding + in_part)
    return "unclear" if Answer.UNCLEAR in said.values() else "none that was lowered"


def _agree(seen: set[str], said: dict[str, str]) -> str:
    if not seen:
        return "unclear"
    binding = {name for name, answer in said.items() if answer in BINDING}
    tested = {name for name, answer in said.items() if answer != Answer.NOT_TESTABLE}
    if seen & tested:
        if seen & binding:
            return "yes"
        clear = {said[name] for name in seen & tested} == {Answer.DOES_NOT}
        return "no" if binding or clear else "unclear"
    if binding:
        return "no"
    return "unclear" if Answer.UNCLEAR in said.values() else "not contradicted"
