"""What the product catalogues hold at the start."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from benchlab.study.kinds import DatasetModel
from benchlab.study.strict import Unresolved


class SpecTree(DatasetModel):
    """Product catalogues of telephone companies; see :mod:`benchlab.workloads.spec_tree`."""

    drivers: ClassVar = ("sysbench",)
    scripts: ClassVar = ("spec_tree",)

    kind: Literal["spec_tree"] = "spec_tree"
    operators: Annotated[int, Field(gt=0)]
    entities: Annotated[int, Field(gt=0, description="of an operator, on all levels")]
    revisions: Annotated[int, Field(ge=0, description="entities of an operator with a second one")]
    seed: Annotated[int, Field(ge=0)] = 1
    partitioned: bool = Field(False, description="by operator")

    @model_validator(mode="after")
    def _entities_are_enough(self) -> "SpecTree":
        if self.revisions > self.entities:
            raise Unresolved("cannot be more than the entities", ("revisions",))
        return self

    @property
    def rows(self) -> int:
        """Rows of the table of specifications."""
        return self.operators * (self.entities + self.revisions)


DATASET = SpecTree
