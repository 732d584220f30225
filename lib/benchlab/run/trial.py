"""Run one trial: cold start, warm-up, measured part, and everything that is kept of the run."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchlab import drivers
from benchlab.agent.system import wait_until
from benchlab.drivers.base import Driver, Job, Phase, Stage
from benchlab.engines import without_effect
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
from benchlab.raw import text
from benchlab.raw.record import (
    CARDINALITIES,
    COLD,
    ENGINE_LOG,
    HOST,
    OUT_OF_MEMORY,
    QUERY_PLAN,
    RATE,
    SETTINGS,
    Record,
    RunFolder,
)
from benchlab.run.intervention import RunningIntervention
from benchlab.run.observe import Observers, used, watch
from benchlab.run.single_writes import RunningWrites
from benchlab.run.stage import Action, Stages
from benchlab.study.intervention import LimitBlocks, OutcomeChecks, SingleWrites
from benchlab.study.roles import APP, LOAD
from benchlab.target.session import Session
from benchlab.workloads import tables_of
from benchlab.workloads.base import Tables

#: Most seconds of the warm-up that use the connections of the measured part. PostgreSQL's connections
#: took up to 10 s to reach full speed (a recursive query on 10 to 80 connections, on 2 cores).
CONNECTIONS_S = 10

#: Seconds in which a killed service ends. Its connections close first: a load ended up to 13 ms before
#: PostgreSQL's main process (SIGKILL, idle on 2 cores).
_DYING_S = 2.0

#: Last lines of a dead service's log that a run's error has.
_LAST_LINES = 3


@dataclass(frozen=True)
class EndedTrial:
    """A trial whose load has ended or never started."""

    began: bool
    """Whether its engine started as requested, with the dataset restored if that was requested."""
    close: Callable[[], Record]
    """Closes the run's folder; to be called at any time before the next load starts."""


def run_trial(
    session: Session,
    trial: Trial,
    raw: Path,
    restore: bool,
    before_load: Callable[[], object],
    peak_tps: float | None = None,
) -> EndedTrial:
    """Run a trial; an error of the engine or the load fails only this run.

    Gathering the captures takes a second, and the next trial's cold start need not wait for it. So it
    is left to :attr:`EndedTrial.close`.

    Args:
        session: the engine.
        trial: what to run.
        raw: folder of all raw run folders.
        restore: whether to start from the restored dataset, not from the state after the last run.
        before_load: called right before the load starts; it waits for everything still under way.
        peak_tps: throughput of the closed loop with the same number of clients, for a trial of an open
            loop.
    """
    folder = RunFolder(raw, trial, session.deployment.name, session.roles)
    if reason := refusal(session, trial.point):
        return EndedTrial(False, lambda: folder.finish("refused", reason))
    for node in session.roles:
        folder.write_json(HOST, session.provisioned.hosts[node], node)
    run = _Run(session, trial, folder)
    if peak_tps is not None:
        run.rate_per_s = round(peak_tps * trial.point.share_of_peak)
        if run.rate_per_s < 1:
            reason = (
                f"the closed loop had {peak_tps:g} transactions/s, of which less than 1/s is due"
            )
            return EndedTrial(False, lambda: folder.finish("failed", reason))
        folder.write_json(RATE, {"peak_tps": peak_tps, "rate_per_s": run.rate_per_s})
    error, began = None, False
    try:
        run.start(restore)
        began = True
        before_load()
        run.measure()
    except BenchlabError as failure:
        error = run.explained(str(failure))
    run.keep_log()
    return EndedTrial(began, lambda: run.close(error))


def refusal(session: Session, point: Point) -> str | None:
    """Return why this target cannot run a point, or ``None``."""
    found = session.found
    engine = point.engine_type
    return (
        found.refused
        or found.refused_variants.get(point.variant)
        or drivers.driver(point.workload.driver).refusal(engine, point.workload)
    )


@dataclass
class _Run:
    """A running trial."""

    session: Session
    trial: Trial
    folder: RunFolder
    rate_per_s: int | None = None
    observers: list[Observers] = field(default_factory=list)
    background: Poll | None = None
    """Samples the engine's background work; ``None``: not started, or the workload only reads."""
    services: dict[str, dict[str, int]] = field(default_factory=dict)
    """Node → service of the engine → id of its process at the start; empty: it has not started, or
    somebody else runs it."""

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
        """Job of the driver."""
        point = self.trial.point
        each, longest_s = point.transactions_per_client, point.longest_s
        warmup_s = self._server_warmup_s
        if longest_s:
            warmup_s = steady.least_warmup_s(warmup_s, point.workload.writes)
            if warmup_s and not self.driver.ramps_up:
                # at most: it is ended once it is long enough
                warmup_s = max(longest_s, warmup_s)
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
        """Seconds of the warm-up without those for the connections of the measured part."""
        whole_s = self.trial.point.warmup_s
        return max(0, whole_s - CONNECTIONS_S) if self.driver.warms_connections else whole_s

    def start(self, restore: bool) -> None:
        """Start the engine cold, check its settings, and prewarm the data if the profile says so."""
        point, session = self.trial.point, self.session
        with self._phase("check" if point.start == AS_FOUND else "cold"):
            key, memory = point.dataset_key, point.envelope.connections_memory_bytes
            cold = session.cold(point.variant, key if restore else None, memory)
        for node, said in cold.items():
            self.folder.write_json(COLD, said, node)
            self.services[node] = said["services"]
        session.engine.tune(point.settings)
        self._check_settings()
        self.tables.prepare(session.engine, point.workload)
        for name, content in self.tables.files(session.engine).items():
            for node in session.load:
                node.write(self.tables.folder / name, content)
        if point.start == "prewarm":
            with self._phase("prewarm"):
                session.engine.prewarm(point.dataset)
        # they were counted when the dataset was loaded, and nobody restores that of an external server
        is_as_loaded = restore and not session.found.external
        if is_as_loaded and (found := self.tables.cardinalities(session.engine)):
            self.folder.write_json(CARDINALITIES, found)
        if query := self.tables.example_query(session.engine, point.workload):
            self.folder.write(QUERY_PLAN, session.engine.explain(query).encode())

    def measure(self) -> None:
        """Run warm-up and measured part, or checks, within the envelope."""
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
        """Run all stages of the driver while the observers watch."""
        stages = self.driver.stages(self._job)
        longest_s = sum(stage.duration_s + stage.grace_s for stage in stages)
        self.observers = watch(self.session, self.trial.point.log_latency, longest_s)
        try:
            for observers in self.observers:
                observers.wait()
            with (
                self._polled(background.NAME, self._poll_background()),
                self._polled(replication.NAME, self._poll_standbys()),
            ):
                for stage in stages:
                    if phase := stage.measured:
                        self._measure(stage, phase)
                    else:
                        self._stages.run(stage, enough=self._warm)
            self.session.require_followed()
            if lost := self._server_lost():
                raise RunFailed(f"{lost[0]} while the load ran")
        finally:
            for observers in self.observers:
                observers.stop()

    def _check_outcomes(self, requested: OutcomeChecks) -> None:
        """Make checks instead of a load."""
        engine = self.session.engine
        checks = (self.tables.outcomes(check, engine) for check in requested.checks)
        with self._phase("measure"):
            self._keep_outcomes(itertools.chain.from_iterable(checks))

    def _keep_outcomes(self, found: Iterable[outcomes.Outcome]) -> None:
        """Write outcomes to a file, including those before an error; no file if there are none."""
        lines: list[str] = []
        try:
            lines.extend(map(outcomes.line, found))
        finally:
            if lines:
                self.folder.write(outcomes.NAME, "".join(lines).encode())

    def _warm(self, tps: Sequence[float], cycles: float | None) -> bool:
        point = self.trial.point
        return steady.is_warm(len(tps), self._server_warmup_s, point.workload.writes, cycles)

    def _measured(self, tps: Sequence[float], cycles: float | None) -> bool:
        point = self.trial.point
        kept = tps[:-1]  # the last second may be incomplete at the end of the run
        return (
            self.trial.intervention is None
            and len(kept) >= point.measure_s
            and steady.may_end(kept, point.workload.writes, cycles, self._warmed_s)
        )

    @property
    def _warmed_s(self) -> float:
        """Seconds of load before the measured part."""
        # the warm-up is in the same stage, whose phases are known at its end
        if self.driver.ramps_up:
            return self._job.warmup_s
        begin, end = self.folder.phases.get("warmup", (0.0, 0.0))
        return end - begin

    def _measure(self, stage: Stage, phase: Phase) -> None:
        """Run the stage with the measured part: counters at its start and end, and the intervention."""
        actions: list[Action] = []

        def count(moment: str) -> None:
            times = [time.time()]
            pages = self.session.metrics()
            times.append(time.time())
            counters = self.session.engine.counters()
            times.append(time.time())
            # if a server has pages, what the load changes is in them; under load either takes a while
            begin, end = times[:2] if pages else times[1:]
            counters[metrics.COUNTED_AT] = (begin + end) / 2
            counters |= self.session.engine.sizes()
            for node, of_services in pages.items():
                for service, page in of_services.items():
                    self.folder.write(metrics.name(service, moment), page.encode(), node)
            self.folder.write_json(f"counters-{moment}.json", counters)

        # the connections' warm-up in the same stage must not be counted
        if phase.begin_s or phase is not stage.phases[0]:
            actions.append((phase.begin_s, lambda: count("begin")))
        else:
            count("begin")
        with self._polled(sessions.NAME, self._poll_sessions()), self._intervened() as begin:
            self._stages.run(stage, [*actions, (phase.begin_s, begin)], self._measured)
        count("end")

    def keep_log(self) -> None:
        """Write the engine's log since the cold start into the run's folder."""
        for node in self.session.nodes:
            try:
                log = self.session.log(node)
            except BenchlabError as error:
                log = f"benchlab: not readable: {error}\n".encode()
            self.folder.write(ENGINE_LOG, log, node.name)

    def close(self, error: str | None) -> Record:
        """Gather the captures and close the run's folder; ``error``: why the run failed."""
        for observers in self.observers:
            observers.collect(self.folder)
        if error and self._ran_out_of_memory():
            error += f" ({OUT_OF_MEMORY})"
        return self.folder.finish("failed" if error else "ok", error)

    def _ran_out_of_memory(self) -> bool:
        """Return whether the kernel killed a process of engine or load for lack of memory."""
        for captured in self.folder.path.rglob("sample.jsonl"):
            with suppress(ParseError):
                found = sample.samples(text.read(captured))
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
        """Prepare the trial's intervention, if any; yield the function that starts it."""
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

    @cached_property
    def _stages(self) -> Stages:
        return Stages(self.session, self.folder, self.driver, self._job, self._cycles)

    def _cycles(self) -> float | None:
        """Return the last reported number of cycles of the engine's background work."""
        latest = self.background and self.background.latest
        return latest and latest["cycles"]

    def explained(self, failure: str) -> str:
        """Return why the run failed: first what happened to the engine, if a service of it is gone.

        A load generator may crash on a lost connection without a word, or wait in vain.
        """
        try:
            wait_until(lambda: self._server_lost() is not None, _DYING_S)
            lost = self._server_lost()
        except BenchlabError:  # its host is gone, too
            return failure
        if lost is None:
            return failure
        what, last_lines = lost
        failure = failure if failure.startswith(what) else f"{what}: {failure}"
        return f"{failure}; its last lines: {' | '.join(last_lines)}" if last_lines else failure

    def _server_lost(self) -> tuple[str, list[str]] | None:
        """Return what happened to a service of the engine that was started, and its last lines.

        ``None`` if all are still there, and for a server that somebody else runs.
        """
        for node, services in self.services.items():
            status = self.session.status(node)
            named = [self.trial.point.engine]
            if ended := status["ended"]:
                service, last_lines = next(iter(ended.items()))
                named += [f"({service})"] if len(services) > 1 else []
                named += [f"on {node}"] if len(self.services) > 1 else []
                return " ".join([*named, "died"]), last_lines[-_LAST_LINES:]
            if status["services"] != services:
                how = "restarted" if status["services"] else "stopped"
                return f"{' '.join(named)} was {how}", []
        return None

    @contextmanager
    def _host_speed(self) -> Iterator[None]:
        """Measure the speed of the hosts before and after."""
        before, after = speed.MOMENTS
        self._measure_speed(before)
        yield
        self._measure_speed(after)

    def _measure_speed(self, moment: str) -> None:
        for node in used(self.session):
            self.folder.write(speed.name(moment), node.agent("speed"), node.name)

    @contextmanager
    def _polled(self, name: str, poll: Poll | None) -> Iterator[None]:
        """Keep what a poll reads while the block runs; ``None``: nothing is polled."""
        try:
            yield
        finally:
            if poll:
                self.folder.write(name, poll.stop())

    def _poll_sessions(self) -> Poll | None:
        """Start to poll what the engine's sessions do, if the engine reports it."""
        engine = self.session.engine
        return sessions.poll(engine) if engine.waits_query else None

    def _poll_background(self) -> Poll | None:
        """Start to poll the engine's background work, if the workload writes."""
        if self.trial.point.workload.writes:
            self.background = background.poll(self.session)
        return self.background

    def _poll_standbys(self) -> Poll | None:
        """Start to poll how far the standbys are, if there are any and the engine reports it."""
        engine = self.session.engine
        has_any = len(self.session.nodes) > 1 and engine.standbys_query
        return replication.poll(engine) if has_any else None

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begin = time.time()
        yield
        self.folder.phases[name] = (begin, time.time())
