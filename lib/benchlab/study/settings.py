"""Values of an engine's settings in a study file.

Sizes that an article ties to the machine are written as a share of memory (``{of_memory: 0.25}``), so
that one line of the file is right in every profile and keeps the article's ratio by construction. A
size that keeps its ratio to the dataset instead is given twice: the article's size and the size here
(``{article: 128MiB, here: 35MiB}``).
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import ByteSize, Discriminator, Field, Tag

from benchlab.study.strict import Scalar, StrictModel


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
