"""One engine inside the envelope: start, stop, cold restart, and copies of its data directory.

Whatever runs as the engine's own user *is* the engine: that holds when the pid file is lost, when
the main process has died before its children, and when something has left the cgroup.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from .config import AgentError, load_engine
from .envelope import Envelope, delete_tree
from .system import (
    Process,
    describe,
    kill_all,
    listener,
    process,
    processes_of,
    run,
    send,
    wait_until,
    write,
)

#: A readiness probe that hangs is killed and tried again.
PROBE_TIMEOUT_S = 10.0
PROBE_INTERVAL_S = 0.1
PORT_TIMEOUT_S = 10.0
LOG_LINES = 8
LOG_BYTES = 256 * 1024
LOG_LINE_BYTES = 8 * 1024
LOG_READ_BYTES = 64 << 20

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Engine:
    """The verbs on one engine; each returns what it prints."""

    def __init__(self, name: str, envelope: Envelope) -> None:
        """Raises AgentError for an unknown or refused engine, and where its user is missing."""
        self.envelope = envelope
        self.config = load_engine(envelope.etc, name, envelope.config)
        self.account = self.config.account
        self.name, self.proc = name, envelope.roots.proc

    # The verbs

    def start(self, variant: str) -> dict[str, Any]:
        """Start the engine and wait until it answers.

        "changed": False where it runs with this variant already. Raises AgentError, and leaves
        nothing running, where it dies or does not become ready in time.
        """
        config = self.config
        settings = config.variant(variant)
        self.envelope.require_up()
        if self._processes():
            status = self.status()
            if status["variant"] == variant and status["listening"]:
                return {**status, "changed": False, "ready_s": 0.0}
            raise AgentError(
                f"engine {self.name} is running already "
                f"(variant {status['variant']}, pids {status['pids']}): stop it first"
            )
        if not config.data_dir.is_dir():
            raise AgentError(
                f"engine {self.name}: no data directory {config.data_dir}: "
                "initialise or restore it first"
            )
        if holder := listener(self.proc, config.port):
            raise AgentError(f"engine {self.name}: port {config.port} is in use by {holder}")
        for folder in (config.log.parent, config.pid_file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self._restored.unlink(missing_ok=True)
        began = time.monotonic()
        log_start = config.log.stat().st_size if config.log.exists() else 0
        environment = self._environment(settings)
        with config.log.open("ab") as log:
            try:
                child = subprocess.Popen(
                    settings["start"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                    preexec_fn=self._become_engine,
                )
            except OSError as error:
                raise AgentError(
                    f"engine {self.name}: cannot start {settings['start'][0]}: {error.strerror}"
                ) from None
            except subprocess.SubprocessError:
                # preexec_fn's own exception is lost in the child; its reasons are all checked here.
                raise AgentError(
                    f"engine {self.name}: cannot enter the envelope as user {config.user}"
                ) from None
        if started := process(self.proc, child.pid):
            config.pid_file.write_text(f"{child.pid} {started.start_ticks} {variant}\n")
        try:
            self._wait_ready(child, environment, log_start)
        except BaseException:
            self._kill()
            raise
        return {**self.status(), "changed": True, "ready_s": round(time.monotonic() - began, 3)}

    def stop(self) -> dict[str, Any]:
        """Stop the engine; returns when its last process is gone and its port is closed.

        "killed": True where stop_signal was not enough within stop_timeout_s. Raises AgentError
        where even SIGKILL is not, or where the port stays open.
        """
        config = self.config
        began = time.monotonic()
        running, killed = bool(self._processes()), False
        if running:
            signalled: set[int] = set()

            def gone() -> bool:
                # Children that have outlived the main process get one signal as well.
                new = set(self._main_pids()) - signalled
                send(new, signal.Signals[config.stop_signal])
                signalled.update(new)
                return not new and not self._processes()

            killed = not wait_until(gone, config.stop_timeout_s)
            if killed:
                self._kill()
            if not wait_until(lambda: listener(self.proc, config.port) is None, PORT_TIMEOUT_S):
                holder = listener(self.proc, config.port)
                raise AgentError(
                    f"engine {self.name} is gone but port {config.port} is still held by {holder}"
                )
        config.pid_file.unlink(missing_ok=True)
        return {
            "engine": self.name,
            "changed": running,
            "was_running": running,
            "killed": killed,
            "stop_s": round(time.monotonic() - began, 3),
        }

    def cold(self, variant: str, restore: str | None = None) -> dict[str, Any]:
        """Stop, restore a snapshot if requested, drop the caches, start: nothing is warm after it.

        The disk limits are lifted and stay so: what follows is no measurement yet. Returns start()'s
        result with the seconds of each step, the log's size before it as "log_begin", and what the data
        directory of the stopped engine takes of the disk as "data_dir_bytes".
        """
        self.config.variant(variant)
        log_begin = self.status()["log_bytes"]
        self.envelope.limit(on=False)
        if restore is not None:
            self._snapshot(restore, exists=True)
        seconds: dict[str, float] = {}
        stopped = self.stop()
        seconds["stop"] = stopped["stop_s"]
        self._require_down()
        if restore is not None:
            seconds["restore"] = self.restore(restore)["restore_s"]
        began = time.monotonic()
        os.sync()
        seconds["sync"] = round(time.monotonic() - began, 3)
        data_dir_bytes = _disk_usage(self.config.data_dir)
        began = time.monotonic()
        # Page cache, dentries, inodes: Documentation/admin-guide/sysctl/vm.rst. Only clean ones go.
        write(self.proc / "sys" / "vm" / "drop_caches", "3\n")
        seconds["drop_caches"] = round(time.monotonic() - began, 3)
        started = self.start(variant)
        seconds["start"] = started.pop("ready_s")
        return {
            **started,
            "was_running": stopped["was_running"],
            "killed": stopped["killed"],
            "seconds": seconds,
            "log_begin": log_begin,
            "data_dir_bytes": data_dir_bytes,
        }

    def snapshot(self, key: str) -> dict[str, Any]:
        """Copy the data directory of the stopped engine.

        Raises AgentError where the key has a snapshot already.
        """
        self._require_down()
        target = self._snapshot(key, exists=False)
        began = time.monotonic()
        target.parent.mkdir(parents=True, exist_ok=True)
        self._copy(self.config.data_dir, target)
        return {
            "engine": self.name,
            "changed": True,
            **_describe(target),
            "snapshot_s": _since(began),
        }

    def restore(self, key: str) -> dict[str, Any]:
        """Put a snapshot in the place of the data directory of the stopped engine.

        "changed": False where it lies there and has not been started since.
        """
        source = self._snapshot(key, exists=True)
        self.envelope.require_up()
        self._require_down()
        began = time.monotonic()
        changed = not self._is_restored(key)
        if changed:
            self._restored.unlink(missing_ok=True)
            # First gone, then copied: the envelope's disk need not hold the data twice.
            delete_tree(self.config.data_dir)
            self._copy(source, self.config.data_dir)
            self._restored.write_text(f"{key} {self.config.data_dir.stat().st_ino}\n")
        return {"engine": self.name, "changed": changed, "key": key, "restore_s": _since(began)}

    def snapshots(self) -> dict[str, Any]:
        """Key, bytes on disk and time of each whole snapshot."""
        return {"engine": self.name, "snapshots": [_describe(path) for path in self._snapshots()]}

    def status(self) -> dict[str, Any]:
        """Whether it runs, with which variant, processes and port."""
        living = self._processes()
        main, variant = self._recorded(living)
        in_group = set(self.envelope.cgroups.pids("engine"))
        return {
            "engine": self.name,
            "running": bool(living),
            "pid": main.pid if main else None,
            "variant": variant,
            "pids": sorted(one.pid for one in living),
            "cgroup_pids": sorted(in_group.intersection(one.pid for one in living)),
            "port": self.config.port,
            "listening": listener(self.proc, self.config.port) is not None,
            "data_dir": str(self.config.data_dir),
            "log": str(self.config.log),
            "log_bytes": self.config.log.stat().st_size if self.config.log.exists() else 0,
        }

    def log(self, begin: int) -> bytes:
        """What has been logged since the log was so many bytes long; its last LOG_BYTES at most.

        Longer lines than LOG_LINE_BYTES are cut: servers log a failed statement whole.
        """
        if not self.config.log.exists():
            return b""
        with self.config.log.open("rb") as log:
            log.seek(max(begin, self.config.log.stat().st_size - LOG_READ_BYTES))
            lines = log.read().splitlines(keepends=True)
        cut = (
            line if len(line) <= LOG_LINE_BYTES else line[:LOG_LINE_BYTES] + b" ...\n"
            for line in lines
        )
        return b"".join(cut)[-LOG_BYTES:]

    def wipe(self) -> dict[str, Any]:
        """Stop the engine, delete its data directory and its snapshots. The log is kept."""
        changed = self.stop()["changed"]
        self._restored.unlink(missing_ok=True)
        changed |= delete_tree(self.config.data_dir)
        changed |= delete_tree(self.config.snapshot_root)
        return {"engine": self.name, "changed": changed}

    # Starting

    def _become_engine(self) -> None:
        """In the child, before exec: into the envelope while still root, then the engine's user."""
        self.envelope.enter("engine")
        os.setgroups([])
        os.setgid(self.account.pw_gid)
        os.setuid(self.account.pw_uid)

    def _environment(self, settings: dict[str, Any]) -> dict[str, str]:
        """The same on every host, however the agent was called."""
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "HOME": self.account.pw_dir,
            "USER": self.config.user,
            **{name: str(value) for name, value in settings.get("env", {}).items()},
        }

    def _wait_ready(
        self, child: subprocess.Popen[bytes], environment: dict[str, str], log_start: int
    ) -> None:
        deadline = time.monotonic() + self.config.ready_timeout_s
        while True:
            if (code := child.poll()) is not None:
                how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                tail = self._log_tail(log_start)
                raise AgentError(f"engine {self.name} ended {how} before it was ready; {tail}")
            answer = self._probe(environment)
            if answer is None and child.poll() is None:
                return
            if time.monotonic() >= deadline:
                raise AgentError(
                    f"engine {self.name} not ready after {self.config.ready_timeout_s:g} s "
                    f"(probe {self.config.ready[0]}: {answer}); {self._log_tail(log_start)}"
                )
            time.sleep(PROBE_INTERVAL_S)

    def _probe(self, environment: dict[str, str]) -> str | None:
        """None where the engine answers, else what the probe said.

        It runs as the engine's user, outside the group.
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
                env=environment,
                user=self.account.pw_uid,
                group=self.account.pw_gid,
                extra_groups=[],
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {PROBE_TIMEOUT_S:g} s"
        except OSError as error:
            raise AgentError(
                f"engine {self.name}: cannot run the probe {self.config.ready[0]}: {error.strerror}"
            ) from None
        if done.returncode == 0:
            return None
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        return f"exit code {done.returncode}, {said}"

    def _log_tail(self, start: int) -> str:
        """The last lines that this start has logged, on one line."""
        with self.config.log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(start, log.tell() - 64 * 1024))
            lines = log.read().decode(errors="replace").splitlines()
        said = " | ".join(line.strip() for line in lines[-LOG_LINES:] if line.strip())
        return f"last of {self.config.log}: {said or '(nothing)'}"

    # Processes

    def _processes(self) -> list[Process]:
        return processes_of(self.proc, self.account.pw_uid)

    def _recorded(self, living: list[Process]) -> tuple[Process | None, str | None]:
        """The main process and variant that the pid file names, if that very process lives."""
        try:
            pid, start_ticks, variant = self.config.pid_file.read_text().split()
        except (FileNotFoundError, ValueError):
            return None, None
        for one in living:
            if (one.pid, one.start_ticks) == (int(pid), int(start_ticks)):
                return one, variant
        return None, None

    def _main_pids(self) -> list[int]:
        """Whom to ask to stop: the main process, or all that have no parent within the engine."""
        living = self._processes()
        main, _ = self._recorded(living)
        if main:
            return [main.pid]
        pids = {one.pid for one in living}
        return [one.pid for one in living if one.parent not in pids]

    def _kill(self) -> None:
        kill_all(self.proc, lambda: [one.pid for one in self._processes()], f"engine {self.name}")
        self.config.pid_file.unlink(missing_ok=True)

    def _require_down(self) -> None:
        if living := self._processes():
            names = ", ".join(describe(self.proc, one.pid) for one in living)
            raise AgentError(f"engine {self.name} is running ({names}): stop it first")

    # Copies of the data directory

    def _snapshots(self) -> list[Path]:
        root = self.config.snapshot_root
        return (
            sorted(path for path in root.iterdir() if _KEY.fullmatch(path.name))
            if root.is_dir()
            else []
        )

    def _snapshot(self, key: str, *, exists: bool) -> Path:
        if not _KEY.fullmatch(key):
            raise AgentError(
                f"snapshot key {key!r}: letters, digits, '.', '_' and '-' only, not '.' first"
            )
        path = self.config.snapshot_root / key
        if path.exists() and not exists:
            raise AgentError(f"engine {self.name} has a snapshot {key!r} already")
        if exists and not path.is_dir():
            known = ", ".join(one.name for one in self._snapshots()) or "none"
            raise AgentError(f"engine {self.name} has no snapshot {key!r}; there are: {known}")
        return path

    @property
    def _restored(self) -> Path:
        """Names the snapshot that the data directory is an untouched copy of; else it is not there."""
        return self.config.data_dir.with_name(f".{self.name}.restored")

    def _is_restored(self, key: str) -> bool:
        data_dir = self.config.data_dir
        try:
            return self._restored.read_text().split() == [key, str(data_dir.stat().st_ino)]
        except FileNotFoundError:
            return False

    def _copy(self, source: Path, target: Path) -> None:
        """Copy a folder under a hidden name, and give it its own when it is whole and on disk."""
        if not source.is_dir():
            raise AgentError(f"engine {self.name}: no folder {source}")
        partial = target.with_name(f".{target.name}.partial")
        delete_tree(partial)
        with self.envelope.unthrottled():
            run("cp", "--archive", "--no-target-directory", source, partial)
            run("sync", "--file-system", partial)
            partial.rename(target)
            run("sync", "--file-system", target)


def _disk_usage(folder: Path) -> int:
    """Bytes that the files below a folder take, as du counts them."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if not path.is_dir())


def _describe(snapshot: Path) -> dict[str, Any]:
    # st_ctime is set by the rename that completed it.
    return {
        "key": snapshot.name,
        "bytes": _disk_usage(snapshot),
        "created_unix_s": round(snapshot.stat().st_ctime, 3),
    }


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)
