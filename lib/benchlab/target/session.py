"""What a run needs of its deployment: the engine on its nodes, the envelope, the load's nodes."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from benchlab.engines import Endpoint, Engine, engine_class
from benchlab.errors import EngineError, UnknownName
from benchlab.plan.envelope import Envelope
from benchlab.study.roles import LOAD
from benchlab.target.deployment import Deployment, Node
from benchlab.target.host import AGENT, Tunnel
from benchlab.target.provisioned import Provisioned

#: A server that has just been started is found by the others within a second.
_FOLLOW_TIMEOUT_S = 30


class Session:
    """One engine of a provisioned deployment.

    An engine on several nodes is started on all of them at once, since some are ready only when others
    are. How it is stopped is the engine's (:attr:`Engine.stops_at_once`); the first of its nodes is
    that which clients connect to.
    """

    def __init__(self, provisioned: Provisioned, engine: str):
        self.provisioned = provisioned
        self.engine_name = engine
        self.found = provisioned.engines[engine]
        self.nodes = self.deployment.having(*self.found.nodes)
        self._tunnel: Tunnel | None = None
        self._log_begin: dict[str, int] = {}

    @property
    def deployment(self) -> Deployment:
        """All nodes, those without the engine among them."""
        return self.provisioned.deployment

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Node → its roles, of the nodes that a run uses."""
        return self.deployment.roles

    @property
    def primary(self) -> Node:
        """The node with the engine that clients connect to."""
        return self.nodes[0]

    @property
    def load(self) -> tuple[Node, ...]:
        """The nodes with the load."""
        return self.deployment.load

    def node(self, role: str, number: int = 0) -> Node:
        """Return one of the nodes that have a role.

        Raises:
            UnknownName: no node has it.
        """
        nodes = self.deployment.having(role)
        if not nodes:
            roles = {role for node in self.deployment.nodes for role in node.roles}
            raise UnknownName("role", role, roles)
        return nodes[number]

    def address(self, role: str, number: int = 0) -> str:
        """Return where the other nodes find one of the nodes that have a role; see :meth:`node`."""
        return self._found_at(self.node(role, number))

    def _found_at(self, node: Node) -> str:
        return "127.0.0.1" if len(self.deployment.nodes) == 1 else node.peer_address

    @property
    def _class(self) -> type[Engine]:
        return engine_class(self.found.role or self.engine_name)

    @cached_property
    def engine(self) -> Engine:
        """The engine's server where the load finds it; queried from here by way of the load's node.

        So it needs to listen to nobody but the load.
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
        """Mount the data file systems and set up the cgroups, where they are not there."""
        for node in self.deployment.nodes:
            node.agent("envelope", "up")

    def cold(self, variant: str, restore: str | None = None) -> dict[str, dict]:
        """Stop, (restore a snapshot,) drop the caches, start with a variant, wait until it answers.

        The disk limits are lifted by it.

        Returns:
            Node → seconds of each step, and the size of the engine's log before it.

        Raises:
            EngineError: it did not stop, start or answer; the message ends with its last log line.
        """
        if len(self.nodes) > 1:
            self.stop()  # no node may see the others' data replaced under it
        options = ["--restore", restore] if restore else []
        done = self._at_once("cold", "--variant", variant, *options)
        self._log_begin = {node: said["log_begin"] for node, said in done.items()}
        self._wait_followed()
        return done

    def start(self, variant: str) -> None:
        """Start with a variant and wait until it answers."""
        self._at_once("start", "--variant", variant)
        self._wait_followed()

    def require_followed(self) -> None:
        """Make sure that the servers on the other nodes follow the one that clients connect to.

        Raises:
            EngineError: not all of them do.
        """
        others = len(self.nodes) - 1
        if others and (following := self.engine.followers()) < others:
            raise EngineError(
                f"{self.engine_name}: {following} of {others} follow {self.primary.name}"
            )

    def stop(self) -> None:
        """Stop and wait until it is down."""
        (self._at_once if self._class.stops_at_once else self._each)("stop")

    def status(self) -> dict:
        """Whether it runs where clients connect to it, with which variant and processes."""
        return self._verb(self.primary, "status")

    def settle(self) -> None:
        """Bring a freshly loaded dataset into the state in which it is kept."""
        self.engine.settle()

    def snapshot(self, key: str) -> None:
        """Keep the data directories of the stopped engine under a key."""
        self._each("snapshot", key)

    def restore(self, key: str) -> None:
        """Put a snapshot in the place of the stopped engine's data directories, if it is not there."""
        self._each("restore", key)

    def snapshots(self) -> set[str]:
        """Keys of the snapshots that are whole on every node."""
        kept = self._each("snapshots").values()
        return set.intersection(*({one["key"] for one in said["snapshots"]} for said in kept))

    def log(self, node: Node | None = None) -> bytes:
        """Return what the engine has logged since the last cold start of this session began.

        Args:
            node: where; by default where clients connect to it.
        """
        node = node or self.primary
        begin = str(self._log_begin.get(node.name, 0))
        return node.agent("engine", self.engine_name, "log", "--begin", begin)

    def metrics(self) -> dict[str, dict[str, str]]:
        """Node → service → its counters as it prints them for Prometheus, of those that do."""
        return self._each("metrics") if self.found.has_metrics else {}

    def probe_log(self) -> dict[str, float]:
        """Probe how long a durable write to the log takes on the primary, at rest.

        Returns:
            ``t``, and ``durable_write_ns`` as the agent measured it.
        """
        return self._verb(self.primary, "probe-log", "--folder", self.engine.log_folder)

    def limit(self, envelope: Envelope) -> None:
        """Put the envelope's disk limits in force, until the next cold start lifts them."""
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
        """Return the argument vector that runs ``command`` on a node, counted as the load."""
        return self.node(role, number).argv(*AGENT, "client", "--", *command)

    def _from_here(self, endpoint: Endpoint) -> Endpoint:
        """Return the same server as this process reaches it; a lost way is opened anew."""
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

    def _each(self, verb: str, *options: str) -> dict[str, dict]:
        """Run a verb of the agent on one node of the engine after the other; return each result."""
        return {node.name: self._verb(node, verb, *options) for node in self.nodes}

    def _at_once(self, verb: str, *options: str) -> dict[str, dict]:
        """Run a verb of the agent on all nodes of the engine at once, and return each result.

        Raises:
            EngineError: a node failed, the first of those that did; all that had begun have ended.
        """
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            done = threads.map(lambda node: self._verb(node, verb, *options), self.nodes)
            return {node.name: said for node, said in zip(self.nodes, done, strict=True)}

    def _verb(self, node: Node, verb: str, *options: str) -> dict:
        try:
            return json.loads(node.agent("engine", self.engine_name, verb, *options))
        except Exception as error:
            raise EngineError(f"{self.engine_name}: {verb}: {error}") from error
