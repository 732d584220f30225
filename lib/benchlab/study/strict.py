"""Frozen models of what people write by hand; an unknown key or name is answered with the choices."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from benchlab.errors import UnknownName

Scalar = bool | int | float | str


class StrictModel(BaseModel):
    """Frozen, and without keys of which it knows nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, content: Any) -> Any:
        """Name the keys that there are, which pydantic's own message does not."""
        if isinstance(content, Mapping):
            for key in content:
                known("key", key, cls.model_fields, (key,))
        return content


class Unresolved(ValueError):
    """Something that a validator refuses; ``loc`` says where in the model it stands."""

    def __init__(self, message: str, loc: tuple):
        super().__init__(message)
        self.loc = loc


def known(kind: str, name: str, choices: Iterable[str], loc: tuple) -> None:
    """Refuse a name that is not among the choices.

    Raises:
        Unresolved: it is not.
    """
    if name not in choices:
        raise Unresolved(str(UnknownName(kind, name, choices)), loc)


def problem(error: ValidationError) -> str:
    """Return the first thing that was found wrong, and where, in one line."""
    first = error.errors()[0]
    return "".join(f"{part}: " for part in first["loc"]) + first["msg"]
