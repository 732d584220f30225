"""Study files: what an article measured, and how much of it each profile reruns.

``paper/studies/<study>.yml`` is read into frozen models: a :class:`Study`, and what the modules beside
define for it. A wrong type, an unknown key or a name that does not resolve is a
:class:`~benchlab.errors.StudyError` that names file and line. The file of an article that is not rerun
yet has only its claims.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from benchlab.errors import UnknownName
from benchlab.study.blocks import (
    Block,
    InterventionPoint,
    OpenLoop,
    OutcomesBlock,
    ProfileName,
    SingleWritesBlock,
)
from benchlab.study.claims import Bound, Claim, Together
from benchlab.study.engine import EngineSpec
from benchlab.study.envelope import EnvelopeRule
from benchlab.study.kinds import Dataset, DatasetModel, driver_names, driver_options
from benchlab.study.profile import Profile
from benchlab.study.resources import RESOURCES
from benchlab.study.strict import Scalar, StrictModel, Unresolved, first_error, known
from benchlab.study.vocabulary import OF_CLAIMS

#: Keys that a study needs to be rerun; a file has all of them or none.
_RERUN = ("instance", "engines", "workloads", "envelopes", "matrix", "profiles")

#: Names of a study, its engines and its workloads, of which the paper makes anchors.
_ANCHOR = re.compile(r"[A-Za-z][\w-]*")

_DATASET = TypeAdapter(Dataset)


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
    def _lengths_resolve(self) -> "Study":
        for number, block in enumerate(self.matrix):
            for name, profile in self.profiles.items():
                if block.longest_s is None or name not in block.profiles:
                    continue
                where = ("matrix", number, "longest_s")
                if profile.longest_s is None:
                    raise Unresolved(f"profile {name} has none: its runs last measure_s", where)
                if block.longest_s < profile.measure_s:
                    raise Unresolved(f"is less than measure_s of profile {name}", where)
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
