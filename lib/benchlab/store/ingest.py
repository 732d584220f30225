"""Ingest: raw files in, rows out. Rows depend on nothing else, so a fixed parser can be run again."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter, ValidationError

from benchlab import attribution, drivers
from benchlab.agent.engine import LOG_BYTES
from benchlab.attribution import blocks, elasticity
from benchlab.drivers.base import Totals
from benchlab.engines import EngineSetting
from benchlab.errors import BenchlabError, ParseError
from benchlab.gate import checks
from benchlab.observers import (
    FOLDED,
    OBSERVERS,
    background,
    log_probe,
    log_trace,
    metrics,
    outcomes,
    perf,
    replication,
    sessions,
    single_writes,
    speed,
    table_states,
)
from benchlab.plan import Plan, Point
from benchlab.plan import plan as plans
from benchlab.raw import folders
from benchlab.raw.files import verified
from benchlab.raw.record import COLD, ENGINE_LOG, HOST, QUERY_PLAN, RATE, SETTINGS, Record
from benchlab.raw.text import read
from benchlab.repo import Repo
from benchlab.store import writer
from benchlab.store.schema import PLANNED
from benchlab.store.writer import Writer
from benchlab.study import Workload, strict
from benchlab.study.intervention import LimitBlocks, OutcomeChecks
from benchlab.study.roles import APP, LOAD, PRIMARY, is_database

#: Content of benchlab's own captures.
_FACTS = TypeAdapter(dict[str, Any])
_SETTINGS = TypeAdapter(list[EngineSetting])
_COUNTERS = TypeAdapter(dict[str, float])
_RATE = TypeAdapter(dict[str, float])

#: Tables from whose rows attribution and gate of a run are concluded.
CONCLUDED_FROM = tuple(dict.fromkeys([*attribution.TABLES, *checks.TABLES]))

#: Name under which the agent reports the size of the stopped engine's files.
DATA_DIR = "data_dir_bytes"


@dataclass
class Ingested:
    """Result of an ingest: the number of added runs, and what is damaged."""

    count: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    """Run folder, or plan → what is wrong with it, in one line that names it."""


def ingest_new(repo: Repo) -> Ingested:
    """Add every finished run that the store lacks; damaged runs are left out and returned by name.

    Raises:
        BenchlabError: the store cannot be used, or a newer benchlab made a run.
    """
    with writer.adding(repo.store) as adding:
        return _add(adding, repo)


def rebuild(repo: Repo) -> Ingested:
    """Rebuild the store from the raw folders; the old one stays until the new one is complete.

    Raises:
        BenchlabError: a newer benchlab made a run.
    """
    with writer.rebuilding(repo.store) as adding:
        return _add(adding, repo)


def _add(adding: Writer, repo: Repo) -> Ingested:
    known, done = adding.plans, Ingested()
    for plan_id in plans.ids(repo):
        if plan_id in known:
            continue
        try:
            plan = plans.read(repo, plan_id)
        except BenchlabError as error:
            done.damaged[plan_id] = str(error)
        else:
            if plan.whole:
                adding.add({PLANNED: _planned(plan)})
    for folder in folders.finished(repo.raw):
        try:
            if folder.name in adding.runs:
                # without a record a trial is not done, even if the store has it
                folders.read(folder)
                continue
            tables = rows(folder)
        except ParseError as error:
            done.damaged[folder.name] = str(error)
        else:
            adding.add(tables)
            done.count += 1
    return done


def _planned(plan: Plan) -> pl.DataFrame:
    of_plan = {
        "plan": plan.id,
        "study": plan.study,
        "profile": plan.profile,
        "target": plan.target,
        "planned": plan.planned,
    }
    return pl.DataFrame(
        [
            of_plan
            | {
                "position": position,
                "trial_key": trial.key,
                "engine": trial.point.engine,
                "variant": trial.point.variant,
                "workload": trial.point.workload_name,
                "envelope": trial.point.envelope.name,
                "concurrency": trial.point.concurrency,
                "trial": trial.number,
                "share_of_peak": trial.point.share_of_peak,
                "intervened": trial.intervention is not None,
            }
            for position, trial in enumerate(plan.trials)
        ],
        schema_overrides={"share_of_peak": pl.Float64},
    )


def rows(folder: Path) -> dict[str, pl.DataFrame]:
    """Return table → rows of one finished run, for every table that it fills.

    Raises:
        ParseError: the run is damaged: its record cannot be read, a capture that a run needs to count
            is not what its program prints, a file is missing, or a file differs from its hash in the
            record. The message names folder and reason in one line.
        BenchlabError: a newer benchlab made the run.
    """
    record = folders.read(folder)
    text = _Captures(folder, record)
    workload = record.trial.point.workload
    try:
        driver = drivers.driver(workload.driver)
        tables = {
            "phase": _phases(record),
            "node": _nodes(record),
            "host": _hosts(record, text),
            "engine_setting": _settings(text),
            "interval": driver.seconds(folder, workload),
            "os_sample": _os_samples(record, text, driver.serves),
            "log_latency": _log_latencies(record, text),
            "perf_stack": perf.stacks(text[FOLDED]) if FOLDED in text else pl.DataFrame(),
            "engine_counter": pl.concat([_counters(text), *_of_services(record, text)]),
            "engine_wait": _waits(text, record.trial.point),
            "query_plan": _query_plan(text),
            "single_write": single_writes.rows(text.get(single_writes.NAME, "")),
            "table_state": table_states.samples(text.get(table_states.NAME, "")),
            "outcome": outcomes.rows(text.get(outcomes.NAME, "")),
            "raw_file": _raw_files(record, folder),
        }
        totals = None
        in_place_of_load = isinstance(record.trial.intervention, OutcomeChecks)
        if record.status == "ok" and not in_place_of_load:
            measured = driver.measured(folder, workload)
            totals = measured.totals
            tables["operation"] = measured.operations
            tables["latency_bucket"] = measured.buckets
            tables["time_bucket"] = driver.times(folder, workload)
            checkpoints = _checkpoints(record, text)
            if isinstance(checkpoints, pl.DataFrame):
                seconds = pl.col("begin_us", "end_us") / 1e6
                tables["checkpoint"] = checkpoints.select(seconds.name.replace("_us", "_s"))
            tables["rule"] = driver.rules(folder, workload, checkpoints)
            tables |= _interventions(record, text, tables["interval"], totals.seconds)
    except BenchlabError as error:
        raise ParseError(f"{folder.name}: {error}") from error
    tables = {
        name: frame.with_columns(pl.lit(record.run_id).alias("run_id"))
        for name, frame in tables.items()
        if not frame.is_empty()
    }
    tables["run"] = _run(record, totals, _rate(text))
    if totals:
        tables |= concluded(tables, workload)
    return tables


def concluded(tables: Mapping[str, pl.DataFrame], workload: Workload) -> dict[str, pl.DataFrame]:
    """Return what is concluded from the rows of a run that ended well: ``attribution``, and ``gate``.

    Runs without a load have neither, those that lower limits have no ``gate``.

    Args:
        tables: the run's rows of :data:`CONCLUDED_FROM`, without the tables in which it has none.
        workload: its workload.
    """
    of_run = pl.lit(tables["run"]["run_id"].item()).alias("run_id")
    is_served = drivers.driver(workload.driver).serves
    found = {"attribution": attribution.attribute(dict(tables), is_served).with_columns(of_run)}
    if (gate := checks.of_run({**tables, **found}, workload.writes)) is not None:
        found["gate"] = gate.with_columns(of_run)
    return found


def counted_rows(raw: Path, record: Record) -> dict[str, pl.DataFrame]:
    """Return :func:`rows` of one run that counts.

    Args:
        raw: folder of all raw run folders.
        record: record of the run.

    Raises:
        BenchlabError: the run does not count; the message has the reason. Also as for :func:`rows`.
    """
    if record.status != "ok":
        raise BenchlabError(f"{record.run_id} {record.status}: {record.error}")
    return rows(raw / record.run_id)


class _Captures(Mapping[str, str]):
    """File → output of a program, read when needed. First all files are compared with their hashes."""

    def __init__(self, folder: Path, record: Record):
        self._paths = {
            name: verified(folder, name, sha256) for name, sha256 in record.files.items()
        }

    def __getitem__(self, name: str) -> str:
        return read(self._paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _run(record: Record, totals: Totals | None, rate_per_s: float | None) -> pl.DataFrame:
    point, trial = record.trial.point, record.trial
    begin, end = record.phases.get("measure", (None, None))
    if totals and begin is not None and end is not None:
        # a load generator may still write its records, or do work that it had put off
        end = min(end, begin + totals.seconds)
    row = {
        "run_id": record.run_id,
        "status": record.status,
        "error": record.error,
        "study": point.study,
        "profile": trial.profile,
        "target": record.target,
        "single_host": record.single_host,
        "engine": point.engine,
        "engine_version": point.engine_version,
        "variant": point.variant,
        "workload": point.workload_name,
        "options": json.dumps(point.workload.options),
        "dataset": point.dataset.model_dump_json(),
        "tables": getattr(point.dataset, "tables", None),
        "rows_per_table": getattr(point.dataset, "rows_per_table", None),
        "concurrency": point.concurrency,
        "trial": trial.number,
        "trial_key": record.trial_key,
        "point_key": record.point_key,
        "seed": record.seed,
        "start_state": point.start,
        "dataset_reset": point.dataset_reset,
        "warmup_s": point.warmup_s,
        "measure_s": point.measure_s,
        "longest_s": point.longest_s,
        "envelope": point.envelope.name,
        "envelope_enforced": point.envelope.enforce,
        "limit_cores": float(point.envelope.cores),
        "limit_memory_bytes": point.envelope.memory_limit_bytes,
        "limit_read_bytes_per_s": point.envelope.read_bytes_per_s,
        "limit_write_bytes_per_s": point.envelope.write_bytes_per_s,
        "limit_read_iops": point.envelope.read_iops,
        "limit_write_iops": point.envelope.write_iops,
        "started": record.started,
        "ended": record.ended,
        "measure_begin": begin,
        "measure_end": end,
        "transactions": totals and totals.transactions,
        "queries": totals and totals.queries,
        "ignored_errors": totals and totals.errors,
        "reconnects": totals and totals.reconnects,
        "measured_s": totals and totals.seconds,
        "tps": totals and totals.transactions / totals.seconds,
        "latency_mean_us": totals and totals.latency_mean_us,
        "latency_max_us": totals and totals.latency_max_us,
        "benchlab_version": record.code.version,
        "benchlab_commit": record.code.commit,
        "benchlab_modified": record.code.modified,
        "intervention": trial.intervention and trial.intervention.model_dump_json(),
        "share_of_peak": point.share_of_peak,
        "rate_per_s": rate_per_s,
    }
    return pl.DataFrame([row])


def _phases(record: Record) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"phase": name, "begin_s": begin, "end_s": end}
            for name, (begin, end) in record.phases.items()
        ]
    )


def _json(text: Mapping[str, str], name: str, kind: TypeAdapter) -> Any:
    """Return the content of a JSON file of the run; ``None`` if there is no such file."""
    if name not in text:
        return None
    try:
        return kind.validate_json(text[name])
    except ValidationError as error:
        raise ParseError(f"{name}: {strict.problem(error)}") from error


def _rate(text: Mapping[str, str]) -> float | None:
    return _json(text, RATE, _RATE)["rate_per_s"] if RATE in text else None


def _nodes(record: Record) -> pl.DataFrame:
    return pl.DataFrame(
        [{"node": node, "role": role} for node, roles in record.nodes.items() for role in roles]
    )


def _hosts(record: Record, text: Mapping[str, str]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "node": node,
                "fact": fact,
                "value": value if isinstance(value, str) else json.dumps(value),
            }
            for node in record.nodes
            for fact, value in (_json(text, record.captured(node, HOST), _FACTS) or {}).items()
        ]
    )


def _settings(text: Mapping[str, str]) -> pl.DataFrame:
    schema = dict.fromkeys(("name", "requested", "effective", "unit", "source"), pl.String)
    settings = _json(text, SETTINGS, _SETTINGS) or []
    return pl.DataFrame([setting.model_dump() for setting in settings], schema=schema)


def _interventions(
    record: Record, text: Mapping[str, str], seconds: pl.DataFrame, total_time_s: float
) -> dict[str, pl.DataFrame]:
    """Return the blocks of a run with lowered limits, and the elasticities to these limits."""
    if not isinstance(record.trial.intervention, LimitBlocks):
        return {}
    _, measured_end = record.phases["measure"]
    begun, _ = record.phases.get("blocks", (0.0, 0.0))
    carried_out = elasticity.block_throughput(
        blocks.blocks(text.get(blocks.FILE, "")),
        seconds.filter(phase="measure"),
        # the load started at least total_time_s before the measured part ended
        late_s=max(0.0, begun - (measured_end - total_time_s)),
    )
    return {
        "intervention_block": carried_out,
        "elasticity": elasticity.elasticities(
            carried_out, record.trial.intervention, record.trial.point.envelope.enforce
        ),
    }


def _os_samples(record: Record, text: Mapping[str, str], serves: bool) -> pl.DataFrame:
    frames = [
        _of_its_roles(module.samples(text[file]), roles, serves).with_columns(
            pl.lit(node).alias("node")
        )
        for node, roles in record.nodes.items()
        for name, module in OBSERVERS.items()
        if (file := record.captured(node, name)) in text and hasattr(module, "samples")
    ]
    frames += [
        speed.samples(text[file]).with_columns(pl.lit(node).alias("node"))
        for node in record.nodes
        for moment in speed.MOMENTS
        if (file := record.captured(node, speed.name(moment))) in text
    ]
    primary = pl.lit(next(iter(record.nodes))).alias("node")
    frames += [
        module.samples(text[module.NAME]).with_columns(primary)
        for module in (background, log_trace, replication)
        if module.NAME in text
    ]
    if log_probe.NAME in text:
        frames.append(log_probe.samples(text[log_probe.NAME]).with_columns(primary))
    return pl.concat(frames) if frames else pl.DataFrame()


def _log_latencies(record: Record, text: Mapping[str, str]) -> pl.DataFrame:
    if log_trace.NAME not in text or "measure" not in record.phases:
        return pl.DataFrame()
    return log_trace.latencies(text[log_trace.NAME], *record.phases["measure"])


def _of_its_roles(samples: pl.DataFrame, roles: Collection[str], serves: bool) -> pl.DataFrame:
    """Leave out subjects that the agent counts on every node, but that this node does not have."""
    unused = [] if LOAD in roles or (serves and APP in roles) else ["client"]
    if not any(map(is_database, roles)):
        unused += ["engine", "disk"]
    return samples.filter(~((pl.col("observer") == "sample") & pl.col("subject").is_in(unused)))


def _checkpoints(record: Record, text: Mapping[str, str]) -> pl.DataFrame | str:
    """Return the checkpoints of the engine that took the load, or why they are not known."""
    point = record.trial.point
    nodes = (node for node, roles in record.nodes.items() if PRIMARY in roles)
    if (node := next(nodes, None)) is None:
        return "the log of a server that somebody else runs was not read"
    log = text.get(record.captured(node, ENGINE_LOG), "")
    found = point.engine_type.checkpoints(log)
    if isinstance(found, pl.DataFrame) and len(log.encode()) >= LOG_BYTES:
        return "the beginning of the server's log was cut off, so checkpoints are missing"
    return found


def _counters(text: Mapping[str, str]) -> pl.DataFrame:
    begin, end = (
        _json(text, f"counters-{moment}.json", _COUNTERS) or {} for moment in ("begin", "end")
    )
    # no server reports the size of its files, so the agent does; older agents did not measure it
    if size := (_json(text, COLD, _FACTS) or {}).get(DATA_DIR):
        begin |= {DATA_DIR: float(size)}
    names = sorted(begin.keys() | end.keys())
    return pl.DataFrame(
        [{"name": name, "at_begin": begin.get(name), "at_end": end.get(name)} for name in names],
        schema=metrics.SCHEMA,
    )


def _of_services(record: Record, text: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Yield the counters of each service; with several nodes, names start with that of the node."""
    for node in record.nodes:
        folder = record.captured(node, "")
        there = {file.removeprefix(folder) for file in text if file.startswith(folder)}
        for service in metrics.services(there):
            begin, end = (
                text[folder + metrics.name(service, moment)] for moment in metrics.MOMENTS
            )
            yield metrics.counters(folder + service, begin, end)


def _waits(text: Mapping[str, str], point: Point) -> pl.DataFrame:
    if sessions.NAME not in text:
        return pl.DataFrame()
    return sessions.samples(text[sessions.NAME], point.engine_type.wait)


def _query_plan(text: Mapping[str, str]) -> pl.DataFrame:
    return pl.DataFrame({"plan": [text[QUERY_PLAN]]}) if QUERY_PLAN in text else pl.DataFrame()


def _raw_files(record: Record, folder: Path) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"file": name, "sha256": sha256, "bytes": (folder / name).stat().st_size}
            for name, sha256 in record.files.items()
        ]
    )
