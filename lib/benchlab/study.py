"""Study files: what an article measured, and how much of it each profile reruns.

``paper/studies/<study>.yml`` is read into the frozen models below. A wrong type, an unknown key or a
name that does not resolve is a :class:`~benchlab.errors.StudyError` that names file and line.

Sizes that an article ties to the machine are written as a share of memory (``{of_memory: 0.25}``), so
that one line of the file is right in every profile and the ratios of the article are kept by
construction.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from benchlab.errors import StudyError, UnknownName
from benchlab.repo import Repo

PROFILES = ("smoke", "quick", "standard", "paper")

#: Name that every study gives to the envelope rule of its main curves.
DEFAULT_ENVELOPE = "main"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, content: Any) -> Any:
        """Name the keys that there are, which pydantic's own message does not."""
        if isinstance(content, Mapping):
            for key in content:
                _known("key", key, cls.model_fields, (key,))
        return content


class OfMemory(_Model):
    """A size given as a share of the envelope's memory."""

    of_memory: Annotated[float, Field(gt=0)]

    def resolve(self, memory_bytes: int) -> int:
        """Bytes, rounded down to whole MiB, at least one."""
        mib = 1 << 20
        return max(mib, int(self.of_memory * memory_bytes) // mib * mib)


Scalar = bool | int | float | str
Value = OfMemory | Scalar
Settings = dict[str, Value]


class Instance(_Model):
    """A named hardware size, as its vendor sells it (inventory variable ``instance_type``)."""

    name: str
    cores: int
    memory_bytes: int
    disk_bytes_per_s: int
    disk_iops: int
    disk_bytes: int
    source: str


class EnvelopeSpec(_Model):
    """The part of an instance type that a profile keeps; the disk follows from it per core."""

    cores: Annotated[float, Field(gt=0)]
    memory: ByteSize
    disk: ByteSize = Field(description="size of the file system that holds the engines' data")


class EngineSpec(_Model):
    """One engine of a study: the role's variables, the settings of all variants, the variants."""

    label: str
    role_vars: dict[str, Scalar] = {}
    init: dict[str, Scalar] = {}
    settings: Settings = {}
    variants: Annotated[dict[str, Settings], Field(min_length=1)]
    load_variant: str = Field(description="the variant under which the dataset is loaded")


class Workload(_Model):
    """What the clients do, as arguments of the driver."""

    driver: Literal["sysbench"]
    script: str
    writes: bool
    options: dict[str, Scalar] = {}
    tolerated_error_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Errors per transaction that the workload brings about by itself, such as two clients that
    insert the same row; with more of them a run has failed."""


class Dataset(_Model):
    """What the sysbench tables hold at the start."""

    tables: Annotated[int, Field(gt=0)]
    rows_per_table: Annotated[int, Field(gt=0)]

    @property
    def rows(self) -> int:
        """Rows over all tables."""
        return self.tables * self.rows_per_table


class Block(_Model):
    """A rectangle of the matrix: every combination of what it lists is one curve."""

    engines: Annotated[list[str], Field(min_length=1)]
    variants: Annotated[list[str], Field(min_length=1)]
    workloads: Annotated[list[str], Field(min_length=1)]
    envelope: str = DEFAULT_ENVELOPE
    profiles: list[Literal["smoke", "quick", "standard", "paper"]] = list(PROFILES)


class Profile(_Model):
    """How much of the study to run, and on what scale."""

    envelope: EnvelopeSpec | None = Field(None, description="none: the whole instance type")
    dataset: Dataset
    concurrency: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1)]
    trials: Annotated[int, Field(gt=0)]
    warmup_s: Annotated[int, Field(ge=0)]
    measure_s: Annotated[int, Field(gt=0)]
    start: Literal["cold", "read_in"] = Field(
        description="cold: restarted, caches dropped; read_in: the same, then every table is read once"
    )
    dataset_reset: Literal["restore", "none"] = Field(
        description="restore: before every run of a workload that writes; none: before a curve only"
    )
    overrides: dict[str, dict[Literal["init", "settings"], Settings]] = {}


class Told(_Model):
    """A number that the article's prose tells, to stand beside ours."""

    id: str
    what: str
    value: float
    unit: str
    where: str = Field(description="section of the article")
    numerator: dict[str, Scalar]
    denominator: dict[str, Scalar] = {}


class Article(_Model):
    """The article that a study reruns."""

    title: str
    subject: str
    file: str


class EnvelopeRule(_Model):
    """How an instance type's disk limits are put on a scaled machine."""

    iops_headroom: Annotated[float, Field(gt=0)] = 1.0
    why: str


class Study(_Model):
    """One article and all that reruns it."""

    study: str
    article: Article
    instance: str
    engines: dict[str, EngineSpec]
    workloads: dict[str, Workload]
    envelopes: dict[str, EnvelopeRule]
    matrix: Annotated[list[Block], Field(min_length=1)]
    profiles: dict[Literal["smoke", "quick", "standard", "paper"], Profile]
    told: list[Told] = []

    @model_validator(mode="after")
    def _names_resolve(self) -> "Study":
        for name, engine in self.engines.items():
            where = ("engines", name, "load_variant")
            _known("variant", engine.load_variant, engine.variants, where)
        for number, block in enumerate(self.matrix):
            where = ("matrix", number)
            for engine in block.engines:
                _known("engine", engine, self.engines, (*where, "engines"))
                for variant in block.variants:
                    _known("variant", variant, self.engines[engine].variants, (*where, "variants"))
            for workload in block.workloads:
                _known("workload", workload, self.workloads, (*where, "workloads"))
            _known("envelope", block.envelope, self.envelopes, (*where, "envelope"))
        for name, profile in self.profiles.items():
            for engine in profile.overrides:
                where = ("profiles", name, "overrides", engine)
                _known("engine", engine, self.engines, where)
        for number, told in enumerate(self.told):
            self._sides_resolve(told, ("told", number))
        return self

    def _sides_resolve(self, told: Told, where: tuple) -> None:
        for side in ("numerator", "denominator"):
            one = getattr(told, side)
            if side == "denominator" and not one:
                continue
            for key in ("engine", "variant", "workload", "concurrency"):
                if key not in one:
                    raise _Unresolved(f"{key} is missing", (*where, side))
            _known("engine", one["engine"], self.engines, (*where, side, "engine"))
            variants = self.engines[one["engine"]].variants
            _known("variant", one["variant"], variants, (*where, side, "variant"))
            _known("workload", one["workload"], self.workloads, (*where, side, "workload"))

    def profile(self, name: str) -> Profile:
        """Return a profile of this study by name."""
        if name not in self.profiles:
            raise UnknownName("profile", name, self.profiles)
        return self.profiles[name]

    def engine(self, name: str) -> EngineSpec:
        """Return an engine of this study by name."""
        if name not in self.engines:
            raise UnknownName("engine", name, self.engines)
        return self.engines[name]


class _Unresolved(ValueError):
    def __init__(self, message: str, loc: tuple):
        super().__init__(message)
        self.loc = loc


def _known(kind: str, name: str, choices: Mapping[str, Any], loc: tuple) -> None:
    if name not in choices:
        raise _Unresolved(str(UnknownName(kind, name, choices)), loc)


def names(repo: Repo) -> list[str]:
    """Names of all studies of this checkout, sorted."""
    return sorted(path.stem for path in repo.studies.glob("*.yml"))


def load(repo: Repo, name: str) -> Study:
    """Read ``paper/studies/<name>.yml``.

    Raises:
        UnknownName: no such study.
        StudyError: the file is not a study; the message names file and line.
    """
    path = repo.studies / f"{name}.yml"
    if not path.is_file():
        raise UnknownName("study", name, names(repo))
    study = parse(path)
    if study.study != name:
        # its runs would be filed under another study's name
        raise StudyError(f"{path}: study: must be {name!r}, as the file is named")
    return study


def parse(path: Path) -> Study:
    """Read one study file; see :func:`load`."""
    try:
        document = YAML(typ="rt").load(path)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise StudyError(f"{path}:{line}: {error.problem}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}:1: no YAML: {str(error).splitlines()[0]}") from error
    try:
        return Study.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        loc = (*first["loc"], *(cause.loc if isinstance(cause, _Unresolved) else ()))
        message = str(cause) if isinstance(cause, _Unresolved) else first["msg"].lower()
        dotted = f"{'.'.join(map(str, loc))}: " if loc else ""
        raise StudyError(f"{path}:{_line(document, loc)}: {dotted}{message}") from error


def _line(document: Any, loc: tuple) -> int:
    """Line of the deepest part of ``loc`` that the document has, counted from 1."""
    line, node = 1, document
    for part in loc:
        try:
            position = node.lc.item(part) if isinstance(part, int) else node.lc.key(part)
            line, node = position[0] + 1, node[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return line
