"""What lowering limits has shown, beside what the evidence says: tables for notebooks and paper."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchlab import ingest, results
from benchlab.analysis.points import with_curve
from benchlab.attribution import UNKNOWN
from benchlab.capture import Record
from benchlab.errors import BenchlabError
from benchlab.intervention.effect import BINDING, Answer
from benchlab.intervention.model import RESOURCES, Intervention
from benchlab.results import POINT
from benchlab.store import Store

_NAMES = {resource.name for resource in RESOURCES.values()}


@dataclass(frozen=True)
class Perturbed:
    """One run in which limits were lowered."""

    seconds: pl.DataFrame
    """``second`` (its end), ``tps``; of the measured part."""
    blocks: pl.DataFrame
    """Rows of ``intervention_block``, with ``begin`` and ``end`` in seconds of the measured part."""
    elasticities: pl.DataFrame
    """Rows of ``elasticity``."""


def read(raw: Path, record: Record) -> Perturbed:
    """Read one run from its folder among the raw ones.

    Raises:
        BenchlabError: the run does not count, or none of its blocks came to its end.
    """
    if record.status != "ok":
        raise BenchlabError(f"{record.run_id} {record.status}: {record.error}")
    tables = ingest.rows(raw / record.run_id)
    if "intervention_block" not in tables:
        raise BenchlabError(f"{record.run_id}: no block came to its end")
    return _perturbed(tables["interval"], tables["intervention_block"], tables["elasticity"])


def stored(store: Store, run_id: str) -> Perturbed:
    """Read one run from a store."""
    names = ("interval", "intervention_block", "elasticity")
    return _perturbed(*(store.table(name, run_id) for name in names))


def elasticities(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return the elasticity of throughput to every limit that was lowered; one row each.

    Columns: those of a point, ``curve``, ``point`` (as a chart names it), ``resource``,
    ``elasticity``, ``low``, ``high``, ``blocks``, ``answer``, ``reason``.
    """
    found = with_curve(results.perturbed(store, study, profile, target)).select(
        "run_id", "curve", *POINT
    )
    rows = store.sql("SELECT * FROM elasticity").join(found, on="run_id")
    name = pl.format(
        "{}, {} ×{}", "curve", pl.col("workload").str.strip_prefix("oltp_"), "concurrency"
    )
    order = {resource.name: rank for rank, resource in enumerate(RESOURCES.values())}
    return (
        rows.with_columns(
            name.alias("point"), pl.col("resource").replace_strict(order).alias("rank")
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


def answers(store: Store, study: str, profile: str, target: str | None = None) -> pl.DataFrame:
    """Return what bound each point by evidence and by intervention, and whether the two agree.

    Both are of the same run. ``blocks``: how many of each resource, how long, and what was left of the
    limit in them. ``agree``: *yes* if the resource that the evidence names binds by
    intervention, or is none that can be lowered and none of the others binds; *no* if another one
    binds, or that one does not; *unclear* if the intervention does not say.
    """
    found = with_curve(results.perturbed(store, study, profile, target))
    evidence = store.sql("SELECT run_id, resource FROM attribution WHERE binds ORDER BY ALL")
    measured = store.sql("SELECT run_id, resource, answer FROM elasticity")
    rows = []
    for run in found.iter_rows(named=True):
        seen = evidence.filter(run_id=run["run_id"])["resource"].to_list()
        said = dict(measured.filter(run_id=run["run_id"]).select("resource", "answer").iter_rows())
        rows.append(
            {
                "curve": run["curve"],
                "workload": run["workload"],
                "concurrency": run["concurrency"],
                "blocks": _blocks(Intervention.model_validate_json(run["intervention"])),
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
    return pl.DataFrame(rows, schema=schema)


def _perturbed(
    interval: pl.DataFrame, blocks: pl.DataFrame, elasticities: pl.DataFrame
) -> Perturbed:
    start = pl.col("begin_s").min()
    return Perturbed(
        interval.filter(phase="measure").select("second", "tps").sort("second"),
        blocks.with_columns(
            (pl.col("begin_s") - start).alias("begin"), (pl.col("end_s") - start).alias("end")
        ).sort("number"),
        elasticities.drop("run_id"),
    )


def _blocks(intervention: Intervention) -> str:
    percent = f"{intervention.factor:.0%}".replace("%", " %")
    return f"{intervention.blocks} of {intervention.block_s} s at {percent}"


def _lowered(evidence: str) -> str:
    """Name of the limit that a resource of the evidence stands under; engine and load share a CPU."""
    return "CPU" if evidence.startswith("CPU") else evidence


def _said(said: dict[str, str]) -> str:
    binding = [name for name, answer in said.items() if answer in BINDING]
    in_part = [f"{name} in part" for name, answer in said.items() if answer == Answer.IN_PART]
    if binding or in_part:
        return ", ".join(binding + in_part)
    return "unclear" if Answer.UNCLEAR in said.values() else "none that was lowered"


def _agree(seen: set[str], said: dict[str, str]) -> str:
    binding = {name for name, answer in said.items() if answer in BINDING}
    tested = {name for name, answer in said.items() if answer != Answer.NOT_TESTABLE}
    if seen & tested:
        if seen & binding:
            return "yes"
        clear = {said[name] for name in seen & tested} == {Answer.DOES_NOT}
        return "no" if binding or clear else "unclear"
    if binding:
        return "no"
    return "unclear" if Answer.UNCLEAR in said.values() else "yes"
