"""sysbench's options that no workload may set, and what it can run. Standard library only."""

from collections.abc import Mapping

#: Option → what its value follows from. It includes the older names that sysbench 1.0 still takes
#: (``general_args`` in its sysbench.c).
_TAKEN = {
    "db-driver": "the engine",
    **{
        f"{protocol}-{part}": "the engine's server"
        for protocol in ("mysql", "pgsql")
        for part in ("db", "host", "password", "port", "socket", "user")
    },
    "mysql-ignore-errors": "the engine",
    **dict.fromkeys(("tables", "table-size", "statement", "parameters"), "the profile's dataset"),
    **dict.fromkeys(("threads", "num-threads"), "the profile's concurrency"),
    **dict.fromkeys(
        ("time", "max-time", "events", "max-requests"), "the profile's warmup_s and measure_s"
    ),
    **dict.fromkeys(("rate", "tx-rate"), "the study's open_loops"),
    "rand-seed": "the trial",
    **dict.fromkeys(
        ("config-file", "histogram", "percentile", "report-interval", "test"),
        "how benchlab starts sysbench and reads what it prints",
    ),
}

#: Whether it can start transactions at a rate, as open loops do.
TAKES_RATE = True


def defaults(engine: str) -> Mapping[str, str]:
    """Return no option: where a workload sets nothing, sysbench's own defaults hold."""
    del engine
    return {}


def refusal_of_option(option: str) -> str | None:
    """Return why a workload cannot set an option, or ``None``."""
    # sysbench takes an underscore for a hyphen (opt_name_cmp in its sb_options.c)
    origin = _TAKEN.get(option.replace("_", "-"))
    return f"follows from {origin}; a workload cannot set it" if origin else None


def refusal_of_scripts(weights: Mapping[str, int]) -> str | None:
    """Return why sysbench cannot run these scripts, or ``None``."""
    return "sysbench runs one script at a time" if len(weights) > 1 else None
