"""How long a plan takes on a target: the measuring, and everything between."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

from benchlab.errors import ParseError, TargetError
from benchlab.gate.steady import least_warmup_s
from benchlab.plan import Batch, Trial
from benchlab.raw import folders
from benchlab.repo import Repo
from benchlab.target import provisioned

#: Seconds of a run besides warm-up and measured part: restart, caches, captures. In the shipped
#: reference the medians of the engines are 1.4 to 5.6.
RUN_S = 3.0

#: Seconds of a batch besides its runs: start of the notebook's kernel, ingest, restore of the dataset.
BATCH_S = 6.0

#: Share of the way from its least to its longest time after which a run is steady. In the shipped
#: reference the means of the studies are 0.20 to 0.42, whether runs write or only read.
_OF_THE_LONGEST = 0.25

#: Share of runs that are repeated, of those that go on until they are steady, as in the shipped
#: reference.
_REPEATED = 0.1

#: Seconds to provision an engine and load its data: one that was never provisioned, and one that was.
_NEW_ENGINE_S, _ENGINE_S = 60.0, 10.0


def overheads(repo: Repo, target: str) -> dict[str, float]:
    """Return engine → median seconds of a run besides warm-up and measured part, on a target."""
    found = defaultdict(list)
    for folder in folders.finished(repo.raw):
        try:
            record = folders.read(folder)
        except ParseError:
            continue
        if record.target == target and record.status == "ok":
            phases = (
                record.phases[name] for name in ("warmup", "measure") if name in record.phases
            )
            measured = sum(end - begin for begin, end in phases)
            whole = (record.ended - record.started).total_seconds()
            found[record.trial.point.engine].append(whole - measured)
    return {engine: median(seconds) for engine, seconds in found.items()}


def of_trial(trial: Trial, overheads: Mapping[str, float]) -> float:
    """Return the expected seconds of one run.

    Args:
        trial: its trial.
        overheads: as returned by :func:`overheads`.
    """
    point = trial.point
    warmup_s, measure_s = point.warmup_s, float(point.measure_s)
    if point.longest_s and point.workload.writes:
        warmup_s = least_warmup_s(warmup_s, writes=True)
    if point.longest_s and not trial.intervention:
        measure_s += _OF_THE_LONGEST * (point.longest_s - measure_s)
    return warmup_s + measure_s + overheads.get(point.engine, RUN_S)


def of_batches(batches: Iterable[Batch], repo: Repo, target: str) -> float:
    """Return the expected seconds of a sweep over batches, including provisioning and loading."""
    batches, seconds = list(batches), overheads(repo, target)
    try:
        known = provisioned(repo, target).engines.keys()
    except TargetError:
        known = set()
    engines = {batch.engine for batch in batches}
    return (
        sum(_runs(trial) * of_trial(trial, seconds) for batch in batches for trial in batch.trials)
        + BATCH_S * len(batches)
        + _NEW_ENGINE_S * len(engines - known)
        + _ENGINE_S * len(engines & known)
    )


def _runs(trial: Trial) -> float:
    """Return the average number of runs of a trial."""
    may_repeat = trial.point.longest_s and not trial.intervention
    return 1 + _REPEATED if may_repeat else 1.0
