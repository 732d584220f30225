"""Run one trial: cold start, warm-up, measurement, and everything that is kept of it."""

import importlib
import itertools
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchlab import drivers
from benchlab.drivers.base import CONTROL, MADE, Driver, Job, Phase, Process, Stage
from benchlab.engines import engine_class, without_effect
from benchlab.errors import BenchlabError, ParseError, RunFailed
from benchlab.gate import steady
from benchlab.observers import (
    background,
    log_probe,
    metrics,
    outcomes,
    replication,
    sample,
    sessions,
    speed,
)
from benchlab.observers.poll import Poll
from benchlab.plan import AS_FOUND, Point, Trial
from benchlab.raw.record import (
    CARDINALITIES,
    OUT_OF_MEMORY,
    PLAN,
    RATE,
    SETTINGS,
    Record,
    RunFolder,
)
from benchlab.run.intervention import RunningIntervention
from benchlab.run.observe import Observers, used, watch
from benchlab.run.process import Ended as ProgramEnded
from benchlab.run.process import Program
from benchlab.run.process import run as run_programs
from benchlab.run.single_writes import RunningWrites
from benchlab.run.until import Until
from benchlab.study.intervention import LimitBlocks, OutcomeChecks, SingleWrites
from benchlab.study.roles import APP, LOAD
from benchlab.target import Node
from benchlab.target.session import Session
from benchlab.workloads import tables_of
from benchlab.workloads.base import Tables

#: Seconds that a driver may take beyond its run time: connecting, the last transactions.
_DRIVER_GRACE_S = 120

#: A failed statement is quoted whole.
_MESSAGE_LIMIT = 300

#: Seconds of the warm-up, at most, by the connections that are measured then. PostgreSQL's took up to
#: 10 s until they were as fast as ever after (a recursive query by 10 to 80 of them, on 2 cores).
CONNECTIONS_S = 10

#: Seconds after the clients of a stage have begun, and what is done then.
Action = tuple[float, Callable[[], None]]

#: Whether a stage may end: after these seconds, each with its throughput, and as many cycles of the
#: engine's background work.
Enough = Callable[[Sequence[float], float | None], bool]


@dataclass(frozen=True)
class Ended:
    """A trial whose load has ended, or never began."""

    began: bool
    """Whether its engine started as it was to, with the dataset restored if that was requested."""
    close: Callable[[], Record]
    """Close the run's folder; to be called at any time before the next load begins."""


def run_trial(
    session: Session,
    trial: Trial,
    raw: Path,
    restore: bool,
    before_load: Callable[[], object],
    peak_tps: float | None = None,
) -> Ended:
    """Run a trial; whatever goes wrong with the engine or the load fails this run only.

    Gathering the captures takes a second that the next trial's cold start need not wait for. So that
    is left to do.

    Args:
        session: the engine.
        trial: what to run.
        raw: where run folders lie.
        restore: begin from the dataset, not from what the last run left of it.
        before_load: called right before the load begins; what still goes on must have ended by then.
        peak_tps: throughput of the closed loop with as many clients, for a trial at a share of it.
    """
    folder = RunFolder(raw, trial, session.deployment.name, session.roles)
    if reason := refusal(session, trial.point):
        return Ended(False, lambda: folder.finish("refused", reason))
    for node in session.roles:
        folder.write_json("host.json", session.provisioned.hosts[node], node)
    run = _Run(session, trial, folder)
    if peak_tps:
        run.rate_per_s = round(peak_tps * trial.point.share_of_peak)
        folder.write_json(RATE, {"peak_tps": peak_tps, "rate_per_s": run.rate_per_s})
    error, began = None, False
    try:
        run.start(restore)
        began = True
        before_load()
        run.measure()
    except BenchlabError as failure:
        error = str(failure)
    run.keep_log()
    return Ended(began, lambda: run.close(error))


def refusal(session: Session, point: Point) -> str | None:
    """Return why this target cannot run a point, or ``None``."""
    found = session.found
    engine = engine_class(point.role or point.engine)
    return (
        found.refused
        or found.refused_variants.get(point.variant)
        or drivers.driver(point.workload.driver).refusal(engine, point.workload)
    )


@dataclass
class _Run:
    """One trial under way."""

    session: Session
    trial: Trial
    folder: RunFolder
    rate_per_s: int | None = None
    observers: list[Observers] = field(default_factory=list)
    background: Poll | None = None
    """Of the engine's background work; ``None``: the workload makes none."""
    services: dict[str, int] | None = None
    """Service → process of the engine as it was started; ``None``: somebody else runs it."""

    @property
    def tables(self) -> Tables:
        """The tables of the point's dataset."""
        return tables_of(self.trial.point.dataset)

    @cached_property
    def driver(self) -> Driver:
        """The driver of the point's workload."""
        return drivers.driver(self.trial.point.workload.driver)

    @cached_property
    def _job(self) -> Job:
        """What the driver is to run."""
        point = self.trial.point
        each, longest_s = point.transactions_per_client, point.longest_s
        warmup_s = self._server_warmup_s
        if longest_s and self.driver.ramps_up and point.workload.writes:
            warmup_s = max(warmup_s, steady.WRITEBACK_S)
        elif longest_s and not self.driver.ramps_up and (warmup_s or point.workload.writes):
            warmup_s = longest_s  # it ends once it is long enough
        measure_s = point.measure_s if self.trial.intervention else longest_s or point.measure_s
        application_role = APP if self.session.deployment.having(APP) else LOAD
        return Job(
            engine=self.session.engine,
            workload=point.workload,
            scripts={name: self.tables.script(name) for name in point.workload.weights},
            options={**point.workload.options, **self.tables.options()},
            clients=point.concurrency,
            nodes=len(self.session.load),
            cores=float(point.envelope.cores),
            warmup_s=warmup_s,
            connections_s=point.warmup_s - self._server_warmup_s,
            measure_s=measure_s,
            seed=self.trial.seed,
            transactions=each and each * point.concurrency,
            rate_per_s=self.rate_per_s,
            can_end_early=longest_s is not None,
            application_role=application_role,
            application_host=self.session.address(application_role),
        )

    @property
    def _server_warmup_s(self) -> int:
        """What the warm-up of the connections leaves of the whole."""
        whole_s = self.trial.point.warmup_s
        return max(0, whole_s - CONNECTIONS_S) if self.driver.warms_connections else whole_s

    def start(self, restore: bool) -> None:
        """Cold start, settings checked, data prewarmed if the profile says so."""
        point, session = self.trial.point, self.session
        with self._phase("check" if point.start == AS_FOUND else "cold"):
            cold = session.cold(point.variant, point.dataset_key if restore else None)
        for node, said in cold.items():
            self.folder.write_json("cold.json", said, node)
            if node == session.primary.name:
                self.services = said.get("services")
        session.engine.tune(point.settings)
        self._check_settings()
        self.tables.prepare(session.engine, point.workload)
        for name, content in self.tables.files(session.engine).items():
            for node in session.load:
                node.write(self.tables.folder / name, content)
        if point.start == "prewarm":
            with self._phase("prewarm"):
                session.engine.prewarm(point.dataset)
        if found := self.tables.cardinalities(session.engine):
            self.folder.write_json(CARDINALITIES, found)
        if query := self.tables.example_query(session.engine, point.workload):
            self.folder.write(PLAN, session.engine.explain(query).encode())

    def measure(self) -> None:
        """Warm-up and measured part, inside the envelope and under the observers' eyes."""
        point = self.trial.point
        self.session.limit(point.envelope)
        if isinstance(self.trial.intervention, OutcomeChecks):
            self._check_outcomes(self.trial.intervention)
            return
        if point.log_latency:
            self.folder.write_json(log_probe.NAME, self.session.probe_log())
        with self._host_speed():
            self._load()
        self._keep_outcomes(self.tables.outcomes_after_load(self.session.engine))

    def _load(self) -> None:
        """All stages of the driver, under the observers' eyes."""
        self.observers = watch(self.session, self.trial.point.log_latency)
        try:
            with self._background(), self._replication():
                for stage in self.driver.stages(self._job):
                    if phase := stage.measured:
                        self._measure(stage, phase)
                    else:
                        self._drive(stage, enough=self._warm)
            self.session.require_followed()
            if lost := self._server_lost():
                raise RunFailed(f"{lost} while the load ran")
        finally:
            for observers in self.observers:
                observers.stop()

    def _check_outcomes(self, requested: OutcomeChecks) -> None:
        """Make checks in place of a load."""
        engine = self.session.engine
        checks = (self.tables.outcomes(check, engine) for check in requested.checks)
        with self._phase("measure"):
            self._keep_outcomes(itertools.chain.from_iterable(checks))

    def _keep_outcomes(self, found: Iterable[outcomes.Outcome]) -> None:
        """Keep outcomes as they come, also those before an error; no file where there are none."""
        lines: list[str] = []
        try:
            lines.extend(map(outcomes.line, found))
        finally:
            if lines:
                self.folder.write(outcomes.NAME, "".join(lines).encode())

    def _warm(self, tps: Sequence[float], cycles: float | None) -> bool:
        point = self.trial.point
        return steady.warm(len(tps), self._server_warmup_s, point.workload.writes, cycles)

    def _measured(self, tps: Sequence[float], cycles: float | None) -> bool:
        point = self.trial.point
        kept = tps[:-1]  # the last second may not be a whole one when the run has ended
        return (
            self.trial.intervention is None
            and len(kept) >= point.measure_s
            and steady.enough(kept, point.workload.writes, cycles, self._warmed_s)
        )

    @property
    def _warmed_s(self) -> float:
        """Seconds that the load went on before the measured part."""
        if self.driver.ramps_up:  # in the same stage, whose phases are known at its end
            return self._job.warmup_s
        begin, end = self.folder.phases.get("warmup", (0.0, 0.0))
        return end - begin

    def _measure(self, stage: Stage, phase: Phase) -> None:
        """Run the stage with the measured part: counters at its begin and end, limits lowered in it."""
        actions: list[Action] = []

        def count(moment: str) -> None:
            self.folder.write_json(f"counters-{moment}.json", self.session.engine.counters())
            for node, of_services in self.session.metrics().items():
                for service, page in of_services.items():
                    self.folder.write(metrics.name(service, moment), page.encode(), node)

        # what the connections' warm-up does, in the same stage, is not to be counted
        if phase.begin_s or phase is not stage.phases[0]:
            actions.append((phase.begin_s, lambda: count("begin")))
        else:
            count("begin")
        if phase.end_s is not None:
            actions.append((phase.end_s, lambda: count("end")))
        with self._waits(), self._intervened() as begin:
            self._drive(stage, [*actions, (phase.begin_s, begin)], self._measured)
        if phase.end_s is None:
            count("end")

    def keep_log(self) -> None:
        """Keep what the engine logged since the cold start."""
        for node in self.session.nodes:
            try:
                log = self.session.log(node)
            except BenchlabError as error:
                log = f"benchlab: not readable: {error}\n".encode()
            self.folder.write("engine.log", log, node.name)

    def close(self, error: str | None) -> Record:
        """Gather the captures and close the folder."""
        for observers in self.observers:
            observers.collect(self.folder)
        if error and self._ran_out_of_memory():
            error += f" ({OUT_OF_MEMORY})"
        return self.folder.finish("failed" if error else "ok", error)

    def _ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of engine or load while the run was watched."""
        for captured in self.folder.path.rglob("sample.jsonl"):
            with suppress(ParseError):
                found = sample.samples(captured.read_text(), truncated_ok=True)
                if (found.filter(metric="oom_kills_per_s")["value"] > 0).any():
                    return True
        return False

    def _check_settings(self) -> None:
        settings = self.session.engine.settings(self.trial.point.settings)
        self.folder.write_json(SETTINGS, [setting.model_dump() for setting in settings])
        if reason := without_effect(self.trial.point.engine, settings):
            raise RunFailed(reason)

    @contextmanager
    def _intervened(self) -> Iterator[Callable[[], None]]:
        """Do to the system what the trial is about, if anything; what it gives is called to begin."""
        running = self._intervention()
        if running is None:
            yield lambda: None
            return

        def begin() -> None:
            running.begin()
            begun = time.time()
            self.folder.phases["blocks"] = (begun, begun + running.duration_s)

        try:
            yield begin
        finally:
            captures, problem = running.end()
            for name, content in captures.items():
                self.folder.write(name, content)
        if problem:
            raise RunFailed(problem)

    def _intervention(self) -> RunningIntervention | RunningWrites | None:
        seed = self.trial.seed
        match self.trial.intervention:
            case LimitBlocks() as requested:
                return RunningIntervention(self.session.primary, requested, seed)
            case SingleWrites() as requested:
                return RunningWrites(self.session.engine, self.tables, requested, seed)
        return None

    def _drive(
        self, stage: Stage, actions: Sequence[Action] = (), enough: Enough | None = None
    ) -> None:
        """Run the processes of a stage; its phases count from when the clients of all have begun.

        What a driver does before, connect them and read its files, is not part of a phase.

        Args:
            stage: of the driver.
            actions: what is to be done meanwhile, by seconds after the clients' begin.
            enough: whether processes that can end early are to; ``None``: never.
        """
        programs = []
        for process in stage.processes:
            self._prepare(process)
            argv = self.session.client_argv(process.argv, process.role, process.node)
            programs.append(Program(argv, process.stdin))
        clients = sum(not process.serves for process in stage.processes)
        begun: dict[int, float] = {}
        timers: list[_Timer] = []
        until = self._until(stage, enough) if enough else None

        def on_line(number: int, line: bytes) -> None:
            if until:
                until.line(number, line)
            at = None if number in begun else self.driver.begun(line, time.time())
            if at is None:
                return
            begun[number] = at
            if len(begun) == clients:
                for delay_s, action in actions:
                    timers.append(_Timer(delay_s, action))

        started = time.time()
        try:
            ended = run_programs(programs, stage.duration_s + _DRIVER_GRACE_S, on_line)
        except subprocess.TimeoutExpired as error:
            self.folder.write(f"{stage.processes[0].name}.out", error.stdout or b"")
            self.session.require_followed()  # commits may wait for a standby that is gone
            raise RunFailed(
                f"{self.driver.name} did not end within {_DRIVER_GRACE_S} s of its"
                f" {stage.duration_s} s"
            ) from error
        finally:
            for timer in timers:
                timer.cancel()
        end = time.time()
        for process, done in zip(stage.processes, ended, strict=True):
            self.folder.write(f"{process.name}.out", done.stdout)
            if done.stderr:
                self.folder.write(f"{process.name}.err", done.stderr)
            if process.makes_files:
                self._keep_files(process)
        self._check_ended(stage, ended)
        for timer in timers:
            timer.finish()
        if until:
            until.finish()
        began = max(begun.values(), default=started)
        for phase in stage.phases:
            phase_end = end if phase.end_s is None else began + phase.end_s
            phase_begin, _ = self.folder.phases.get(phase.name, (began + phase.begin_s, None))
            self.folder.phases[phase.name] = (phase_begin, phase_end)

    def _prepare(self, process: Process) -> None:
        """Make the folders of a process as it wants to find them."""
        node = self._node(process)
        if process.makes_files:
            node.empty(MADE)
        if process.control or process.stop:
            node.empty(CONTROL)
        for name, content in process.control.items():
            node.write(CONTROL / name, content)

    def _until(self, stage: Stage, enough: Enough) -> Until | None:
        """Return what ends a stage early; ``None`` if its processes cannot be."""
        clients = [process for process in stage.processes if not process.serves]
        if not all(process.stop for process in clients):
            return None
        importlib.import_module("benchlab.stats")  # now, and not while the load goes on
        begin: float | None = None

        def stop() -> None:
            for process in clients:
                self._node(process).run(*process.stop)

        def is_enough(tps: Sequence[float]) -> bool:
            nonlocal begin
            now = self._cycles
            begin = now if begin is None else begin  # what goes before the first second is no part
            return enough(tps, None if now is None else steady.spanned(begin, now))

        return Until(len(clients), self.driver.second_of, is_enough, stop)

    @property
    def _cycles(self) -> float | None:
        """Cycles of the engine's background work as it reported them last."""
        latest = self.background and self.background.latest
        return latest and latest["cycles"]

    def _node(self, process: Process) -> Node:
        return self.session.node(process.role, process.node)

    def _keep_files(self, process: Process) -> None:
        """Bring what a process has made on its node into the folder."""
        with tempfile.TemporaryDirectory(prefix="benchlab-made-") as copies:
            made = self._node(process).fetch(MADE, Path(copies))
            self.driver.keep(process, made, self._job, self.folder.path)

    def _check_ended(self, stage: Stage, ended: Sequence[ProgramEnded]) -> None:
        """Raise RunFailed unless every process ended well and saw no more errors than it may."""
        workload = self.trial.point.workload
        # one that was killed since another had failed is not the reason
        of_all = sorted(zip(stage.processes, ended, strict=True), key=lambda it: it[1].was_killed)
        for process, done in of_all:
            reason = self.driver.failure(process, done, workload)
            if reason is None:
                continue
            failure = f"{self.driver.name} {stage.phases[-1].name}: {reason[:_MESSAGE_LIMIT]}"
            self._node(process).run("true")  # the error of a host that is gone is clearer
            # a driver may crash on a lost connection without a word
            lost = self._server_lost()
            raise RunFailed(f"{lost}: {failure}" if lost else failure)

    def _server_lost(self) -> str | None:
        """Return what became of the engine if its processes are not those that were started.

        Of a server that somebody else runs nobody knows.
        """
        if self.session.found.external:
            return None
        engine, status = self.trial.point.engine, self.session.status()
        services = status.get("services", {})
        if status["pid"] is None:
            ended = [name for name, pid in services.items() if pid is None]
            return " ".join([engine, *(f"({name})" for name in ended), "died"])
        if self.services is not None and services != self.services:
            return f"{engine} was restarted"
        return None

    @contextmanager
    def _host_speed(self) -> Iterator[None]:
        """Measure how fast the hosts are, before and after."""
        before, after = speed.MOMENTS
        self._measure_speed(before)
        yield
        self._measure_speed(after)

    def _measure_speed(self, moment: str) -> None:
        for node in used(self.session):
            self.folder.write(speed.name(moment), node.agent("speed"), node.name)

    @contextmanager
    def _waits(self) -> Iterator[None]:
        """Sample what the engine's sessions wait for, where it reports that."""
        if not self.session.engine.waits_query:
            yield
            return
        poll = sessions.poll(self.session.engine)
        try:
            yield
        finally:
            self.folder.write(sessions.NAME, poll.stop())

    @contextmanager
    def _background(self) -> Iterator[None]:
        """Ask how far the engine's background work is, if the workload makes any."""
        if not self.trial.point.workload.writes:
            yield
            return
        self.background = background.poll(self.session)
        try:
            yield
        finally:
            self.folder.write(background.NAME, self.background.stop())

    @contextmanager
    def _replication(self) -> Iterator[None]:
        """Ask how far the standbys are, where there are any."""
        if len(self.session.nodes) < 2 or not self.session.engine.standbys_query:
            yield
            return
        poll = replication.poll(self.session.engine)
        try:
            yield
        finally:
            self.folder.write(replication.NAME, poll.stop())

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begin = time.time()
        yield
        self.folder.phases[name] = (begin, time.time())


class _Timer:
    """Something that is done after some seconds, in a thread of its own."""

    def __init__(self, delay_s: float, action: Callable[[], None]):
        self._outcome: Future[None] = Future()
        self._action = action
        self._timer = threading.Timer(delay_s, self._run)
        self._timer.start()

    def cancel(self) -> None:
        """Leave it undone if it has not begun."""
        self._timer.cancel()

    def finish(self) -> None:
        """Wait for its end, if it has begun, and raise what went wrong in it."""
        self._timer.join()
        if self._outcome.done():
            self._outcome.result()

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self._outcome.set_exception(error)
