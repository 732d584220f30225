"""The envelope: the limits of an instance type, scaled to the part that a profile keeps.

The disk's limits per core are those of the instance type. So bandwidth and operations keep the
article's proportion to the CPU, and the same resource binds first.
"""

from collections.abc import Collection
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from benchlab.study import Instance, Profile, Study

#: Bytes of a GiB.
GIB = 1 << 30


class Envelope(BaseModel):
    """Limits in force during the measured part of a run; ``None``: no limit."""

    model_config = ConfigDict(frozen=True)

    name: str
    cores: Annotated[float, Field(description="CPU time per second of engine and client together")]
    memory_bytes: Annotated[int, Field(description="engine and client, page cache included")]
    # left out of key and record if the engine has none
    fixed_memory_bytes: Annotated[
        int,
        Field(
            description="in addition: what the engine's processes take on every scale",
            exclude_if=lambda it: it == 0,
        ),
    ] = 0
    connections_memory_bytes: Annotated[
        int,
        Field(
            description="in addition: what the clients' connections take on every scale",
            exclude_if=lambda it: it == 0,
        ),
    ] = 0
    read_bytes_per_s: int | None
    write_bytes_per_s: int | None
    read_iops: int | None
    write_iops: int | None
    disk_bytes: Annotated[int, Field(description="size of the data file system")]
    enforce: bool

    @property
    def memory_limit_bytes(self) -> int:
        """The memory limit in force, in bytes."""
        return self.memory_bytes + self.fixed_memory_bytes + self.connections_memory_bytes


def resolve(
    study: Study,
    profile: Profile,
    instance: Instance,
    rule_name: str,
    enforce: bool,
    engines: Collection[str],
    clients: int = 0,
) -> Envelope:
    """Return a study's instance type scaled to a profile, for engines that run one at a time.

    With ``clients`` it has the memory that so many connections take.

    The instance type's disk limits apply to reads and writes together, those of a cgroup to each of
    them. No workload of the studies has both near the limit at once. Operations are also counted
    differently: the vendor counts requests after merging, the cgroup before it. The rule's headroom is
    for this difference.
    """
    rule = study.envelopes[rule_name]
    spec = profile.envelope
    cores = spec.cores if spec else instance.cores
    share = cores / instance.cores
    bandwidth = _scaled(instance.disk_bytes_per_s, share * rule.disk_speed)
    iops = _scaled(instance.disk_iops, share * rule.disk_speed * rule.iops_headroom)
    return Envelope(
        name=rule_name,
        cores=cores,
        memory_bytes=int(spec.memory) if spec else instance.memory_bytes,
        fixed_memory_bytes=max(
            (fixed_memory_bytes(study, profile, engine) for engine in engines), default=0
        ),
        connections_memory_bytes=max(
            (connections_memory_bytes(study, profile, engine, clients) for engine in engines),
            default=0,
        ),
        read_bytes_per_s=bandwidth,
        write_bytes_per_s=bandwidth,
        read_iops=iops,
        write_iops=iops,
        disk_bytes=int(spec.disk) if spec else instance.disk_bytes,
        enforce=enforce,
    )


def fixed_memory_bytes(study: Study, profile: Profile, engine: str) -> int:
    """Return the bytes that an engine's processes take on every scale.

    0 on the whole instance type, whose memory includes them.
    """
    return int(study.engine(engine).fixed_memory) if profile.envelope else 0


def connections_memory_bytes(study: Study, profile: Profile, engine: str, clients: int) -> int:
    """Return the bytes that the clients' connections to an engine take on every scale.

    0 on the whole instance type, whose memory includes them.
    """
    return clients * int(study.engine(engine).connection_memory) if profile.envelope else 0


def _scaled(limit: int | None, share: float) -> int | None:
    return None if limit is None else int(limit * share)
