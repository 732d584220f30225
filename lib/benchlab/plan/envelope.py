"""The envelope: the limits of an instance type, scaled to what a profile keeps of it.

The disk is limited per core as the instance type's is: bandwidth and operations stay in the
article's proportion to the CPU, so that the same resource binds first.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from benchlab.study import Instance, Profile, Study


class Envelope(BaseModel):
    """Limits in force during the measured part of a run; ``None`` is no limit."""

    model_config = ConfigDict(frozen=True)

    name: str
    cores: Annotated[float, Field(description="CPU time per second of engine and client together")]
    memory_bytes: Annotated[int, Field(description="engine and client, page cache included")]
    read_bytes_per_s: int | None
    write_bytes_per_s: int | None
    read_iops: int | None
    write_iops: int | None
    disk_bytes: Annotated[int, Field(description="size of the data file system")]
    enforce: bool


def resolve(
    study: Study, profile: Profile, instance: Instance, rule_name: str, enforce: bool
) -> Envelope:
    """Scale the study's instance type to a profile.

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
        read_bytes_per_s=bandwidth,
        write_bytes_per_s=bandwidth,
        read_iops=iops,
        write_iops=iops,
        disk_bytes=int(spec.disk) if spec else instance.disk_bytes,
        enforce=enforce,
    )


def _scaled(limit: int | None, share: float) -> int | None:
    return None if limit is None else int(limit * share)
