"""Deployments: the nodes that a run uses, and the roles of each."""

from pydantic import BaseModel, ConfigDict

from benchlab.study.roles import LOAD, is_database
from benchlab.target.host import Host


class Node(Host):
    """A host of a deployment."""

    roles: tuple[str, ...]
    """The inventory's groups of the host: ``db.primary``, ``db.standby``, ``app``, ``load``, ..."""

    @property
    def is_database(self) -> bool:
        """Whether an engine may run on it."""
        return any(map(is_database, self.roles))


class Deployment(BaseModel):
    """An inventory: the nodes with their roles, and whether to limit them."""

    model_config = ConfigDict(frozen=True)

    name: str
    nodes: tuple[Node, ...]
    """Each node once: database nodes first, load nodes last."""
    enforce: bool
    is_lab: bool = False
    """Whether its nodes are hosts that :mod:`benchlab.target.lab` makes on this machine."""

    def having(self, *roles: str) -> tuple[Node, ...]:
        """Return the nodes that have one of these roles, in the order of the roles."""
        found = {node.name: node for role in roles for node in self.nodes if role in node.roles}
        return tuple(found.values())

    @property
    def databases(self) -> tuple[Node, ...]:
        """The nodes that engines may run on; the envelope limits them."""
        return tuple(node for node in self.nodes if node.is_database)

    @property
    def load(self) -> tuple[Node, ...]:
        """The nodes with the load generator."""
        return self.having(LOAD)

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Node → its roles, as a run records them."""
        return {node.name: node.roles for node in self.nodes}
