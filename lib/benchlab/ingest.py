"""Ingest: raw files in, rows out. Pure, so that a mended parser is run again over all history."""

import hashlib
import json
from pathlib import Path

import polars as pl

from benchlab import attribution, capture
from benchlab.capture import Record
from benchlab.errors import BenchlabError, ParseError
from benchlab.observers import FOLDED, OBSERVERS
from benchlab.parse import perf
from benchlab.parse import sysbench as parse_sysbench
from benchlab.repo import Repo
from benchlab.store import open_store


def ingest_new(repo: Repo) -> int:
    """Add every finished run that the store lacks; return how many."""
    with open_store(repo.store) as store:
        known = store.run_ids()
        folders = [path for path in capture.finished(repo.raw) if path.name not in known]
        for folder in folders:
            store.add(rows(folder))
    return len(folders)


def rebuild(repo: Repo) -> int:
    """Make the store anew from the raw folders; the old one stays until the new one is whole."""
    draft = repo.store.with_suffix(".rebuild")
    for path in (draft, _write_ahead_log(draft)):
        path.unlink(missing_ok=True)
    count = 0
    with open_store(draft) as store:
        for folder in capture.finished(repo.raw):
            store.add(rows(folder))
            count += 1
    # left by a killed ingest; DuckDB refuses to open the new store beside the old one's
    _write_ahead_log(repo.store).unlink(missing_ok=True)
    draft.replace(repo.store)
    return count


def _write_ahead_log(store: Path) -> Path:
    return store.with_name(f"{store.name}.wal")


def rows(folder: Path) -> dict[str, pl.DataFrame]:
    """Return the rows of every table that one finished run fills.

    Raises:
        ParseError: a capture that a counted run rests on is not what its program prints, or a file
            is gone or not the one that the record was closed over.
    """
    record = capture.read(folder)
    contents = _contents(folder, record)
    text = {name: content.decode(errors="replace") for name, content in contents.items()}
    try:
        tables = {
            "phase": _phases(record),
            "host": _host(text),
            "engine_setting": _settings(text),
            "interval": _intervals(text),
            "os_sample": _os_samples(text),
            "perf_stack": perf.stacks(text[FOLDED]) if FOLDED in text else pl.DataFrame(),
            "engine_counter": _counters(text),
            "raw_output": _raw_output(record, contents),
        }
        measured = {}
        if record.status == "ok":
            measured = parse_sysbench.summary(text["sysbench.out"])
            tables["latency_bucket"] = parse_sysbench.histogram(text["sysbench.out"])
    except BenchlabError as error:
        raise ParseError(f"{folder.name}: {error}") from error
    tables = {
        name: frame.with_columns(pl.lit(record.run_id).alias("run_id"))
        for name, frame in tables.items()
        if not frame.is_empty()
    }
    tables["run"] = _run(record, measured)
    if record.status == "ok":
        tables["attribution"] = attribution.attribute(tables).with_columns(
            pl.lit(record.run_id).alias("run_id")
        )
    return tables


def _contents(folder: Path, record: Record) -> dict[str, bytes]:
    contents = {}
    for name, sha256 in record.files.items():
        try:
            content = (folder / name).read_bytes()
        except FileNotFoundError as error:
            raise ParseError(
                f"{folder.name}: {name} was removed after the run had ended"
            ) from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ParseError(f"{folder.name}: {name} was changed after the run had ended")
        contents[name] = content
    return contents


def _run(record: Record, measured: dict) -> pl.DataFrame:
    point, trial = record.trial.point, record.trial
    begin, end = record.phases.get("measure", (None, None))
    seconds = measured.get("total_time_s")
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
        "tables": point.dataset.tables,
        "rows_per_table": point.dataset.rows_per_table,
        "concurrency": point.concurrency,
        "trial": trial.number,
        "trial_key": record.trial_key,
        "point_key": record.point_key,
        "seed": record.seed,
        "start_state": point.start,
        "dataset_reset": point.dataset_reset,
        "warmup_s": point.warmup_s,
        "measure_s": point.measure_s,
        "envelope": point.envelope.name,
        "envelope_enforced": point.envelope.enforce,
        "limit_cores": float(point.envelope.cores),
        "limit_memory_bytes": point.envelope.memory_bytes,
        "limit_read_bytes_per_s": point.envelope.read_bytes_per_s,
        "limit_write_bytes_per_s": point.envelope.write_bytes_per_s,
        "limit_read_iops": point.envelope.read_iops,
        "limit_write_iops": point.envelope.write_iops,
        "started": record.started,
        "ended": record.ended,
        "measure_begin": begin,
        "measure_end": end,
        "transactions": measured.get("transactions"),
        "queries": measured.get("queries_total"),
        "ignored_errors": measured.get("ignored_errors"),
        "reconnects": measured.get("reconnects"),
        "measured_s": seconds,
        "tps": measured["transactions"] / seconds if measured else None,
        "latency_mean_us": measured["latency_avg_ms"] * 1000 if measured else None,
        "latency_max_us": measured["latency_max_ms"] * 1000 if measured else None,
        "benchlab_version": record.code.version,
        "benchlab_commit": record.code.commit,
        "benchlab_modified": record.code.modified,
    }
    return pl.DataFrame([row])


def _phases(record: Record) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"phase": name, "begin_s": begin, "end_s": end}
            for name, (begin, end) in record.phases.items()
        ]
    )


def _host(text: dict[str, str]) -> pl.DataFrame:
    facts = json.loads(text.get("host.json", "{}"))
    return pl.DataFrame(
        [
            {"fact": fact, "value": value if isinstance(value, str) else json.dumps(value)}
            for fact, value in facts.items()
        ]
    )


def _settings(text: dict[str, str]) -> pl.DataFrame:
    schema = dict.fromkeys(("name", "asked", "effective", "unit", "source"), pl.String)
    return pl.DataFrame(json.loads(text.get("settings.json", "[]")), schema=schema)


def _intervals(text: dict[str, str]) -> pl.DataFrame:
    frames = [
        parse_sysbench.intervals(text[name], truncated_ok=True).with_columns(
            pl.lit(phase).alias("phase")
        )
        for name, phase in (("warmup.out", "warmup"), ("sysbench.out", "measure"))
        if name in text
    ]
    return pl.concat(frames) if frames else pl.DataFrame()


def _os_samples(text: dict[str, str]) -> pl.DataFrame:
    frames = [
        module.samples(text[name], truncated_ok=True)
        for name, module in OBSERVERS.items()
        if name in text and hasattr(module, "samples")
    ]
    return pl.concat(frames) if frames else pl.DataFrame()


def _counters(text: dict[str, str]) -> pl.DataFrame:
    begin, end = (
        json.loads(text.get(f"counters-{moment}.json", "{}")) for moment in ("begin", "end")
    )
    names = sorted(begin.keys() | end.keys())
    return pl.DataFrame(
        [{"name": name, "at_begin": begin.get(name), "at_end": end.get(name)} for name in names],
        schema={"name": pl.String, "at_begin": pl.Float64, "at_end": pl.Float64},
    )


def _raw_output(record: Record, contents: dict[str, bytes]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "file": name,
                "sha256": record.files[name],
                "bytes": len(content),
                "content": content,
            }
            for name, content in contents.items()
        ]
    )
