"""Single writes during a load that reads: how long each waited, and how it affected the readers.

An engine that answers reads from its own cache makes a write wait until the cache may no longer be
read (the read lease). Afterwards it does not use the cache for a while (the write lease).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchlab import stats
from benchlab.claims import words
from benchlab.errors import BenchlabError
from benchlab.numbers import NOTHING
from benchlab.observers import table_states
from benchlab.raw.record import Record
from benchlab.report.points import with_curve
from benchlab.store import Store, ingest, metrics
from benchlab.store.results import Rerun

#: State in which writes may change a table, as TiDB names it in ``mysql.table_cache_meta``.
WRITE = "WRITE"

#: State in which readers may use the cache.
READ = "READ"

_TABLES = ("run", "interval", "engine_setting", "single_write", "table_state")


@dataclass(frozen=True)
class LeaseRun:
    """One run with single writes; all times are seconds of its measured part."""

    label: str
    """Engine with its version, workload, clients, and length of a read lease."""
    seconds: pl.DataFrame
    """``second`` (its end), ``tps``, ``percentile``, ``latency_ms`` (at that percentile)."""
    writes: pl.DataFrame
    """``table_name``, ``begin`` (of the transaction), ``commit`` (sent), ``end`` (answered)."""
    states: pl.DataFrame
    """``table_name``, ``state``, ``begin``, ``end``: one row per period in which the state stayed."""


def read(raw: Path, record: Record) -> LeaseRun:
    """Read one run from its folder of raw captures.

    Raises:
        BenchlabError: the run does not count, or none of its writes was answered.
    """
    tables = ingest.counted_rows(raw, record)
    if "single_write" not in tables:
        raise BenchlabError(f"{record.run_id}: no single write was answered")
    return _of_tables(tables)


def stored(store: Store, run_id: str) -> LeaseRun:
    """Read one run from a store."""
    return _of_tables({name: store.table(name, run_id) for name in _TABLES})


def runs(rerun: Rerun) -> pl.DataFrame:
    """Return the runs with single writes, with ``curve``, ``lease_s``, ``writes`` and ``every_s``.

    ``lease_s`` is the duration of a read lease in seconds, null if tables are not cached. ``writes`` is
    the number of writes into each table, ``every_s`` the length in seconds of a period with one.
    """
    leases = rerun.of_runs(metrics.LEASES, rerun.single_writes)
    requested = [
        pl.col("intervention").str.json_path_match(f"$.{name}").cast(pl.Int64).alias(name)
        for name in ("writes", "every_s")
    ]
    return (
        with_curve(rerun.single_writes, rerun.study)
        .join(leases, on="run_id", how="left")
        .with_columns(*requested)
        .sort("run_id")
    )


def throughput_by_period(run: LeaseRun, every_s: int) -> list[float]:
    """Return the mean throughput of each complete period of a run with single writes.

    Of several, the first is left out: no write before it slows its readers down.

    Args:
        run: the run.
        every_s: seconds of a period.
    """
    period = (pl.col("second") - 1) // every_s
    whole = run.seconds.group_by(period.alias("period")).agg(pl.len(), pl.col("tps").mean())
    means = whole.filter(len=every_s).sort("period")["tps"].to_list()
    return means[1:] or means


def demonstration(rerun: Rerun) -> LeaseRun | None:
    """Return the run with the fewest cached tables and writes, or ``None``.

    One write has the greatest effect there.
    """
    of_cached = runs(rerun).drop_nulls("lease_s").sort("tables", "writes", maintain_order=True)
    return None if of_cached.is_empty() else stored(rerun.store, of_cached["run_id"][0])


def waits(rerun: Rerun) -> pl.DataFrame:
    """Return every single write of the runs with the most tables.

    Each table is written so rarely there that its write lease is over and it is read from the cache
    again; in runs with a single table, writes may meet a write lease that has not ended.

    Columns: ``run_id``, ``curve``, ``lease_s``, ``wait_s``, the time from sending COMMIT to its answer.
    The writes of a run are in the order of their ends.
    """
    with_most = runs(rerun).filter(pl.col("tables") == pl.col("tables").max())
    return (
        metrics.of_single_writes(rerun.store, with_most)
        .select("run_id", "curve", "lease_s", wait_s="commit_wait_s")
        .sort("lease_s", "run_id", maintain_order=True)
    )


def summary(waits: pl.DataFrame) -> pl.DataFrame:
    """Return the waits of the writes under each lease.

    Columns: ``lease (s)``, ``writes``, ``least (s)``, ``median (s)``, ``95th percentile (s)``,
    ``greatest (s)``; ``half a lease or longer`` and ``within the lease and 0.25 s``, shares of the
    writes with their 95 % intervals. The quarter of a second is for the commit itself, as in the claim.
    ``with the wait before``: rank correlation of consecutive waits of a run, with its 95 % interval,
    which contains 0 if they are independent.
    """
    within, correlated = "within the lease and 0.25 s", "with the wait before"
    wait = pl.col("wait_s")
    return (
        waits.drop_nulls("lease_s")
        .with_columns(wait.shift().over("run_id").alias("before_s"))
        .group_by(pl.col("lease_s").alias("lease (s)"), maintain_order=True)
        .agg(
            pl.len().alias("writes"),
            wait.min().round_sig_figs(3).alias("least (s)"),
            wait.median().round_sig_figs(3).alias("median (s)"),
            wait.quantile(0.95, "nearest").round_sig_figs(3).alias("95th percentile (s)"),
            wait.max().round_sig_figs(3).alias("greatest (s)"),
            (wait >= pl.col("lease_s") / 2).alias("half a lease or longer"),
            (wait <= pl.col("lease_s") + 0.25).alias(within),
            pl.struct("before_s", "wait_s").alias(correlated),
        )
        .with_columns(
            pl.col("half a lease or longer", within).map_elements(
                lambda those: words.estimated(stats.share(those.to_list())),
                return_dtype=pl.String,
            ),
            pl.col(correlated).map_elements(_correlated, return_dtype=pl.String),
        )
    )


def _correlated(pairs: pl.Series) -> str:
    """Write the rank correlation of two fields of a struct, if it has one."""
    sides = [side.to_list() for side in pairs.struct.unnest().drop_nulls().get_columns()]
    if any(len(set(side)) < 2 for side in sides):
        return NOTHING
    return words.estimated(stats.spearman(*sides))


def by_state(rerun: Rerun) -> pl.DataFrame:
    """Return what readers of one table do in each of its states, and how long a write slows them down.

    One row for each run with one cached table. A second counts for a state if the table was in it from
    its begin to its end. Columns: ``rows``, ``lease (s)``, ``seconds between writes``; ``READ (1/s)``
    and ``WRITE (1/s)``, mean throughputs; ``plain (1/s)``, that of plain tables with as many rows, null
    without such a run; ``WRITE : READ``; ``WRITE : plain``; ``dip (s)``, the transactions that a write
    cost over those that a second of WRITE cost.
    """
    of_one = runs(rerun).filter(pl.col("tables") == 1)
    of_plain = of_one.filter(pl.col("lease_s").is_null())
    plain = dict(of_plain.group_by("rows_per_table").agg(pl.col("tps").mean()).iter_rows())
    rows = []
    cached = of_one.drop_nulls("lease_s")
    for run in cached.sort("rows_per_table", "lease_s", "every_s").iter_rows(named=True):
        seen = stored(rerun.store, run["run_id"])
        read, write = (_in_state(seen, state) for state in (READ, WRITE))
        if read is not None and write is not None:
            lost = (read - seen.seconds["tps"]).sum()
            dip_s = lost / (read - write) / run["writes"] if read > write else None
            key = (run["rows_per_table"], run["lease_s"], run["every_s"])
            beside = plain.get(run["rows_per_table"])
            to_plain = write / beside if beside else None
            rows.append((*key, read, write, beside, write / read, to_plain, dip_s))
    numbers = [
        "READ (1/s)",
        "WRITE (1/s)",
        "plain (1/s)",
        "WRITE : READ",
        "WRITE : plain",
        "dip (s)",
    ]
    schema = {
        "rows": pl.Int64,
        "lease (s)": pl.Float64,
        "seconds between writes": pl.Int64,
        **dict.fromkeys(numbers, pl.Float64),
    }
    found = pl.DataFrame(rows, schema=schema, orient="row")
    return found.with_columns(pl.col(numbers).round_sig_figs(3))


def _in_state(run: LeaseRun, state: str) -> float | None:
    """Return the mean throughput of the seconds in which the run's table was in a state throughout."""
    stays = run.states.filter(state=state)
    within = pl.any_horizontal(
        *(
            (pl.col("second") - 1 >= begin) & (pl.col("second") <= end)
            for begin, end in stays.select("begin", "end").iter_rows()
        ),
        False,
    )
    return run.seconds.filter(within)["tps"].mean()


def write_leases(rerun: Rerun) -> pl.DataFrame:
    """Return how long tables stayed writable, with their cache not readable, by lease.

    Columns: ``lease (s)``, ``times``, ``median (s)``, ``greatest (s)``. Periods that had not ended
    when the run ended are left out.
    """
    lasted = [
        states.filter(pl.col("end") < states["end"].max(), state=WRITE).select(
            pl.lit(lease).alias("lease (s)"), (pl.col("end") - pl.col("begin")).alias("seconds")
        )
        for run_id, lease in runs(rerun)
        .drop_nulls("lease_s")
        .select("run_id", "lease_s")
        .iter_rows()
        if len(states := stored(rerun.store, run_id).states)
    ]
    schema = {"lease (s)": pl.Float64, "seconds": pl.Float64}
    seconds = pl.col("seconds")
    return (
        pl.concat([pl.DataFrame(schema=schema), *lasted])
        .group_by("lease (s)")
        .agg(
            pl.len().alias("times"),
            seconds.median().round(2).alias("median (s)"),
            seconds.max().round(2).alias("greatest (s)"),
        )
        .sort("lease (s)")
    )


def _of_tables(tables: Mapping[str, pl.DataFrame]) -> LeaseRun:
    (of_run,) = tables["run"].to_dicts()
    begin, end = of_run["measure_begin"], of_run["measure_end"]

    def since(column: str) -> pl.Expr:
        return pl.col(column) - begin

    latency = pl.col("latency_us").max() / 1e3  # a load that reads has one type of transaction
    states = tables.get("table_state", pl.DataFrame(schema=table_states.SCHEMA))
    no_setting = pl.DataFrame(schema={"name": pl.String, "effective": pl.String})
    settings = tables.get("engine_setting", no_setting)
    lease = settings.filter(name=metrics.LEASE)["effective"].first()
    parts = (
        f"{of_run['engine']} {of_run['engine_version']}",
        of_run["workload"],
        f"{of_run['concurrency']} clients",
        f"read lease of {lease} s" if lease else "not cached",
    )
    return LeaseRun(
        ", ".join(parts),
        tables["interval"]
        .filter(phase="measure")
        .group_by("second")
        .agg(pl.col("tps").sum(), pl.col("percentile").max(), latency.alias("latency_ms"))
        .sort("second"),
        tables["single_write"]
        .select("table_name", begin=since("begin_s"), commit=since("commit_s"), end=since("end_s"))
        .sort("begin"),
        states.sort("table_name", "t")
        .with_columns(pl.col("state").rle_id().over("table_name").alias("stay"))
        .group_by("table_name", "stay", maintain_order=True)
        .agg(pl.col("state").first(), pl.col("t").first())
        .select(
            "table_name",
            "state",
            begin=since("t"),
            end=since("t").shift(-1, fill_value=end - begin).over("table_name"),
        ),
    )
