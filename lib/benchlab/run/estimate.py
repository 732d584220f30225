"""How long a plan takes on a target: what its runs measure, and all that lies between."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

from benchlab.errors import ParseError, TargetError
from benchlab.gate.steady import WRITEBACK_S
from benchlab.plan import Batch, Trial
from benchlab.raw import folders
from benchlab.repo import Repo
from benchlab.target import provisioned

#: Seconds of a run beside warm-up and measured part: restart, caches, captures. Medians of the shipped
#: reference are 1.4 to 5.6, by engine.
RUN_S = 3.0

#: Seconds of a batch beside its runs: the notebook's kernel, rows into the store, the dataset put back.
BATCH_S = 6.0

#: How much of the way from its least to its longest time a run that writes goes until it is steady; one
#: that reads is steady at once.
_OF_THE_LONGEST = 0.25

#: What making some once more adds to the time of runs that go on until they are steady,
#: as in the shipped reference.
_REPEATED = 0.1

#: Seconds until an engine that was never provisioned is there with its data, and one that was.
_NEW_ENGINE_S, _ENGINE_S = 60.0, 10.0


def overheads(repo: Repo, target: str) -> dict[str, float]:
    """Return the seconds of a run beside what it measures, by engine, as they were on a target."""
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
    """Return the seconds of one run."""
    point = trial.point
    warmup_s, measure_s = point.warmup_s, float(point.measure_s)
    if point.longest_s and point.workload.writes:
        warmup_s = max(warmup_s, WRITEBACK_S)
        if not trial.intervention:
            measure_s += _OF_THE_LONGEST * (point.longest_s - measure_s)
    return warmup_s + measure_s + overheads.get(point.engine, RUN_S)


def of_batches(batches: Iterable[Batch], repo: Repo, target: str) -> float:
    """Return the seconds of a sweep over batches on a target, provisioning and loading included."""
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
    """Return how many runs a trial takes, on average."""
    may_repeat = trial.point.longest_s and not trial.intervention
    return 1 + _REPEATED if may_repeat else 1.0
