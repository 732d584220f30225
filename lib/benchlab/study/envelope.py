"""Hardware: the article's instance type, and the part of it that a profile keeps."""

from typing import Annotated

from pydantic import ByteSize, Field

from benchlab.study.strict import StrictModel

#: Name of the envelope rule of the main curves in every study.
DEFAULT_ENVELOPE = "main"


class Instance(StrictModel):
    """A named hardware size, as its vendor sells it (inventory variable ``instance_type``).

    A disk limit of ``None``: the vendor states none.
    """

    name: str
    cores: int
    memory_bytes: int
    disk_bytes_per_s: int | None
    disk_iops: int | None
    disk_bytes: int
    source: str


class EnvelopeSpec(StrictModel):
    """The part of an instance type that a profile keeps; disk limits are scaled with the cores."""

    cores: Annotated[float, Field(gt=0)]
    memory: ByteSize
    disk: ByteSize = Field(description="size of the file system that holds the engines' data")


class EnvelopeRule(StrictModel):
    """How the disk limits of an instance type are applied to a scaled machine."""

    disk_speed: Annotated[float, Field(gt=0)] = Field(
        1.0, description="factor on the instance type's disk limits, for faster cores"
    )
    iops_headroom: Annotated[float, Field(gt=0)] = Field(
        1.0, description="factor on its limit of operations, which a cgroup counts differently"
    )
    why: str
