"""What the articles derive from their own numbers, worked out again; nothing here needs a run.

Ratios and correlations are rounded to three digits, for reading; audits are decided before rounding.
"""

import polars as pl

from benchlab import published, stats
from benchlab.claims import audit, words
from benchlab.repo import Repo

#: Terminals of a warehouse (TPC-C 5.11, clause 4.2.2).
_TERMINALS = 10

#: Share of the mix, and least keying and mean think time in s, of New-Order, Payment, Order-Status,
#: Delivery, Stock-Level (clauses 5.2.3 and 5.2.5.7); New-Order has the share that the others leave.
_PACING = ((0.45, 18 + 12), (0.43, 3 + 12), (0.04, 2 + 10), (0.04, 2 + 5), (0.04, 2 + 5))

_DIGITS = 3


def tables(repo: Repo) -> pl.DataFrame:
    """Return every published table: study, table, where in the article, rows, numbers in it."""
    numbers = published.numbers(repo).group_by("study", "table").agg(pl.len().alias("numbers"))
    return (
        published.sources(repo)
        .with_columns(pl.col("file").str.extract(r"/(\w+)\.csv$").alias("table"))
        .join(numbers, on=["study", "table"], how="left", maintain_order="left")
        .select("study", "table", "where", "rows", pl.col("numbers").fill_null(0))
    )


def cached_ratios(repo: Repo) -> pl.DataFrame:
    """Return the throughput of a cached table over that of a plain one at each of the 80 points.

    Columns: ``kind`` (reads, mixes), ``rows_per_table``, ``workload``, ``concurrency``, ``plain``,
    ``cached`` (1/s), ``ratio``, ``told`` and ``found`` (gain in %, cut off after two decimals as the
    article does), ``other`` (the same over the plain table of the other size).
    """
    reads = published.read(repo, "cached_tables", "read"), "read_gain", pl.col("workload")
    selects = pl.format("{} point selects", pl.col("point_selects"))
    mixes = published.read(repo, "cached_tables", "mixed"), "mixed_gain", selects
    frames = []
    for kind, (qps, gains, workload) in (("reads", reads), ("mixes", mixes)):
        point = ["rows_per_table", "workload", "concurrency"]
        wide = qps.with_columns(workload=workload).pivot(on="variant", index=point, values="qps")
        told = published.read(repo, "cached_tables", gains).with_columns(workload=workload)
        sizes = wide["rows_per_table"].unique().sort().to_list()
        other = wide.select(
            pl.col("rows_per_table").replace(sizes, sizes[::-1]), *point[1:], other="plain"
        )
        frames.append(
            wide.join(told.select(*point, told="gain_percent"), on=point, maintain_order="left")
            .join(other, on=point, maintain_order="left")
            .select(
                pl.lit(kind).alias("kind"),
                *point,
                "plain",
                "cached",
                (pl.col("cached") / pl.col("plain")).alias("ratio"),
                "told",
                _gain("plain").alias("found"),
                _gain("other").alias("other"),
            )
        )
    return pl.concat(frames)


def _gain(plain: str) -> pl.Expr:
    """Gain over a column in percent, cut off after two decimals."""
    hundredths = ((pl.col("cached") - pl.col(plain)) * 10_000 / pl.col(plain)).cast(pl.Int64)
    return (hundredths / 100).round(2)


def cached_summary(repo: Repo) -> pl.DataFrame:
    """Return what the ratios of each workload come to: geometric mean, range, ratio of the peaks."""
    return (
        cached_ratios(repo)
        .group_by("kind", "rows_per_table", "workload", maintain_order=True)
        .agg(
            pl.col("ratio").log().mean().exp().alias("geometric_mean"),
            pl.col("ratio").min().alias("least"),
            pl.col("ratio").max().alias("greatest"),
            (pl.col("cached").max() / pl.col("plain").max()).alias("ratio_of_peaks"),
        )
        .with_columns(_rounded("geometric_mean", "least", "greatest", "ratio_of_peaks"))
    )


def remote_wal_peaks(repo: Repo) -> pl.DataFrame:
    """Return He3DB's peak beside PostgreSQL's in each workload, and what is left at 512 threads."""
    throughput = published.read(repo, "remote_wal", "throughput")
    last = throughput["concurrency"].max()
    peaks = throughput.group_by("workload", "engine", "variant", maintain_order=True).agg(
        pl.col("tps").max().alias("peak"),
        pl.col("concurrency").sort_by("tps").last().alias("at"),
        pl.col("tps").filter(pl.col("concurrency") == last).first().alias("at_last"),
    )
    he3db = peaks.filter(engine="he3db").drop("engine", "variant")
    return (
        peaks.filter(engine="postgres")
        .join(he3db, on="workload", suffix="_he3db", maintain_order="left")
        .select(
            "workload",
            pl.col("variant").alias("postgres"),
            pl.col("peak_he3db").alias("he3db_peak"),
            pl.col("at_he3db").alias("he3db_peak_at"),
            pl.col("peak").alias("postgres_peak"),
            pl.col("at").alias("postgres_peak_at"),
            (pl.col("peak_he3db") / pl.col("peak")).alias("ratio_of_peaks"),
            (pl.col("at_last_he3db") / pl.col("at_last")).alias(f"ratio_at_{last}"),
        )
        .with_columns(_rounded("ratio_of_peaks", f"ratio_at_{last}"))
    )


def wal_shape(repo: Repo) -> pl.DataFrame:
    """Return what the WAL tables say of each point: writes at a time, and their part in a transaction.

    Columns: ``concurrency_told`` and ``concurrency_found`` (mean number of WAL writes under way),
    ``wal_ms`` and ``transaction_ms`` (mean times; a transaction's by Little's law), ``share`` (of the
    first in the second), ``wal_bytes_per_transaction``, ``transactions_per_write``.
    """
    seconds = _told(repo, "remote_wal", "command_time")
    wal_us = pl.col("wal_write_time_us") / pl.col("wal_writes")
    transaction_us = pl.col("concurrency") / pl.col("tps") * 1e6
    return published.read(repo, "remote_wal", "wal").select(
        "workload",
        "concurrency",
        pl.col("wal_write_concurrency").alias("concurrency_told"),
        (pl.col("wal_write_time_us") / 1e6 / seconds).round(2).alias("concurrency_found"),
        (wal_us / 1000).round_sig_figs(_DIGITS).alias("wal_ms"),
        (transaction_us / 1000).round_sig_figs(_DIGITS).alias("transaction_ms"),
        (wal_us / transaction_us).round(2).alias("share"),
        (pl.col("wal_bytes") / seconds / pl.col("tps")).round().alias("wal_bytes_per_transaction"),
        (pl.col("tps") * seconds / pl.col("wal_writes"))
        .round_sig_figs(_DIGITS)
        .alias("transactions_per_write"),
    )


def wal_correlations(repo: Repo) -> pl.DataFrame:
    """Return how throughput correlates with each WAL metric along the threads, with intervals.

    See :func:`benchlab.stats.pearson` for what an interval of six points along a curve can say.
    """
    wal = published.read(repo, "remote_wal", "wal")
    metrics = [name for name in wal.columns if name.startswith("wal_")]
    rows = []
    for (workload,), group in wal.group_by("workload", maintain_order=True):
        for metric in metrics:
            row = {"workload": workload, "metric": metric, "n": len(group)}
            for how in (stats.pearson, stats.spearman):
                found = how(group["tps"].to_list(), group[metric].to_list())
                row[how.__name__] = round(found.value, _DIGITS)
                row[f"{how.__name__}_low"] = round(found.low, _DIGITS)
                row[f"{how.__name__}_high"] = round(found.high, _DIGITS)
            rows.append(row)
    return pl.DataFrame(rows)


def spec_tree_law(repo: Repo) -> pl.DataFrame:
    """Return each cell's least mean latency by Little's law beside its own percentiles.

    In a closed loop without pauses the mean latency is connections / throughput; of the greatest
    throughput it is the least that the mean can be. ``fits``: the mean does not lie above the p99.
    ``busy``: connections that can have been at work at a time, throughput × p99 at most.
    """
    mean = 1000 * pl.col("concurrency") / pl.col("throughput_max_per_s")
    return (
        published.read(repo, "spec_tree", "results")
        .drop_nulls("throughput_max_per_s")
        .select(
            "engine",
            "variant",
            "partitioned",
            pl.col("concurrency").alias("connections"),
            pl.col("throughput_max_per_s").alias("per_s"),
            mean.round_sig_figs(_DIGITS).alias("mean_ms"),
            pl.col("latency_p99_ms").alias("p99_ms"),
            pl.col("latency_p999_ms").alias("p999_ms"),
            (mean <= pl.col("latency_p99_ms")).alias("fits"),
            pl.min_horizontal(
                "concurrency", pl.col("throughput_max_per_s") * pl.col("latency_p99_ms") / 1000
            )
            .round(1)
            .alias("busy"),
        )
    )


def spec_tree_ratios(repo: Repo) -> pl.DataFrame:
    """Return ratios of throughput that the article tells or leaves out, a column per connections."""
    results = published.read(repo, "spec_tree", "results")
    curve = {
        key: group.select("concurrency", "throughput_max_per_s")
        for key, group in results.group_by("engine", "variant", "partitioned")
    }
    asked = {
        "PostgreSQL : MariaDB tuned, not partitioned": (
            ("postgres", "default", False),
            ("mariadb", "tuned", False),
        ),
        "MariaDB : PostgreSQL, partitioned": (
            ("mariadb", "default", True),
            ("postgres", "default", True),
        ),
        "PostgreSQL, partitioned : not": (
            ("postgres", "default", True),
            ("postgres", "default", False),
        ),
        "MySQL, partitioned : not": (("mysql", "default", True), ("mysql", "default", False)),
        "MariaDB, partitioned : not": (
            ("mariadb", "default", True),
            ("mariadb", "default", False),
        ),
    }
    rows = []
    for what, (over, under) in asked.items():
        both = curve[over].join(curve[under], on="concurrency", suffix="_under").sort("concurrency")
        above, below = both["throughput_max_per_s"], both["throughput_max_per_s_under"]
        at = dict(zip(map(str, both["concurrency"]), above / below, strict=True))
        whole = below.null_count() == 0
        rows.append(
            {"ratio": what, **at, "of the peaks": above.max() / below.max() if whole else None}
        )
    return pl.DataFrame(rows).with_columns(pl.selectors.numeric().round_sig_figs(_DIGITS))


def tpcc_chain(repo: Repo) -> pl.DataFrame:
    """Return what follows from OceanBase's terminals and result, step by step.

    Columns: ``what``, ``told`` (null where the article does not say), ``found``, ``unit``.
    """

    def told(name: str) -> float:
        return _told(repo, "tpcc", name)

    cycle = sum(share * seconds for share, seconds in _PACING)
    new_order = _PACING[0][0]
    cap = _TERMINALS * new_order * 60 / cycle
    warehouses = told("terminals") / _TERMINALS
    rate = told("tpmc") / warehouses
    clients = told("rte_clients")
    rows = [
        ("terminals : ten a warehouse", None, warehouses, "warehouses"),
        ("cap of a warehouse", told("tpmc_per_warehouse_max"), cap, "tpmC/warehouse"),
        (
            "cap of them all",
            None,
            warehouses * told("tpmc_per_warehouse_max") / 1e6,
            "million tpmC",
        ),
        ("tpmC : warehouses", None, rate, "tpmC/warehouse"),
        ("efficiency", None, 100 * rate / told("tpmc_per_warehouse_max"), "%"),
        (
            "response time that this leaves a transaction",
            None,
            1000 * (_TERMINALS * new_order * 60 / rate - cycle),
            "ms",
        ),
        (
            "of that, the delays for web and display",
            None,
            told("web_delay") + told("display_delay"),
            "ms",
        ),
        ("terminals : RTE clients", None, told("terminals") / clients, "terminals"),
        (
            "terminals : cores of the RTE",
            None,
            told("terminals") / told("rte_servers") / told("rte_cores_per_server"),
            "terminals",
        ),
        ("warehouses : data nodes", None, warehouses / told("data_nodes"), "warehouses"),
        (
            "cores : processor, Oracle's database",
            None,
            told("oracle_cores") / told("oracle_processors"),
            "cores",
        ),
        (
            "cores : processor, Oracle's storage",
            None,
            told("oracle_storage_cores") / told("oracle_storage_processors"),
            "cores",
        ),
    ]
    schema = {"what": pl.String, "told": pl.Float64, "found": pl.Float64, "unit": pl.String}
    found = pl.col("found")
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.when(found >= 1000).then(found.round()).otherwise(found.round_sig_figs(4))
    )


def audits(repo: Repo, study: str | None = None) -> pl.DataFrame:
    """Return every audit, those that the article's numbers contradict first.

    Columns: ``study``, ``where``, ``claim``, ``told``, ``found``, ``verdict``, ``source`` (of a fact
    that no published table holds). A truth is told as "yes"; what was found says what there is.

    Args:
        repo: the checkout.
        study: only of this one.
    """
    return (
        pl.DataFrame(
            [
                {
                    "study": one.study,
                    "where": one.claim.where,
                    "claim": one.claim.claim,
                    "told": words.told(one.test),
                    "found": words.audited(one.test, one.found, more_digits=2)
                    + (f"; {one.detail}" if one.detail else ""),
                    "verdict": one.verdict,
                    "source": one.test.source,
                }
                for one in audit.audit(repo)
                if study in (None, one.study)
            ]
        )
        # "not reproduced" before "reproduced", else as the articles have them
        .sort("verdict", maintain_order=True)
    )


def audit_summary(repo: Repo, audited: pl.DataFrame) -> pl.DataFrame:
    """Return how many audits of each study ended how.

    Args:
        repo: the checkout.
        audited: see :func:`audits`.
    """
    return (
        audited.group_by("study")
        .agg(
            pl.len().alias("audits"),
            *((pl.col("verdict") == name).sum().alias(name) for name in _DECIDED),
        )
        .join(published.articles(repo).select("study"), on="study", maintain_order="right")
        .select("study", "audits", *_DECIDED)
    )


_DECIDED = ("reproduced", "not reproduced")


def _told(repo: Repo, study: str, name: str) -> float:
    """One number of an article's prose."""
    return published.told(repo, study).filter(id=name)["value"].item()


def _rounded(*names: str) -> list[pl.Expr]:
    return [pl.col(name).round_sig_figs(_DIGITS) for name in names]
