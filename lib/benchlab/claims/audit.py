"""Audits: recalculate what an article derives from its own numbers, and check known facts.

An audit needs no run: its query reads the published tables. A query whose result is not as
:class:`~benchlab.study.claims.Audit` requires is a :class:`~benchlab.errors.ClaimError`, not a verdict.
"""

from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from math import isfinite

import duckdb

from benchlab import study
from benchlab.claims import published
from benchlab.errors import ClaimError
from benchlab.repo import Repo
from benchlab.study import Study
from benchlab.study.claims import Audit, Claim, Verdict

#: Enough digits for any double: they range from 5e-324 to 1.8e308.
_EXACT = Context(prec=700)


@dataclass(frozen=True)
class Audited:
    """An audit and its verdict."""

    study: str
    claim: Claim
    found: float | bool
    verdict: Verdict
    detail: str = ""
    """What the tables show in addition; empty if the audit does not ask for it."""

    @property
    def test(self) -> Audit:
        """The test of the claim, with the published value."""
        return self.claim.decided_by


def audit(repo: Repo) -> list[Audited]:
    """Decide every audit of every study, in the order of the articles and of their claims.

    Raises:
        ClaimError: the query of an audit does not return what it must; the first such audit.
    """
    names = published.articles(repo)["study"]
    return [one for name in names for one in of_study(repo, study.load(repo, name))]


def of_study(repo: Repo, spec: Study) -> list[Audited]:
    """Decide every audit of one study, in the order of its claims.

    Raises:
        ClaimError: see :func:`audit`.
    """
    audits = [claim for claim in spec.claims if isinstance(claim.decided_by, Audit)]
    if not audits:
        return []
    with published.database(repo, spec.study) as tables:
        return [decide(spec.study, claim, tables) for claim in audits]


def decide(study_name: str, claim: Claim, tables: duckdb.DuckDBPyConnection) -> Audited:
    """Decide one audit.

    Args:
        study_name: the study that the claim is of.
        claim: with the test ``audit``.
        tables: see :func:`benchlab.claims.published.database`.

    Raises:
        ClaimError: a query fails, or does not return one value of the article's type.
    """
    test = claim.decided_by
    try:
        found = _value(_answer(test.query, tables), test)
        detail = _text(_answer(test.detail, tables)) if test.detail else ""
    except (duckdb.Error, ValueError) as error:
        cause = str(error).splitlines()[0]
        raise ClaimError(f"study {study_name}, claim {claim.id}: {cause}") from error
    verdict = "reproduced" if agrees(found, test) else "not reproduced"
    return Audited(study_name, claim, found, verdict, detail)


def agrees(found: float | bool, test: Audit) -> bool:
    """Whether the published value is the value found, rounded or cut off to the published digits."""
    if isinstance(found, bool):
        return found is test.value
    unit = Decimal(1).scaleb(-test.digits)
    number, in_article = Decimal(str(found)), Decimal(str(test.value))
    return in_article in (number.quantize(unit, how, _EXACT) for how in (ROUND_HALF_UP, ROUND_DOWN))


def _answer(query: str, tables: duckdb.DuckDBPyConnection) -> object:
    """Return the one value that a query returns."""
    kinds = [statement.type for statement in tables.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise ValueError("the query is not one SELECT")
    result = tables.execute(query)
    columns = [column[0] for column in result.description]
    if columns != ["found"]:
        raise ValueError(
            f"the query must return one column, found; it returns {', '.join(columns)}"
        )
    rows = result.fetchmany(2)
    if len(rows) != 1:
        raise ValueError(f"the query must return one row; it returns {'more' if rows else 'none'}")
    return rows[0][0]


def _value(answer: object, test: Audit) -> float | bool:
    """Return the answer if it is of the article's type: a truth value, or a finite number."""
    if isinstance(test.value, bool):
        if isinstance(answer, bool):
            return answer
        raise ValueError(f"the query finds {answer!r}, where the article states a truth value")
    number = isinstance(answer, int | float | Decimal) and not isinstance(answer, bool)
    if number and isfinite(answer):
        return float(answer)
    raise ValueError(f"the query finds {answer!r}, where the article states a number")


def _text(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    raise ValueError(f"the query for the detail finds {answer!r}, and no text")
