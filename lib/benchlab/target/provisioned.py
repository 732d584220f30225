"""The result of provisioning a target: its nodes, their facts, and its engines."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from benchlab import atomic
from benchlab.errors import TargetError
from benchlab.repo import Repo
from benchlab.study import EngineSpec
from benchlab.study.roles import PRIMARY
from benchlab.study.strict import problem
from benchlab.target.deployment import Deployment


class EngineFound(BaseModel):
    """The state of one engine: ready with a version, or refused with a reason."""

    model_config = ConfigDict(frozen=True)

    engine: str
    role: str | None = None
    nodes: tuple[str, ...] = (PRIMARY,)
    """Roles of the nodes that it runs on; clients connect to the node of the first role."""
    external: str | None = None
    """Environment variable with the DSN, for a server that somebody else runs."""
    version: str
    port: int | None = None
    refused: str | None = None
    refused_variants: dict[str, str] = {}
    has_metrics: bool = False
    """Whether its services print their counters for Prometheus."""


class Provisioned(BaseModel):
    """A target after provisioning, which writes this; every run notebook reads it."""

    model_config = ConfigDict(frozen=True)

    deployment: Deployment
    hosts: dict[str, dict]
    """Node → its facts."""
    engines: dict[str, EngineFound]
    last_versions: dict[str, str] = {}
    """:meth:`EngineSpec.software` → its version when it could be used last; ``none`` if it never could.
    It may have been wiped since: its finished runs still count as done."""

    def versions(self, engines: Mapping[str, EngineSpec]) -> dict[str, str]:
        """Return engine → version; ``unknown`` if it was never provisioned as its study has it."""
        software = {name: spec.software(name) for name, spec in engines.items()}
        return {name: self.last_versions.get(one, "unknown") for name, one in software.items()}

    def save(self, repo: Repo) -> None:
        """Write ``data/targets/<target>.json`` atomically."""
        path = repo.targets / f"{self.deployment.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path, self.model_dump_json(indent=1))


def versions_after(
    before: Mapping[str, str], specs: Mapping[str, EngineSpec], found: Mapping[str, EngineFound]
) -> dict[str, str]:
    """Return :attr:`Provisioned.last_versions` after engines of a study were provisioned.

    Args:
        before: the versions known before.
        specs: the engines in the study.
        found: the state of these engines; one that is refused now keeps its version.
    """
    versions = dict(before)
    for name, one in found.items():
        software = specs[name].software(name)
        if not one.refused or software not in versions:
            versions[software] = one.version
    return versions


def provisioned(repo: Repo, name: str) -> Provisioned:
    """Read the result of a target's provisioning.

    Raises:
        TargetError: the target was never provisioned from this checkout, or the file is damaged.
    """
    path = repo.targets / f"{name}.json"
    again = f"run `benchlab run --target {name}`"
    if not path.is_file():
        raise TargetError(f"target {name} is not provisioned: {again}")
    try:
        return Provisioned.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise TargetError(f"{path}: {problem(error)}: delete it, and {again}") from error
