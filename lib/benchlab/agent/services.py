"""The services of an engine: processes of its own user, started in order, stopped in reverse.

Every process of the engine's own user *is* the engine. This also holds if the pid file is lost, if a
main process has died before its children, or if a process has left the cgroup.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from .config import AgentError, EngineConfig, Service, Variant
from .envelope import Envelope
from .system import Process, kill_all, listener, process, processes_of, send, wait_until

#: A readiness probe that takes longer is killed and tried again.
PROBE_TIMEOUT_S = 10.0
PROBE_INTERVAL_S = 0.1
LOG_LINES = 8
LOG_TAIL_BYTES = 64 * 1024


class Services:
    """The processes of one engine."""

    def __init__(self, config: EngineConfig, envelope: Envelope) -> None:
        """Raises AgentError if the engine's user does not exist."""
        self.config, self.envelope = config, envelope
        self.account, self.proc = config.account, envelope.roots.proc

    def start(self, variant: str) -> None:
        """Start each service once the one before it answers, and wait for the last.

        Their logs begin anew. If a service dies or does not answer in time, all are killed and
        AgentError is raised.
        """
        for folder in (self.config.log.parent, self.config.pid_file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        for log in self.config.logs():
            log.unlink()
        try:
            _Start(self, variant).run()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> bool:
        """Stop the engine; return False if stop_signal did not end it within stop_timeout_s."""
        signalled: set[int] = set()

        def gone() -> bool:
            # children that outlive the main process get one signal, too
            new = set(self._next_to_stop()) - signalled
            send(new, signal.Signals[self.config.stop_signal])
            signalled.update(new)
            return not new and not self.living()

        in_time = wait_until(gone, self.config.stop_timeout_s)
        if not in_time:
            self.kill()
        self.config.pid_file.unlink(missing_ok=True)
        return in_time

    def kill(self) -> None:
        """Send SIGKILL to all processes. Raises AgentError if one outlives it."""
        kill_all(
            self.proc, lambda: [one.pid for one in self.living()], f"engine {self.config.engine}"
        )
        self.config.pid_file.unlink(missing_ok=True)

    def living(self) -> list[Process]:
        """Return all living processes of the engine's user."""
        return processes_of(self.proc, self.account.pw_uid)

    def recorded(self, living: list[Process]) -> tuple[str | None, dict[str, Process | None]]:
        """Return the started variant, and each service's process; None for a service that has ended.

        Returns (None, {}) if none of them lives.
        """
        variant, found = self._found(living)
        return (variant, found) if any(found.values()) else (None, {})

    def ended(self, living: list[Process]) -> dict[str, list[str]]:
        """Return each service that has ended without a stop, with the last lines of its log."""
        variant, found = self._found(living)
        return {
            name: last_lines(self.config.log_of(variant, name))
            for name, lives in found.items()
            if not lives
        }

    def _found(self, living: list[Process]) -> tuple[str | None, dict[str, Process | None]]:
        """Return the variant that was started and not stopped; service → its process, if that lives."""
        try:
            record = json.loads(self.config.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None, {}
        known = {(one.pid, one.start_ticks): one for one in living}
        return record["variant"], {
            name: known.get(tuple(of)) for name, of in record["services"].items()
        }

    def _next_to_stop(self) -> list[int]:
        """Return the living service started last; if none, those with parents outside the engine."""
        living = self.living()
        _, services = self.recorded(living)
        if mains := [one.pid for one in services.values() if one]:
            return mains[-1:]
        pids = {one.pid for one in living}
        return [one.pid for one in living if one.parent not in pids]


class _Start:
    """A start in progress: the data that all services share, and the services started so far."""

    def __init__(self, services: Services, variant: str) -> None:
        self.config, self.envelope = services.config, services.envelope
        self.account, self.proc = services.account, services.proc
        self.name, self.variant = variant, self.config.variant(variant)
        self.environment = self._environment(self.variant)
        self.deadline = time.monotonic() + self.config.ready_timeout_s
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.recorded: dict[str, tuple[int, int]] = {}

    def run(self) -> None:
        for service in self.variant.services:
            if holder := listener(self.proc, service.port):
                raise AgentError(
                    f"engine {self.config.engine}: port {service.port} is in use by {holder}"
                )
        self.envelope.cgroups.leave_services()
        for service in self.variant.services:
            self._launch(service)
            self._wait_ready(service)

    @property
    def _grouped(self) -> bool:
        """Whether each service gets a group of its own."""
        return len(self.variant.services) > 1

    def _launch(self, service: Service) -> None:
        with self.config.log_of(self.name, service.name).open("wb") as log:
            try:
                child = subprocess.Popen(
                    service.start,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    env=self.environment,
                    start_new_session=True,
                    preexec_fn=lambda: self._become_engine(service),
                )
            except OSError as error:
                raise AgentError(
                    f"engine {self.config.engine}: cannot start {service.start[0]}: {error.strerror}"
                ) from None
            except subprocess.SubprocessError:
                # preexec_fn's exception is lost in the child process
                raise AgentError(
                    f"engine {self.config.engine}: cannot enter the envelope as user {self.config.user}"
                ) from None
        self.children[service.name] = child
        if started := process(self.proc, child.pid):
            self.recorded[service.name] = (child.pid, started.start_ticks)
            record = {"variant": self.name, "services": self.recorded}
            self.config.pid_file.write_text(json.dumps(record) + "\n")

    def _become_engine(self, service: Service) -> None:
        """Run in the child before exec: enter the envelope as root, then become the engine's user."""
        self.envelope.enter("engine", service.name if self._grouped else None)
        os.setgroups([])
        os.setgid(self.account.pw_gid)
        os.setuid(self.account.pw_uid)

    def _environment(self, variant: Variant) -> dict[str, str]:
        """Return the services' environment, which is the same on every host and for every caller."""
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "HOME": self.account.pw_dir,
            "USER": self.config.user,
            **{name: str(value) for name, value in variant.env.items()},
        }

    def _wait_ready(self, service: Service) -> None:
        while True:
            self._require_alive()
            answer = self._answer(service)
            if answer is None and self.children[service.name].poll() is None:
                return
            if time.monotonic() >= self.deadline:
                raise AgentError(
                    f"engine {self.config.engine} not ready after {self.config.ready_timeout_s:g} s "
                    f"({answer}); {self._log_tail(service.name)}"
                )
            time.sleep(PROBE_INTERVAL_S)

    def _require_alive(self) -> None:
        for name, child in self.children.items():
            if (code := child.poll()) is not None:
                who = f"engine {self.config.engine}"
                who = f"service {name} of {who}" if self._grouped else who
                how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                raise AgentError(f"{who} ended {how} before it was ready; {self._log_tail(name)}")

    def _answer(self, service: Service) -> str | None:
        """Return None if the service answers, else the reason.

        On the engine's port the probe must succeed; on another port a process must listen.
        """
        if service.port == self.config.port:
            said = self._probe()
            return said and f"probe {self.config.ready[0]}: {said}"
        listens = listener(self.proc, service.port)
        return None if listens else f"service {service.name}: nobody listens on {service.port}"

    def _probe(self) -> str | None:
        """Return None if the engine answers, else the probe's message.

        The probe runs as the engine's user, outside the group.
        """
        try:
            done = subprocess.run(
                self.config.ready,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PROBE_TIMEOUT_S,
                cwd="/",
                env=self.environment,
                user=self.account.pw_uid,
                group=self.account.pw_gid,
                extra_groups=[],
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {PROBE_TIMEOUT_S:g} s"
        except OSError as error:
            raise AgentError(
                f"engine {self.config.engine}: cannot run the probe {self.config.ready[0]}: "
                f"{error.strerror}"
            ) from None
        if done.returncode == 0:
            return None
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        return f"exit code {done.returncode}, {said}"

    def _log_tail(self, service: str) -> str:
        """Return the last lines that a service has logged, joined into one line."""
        log = self.config.log_of(self.name, service)
        return f"last of {log}: {' | '.join(last_lines(log)) or '(nothing)'}"


def last_lines(path: Path) -> list[str]:
    """Return the last lines of a log, at most LOG_LINES; none if there is no log."""
    if not path.exists():
        return []
    lines = tail(path, LOG_TAIL_BYTES).decode(errors="replace").splitlines()
    return [line.strip() for line in lines[-LOG_LINES:] if line.strip()]


def tail(path: Path, most: int) -> bytes:
    """Return the end of a file, at most so many bytes."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most))
        return file.read()
