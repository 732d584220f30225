"""Study files: what an article measured, and how much of it each profile reruns.

``paper/studies/<study>.yml`` is read into the frozen models below. A wrong type, an unknown key or a
name that does not resolve is a :class:`~benchlab.errors.StudyError` that names file and line. The file
of an article that is not rerun yet has only its claims.

Sizes that an article ties to the machine are written as a share of memory (``{of_memory: 0.25}``), so
that one line of the file is right in every profile and keeps the article's ratio by construction. A
size that keeps its ratio to the dataset instead is given twice: the article's size and the size here
(``{article: 128MiB, here: 35MiB}``).
"""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import (
    ByteSize,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from benchlab.errors import UnknownName
from benchlab.study.claims import Bound, Claim, Together
from benchlab.study.intervention import LimitBlocks, OutcomeChecks, ResourceKey, SingleWrites
from benchlab.study.kinds import Dataset, DatasetModel, driver_names, driver_options
from benchlab.study.resources import RESOURCES
from benchlab.study.roles import PRIMARY
from benchlab.study.strict import Scalar, StrictModel, Unresolved, first_error, known
from benchlab.study.vocabulary import OF_CLAIMS

ProfileName = Literal["smoke", "quick", "standard", "paper"]
PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)

#: Name of the envelope rule of the main curves in every study.
DEFAULT_ENVELOPE = "main"

#: Keys that a study needs to be rerun; a file has all of them or none.
_RERUN = ("instance", "engines", "workloads", "envelopes", "matrix", "profiles")

#: Names of a study, its engines and its workloads, of which the paper makes anchors.
_ANCHOR = re.compile(r"[A-Za-z][\w-]*")

_DATASET = TypeAdapter(Dataset)


class OfMemory(StrictModel):
    """A size given as a share of the envelope's memory."""

    of_memory: Annotated[float, Field(gt=0)]

    def resolve(self, memory_bytes: int) -> int:
        """Return the size in bytes, rounded down to whole MiB, but at least 1 MiB.

        Args:
            memory_bytes: memory of the envelope.
        """
        mib = 1 << 20
        return max(mib, int(self.of_memory * memory_bytes) // mib * mib)

    def in_article(self, memory_bytes: int) -> float:
        """Return the size in the article in bytes.

        Args:
            memory_bytes: memory of the article's machine.
        """
        return self.of_memory * memory_bytes


class Scaled(StrictModel):
    """A size that has the article's ratio to the dataset, whatever the memory."""

    article: Annotated[ByteSize, Field(gt=0)]
    here: Annotated[ByteSize, Field(gt=0)]

    def resolve(self, memory_bytes: int) -> int:
        """Return the size here in bytes; the memory does not matter."""
        del memory_bytes
        return int(self.here)

    def in_article(self, memory_bytes: int) -> float:
        """Return the size in the article in bytes; the memory does not matter."""
        del memory_bytes
        return float(self.article)


def _kind(value: object) -> str:
    """Return the tag of the kind of value that is meant, so that errors are those of this kind only."""
    keys = value.keys() if isinstance(value, Mapping) else ()
    if isinstance(value, Scaled) or Scaled.model_fields.keys() & keys:
        return "scaled"
    return "of_memory" if isinstance(value, OfMemory | Mapping) else "scalar"


Value = Annotated[
    Annotated[OfMemory, Tag("of_memory")]
    | Annotated[Scaled, Tag("scaled")]
    | Annotated[Scalar, Tag("scalar")],
    Discriminator(_kind),
]
Settings = dict[str, Value]


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


class Workload(StrictModel):
    """What the clients do, as arguments of the driver."""

    label: Annotated[str | None, Field(exclude=True)] = None
    """Name in tables and charts. It does not change what is run, so no record contains it."""
    driver: str = Field(description="a folder of `drivers/`")
    script: Annotated[str | None, Field(exclude_if=lambda it: it is None)] = None
    scripts: Annotated[
        dict[str, Annotated[int, Field(gt=0)]], Field(exclude_if=lambda it: not it)
    ] = {}
    """Several scripts instead of one ``script``: script → weight in the mix."""
    writes: bool
    dataset: Annotated[dict[str, Scalar], Field(exclude_if=lambda it: not it)] = {}
    """Changes to the profile's dataset; with a ``kind`` it is a whole dataset in place of that one."""
    options: dict[str, Scalar] = {}
    tolerated_error_share: Annotated[float, Field(ge=0)] = 0.0
    """Errors per transaction that are part of the workload, such as two clients that insert the same
    row. A run with more errors has failed. Above 1 if most transactions are repeated."""

    @model_validator(mode="after")
    def _has_scripts(self) -> "Workload":
        if (self.script is None) == (not self.scripts):
            raise Unresolved(
                "a workload has one `script`, or `scripts` with their weights", ("scripts",)
            )
        return self

    @property
    def weights(self) -> dict[str, int]:
        """Script → weight in the mix, of all types of transactions."""
        return dict(self.scripts) or {str(self.script): 1}


class Curves(StrictModel):
    """Every combination of these engines, variants and workloads: one curve each."""

    engines: Annotated[list[str], Field(min_length=1)]
    variants: Annotated[list[str], Field(min_length=1)]
    workloads: Annotated[list[str], Field(min_length=1)]
    envelope: str = DEFAULT_ENVELOPE
    profiles: list[ProfileName] = list(PROFILES)


class Block(Curves):
    """A block of the matrix."""

    concurrency: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1)] | None = Field(
        None, description="concurrencies of this block; none: the profile's"
    )
    warmup_s: Annotated[int, Field(ge=0)] | None = Field(
        None, description="least warm-up of this block; none: the profile's"
    )


class InterventionPoint(StrictModel):
    """A point at which limits are lowered, to measure what each limit is worth."""

    engine: str
    variant: str
    workload: str
    concurrency: Annotated[int, Field(gt=0)]
    envelope: str = DEFAULT_ENVELOPE
    profiles: list[ProfileName] = list(PROFILES)
    resources: Annotated[tuple[ResourceKey, ...], Field(min_length=1)] | None = Field(
        None, description="limits to lower at this point; none: the profile's"
    )

    def resolved(self, of_profile: LimitBlocks) -> LimitBlocks:
        """Return the intervention at this point, from that of a profile."""
        changes = {"resources": self.resources} if self.resources else {}
        return of_profile.model_copy(update=changes)

    @property
    def curve(self) -> tuple[str, str, str]:
        """Engine, variant and workload."""
        return self.engine, self.variant, self.workload


class SingleWritesBlock(Curves):
    """Points with a load that only reads, into which single writes are made."""

    concurrency: Annotated[int, Field(gt=0)]
    single_writes: SingleWrites


class OutcomesBlock(Curves):
    """Engines that are checked, each with the dataset of a workload."""

    concurrency: ClassVar[int] = 1  # the client that checks; there is no load

    outcomes: OutcomeChecks


class OpenLoop(Curves):
    """Points whose requests are due at set times, whether or not earlier ones are done.

    Their rate is a share of the throughput that the same number of clients reaches in the closed loop,
    which is run before.
    """

    concurrency: Annotated[int, Field(gt=0, description="requests under way at once, at most")]
    shares: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], Field(min_length=1)]


class Profile(StrictModel):
    """How much of a study to run, and on what scale."""

    envelope: EnvelopeSpec | None = Field(None, description="none: the whole instance type")
    dataset: Dataset
    concurrency: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1)]
    trials: Annotated[int, Field(gt=0)]
    most_trials: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="maximum number of trials: the points of an inconclusive claim get more trials if"
        " these would probably decide it; none: no further trials",
    )
    warmup_s: Annotated[int, Field(ge=0)]
    measure_s: Annotated[int, Field(gt=0)]
    longest_s: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="maximum length of the measured part: a run goes on until it is steady, for"
        " measure_s at least; none: it lasts measure_s",
    )
    transactions_per_client: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="a run of a closed loop ends after so many per client, or after measure_s; one of"
        " pgbench, which has no second limit, fails if it then still runs",
    )
    start: Literal["cold", "prewarm"] = Field(
        description="cold: restarted, caches dropped; prewarm: the same, then every table is read once"
    )
    dataset_reset: Literal["restore", "none"] = Field(
        description="restore: the dataset is restored before every run that writes; none: it is not"
    )
    overrides: dict[str, dict[Literal["init", "settings"], Settings]] = {}
    intervention: LimitBlocks | None = Field(
        None, description="of each point of the study's `interventions`; none: they are not run"
    )

    @model_validator(mode="after")
    def _most_trials_are_more(self) -> "Profile":
        if self.most_trials is not None and self.most_trials <= self.trials:
            raise Unresolved(f"is not more than trials, {self.trials}", ("most_trials",))
        return self

    @model_validator(mode="after")
    def _ends_one_way(self) -> "Profile":
        if self.longest_s is None:
            return self
        if self.transactions_per_client:
            raise Unresolved(
                "a run ends with its transactions or when it is steady", ("longest_s",)
            )
        if self.longest_s < self.measure_s:
            raise Unresolved(f"is less than measure_s, {self.measure_s}", ("longest_s",))
        return self


class Article(StrictModel):
    """The article that a study reruns."""

    title: str
    english_title: str | None = Field(None, description="if the title is in another language")
    subject: str
    file: str | None = Field(
        None, description="its text, as data/published names it; none: it has no numbers there"
    )
    dataset_bytes: float | dict[str, float] | None = Field(
        None, description="size that it gives for its dataset, or for that of each engine"
    )
    dataset_counted: Literal["tables", "unknown"] = Field(
        "tables", description="what that size counts; unknown: tables, or whole data directories"
    )

    def dataset_of(self, engine: str) -> float | None:
        """Return the bytes that the article gives for an engine's dataset, if it gives any."""
        given = self.dataset_bytes
        return given.get(engine) if isinstance(given, dict) else given


class EnvelopeRule(StrictModel):
    """How the disk limits of an instance type are applied to a scaled machine."""

    disk_speed: Annotated[float, Field(gt=0)] = Field(
        1.0, description="factor on the instance type's disk limits, for faster cores"
    )
    iops_headroom: Annotated[float, Field(gt=0)] = Field(
        1.0, description="factor on its limit of operations, which a cgroup counts differently"
    )
    why: str


class Study(StrictModel):
    """One article, its claims, and all that is needed to rerun it."""

    study: str
    article: Article
    instance: str = ""
    target: str = Field(
        "local", description="the inventory whose nodes it needs, where the user names none"
    )
    log_latency: bool = Field(
        False,
        description="whether durable writes to the engines' logs are probed before each load and traced"
        " by system call within it",
    )
    clients: str = Field("threads", description="the article's word for its clients")
    clients_per_core: bool = Field(
        True,
        description="true: the article's number of clients per core is kept; false: its number",
    )
    engines: dict[str, EngineSpec] = {}
    workloads: dict[str, Workload] = {}
    envelopes: dict[str, EnvelopeRule] = {}
    matrix: Annotated[list[Block], Field(min_length=1)] = []
    profiles: dict[ProfileName, Profile] = {}
    interventions: list[InterventionPoint] = []
    open_loops: list[OpenLoop] = []
    single_writes: list[SingleWritesBlock] = []
    outcomes: list[OutcomesBlock] = []
    headlines: list[str] = Field(
        [], description="workloads whose throughput the paper's first page shows; none: the first"
    )
    claims: list[Claim] = []

    @property
    def is_rerun(self) -> bool:
        """Whether there is anything to run; if not, the file has only claims."""
        return bool(self.matrix)

    @model_validator(mode="after")
    def _rerun_is_whole(self) -> "Study":
        given = self.model_fields_set.intersection(_RERUN)
        for key in _RERUN:
            if given and key not in given:
                raise Unresolved(
                    f"is missing; a study that is rerun has {', '.join(_RERUN)}", (key,)
                )
        return self

    @model_validator(mode="after")
    def _names_make_anchors(self) -> "Study":
        names = {("study",): self.study}
        names |= {("engines", name): name for name in self.engines}
        names |= {("workloads", name): name for name in self.workloads}
        for where, name in names.items():
            if not _ANCHOR.fullmatch(name):
                rule = "a letter, then letters, digits, - and _: the paper makes anchors of it"
                raise Unresolved(f"{name!r} is no name; it must be {rule}", where)
        return self

    @model_validator(mode="after")
    def _names_resolve(self) -> "Study":
        for name, engine in self.engines.items():
            where = ("engines", name, "load_variant")
            known("variant", engine.load_variant, engine.variants, where)
            for variant in engine.log_disks:
                where = ("engines", name, "log_disks", variant)
                known("variant", variant, engine.variants, where)
        blocks = [(("matrix", number), block) for number, block in enumerate(self.matrix)]
        blocks += [(("open_loops", number), block) for number, block in enumerate(self.open_loops)]
        blocks += [
            (("single_writes", number), block) for number, block in enumerate(self.single_writes)
        ]
        blocks += [(("outcomes", number), block) for number, block in enumerate(self.outcomes)]
        for where, block in blocks:
            for engine in block.engines:
                known("engine", engine, self.engines, (*where, "engines"))
                for variant in block.variants:
                    known("variant", variant, self.engines[engine].variants, (*where, "variants"))
            for workload in block.workloads:
                known("workload", workload, self.workloads, (*where, "workloads"))
            known("envelope", block.envelope, self.envelopes, (*where, "envelope"))
        for name, profile in self.profiles.items():
            for engine in profile.overrides:
                where = ("profiles", name, "overrides", engine)
                known("engine", engine, self.engines, where)
        for number, one in enumerate(self.interventions):
            where = ("interventions", number)
            known("engine", one.engine, self.engines, (*where, "engine"))
            variants = self.engines[one.engine].variants
            known("variant", one.variant, variants, (*where, "variant"))
            known("workload", one.workload, self.workloads, (*where, "workload"))
            known("envelope", one.envelope, self.envelopes, (*where, "envelope"))
        for workload in self.headlines:
            known("workload", workload, self.workloads, ("headlines",))
        return self

    @model_validator(mode="after")
    def _datasets_resolve(self) -> "Study":
        for name, workload in self.workloads.items():
            for profile in self.profiles.values():
                where = ("workloads", name)
                try:
                    dataset = self.dataset(profile, name)
                except ValidationError as error:
                    found = first_error(error)
                    raise Unresolved(str(found), (*where, "dataset", *found.loc)) from error
                known(
                    f"driver of {dataset.kind}",
                    workload.driver,
                    dataset.drivers,
                    (*where, "driver"),
                )
                for script in workload.weights if dataset.scripts is not None else ():
                    known(f"script of {dataset.kind}", script, dataset.scripts, (*where, "script"))
        return self

    @model_validator(mode="after")
    def _claims_resolve(self) -> "Study":
        ids = set()
        for number, claim in enumerate(self.claims):
            if claim.id in ids:
                raise Unresolved(f"{claim.id!r} is there twice", ("claims", number, "id"))
            ids.add(claim.id)
        alone = {one.id for one in self.claims if not isinstance(one.decided_by, Together)}
        for number, claim in enumerate(self.claims):
            if isinstance(claim.decided_by, Together):
                for other in claim.decided_by.claims:
                    known("claim", other, alone, ("claims", number, "decided_by", "claims"))
            if not self.is_rerun:
                continue
            for side, series in claim.series:
                where = ("claims", number, "decided_by", side)
                known("engine", series.engine, self.engines, (*where, "engine"))
                variants = self.engines[series.engine].variants
                known("variant", series.variant, variants, (*where, "variant"))
                known("workload", series.workload, self.workloads, (*where, "workload"))
                known("metric", series.metric, OF_CLAIMS, (*where, "metric"))
            if isinstance(claim.decided_by, Bound):
                for resource in claim.decided_by.by:
                    where = ("claims", number, "decided_by", "by")
                    known("resource", resource, RESOURCES, where)
        return self

    # not a validator of Workload, which is part of every record: old records must stay readable
    @model_validator(mode="after")
    def _drivers_can_run_the_workloads(self) -> "Study":
        for name, workload in self.workloads.items():
            where = ("workloads", name)
            known("driver", workload.driver, driver_names(), (*where, "driver"))
            driver = driver_options(workload.driver)
            for option in workload.options:
                if reason := driver.refusal_of_option(option):
                    raise Unresolved(reason, (*where, "options", option))
            if reason := driver.refusal_of_scripts(workload.weights):
                raise Unresolved(reason, (*where, "scripts"))
        for number, block in enumerate(self.open_loops):
            for name in block.workloads:
                driver = self.workloads[name].driver
                if not driver_options(driver).TAKES_RATE:
                    raise Unresolved(
                        f"{driver} cannot start transactions at a rate",
                        ("open_loops", number, "workloads", name),
                    )
        return self

    def profile(self, name: str) -> Profile:
        """Return a profile of this study by name.

        Raises:
            UnknownName: there is none of that name.
        """
        if name not in self.profiles:
            raise UnknownName("profile", name, self.profiles)
        return self.profiles[name]

    @property
    def clients_in_article(self) -> list[int]:
        """The article's numbers of clients; none without a profile ``paper``."""
        as_published = self.profiles.get("paper")
        return as_published.concurrency if as_published else []

    def dataset(self, profile: Profile, workload: str) -> DatasetModel:
        """Return the dataset of a workload of this study in a profile."""
        changes = self.workloads[workload].dataset
        if "kind" not in changes:
            changes = profile.dataset.model_dump() | changes
        return _DATASET.validate_python(changes)

    def label(self, engine: str, variant: str | None = None) -> str:
        """Return the name of an engine, or of one of its variants, in tables and charts."""
        # the study file may no longer have the engine of a run
        name = self.engines[engine].label if engine in self.engines else engine
        return f"{name}, {variant}" if variant else name

    def curve_label(self, engine: str, variant: str) -> str:
        """Return a curve's name in tables and charts: engine and variant.

        In a study of one engine it is the variant only, or the engine if there is one variant.
        """
        spec = self.engines.get(engine)
        if spec is None or len(self.engines) > 1:
            return self.label(engine, variant)
        return variant if len(spec.variants) > 1 else spec.label

    def workload_label(self, workload: str) -> str:
        """Return the name of a workload in tables and charts."""
        known = self.workloads.get(workload)
        return (known and known.label) or workload

    @property
    def choices(self) -> dict[str, set[str]]:
        """Names that can be selected: ``engine``, ``variant`` (of any engine), ``workload`` → names."""
        return {
            "engine": set(self.engines),
            "variant": {name for engine in self.engines.values() for name in engine.variants},
            "workload": set(self.workloads),
        }

    def role(self, engine: str) -> str:
        """Return the name of the Ansible role, the class and the rules of an engine of this study."""
        return self.engine(engine).role or engine

    def engine(self, name: str) -> EngineSpec:
        """Return an engine of this study by name.

        Raises:
            UnknownName: there is none of that name.
        """
        if name not in self.engines:
            raise UnknownName("engine", name, self.engines)
        return self.engines[name]
