"""Sizes: what the article and this rerun have of dataset and memory.

The article's follow from the study's file: its instance type, and the size that it gives for its
dataset. Ours are what the runs of the main envelope measured, and what their servers reported.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from benchlab.engines import engine_class
from benchlab.engines.base import canonical
from benchlab.study import DEFAULT_ENVELOPE, Scalar, Study

if TYPE_CHECKING:
    from benchlab.store.results import Rerun

#: What the article has of one thing, and what we have; ``None`` where it is not known.
Sides = tuple[float | None, float | None]


@dataclass(frozen=True)
class Setting:
    """A setting that is a size, in bytes."""

    engine: str
    variant: str
    name: str
    sides: Sides


def dataset(rerun: "Rerun", engine: str) -> Sides:
    """Return the bytes of an engine's dataset: of the study's first, where workloads have their own."""
    study = rerun.study
    profile = study.profiles[rerun.profile]
    made = {name: study.dataset(profile, name) for name in study.workloads}
    first = next(iter(made.values()))
    on_it = [name for name, dataset in made.items() if dataset == first]
    runs = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE, engine=engine)
    ours = runs.filter(pl.col("workload").is_in(on_it))["dataset_bytes"].median()
    return study.article.dataset_of(engine), ours


def settings(rerun: "Rerun") -> list[Setting]:
    """Return every size that depends on the scale, and the buffer pools, of all variants that ran."""
    memory, reported = rerun.instance.memory_bytes, _reported(rerun)
    found = []
    for engine, spec in rerun.study.engines.items():
        for variant in [name for name in spec.variants if (engine, name) in reported]:
            for name, value in (spec.settings | spec.variants[variant]).items():
                if not isinstance(value, Scalar):
                    theirs = value.in_article(memory)
                elif name == pool(rerun.study, engine):
                    theirs = _bytes(value)
                else:
                    continue
                ours = reported[engine, variant].get(name)
                found.append(Setting(engine, variant, name, (theirs, ours)))
    return found


def pool(study: Study, engine: str) -> str:
    """Return the name of the setting that sizes an engine's buffer pool; empty where none does."""
    return engine_class(study.role(engine)).pool


def ratio(over: Sides, under: Sides, scale: float = 1.0) -> Sides:
    """Return the ratio on each side, ``None`` where either size is unknown."""
    return tuple(
        scale * above / below if above is not None and below else None
        for above, below in zip(over, under, strict=True)
    )


def _reported(rerun: "Rerun") -> dict[tuple[str, str], dict[str, float | None]]:
    """Return the settings in bytes that the server reported in a run of each engine and variant."""
    runs = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE).sort("run_id")
    rows = rerun.of_runs(
        "SELECT run_id, name, effective, unit FROM engine_setting SEMI JOIN chosen USING (run_id)"
        " WHERE effective IS NOT NULL",
        runs.unique(["engine", "variant"], keep="first"),
    ).join(runs.select("run_id", "engine", "variant"), on="run_id")
    found = {}
    for _, name, effective, unit, *curve in rows.iter_rows():
        found.setdefault(tuple(curve), {})[name] = _bytes(canonical(effective, unit))
    return found


def _bytes(value: Scalar) -> float | None:
    """Size of a setting in bytes, if it is one."""
    return float(value) if isinstance(value, int | float) else None
