"""What do a notebook's queries cost in a store of 10,000 runs and 10⁸ rows, and in a small one?

The large store is synthetic: copies of the reference's runs with other ids, an earlier time and the
target ``synthetic``. Their samples and seconds are repeated until there are 10⁸ rows. The large store
also has the reference's own runs. The notebooks show these runs, as in the small store.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
from benchlab import stats
from benchlab.errors import BenchlabError
from benchlab.repo import Repo
from benchlab.store import RUN_TABLES, SCHEMA_VERSION, catalogue, metrics, open_any, writer
from benchlab.store.catalogue import Catalogue, Segment
from benchlab.store.schema import CONCLUSIONS, PARQUET, PLANNED, execute, quoted
from rich.console import Console
from table import Row

RUNS, ROWS = 10_000, 100_000_000

#: Tables with a row for each second or sample; longer runs have more of these rows.
REPEATED = ("interval", "os_sample", "engine_wait")

#: Runs of the small store, runs whose metrics are computed, and rounds of small and large.
FEW, CHOSEN, ROUNDS = 40, 20, 3

#: Bytes of disk that the store needs; it needs as much again while it is made.
_NEEDED_BYTES = 2 << 30

_NOTEBOOKS = ("01-postgres-vs-tidb", "04-spec-tree")


def measure(checkout: Repo, console: Console) -> Iterator[Row]:
    """Make both stores and compare them."""
    if shutil.disk_usage(checkout.data).free < 2 * _NEEDED_BYTES:
        raise BenchlabError(f"{checkout.data}: store_queries needs {2 * _NEEDED_BYTES >> 30} GiB")
    large, few = checkout.data / "large", checkout.data / "few"
    begin = time.monotonic()
    runs, rows = generate(checkout.reference, large)
    size = sum(path.stat().st_size for path in large.rglob("*.parquet"))
    console.print(
        f"synthetic store: {runs:,} runs, {rows:,} rows, {size / 1e6:,.0f} MB,"
        f" made in {time.monotonic() - begin:.0f} s"
    )
    _keep(checkout.reference, few)
    yield _metrics(few, large)
    for name in _NOTEBOOKS:
        yield _notebook(checkout, name, large, console)
    yield _ingest(few, large)


def generate(reference: Path, folder: Path) -> tuple[int, int]:
    """Write the large store; return its numbers of runs and of rows of all tables."""
    segments = []
    with open_any(reference) as source:
        connection = source.connection
        own = {name: _count(connection, f'FROM "{name}"') for name in (*RUN_TABLES, PLANNED)}
        copies = RUNS // own["run"]
        once = sum(count for name, count in own.items() if name not in REPEATED)
        repeats = round((ROWS / copies - once) / sum(own[name] for name in REPEATED))
        for name in RUN_TABLES:
            execute(connection, f'CREATE TEMP TABLE "of_{name}" AS FROM "{name}" ORDER BY run_id')
        for copy in range(copies, -1, -1):
            # the last copy is the reference itself
            queries = {
                name: _synthetic(name, copy, repeats if name in REPEATED else 1)
                if copy
                else f'FROM "of_{name}"'
                for name in RUN_TABLES
            }
            if not copy:
                queries |= {name: f'FROM "{name}"' for name in (PLANNED, *CONCLUSIONS)}
            name = f"{copies - copy + 1:06d}"
            rows = {
                table: _write(connection, query, folder / table / f"{name}.parquet")
                for table, query in queries.items()
            }
            ids = execute(
                connection, f"SELECT run_id FROM {quoted(folder / 'run' / f'{name}.parquet')}"
            )
            segments.append(
                Segment(
                    name=name,
                    runs=tuple(sorted(row[0] for row in ids)),
                    rows={table: count for table, count in rows.items() if count},
                )
            )
    made = Catalogue(schema_version=SCHEMA_VERSION, segments=tuple(segments))
    catalogue.replace(folder, made)
    return len(made.runs), sum(segment.size for segment in segments)


def _synthetic(table: str, copy: int, repeats: int) -> str:
    """Return the query for a copy of a table's rows, in the order of runs."""
    # ids start with the time, so copies of earlier years come before the reference's runs
    changed = [f"'{2000 - copy:04d}' || run_id[5:] AS run_id"]
    if table == "run":
        changed += [
            "'synthetic' AS target",
            *(f"{name} - INTERVAL {copy} YEAR AS {name}" for name in ("started", "ended")),
        ]
    if table == "os_sample":
        changed += ["t + 1000 * again AS t", "value * (1 + hash(t, again) % 1000 / 1e4) AS value"]
    if table in ("engine_wait", "interval"):
        column = "t" if table == "engine_wait" else "second"
        changed += [f"{column} + 1000 * again AS {column}"]
    again = f'(SELECT *, unnest(range({repeats})) AS again FROM "of_{table}")'
    return f"SELECT * EXCLUDE (again) REPLACE ({', '.join(changed)}) FROM {again}"


def _write(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    ((count,),) = execute(connection, f"COPY ({query}) TO {quoted(path)} {PARQUET}")
    if not count:
        path.unlink()
    return count


def _count(connection: duckdb.DuckDBPyConnection, source: str) -> int:
    return execute(connection, f"SELECT count(*) {source}")[0][0]


def _keep(reference: Path, folder: Path) -> None:
    """Make a store of a few of the reference's runs."""
    with open_any(reference) as source, writer.adding(folder) as adding:
        chosen = source.runs(status="ok")["run_id"].tail(FEW)
        query = 'FROM "{}" SEMI JOIN chosen USING (run_id)'
        adding.add({name: source.sql(query.format(name), chosen=chosen) for name in RUN_TABLES})


def _metrics(few: Path, large: Path) -> Row:
    """Return the time for the metrics of some runs, large : small store."""
    spent: dict[Path, list[float]] = {few: [], large: []}
    with open_any(few) as store:
        chosen = store.runs()["run_id"].tail(CHOSEN)
    for _ in range(ROUNDS * 3):
        for folder, times in spent.items():
            begin = time.monotonic()
            with open_any(folder) as store:
                runs = store.sql("FROM run SEMI JOIN chosen USING (run_id)", chosen=chosen)
                metrics.of(store, runs)
            times.append(time.monotonic() - begin)
    what = f"metrics of {CHOSEN} runs in {RUNS:,} runs ({_median(spent[large]):.2f} s) over {FEW}"
    return Row(what, stats.ratio(spent[large], spent[few]), "1")


def _notebook(checkout: Repo, name: str, large: Path, console: Console) -> Row:
    """Return the time of a notebook's queries, large store : reference alone."""
    found: dict[Path, list[dict]] = {checkout.reference: [], large: []}
    for _ in range(ROUNDS):
        for folder, costs in found.items():
            with console.status(f"{name} on {folder.name}"):
                costs.append(_cost(checkout, name, folder))
    spent = [[cost["queries_s"] for cost in costs] for costs in found.values()]
    peak = max(cost["peak_bytes"] for cost in found[large])
    what = (
        f"{found[large][0]['queries']} queries of {name} in {RUNS:,} runs ({_median(spent[1]):.1f} s,"
        f" {peak / 2**30:.2f} GiB) over the reference ({_median(spent[0]):.1f} s)"
    )
    return Row(what, stats.ratio(spent[1], spent[0]), "1; < 10 s, < 2 GiB")


def _cost(checkout: Repo, name: str, folder: Path) -> dict:
    notebook = checkout.notebooks / "analysis" / f"{name}.ipynb"
    script = Path(__file__).with_name("notebook_queries.py")
    command = [sys.executable, str(script), str(notebook), str(folder)]
    done = subprocess.run(command, cwd=checkout.root, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _ingest(few: Path, large: Path) -> Row:
    """Return the time to add one run, large : small store."""
    spent: dict[Path, list[float]] = {few: [], large: []}
    with open_any(few) as store:
        run_id = store.runs()["run_id"].last()
        tables = {name: store.table(name, run_id) for name in RUN_TABLES}
    for number in range(ROUNDS * 3):
        of_run = {
            name: frame.with_columns(run_id=pl.lit(f"{run_id}-{number}"))
            for name, frame in tables.items()
        }
        for folder, times in spent.items():
            begin = time.monotonic()
            with writer.adding(folder) as adding:
                adding.add(of_run)
            times.append(time.monotonic() - begin)
    what = f"adding a run to {RUNS:,} runs ({_median(spent[large]):.2f} s) over {FEW}"
    return Row(what, stats.ratio(spent[large], spent[few]), "1")


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
