"""How long a plan takes on a target: the measuring, and everything between.

A run is expected to take the mean time of earlier runs of its kind on the target. If there are none,
its time is estimated with constants. These are from all runs of the shipped reference, also from those
that were repeated, so a repeated run counts as an average one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import mean

from benchlab.errors import ParseError, TargetError
from benchlab.gate.steady import least_warmup_s
from benchlab.plan import Batch, Trial
from benchlab.raw import folders
from benchlab.repo import Repo
from benchlab.run.trial import CONNECTIONS_S
from benchlab.study.intervention import OutcomeChecks
from benchlab.target import provisioned

#: Seconds of a run besides warm-up and measured part: restart, caches, captures. In the reference the
#: means of the engines are 3 to 13, OceanBase's is 34.
RUN_S = 9.0

#: Seconds of a batch besides its runs: start of the notebook's kernel, ingest, restore of the dataset.
BATCH_S = 6.0

#: Share of the way from its least to its longest time after which a run ends. In the reference all runs
#: together go a quarter of it; the means of the studies are 0.19 to 0.46. Repeated runs go 0.62 of it.
_OF_THE_LONGEST = 0.25

#: Share of trials whose run is repeated, of those that go on until they are steady: 78 of 399 in the
#: reference.
_REPEATED = 0.2

#: Seconds to provision an engine and load its data: one that was never provisioned, and one that was.
_NEW_ENGINE_S, _ENGINE_S = 60.0, 10.0

#: What the time of a run depends on, besides the number of clients.
Kind = tuple[str | int | None, ...]


def recorded(repo: Repo, target: str) -> dict[Kind, float]:
    """Return kind of run → mean seconds of the runs of that kind on a target that ended ``ok``."""
    found = defaultdict(list)
    for folder in folders.finished(repo.raw):
        try:
            record = folders.read(folder)
        except ParseError:
            continue
        if record.target == target and record.status == "ok":
            seconds = (record.ended - record.started).total_seconds()
            found[_kind(record.trial)].append(seconds)
    return {kind: mean(seconds) for kind, seconds in found.items()}


def of_trial(trial: Trial, recorded: Mapping[Kind, float]) -> float:
    """Return the expected seconds of one run.

    Args:
        trial: its trial.
        recorded: as returned by :func:`recorded`.
    """
    return recorded.get(_kind(trial)) or _unknown(trial)


def of_batches(batches: Iterable[Batch], repo: Repo, target: str) -> float:
    """Return the expected seconds of a sweep over batches, including provisioning and loading."""
    batches, seconds = list(batches), recorded(repo, target)
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


def _kind(trial: Trial) -> Kind:
    point, intervention = trial.point, trial.intervention
    return (
        *(point.study, point.engine, point.workload_name),
        *(point.warmup_s, point.measure_s, point.longest_s),
        intervention and intervention.label,
    )


def _goes_on(trial: Trial) -> bool:
    """Return whether a run goes on until it is steady."""
    return bool(trial.point.longest_s) and not trial.intervention


def _runs(trial: Trial) -> float:
    """Return the average number of runs of a trial."""
    return 1 + _REPEATED if _goes_on(trial) else 1.0


def _unknown(trial: Trial) -> float:
    """Return the expected seconds of a run of a kind that never ran on the target.

    In the reference the warm-up of a workload that writes takes up to 24 s longer than its least time:
    the connections warm up, too, and it waits for a cycle of the engine's background work.
    """
    point = trial.point
    warmup_s, measure_s = point.warmup_s, float(point.measure_s)
    if isinstance(trial.intervention, OutcomeChecks):
        warmup_s = 0  # there is no load
    elif point.longest_s and point.workload.writes:
        warmup_s = least_warmup_s(warmup_s, writes=True) + CONNECTIONS_S
    if _goes_on(trial):
        measure_s += _OF_THE_LONGEST * (point.longest_s - measure_s)
    return warmup_s + measure_s + RUN_S
