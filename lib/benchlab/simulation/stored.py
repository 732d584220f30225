"""What was simulated, as ``data/simulated`` keeps it: minutes to make, and read by every paper."""

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

#: Digits after the point: fewer than a simulation's error leaves, and the same on every machine.
_DIGITS = 5


@dataclass(frozen=True)
class Simulated:
    """Tables of what was simulated; ``made`` says when."""

    intervals: pl.DataFrame
    """See :func:`benchlab.simulation.coverage.intervals`."""
    verdicts: pl.DataFrame
    """See :func:`benchlab.simulation.coverage.verdicts`."""
    agreement: pl.DataFrame
    """See :func:`benchlab.simulation.coverage.agreement`."""
    stopping: pl.DataFrame
    """See :func:`benchlab.simulation.stopping.stopping`."""


def simulate(repo: Repo, studies: Collection[str] | None = None) -> Simulated:
    """Simulate from the spreads of the reference, and write it.

    What comes out as before is left as it is, with its date.

    Args:
        repo: the checkout.
        studies: only these; what was simulated of others and of the gate stays. ``None``: everything.

    Raises:
        StoreError: there is no reference.
    """
    if not repo.simulated.is_dir():
        studies = None
    for name, frame in _made(repo, studies).items():
        _write(_file(repo, name), frame, studies or ())
    return read(repo)


def _made(repo: Repo, studies: Collection[str] | None) -> dict[str, pl.DataFrame]:
    """Simulate, on all cores: each part draws from a generator of its own."""
    with open_any(repo.reference) as reference:
        chosen = [one for one in results.studies(reference) if studies is None or one in studies]
    samples = zip(*product(chosen, coverage.TRIALS), strict=True)
    runs = zip(*product(stopping.CASES, stopping.VARIATIONS, stopping.DEPENDENCES), strict=True)
    # spawned, since a fork has Polars' locks without its threads
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
    """Simulate something of a study's runs in the reference."""
    with open_any(repo.reference) as reference:
        return simulated(results.open_rerun(repo, reference, study), *arguments)


def read(repo: Repo) -> Simulated | None:
    """Return what was simulated last; ``None``: nothing was, as in a checkout without a reference."""
    if not repo.simulated.is_dir():
        return None
    return Simulated(*(pl.read_csv(_file(repo, name)) for name in Simulated.__dataclass_fields__))


def _write(path: Path, frame: pl.DataFrame, studies: Collection[str]) -> None:
    """Write a table unless it is there already; if it is of some studies, in place of their rows."""
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
