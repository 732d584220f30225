"""How often do intervals cover the truth, how many verdicts are wrong, what does the gate let pass?"""

from collections.abc import Iterator

from benchlab.claims.stability import LEAST_AGREEING
from benchlab.repo import Repo
from benchlab.simulation import coverage, stored
from benchlab.stats import CONFIDENCE, Estimate
from benchlab.stats.quantiles import normal
from rich.console import Console
from table import Row


def measure(checkout: Repo, console: Console) -> Iterator[Row]:
    """Simulate, store the results for the paper, and yield them."""
    with console.status("simulating intervals, verdicts and the gate"):
        found = stored.simulate(checkout)
    for one in found.intervals.iter_rows(named=True):
        name = "{study}: intervals of a {statistic}, {points} points, {trials} trials, that cover"
        shown = _share(one["covered"], one["error"], one["reruns"])
        yield Row(name.format(**one), shown, "0.94 to 0.96")
    together = coverage.of_all_studies(found.verdicts)
    for one in [*found.verdicts.to_dicts(), *together.to_dicts()]:
        name = f"{one['study']}: verdicts that are wrong, of those decided"
        shown = _share(one["wrong"], one["error"], one["reruns"])
        yield Row(name, shown, f"≤ {1 - CONFIDENCE:.2f}")
    for one in found.agreement.iter_rows(named=True):
        name = f"{one['study']}: claims on which two reruns agree"
        shown = _share(one["agreeing"], one["agreeing_error"], one["pairs"])
        yield Row(name, shown, f"≥ {LEAST_AGREEING:.2f}")
        name = f"{one['study']}: claims with the same verdict in two reruns"
        yield Row(name, _share(one["same"], one["same_error"], one["pairs"]), "")
    for one in found.stopping.iter_rows(named=True):
        name = f"{one['case']}, CV {one['variation']:.0%}, ρ {one['dependence']:.1f}: "
        yield Row(name + "pass", _share(one["passed"], one["passed_error"], one["runs"]), "")
        if one["bias"] is None:
            shown = _share(one["too_far"], one["too_far_error"], one["runs"])
            yield Row(name + "pass and drift too far", shown, "")
        else:
            shown = _estimate(1 + one["bias"], one["bias_error"], one["runs"])
            yield Row(name + "mean of those that pass : true level", shown, "0.99 to 1.01")


def _share(value: float, error: float, n: int) -> Estimate:
    of_any = _estimate(value, error, n)
    return Estimate(value, max(0.0, of_any.low), min(1.0, of_any.high), n)


def _estimate(value: float, error: float, n: int) -> Estimate:
    half = normal((1 + CONFIDENCE) / 2) * error
    return Estimate(value, value - half, value + half, n)
