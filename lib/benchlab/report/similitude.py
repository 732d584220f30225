"""Similarity of the small experiment to the large one: the article's ratios beside the measured ones.

The article's side follows from the study's file: its instance type, the profile ``paper``, and the
size that it gives for its dataset. Our side is what the runs of the main envelope measured. The parts
that the gate also needs are in :mod:`benchlab.gate.sizes`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from benchlab.engines import engine_class
from benchlab.gate import sizes
from benchlab.gate.sizes import Sides, ratio
from benchlab.plan import connections_memory_bytes, fixed_memory_bytes
from benchlab.store.results import Rerun
from benchlab.study import DEFAULT_ENVELOPE, Study

SCHEMA = {"quantity": pl.String, "article": pl.Float64, "here": pl.Float64, "note": pl.String}


def similitude(rerun: Rerun) -> pl.DataFrame:
    """Return ratios and sizes of the article's experiment and of this one; empty if no run counts.

    Columns: ``quantity`` (its name), ``article``, ``here``, ``note``. A value is null if the article,
    or the servers here, do not report it. A quantity that is null on both sides has no row.
    """
    counted = rerun.metrics.filter(envelope=DEFAULT_ENVELOPE)
    if counted.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    both = _Both(rerun, counted)
    rows = [*_dataset(both), *_clients(both), *_memory(both), *_disk(both), *_time(both)]
    found = pl.DataFrame(rows, schema=SCHEMA, orient="row", strict=False)
    return found.filter(pl.any_horizontal(pl.col("article", "here").is_not_null()))


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
        """Bytes of memory; see :func:`benchlab.gate.sizes.memory`."""
        return sizes.memory(self.rerun)

    @property
    def cores(self) -> Sides:
        return self.rerun.instance.cores, self.limit("limit_cores")

    @property
    def clients(self) -> Sides:
        return max(self.study.clients_in_article, default=None), self.counted["concurrency"].max()

    def limit(self, column: str) -> float | None:
        """A limit in force; limits of CPU and disk are the same for all runs of an envelope."""
        return self.counted[column][0]


def _dataset(both: _Both) -> Iterator[tuple]:
    """Yield the dataset's dimensions, such as tables and rows per table."""
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
    yield f"{name} : cores, at the highest number of {name}", *ratio(both.clients, both.cores), ""
    yield (
        f"memory per client at the highest number of {name} (MB)",
        *ratio(both.memory, both.clients, 1e-6),
        "what a connection takes is the same on every scale",
    )


def _memory(both: _Both) -> Iterator[tuple]:
    """Yield the ratios of what has to fit into memory, and of settings sized by memory."""
    engines = [name for name in both.study.engines if name in set(both.counted["engine"])]
    profile = both.study.profiles[both.rerun.profile]
    for engine in engines:
        label = both.study.label(engine)
        dataset = sizes.dataset(both.rerun, engine)
        yield f"dataset : memory, {label}", *ratio(dataset, both.memory), ""
        if fixed := fixed_memory_bytes(both.study, profile, engine):
            why = "what its processes take on every scale; not part of the memory above"
            yield f"memory in addition, {label} (MB)", None, 1e-6 * fixed, why
        if connection := connections_memory_bytes(both.study, profile, engine, clients=1):
            why = "what a connection takes on every scale; not part of the memory above"
            yield f"memory in addition per client, {label} (MB)", None, 1e-6 * connection, why
    settings = sizes.settings(both.rerun)
    for engine in engines:
        pool, datasets = sizes.pool(both.study, engine), sizes.datasets(both.rerun, engine)
        dataset = datasets["dataset"]
        of_engine = [one for one in settings if one.engine == engine]
        for name, where, size in _by_size(both.study, of_engine):
            if name == pool:
                yield f"buffer pool : memory, {where}", *ratio(size, both.memory), ""
                for counted, of_all in datasets.items():
                    yield f"{counted} : buffer pool, {where}", *ratio(of_all, size), ""
            elif None not in dataset:
                yield f"{name} : dataset, {where}", *ratio(size, dataset), ""
            else:
                yield f"{name} : memory, {where}", *ratio(size, both.memory), ""


def _by_size(study: Study, of_engine: list[sizes.Setting]) -> Iterator[tuple[str, str, Sides]]:
    """Yield every size in an engine's settings: name, engine and variants, the article's and ours.

    Variants with the same sizes share one row.
    """
    ran = list(dict.fromkeys(one.variant for one in of_engine))
    found: dict[tuple[str, Sides], list[str]] = {}
    for one in of_engine:
        found.setdefault((one.name, one.sides), []).append(one.variant)
    for (name, sides), variants in found.items():
        whose = None if variants == ran else " and ".join(variants)
        yield name, study.label(of_engine[0].engine, whose), sides


def _disk(both: _Both) -> Iterator[tuple]:
    instance = both.rerun.instance
    bandwidth = instance.disk_bytes_per_s, both.limit("limit_write_bytes_per_s")
    operations = instance.disk_iops, both.limit("limit_write_iops")
    yield "disk bandwidth per core (MB/s)", *ratio(bandwidth, both.cores, 1e-6), ""
    why = both.study.envelopes[DEFAULT_ENVELOPE].why.strip()
    yield "disk operations per core (1/s)", *ratio(operations, both.cores), why


def _time(both: _Both) -> Iterator[tuple]:
    paper = both.study.profiles.get("paper")
    seconds = paper and paper.measure_s, both.counted["measured_s"].median()
    yield (
        "measured part of a run (s)",
        *seconds,
        "article: of the profile paper, at least; here: median of the runs",
    )
    reads = both.rerun.instance.disk_iops, both.limit("limit_read_iops")
    is_prewarmed = both.study.profile(both.rerun.profile).start == "prewarm"
    for engine in both.study.engines:
        page = engine_class(both.study.role(engine)).page_bytes
        of_engine = sizes.dataset(both.rerun, engine)
        if page and of_engine[1] is not None and None not in reads:
            times = ratio(of_engine, tuple(page * one for one in reads))
            yield (
                f"time to read the dataset at random : run, {both.study.label(engine)}",
                *ratio(times, seconds),
                "a run begins with prewarmed data, since it may be too short for that"
                if is_prewarmed
                else "a run starts cold",
            )
