"""The envelope: the limits of an instance type, scaled to what a profile keeps of it.

The disk is limited per core as the instance type's is: bandwidth and operations stay in the
article's proportion to the CPU, so that the same resource binds first.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from benchlab.study import Instance, Profile, Study


class Envelope(BaseModel):
    """Limits in force during the measured part of a run; ``None`` is no limit."""

    model_config = ConfigDict(frozen=True)

    name: str
    cores: Annotated[float, Field(description="CPU time per second of engine and client together")]
    memory_bytes: Annotated[int, Field(description="engine and client, page cache included")]
    # left out of the key and the record of an engine that has none
    fixed_memory_bytes: Annotated[
        int,
        Field(
            description="in addition: what the engine's processes take on every scale",
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
        """The limit that is put into force."""
        return self.memory_bytes + self.fixed_memory_bytes


def resolve(
    study: Study,
    profile: Profile,
    instance: Instance,
    rule_name: str,
    enforce: bool,
    engines: Iterable[str],
) -> Envelope:
    """Scale the study's instance type to a profile, for engines that run in it one at a time.

    The instance type's disk limits hold for reads and writes together, a cgroup's for each of them;
    no workload of the studies has both near the limit at once. Operations are counted differently,
    too: the vendor counts requests after merging, the cgroup before it, hence the rule's headroom.
    """
    rule = study.envelopes[rule_name]
    spec = profile.envelope
    cores = spec.cores if spec else instance.cores
    share = cores / instance.cores
    bandwidth = _scaled(instance.disk_bytes_per_s, share)
    iops = _scaled(instance.disk_iops, share * rule.iops_headroom)
    return Envelope(
        name=rule_name,
        cores=cores,
        memory_bytes=int(spec.memory) if spec else instance.memory_bytes,
        fixed_memory_bytes=max(
            (fixed_memory_bytes(study, profile, engine) for engine in engines), default=0
        ),
        read_bytes_per_s=bandwidth,
        write_bytes_per_s=bandwidth,
        read_iops=iops,
        write_iops=iops,
        disk_bytes=int(spec.disk) if spec else instance.disk_bytes,
        enforce=enforce,
    )


def fixed_memory_bytes(study: Study, profile: Profile, engine: str) -> int:
    """Return what an engine's processes take on every scale; the whole instance type includes it."""
    return int(study.engine(engine).fixed_memory) if profile.envelope else 0


def _scaled(limit: int | None, share: float) -> int | None:
    return None if limit is None else int(limit * share)
