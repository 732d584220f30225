"""Run labelled cases on this machine, and keep the files that the methods read."""

import contextlib
import io
import tarfile
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path

from benchlab import study, target
from benchlab.agent.cgroup import CPU_PERIOD_US, open_cgroups
from benchlab.plan import Planner, Trial, envelope, selected
from benchlab.raw import folders
from benchlab.raw.record import RECORD_NAME, Record
from benchlab.repo import Repo
from benchlab.run import dataset
from benchlab.run.lock import locked
from benchlab.run.ready import take_down
from benchlab.run.trial import run_trial
from benchlab.study import Study, Workload
from benchlab.target import Provisioned, preflight
from benchlab.target.provision import provision
from benchlab.target.session import Session
from cases import GENEROUS, Case, Host
from methods import Method
from rich.console import Console

STUDY = Path(__file__).with_name("study.yml")
PROFILE = "smoke"

_CGROUPS, _GROUP = Path("/sys/fs/cgroup"), "benchlab"

#: A case, and the method that its run is for.
Task = tuple[Case, Method]


def run(repo: Repo, tasks: list[Task], console: Console) -> Iterator[tuple[Case, Method, Record]]:
    """Yield the record of every task. Runs of earlier calls come first and are not repeated.

    The host is provisioned again for each :class:`Host` of the cases, since provisioning sets the CPU
    and memory of an envelope. Everything is taken down at the end.
    """
    spec, on = study.parse(STUDY), target.load(repo, "local")
    earlier = _earlier(repo)
    points = [record.trial.point for record in earlier.values()]
    versions = dict.fromkeys(spec.engines, "") | {one.engine: one.engine_version for one in points}
    left = []
    for case, method in tasks:
        record = earlier.get(_trial(repo, spec, versions, case, method).key)
        if record:
            yield case, method, record
        else:
            left.append((case, method))
    if not left:
        return
    left.sort(key=lambda task: (repr(task[0].host), *_loaded(task), task[0].writes))
    with locked():
        try:
            for host, group in groupby(left, key=lambda task: task[0].host):
                group = list(group)
                take_down(on)
                found = _provisioned(repo, spec, host, sorted({case.engine for case, _ in group}))
                for _, loaded in groupby(group, key=_loaded):
                    yield from _run_loaded(repo, spec, found, list(loaded), console)
        finally:
            take_down(on)


def _loaded(task: Task) -> tuple[str, int]:
    """Return the engine and the rows of its dataset's tables; 0: as many as in the study."""
    return task[0].engine, task[0].rows or 0


def _earlier(repo: Repo) -> dict[str, Record]:
    """Return key of a trial → its run, for runs that count."""
    records = map(folders.read, folders.finished(repo.raw))
    return {record.trial_key: record for record in records if record.status == "ok"}


def _provisioned(repo: Repo, spec: Study, host: Host, engines: list[str]) -> Provisioned:
    on = target.load(repo, "local")
    limits = _limits(repo, spec, host)
    preflight.check(on, limits)
    return provision(repo, on, spec, PROFILE, limits, engines)


def _limits(repo: Repo, spec: Study, host: Host) -> envelope.Envelope:
    instance = target.instance_type(repo, spec.instance)
    profile = spec.profile(PROFILE)
    scaled = envelope.resolve(spec, profile, instance, "main", True, spec.engines)
    return scaled.model_copy(
        update={"cores": host.cores, "memory_bytes": host.memory_bytes, **GENEROUS}
    )


def _run_loaded(
    repo: Repo, spec: Study, found: Provisioned, tasks: list[Task], console: Console
) -> Iterator[tuple[Case, Method, Record]]:
    engine = tasks[0][0].engine
    session = Session(found, engine)
    session.bring_up()
    versions = found.versions(spec.engines)
    trials = [_trial(repo, spec, versions, *task) for task in tasks]
    variant = spec.engines[engine].load_variant
    dataset.ensure(session, trials[0].point, variant, repo.answers, console.print)
    changed = True
    for (case, method), trial in zip(tasks, trials, strict=True):
        with _client_held(case.client_cores):
            end = run_trial(session, trial, repo.raw, restore=changed, before_load=lambda: None)
            record = end()
        yield case, method, record
        changed = case.writes
    session.stop()


def _trial(repo: Repo, spec: Study, versions: dict[str, str], case: Case, method: Method) -> Trial:
    instance = target.instance_type(repo, spec.instance)
    planner = Planner(spec, PROFILE, instance, versions)
    (batch,) = selected(spec, planner.closed_loops(), [case.engine], [case.variant])
    point = batch.trials[0].point
    options = {**point.workload.options, **case.options}
    workload = Workload(
        driver="sysbench",
        script=case.script,
        writes=case.writes,
        options=options,
        tolerated_error_share=0.5,
    )
    requested = method.intervention
    rows = {"rows_per_table": case.rows} if case.rows else {}
    of_case = {
        "workload_name": case.name,
        "workload": workload,
        "dataset": point.dataset.model_copy(update=rows),
        "concurrency": case.threads,
        "envelope": _limits(repo, spec, case.host).model_copy(update=case.disk),
        "start": case.start,
        "warmup_s": case.warmup_s,
        "measure_s": requested.measure_s if requested else point.measure_s,
    }
    return Trial(
        point=point.model_copy(update=of_case), number=1, profile=PROFILE, intervention=requested
    )


@contextlib.contextmanager
def _client_held(cores: float | None) -> Iterator[None]:
    """Limit the load by its own CPU quota, which an envelope cannot do."""
    if cores is None:
        yield
        return
    groups = open_cgroups(_CGROUPS, _GROUP)
    quota = round(cores * CPU_PERIOD_US)
    if groups.version == 1:
        folder = _CGROUPS / "cpu" / _GROUP / "client"
        file, held, free = folder / "cpu.cfs_quota_us", str(quota), "-1"
        (folder / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
    else:
        file = _CGROUPS / _GROUP / "client" / "cpu.max"
        held, free = f"{quota} {CPU_PERIOD_US}", "max"
    file.write_text(held)
    try:
        yield
    finally:
        file.write_text(free)


def keep(raw: Path, names: Collection[str], path: Path) -> None:
    """Keep a run as a small archive: its folder with these captures, and a record of only these.

    Args:
        raw: the run's folder.
        names: captures to keep, if the run has them.
        path: the archive, a ``.tar.xz``; the same run makes the same bytes.
    """
    record = folders.read(raw)
    kept = {name: sha256 for name, sha256 in record.files.items() if name in names}
    contents = {name: (raw / name).read_bytes() for name in kept}
    of_kept = record.model_copy(update={"files": kept})
    contents[RECORD_NAME] = of_kept.model_dump_json(indent=1).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:xz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{raw.name}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
