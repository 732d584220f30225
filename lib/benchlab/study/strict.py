"""Frozen models of files that people write; errors for unknown keys or names list the choices."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from benchlab.errors import UnknownName

Scalar = bool | int | float | str


class StrictModel(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, content: Any) -> Any:
        """Refuse an unknown key with a message that lists the keys; pydantic's own does not."""
        if isinstance(content, Mapping):
            for key in content:
                known("key", key, cls.model_fields, (key,))
        return content


class Unresolved(ValueError):
    """A value that a validator refuses; ``loc`` is its location within the model."""

    def __init__(self, message: str, loc: tuple):
        super().__init__(message)
        self.loc = loc


def known(kind: str, name: str, choices: Iterable[str], loc: tuple) -> None:
    """Refuse a name that is not among the choices.

    Raises:
        Unresolved: the name is not among the choices.
    """
    if name not in choices:
        raise Unresolved(str(UnknownName(kind, name, choices)), loc)


def first_error(error: ValidationError) -> Unresolved:
    """Return the first error of a model, with its whole location within the model."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, Unresolved):
        return Unresolved(str(cause), (*first["loc"], *cause.loc))
    message = first["msg"]
    return Unresolved(message[0].lower() + message[1:], first["loc"])


def problem(error: ValidationError) -> str:
    """Return the first error of a model and its location in one line."""
    found = first_error(error)
    return "".join(f"{part}: " for part in found.loc) + str(found)
