"""Results of the simulations in ``data/simulated``: they take minutes, and every paper reads them."""

from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import polars as pl

from benchlab.repo import Repo
from benchlab.simulation import coverage, stopping
from benchlab.store import open_any, results

#: Digits after the decimal point: the rounding is below a simulation's error, and makes the files the
#: same on every machine.
_DIGITS = 5


@dataclass(frozen=True)
class Simulated:
    """Tables of simulation results; the column ``made`` gives the date."""

    intervals: pl.DataFrame
    """See :func:`benchlab.simulation.coverage.intervals`."""
    verdicts: pl.DataFrame
    """See :func:`benchlab.simulation.coverage.verdicts`."""
    agreement: pl.DataFrame
    """See :func:`benchlab.simulation.coverage.agreement`."""
    stopping: pl.DataFrame
    """See :func:`benchlab.simulation.stopping.stopping`."""


def simulate(repo: Repo, studies: Collection[str] | None = None) -> Simulated:
    """Simulate with the spreads of the reference, and write the results.

    A table with the same results as before keeps its date.

    Args:
        repo: the checkout.
        studies: only these; the results of other studies and of the gate stay. ``None``: everything.

    Raises:
        StoreError: there is no reference.
    """
    if not repo.simulated.is_dir():
        studies = None
    for name, frame in _made(repo, studies).items():
        _write(_file(repo, name), frame, studies or ())
    return read(repo)


def _made(repo: Repo, studies: Collection[str] | None) -> dict[str, pl.DataFrame]:
    """Simulate on all cores; each part has its own random generator."""
    with open_any(repo.reference) as reference:
        chosen = [one for one in results.studies(reference) if studies is None or one in studies]
    samples = zip(*product(chosen, coverage.TRIALS), strict=True)
    runs = zip(*product(stopping.CASES, stopping.VARIATIONS, stopping.DEPENDENCES), strict=True)
    # spawn: a fork would have Polars' locks without its threads
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        parts = {  # the longest first
            "verdicts": pool.map(
                partial(_of_study, repo, partial(coverage.verdicts, repo)), chosen
            ),
            "agreement": pool.map(
                partial(_of_study, repo, partial(coverage.agreement, repo)), chosen
            ),
            "intervals": pool.map(partial(_of_study, repo, coverage.intervals), *samples),
        }
        if studies is None:
            parts["stopping"] = pool.map(stopping.stopping, *runs)
        return {name: pl.concat(list(of_name)) for name, of_name in parts.items()}


def _of_study(
    repo: Repo, simulated: Callable[..., pl.DataFrame], study: str, *arguments: int
) -> pl.DataFrame:
    """Call a simulation with the rerun of a study in the reference."""
    with open_any(repo.reference) as reference:
        return simulated(results.open_rerun(repo, reference, study), *arguments)


def read(repo: Repo) -> Simulated | None:
    """Return the last results; ``None`` if there are none, as in a checkout without a reference."""
    if not repo.simulated.is_dir():
        return None
    return Simulated(*(pl.read_csv(_file(repo, name)) for name in Simulated.__dataclass_fields__))


def _write(path: Path, frame: pl.DataFrame, studies: Collection[str]) -> None:
    """Write a table if it changed; with ``studies``, replace only the rows of these."""
    today = datetime.now(UTC).date().isoformat()
    found = frame.with_columns(pl.selectors.float().round(_DIGITS), made=pl.lit(today))
    before = pl.read_csv(path) if path.is_file() else found.clear()
    if studies:
        others = before.filter(~pl.col("study").is_in(list(studies)))
        found = pl.concat([others, found]).sort("study", maintain_order=True)
    if not before.drop("made").equals(found.drop("made")):
        path.parent.mkdir(parents=True, exist_ok=True)
        found.write_csv(path)


def _file(repo: Repo, name: str) -> Path:
    return repo.simulated / f"{name}.csv"
