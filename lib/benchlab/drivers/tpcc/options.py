"""TPC-C's options that a workload may give. Standard library only: study files are read with it."""

from collections.abc import Mapping

#: The five types of transactions; each is an operation, and its weight its share of the mix in percent.
_TYPES = {"new_order", "payment", "order_status", "delivery", "stock_level"}

#: Option → what it is.
OPTIONS = {
    "form": "procedures (one call a transaction) or statements",
    "batched": "of statements: all lines of an order by one for each step (true)",
    "prepared": "of statements: each is parsed once for a connection (true)",
    "joined": "of statements: what takes from the stock reads the item, too (false)",
    "isolation": "level of the transactions",
    "mix": "weights or decks (clauses 5.2.3 and 5.2.4.2)",
    "pacing": "factor of keying and think times: 1 is TPC-C's, 0 none",
    "pool": "transactions that the application server runs at a time",
    "queue": "transactions that wait there at a time; further ones are turned away",
}


def refusal_of_option(option: str) -> str | None:
    """Return why a workload cannot set an option, or ``None``."""
    return None if option in OPTIONS else f"is none of {', '.join(OPTIONS)}"


def refusal_of_scripts(weights: Mapping[str, int]) -> str | None:
    """Return why the driver cannot run these scripts, or ``None``: it runs all five or none."""
    if weights.keys() == _TYPES:
        return None
    return f"runs these five together: {', '.join(sorted(_TYPES))}"
