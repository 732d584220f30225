"""One engine inside the envelope: start, stop, cold restart, and copies of its data directory."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from .config import AgentError, load_engine
from .envelope import Envelope
from .log_disk import LogDisk
from .services import Services, tail
from .snapshots import Snapshots, disk_usage
from .system import describe, listener, wait_until, write

PORT_TIMEOUT_S = 10.0
LOG_BYTES = 256 * 1024
LOG_LINE_BYTES = 8 * 1024
LOG_READ_BYTES = 64 << 20


class Engine:
    """The verbs on one engine; each returns the object that the agent prints."""

    def __init__(self, name: str, envelope: Envelope) -> None:
        """Raises AgentError if the engine is unknown or refused, or its user does not exist."""
        self.envelope = envelope
        self.config = load_engine(envelope.etc, name, envelope.config)
        self.name, self.proc = name, envelope.roots.proc
        self._services = Services(self.config, envelope)
        self._snapshots = Snapshots(self.config, envelope)
        self._log_disk = LogDisk(self.config, envelope)

    def start(self, variant: str, more_memory: int = 0) -> dict[str, Any]:
        """Start the engine and wait until it answers.

        more_memory: bytes that the envelope has in addition while the engine runs.
        "changed" is False if it runs with this variant already. If it dies or does not become ready in
        time, it is killed and AgentError is raised.
        """
        log_disk = self.config.variant(variant).log_disk
        self.envelope.require_up()
        if self._services.living():
            status = self.status()
            if status["variant"] == variant and status["pid"] and status["listening"]:
                return {**status, "changed": False, "ready_s": 0.0}
            raise AgentError(
                f"engine {self.name} is running already "
                f"(variant {status['variant']}, pids {status['pids']}): stop it first"
            )
        if not self.config.data_dir.is_dir():
            raise AgentError(
                f"engine {self.name}: no data directory {self.config.data_dir}: "
                "initialise or restore it first"
            )
        began = time.monotonic()
        self._snapshots.touched()
        self.config.memory_file.parent.mkdir(parents=True, exist_ok=True)
        self.config.memory_file.write_text(str(more_memory))
        self.envelope.hold_memory(self.config.own_memory_bytes)
        self._log_disk.detach()  # the log disk of an engine that ended without a stop
        if log_disk:
            self._log_disk.attach(log_disk)
        try:
            self._services.start(variant)
        except BaseException as error:
            try:
                self._log_disk.detach()
            except AgentError as second:
                raise AgentError(f"{error}; its log disk is still there: {second}") from error
            raise
        return {**self.status(), "changed": True, "ready_s": _since(began)}

    def stop(self) -> dict[str, Any]:
        """Stop the engine; return when its last process has ended and its port is closed.

        "killed" is True if stop_signal did not end it within stop_timeout_s. Raises AgentError if
        SIGKILL does not end it either, or if the port stays open.
        """
        began, port = time.monotonic(), self.config.port
        running = bool(self._services.living())
        in_time = self._services.stop()
        if running and not wait_until(lambda: listener(self.proc, port) is None, PORT_TIMEOUT_S):
            holder = listener(self.proc, port)
            raise AgentError(
                f"engine {self.name} is gone but port {port} is still held by {holder}"
            )
        self._log_disk.detach()
        return {
            "engine": self.name,
            "changed": running,
            "was_running": running,
            "killed": not in_time,
            "stop_s": _since(began),
        }

    def cold(
        self, variant: str, restore: str | None = None, more_memory: int = 0
    ) -> dict[str, Any]:
        """Stop, restore a snapshot if requested, drop the caches, start: all caches are cold then.

        The disk limits are lifted and stay lifted, as the measurement has not started yet. Returns
        start()'s result with the seconds of each step, and the disk space of the stopped engine's data
        directory as "data_dir_bytes".
        """
        self.config.variant(variant)
        self.envelope.limit(on=False)
        if restore is not None:
            self._snapshots.path(restore)
        seconds: dict[str, float] = {}
        stopped = self.stop()
        seconds["stop"] = stopped["stop_s"]
        self._require_down()
        if restore is not None:
            seconds["restore"] = self.restore(restore)["restore_s"]
        began = time.monotonic()
        os.sync()
        seconds["sync"] = _since(began)
        data_dir_bytes = disk_usage(self.config.data_dir)
        began = time.monotonic()
        # 3: page cache, dentries and inodes, clean ones only (Documentation/admin-guide/sysctl/vm.rst)
        write(self.proc / "sys" / "vm" / "drop_caches", "3\n")
        seconds["drop_caches"] = _since(began)
        started = self.start(variant, more_memory)
        seconds["start"] = started.pop("ready_s")
        return {
            **started,
            "was_running": stopped["was_running"],
            "killed": stopped["killed"],
            "seconds": seconds,
            "data_dir_bytes": data_dir_bytes,
        }

    def snapshot(self, key: str) -> dict[str, Any]:
        """Copy the data directory of the stopped engine, in place of the key's snapshot if any.

        An engine on several nodes has one on each. If one of them fails, the others' are of a load
        that is gone.
        """
        self._require_down()
        began = time.monotonic()
        taken = self._snapshots.take(key)
        return {"engine": self.name, "changed": True, **taken, "snapshot_s": _since(began)}

    def restore(self, key: str) -> dict[str, Any]:
        """Replace the data directory of the stopped engine by a snapshot.

        "changed" is False if the snapshot is there already and the engine was not started since.
        """
        self._snapshots.path(key)
        self.envelope.require_up()
        self._require_down()
        began = time.monotonic()
        changed = self._snapshots.restore(key)
        return {"engine": self.name, "changed": changed, "key": key, "restore_s": _since(began)}

    def snapshots(self) -> dict[str, Any]:
        """Return key, bytes on disk and time of each complete snapshot."""
        return {"engine": self.name, "snapshots": self._snapshots.list()}

    def status(self) -> dict[str, Any]:
        """Return whether the engine runs, with which variant, processes and port.

        "pid" is that of the service on the port, null if any service has ended. "services" has each
        service's pid, null for a service that has ended; "ended" has the last lines of its log.
        """
        living = self._services.living()
        variant, services = self._services.recorded(living)
        whole = bool(services) and None not in services.values()
        in_group = set(self.envelope.cgroups.pids("engine"))
        return {
            "engine": self.name,
            "running": bool(living),
            "pid": list(services.values())[-1].pid if whole else None,
            "services": {name: one and one.pid for name, one in services.items()},
            "variant": variant,
            "pids": sorted(one.pid for one in living),
            "cgroup_pids": sorted(in_group.intersection(one.pid for one in living)),
            "port": self.config.port,
            "listening": listener(self.proc, self.config.port) is not None,
            "data_dir": str(self.config.data_dir),
            "ended": self._services.ended(living),
        }

    def metrics(self) -> dict[str, str]:
        """Return service → its counters in Prometheus' text format, for each service that has any.

        Raises AgentError if the engine does not run, or if such a service does not answer.
        """
        from .metrics import page  # urllib would double the time of other calls

        variant, _ = self._services.recorded(self._services.living())
        if variant is None:
            raise AgentError(f"engine {self.name} is not running")
        return {
            service.name: page(f"service {service.name} of engine {self.name}", service.metrics)
            for service in self.config.variant(variant).services
            if service.metrics
        }

    def log(self) -> bytes:
        """Return what was logged since the last start, at most its last LOG_BYTES.

        Logs of several services follow each other, each under its name. Lines longer than
        LOG_LINE_BYTES are cut: servers log a failed statement in full.
        """
        logs = self.config.logs()
        if len(logs) == 1:
            return _end_of(logs[0], LOG_BYTES)
        return b"".join(
            f"== {path.stem}\n".encode() + _end_of(path, LOG_BYTES // len(logs)) for path in logs
        )

    def _require_down(self) -> None:
        if self._log_disk.attached:
            raise AgentError(f"engine {self.name} has its log on a disk of its own: stop it first")
        if living := self._services.living():
            names = ", ".join(describe(self.proc, one.pid) for one in living)
            raise AgentError(f"engine {self.name} is running ({names}): stop it first")


def _end_of(path: Path, most: int) -> bytes:
    lines = tail(path, LOG_READ_BYTES).splitlines(keepends=True)
    cut = (
        line if len(line) <= LOG_LINE_BYTES else line[:LOG_LINE_BYTES] + b" ...\n" for line in lines
    )
    return b"".join(cut)[-most:]


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)
