"""pgbench's options that no workload may set, and what it can run. Standard library only."""

from collections.abc import Mapping

_READ = "how benchlab starts pgbench and reads what it prints"

#: Option → what its value follows from. A workload gives long names, without their hyphens.
_TAKEN = {
    **dict.fromkeys(("host", "port", "username"), "the engine's server"),
    **dict.fromkeys(("builtin", "file", "select-only", "skip-some-updates"), "its scripts"),
    **dict.fromkeys(("scale", "initialize", "no-vacuum", "vacuum-all"), "the profile's dataset"),
    **dict.fromkeys(("client", "jobs"), "the profile's concurrency and cores"),
    **dict.fromkeys(("time", "transactions"), "the profile's warmup_s and measure_s"),
    "rate": "the study's open_loops",
    "random-seed": "the trial",
    # transactions that are due and skipped would not be counted
    "latency-limit": "the rule that every transaction that is due is run",
    **dict.fromkeys(
        ("log", "log-prefix", "sampling-rate", "aggregate-interval", "failures-detailed"), _READ
    ),
    **dict.fromkeys(("progress", "progress-timestamp", "debug", "verbose-errors"), _READ),
    **dict.fromkeys(("show-script", "help", "version"), _READ),
}

#: Whether it can start transactions at a rate, as open loops do.
TAKES_RATE = True


def defaults(engine: str) -> Mapping[str, str]:
    """Return no option: where a workload sets nothing, pgbench's own defaults hold."""
    del engine
    return {}


def refusal_of_option(option: str) -> str | None:
    """Return why a workload cannot set an option, or ``None``."""
    if len(option) == 1:
        return "is no long name; pgbench's options are given by these"
    origin = _TAKEN.get(option)
    return f"follows from {origin}; a workload cannot set it" if origin else None


def refusal_of_scripts(weights: Mapping[str, int]) -> str | None:
    """Return why pgbench cannot run these scripts, or ``None``: it runs any number."""
    del weights
