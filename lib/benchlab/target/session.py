"""What a run needs of its target: the engine's server, the envelope, the client's host."""

import json
from collections.abc import Sequence
from functools import cached_property

from benchlab.engines import Endpoint, Engine, engine_class
from benchlab.errors import EngineError, UnknownName
from benchlab.plan.envelope import Envelope
from benchlab.target import Provisioned
from benchlab.target.host import AGENT, Host, Tunnel


class Session:
    """One engine of a provisioned target."""

    def __init__(self, provisioned: Provisioned, engine: str):
        self.provisioned = provisioned
        self.engine_name = engine
        self.found = provisioned.engines[engine]
        self._tunnel: Tunnel | None = None
        self._log_begin = 0

    @property
    def server(self) -> Host:
        """The host with the engine."""
        return self.provisioned.target.server

    @property
    def client(self) -> Host:
        """The host with the load."""
        return self.provisioned.target.client

    def node(self, role: str) -> Host:
        """Return the host that has a role.

        Raises:
            UnknownName: no host has it.
        """
        nodes = {"db.primary": self.server, "load": self.client}
        if role not in nodes:
            raise UnknownName("role", role, nodes)
        return nodes[role]

    @cached_property
    def engine(self) -> Engine:
        """The engine's server where the load finds it; asked from here by way of the load's host.

        So it needs to listen to nobody but the load.
        """
        cls = engine_class(self.found.role or self.engine_name)
        target = self.provisioned.target
        secret = self.server.read(f"/etc/benchlab/secrets/{self.engine_name}").decode().strip()
        endpoint = Endpoint(
            host="127.0.0.1" if target.single_host else self.server.peer_address,
            port=self.found.port,
            user=cls.admin_user,
            password=secret,
        )
        return cls(endpoint, reach=lambda: self._from_here(endpoint))

    def bring_up(self) -> None:
        """Mount the data file system and set up the cgroups, if they are not there."""
        for host in self.provisioned.target.hosts:
            host.agent("envelope", "up")

    def cold(self, variant: str, restore: str | None = None) -> dict:
        """Stop, (restore a snapshot,) drop the caches, start with a variant, wait until it answers.

        The disk limits are lifted by it.

        Returns:
            Seconds of each step, and the size of the engine's log before it.

        Raises:
            EngineError: it did not stop, start or answer; the message ends with its last log line.
        """
        options = ["--restore", restore] if restore else []
        done = self._verb("cold", "--variant", variant, *options)
        self._log_begin = done["log_begin"]
        return done

    def start(self, variant: str) -> dict:
        """Start with a variant and wait until it answers."""
        return self._verb("start", "--variant", variant)

    def stop(self) -> dict:
        """Stop and wait until it is down."""
        return self._verb("stop")

    def status(self) -> dict:
        """Whether it runs, with which variant and processes."""
        return self._verb("status")

    def snapshot(self, key: str) -> dict:
        """Keep the data directory of the stopped engine under a key."""
        return self._verb("snapshot", key)

    def restore(self, key: str) -> dict:
        """Put a snapshot in the place of the stopped engine's data directory, if it is not
        there."""
        return self._verb("restore", key)

    def snapshots(self) -> list[str]:
        """Keys of the snapshots that are whole."""
        return [snapshot["key"] for snapshot in self._verb("snapshots")["snapshots"]]

    def log(self) -> bytes:
        """Return what the engine has logged since the last cold start of this session began."""
        begin = str(self._log_begin)
        return self.server.agent("engine", self.engine_name, "log", "--begin", begin)

    def limit(self, envelope: Envelope) -> None:
        """Put the envelope's disk limits in force, until the next cold start lifts them."""
        limits = {
            "--read-bytes-per-s": envelope.read_bytes_per_s,
            "--write-bytes-per-s": envelope.write_bytes_per_s,
            "--read-iops": envelope.read_iops,
            "--write-iops": envelope.write_iops,
        }
        options = [word for name, limit in limits.items() for word in (name, str(limit or 0))]
        self.server.agent("envelope", "limit", "on", *options)

    def client_argv(self, command: Sequence[str], role: str = "load") -> list[str]:
        """Return the argument vector that runs ``command`` on a node, counted as the load."""
        return self.node(role).argv(*AGENT, "client", "--", *command)

    def _from_here(self, endpoint: Endpoint) -> Endpoint:
        """Return the same server as this process reaches it; a lost way is opened anew."""
        if self._tunnel is None or self._tunnel.closed:
            self._tunnel = self.client.tunnel(endpoint.host, endpoint.port)
        here = {"host": self._tunnel.address, "port": self._tunnel.port}
        return endpoint.model_copy(update=here)

    def _verb(self, verb: str, *options: str) -> dict:
        try:
            return json.loads(self.server.agent("engine", self.engine_name, verb, *options))
        except Exception as error:
            raise EngineError(f"{self.engine_name}: {verb}: {error}") from error
