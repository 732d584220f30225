"""Run one stage of a driver: its processes, in parallel on the load's hosts, to their end."""

import importlib
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchlab.agent.system import use_normal_scheduling
from benchlab.drivers.base import CONTROL, MADE, Driver, Job, Process, Stage
from benchlab.errors import BenchlabError, RunFailed, TargetError
from benchlab.gate import steady
from benchlab.raw.record import RunFolder
from benchlab.run.process import Ended, Program, TimedOut
from benchlab.run.process import run as run_programs
from benchlab.run.until import Until
from benchlab.target import Node
from benchlab.target.session import Session

#: Characters of a driver's message that are quoted: enough for a whole failed statement.
_MESSAGE_LIMIT = 300

#: Seconds after the clients of a stage have started, and what is done then.
Action = tuple[float, Callable[[], None]]

#: Decides whether a stage may end, from the throughput of each second so far and the number of cycles
#: of the engine's background work.
Enough = Callable[[Sequence[float], float | None], bool]


@dataclass(frozen=True)
class Stages:
    """Runs the stages of one trial's driver, one at a time."""

    session: Session
    folder: RunFolder
    """Receives the output and the files of the processes, and the phases."""
    driver: Driver
    job: Job
    cycles: Callable[[], float | None]
    """Returns the last reported number of cycles of the engine's background work."""

    def run(
        self, stage: Stage, actions: Sequence[Action] = (), enough: Enough | None = None
    ) -> None:
        """Run the processes of a stage; its phases count from when all clients have started.

        What a driver does before, such as connecting and reading its files, is not part of a phase.

        Args:
            stage: a stage of the driver.
            actions: what is done meanwhile, with the seconds after the start of the clients.
            enough: decides whether processes that can end early do so; ``None``: they never do.
        """
        programs = []
        for process in stage.processes:
            self._prepare(process)
            argv = self.session.client_argv(process.argv, process.role, process.node)
            programs.append(Program(argv, process.stdin))
        clients = sum(not process.serves for process in stage.processes)
        start = _Start(clients, self.driver.begun, actions)
        until = self._until(stage, enough) if enough else None

        def on_line(number: int, printed: bytes) -> None:
            line = printed.decode(errors="replace").rstrip("\n")
            if until:
                until.line(number, line)
            start.line(number, line)

        started = time.time()
        try:
            ended = run_programs(programs, stage.duration_s + stage.grace_s, on_line)
        except TimedOut as late:
            self._keep_output(stage, late.ended)
            with suppress(BenchlabError):  # that it is late says more than what its files lack
                self._keep_files(stage)
            self._end_servers(stage)
            self.session.require_followed()  # commits may wait for a standby that is gone
            raise RunFailed(
                f"{self.driver.name} did not end within {stage.grace_s:g} s of its"
                f" {stage.duration_s} s"
            ) from late
        finally:
            start.cancel()
            if until:
                until.cancel()
        end = time.time()
        self._keep_output(stage, ended)
        try:
            self._keep_files(stage)
        except TargetError:  # a host that is gone ended the load, too, which says more
            self._check_ended(stage, ended)
            raise
        self._check_ended(stage, ended)
        start.finish()
        if until:
            until.finish()
        began = start.at() or started
        for phase in stage.phases:
            phase_end = end if phase.end_s is None else began + phase.end_s
            phase_begin, _ = self.folder.phases.get(phase.name, (began + phase.begin_s, None))
            self.folder.phases[phase.name] = (phase_begin, phase_end)

    def _prepare(self, process: Process) -> None:
        """Prepare the folders of a process on its node."""
        node = self._node(process)
        if process.makes_files:
            node.empty(MADE)
        if process.control or process.stop:
            node.empty(CONTROL)
        for name, content in process.control.items():
            node.write(CONTROL / name, content)

    def _until(self, stage: Stage, enough: Enough) -> Until | None:
        """Return what ends a stage early; ``None`` if its processes cannot be ended early."""
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
            now = self.cycles()
            begin = now if begin is None else begin  # cycles before the first second do not count
            return enough(tps, None if now is None else steady.cycles_between(begin, now))

        return Until(len(clients), self.driver.second_of, is_enough, stop)

    def _node(self, process: Process) -> Node:
        return self.session.node(process.role, process.node)

    def _keep_output(self, stage: Stage, ended: Sequence[Ended]) -> None:
        """Write what each process printed into the run's folder."""
        for process, done in zip(stage.processes, ended, strict=True):
            self.folder.write(f"{process.name}.out", done.stdout)
            if done.stderr:
                self.folder.write(f"{process.name}.err", done.stderr)

    def _keep_files(self, stage: Stage) -> None:
        """Copy the files that processes made into the run's folder."""
        made_on: dict[str, list[Process]] = defaultdict(list)
        for process in stage.processes:
            if process.makes_files:
                made_on[self._node(process).name].append(process)
        for processes in made_on.values():
            # beside where they go: /tmp may be memory
            with tempfile.TemporaryDirectory(prefix=".made-", dir=self.folder.path) as copies:
                made = self._node(processes[0]).fetch(MADE, Path(copies))
                for process in processes:
                    self.driver.keep(process, made, self.job, self.folder.path)

    def _check_ended(self, stage: Stage, ended: Sequence[Ended]) -> None:
        """Raise RunFailed unless every process ended well, without too many errors."""
        # a process that was killed because another had failed is not the reason
        of_all = sorted(zip(stage.processes, ended, strict=True), key=lambda it: it[1].was_killed)
        for process, done in of_all:
            reason = self.driver.failure(process, done, self.job.workload)
            if reason is None:
                continue
            failure = f"{self.driver.name} {stage.phases[-1].name}: {reason[:_MESSAGE_LIMIT]}"
            self._end_servers(stage)
            self._node(process).run("true")  # raises a clearer error if the host is gone
            raise RunFailed(failure)

    def _end_servers(self, stage: Stage) -> None:
        """End the servers of a stage that failed: on another host one outlives its ssh client."""
        for process in stage.processes:
            if process.serves and process.stop:
                with suppress(TargetError):  # it has ended, or its host is gone
                    self._node(process).run(*process.stop)


class _Start:
    """When the clients of a stage started, and the actions whose time counts from then."""

    def __init__(
        self,
        clients: int,
        begun: Callable[[str, float], float | None],
        actions: Sequence[Action],
    ):
        """Start with no client.

        Args:
            clients: number of processes that are clients.
            begun: see :meth:`benchlab.drivers.base.Driver.begun`.
            actions: are started once all clients have.
        """
        self._clients, self._begun_at, self._actions = clients, begun, actions
        self._begun: dict[int, float] = {}
        self._lock = threading.Lock()  # lines of several processes come in threads of their own
        self._timers: list[_Timer] = []

    def line(self, number: int, line: str) -> None:
        """Take a line that a process printed."""
        at = None if number in self._begun else self._begun_at(line, time.time())
        if at is None:
            return
        with self._lock:
            self._begun[number] = at
            is_last = len(self._begun) == self._clients
        if is_last:
            self._timers += [_Timer(delay_s, action) for delay_s, action in self._actions]

    def at(self) -> float | None:
        """Return when the last client started, in Unix seconds; ``None``: no client has reported it."""
        return max(self._begun.values(), default=None)

    def cancel(self) -> None:
        """Start no further action, and wait for those that have started."""
        for timer in self._timers:
            timer.cancel()

    def finish(self) -> None:
        """Raise the error of an action that failed."""
        for timer in self._timers:
            timer.finish()


class _Timer:
    """An action that is done after some seconds, in its own thread."""

    def __init__(self, delay_s: float, action: Callable[[], None]):
        self._outcome: Future[None] = Future()
        self._action = action
        self._timer = threading.Timer(delay_s, self._run)
        self._timer.start()

    def cancel(self) -> None:
        """Do not start the action if it has not started yet; otherwise wait until it has ended."""
        self._timer.cancel()
        self._timer.join()

    def finish(self) -> None:
        """Raise the error of the action, if it was started and failed."""
        if self._outcome.done():
            self._outcome.result()

    def _run(self) -> None:
        use_normal_scheduling()  # not that of the thread that reads lines and started this one
        try:
            self._action()
        except BaseException as error:
            self._outcome.set_exception(error)
