"""Claims as study files state them: a sentence in our own words, and the test that decides it.

A test names the runs that it looks at and what would make the sentence true. Concurrencies are the
article's: on a scaled machine they stand for the same number of clients a core.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from benchlab.study.strict import StrictModel, Unresolved

#: What a claim is about. The first five are shapes, which a scaled machine can show; an absolute
#: number is judged on the article's instance type only; an audit needs no run.
Kind = Literal["order", "ratio", "knee", "peak", "monotony", "absolute", "mechanism", "audit"]

#: What is said of a claim.
Verdict = Literal["reproduced", "not reproduced", "inconclusive", "not testable here"]

Threads = Annotated[int, Field(gt=0)]


class Series(StrictModel):
    """The runs of one curve, and which number of each run counts."""

    engine: str
    variant: str = "default"
    workload: str
    metric: str = "tps"


class Above(StrictModel):
    """One curve lies above another: everywhere, at some concurrencies, or by their peaks."""

    test: Literal["above"]
    of: Series
    over: Series
    at: Literal["all", "peak"] | list[Threads] = "all"
    by: Annotated[float, Field(gt=0)] = 1.0
    """The factor that the lead must exceed."""


class Ratio(StrictModel):
    """The ratio of two curves at a concurrency, of their peaks, or where it is greatest."""

    test: Literal["ratio"]
    of: Series
    over: Series
    at: Threads | Literal["peak", "greatest", "least"]
    value: Annotated[float, Field(gt=0)]
    within: Annotated[float, Field(gt=1)] = 1.25
    """Told and found ratio may differ by that factor; "about 2" leaves more room than "2.04"."""


class Change(StrictModel):
    """The ratio of one curve's value at a concurrency to that at a lower one."""

    test: Literal["change"]
    of: Series
    start: Threads
    end: Threads
    direction: Literal["rises", "falls", "level"]
    by: Annotated[float, Field(gt=0)] = 1.0
    """Rises to more than, or falls to less than that factor; level: stays within it."""


class Peak(StrictModel):
    """The concurrency at which a curve, or the ratio of two, is highest."""

    test: Literal["peak"]
    of: Series
    over: Series | None = None
    first: Threads
    last: Threads
    """The peak lies from ``first`` to ``last``."""


class Knee(StrictModel):
    """The concurrency from which a curve is as good as at its peak."""

    test: Literal["knee"]
    of: Series
    first: Threads
    last: Threads
    """The knee lies from ``first`` to ``last``."""


class Level(StrictModel):
    """An absolute value."""

    test: Literal["level"]
    of: Series
    at: Threads | Literal["peak", "all"]
    value: float
    unit: str
    within: Annotated[float, Field(gt=1)] = 1.1


class Bound(StrictModel):
    """The resource that binds the runs of a curve."""

    test: Literal["bound"]
    of: Series
    at: Literal["all"] | list[Threads] = "all"
    by: list[str]
    """Any of these resources."""


class Audit(StrictModel):
    """A number that the article derives from its own tables, or that is a known fact.

    ``query`` runs over the published tables, each under the name ``<study>.<table>``, and answers with
    one row and one column ``found``: a number to compare with ``value``, or a truth.
    See :mod:`benchlab.claims.audit`.
    """

    test: Literal["audit"]
    query: str
    value: float | bool
    """What the article tells; true for a sentence that the query checks as a whole."""
    unit: str = ""
    digits: int = 2
    """Decimals to which the article gives its number: a rounding or truncation is no contradiction."""
    detail: str = ""
    """Query for one text ``found``: what the tables show beside a truth that they bear out or not."""
    source: str = ""
    """Where a fact in the query is told that no published table holds."""

    @model_validator(mode="after")
    def _value_has_its_digits(self) -> "Audit":
        # or no number whatever could agree with it
        if not isinstance(self.value, bool) and round(self.value, self.digits) != self.value:
            raise Unresolved(f"has more than the {self.digits} decimals of digits", ("value",))
        return self


class Untested(StrictModel):
    """No test that the store can decide yet: what it would take."""

    test: Literal["none"]
    needs: str


Test = Annotated[
    Above | Ratio | Change | Peak | Knee | Level | Bound | Audit | Untested,
    Field(discriminator="test"),
]


class Claim(StrictModel):
    """One checkable sentence of an article."""

    id: str = Field(pattern="^[a-z][a-z0-9_]*$")
    where: str = Field(description="section or table of the article")
    claim: str = Field(description="in our own words; figures carry over")
    kind: Kind
    decided_by: Test

    @property
    def series(self) -> dict[str, Series]:
        """Every curve that the test looks at, by the test's name for it: ``of``, ``over``."""
        return {name: value for name, value in self.decided_by if isinstance(value, Series)}

    @model_validator(mode="after")
    def _audits_are_audits(self) -> "Claim":
        if (self.kind == "audit") != isinstance(self.decided_by, Audit):
            raise Unresolved(
                f"is {self.kind} with the test {self.decided_by.test}; an audit has the test audit, and"
                " only an audit has",
                ("kind",),
            )
        return self
