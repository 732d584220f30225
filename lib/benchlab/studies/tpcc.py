"""The published numbers of the article on OceanBase's TPC-C result, worked out again."""

import polars as pl

from benchlab.claims import published
from benchlab.repo import Repo

#: Terminals of a warehouse (TPC-C 5.11, clause 4.2.2).
_TERMINALS = 10


#: Share of the mix, and least keying and mean think time in s, of New-Order, Payment, Order-Status,
#: Delivery, Stock-Level (clauses 5.2.3 and 5.2.5.7); New-Order has the share that the others leave.
_PACING = ((0.45, 18 + 12), (0.43, 3 + 12), (0.04, 2 + 10), (0.04, 2 + 5), (0.04, 2 + 5))


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
