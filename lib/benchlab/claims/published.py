"""The articles' own numbers: ``data/published``, tidy CSV with one folder per study.

``articles.csv`` names the articles. ``sources.csv`` names the source of every file and the number of
its rows. ``columns.csv`` is the dictionary of all columns: kind (a factor was varied, a value was
measured, everything else is text), type, unit, the corresponding metric of ours (if none is given, the
metric with the column's name), number of filled cells, and their sum as published.
Files are read with the dictionary's types: a cell of another type is an error, and does not make its
column text.
"""

import json
from pathlib import Path

import duckdb
import polars as pl

from benchlab.errors import BenchlabError, UnknownName
from benchlab.repo import Repo
from benchlab.study import Study
from benchlab.study.vocabulary import METRICS

#: Table of each study that holds the numbers of its article's prose.
NUMBERS = "numbers"

#: Factors with a column of their own in :func:`numbers`; the others are in ``factors``.
POINT = ("engine", "variant", "workload", "concurrency")

#: Variant of a number if the article does not say which variant it is.
NOT_STATED = "not_stated"

_TYPES = {"text": pl.String, "int": pl.Int64, "decimal": pl.Float64, "bool": pl.Boolean}

#: Columns of the two files that describe the others; a sum is text, so that no digit is lost.
_SOURCES = {
    "file": pl.String,
    "study": pl.String,
    "article": pl.String,
    "where": pl.String,
    "rows": pl.Int64,
}
_COLUMNS = {
    "file": pl.String,
    "column": pl.String,
    "kind": pl.String,
    "type": pl.String,
    "unit": pl.String,
    "metric": pl.String,
    "filled": pl.Int64,
    "sum": pl.String,
    "what": pl.String,
}


def folder(repo: Repo) -> Path:
    """Folder of the files; they belong to the checkout, not to a rerun."""
    return repo.root / "data" / "published"


def articles(repo: Repo) -> pl.DataFrame:
    """One row per article: study, article, title, author, date; null if its text does not give it."""
    names = ("study", "article", "title", "author", "date")
    return _read(folder(repo) / "articles.csv", dict.fromkeys(names, pl.String))


def sources(repo: Repo) -> pl.DataFrame:
    """One row per file: file, study, article, where in the article, rows."""
    return _read(folder(repo) / "sources.csv", _SOURCES)


def columns(repo: Repo) -> pl.DataFrame:
    """One row per column of every file: file, column, kind, type, unit, metric, filled, sum, what."""
    return _read(folder(repo) / "columns.csv", _COLUMNS)


def tables(repo: Repo, study: str) -> list[str]:
    """Names of a study's tables; the numbers of the prose come last.

    Raises:
        UnknownName: the study has no published numbers.
    """
    listed = sources(repo)
    chosen = listed.filter(study=study)
    if chosen.is_empty():
        raise UnknownName("study", study, listed["study"].unique())
    return [Path(file).stem for file in chosen["file"]]


def read(repo: Repo, study: str, table: str) -> pl.DataFrame:
    """Return one table as published, every column typed; null where the article has no value.

    Raises:
        UnknownName: the study has no published numbers, or no such table.
        BenchlabError: the file is not as ``columns.csv`` describes it.
    """
    known = tables(repo, study)
    if table not in known:
        raise UnknownName(f"published table of {study}", table, known)
    described = columns(repo).filter(file=f"{study}/{table}.csv")
    schema = {
        column: _TYPES[kind]
        for column, kind in zip(described["column"], described["type"], strict=True)
    }
    return _read(folder(repo) / study / f"{table}.csv", schema)


def prose_numbers(repo: Repo, study: str) -> pl.DataFrame:
    """Return the numbers of an article's prose: id, what, value, unit, qualifier, figure, where, point.

    ``qualifier`` is exact, about, over (or at least), under (or nearly) or up_to; ``figure`` is the
    numeral as printed; ``value`` is null for a version.
    """
    return read(repo, study, NUMBERS)


def check(repo: Repo, spec: Study) -> None:
    """Check that a study's published numbers are as the store and the paper need them.

    Raises:
        BenchlabError: ``articles.csv`` lacks the article, a file is not as ``columns.csv`` describes
            it, a number has no unit or a unit that cannot be converted to its metric's, or it names a
            variant or workload that the study does not have. The message names the file.
    """
    name, article = spec.study, spec.article.file
    if article and article not in articles(repo).filter(study=name)["article"]:
        raise BenchlabError(f"study {name}: article.file: articles.csv has no {article!r} of it")
    if name not in sources(repo)["study"]:
        return
    for table in tables(repo, name):
        frame = read(repo, name, table)
        for row in frame.iter_rows(named=True):
            where = f"{name}/{table}.csv, {row['id'] if table == NUMBERS else row}"
            if table == NUMBERS and row["value"] is not None and row["unit"] is None:
                raise BenchlabError(f"{where}: it has no unit")
            if spec.is_rerun:
                _check_point(where, spec, row)
    points(repo, name)


def _check_point(where: str, spec: Study, row: dict[str, object]) -> None:
    """Check a row's names against the study; the engine may be one that is not rerun."""
    engine, variant, workload = (row.get(name) for name in ("engine", "variant", "workload"))
    stated = variant and variant != NOT_STATED
    if engine in spec.engines and stated and variant not in spec.engines[engine].variants:
        raise UnknownName(
            f"variant of {engine} in {where}:", variant, spec.engines[engine].variants
        )
    if workload and workload not in spec.workloads:
        raise UnknownName(f"workload in {where}:", workload, spec.workloads)


def number(repo: Repo, study: str, name: str) -> float:
    """Return one number of an article's prose, by its id."""
    return prose_numbers(repo, study).filter(id=name)["value"].item()


def numbers(repo: Repo) -> pl.DataFrame:
    """Return every published number, one per row: the store's table ``published``.

    Columns: study, table, row (of the file, from 1), engine, variant, workload, concurrency, factors
    (all other factors, as a JSON object), metric, unit, value. The metric of a number of the prose is
    its id. Cells without a number are left out. A ``value`` is a double, which represents a TSO (a
    timestamp of TiDB) to 0.0003 ms.
    """
    frames = []
    for study in sources(repo)["study"].unique(maintain_order=True):
        for table in tables(repo, study):
            described = columns(repo).filter(file=f"{study}/{table}.csv")
            frame = read(repo, study, table).with_row_index("row", offset=1)
            if table == NUMBERS:
                frames.append(_long(frame, study, table, pl.col("id"), pl.col("unit"), "value", []))
                continue
            factors = described.filter(kind="factor")["column"].to_list()
            others = [factor for factor in factors if factor not in POINT]
            for column, unit in described.filter(kind="value").select("column", "unit").iter_rows():
                frames.append(
                    _long(frame, study, table, pl.lit(column), pl.lit(unit), column, others)
                )
    return pl.concat(frames).sort("study", "table", "row", maintain_order=True)


#: (Published unit, unit of our metric) → factor from the first to the second.
_UNITS = {
    ("us", "µs"): 1.0,
    ("ms", "µs"): 1e3,
    ("s", "µs"): 1e6,
    ("queries/s", "transactions/s"): 1.0,  # for workloads whose transaction is one query
    ("B", "bytes"): 1.0,
    ("B/write", "bytes/write"): 1.0,
    ("MB", "bytes"): 1e6,
    ("GB", "bytes"): 1e9,
}


def points(repo: Repo, study: str) -> pl.DataFrame:
    """Return the published numbers that are one of our metrics at a point, one per row.

    In a table, a column is one of our metrics. In the prose, a number is one if its row names a metric
    in the column ``metric``.

    Columns: table, engine, variant, workload, concurrency (the article's), metric, value (in the
    metric's unit). Empty for a study without published numbers.

    Raises:
        UnknownName: ``columns.csv`` or a number's row names a metric that we do not have.
        BenchlabError: a unit cannot be converted to the metric's.
    """
    keys = {**dict.fromkeys(("table", *POINT), pl.String), "concurrency": pl.Int64}
    frames = [pl.DataFrame(schema={**keys, "metric": pl.String, "value": pl.Float64})]
    described = columns(repo).filter(
        pl.col("file").str.starts_with(f"{study}/"), pl.col("kind") == "value"
    )
    for (file,), of_file in described.group_by("file", maintain_order=True):
        table = read(repo, study, Path(file).stem)
        if not set(POINT) <= set(table.columns):
            continue
        for column, unit, metric in of_file.select("column", "unit", "metric").iter_rows():
            if Path(file).stem == NUMBERS and "metric" in table.columns:
                of_metric = table.drop_nulls("metric").group_by(
                    "unit", "metric", maintain_order=True
                )
            elif metric or column in METRICS:
                of_metric = [((unit, metric or column), table)]
            else:
                continue
            for (in_unit, name), numbers_of_it in of_metric:
                named = numbers_of_it["id"] if "id" in table.columns else [column]
                scale = _scale(f"{file}, {', '.join(named)}", in_unit, name)
                frames.append(
                    numbers_of_it.select(
                        pl.lit(Path(file).stem).alias("table"),
                        *POINT,
                        pl.lit(name).alias("metric"),
                        (pl.col(column) * scale).alias("value"),
                    ).drop_nulls((*POINT, "value"))
                )
    return pl.concat(frames)


def _scale(where: str, unit: str, metric: str) -> float:
    """Factor from the unit of a published number to the unit of our metric."""
    if metric not in METRICS:
        raise UnknownName(f"metric of {where}:", metric, METRICS)
    ours = METRICS[metric].unit
    if unit != ours and (unit, ours) not in _UNITS:
        raise BenchlabError(f"{where}: {unit} is no unit of {metric} ({ours})")
    return _UNITS.get((unit, ours), 1.0)


def database(repo: Repo, study: str) -> duckdb.DuckDBPyConnection:
    """Return a database in memory with a study's tables, each as ``<study>.<table>``.

    A query can read nothing else.

    Raises:
        UnknownName: the study has no published numbers.
    """
    connection = duckdb.connect()
    connection.execute(f'CREATE SCHEMA "{study}"')
    for table in tables(repo, study):
        connection.register("incoming", read(repo, study, table).to_arrow())
        connection.execute(f'CREATE TABLE "{study}"."{table}" AS FROM incoming')
        connection.unregister("incoming")
    for setting in (
        "python_enable_replacements = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")
    return connection


def _long(
    frame: pl.DataFrame,
    study: str,
    table: str,
    metric: pl.Expr,
    unit: pl.Expr,
    value: str,
    others: list[str],
) -> pl.DataFrame:
    """One row per filled cell of a column."""
    factors = [json.dumps(row) for row in frame.select(others).to_dicts()] or ["{}"] * len(frame)
    point = [
        pl.col(name) if name in frame.columns else pl.lit(None, _TYPES[kind]).alias(name)
        for name, kind in zip(POINT, ("text", "text", "text", "int"), strict=True)
    ]
    return frame.select(
        pl.lit(study).alias("study"),
        pl.lit(table).alias("table"),
        pl.col("row").cast(pl.Int64),
        *point,
        pl.Series("factors", factors),
        metric.alias("metric"),
        unit.alias("unit"),
        pl.col(value).cast(pl.Float64).alias("value"),
    ).drop_nulls("value")


def _read(path: Path, schema: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    try:
        frame = pl.read_csv(path, schema_overrides=schema)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BenchlabError(f"{path}: {str(error).splitlines()[0]}") from error
    if frame.columns != list(schema):
        found, wanted = ", ".join(frame.columns), ", ".join(schema)
        raise BenchlabError(f"{path}: its columns are {found}; columns.csv names {wanted}")
    return frame
