"""Sessions: a run's access to its engine, to the envelope, and to the nodes of the load."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from benchlab.engines import Endpoint, Engine, engine_class
from benchlab.errors import EngineError, TargetError, UnknownName
from benchlab.plan.envelope import Envelope
from benchlab.study.roles import LOAD
from benchlab.target.deployment import Deployment, Node
from benchlab.target.host import AGENT, COPY_TIMEOUT_S, Tunnel
from benchlab.target.provisioned import Provisioned

#: Verbs of the agent that copy a data directory.
_COPYING = ("cold", "restore", "snapshot")

#: Timeout until the other servers follow one that was just started, which takes up to a second.
_FOLLOW_TIMEOUT_S = 30


class Session:
    """One engine of a provisioned deployment.

    An engine on several nodes is started on all of them at once, as some become ready only when
    others run. :attr:`Engine.stops_at_once` says whether it is stopped on all at once. Clients connect
    to its first node.
    """

    def __init__(self, provisioned: Provisioned, engine: str):
        self.provisioned = provisioned
        self.engine_name = engine
        self.found = provisioned.engines[engine]
        self.nodes = self.deployment.having(*self.found.nodes)
        self._tunnel: Tunnel | None = None

    @property
    def deployment(self) -> Deployment:
        """All nodes, including those without the engine."""
        return self.provisioned.deployment

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Node → its roles, for the nodes that a run uses."""
        return self.deployment.roles

    @property
    def primary(self) -> Node:
        """The engine's node that clients connect to."""
        return self.nodes[0]

    @property
    def load(self) -> tuple[Node, ...]:
        """The nodes with the load."""
        return self.deployment.load

    def node(self, role: str, number: int = 0) -> Node:
        """Return one of the nodes that have a role, counted from 0.

        Raises:
            UnknownName: no node has the role.
        """
        nodes = self.deployment.having(role)
        if not nodes:
            roles = {role for node in self.deployment.nodes for role in node.roles}
            raise UnknownName("role", role, roles)
        return nodes[number]

    def address(self, role: str) -> str:
        """Return the address at which other nodes reach the first node with a role."""
        return self._found_at(self.node(role))

    def _found_at(self, node: Node) -> str:
        return "127.0.0.1" if len(self.deployment.nodes) == 1 else node.peer_address

    @property
    def _class(self) -> type[Engine]:
        return engine_class(self.found.role or self.engine_name)

    @cached_property
    def engine(self) -> Engine:
        """The engine, with the address that the load uses; queries go through the load's node.

        So the server needs to accept connections from the load's nodes only.
        """
        cls = self._class
        secret = self.primary.read(f"/etc/benchlab/secrets/{self.engine_name}").decode().strip()
        endpoint = Endpoint(
            host=self._found_at(self.primary),
            port=self.found.port,
            user=cls.admin_user,
            password=secret,
        )
        return cls(endpoint, reach=lambda: self._from_here(endpoint))

    @cached_property
    def data_dir(self) -> Path:
        """Data directory of the server that clients connect to, on its node."""
        found = self.primary.read(f"/etc/benchlab/engines/{self.engine_name}.json")
        return Path(json.loads(found)["data_dir"])

    def bring_up(self) -> None:
        """Mount the data file systems and set up the cgroups, if they do not exist."""
        for node in self.deployment.nodes:
            node.agent("envelope", "up", timeout_s=COPY_TIMEOUT_S)

    def cold(
        self, variant: str, restore: str | None = None, connections_memory_bytes: int = 0
    ) -> dict[str, dict]:
        """Stop, (restore a snapshot,) drop the caches, start with a variant, wait until it answers.

        It lifts the disk limits. The envelope has the memory of the connections in addition until the
        next start.

        Returns:
            Node → what the agent returns: seconds of each step, ...

        Raises:
            EngineError: it did not stop, start or answer; the message ends with its last log line.
        """
        stopped = {}
        if len(self.nodes) > 1:  # no node may run while the others' data is replaced
            for node in self.nodes:
                node.agent("envelope", "limit", "off")
            stopped = {
                node: {key: said[key] for key in ("was_running", "killed")}
                for node, said in self._stop().items()
            }
        options = ["--restore", restore] if restore else []
        if connections_memory_bytes:
            options += ["--more-memory", str(connections_memory_bytes)]
        done = self._at_once("cold", "--variant", variant, *options)
        self._wait_followed()
        return {node: said | stopped.get(node, {}) for node, said in done.items()}

    def require_followed(self) -> None:
        """Check that the servers on the other nodes follow the one that clients connect to.

        Raises:
            EngineError: not all of them follow it.
        """
        others = len(self.nodes) - 1
        if others > 0 and (following := self.engine.followers()) < others:
            raise EngineError(
                f"{self.engine_name}: {following} of {others} follow {self.primary.name}"
            )

    def stop(self) -> bool:
        """Stop the engine and wait until it is down; return whether no node had to kill it."""
        return not any(said["killed"] for said in self._stop().values())

    def status(self, node: str) -> dict:
        """Return whether the engine runs on the node of a name, with which variant and processes."""
        named = {one.name: one for one in self.nodes}
        return self._verb(named[node], "status")

    def settle(self) -> None:
        """Bring a freshly loaded dataset into the state in which snapshots keep it."""
        self.engine.settle()

    def snapshot(self, key: str) -> None:
        """Store the data directories of the stopped engine as a snapshot with a key."""
        self._each("snapshot", key)

    def restore(self, key: str) -> None:
        """Replace the stopped engine's data directories by a snapshot, unless they are it already."""
        self._each("restore", key)

    def snapshots(self) -> set[str]:
        """Return the keys of the snapshots that are complete on every node."""
        kept = self._each("snapshots").values()
        return set.intersection(*({one["key"] for one in said["snapshots"]} for said in kept))

    def log(self, node: Node | None = None) -> bytes:
        """Return what the engine has logged since its last start.

        Args:
            node: the node; by default the one that clients connect to.
        """
        return (node or self.primary).agent("engine", self.engine_name, "log")

    def metrics(self) -> dict[str, dict[str, str]]:
        """Return node → service → its counters in Prometheus' text format, if the service has any."""
        return self._each("metrics") if self.found.has_metrics else {}

    def probe_log(self) -> dict[str, float]:
        """Measure how long a durable write to the log takes on the primary while the engine is idle.

        Returns:
            ``t``, the time in Unix seconds, and ``durable_write_ns``, the median in nanoseconds.
        """
        return self._verb(self.primary, "probe-log", "--folder", self.engine.log_folder)

    def limit(self, envelope: Envelope) -> None:
        """Set the envelope's disk limits, until the next cold start lifts them."""
        limits = {
            "--read-bytes-per-s": envelope.read_bytes_per_s,
            "--write-bytes-per-s": envelope.write_bytes_per_s,
            "--read-iops": envelope.read_iops,
            "--write-iops": envelope.write_iops,
        }
        options = [word for name, limit in limits.items() for word in (name, str(limit or 0))]
        for node in self.nodes:
            node.agent("envelope", "limit", "on", *options)

    def client_argv(self, command: Sequence[str], role: str = LOAD, number: int = 0) -> list[str]:
        """Return the argument vector that runs ``command`` on a node, in the load's cgroup."""
        return self.node(role, number).argv(*AGENT, "client", "--", *command)

    def _from_here(self, endpoint: Endpoint) -> Endpoint:
        """Return the server's address for this process; a lost tunnel is opened again."""
        if self._tunnel is None or self._tunnel.closed:
            self._tunnel = self.load[0].tunnel(endpoint.host, endpoint.port)
        here = {"host": self._tunnel.address, "port": self._tunnel.port}
        return endpoint.model_copy(update=here)

    def _wait_followed(self) -> None:
        deadline = time.monotonic() + _FOLLOW_TIMEOUT_S
        while True:
            try:
                return self.require_followed()
            except EngineError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _stop(self) -> dict[str, dict]:
        return (self._at_once if self._class.stops_at_once else self._each)("stop")

    def _each(self, verb: str, *options: str) -> dict[str, dict]:
        """Run a verb of the agent on the engine's nodes one after the other; return each result."""
        return {node.name: self._verb(node, verb, *options) for node in self.nodes}

    def _at_once(self, verb: str, *options: str) -> dict[str, dict]:
        """Run a verb of the agent on all nodes of the engine at once, and return each result.

        Raises:
            EngineError: a node failed; the error is the first such node's, and the verb has ended on
                all nodes.
        """
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            done = threads.map(lambda node: self._verb(node, verb, *options), self.nodes)
            return {node.name: said for node, said in zip(self.nodes, done, strict=True)}

    def _verb(self, node: Node, verb: str, *options: str) -> dict:
        timeout = {"timeout_s": COPY_TIMEOUT_S} if verb in _COPYING else {}
        try:
            return json.loads(node.agent("engine", self.engine_name, verb, *options, **timeout))
        except (TargetError, ValueError) as error:
            raise EngineError(f"{self.engine_name}: {verb}: {error}") from error
