"""Audits: articles against their own numbers; no rounding contradicts, no bad query is a verdict."""

from collections import Counter
from decimal import Decimal

import pytest
from benchlab import study
from benchlab.claims import audit, published
from benchlab.errors import ClaimError, StudyError
from benchlab.repo import Repo
from benchlab.study.claims import Claim
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

REPO = Repo(ROOT)


def claim(query: str = "SELECT 1 AS found", value: float | bool = 1, **more) -> Claim:
    """A claim with an audit."""
    test = {"test": "audit", "query": query, "value": value} | more
    return Claim(id="sum", where="table 1", claim="It adds up.", kind="audit", decided_by=test)


@pytest.fixture(scope="module")
def tables():
    with published.database(REPO, "spec_tree") as connection:
        yield connection


def test_every_audit_of_every_study_is_decided():
    audited = audit.audit(REPO)
    requested = [
        (name, one.id)
        for name in published.articles(REPO)["study"]
        for one in study.load(REPO, name).claims
        if one.kind == "audit"
    ]
    assert [(one.study, one.claim.id) for one in audited] == requested
    assert len(requested) == 108
    # these stand as examples: a gain worked out with another table, and a sum that comes out
    verdicts = {(one.study, one.claim.id): (one.found, one.verdict) for one in audited}
    assert verdicts["cached_tables", "mixed_gains_follow"] == (36, "not reproduced")
    assert verdicts["remote_wal", "totals_agree"] == (18, "reproduced")
    assert verdicts["tpcc", "space_for_growth"][1] == "reproduced"
    assert Counter(one.verdict for one in audited) == {"reproduced": 63, "not reproduced": 45}


def test_an_audit_without_published_tables_names_its_fact():
    """What no table holds has to be looked up somewhere."""
    for one in audit.audit(REPO):
        if " FROM " not in one.test.query or "(VALUES" in one.test.query:
            assert one.test.source, one.claim.id


def test_the_database_holds_every_table_as_published():
    for name in published.articles(REPO)["study"]:
        with published.database(REPO, name) as tables:
            for table in published.tables(REPO, name):
                frame = published.read(REPO, name, table)
                assert tables.sql(f'FROM {name}."{table}"').pl().equals(frame)


def test_a_truth_that_does_not_hold_says_what_there_is_instead():
    details = {}
    for one in audit.audit(REPO):
        if one.found is False:
            assert one.detail or one.test.source, one.claim.id
            details[one.claim.id] = one.detail
    assert details["most_data_changed"] == "Delivery changes 130 rows, New-Order 23, Payment 4"
    assert details["demonstration_in_tables"] == "62381 against 28038 at most"
    assert details["rises_everywhere"] == (
        "peaks: insert 256, point_select 32, read_write 64, update_non_index 256"
    )
    assert details["pool_alone_collapses"] == "40 and 17040 queries a second"


# What contradicts, and what does not


@pytest.mark.parametrize(
    ("found", "published", "digits", "agree"),
    [
        (12.8633, 12.86, 2, True),
        (8498.73, 8498, 0, True),  # cut off
        (8498.73, 8499, 0, True),  # rounded
        (8498.73, 8497, 0, False),
        (81.92, 80, -1, True),
        (81.92, 90, -1, False),
        (14.4, 15, 0, False),
        (-43.218, -43.21, 2, True),
        (-43.218, -43.22, 2, True),
        (-43.218, -43.23, 2, False),
        (-0.001, 0, 2, True),
        (2.675, 2.68, 2, True),  # as it is written, not as the double nearest to it
        (1e300, 1e300, 2, True),
        (5e-324, 0, 2, True),
        (True, True, 2, True),
        (False, True, 2, False),
        (False, False, 2, True),
    ],
)
def test_a_rounding_is_no_contradiction(found, published, digits, agree):
    assert audit.agrees(found, claim(value=published, digits=digits).decided_by) is agree


NUMBERS = st.decimals(-(10**9), 10**9, places=6)


@given(NUMBERS, st.integers(-3, 5))
def test_a_number_agrees_with_itself_rounded_and_with_nothing_further_off(number, digits):
    unit = Decimal(1).scaleb(-digits)
    published = number.quantize(unit)
    test = claim(value=float(published), digits=digits).decided_by
    assert audit.agrees(float(number), test)
    for step in (-2, 2):
        other = claim(value=float(published + step * unit), digits=digits).decided_by
        assert not audit.agrees(float(number), other)


@given(NUMBERS, NUMBERS, st.integers(-3, 5))
def test_what_agrees_is_less_than_one_unit_of_the_last_digit_off(number, other, digits):
    unit = Decimal(1).scaleb(-digits)
    published = other.quantize(unit)
    test = claim(value=float(published), digits=digits).decided_by
    if audit.agrees(float(number), test):
        assert abs(published - number) < unit
    elif abs(published - number) < unit / 2:
        raise AssertionError("the nearest number to these digits does not agree")


@pytest.mark.parametrize(
    ("query", "value", "found", "verdict"),
    [
        ("SELECT count(*) AS found FROM spec_tree.results", 28, 28, "reproduced"),
        ("SELECT sum(rows) AS found FROM (VALUES (2), (3)) t(rows)", 5, 5, "reproduced"),
        ("SELECT 0.1::DECIMAL(9, 3) AS found", 0.1, 0.1, "reproduced"),
        ("WITH a AS (SELECT 2 AS found) FROM a;", 3, 2, "not reproduced"),
        ("SELECT 1 < 2 AS found", True, True, "reproduced"),
        ("SELECT 1 < 2 AS found", False, True, "not reproduced"),
    ],
)
def test_an_audit_is_decided_by_its_query(tables, query, value, found, verdict):
    decided = audit.decide("spec_tree", claim(query, value), tables)
    assert (decided.found, decided.verdict) == (found, verdict)


# What is no verdict


@pytest.mark.parametrize(
    ("query", "value", "cause"),
    [
        ("SELECT FROM", 1, "syntax error"),
        ("SELECT tps AS found FROM spec_tree.nosuch", 1, "nosuch does not exist"),
        ("SELECT nosuch AS found FROM spec_tree.results", 1, 'column "nosuch" not found'),
        ("SELECT 'a'::INT AS found", 1, "Could not convert"),
        ("", 1, "is not one SELECT"),
        ("SELECT 1 AS found; SELECT 1 AS found", 1, "is not one SELECT"),
        ("DROP TABLE spec_tree.results", 1, "is not one SELECT"),
        ("SELECT 1 AS found WHERE false", 1, "must return one row; it returns none"),
        (
            "SELECT concurrency AS found FROM spec_tree.results",
            1,
            "must return one row; it returns more",
        ),
        ("SELECT 1 AS found, 2 AS more", 1, "one column, found; it returns found, more"),
        ("SELECT 1 AS fuond", 1, "one column, found; it returns fuond"),
        ("SELECT NULL AS found", 1, "finds None, where the article states a number"),
        ("SELECT NULL AS found", True, "finds None, where the article states a truth value"),
        ("SELECT true AS found", 1, "finds True, where the article states a number"),
        ("SELECT 1 AS found", True, "finds 1, where the article states a truth value"),
        ("SELECT '1' AS found", 1, "finds '1', where the article states a number"),
        ("SELECT 'nan'::DOUBLE AS found", 1, "finds nan, where"),
        ("SELECT 'inf'::DOUBLE AS found", 1, "finds inf, where"),
        ("SELECT count(*) AS found FROM read_csv('/etc/passwd')", 1, "disabled by configuration"),
        ("SELECT count(*) AS found FROM tables", 1, "tables does not exist"),
    ],
)
def test_a_query_that_does_not_answer_is_one_line_and_no_verdict(tables, query, value, cause):
    with pytest.raises(ClaimError) as error:
        audit.decide("spec_tree", claim(query, value), tables)
    message = str(error.value)
    assert message.startswith("study spec_tree, claim sum: ")
    assert cause in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("detail", "cause"),
    [
        ("SELECT 1 AS found", "the query for the detail finds 1, and no text"),
        ("SELECT NULL AS found", "the query for the detail finds None, and no text"),
        ("SELECT 'a' AS found WHERE false", "must return one row; it returns none"),
        ("SELECT FROM", "syntax error"),
    ],
)
def test_a_detail_that_is_no_text_is_no_verdict_either(tables, detail, cause):
    with pytest.raises(ClaimError, match=f"^study tpcc, claim sum: .*{cause}"):
        audit.decide("tpcc", claim("SELECT true AS found", True, detail=detail), tables)


def test_a_value_with_more_digits_than_it_says_could_agree_with_nothing(checkout):
    path = checkout.studies / "tpcc.yml"
    text = path.read_text()
    assert "value: 12.86\n" in text
    path.write_text(text.replace("value: 12.86\n", "value: 12.863\n"))
    with pytest.raises(StudyError, match="has more than the 2 decimals of digits"):
        study.load(checkout, "tpcc")


def test_the_first_audit_that_fails_is_named(checkout):
    path = checkout.studies / "remote_wal.yml"
    text = path.read_text()
    assert "FROM remote_wal.wal " in text
    path.write_text(text.replace("FROM remote_wal.wal\n", "FROM remote_wal.wall\n", 1))
    with pytest.raises(ClaimError, match=r"^study remote_wal, claim \w+: .*wall does not exist"):
        audit.audit(checkout)
