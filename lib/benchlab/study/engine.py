"""Engines: their versions, settings and variants in a study."""

from typing import Annotated

from pydantic import ByteSize, Field

from benchlab.study.roles import PRIMARY
from benchlab.study.settings import Settings
from benchlab.study.strict import Scalar, StrictModel


class LogDisk(StrictModel):
    """A disk for the log only, slower than the envelope's and of the same size.

    See ``agent/log_disk.py``.
    """

    write_delay_ms: Annotated[int, Field(gt=0)] = Field(
        description="delay added to each write, whatever its size"
    )
    bandwidth: Annotated[ByteSize, Field(gt=0)] | None = Field(
        None, description="limit in bytes/s of writes and reads together; none: no limit"
    )


class EngineSpec(StrictModel):
    """One engine of a study: variables of its role, settings of all variants, and the variants."""

    label: str = Field(description="its name in tables, legends and prose")
    article_version: str | None = Field(
        None,
        description="version in the article, as exactly as it says; none: it has no such engine",
    )
    article_name: str | None = Field(
        None, description="its name in the article, if that ran another product; none: the same"
    )
    role: str | None = Field(
        None, description="name of its Ansible role and class; none: the engine's name"
    )
    nodes: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        (PRIMARY,),
        description="roles of the nodes that it runs on, the one that clients connect to first",
    )
    external: str | None = Field(
        None,
        description="environment variable with the DSN of a server that somebody else runs",
    )
    role_vars: dict[str, Scalar] = {}
    init: dict[str, Scalar] = {}
    settings: Settings = {}
    fixed_memory: ByteSize = Field(
        ByteSize(0),
        description="memory that its processes need on every scale; added to a scaled envelope",
    )
    connection_memory: ByteSize = Field(
        ByteSize(0),
        description="memory that each client's connection needs on every scale; added to a scaled"
        " envelope",
    )
    variants: Annotated[dict[str, Settings], Field(min_length=1)]
    log_disks: dict[str, LogDisk] = Field(
        {}, description="variant to the disk of its log, where that has one of its own"
    )
    load_variant: str = Field(description="the variant under which the dataset is loaded")

    def software(self, name: str) -> str:
        """Return what decides which version an engine of this name is, for example with its role's
        variables ``postgres postgres_version=15``.
        """
        variables = [f"{key}={value}" for key, value in sorted(self.role_vars.items())]
        return " ".join([self.external or self.role or name, *variables])

    @property
    def runs_on(self) -> tuple[str, ...]:
        """Roles of the nodes that it runs on; empty if somebody else runs it."""
        return () if self.external else self.nodes

    @property
    def in_article(self) -> str:
        """What the article ran: the version, with the name if it is another product."""
        return " ".join(filter(None, (self.article_name, self.article_version)))

    def differs_from_article(self, version: str) -> bool:
        """Whether a version differs from the article's in a part that the article states.

        ``unknown``, the version of an engine that was not asked, does not differ.
        """
        if self.article_version is None or version == "unknown":
            return False
        theirs = self.article_version.split(".")
        return version.split(".")[: len(theirs)] != theirs
