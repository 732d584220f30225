"""The agent's configuration: JSON files that the Ansible roles write; the agent checks them.

``ETC/envelope.json`` describes the envelope, and each ``ETC/engines/<engine>.json`` one engine (ETC is
/etc/benchlab).
"""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

ETC = Path("/etc/benchlab")

#: The limits of the envelope's disk; the value None means not limited.
DISK_LIMITS = ("read_bytes_per_s", "write_bytes_per_s", "read_iops", "write_iops")
NO_DISK_LIMITS: dict[str, int | None] = dict.fromkeys(DISK_LIMITS)

# the name of a cgroup, which must not equal the name of a file of its parent: those of cgroup v1
# without a dot are excluded by name
_SERVICE_NAME = re.compile(r"(?!(tasks|notify_on_release|release_agent)$)[a-z][a-z0-9_-]*")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NUMBER = (int, float)
_OPTIONAL_INT = (int, type(None))


class AgentError(Exception):
    """Something that the caller can act on; printed as one line."""


class NoSuchUser(AgentError):
    """An engine's user does not exist on this host."""


@dataclass(frozen=True)
class Roots:
    """The kernel's file systems; tests use recorded trees instead."""

    cgroup: Path = Path("/sys/fs/cgroup")
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    #: The machine's /proc as a host of the lab sees it; exists only there.
    machine_proc: Path = Path("/run/benchlab-machine/proc")


@dataclass(frozen=True)
class EnvelopeConfig:
    """The requested envelope. Sizes in bytes, rates per second; None is unlimited.

    first_cpu: index of the first CPU that its programs run on, among those that they may use.
    """

    home: Path
    image: Path
    image_bytes: int
    mount: Path
    cores: float | None
    memory_bytes: int | None
    read_bytes_per_s: int | None
    write_bytes_per_s: int | None
    read_iops: int | None
    write_iops: int | None
    enforce: bool
    first_cpu: int = 0
    cgroup: str = "benchlab"

    @property
    def disk_limits(self) -> dict[str, int | None]:
        """The disk limits, by the names of DISK_LIMITS."""
        return {name: getattr(self, name) for name in DISK_LIMITS}

    @property
    def snapshots(self) -> Path:
        """Folder of the engines' snapshots, which is not on the envelope's disk."""
        return self.home / "snapshots"


@dataclass(frozen=True)
class Service:
    """A program of an engine, started in the foreground; it is ready when it listens on its port.

    metrics: URL of its counters in Prometheus' text format; None if it has none.
    """

    name: str
    start: list[str]
    port: int
    metrics: str | None = None


@dataclass(frozen=True)
class LogDiskConfig:
    """A disk for the log only, as large as the envelope's: see :mod:`.log_disk`.

    folder: the log's folder in the data directory; write_delay_ms: the delay of each write;
    bytes_per_s: the bandwidth of writes, None if it is not limited.
    """

    folder: str
    write_delay_ms: int
    bytes_per_s: int | None = None


@dataclass(frozen=True)
class Variant:
    """The services of an engine, in the order of their start; clients connect to the last one."""

    services: list[Service]
    env: dict[str, Any]
    log_disk: LogDiskConfig | None = None


@dataclass(frozen=True)
class EngineConfig:
    """How one engine is run: its own user, data directory, port, and services per variant.

    fixed_memory_bytes: added to the envelope's memory while it runs.
    """

    engine: str
    user: str
    data_dir: Path
    snapshot_root: Path
    log: Path
    pid_file: Path
    port: int
    variants: dict[str, Variant]
    ready: list[str]
    ready_timeout_s: float
    stop_signal: str
    stop_timeout_s: float
    version: str = ""
    fixed_memory_bytes: int = 0
    refused_variants: dict[str, str] = field(default_factory=dict)

    @property
    def memory_file(self) -> Path:
        """The file that holds the memory with which it was started beyond ``fixed_memory_bytes``."""
        return self.pid_file.with_suffix(".memory")

    def log_of(self, variant: str, service: str) -> Path:
        """Return the log of a service: the engine's, or one of its own if the variant has several."""
        if len(self.variant(variant).services) == 1:
            return self.log
        return self.log.with_stem(f"{self.log.stem}-{service}")

    def logs(self) -> list[Path]:
        """Return the logs that the last start has begun."""
        of_services = {
            self.log_of(name, service.name)
            for name, variant in self.variants.items()
            for service in variant.services
        }
        return [path for path in sorted({self.log, *of_services}) if path.exists()]

    @property
    def own_memory_bytes(self) -> int:
        """Bytes that the envelope has in addition while it runs."""
        more = self.memory_file.read_text() if self.memory_file.exists() else "0"
        return self.fixed_memory_bytes + int(more)

    @property
    def account(self) -> pwd.struct_passwd:
        """The engine's user.

        Raises AgentError if it does not exist or is root: stop kills all processes of the user.
        """
        try:
            account = pwd.getpwnam(self.user)
        except KeyError:
            raise NoSuchUser(
                f"engine {self.engine}: user {self.user!r} does not exist on this host"
            ) from None
        if account.pw_uid == 0:
            raise AgentError(
                f"engine {self.engine}: user {self.user!r} is root; it needs a user of its own"
            )
        return account

    def variant(self, name: str) -> Variant:
        """Return the variant of this name. Raises AgentError if it is unknown."""
        if name not in self.variants:
            raise AgentError(
                f"engine {self.engine}: unknown variant {name!r}; "
                f"choose from {_choices(self.variants)}"
            )
        return self.variants[name]


_ENVELOPE_TYPES: dict[str, Any] = {
    "home": str,
    "image": str,
    "image_bytes": int,
    "mount": str,
    "cores": (*_NUMBER, type(None)),
    "memory_bytes": _OPTIONAL_INT,
    **dict.fromkeys(DISK_LIMITS, _OPTIONAL_INT),
    "enforce": bool,
    "first_cpu": int,
    "cgroup": str,
}
_ENGINE_TYPES: dict[str, Any] = {
    "engine": str,
    "user": str,
    "data_dir": str,
    "snapshot_root": str,
    "log": str,
    "pid_file": str,
    "port": int,
    "variants": dict,
    "ready": list,
    "ready_timeout_s": _NUMBER,
    "stop_signal": str,
    "stop_timeout_s": _NUMBER,
    "version": str,
    "fixed_memory_bytes": int,
    "refused_variants": dict,
}
_PATHS = ("home", "image", "mount", "data_dir", "snapshot_root", "log", "pid_file")


def load_envelope(etc: Path) -> EnvelopeConfig:
    """Read and check ETC/envelope.json. Raises AgentError that names file and key."""
    path = etc / "envelope.json"
    values = _read(path, EnvelopeConfig, _ENVELOPE_TYPES)
    for name in ("image_bytes", "cores", "memory_bytes", *DISK_LIMITS):
        if values[name] is not None and values[name] <= 0:
            raise AgentError(
                f"{path}: {name} must be above 0 (null: unlimited), not {values[name]}"
            )
    if values.get("first_cpu", 0) < 0:
        raise AgentError(f"{path}: first_cpu must not be below 0, as {values['first_cpu']} is")
    if "/" in values.get("cgroup", "") or values.get("cgroup", "x").startswith((".", "cgroup.")):
        raise AgentError(f"{path}: cgroup must be the name of one cgroup, not {values['cgroup']!r}")
    return EnvelopeConfig(**values)


def engine_names(etc: Path) -> list[str]:
    """Return the engines that this host can run; a refused one has only a <engine>.refused.json."""
    names = (path.name for path in (etc / "engines").glob("*.json"))
    return sorted(
        name.removesuffix(".json") for name in names if not name.endswith(".refused.json")
    )


def load_engine(etc: Path, name: str, envelope: EnvelopeConfig) -> EngineConfig:
    """Read and check ETC/engines/NAME.json. Raises AgentError that names file and key."""
    path = etc / "engines" / f"{name}.json"
    if name not in engine_names(etc):
        refused = etc / "engines" / f"{name}.refused.json"
        if refused.is_file():
            reason = json.loads(refused.read_text())["reason"]
            raise AgentError(f"engine {name} is refused on this host: {reason}")
        raise AgentError(
            f"unknown engine {name!r}; provisioned on this host: {_choices(engine_names(etc))}"
        )
    values = _read(path, EngineConfig, _ENGINE_TYPES)
    if values["stop_signal"] not in signal.Signals.__members__:
        raise AgentError(
            f"{path}: stop_signal {values['stop_signal']!r} is not a signal; SIGINT, SIGTERM, ..."
        )
    values["variants"] = {
        variant: _variant(f"{path}: variant {variant}", entry, values["port"])
        for variant, entry in values["variants"].items()
    }
    if not _is_argv(values["ready"]):
        raise AgentError(f"{path}: ready must be a non-empty list of strings")
    config = EngineConfig(**values)
    # restore and `envelope down --wipe` delete these folders, so they must be inside the folders that
    # hold only benchlab's data
    if envelope.mount not in config.data_dir.parents:
        raise AgentError(
            f"{path}: data_dir {config.data_dir} must lie in the mount {envelope.mount}"
        )
    if (
        envelope.home not in config.snapshot_root.parents
        or envelope.mount in config.snapshot_root.parents
    ):
        raise AgentError(
            f"{path}: snapshot_root {config.snapshot_root} must lie in {envelope.home}, "
            "outside the mount"
        )
    return config


def _read(path: Path, record: type, types: dict[str, Any]) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise AgentError(f"{path} does not exist: provision the host first") from None
    except ValueError as error:
        raise AgentError(f"{path} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise AgentError(f"{path} must hold a JSON object, not {type(values).__name__}")
    required = {
        one.name
        for one in fields(record)
        if one.default is MISSING and one.default_factory is MISSING
    }
    if missing := required - values.keys():
        raise AgentError(f"{path}: missing {_choices(missing)}")
    if unknown := values.keys() - types.keys():
        raise AgentError(f"{path}: unknown key {_choices(unknown)}; valid: {_choices(types)}")
    for name, value in values.items():
        allowed = types[name]
        # in Python a bool is an int, but here it is never a number
        if not isinstance(value, allowed) or (isinstance(value, bool) and allowed is not bool):
            raise AgentError(f"{path}: {name} has a wrong type: {value!r}")
        if name in _PATHS and not Path(value).is_absolute():
            raise AgentError(f"{path}: {name} must be an absolute path, not {value!r}")
    return {
        name: Path(os.path.normpath(value)) if name in _PATHS else value
        for name, value in values.items()
    }


def _variant(where: str, entry: Any, port: int) -> Variant:
    """Check a variant: services, each with name, start, port and perhaps metrics; env; log_disk.

    An older benchlab wrote `start` and no services; its engines must be taken down, too.
    """
    if isinstance(entry, dict) and entry.keys() == {"start", "env"}:
        services = [{"name": "engine", "start": entry["start"], "port": port}]
        entry = {"services": services, "env": entry["env"]}
    required = {"services", "env"}
    if not isinstance(entry, dict) or not required <= entry.keys() <= {*required, "log_disk"}:
        raise AgentError(f"{where} must have services and env, and may have log_disk")
    services = entry["services"]
    if not isinstance(services, list) or not all(_is_service(one) for one in services):
        raise AgentError(
            f"{where}: a service must have a name, start (an argv) and a port, and may have metrics"
        )
    names = [one["name"] for one in services]
    if len(set(names)) < len(names):
        raise AgentError(f"{where}: two services have the same name: {', '.join(names)}")
    if not services or services[-1]["port"] != port:
        raise AgentError(f"{where}: the last service must be the one on the engine's port, {port}")
    return Variant(
        [Service(**one) for one in services],
        entry["env"],
        _log_disk(where, entry.get("log_disk")),
    )


def _log_disk(where: str, value: Any) -> LogDiskConfig | None:
    if value is None:
        return None
    required = {"folder", "write_delay_ms"}
    if not isinstance(value, dict) or not required <= value.keys() <= {*required, "bytes_per_s"}:
        raise AgentError(
            f"{where}: log_disk must have folder and write_delay_ms, and may have bytes_per_s"
        )
    config = LogDiskConfig(**value)
    if not isinstance(config.folder, str) or not _FOLDER.fullmatch(config.folder):
        raise AgentError(
            f"{where}: log_disk's folder must be a folder's name, not {config.folder!r}"
        )
    numbers = [config.write_delay_ms, 1 if config.bytes_per_s is None else config.bytes_per_s]
    if not all(isinstance(one, int) and one > 0 for one in numbers):
        raise AgentError(f"{where}: log_disk's write_delay_ms and bytes_per_s must be above 0")
    return config


def _is_service(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and {"name", "start", "port"} <= value.keys() <= {"name", "start", "port", "metrics"}
        and isinstance(value.get("metrics"), (str, type(None)))
        and isinstance(value["name"], str)
        and _SERVICE_NAME.fullmatch(value["name"]) is not None
        and _is_argv(value["start"])
        and isinstance(value["port"], int)
    )


def _is_argv(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)


def _choices(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
