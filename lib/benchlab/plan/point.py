"""Points and their trials.

A point is everything that can change a result; its key is the hash of all of it, so that a trial
already measured is recognised by its content and never by the name of a folder.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from benchlab.engines import engine_class
from benchlab.plan.envelope import Envelope
from benchlab.study import Dataset, LogDisk, Scalar, Workload
from benchlab.study.intervention import Intervention
from benchlab.study.roles import PRIMARY

#: How a server that somebody else runs begins a run.
AS_FOUND = "as_found"

#: Nodes of an engine that needs one only.
ALONE = (PRIMARY,)


def content_key(content: Any) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON of ``content``."""
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
    """Hash of what empty data directories are initialised with: their snapshots are ``empty-<key>``.

    Args:
        engine: its name.
        role: of an engine that is named otherwise.
        nodes: roles of those that it runs on.
        role_vars: variables of its Ansible role.
        init: what the study has its data directory made with.
        settings: of its variants; those that the directory keeps count.
    """
    kept = {
        name: settings[name]
        for name in engine_class(role or engine).kept_settings
        if name in settings
    }
    several = [nodes] if tuple(nodes) != ALONE else []
    return content_key([engine, role_vars, {**init, **kept}, *several])


def upgraded_start(name: str) -> str:
    """Return the present name of a start, or of its phase; older records and plans have another."""
    return "prewarm" if name == "read_in" else name


class Point(BaseModel):
    """Engine × variant × workload × dataset × concurrency, with all that defines them."""

    model_config = ConfigDict(frozen=True)

    study: str
    engine: str
    # of an engine that is named otherwise; left out of the key and the record where it is not
    role: Annotated[str | None, Field(exclude_if=lambda it: it is None)] = None
    # of the deployment; left out of the key and the record of an engine on the primary's node alone
    nodes: Annotated[tuple[str, ...], Field(exclude_if=lambda it: it == ALONE)] = ALONE
    variant: str
    engine_version: str
    role_vars: dict[str, Scalar]
    init: dict[str, Scalar]
    settings: dict[str, Scalar]
    # left out of key and record where the log lies with the data
    log_disk: Annotated[LogDisk | None, Field(exclude_if=lambda it: it is None)] = None
    workload_name: str
    workload: Workload
    dataset: Dataset
    concurrency: int
    envelope: Envelope
    warmup_s: int
    measure_s: int
    # until a run is steady; left out of key and record where its length is measure_s
    longest_s: Annotated[int | None, Field(exclude_if=lambda it: it is None)] = None
    # left out of key and record where only time ends a run
    transactions_per_client: Annotated[int | None, Field(exclude_if=lambda it: it is None)] = None
    # of the highest throughput of the closed loop; left out of key and record where the loop is closed
    share_of_peak: Annotated[float | None, Field(exclude_if=lambda it: it is None)] = None
    # left out of key and record where the log is not traced
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
    def dataset_key(self) -> str:
        """Hash of what the tables and the data directory hold before any variant is applied."""
        return content_key(
            [self.init_key, self.engine_version, self.dataset.model_dump(mode="json")]
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
    # left out of the record where there is none, so that it is the one that it always was
    intervention: Annotated[Intervention | None, Field(exclude_if=lambda it: it is None)] = None

    @property
    def key(self) -> str:
        """Hash of point, number and intervention: the same trial in two profiles is measured once."""
        intervention = self.intervention.model_dump(mode="json") if self.intervention else None
        return content_key([self.point.key, self.number, *([intervention] if intervention else [])])

    @property
    def seed(self) -> int:
        """Seed of the load generator; follows from the key, so a rerun draws the same rows."""
        return int(self.key[:7], 16) + 1
