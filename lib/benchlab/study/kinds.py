"""Options of drivers and models of datasets, looked up by the names in study files.

A driver is a folder of ``drivers/``, a kind of dataset is a folder of ``workloads/``. A study file
names them. When it is read, the light module of each folder (``options`` or ``dataset``) is imported.
So ``benchlab.study`` itself imports neither folder, and reading a study loads neither DuckDB nor
Polars. A new driver or kind needs no change here.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import BeforeValidator, SerializeAsAny, ValidationError

from benchlab.errors import UnknownName
from benchlab.study.strict import Scalar, StrictModel, Unresolved, first_error, known

_ROOT = Path(__file__).parents[1]


class DatasetModel(StrictModel):
    """What the tables hold at the start of a run.

    Each kind has a subclass, named ``DATASET`` in the kind's module ``dataset``.

    Class attributes:
        drivers: names of the drivers that can run on it.
        scripts: names of the scripts that can run on it; ``None``: all scripts of the driver.
    """

    drivers: ClassVar[tuple[str, ...]]
    scripts: ClassVar[tuple[str, ...] | None] = None

    kind: str

    @property
    def rows(self) -> int:
        """Number of rows of all tables together."""
        raise NotImplementedError


class DriverOptions(Protocol):
    """The module ``options`` of a driver."""

    TAKES_RATE: bool
    """Whether the driver can start transactions at a rate, as an open loop needs."""

    @staticmethod
    def defaults(engine: str) -> Mapping[str, Scalar]:
        """Return what the driver sets where a workload sets nothing, by option.

        A plan and its records contain these values, so a run made with another default is another
        trial. The program's own defaults are not among them: they follow from its version.

        Args:
            engine: engine that the load runs on, by the name of its role.
        """

    @staticmethod
    def refusal_of_option(option: str) -> str | None:
        """Return why a workload cannot set an option, or ``None``."""

    @staticmethod
    def refusal_of_scripts(weights: Mapping[str, int]) -> str | None:
        """Return why the driver cannot run these scripts, or ``None``."""


def driver_names() -> list[str]:
    """Names of all drivers, sorted."""
    return _folders("drivers")


def dataset_kinds() -> list[str]:
    """Names of all kinds of datasets, sorted."""
    return _folders("workloads")


def part(package: str, name: str, module: str) -> Any:
    """Import a module from the folder of a driver or of a kind of dataset.

    Args:
        package: ``drivers`` or ``workloads``.
        name: name of the folder.
        module: name of the module in it.

    Raises:
        UnknownName: there is no such folder.
    """
    if name not in (choices := _folders(package)):
        raise UnknownName(_KINDS[package], name, choices)
    return import_module(f"benchlab.{package}.{name}.{module}")


def driver_options(name: str) -> DriverOptions:
    """Return the module ``options`` of a driver.

    Raises:
        UnknownName: there is no such driver.
    """
    return part("drivers", name, "options")


_KINDS = {"drivers": "driver", "workloads": "kind of dataset"}


def _folders(package: str) -> list[str]:
    return sorted(one.name for one in iter_modules([str(_ROOT / package)]) if one.ispkg)


def _of_its_kind(content: object) -> object:
    """Validate a dataset with the model of its kind, so that errors are those of this model."""
    if not isinstance(content, Mapping):
        return content
    if "kind" not in content:
        raise Unresolved(f"is missing; choose one of: {', '.join(dataset_kinds())}", ("kind",))
    known("kind of dataset", content["kind"], dataset_kinds(), ("kind",))
    try:
        return part("workloads", content["kind"], "dataset").DATASET.model_validate(content)
    except ValidationError as error:
        raise first_error(error) from error


#: A dataset of any kind, as a field of a model.
Dataset = Annotated[SerializeAsAny[DatasetModel], BeforeValidator(_of_its_kind)]
