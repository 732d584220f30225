"""Servers that somebody else runs: a managed database, a cluster.

benchlab knows only their address and login, and does not provision, start, stop or limit them. Address
and login are a DSN. It is in an environment variable, or in the inventory's ``benchlab_dsn`` under that
variable's name, encrypted by Ansible Vault. benchlab keeps it in memory only.
"""

import os
from collections.abc import Iterable
from functools import cached_property
from urllib.parse import unquote, urlsplit

from benchlab.engines import Endpoint, Engine, engine_class
from benchlab.errors import BenchlabError, EngineError, TargetError
from benchlab.plan.envelope import Envelope
from benchlab.repo import Repo
from benchlab.study.roles import is_database
from benchlab.target import inventory
from benchlab.target.deployment import Deployment, Node
from benchlab.target.provisioned import EngineFound, Provisioned
from benchlab.target.session import Session

#: Scheme of a DSN → its default port and its protocol.
_PROTOCOLS = {
    "postgresql": (5432, "postgres"),
    "postgres": (5432, "postgres"),
    "mysql": (3306, "mysql"),
}

_EXAMPLE = "such as postgresql://user:password@host:5432/database"

#: Table with the key of the dataset that the database holds, so that it is loaded only once.
_MARK = "benchlab_dataset"


class External(Session):
    """An engine whose server somebody else runs."""

    @cached_property
    def engine(self) -> Engine:
        """See :attr:`Session.engine`."""
        cls = engine_class(self.found.role or self.engine_name)
        endpoint = endpoint_of(self.found.external, cls)
        return cls(endpoint, reach=lambda: self._from_here(endpoint))

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """See :attr:`Session.roles`; roles of the database are left out, as it runs on no node."""
        roles = {
            node: tuple(role for role in had if not is_database(role))
            for node, had in self.deployment.roles.items()
        }
        return {node: left for node, left in roles.items() if left}

    def cold(
        self, variant: str, restore: str | None = None, connections_memory_bytes: int = 0
    ) -> dict[str, dict]:
        """Check that the server has the planned version and the dataset; nothing restarts.

        Raises:
            EngineError: it has another version or other tables.
        """
        del variant, connections_memory_bytes
        version = self.engine.version()
        if version != self.found.version:
            raise EngineError(
                f"{self.engine_name}: the server has version {version} now, planned was"
                f" {self.found.version}"
            )
        if restore:
            self.restore(restore)
        return {}

    def stop(self) -> bool:
        """Do nothing: benchlab may not stop the server, so it did not have to kill it."""
        return True

    def settle(self) -> None:
        """See :meth:`Session.settle`; only updates statistics, with the rights of the tables' owner."""
        self.engine.analyze()

    def snapshots(self) -> set[str]:
        """Return the key of the dataset in the database; empty if it has none."""
        if _MARK not in self.engine.tables():
            return set()
        return {row["dataset_key"] for row in self.engine.query(f"SELECT dataset_key FROM {_MARK}")}

    def snapshot(self, key: str) -> None:
        """Mark the database as holding a dataset."""
        self.engine.query(f"CREATE TABLE {_MARK} (dataset_key VARCHAR(64) PRIMARY KEY)")
        self.engine.query(f"INSERT INTO {_MARK} VALUES ('{key}')")

    def restore(self, key: str) -> None:
        """Check that the database holds a dataset, or no tables if an empty one is requested.

        Raises:
            EngineError: it holds something else, which benchlab may not delete.
        """
        tables = self.engine.tables()
        if key.startswith("empty-") and not tables:
            return
        if key in self.snapshots():
            return
        holds = "another dataset" if _MARK in tables else "other tables"
        raise EngineError(
            f"{self.engine_name}: the database holds {holds}"
            f" ({', '.join(sorted(tables)[:3]) or 'none'}): name an empty one in"
            f" {self.found.external}, or delete them"
        )

    def log(self, node: Node | None = None) -> bytes:
        """Return nothing: the log is not accessible."""
        del node
        return b""

    def limit(self, envelope: Envelope) -> None:
        """Do nothing: benchlab cannot limit the server."""


def open_session(provisioned: Provisioned, engine: str) -> Session:
    """Return a session of an engine, which may be external."""
    kind = External if provisioned.engines[engine].external else Session
    return kind(provisioned, engine)


def found(deployment: Deployment, engine: str, role: str | None, variable: str) -> EngineFound:
    """Return what a server reports, or why it cannot be used."""
    what = {"engine": engine, "role": role, "nodes": (), "external": variable}
    if reason := refusal(deployment, role or engine, variable):
        return EngineFound(**what, version="none", refused=reason)
    unknown = EngineFound(**what, version="unknown")
    provisioned = Provisioned(deployment=deployment, hosts={}, engines={engine: unknown})
    try:
        version = External(provisioned, engine).engine.version()
    except BenchlabError as error:
        return EngineFound(**what, version="none", refused=str(error))
    return EngineFound(**what, version=version)


def refusal(deployment: Deployment, role: str, variable: str) -> str | None:
    """Return why a server cannot be used, as far as is known without asking it."""
    if shared := [node.name for node in deployment.load if node.is_database]:
        return (
            f"the load would run inside the envelope of {shared[0]}: use a target whose nodes with"
            " the load have no engine, such as external"
        )
    try:
        endpoint_of(variable, engine_class(role))
    except TargetError as error:
        return str(error)
    return None


def endpoint_of(variable: str, cls: type[Engine]) -> Endpoint:
    """Return where the DSN of an environment variable says that a server is.

    Raises:
        TargetError: it is not set, or is no DSN of the engine's protocol. The message never shows
            the DSN.
    """
    dsn = os.environ.get(variable)
    if not dsn:
        raise TargetError(f"{variable} is not set: it is the server's DSN, {_EXAMPLE}")
    try:
        parts = urlsplit(dsn)
        port = parts.port
    except ValueError as error:
        raise TargetError(f"{variable} is no DSN, {_EXAMPLE}") from error
    if parts.scheme not in _PROTOCOLS:
        raise TargetError(
            f"{variable} does not begin with one of {', '.join(f'{one}://' for one in _PROTOCOLS)}"
        )
    usual_port, protocol = _PROTOCOLS[parts.scheme]
    if protocol != cls.protocol:
        raise TargetError(
            f"{variable} is a DSN of {parts.scheme}; {cls.name} speaks {cls.protocol}"
        )
    database = parts.path.removeprefix("/")
    if not (parts.hostname and parts.username and database) or parts.query or parts.fragment:
        raise TargetError(
            f"{variable} must have a user, a host and a database, and no options, {_EXAMPLE}"
        )
    return Endpoint(
        host=parts.hostname,
        port=port or usual_port,
        user=unquote(parts.username),
        password=unquote(parts.password or ""),
        database=unquote(database),
    )


def provide(repo: Repo, deployment: Deployment, variables: Iterable[str]) -> None:
    """Put DSNs of the inventory into the environment of this process, which its children inherit.

    Variables that are set already keep their values.

    Raises:
        TargetError: the inventory's vault cannot be opened.
    """
    if lacking := [name for name in variables if name not in os.environ]:
        known = inventory.dsns(repo, deployment.name)
        os.environ.update({name: known[name] for name in lacking if name in known})
