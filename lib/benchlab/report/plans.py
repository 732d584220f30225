"""How a query's plan reads its tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from benchlab.engines import engine_class
from benchlab.report import points
from benchlab.report.points import with_curve
from benchlab.store.results import POINT, Rerun


def table(rerun: Rerun, tables: Sequence[str], aliases: Mapping[str, str]) -> pl.DataFrame:
    """Return how each curve's plan reads some tables: by which index, how often, how many rows.

    The explained query is the same for all curves. Columns: ``curve``, ``workload``, one per table
    (text for reading), ``rows`` (rows that the query reads from all tables; null if the server explains
    a query without running it).

    Args:
        rerun: the rerun that has the plans.
        tables: names of the tables; a partition's name begins with its table's.
        aliases: name of a table in a plan → its real name.
    """
    counted = rerun.counted.select("run_id", *POINT)
    kept = rerun.of_runs("SELECT run_id, plan FROM query_plan SEMI JOIN chosen USING (run_id)")
    key = ["engine", "variant", "workload"]
    rows = []
    joined = kept.join(counted, on="run_id").sort("run_id")
    for (engine, *others), group in joined.group_by(key, maintain_order=True):
        accesses = engine_class(rerun.study.role(engine)).accesses(group["plan"][0])
        read: dict[str, list[str]] = {name: [] for name in tables}
        for one in accesses:
            called = aliases.get(one.table, one.table)
            how = f"index {one.index}" if one.index else "scan"
            name = next((name for name in tables if called.startswith(name)), None)
            if name is None or not one.loops:
                continue  # a table that is not asked for, or a step that was never taken
            read[name].append(f"{how}, {one.loops:,} × {one.rows / one.loops:,.0f} rows")
        row: dict[str, Any] = dict(zip(key, (engine, *others), strict=True))
        row |= {name: "; ".join(texts) for name, texts in read.items()}
        rows.append(row | {"rows": sum(one.rows for one in accesses) if accesses else None})
    schema = dict.fromkeys((*key, *tables), pl.String) | {"rows": pl.Int64}
    frame = with_curve(pl.DataFrame(rows, schema=schema), rerun.study)
    return points.in_order(frame, rerun.study).select(
        "curve", points.named(rerun.study), *tables, "rows"
    )
