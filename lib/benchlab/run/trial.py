"""Run one trial: cold start, warm-up, measurement, and everything that is kept of it."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchlab.attribution import blocks
from benchlab.drivers import sysbench
from benchlab.drivers import sysbench_output as parse_sysbench
from benchlab.engines import without_effect
from benchlab.errors import BenchlabError, ParseError, RunFailed
from benchlab.observers import sample
from benchlab.observers.sessions import NAME as WAITS
from benchlab.observers.sessions import SessionSampler
from benchlab.plan import Point, Trial
from benchlab.raw.record import OUTPUT, PLAN, RATE, SETTINGS, Record, RunFolder
from benchlab.run import process
from benchlab.run.intervention import Lowering
from benchlab.run.observe import Observers, watch
from benchlab.run.schedule import schedule
from benchlab.target.session import Session
from benchlab.workloads import Tables, tables_of

#: Seconds that a driver may take beyond its run time: connecting, the last transactions.
_DRIVER_GRACE_S = 120

#: A failed statement is quoted whole.
_MESSAGE_LIMIT = 300


def run_trial(
    session: Session,
    trial: Trial,
    raw: Path,
    restore: bool,
    before_load: Callable[[], object],
    peak_tps: float | None = None,
) -> Callable[[], Record]:
    """Run a trial; whatever goes wrong with the engine or the load fails this run only.

    Gathering the captures takes a second that the next trial's cold start need not wait for. So what
    is left to do is returned, to be called at any time before the next load begins.

    Args:
        session: the engine.
        trial: what to run.
        raw: where run folders lie.
        restore: begin from the dataset, not from what the last run left of it.
        before_load: called right before the load begins; what still goes on must have ended by then.
        peak_tps: highest throughput of the closed loop, for a trial that runs at a share of it.

    Returns:
        Call it to close the run's folder and get its record.
    """
    target = session.provisioned.target
    folder = RunFolder(raw, trial, target.name, target.single_host)
    if reason := refusal(session, trial.point):
        return lambda: folder.finish("refused", reason)
    folder.write_json("host.json", session.provisioned.host)
    if session.provisioned.client_host:
        folder.write_json("client-host.json", session.provisioned.client_host)
    run = _Run(session, trial, folder)
    if peak_tps:
        run.rate_per_s = round(peak_tps * trial.point.share_of_peak)
        folder.write_json(RATE, {"peak_tps": peak_tps, "rate_per_s": run.rate_per_s})
    error = None
    try:
        run.start(restore)
        before_load()
        run.measure()
    except BenchlabError as failure:
        error = str(failure)
    run.keep_log()
    return lambda: run.close(error)


def refusal(session: Session, point: Point) -> str | None:
    """Return why this target cannot run a point, or ``None``."""
    found = session.found
    return found.refused or found.refused_variants.get(point.variant)


@dataclass
class _Run:
    """One trial under way."""

    session: Session
    trial: Trial
    folder: RunFolder
    rate_per_s: int | None = None
    observers: list[Observers] = field(default_factory=list)

    @property
    def tables(self) -> Tables:
        """The tables of the point's dataset."""
        return tables_of(self.trial.point.dataset)

    @property
    def _transactions(self) -> int | None:
        """Over all clients, after which the measured part ends; ``None``: only time ends it."""
        point = self.trial.point
        each = point.transactions_per_client
        return each and each * point.concurrency

    def start(self, restore: bool) -> None:
        """Cold start, settings checked, data read in if the profile asks for it."""
        point, session = self.trial.point, self.session
        with self._phase("cold"):
            cold = session.cold(point.variant, point.dataset_key if restore else None)
            self.folder.write_json("cold.json", cold)
        self._check_settings()
        for name, content in self.tables.files(session.engine).items():
            session.client.write(self.tables.folder / name, content)
        if point.start == "read_in":
            with self._phase("read_in"):
                session.engine.read_in(point.dataset)
        if query := self.tables.example_query(session.engine, point.workload):
            self.folder.write(PLAN, session.engine.explain(query).encode())

    def measure(self) -> None:
        """Warm-up and measured part, inside the envelope and under the observers' eyes."""
        point, engine = self.trial.point, self.session.engine
        self.session.limit(point.envelope)
        self.observers = watch(self.session.provisioned.target)
        try:
            if point.warmup_s:
                # another seed than the measured part's, which would draw the same rows again
                self._drive("warmup", point.warmup_s, self.trial.seed + 1)
            self.folder.write_json("counters-begin.json", engine.counters())
            with self._waits(), self._lowered() as begin:
                self._drive("measure", point.measure_s, self.trial.seed, self._transactions, begin)
            self.folder.write_json("counters-end.json", engine.counters())
        finally:
            for observers in self.observers:
                observers.stop()

    def keep_log(self) -> None:
        """Keep what the engine logged since the cold start."""
        try:
            self.folder.write("engine.log", self.session.log())
        except BenchlabError as error:
            self.folder.write("engine.log", f"benchlab: not readable: {error}\n".encode())

    def close(self, error: str | None) -> Record:
        """Gather the captures and close the folder."""
        for observers in self.observers:
            observers.collect(self.folder)
        if error and self._ran_out_of_memory():
            error += " (the kernel killed a process for want of memory)"
        return self.folder.finish("failed" if error else "ok", error)

    def _ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of engine or load while the run was watched."""
        captured = self.folder.path / "sample.jsonl"
        if not captured.exists():
            return False
        with suppress(ParseError):
            found = sample.samples(captured.read_text(), truncated_ok=True)
            return (found.filter(metric="oom_kills_per_s")["value"] > 0).any()
        return False

    def _check_settings(self) -> None:
        settings = self.session.engine.settings(self.trial.point.settings)
        self.folder.write_json(SETTINGS, [setting.model_dump() for setting in settings])
        if reason := without_effect(self.trial.point.engine, settings):
            raise RunFailed(reason)

    @contextmanager
    def _lowered(self) -> Iterator[Callable[[], None]]:
        """Lower limits block by block if the trial is about that; what it gives is called to begin."""
        intervention = self.trial.intervention
        if intervention is None:
            yield lambda: None
            return
        lowering = Lowering(self.session.server, schedule(intervention, self.trial.seed))

        def begin() -> None:
            lowering.begin()
            told = time.time()
            self.folder.phases["blocks"] = (told, told + intervention.duration_s)

        try:
            yield begin
        finally:
            printed, problem = lowering.end()
            self.folder.write(blocks.FILE, printed)
        if problem:
            raise RunFailed(problem)

    def _drive(
        self,
        phase: str,
        duration_s: int,
        seed: int,
        transactions: int | None = None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """Run the driver; the phase begins as its clients do, and then ``begin`` is called.

        What the driver does before, connect them and read its files, is not part of the phase.
        """
        point, engine = self.trial.point, self.session.engine
        output = OUTPUT[phase]
        name = output.removesuffix(".out")
        command = sysbench.run(
            engine,
            self.tables.script(point.workload),
            {**point.workload.options, **self.tables.options()},
            point.concurrency,
            duration_s,
            seed,
            transactions,
            self.rate_per_s,
        )

        began = time.time()

        def on_line(line: bytes) -> None:
            nonlocal began
            if line.rstrip() == parse_sysbench.STARTED:
                began = time.time()
                begin()

        try:
            done = process.run(
                self.session.client_argv(command),
                sysbench.config_file(engine),
                duration_s + _DRIVER_GRACE_S,
                on_line,
            )
        except subprocess.TimeoutExpired as error:
            self.folder.write(output, error.stdout or b"")
            raise RunFailed(
                f"sysbench did not end within {_DRIVER_GRACE_S} s of its {duration_s} s"
            ) from error
        ended = time.time()
        self.folder.write(output, done.stdout)
        if done.stderr:
            self.folder.write(f"{name}.err", done.stderr)
        try:
            _check_driver(name, point, done)
        except RunFailed as failure:
            self.session.client.run("true")  # of a host that is gone this tells more
            # sysbench may crash on a lost connection without a word
            if self.session.status()["pid"] is None:
                raise RunFailed(f"{point.engine} died: {failure}") from failure
            raise
        self.folder.phases[phase] = (began, ended)

    @contextmanager
    def _waits(self) -> Iterator[None]:
        """Look at what the engine's sessions wait for, where it tells."""
        if not self.session.engine.waits_query:
            yield
            return
        looks = SessionSampler(self.session.engine)
        try:
            yield
        finally:
            self.folder.write(WAITS, looks.stop())

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begin = time.time()
        yield
        self.folder.phases[name] = (begin, time.time())


def _check_driver(name: str, point: Point, done: subprocess.CompletedProcess[bytes]) -> None:
    """Raise RunFailed unless the driver ended well and saw no more errors than the workload's own."""
    fatal = parse_sysbench.errors((done.stdout + done.stderr).decode(errors="replace"))
    if fatal or done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        reason = fatal[0] if fatal else f"ended with exit code {done.returncode}: {said[-1]}"
        raise RunFailed(f"sysbench {name}: {reason[:_MESSAGE_LIMIT]}")
    summary = parse_sysbench.summary(done.stdout.decode())
    tolerated = point.workload.tolerated_error_share * summary["transactions"]
    if summary["ignored_errors"] > tolerated or summary["reconnects"]:
        raise RunFailed(
            f"sysbench {name}: {summary['ignored_errors']} errors and {summary['reconnects']}"
            f" reconnects in {summary['transactions']} transactions"
        )
