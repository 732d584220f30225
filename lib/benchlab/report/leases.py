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
from benchlab.observers import table_states
from benchlab.raw.record import Record
from benchlab.report.points import with_curve
from benchlab.store import Store, ingest, metrics
from benchlab.store.results import Rerun

#: State in which writes may change a table, as TiDB names it in ``mysql.table_cache_meta``.
WRITE = "WRITE"

_TABLES = ("run", "interval", "single_write", "table_state")


@dataclass(frozen=True)
class LeaseRun:
    """One run with single writes; all times are seconds of its measured part."""

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
    """Return the runs with single writes, with ``curve``, ``lease_s`` and ``every_s``.

    ``lease_s`` is the duration of a read lease in seconds, null if tables are not cached. ``every_s``
    is the length in seconds of a period with one write.
    """
    leases = rerun.of_runs(metrics.LEASES, rerun.single_writes)
    every_s = pl.col("intervention").str.json_path_match("$.every_s").cast(pl.Int64)
    return (
        with_curve(rerun.single_writes, rerun.study)
        .join(leases, on="run_id", how="left")
        .with_columns(every_s.alias("every_s"))
    )


def throughput_by_period(run: LeaseRun, every_s: int) -> list[float]:
    """Return the mean throughput of each complete period of a run with single writes.

    Args:
        run: the run.
        every_s: seconds of a period.
    """
    period = (pl.col("second") - 1) // every_s
    whole = run.seconds.group_by(period.alias("period")).agg(pl.len(), pl.col("tps").mean())
    return whole.filter(len=every_s).sort("period")["tps"].to_list()


def demonstration(rerun: Rerun) -> LeaseRun | None:
    """Return the run with the fewest cached tables and writes, or ``None``.

    One write has the greatest effect there.
    """
    of_cached = (
        runs(rerun).drop_nulls("lease_s").sort("tables", "every_s", descending=[False, True])
    )
    return None if of_cached.is_empty() else stored(rerun.store, of_cached["run_id"][0])


def waits(rerun: Rerun) -> pl.DataFrame:
    """Return every single write: ``run_id``, ``curve``, ``lease_s``, ``wait_s``.

    ``wait_s`` is the time from sending COMMIT to its answer.
    """
    return (
        metrics.of_single_writes(rerun.store, runs(rerun))
        .select("run_id", "curve", "lease_s", wait_s="commit_wait_s")
        .sort("lease_s", "wait_s")
    )


def summary(waits: pl.DataFrame) -> pl.DataFrame:
    """Return the waits of the writes under each lease.

    Columns: ``lease (s)``, ``writes``, ``median (s)``, ``95th percentile (s)``, ``greatest (s)``,
    ``within the lease`` (share of the writes, with its 95 % interval).
    """
    wait = pl.col("wait_s")
    return (
        waits.drop_nulls("lease_s")
        .group_by(pl.col("lease_s").alias("lease (s)"), maintain_order=True)
        .agg(
            pl.len().alias("writes"),
            wait.median().round_sig_figs(3).alias("median (s)"),
            wait.quantile(0.95, "nearest").round_sig_figs(3).alias("95th percentile (s)"),
            wait.max().round_sig_figs(3).alias("greatest (s)"),
            (wait <= pl.col("lease_s")).alias("within the lease"),
        )
        .with_columns(
            pl.col("within the lease").map_elements(
                lambda within: words.estimated(stats.share(within.to_list())),
                return_dtype=pl.String,
            )
        )
    )


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
    begin, end = tables["run"].select("measure_begin", "measure_end").row(0)

    def since(column: str) -> pl.Expr:
        return pl.col(column) - begin

    latency = pl.col("latency_us").max() / 1e3  # a load that reads has one type of transaction
    states = tables.get("table_state", pl.DataFrame(schema=table_states.SCHEMA))
    return LeaseRun(
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
