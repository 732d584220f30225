"""Sizes: dataset and memory in the article and in this rerun.

The article's sizes follow from the study file: the instance type, and the stated size of the dataset.
Ours are those that the runs of the main envelope measured and that their servers reported.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from benchlab.engines import engine_class
from benchlab.engines.base import canonical
from benchlab.study import DEFAULT_ENVELOPE, Scalar, Study

if TYPE_CHECKING:
    from benchlab.store.results import Rerun

#: A size in the article, and here; ``None``: not known.
Sides = tuple[float | None, float | None]


@dataclass(frozen=True)
class Setting:
    """A setting that is a size; ``sides`` are in bytes."""

    engine: str
    variant: str
    name: str
    sides: Sides


def dataset(rerun: "Rerun", engine: str) -> Sides:
    """Return the bytes of an engine's dataset: of the first workload's, if workloads have their own."""
    return next(iter(datasets(rerun, engine).values()))


def datasets(rerun: "Rerun", engine: str) -> dict[str, Sides]:
    """Return what an article may mean by the size of its dataset → the bytes of an engine's.

    It is more than the tables only where the article does not say what it counted.
    """
    study = rerun.study
    profile = study.profiles[rerun.profile]
    made = {name: study.dataset(profile, name) for name in study.workloads}
    first = next(iter(made.values()))
    on_it = [name for name, dataset in made.items() if dataset == first]
    runs = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE, engine=engine)
    runs = runs.filter(pl.col("workload").is_in(on_it))
    counted = {"dataset": "dataset_bytes"}
    if study.article.dataset_counted == "unknown":
        counted["data directory"] = "data_dir_bytes"
    theirs = study.article.dataset_of(engine)
    return {name: (theirs, runs[metric].median()) for name, metric in counted.items()}


def memory(rerun: "Rerun") -> Sides:
    """Return the bytes of memory; ours are the envelope's, without what an engine has in addition."""
    theirs, envelope = rerun.instance.memory_bytes, rerun.study.profile(rerun.profile).envelope
    return theirs, int(envelope.memory) if envelope else theirs


def settings(rerun: "Rerun") -> list[Setting]:
    """Return every size that depends on the scale, and the buffer pools, of all variants that ran."""
    memory, reported = rerun.instance.memory_bytes, _reported(rerun)
    overrides = rerun.study.profile(rerun.profile).overrides
    found = []
    for engine, spec in rerun.study.engines.items():
        of_profile = overrides.get(engine, {}).get("settings", {})
        for variant in [name for name in spec.variants if (engine, name) in reported]:
            for name, value in (spec.settings | spec.variants[variant] | of_profile).items():
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
    """Return the name of the setting for the size of an engine's buffer pool; empty: there is none."""
    return engine_class(study.role(engine)).pool


def ratio(over: Sides, under: Sides, scale: float = 1.0) -> Sides:
    """Return the ratio on each side, times ``scale``; ``None`` if either size is unknown."""
    return tuple(
        scale * above / below if above is not None and below else None
        for above, below in zip(over, under, strict=True)
    )


def _reported(rerun: "Rerun") -> dict[tuple[str, str], dict[str, float | None]]:
    """Return (engine, variant) → setting → bytes that the server reported in one run."""
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
    """Return a setting that is a number as bytes; ``None``: it is no number."""
    return float(value) if isinstance(value, int | float) else None
