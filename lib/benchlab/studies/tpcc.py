"""Content that only the section on TPC-C has: the standard's rules, the article's numbers computed."""

import polars as pl

from benchlab.claims import published
from benchlab.drivers.tpcc import limits
from benchlab.repo import Repo
from benchlab.report import cpu, points, sections, tpcc, tpcc_charts, tpcc_cost, tpcc_ratios
from benchlab.report.points import in_order, with_curve
from benchlab.report.sections import Content, Source
from benchlab.store.results import Rerun

#: Least shares of the types of the mix; New-Order has the share that the others leave.
_MIX = {"new_order": 1 - sum(limits.MIX.values()), **limits.MIX}

#: Names of the rules that no run keeps at another pacing than TPC-C's.
_OF_PACING = f"keying time|think time|{limits.THROUGHPUT}|pacing in ramp-up"

#: Columns with numbers of different magnitudes.
_TIMES = tuple(
    f"{what}, {which} (s)"
    for what in ("keying", "think")
    for which in ("least", "mean", "greatest")
)


def section(source: Source) -> Content:
    """Return the content of ``paper/sections/tpcc.md``: that of all sections, and the disclosures."""
    rerun, repo = source.rerun, source.repo
    made = sections.default(source)
    used = cpu.used(rerun).filter(pl.col("workload").is_in(tpcc.plain(rerun.study)))
    if not used.is_empty():  # plain ones: views of all workloads have no room for names
        made.figures["cpu"] = cpu.chart(rerun.study, used)
    runs = tpcc.reported(rerun)
    responses = [(f"responses-{place}", run) for place, run in enumerate(runs)]
    made.figures |= {name: tpcc_charts.response_times(run) for name, run in responses}
    made.context["responses"] = [{"figure": name, "of": run.heading} for name, run in responses]
    if runs:
        made.figures["thinking"] = tpcc_charts.think_times(runs)
        made.figures["over-time"] = tpcc_charts.over_time(runs)
    levels = tpcc.levels(rerun)
    if not levels.is_empty():
        made.figures["against"] = tpcc_charts.response_against_throughput(rerun.study, levels)
    made.tables |= {
        "rules-kept": rules_kept(rerun),
        "responses": tpcc.responses(runs),
        "times": sections.digits(tpcc.times(runs), *_TIMES),
        "counts": tpcc.counts(runs),
        "checkpoints": tpcc.longest_checkpoints(runs),
        "conditions": tpcc.conditions(rerun),
        "space": tpcc_cost.space(rerun),
        "mechanisms": tpcc_ratios.mechanisms(rerun),
        "background": tpcc_ratios.background(rerun),
        "baseline": tpcc_ratios.baseline(rerun),
        "chain": chain(repo).with_columns(
            pl.col("published", "found").map_elements(_written, return_dtype=pl.String)
        ),
    }
    prices = tpcc_cost.prices(repo.root / tpcc_cost.FILE)
    made.tables["price"] = tpcc_cost.price_performance(prices, runs)
    made.context["unpriced"] = tpcc_cost.unpriced(prices, runs)
    if runs:
        one = tpcc.nearest(runs)
        made.tables["rules"] = tpcc.checks(one.rules)
        made.context["rules_of"] = one.heading
    return made


def _written(value: float) -> str:
    """Return a number as text, with its own digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def rules_kept(rerun: Rerun) -> pl.DataFrame:
    """Return a row for each point's median run: its New-Orders, and the rules that it kept.

    Columns: ``curve``, ``workload`` (its name gives the pacing), ``transactions`` (form and isolation
    level; null for runs whose records lack them), ``terminals``, ``New-Orders/min``, ``tpmC`` (the
    same, truncated; null unless ten terminals a warehouse keep TPC-C's pacing), ``kept``, ``broken``,
    ``undecided`` (numbers of rules), ``broken at any pace`` (names of the broken rules, without those
    that any pacing other than TPC-C's breaks), ``gate passed``.
    """
    runs = tpcc.median_runs(rerun.metrics)
    answers = (
        rerun.of_runs("SELECT * FROM rule SEMI JOIN chosen USING (run_id)", runs)
        .group_by("run_id")
        .agg(
            *(
                (pl.col("answer") == one).sum().alias(one)
                for one in ("kept", "broken", "undecided")
            ),
            pl.col("check")
            .filter(pl.col("answer") == "broken", ~pl.col("check").str.contains(_OF_PACING))
            .sort()
            .str.join(", ")
            .alias("broken at any pace"),
        )
    )
    paced = [name for name in rerun.study.workloads if tpcc.pacing(rerun.study, name) == 1]
    warehouses = pl.col("dataset").str.json_path_match("$.warehouses").cast(pl.Int64)
    has_tpmc = pl.col("workload").is_in(paced) & (
        pl.col("concurrency") == limits.TERMINALS * warehouses
    )
    found = with_curve(runs.join(answers, on="run_id"), rerun.study)
    shown = in_order(found, rerun.study, "concurrency")
    return shown.select(
        "curve",
        points.named(rerun.study),
        pl.format("{}, {}", _option("form"), _option("isolation").str.replace_all("-", " ")).alias(
            "transactions"
        ),
        pl.col("concurrency").alias("terminals"),
        pl.col("tpmc").round().cast(pl.Int64).alias("New-Orders/min"),
        pl.when(has_tpmc).then(pl.col("tpmc").floor().cast(pl.Int64)).alias("tpmC"),
        "kept",
        "broken",
        "undecided",
        "broken at any pace",
        points.gate_passed(),
    )


def _option(name: str) -> pl.Expr:
    """Return an option of each run; null if the run's record lacks it."""
    return pl.col("options").str.json_path_match(f"$.{name}")


def chain(repo: Repo) -> pl.DataFrame:
    """Return the numbers that follow from OceanBase's terminals and result, step by step.

    Columns: ``what``, ``published`` (null if the article does not give it), ``found``, ``unit``.
    """

    def stated(name: str) -> float:
        return published.number(repo, "tpcc", name)

    cycle = sum(share * (limits.KEYING[kind] + limits.THINK[kind]) for kind, share in _MIX.items())
    new_order = _MIX["new_order"]
    cap = limits.TERMINALS * new_order * 60 / cycle
    warehouses = stated("terminals") / limits.TERMINALS
    rate = stated("tpmc") / warehouses
    clients, nodes = stated("rte_clients"), stated("data_nodes")
    copies = stated("data_copies") * stated("warehouse_size_oceanbase")
    of_processor = stated("oracle_tpmc") / stated("oracle_processors")
    rows = [
        ("warehouses, of ten terminals each", None, warehouses, "warehouses"),
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
            1000 * (limits.TERMINALS * new_order * 60 / rate - cycle),
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
