"""TPC-C's options that a workload may set. Standard library only: study files are read with it."""

from collections.abc import Mapping

#: The five types of transactions. Each is an operation; its weight is its share of the mix in percent.
_TYPES = {"new_order", "payment", "order_status", "delivery", "stock_level"}

#: Option → its meaning.
OPTIONS = {
    "form": "procedures (one call a transaction, where the engine has them) or statements",
    "batched": "statements: one for each step, for all lines of an order",
    "prepared": "statements: each is parsed once per connection",
    "joined": "statements: the one that updates the stock also reads the item",
    "isolation": "isolation level of the transactions",
    "mix": "weights or decks (clauses 5.2.3 and 5.2.4.2)",
    "pacing": "factor of keying and think times: 1 is TPC-C's, 0 none",
    "pool": "transactions that the application server runs at a time, at most",
    "queue": "transactions that wait there, at most; further ones are turned away",
}

#: Option → its default; those of statements are as in
#: :class:`benchlab.workloads.tpcc.transactions.Options`.
_OF_ALL: Mapping[str, str | float | bool] = {
    "form": "procedures",
    "batched": True,
    "prepared": True,
    "joined": False,
    "isolation": "serializable",
    "mix": "weights",
    "pacing": 1.0,
    "pool": 8,
    "queue": 1000,
}

#: Engine → its own defaults. The level that PostgreSQL and TiDB call repeatable read is snapshot
#: isolation, under which these five types are serializable (Fekete and others, "Making Snapshot
#: Isolation Serializable", ACM TODS 30 (2), 2005). It is TiDB's highest. PostgreSQL's serializable adds
#: predicate locks: where the planner scans a small table whole, as that of ten warehouses, transactions
#: of different warehouses conflict. TiDB has no procedures.
_OF_ENGINE: Mapping[str, Mapping[str, str]] = {
    "postgres": {"isolation": "repeatable-read"},
    "tidb": {"form": "statements", "isolation": "repeatable-read"},
}

#: Whether it can start transactions at a rate, as open loops do; terminals send at their own times.
TAKES_RATE = False


def defaults(engine: str) -> Mapping[str, str | float | bool]:
    """Return the option → its default, for transactions that run on an engine."""
    return {**_OF_ALL, **_OF_ENGINE.get(engine, {})}


def refusal_of_option(option: str) -> str | None:
    """Return why a workload cannot set an option, or ``None``."""
    return None if option in OPTIONS else f"is none of {', '.join(OPTIONS)}"


def refusal_of_scripts(weights: Mapping[str, int]) -> str | None:
    """Return why the driver cannot run these scripts, or ``None``: it runs all five or none."""
    if weights.keys() == _TYPES:
        return None
    return f"runs these five together: {', '.join(sorted(_TYPES))}"
