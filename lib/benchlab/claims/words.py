"""Words: what a test requires and what was found, in a few characters for a table."""

from collections.abc import Collection, Iterable, Mapping
from math import inf

from benchlab.numbers import number, percent, with_interval
from benchlab.stats import Estimate
from benchlab.study.claims import (
    Above,
    Audit,
    Bound,
    Change,
    Level,
    Limit,
    OfCurves,
    Outcome,
    OutOfMemory,
    Peak,
    Ratio,
    Series,
    Share,
    Test,
    Together,
)


def condition(test: Test) -> str:
    """Write what a test requires: a bound, a number with its tolerance, clients, a resource."""
    if not isinstance(test, OfCurves) or len(test.parts) == 1:
        return _condition(test)
    parts = f"{len(test.parts)} {'pairs' if len(test.sides) == 2 else 'curves'}"
    return f"{_condition(test)}, {'for all' if test.take == 'every' else 'for each of'} {parts}"


def _condition(test: Test) -> str:
    match test:
        case Above():
            return f"{_compared(test)} > {test.by:g}"
        case Ratio():
            return f"{_compared(test)} {_about(test.value, test.within)}"
        case Change(direction="rises"):
            return f"{_compared(test)} > {test.by:g}"
        case Change(direction="falls"):
            return f"{_compared(test)} < {1 / test.by:.3g}"
        case Change(direction="level"):
            return f"{_compared(test)} {_about(1, test.by)}"
        case Peak():
            return f"at {between(test.first, test.last)} clients"
        case Level():
            low, high = (
                number(one) for one in (test.value / test.within, test.value * test.within)
            )
            return f"{low} to {high} {test.unit}"
        case Limit():
            bound = f"≥ {test.least:,g}" if test.most is None else f"≤ {test.most:,g}"
            return f"{bound} {test.unit}"
        case Share():
            return f"≤ {test.most:,g} {test.unit} in {100 * test.least_share:g} % or more"
        case Bound():
            return " or ".join(test.by)
        case Outcome():
            return outcomes(test.answers)
        case OutOfMemory():
            return "runs out of memory"
        case Audit():
            return audited(test, test.value)
        case Together():
            return " and ".join(test.claims)
    return ""


def _compared(test: Above | Ratio | Change) -> str:
    """Name numerator and denominator of a ratio by what differs: ``tuned : default``."""
    if isinstance(test, Change):
        ends = test.end if isinstance(test.end, list) else [test.end]
        return f"{' or '.join(f'{one:,}' for one in ends)} : {test.start:,} clients"
    of, over = test.of, test.over
    differing = [key for key in Series.model_fields if getattr(of, key) != getattr(over, key)]
    return f"{of.named(differing)} : {over.named(differing)}"


def outcomes(answers: Mapping[str, str]) -> str:
    """Write the answers to checks."""
    return "; ".join(f"{check}: {answer}" for check, answer in answers.items())


def accepted(test: Test) -> tuple[float, float] | None:
    """Return the lowest and highest ratio for which a claim holds; ``None``: not about a ratio."""
    match test:
        case Above() | Change(direction="rises"):
            return test.by, inf
        case Change(direction="falls"):
            return 0, 1 / test.by
        case Change(direction="level"):
            return 1 / test.by, test.by
        case Ratio():
            return test.value / test.within, test.value * test.within
    return None


def audited(test: Audit, value: float | bool, more_digits: int = 0) -> str:
    """Write an audit's value as the article does: yes or no, or a number with as many digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    decimals = max(test.digits, 0) + more_digits if more_digits else test.digits
    text = f"{round(value, decimals):,.{max(decimals, 0)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    # a year has no thousands separator
    return text.replace(",", "") if test.unit == "year" else f"{text} {test.unit}".rstrip()


def estimated(estimate: Estimate, unit: str = "") -> str:
    """Write a number with its interval, if it has one."""
    text = with_interval(estimate.value, estimate.low, estimate.high)
    return f"{text} {unit}".rstrip()


def percentages(shares: Collection[float]) -> str:
    """Write the range of several shares."""
    ends = list(dict.fromkeys(percent(one) for one in (min(shares), max(shares))))
    return " to ".join(ends)


def between(first: int, last: int) -> str:
    """Write a range of numbers of clients, or a single number."""
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def listed(clients: Iterable[int]) -> str:
    """Write several numbers of clients."""
    return ", ".join(f"{one:,}" for one in clients)


def _about(value: float, within: float) -> str:
    return f"≈ {value:,.12g} ({number(value / within)} to {number(value * within)})"
