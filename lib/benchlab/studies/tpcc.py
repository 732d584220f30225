"""What the section on TPC-C has of its own: the standard's rules, the article's numbers worked out."""

import polars as pl

from benchlab.claims import published
from benchlab.numbers import number
from benchlab.repo import Repo
from benchlab.report import sections, tpcc
from benchlab.report.points import in_order, with_curve
from benchlab.report.sections import Content, Source
from benchlab.store.results import POINT, Rerun

#: Terminals of a warehouse (TPC-C 5.11, clause 4.2.2).
_TERMINALS = 10


#: Share of the mix, and least keying and mean think time in s, of New-Order, Payment, Order-Status,
#: Delivery, Stock-Level (clauses 5.2.3 and 5.2.5.7); New-Order has the share that the others leave.
_PACING = ((0.45, 18 + 12), (0.43, 3 + 12), (0.04, 2 + 10), (0.04, 2 + 5), (0.04, 2 + 5))


def section(source: Source) -> Content:
    """Gather what ``paper/sections/tpcc.md`` places: what all sections have, and the rules."""
    made = sections.default(source)
    runs = _median_runs(source.rerun)
    made.tables["rules-kept"] = rules_kept(source.rerun, runs)
    one = runs.filter(concurrency=runs["concurrency"].max()).head(1)
    found = source.rerun.of_runs("SELECT * FROM rule SEMI JOIN chosen USING (run_id)", one)
    made.tables["rules"] = tpcc.checks(found)
    made.context["rules_of"] = " ".join(one.select("engine", "workload").row(0)) if len(one) else ""
    return made


def rules_kept(rerun: Rerun, runs: pl.DataFrame) -> pl.DataFrame:
    """Return a row a run: its New-Orders, its pacing, and how many rules it kept.

    Columns: ``curve``, ``terminals``, ``New-Orders/min``, ``pacing``, ``kept``, ``broken``,
    ``undecided``, ``which`` (those that it broke).

    Args:
        rerun: with the runs.
        runs: rows of its metrics.
    """
    answers = (
        rerun.of_runs("SELECT * FROM rule SEMI JOIN chosen USING (run_id)", runs)
        .group_by("run_id")
        .agg(
            *(
                (pl.col("answer") == one).sum().alias(one)
                for one in ("kept", "broken", "undecided")
            ),
            pl.col("check")
            .filter(pl.col("answer") == "broken")
            .sort()
            .str.join(", ")
            .alias("which"),
        )
    )
    paces = {
        name: float(one.options.get("pacing", 1)) for name, one in rerun.study.workloads.items()
    }
    shown = in_order(with_curve(runs.join(answers, on="run_id"), rerun.study), rerun.study)
    return shown.select(
        "curve",
        pl.col("concurrency").alias("terminals"),
        pl.col("tpmc").round().cast(pl.Int64).alias("New-Orders/min"),
        pl.col("workload").replace_strict(paces).map_elements(_pace, pl.String).alias("pacing"),
        "kept",
        "broken",
        "undecided",
        "which",
    )


def _pace(pacing: float) -> str:
    if pacing == 1:
        return "TPC-C's"
    return f"× {number(1 / pacing)}, not TPC-C's" if pacing else "none, not TPC-C's"


def _median_runs(rerun: Rerun) -> pl.DataFrame:
    """Return the run of each point whose throughput is the middle one."""
    rank = pl.col("tpmc").rank("ordinal").over(POINT)
    middle = (pl.len().over(POINT) + 1) // 2
    return rerun.metrics.drop_nulls("tpmc").filter(rank == middle)


def chain(repo: Repo) -> pl.DataFrame:
    """Return what follows from OceanBase's terminals and result, step by step.

    Columns: ``what``, ``published`` (null where the article does not give it), ``found``, ``unit``.
    """

    def stated(name: str) -> float:
        return published.number(repo, "tpcc", name)

    cycle = sum(share * seconds for share, seconds in _PACING)
    new_order = _PACING[0][0]
    cap = _TERMINALS * new_order * 60 / cycle
    warehouses = stated("terminals") / _TERMINALS
    rate = stated("tpmc") / warehouses
    clients, nodes = stated("rte_clients"), stated("data_nodes")
    copies = stated("data_copies") * stated("warehouse_size_oceanbase")
    of_processor = stated("oracle_tpmc") / stated("oracle_processors")
    rows = [
        ("terminals : ten a warehouse", None, warehouses, "warehouses"),
        ("cap of a warehouse", stated("tpmc_per_warehouse_max"), cap, "tpmC/warehouse"),
        (
            "cap of them all",
            None,
            warehouses * stated("tpmc_per_warehouse_max") / 1e6,
            "million tpmC",
        ),
        ("tpmC : warehouses", None, rate, "tpmC/warehouse"),
        ("efficiency", None, 100 * rate / stated("tpmc_per_warehouse_max"), "%"),
        (
            "response time that this leaves a transaction",
            None,
            1000 * (_TERMINALS * new_order * 60 / rate - cycle),
            "ms",
        ),
        (
            "of that, the delays for web and display",
            None,
            stated("web_delay") + stated("display_delay"),
            "ms",
        ),
        ("terminals : RTE clients", None, stated("terminals") / clients, "terminals"),
        (
            "terminals : cores of the RTE",
            None,
            stated("terminals") / stated("rte_servers") / stated("rte_cores_per_server"),
            "terminals",
        ),
        ("warehouses : RTE clients", None, warehouses / clients, "warehouses"),
        ("warehouses : data nodes", None, warehouses / nodes, "warehouses"),
        ("a warehouse in two compressed copies", None, copies, "MB"),
        ("that on a data node", None, copies * warehouses / nodes / 1e6, "TB"),
        ("tpmC : data nodes", None, stated("tpmc") / nodes, "tpmC"),
        ("Oracle's tpmC : servers, of four processors", None, 4 * of_processor, "tpmC"),
        (
            "Oracle's tpmC : cores of its database",
            None,
            stated("oracle_tpmc") / stated("oracle_cores"),
            "tpmC",
        ),
        (
            "cores : processor, Oracle's database",
            None,
            stated("oracle_cores") / stated("oracle_processors"),
            "cores",
        ),
        (
            "cores : processor, Oracle's storage",
            None,
            stated("oracle_storage_cores") / stated("oracle_storage_processors"),
            "cores",
        ),
    ]
    schema = {"what": pl.String, "published": pl.Float64, "found": pl.Float64, "unit": pl.String}
    found = pl.col("found")
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.when(found >= 1000).then(found.round()).otherwise(found.round_sig_figs(4))
    )
