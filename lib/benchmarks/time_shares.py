"""Where does the time of `make paper` go? Shares of one rerun, read from the files that it leaves."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchlab import target
from benchlab.errors import TargetError
from benchlab.raw import folders
from benchlab.raw.record import Record
from benchlab.repo import Repo
from benchlab.stats import Estimate
from benchlab.study.roles import PRIMARY
from table import Row

STUDY = "postgres_vs_tidb"
PROFILE = "smoke"
TARGET = "local"

#: Phases that every run needs; the rest of a run is overhead.
_LOAD = ("warmup", "measure")


@dataclass(frozen=True)
class Times:
    """Times of the steps of a rerun, in seconds of the Unix clock."""

    set_up_s: float
    """Length of `make setup`."""
    begun: float
    provisioned: float
    ended: float
    papered: float
    """End of `benchlab paper`, which starts at ``ended``."""
    runs: list[Record]
    loaded: list[float]
    """Times at which the datasets that this rerun loaded were complete."""


def measure(checkout: Repo, clone: Path) -> Iterator[Row]:
    """Set up, rerun a study from nothing, and build the paper; yield the share of each step.

    Args:
        checkout: the checkout, with nothing measured in it.
        clone: folder in which a copy of it is set up, as on a fresh machine.
    """
    for what, share in shares(_rerun(checkout, clone)).items():
        yield Row(f"share of {what} in a rerun of {STUDY} {PROFILE}", _once(share), "")


def shares(times: Times) -> dict[str, float]:
    """Return part → share of the whole; they add up to 1."""
    runs = sorted(times.runs, key=lambda run: run.started)
    spans = [(run.started.timestamp(), run.ended.timestamp()) for run in runs]
    ends = [times.provisioned, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), times.ended]
    # a run's folder may be closed after the next run has started
    gaps = [(end, max(end, begin)) for end, begin in zip(ends, begins, strict=True)]
    overlap = sum(end - begin for end, begin in zip(ends, begins, strict=True) if begin < end)
    loading = [gap for gap in gaps if any(gap[0] <= one <= gap[1] for one in times.loaded)]
    seconds = {
        "set-up": times.set_up_s,
        "provisioning": times.provisioned - times.begun,
        "what lies between runs, a dataset loaded": _length(loading),
        "what lies between other runs": _length(gaps) - _length(loading),
        "cold starts": _phases(runs, "cold"),
        "load (warm-up and measured parts)": _phases(runs, *_LOAD),
        "what else a run does": _length(spans) - overlap - _phases(runs, "cold", *_LOAD),
        "the paper": times.papered - times.ended,
    }
    whole = times.set_up_s + times.papered - times.begun
    return {what: length / whole for what, length in seconds.items()}


def _rerun(checkout: Repo, clone: Path) -> Times:
    shutil.copytree(checkout.root, clone, ignore=shutil.ignore_patterns(".git", ".venv", "build"))
    benchlab = Path(sys.executable).with_name("benchlab")

    def run(*command: str | Path) -> float:
        code = subprocess.run(command, cwd=checkout.root, check=False).returncode
        if code > 1:  # 1: for example, an engine was refused
            raise SystemExit(f"{command[0]} ended with exit code {code}")
        return time.time()

    before = time.time()
    begun = run("make", "-s", "-C", clone, "setup")
    ended = run(benchlab, "run", STUDY, "--profile", PROFILE, "--target", TARGET)
    papered = run(benchlab, "paper")
    return Times(
        set_up_s=begun - before,
        begun=begun,
        provisioned=(checkout.targets / f"{TARGET}.json").stat().st_mtime,
        ended=ended,
        papered=papered,
        runs=[folders.read(folder) for folder in folders.finished(checkout.raw)],
        loaded=[one for one in _snapshots(checkout) if begun <= one <= ended],
    )


def _snapshots(checkout: Repo) -> Iterator[float]:
    """Yield when each snapshot of any engine was complete."""
    found = target.provisioned(checkout, TARGET)
    (primary,) = found.deployment.having(PRIMARY)
    for engine in found.engines:
        try:
            said = json.loads(primary.agent("engine", engine, "snapshots"))
        except TargetError:  # refused
            continue
        yield from (one["created_unix_s"] for one in said["snapshots"])


def _phases(runs: list[Record], *names: str) -> float:
    return _length([run.phases[name] for run in runs for name in names if name in run.phases])


def _length(spans: list[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in spans)


def _once(value: float) -> Estimate:
    return Estimate(value, None, None, 1)
