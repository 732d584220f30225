"""Deployments: the nodes that a run uses, and which roles each of them has."""

from pydantic import BaseModel, ConfigDict

from benchlab.study.roles import LOAD, is_database
from benchlab.target.host import Host


class Node(Host):
    """A host of a deployment."""

    roles: tuple[str, ...]
    """Such as ``db.primary``, ``db.standby``, ``app``, ``load``; the inventory's groups."""

    @property
    def is_database(self) -> bool:
        """Whether an engine may run on it."""
        return any(map(is_database, self.roles))

    @property
    def has_load(self) -> bool:
        """Whether the load generator runs on it."""
        return LOAD in self.roles


class Deployment(BaseModel):
    """Roles on nodes, and whether to limit the nodes: what an inventory says."""

    model_config = ConfigDict(frozen=True)

    name: str
    nodes: tuple[Node, ...]
    """Each node once: those of the database first, those of the load last."""
    instance: str | None
    enforce: bool
    is_lab: bool = False
    """Whether its nodes are hosts that :mod:`benchlab.target.lab` makes of this machine."""

    def having(self, *roles: str) -> tuple[Node, ...]:
        """Return the nodes that have one of these roles, in the order of the roles."""
        found = {node.name: node for role in roles for node in self.nodes if role in node.roles}
        return tuple(found.values())

    @property
    def databases(self) -> tuple[Node, ...]:
        """The nodes that engines may run on, and that the envelope limits."""
        return tuple(node for node in self.nodes if node.is_database)

    @property
    def load(self) -> tuple[Node, ...]:
        """The nodes with the load generator."""
        return self.having(LOAD)

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Node → its roles, as a run records them."""
        return {node.name: node.roles for node in self.nodes}
