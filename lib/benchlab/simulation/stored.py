"""What was simulated, as ``data/simulated`` keeps it: minutes to make, and read by every paper."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
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
    stopping: pl.DataFrame
    """See :func:`benchlab.simulation.stopping.stopping`."""


def simulate(repo: Repo) -> Simulated:
    """Simulate everything from the spreads of the reference, and write it.

    What comes out as before is left as it is, with its date.

    Raises:
        StoreError: there is no reference.
    """
    intervals, verdicts = [], []
    with open_any(repo.reference) as reference:
        for name in reference.sql("SELECT DISTINCT study FROM run ORDER BY study")["study"]:
            rerun = results.open_rerun(repo, reference, name)
            intervals += [coverage.intervals(rerun, trials) for trials in coverage.TRIALS]
            verdicts.append(coverage.verdicts(repo, rerun))
    runs = product(stopping.CASES, stopping.VARIATIONS, stopping.DEPENDENCES)
    made = {
        "intervals": pl.concat(intervals),
        "verdicts": pl.concat(verdicts),
        "stopping": pl.concat([stopping.stopping(*one) for one in runs]),
    }
    return Simulated(**{name: _kept(_file(repo, name), frame) for name, frame in made.items()})


def read(repo: Repo) -> Simulated | None:
    """Return what was simulated last; ``None``: nothing was, as in a checkout without a reference."""
    if not repo.simulated.is_dir():
        return None
    return Simulated(*(pl.read_csv(_file(repo, name)) for name in Simulated.__dataclass_fields__))


def _kept(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """Write a table if it is not there yet; return it as it is there."""
    rounded = frame.with_columns(pl.selectors.float().round(_DIGITS))
    if not path.is_file() or not pl.read_csv(path).drop("made").equals(rounded):
        path.parent.mkdir(parents=True, exist_ok=True)
        today = datetime.now(UTC).date().isoformat()
        rounded.with_columns(made=pl.lit(today)).write_csv(path)
    return pl.read_csv(path)


def _file(repo: Repo, name: str) -> Path:
    return repo.simulated / f"{name}.csv"
