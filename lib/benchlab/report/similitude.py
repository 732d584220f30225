"""Is the small experiment like the large one? The article's ratios beside those that were measured.

The article's side follows from the study's file: its instance type, the profile ``paper``, and the
size that it gives for its dataset. Ours is what the runs of the main envelope measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from benchlab.engines import engine_class
from benchlab.engines.base import canonical
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE, Scalar, Study

SCHEMA = {"ratio": pl.String, "article": pl.Float64, "ours": pl.Float64, "note": pl.String}

#: What the article has of one thing, and what we have; ``None`` where it is not known.
Sides = tuple[float | None, float | None]


def similitude(rerun: Rerun) -> pl.DataFrame:
    """Return what the article's experiment and this one have of each; empty if no run counts.

    Columns: ``ratio`` (what), ``article``, ``ours``, ``note``. Null: the article, or the servers here,
    do not tell; what neither tells has no row.
    """
    counted = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
    if counted.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    both = _Both(rerun, counted)
    rows = [*_dataset(both), *_clients(both), *_memory(both), *_disk(both), *_time(both)]
    found = pl.DataFrame(rows, schema=SCHEMA, orient="row", strict=False)
    return found.filter(pl.any_horizontal(pl.col("article", "ours").is_not_null()))


@dataclass(frozen=True)
class _Both:
    """The article's experiment and ours."""

    rerun: Rerun
    counted: pl.DataFrame

    @property
    def study(self) -> Study:
        return self.rerun.study

    @property
    def memory(self) -> Sides:
        return self.rerun.instance.memory_bytes, self.limit("limit_memory_bytes")

    @property
    def cores(self) -> Sides:
        return self.rerun.instance.cores, self.limit("limit_cores")

    @property
    def clients(self) -> Sides:
        paper = self.study.profiles.get("paper")
        return paper and max(paper.concurrency), self.counted["concurrency"].max()

    def dataset(self, engine: str) -> Sides:
        """That of the study's first workload, where workloads have datasets of their own."""
        profile = self.study.profiles[self.rerun.profile]
        made = {name: self.study.dataset(profile, name) for name in self.study.workloads}
        first = next(iter(made.values()))
        on_it = [name for name, dataset in made.items() if dataset == first]
        runs = self.counted.filter(pl.col("workload").is_in(on_it), engine=engine)
        return self.study.article.dataset_of(engine), runs["dataset_bytes"].median()

    def limit(self, column: str) -> float | None:
        """A limit that was in force: all runs of an envelope have the same."""
        return self.counted[column][0]


def _dataset(both: _Both) -> Iterator[tuple]:
    """How much there is of what the dataset is made of."""
    paper, ours = (both.study.profiles.get(name) for name in ("paper", both.rerun.profile))
    made_of = {
        name: value
        for name, value in ours.dataset.model_dump().items()
        if type(value) is int and name != "seed"
    }
    for name, value in made_of.items():
        yield name.replace("_", " "), getattr(paper and paper.dataset, name, None), value, ""
    if len(made_of) > 1:
        yield "rows in all", paper and paper.dataset.rows, ours.dataset.rows, ""


def _clients(both: _Both) -> Iterator[tuple]:
    name = both.study.clients
    yield f"{name} : cores, at the most {name}", *_ratio(both.clients, both.cores), ""
    yield (
        f"memory per client at the most {name} (MB)",
        *_ratio(both.memory, both.clients, 1e-6),
        "what a connection takes is the same on every scale",
    )


def _memory(both: _Both) -> Iterator[tuple]:
    """What has to fit into memory, and what is sized by it."""
    engines = [name for name in both.study.engines if name in set(both.counted["engine"])]
    for engine in engines:
        label = both.study.label(engine)
        dataset = both.dataset(engine)
        yield f"dataset : memory, {label}", *_ratio(dataset, both.memory), ""
    for engine in engines:
        pool = engine_class(both.study.role(engine)).pool
        dataset = both.dataset(engine)
        for name, where, size in _sizes(both, engine):
            if name == pool:
                yield f"buffer pool : memory, {where}", *_ratio(size, both.memory), ""
                yield f"dataset : buffer pool, {where}", *_ratio(dataset, size), ""
            elif None not in dataset:
                yield f"{name} : dataset, {where}", *_ratio(size, dataset), ""
            else:
                yield f"{name} : memory, {where}", *_ratio(size, both.memory), ""


def _sizes(both: _Both, engine: str) -> Iterator[tuple[str, str, Sides]]:
    """Every size that depends on the scale, and the pool: name, whose it is, the article's and ours.

    Variants that have the same of it share one row.
    """
    spec = both.study.engines[engine]
    pool = engine_class(both.study.role(engine)).pool
    memory = both.rerun.instance.memory_bytes
    effective = _effective(both, engine)
    ran = [name for name in spec.variants if name in set(effective["variant"])]
    found: dict[tuple[str, Sides], list[str]] = {}
    for variant in ran:
        for name, value in (spec.settings | spec.variants[variant]).items():
            is_scalar = isinstance(value, Scalar)
            if name != pool and is_scalar:
                continue
            theirs = _bytes(value) if is_scalar else value.in_article(memory)
            rows = effective.filter(variant=variant, name=name)
            ours = _bytes(canonical(*rows.row(0)[2:])) if len(rows) else None
            found.setdefault((name, (theirs, ours)), []).append(variant)
    for (name, sides), variants in found.items():
        whose = None if variants == ran else " and ".join(variants)
        yield name, both.study.label(engine, whose), sides


def _effective(both: _Both, engine: str) -> pl.DataFrame:
    """Settings as the server reported them in a run of each variant: variant, name, effective, unit."""
    runs = both.counted.filter(engine=engine).sort("run_id").unique("variant", keep="first")
    settings = both.rerun.of_runs(
        "SELECT run_id, name, effective, unit FROM engine_setting SEMI JOIN chosen USING (run_id)"
        " WHERE effective IS NOT NULL",
        runs,
    )
    return settings.join(runs.select("run_id", "variant"), on="run_id").select(
        "variant", "name", "effective", "unit"
    )


def _bytes(value: Scalar) -> float | None:
    """Size of a setting in bytes, if it is one."""
    return float(value) if isinstance(value, int | float) else None


def _disk(both: _Both) -> Iterator[tuple]:
    instance = both.rerun.instance
    bandwidth = instance.disk_bytes_per_s, both.limit("limit_write_bytes_per_s")
    operations = instance.disk_iops, both.limit("limit_write_iops")
    yield "disk bandwidth per core (MB/s)", *_ratio(bandwidth, both.cores, 1e-6), ""
    why = both.study.envelopes[DEFAULT_ENVELOPE].why.strip()
    yield "disk operations per core (1/s)", *_ratio(operations, both.cores), why


def _time(both: _Both) -> Iterator[tuple]:
    paper = both.study.profiles.get("paper")
    seconds = paper and paper.measure_s, both.counted["measured_s"].median()
    yield "measured part of a run (s)", *seconds, "the longest, where it may end earlier"
    reads = both.rerun.instance.disk_iops, both.limit("limit_read_iops")
    for engine in both.study.engines:
        page = engine_class(both.study.role(engine)).page_bytes
        of_engine = both.dataset(engine)
        if page and of_engine[1] is not None and None not in reads:
            times = _ratio(of_engine, tuple(page * one for one in reads))
            yield (
                f"time to read the dataset at random : run, {both.study.label(engine)}",
                *_ratio(times, seconds),
                "a scaled run is too short for that, so it begins with prewarmed data",
            )


def _ratio(over: Sides, under: Sides, scale: float = 1.0) -> Sides:
    """The ratio of each side, null where either is."""
    return tuple(
        scale * above / below if above is not None and below else None
        for above, below in zip(over, under, strict=True)
    )
