"""Claims as study files state them: a sentence in our own words, and the test that decides it.

A test names the runs that it uses and what would make the sentence true. Concurrencies are the
article's: on a scaled machine they stand for the same number of clients a core.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from benchlab.study.strict import StrictModel, Unresolved

#: What a claim is about. The first five are shapes, which a scaled machine can show; an absolute
#: number is judged on the article's instance type only; an audit needs no run.
Kind = Literal["order", "ratio", "knee", "peak", "monotony", "absolute", "mechanism", "audit"]

#: What is said of a claim.
Verdict = Literal["reproduced", "not reproduced", "inconclusive", "not testable here"]

Threads = Annotated[int, Field(gt=0)]


#: One name, or several.
Names = str | Annotated[list[str], Field(min_length=1)]


class Series(StrictModel):
    """The runs of one curve, and which number of each run counts; lists of names are several curves."""

    engine: str
    variant: Names = "default"
    workload: Names
    metric: str = "tps"

    @property
    def each(self) -> list["Series"]:
        """The curves one by one."""
        return [
            self.model_copy(update={"variant": variant, "workload": workload})
            for variant in _listed(self.variant)
            for workload in _listed(self.workload)
        ]

    def __str__(self) -> str:
        """Name the curve, or the curves."""
        variants, workloads = (" or ".join(_listed(one)) for one in (self.variant, self.workload))
        return f"{self.engine} {variants} {workloads}"


class OfCurves(StrictModel):
    """A test of one curve, or of two; or of several of them, one after the other."""

    take: Literal["every", "any", "least", "greatest"] = "every"
    """Which of several curves it must hold for; or the one whose ratio is the least, or the
    greatest."""

    @property
    def parts(self) -> list[Self]:
        """The test of each curve, or each pair of curves.

        Where both sides list the same variants or workloads, each is held against itself.
        """
        of, over = self.of, getattr(self, "over", None)
        if over is None:
            return [self.model_copy(update={"of": one}) for one in of.each]
        return [
            self.model_copy(update={"of": one, "over": other})
            for one in of.each
            for other in over.each
            if (of.variant != over.variant or one.variant == other.variant)
            and (of.workload != over.workload or one.workload == other.workload)
        ]

    @model_validator(mode="after")
    def _extremes_are_of_ratios(self) -> Self:
        if self.take in ("least", "greatest") and not isinstance(self, Above | Ratio | Change):
            raise Unresolved("only a ratio has a least and a greatest", ("take",))
        return self


class Above(OfCurves):
    """One curve lies above another: everywhere, at some concurrencies, or by their peaks."""

    test: Literal["above"]
    of: Series
    over: Series
    at: Literal["all", "peak"] | list[Threads] = "all"
    by: Annotated[float, Field(gt=0)] = 1.0
    """The factor that the lead must exceed."""


class Ratio(OfCurves):
    """The ratio of two curves at a concurrency, of their peaks, or where it is greatest."""

    test: Literal["ratio"]
    of: Series
    over: Series
    at: Threads | Literal["peak", "greatest", "least"]
    value: Annotated[float, Field(gt=0)]
    within: Annotated[float, Field(gt=1)] = 1.25
    """Published and found ratio may differ by that factor; "about 2" leaves more room than "2.04"."""


class Change(OfCurves):
    """The ratio of one curve's value at a concurrency to that at a lower one."""

    test: Literal["change"]
    of: Series
    start: Threads
    end: Threads
    direction: Literal["rises", "falls", "level"]
    by: Annotated[float, Field(gt=0)] = 1.0
    """Rises to more than, or falls to less than that factor; level: stays within it."""


class Peak(OfCurves):
    """The concurrency at which a curve, or the ratio of two, is highest."""

    test: Literal["peak"]
    of: Series
    over: Series | None = None
    first: Threads
    last: Threads
    """The peak lies from ``first`` to ``last``."""


class Knee(OfCurves):
    """The concurrency from which a curve is as good as at its peak."""

    test: Literal["knee"]
    of: Series
    first: Threads
    last: Threads
    """The knee lies from ``first`` to ``last``."""


class Level(OfCurves):
    """An absolute value."""

    test: Literal["level"]
    of: Series
    at: Threads | Literal["peak", "all"]
    value: float
    unit: str
    within: Annotated[float, Field(gt=1)] = 1.1


class Bound(OfCurves):
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
    """What the article states; true for a sentence that the query checks as a whole."""
    unit: str = ""
    digits: int = 2
    """Decimals to which the article gives its number: a rounding or truncation is no contradiction."""
    detail: str = ""
    """Query for one text ``found``: what the tables show beside a truth that they bear out or not."""
    source: str = ""
    """Source of a fact in the query that no published table holds."""

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
    headline: bool = Field(False, description="whether the paper's first page has it")
    clients_per_core: bool | None = Field(
        None,
        description="whether its concurrency is as many clients a core here; none: as the study says",
    )
    decided_by: Test

    @property
    def series(self) -> list[tuple[str, Series]]:
        """Every curve of the test, with the test's name for it: ``of``, ``over``."""
        return [
            (name, one)
            for name, value in self.decided_by
            if isinstance(value, Series)
            for one in value.each
        ]

    @model_validator(mode="after")
    def _audits_are_audits(self) -> "Claim":
        if (self.kind == "audit") != isinstance(self.decided_by, Audit):
            raise Unresolved(
                f"is {self.kind} with the test {self.decided_by.test}; an audit has the test audit, and"
                " only an audit has",
                ("kind",),
            )
        return self


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else names
