"""Claims as study files state them: a sentence in our own words, and the test that decides it.

A test names the runs that it uses and what would make the sentence true. Concurrencies are the
article's: a scaled machine runs the same number of clients per core instead, but one client is one
client everywhere.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from benchlab.study.strict import StrictModel, Unresolved
from benchlab.study.vocabulary import OF_SINGLE_WRITES

#: What a claim is about. A scaled machine can decide the first four kinds and mechanisms. An absolute
#: claim is judged on the article's instance type only; an audit needs no run.
Kind = Literal["order", "ratio", "peak", "monotony", "absolute", "mechanism", "audit"]

#: Why a claim that is absolute is not judged elsewhere: a throughput, a share of all cores, ...
ABSOLUTE = "it depends on the machine's size, so it is judged on the article's instance type only"

#: Answer to a claim.
Verdict = Literal["reproduced", "not reproduced", "depends", "inconclusive", "not testable here"]

Threads = Annotated[int, Field(gt=0)]

#: Several numbers of clients, which cover the range of a claim; the last one is its far end. A test
#: decides at each of those that were run. Without a run at the far end nothing is reproduced.
Range = Annotated[list[Threads], Field(min_length=1)]


#: One name or several names.
Names = str | Annotated[list[str], Field(min_length=1)]


class Series(StrictModel):
    """The runs of one curve, and the metric to take from each run; lists of names: several curves."""

    engine: Names
    variant: Names = "default"
    workload: Names
    metric: Names = "tps"

    @property
    def each(self) -> list["Series"]:
        """The single curves, each with one metric."""
        return [
            self.model_copy(
                update={
                    "engine": engine,
                    "variant": variant,
                    "workload": workload,
                    "metric": metric,
                }
            )
            for engine in _listed(self.engine)
            for variant in _listed(self.variant)
            for workload in _listed(self.workload)
            for metric in _listed(self.metric)
        ]

    def named(self, keys: Iterable[str]) -> str:
        """Write the values of some keys."""
        return " ".join(" or ".join(_listed(getattr(self, key))) for key in keys)

    def __str__(self) -> str:
        """Name the curve, or the curves."""
        return self.named(("engine", "variant", "workload"))


class OfCurves(StrictModel):
    """A test of one curve or of a pair of curves, or of several of these one after the other."""

    take: Literal["every", "each"] = "every"
    """``every``: the test must hold for all curves. ``each``: the article does not say which curve it
    means; if the test holds for one of them and fails for another, the verdict is *depends*."""

    @property
    def parts(self) -> list[Self]:
        """The test of each curve, or each pair of curves.

        If both sides list the same engines, variants, workloads or metrics, each of these is compared
        with itself only.
        """
        of, over = self.of, getattr(self, "over", None)
        if over is None:
            return [self.model_copy(update={"of": one}) for one in of.each]
        return [
            self.model_copy(update={"of": one, "over": other})
            for one in of.each
            for other in over.each
            if (of.engine != over.engine or one.engine == other.engine)
            and (of.variant != over.variant or one.variant == other.variant)
            and (of.workload != over.workload or one.workload == other.workload)
            and (of.metric != over.metric or one.metric == other.metric)
        ]

    @property
    def sides(self) -> list[Series]:
        """Its curve and, if there is one, the curve that it is compared with."""
        return [one for one in (self.of, getattr(self, "over", None)) if one]


class Above(OfCurves):
    """One curve lies above another.

    ``at`` says where: wherever both were run, at each of some concurrencies, at their peaks, or
    overall, by the geometric mean of their ratios.
    """

    test: Literal["above"]
    of: Series
    over: Series
    at: Literal["all", "peak", "overall"] | Range = "all"
    by: Annotated[float, Field(gt=0)] = 1.0
    """The factor that the lead must exceed."""


class Ratio(OfCurves):
    """The ratio of two curves.

    ``at`` says which: at one concurrency, at each of several, of their peaks, overall (the geometric
    mean), or the greatest or least one.
    """

    test: Literal["ratio"]
    of: Series
    over: Series
    at: Threads | Literal["peak", "overall", "greatest", "least"] | Range
    value: Annotated[float, Field(gt=0)]
    within: Annotated[float, Field(gt=1)] = 1.25
    """Published and found ratio may differ by this factor; "about 2" leaves more room than "2.04"."""


class Change(OfCurves):
    """The ratio of one curve's value at a concurrency to that at a lower one.

    ``end`` is a range if the article says that something changes from some number of clients on. It
    must hold at each of them that was run.
    """

    test: Literal["change"]
    of: Series
    start: Threads
    end: Threads | Range
    direction: Literal["rises", "falls", "level"]
    by: Annotated[float, Field(gt=0)] = 1.0
    """Factor: the value rises or falls by more than it; if level, it changes by at most this factor."""

    @model_validator(mode="after")
    def _starts_lowest(self) -> Self:
        ends = self.end if isinstance(self.end, list) else [self.end]
        if min(ends) <= self.start:
            raise Unresolved(
                "a change starts below the number of clients at which it ends", ("start",)
            )
        return self

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.direction == "level" and self.by < 1:
            raise Unresolved("a level changes by at most a factor of 1 or more", ("by",))
        return self


class Peak(OfCurves):
    """The concurrency at which a curve, or the ratio of two, is highest."""

    test: Literal["peak"]
    of: Series
    over: Series | None = None
    first: Threads
    last: Threads
    """The peak lies from ``first`` to ``last``."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.last < self.first:
            raise Unresolved("a peak's last number of clients is not below its first", ("last",))
        return self


class Level(OfCurves):
    """An absolute value."""

    test: Literal["level"]
    of: Series
    at: Threads | Literal["peak", "all"] | Range
    value: Annotated[float, Field(gt=0)]
    unit: str
    within: Annotated[float, Field(gt=1)] = 1.1


class Limit(OfCurves):
    """A value that is never below a bound, or never above it."""

    test: Literal["limit"]
    of: Series
    at: Threads | Literal["peak", "all"] | Range
    least: Annotated[float, Field(gt=0)] | None = None
    most: Annotated[float, Field(gt=0)] | None = None
    unit: str

    @model_validator(mode="after")
    def _has_one_bound(self) -> Self:
        if (self.least is None) == (self.most is None):
            raise Unresolved("a limit has either a least or a most", ("least",))
        return self


class Share(OfCurves):
    """Nearly all values of a curve are at or below a bound."""

    test: Literal["share"]
    of: Series
    at: Threads | Literal["all"] | Range = "all"
    most: Annotated[float, Field(gt=0)]
    unit: str
    least_share: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Share of the values that must be at or below the bound."""


class Bound(OfCurves):
    """The resource that binds the runs of a curve, at every concurrency or at each of several."""

    test: Literal["bound"]
    of: Series
    at: Literal["all"] | Range = "all"
    by: list[str]
    """Names of resources; together they must bind for most of the time."""


class Outcome(OfCurves):
    """The answers to checks that give no numbers."""

    test: Literal["outcome"]
    of: Series
    answers: Annotated[dict[str, str], Field(min_length=1)]
    """Check → text that its answer must contain."""


class OutOfMemory(OfCurves):
    """The runs at a concurrency end because the host has no memory left."""

    test: Literal["out_of_memory"]
    of: Series
    at: Threads


class Audit(StrictModel):
    """A number that the article derives from its own tables, or a known fact.

    ``query`` reads the published tables, each under the name ``<study>.<table>``, and returns one row
    with one column ``found``: a number to compare with ``value``, or a boolean.
    See :mod:`benchlab.claims.audit`.
    """

    test: Literal["audit"]
    query: str
    value: float | bool
    """Number that the article states; ``true`` for a sentence that the query checks as a whole."""
    unit: str = ""
    digits: int = 2
    """Decimals of the article's number: rounding or truncating to them is no contradiction."""
    detail: str = ""
    """Query for one text ``found``: what the tables show in addition to a boolean."""
    source: str = ""
    """Source of a fact in the query that no published table holds."""

    @model_validator(mode="after")
    def _value_has_its_digits(self) -> "Audit":
        # otherwise no number could ever agree with it
        if not isinstance(self.value, bool) and round(self.value, self.digits) != self.value:
            raise Unresolved(f"has more than the {self.digits} decimals of digits", ("value",))
        return self


class Together(StrictModel):
    """What other claims of the study say together; their verdicts decide it."""

    test: Literal["together"]
    claims: Annotated[list[str], Field(min_length=2)]
    """Ids of these claims; none of them has this test."""


class Untested(StrictModel):
    """No test that the store can decide yet; ``needs`` says what a test would need."""

    test: Literal["none"]
    needs: str


Test = Annotated[
    Above
    | Ratio
    | Change
    | Peak
    | Level
    | Limit
    | Share
    | Bound
    | Outcome
    | OutOfMemory
    | Audit
    | Together
    | Untested,
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

    def counts_per_core(self, in_study: bool) -> bool:
        """Return whether its concurrency is as many clients a core here.

        Args:
            in_study: the study's word for claims that do not say it.
        """
        return in_study if self.clients_per_core is None else self.clients_per_core

    @property
    def series(self) -> list[tuple[str, Series]]:
        """Every curve of the test, with the name of its side: ``of`` or ``over``."""
        return [
            (name, one)
            for name, value in self.decided_by
            if isinstance(value, Series)
            for one in value.each
        ]

    @property
    def is_of_single_writes(self) -> bool:
        """Whether it says something about single writes, of which a run has several."""
        return any(series.metric in OF_SINGLE_WRITES for _, series in self.series)

    @property
    def is_along_clients(self) -> bool:
        """Whether it says how something changes with the number of clients."""
        return isinstance(self.decided_by, Change | Peak)

    @property
    def names_one_client(self) -> bool:
        """Whether its test names one client, which is not scaled with the cores."""
        keys = ("at", "start", "end", "first", "last")
        named = [getattr(self.decided_by, key, None) for key in keys]
        return any(1 in one if isinstance(one, list) else one == 1 for one in named)

    @model_validator(mode="after")
    def _audits_are_audits(self) -> "Claim":
        if (self.kind == "audit") != isinstance(self.decided_by, Audit):
            raise Unresolved(
                f"is {self.kind} with the test {self.decided_by.test}; an audit has the test audit, and"
                " only an audit has",
                ("kind",),
            )
        return self


def of_other_load(claim: Claim, per_core: bool, here: float, in_article: float) -> str | None:
    """Return why a claim cannot be judged where as many clients share other cores; ``None``: it can.

    The same clients are another load there, and what changes with their number changes elsewhere.

    Args:
        claim: the claim.
        per_core: whether as many clients per core are run here as in the article.
        here: cores.
        in_article: cores.
    """
    if per_core or here == in_article or not claim.is_along_clients:
        return None
    return f"the clients share {here:g} cores here and {in_article:g} in the article"


def clients_here(in_article: int, share_of_cores: float) -> float:
    """Return the concurrency here that corresponds to the article's: as many clients per core.

    One client stays one.

    Args:
        in_article: the article's number of clients.
        share_of_cores: cores here as a share of the instance type's cores; 1 if the number of clients
            does not scale with the cores.
    """
    return in_article if in_article == 1 else in_article * share_of_cores


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else names
