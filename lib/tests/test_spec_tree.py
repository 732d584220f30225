"""The product catalogues: what is generated, what is queried, and what an engine must answer."""

import json
from datetime import datetime

import duckdb
import polars as pl
import pytest
from benchlab.errors import DatasetError
from benchlab.workloads.spec_tree import answers, generate, query, schema
from benchlab.workloads.spec_tree.dataset import SpecTree
from benchlab.workloads.spec_tree.tables import CHECKED, SpecTreeTables
from hypothesis import given, settings
from hypothesis import strategies as st

#: The article's.
WHOLE = SpecTree(operators=15, entities=4400, revisions=335)
SMALL = SpecTree(operators=2, entities=500, revisions=50)

LEAST, MOST = generate.ROWS_OF_A_QUERY


@pytest.fixture(scope="module")
def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both tables of the small dataset, all operators in one."""
    trees = list(generate.trees(SMALL))
    specifications = pl.concat(generate.specifications(SMALL, tree) for tree in trees)
    return specifications, pl.concat(generate.relationships(SMALL, tree) for tree in trees)


# What is generated


def test_the_whole_dataset_is_the_size_that_the_article_states():
    found = generate.statistics(WHOLE)
    assert len(found) == 15
    assert set(found["entities"]) == {4400}
    assert round(WHOLE.rows, -3) == 71_000
    assert found["rows_least"].min() >= 40
    assert found["rows_most"].max() <= 60
    assert 45 < found["rows_mean"].mean() < 55
    assert found["shared"].min() > 0.2  # N:M: many nodes have several parents


def test_the_tables_hold_what_is_requested(tables):
    specifications, relationships = tables
    assert len(specifications) == SMALL.rows
    assert specifications["entity_id"].n_unique() == SMALL.operators * SMALL.entities
    assert specifications["revision_id"].is_unique().all()
    assert relationships.is_unique().all()
    assert specifications["description"].str.len_chars().max() <= generate.DESCRIPTION_LENGTH
    assert set(specifications["psr_type"]) == set(range(len(generate.LEVELS)))
    # what the bulk loads cannot take
    text = specifications["name"] + specifications["description"] + specifications["properties"]
    assert not text.str.contains(r"[\t\n\\]").any()
    assert [json.loads(one)["level"] for one in specifications["properties"]] == (
        specifications["psr_type"].to_list()
    )


def test_edges_lead_one_level_down_within_an_operator(tables):
    specifications, relationships = tables
    nodes = specifications.unique("entity_id").select("entity_id", "operator_name", "psr_type")
    edges = relationships.join(
        nodes,
        left_on=["parent_entity_id", "operator_name"],
        right_on=["entity_id", "operator_name"],
    ).join(
        nodes,
        left_on=["child_entity_id", "operator_name"],
        right_on=["entity_id", "operator_name"],
        suffix="_of_child",
    )
    assert len(edges) == len(relationships)
    assert (edges["psr_type_of_child"] - edges["psr_type"]).unique().to_list() == [1]


def test_at_every_time_each_entity_has_one_valid_revision(tables):
    specifications, _ = tables
    for entity in (
        specifications.sort("start_time")
        .group_by("entity_id")
        .agg("start_time", "end_time")
        .iter_rows(named=True)
    ):
        begins, ends = entity["start_time"], entity["end_time"]
        assert (begins[0], ends[-1]) == (generate.FIRST.item(), generate.LAST.item())
        assert begins[1:] == ends[:-1]
        assert len(begins) <= 2


def test_a_seed_gives_the_same_rows_and_another_one_others(tables):
    def rows(seed: int) -> pl.DataFrame:
        dataset = SMALL.model_copy(update={"seed": seed})
        return generate.specifications(dataset, next(generate.trees(dataset)))

    first = tables[0].filter(operator_name="operator-01")
    assert rows(1).equals(first)
    assert not rows(2).equals(first)
    # partitioned or not the rows are the same
    apart = SMALL.model_copy(update={"partitioned": True})
    assert generate.specifications(apart, next(generate.trees(apart))).equals(first)


@settings(max_examples=20)
@given(st.integers(100, 1500), st.integers(0, 1000))
def test_every_offering_gives_the_right_number_of_rows(entities, seed):
    dataset = SpecTree(operators=1, entities=entities, revisions=0, seed=seed)
    found = generate.statistics(dataset)
    assert LEAST <= found["rows_least"].item() <= found["rows_most"].item() <= MOST


@pytest.mark.parametrize("entities", [1, 20])
def test_a_dataset_too_small_for_its_queries_is_refused(entities):
    dataset = SpecTree(operators=1, entities=entities, revisions=0)
    with pytest.raises(DatasetError, match="too few"):
        generate.statistics(dataset)


def test_queries_that_never_get_enough_rows_are_refused(monkeypatch):
    monkeypatch.setattr(generate, "ROWS_OF_A_QUERY", (400, 600))
    with pytest.raises(DatasetError, match="no offering gave a query of 400 to 600 rows"):
        generate.statistics(SMALL)


# The query


@pytest.mark.parametrize("dialect", ["mysql", "postgres"])
def test_the_statement_has_its_parameters_in_their_places(dialect):
    first = query.parameters(SMALL, 3)[0]
    text = query.filled_in(dialect, first)
    assert "\n" not in text
    assert text.count(f"'{first.operator}'") == 2
    assert text.count(f"'{first.at}'") == 2
    assert text.count(first.root) == 1
    assert ":root" not in text
    assert ":operator" not in text
    assert ":at" not in text


def test_parameters_name_offerings_and_times_of_the_dataset(tables):
    offerings = tables[0].filter(psr_type=0).select("operator_name", "entity_id").unique().rows()
    drawn = query.parameters(SMALL, 500)
    assert {(one.operator, one.root) for one in drawn} <= set(offerings)
    assert len({one.root for one in drawn}) > 0.9 * len(offerings)
    times = [datetime.fromisoformat(one.at) for one in drawn]
    assert generate.FIRST.item() <= min(times) < max(times) < generate.LAST.item()
    assert query.parameters(SMALL, 10) == drawn[:10]


def test_the_expected_answer_is_that_of_the_recursive_query(tables):
    """DuckDB has WITH RECURSIVE, too: the same statement over the same rows."""
    expected = answers.expected(SMALL)
    with duckdb.connect() as connection:
        for name, frame in zip(("specification", "spec_relationship"), tables, strict=True):
            connection.register(name, frame.to_arrow())
        for parameters in query.parameters(SMALL, 20):
            text = (
                query.filled_in("postgres", parameters).replace(r"'\x", "'").replace("::bytea", "")
            )
            answered = query.canonical(connection.sql(text).pl().to_dicts())
            assert answered == expected(parameters)
            assert LEAST <= len(answered) <= MOST


def test_rows_of_all_drivers_come_to_the_same():
    at = datetime(2026, 1, 2, 3, 4, 5)
    rows = [
        {"id": memoryview(b"\x01\xff"), "t": at, "n": 1, "p": {"b": 1, "a": [2]}},
        {"p": '{"a": [2], "b": 1}', "n": 1, "t": "2026-01-02 03:04:05", "id": "01ff"},
        {"id": bytearray(b"\x01\xff"), "t": at, "n": 1, "p": '{"b":1,"a":[2]}'},
    ]
    (first, second, third) = (query.canonical([row]) for row in rows)
    assert first == second == third
    # in whatever order a server returns them
    assert query.canonical([{"n": 2}, {"n": 1}]) == query.canonical([{"n": 1}, {"n": 2}])


class Server:
    """Answers as an engine would that has the rows, but for one parameter."""

    name, protocol = "postgres", "postgres"

    def __init__(self, wrong_at: int | None):
        self.wrong_at, self.queries = wrong_at, 0
        self.expected = answers.expected(SMALL)

    def asking(self) -> "Server":
        return self

    def __enter__(self):
        return self.answer

    def __exit__(self, *_: object) -> None:
        pass

    def answer(self, text: str) -> list[dict]:
        parameters = query.parameters(SMALL, CHECKED)[self.queries]
        assert text == query.filled_in("postgres", parameters)
        rows = [dict(enumerate(row)) for row in self.expected(parameters)]
        self.queries += 1
        return rows[1:] if self.queries - 1 == self.wrong_at else rows


def test_an_engine_that_answers_as_it_should_gets_every_parameter(tmp_path):
    server = Server(wrong_at=None)
    SpecTreeTables(SMALL).check(server, tmp_path / "answers" / "kept.json")
    assert server.queries == CHECKED
    assert not list(tmp_path.iterdir())


def test_an_engine_that_answers_otherwise_is_reported_with_both_row_sets(tmp_path):
    kept = tmp_path / "answers" / "kept.json"
    with pytest.raises(DatasetError) as error:
        SpecTreeTables(SMALL).check(Server(wrong_at=7), kept)
    first = query.parameters(SMALL, 8)[7]
    assert "postgres answers" in str(error.value)
    assert ", ".join(first) in str(error.value)
    assert str(kept) in str(error.value)
    both = json.loads(kept.read_text())
    assert both["parameters"] == list(first)
    assert len(both["answered"]) == len(both["generated"]) - 1


# The tables


@pytest.mark.parametrize("dialect", ["mysql", "postgres"])
def test_partitions_are_one_an_operator(dialect):
    whole = schema.tables(dialect, SMALL)
    assert len(whole) == 2
    assert not any("PARTITION" in statement for statement in whole)
    apart = " ".join(schema.tables(dialect, SMALL.model_copy(update={"partitioned": True})))
    for operator in generate.operator_names(SMALL):
        assert apart.count(f"('{operator}')") == 2
