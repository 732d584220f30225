"""Points and their trials.

A point is everything that can change a result. Its key is the hash of all of it. So a trial that was
measured already is recognised by its content, never by the name of a folder.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from benchlab.engines import Engine, engine_class
from benchlab.plan.envelope import Envelope
from benchlab.study import Dataset, LogDisk, Scalar, Workload
from benchlab.study.intervention import Intervention
from benchlab.study.roles import PRIMARY

#: Start of a run on a server that somebody else runs.
AS_FOUND = "as_found"

#: Roles of the nodes of an engine that needs only one node.
ALONE = (PRIMARY,)


def content_key(content: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of the canonical JSON of ``content``."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def init_key(
    engine: str,
    role: str | None,
    nodes: Sequence[str],
    role_vars: Mapping[str, Scalar],
    init: Mapping[str, Scalar],
    settings: Mapping[str, Scalar],
) -> str:
    """Return the hash of all that empty data directories depend on.

    Their snapshots are named ``empty-<key>``.

    Args:
        engine: name of the engine.
        role: name of its role; ``None``: the engine's name.
        nodes: roles of the nodes that it runs on.
        role_vars: variables of its Ansible role.
        init: the study's options for initialising its data directory.
        settings: settings of its variants; only those that the directory keeps count.
    """
    kept = {
        name: settings[name]
        for name in engine_class(role or engine).kept_settings
        if name in settings
    }
    several = [nodes] if tuple(nodes) != ALONE else []
    return content_key([engine, role_vars, {**init, **kept}, *several])


def upgraded_start(name: str) -> str:
    """Return the present name of a start or its phase; older records and plans have another name."""
    return "prewarm" if name == "read_in" else name


class Point(BaseModel):
    """Engine × variant × workload × dataset × concurrency, with everything that defines them."""

    model_config = ConfigDict(frozen=True)

    study: str
    engine: str
    # None: the engine's name; then left out of key and record
    role: Annotated[str | None, Field(exclude_if=lambda it: it is None)] = None
    # roles of the deployment's nodes; left out of key and record if the engine has only the primary's
    nodes: Annotated[tuple[str, ...], Field(exclude_if=lambda it: it == ALONE)] = ALONE
    variant: str
    engine_version: str
    role_vars: dict[str, Scalar]
    init: dict[str, Scalar]
    settings: dict[str, Scalar]
    # left out of key and record if the log is on the disk of the data
    log_disk: Annotated[LogDisk | None, Field(exclude_if=lambda it: it is None)] = None
    workload_name: str
    workload: Workload
    dataset: Dataset
    concurrency: int
    envelope: Envelope
    warmup_s: int
    measure_s: int
    # for a run that goes on until it is steady; left out of key and record if its length is measure_s
    longest_s: Annotated[int | None, Field(exclude_if=lambda it: it is None)] = None
    # left out of key and record if only time ends a run
    transactions_per_client: Annotated[int | None, Field(exclude_if=lambda it: it is None)] = None
    # rate as a share of the closed loop's throughput; left out of key and record if the loop is closed
    share_of_peak: Annotated[float | None, Field(exclude_if=lambda it: it is None)] = None
    # left out of key and record if the log is not traced
    log_latency: Annotated[bool, Field(exclude_if=lambda it: not it)] = False
    start: Annotated[str, BeforeValidator(upgraded_start)]
    dataset_reset: str

    @property
    def key(self) -> str:
        """Hash of the content."""
        return content_key(self.model_dump(mode="json"))

    @property
    def init_key(self) -> str:
        """See :func:`init_key`."""
        return init_key(
            self.engine, self.role, self.nodes, self.role_vars, self.init, self.settings
        )

    @property
    def engine_type(self) -> type[Engine]:
        """The engine's class."""
        return engine_class(self.role or self.engine)

    @property
    def layout(self) -> dict[str, Scalar]:
        """Settings that decide how a load lays out the data, and so must be in force then."""
        names = self.engine_type.layout_settings
        return {name: self.settings[name] for name in names if name in self.settings}

    @property
    def dataset_key(self) -> str:
        """Hash of all that defines the tables and the data directory before a variant is applied."""
        laid_out = [self.layout] if self.layout else []
        return content_key(
            [self.init_key, self.engine_version, self.dataset.model_dump(mode="json"), *laid_out]
        )

    @property
    def curve(self) -> tuple[str, str, str, str]:
        """Engine, variant, workload and envelope: what the points of a curve have in common."""
        return self.engine, self.variant, self.workload_name, self.envelope.name


class Trial(BaseModel):
    """One repetition of a point."""

    model_config = ConfigDict(frozen=True)

    point: Point
    number: int
    profile: str
    # left out of the record if there is none, so that such records are the same as before
    intervention: Annotated[Intervention | None, Field(exclude_if=lambda it: it is None)] = None

    @property
    def key(self) -> str:
        """Hash of point, number and intervention; the same trial in two profiles is measured once."""
        intervention = self.intervention.model_dump(mode="json") if self.intervention else None
        return content_key([self.point.key, self.number, *([intervention] if intervention else [])])

    @property
    def seed(self) -> int:
        """Seed of the load generator; it follows from the key, so a rerun draws the same rows."""
        return int(self.key[:7], 16) + 1
