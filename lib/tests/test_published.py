"""The published numbers: every file is accounted for, typed, and has its rows and sums."""

import csv
import re
import shutil
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

import polars as pl
import pytest
from benchlab import study
from benchlab.claims import dictionary, published
from benchlab.errors import BenchlabError, UnknownName
from benchlab.repo import Repo
from benchlab.study.claims import Level, Ratio
from conftest import ROOT, STUDY

REPO = Repo(ROOT)
FOLDER = published.folder(REPO)

STUDIES = published.articles(REPO)["study"].to_list()
ENGINES = {"postgres", "tidb", "oceanbase", "mariadb", "mysql", "he3db"}
QUALIFIERS = {"exact", "about", "over", "under", "up_to"}
NUMERIC = {"int": pl.Int64, "decimal": pl.Float64}
TYPES = NUMERIC | {"text": pl.String, "bool": pl.Boolean}

#: Describe the others.
DICTIONARY = {"articles.csv", "sources.csv", "columns.csv"}

#: Factors that may be empty: the end of an open bucket, and what a number of the prose is not of.
MAY_BE_EMPTY = {("remote_wal/wal_latency.csv", "to_ms")}

#: Gains that are not those of the article's own throughputs: an error of the article, not of ours.
WRONG_GAINS = {
    "read": {("5000", "select_random_points", "16")},
    "mixed": {
        ("5000", "10", "8"),
        ("5000", "40", "64"),
        ("5000", "640", "64"),
        ("50000", "10", "128"),
    },
}

#: What multiplies a numeral, as Chinese writes it.
NUMERALS = {
    "半": "0.5", "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "十几": 10, "几十": 10,
    "几百": 100, "几千": 1000, "数千": 1000, "一万": 10**4, "几十万": 10**5, "千万": 10**7,
    "万亿": 10**12,
}  # fmt: skip
SUFFIXES = {"k": 1000, "w": 10**4, "万": 10**4, "多万": 10**4, "千万": 10**7}


def cells(file: str) -> list[dict[str, str]]:
    """Rows of a file with every cell as it is written."""
    with (FOLDER / file).open(newline="") as opened:
        return list(csv.DictReader(opened))


def prose() -> list[dict[str, str]]:
    return [row | {"study": name} for name in STUDIES for row in cells(f"{name}/numbers.csv")]


FILES = [row["file"] for row in cells("sources.csv")]
COLUMNS = cells("columns.csv")


def numeral(figure: str) -> Decimal:
    """What a numeral of an article says."""
    if figure in NUMERALS:
        return Decimal(NUMERALS[figure])
    if half := re.fullmatch(r"(\d+)个半", figure):
        return Decimal(half[1]) + Decimal("0.5")
    number, suffix = re.fullmatch(r"([\d.]+)\s*(.*)", figure).groups()
    return Decimal(number) * SUFFIXES.get(suffix.lower().rstrip("+"), 1)


def test_every_file_is_listed_and_every_listed_file_is_there():
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.csv")}
    assert there == set(FILES) | DICTIONARY
    assert len(FILES) == len(set(FILES))
    assert {row["file"] for row in COLUMNS} == set(FILES)


def test_every_study_has_its_article_and_its_numbers():
    listed = published.articles(REPO)
    assert len(STUDIES) == len(set(STUDIES)) >= 5
    article = dict(listed.select("study", "article").iter_rows())
    for row in published.sources(REPO).iter_rows(named=True):
        assert row["file"].startswith(f"{row['study']}/")
        assert row["article"] == article[row["study"]]
        assert row["where"]
    for name in STUDIES:
        assert published.tables(REPO, name)[-1] == "numbers"


@pytest.mark.parametrize("file", FILES)
def test_every_column_is_typed_and_every_number_has_a_unit(file):
    name, table = file.removesuffix(".csv").split("/")
    frame = published.read(REPO, name, table)
    for column in (row for row in COLUMNS if row["file"] == file):
        assert frame.schema[column["column"]] == TYPES[column["type"]]
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column["column"])
        assert column["what"]
        assert bool(column["unit"]) == (column["type"] in NUMERIC), column["column"]
        assert column["kind"] in {"factor", "value", "text"}
        if column["kind"] == "value":
            assert column["type"] in NUMERIC
    assert frame.is_duplicated().sum() == 0


def test_no_factor_is_left_open():
    for column in (row for row in COLUMNS if row["kind"] == "factor"):
        file, name = column["file"], column["column"]
        if (file, name) in MAY_BE_EMPTY or (file.endswith("/numbers.csv") and name != "id"):
            continue
        assert all(row[name] for row in cells(file)), f"{file}: {name}"


def test_factors_identify_a_row():
    for file in FILES:
        factors = [
            row["column"]
            for row in COLUMNS
            if row["file"] == file and row["kind"] == "factor" and row["type"] != "text"
        ] + [row["column"] for row in COLUMNS if row["file"] == file and row["type"] == "text"]
        rows = cells(file)
        assert len({tuple(row[name] for name in factors) for row in rows}) == len(rows), file


def test_factors_are_spelt_as_everywhere():
    for file in FILES:
        rows = cells(file)
        assert {row["engine"] for row in rows if row.get("engine")} <= ENGINES, file
        for row in rows:
            assert re.fullmatch(r"[a-z0-9_]*", row.get("workload", "")), file
            assert re.fullmatch(r"[a-z0-9_]*", row.get("variant", "")), file


@pytest.fixture
def broken(checkout):
    """Change one cell of a study's prose numbers; return the error that the check raises."""
    path = checkout.root / "data/published" / STUDY / "numbers.csv"

    def check(name: str, **cells: str) -> str:
        with path.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        next(row for row in rows if row["id"] == name).update(cells)
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        with pytest.raises(BenchlabError) as raised:
            published.check(checkout, study.load(checkout, STUDY))
        return str(raised.value)

    return check


def test_a_number_that_the_paper_cannot_place_is_reported_with_its_row(broken):
    row = next(row for row in cells(f"{STUDY}/numbers.csv") if row["engine"] and row["workload"])
    where = f"{STUDY}/numbers.csv, {row['id']}"
    assert broken(row["id"], unit="") == f"{where}: it has no unit"
    assert f"variant of {row['engine']} in {where}: 'nosuch'" in broken(
        row["id"], unit=row["unit"], variant="nosuch"
    )
    assert f"workload in {where}: 'nosuch'" in broken(
        row["id"], variant=row["variant"], workload="nosuch"
    )


def test_every_article_has_a_study_file_that_names_it_alike():
    for row in published.articles(REPO).iter_rows(named=True):
        article = study.load(REPO, row["study"]).article
        assert article.file == row["article"]
        # where a text has no title, ours says what it is about
        assert row["title"] in (article.title, None)


def test_a_claim_has_the_number_of_the_article():
    article = {
        row["id"]: float(row["value"]) for row in cells(f"{STUDY}/numbers.csv") if row["value"]
    }
    claimed = {
        claim.id: claim.decided_by.value
        for claim in study.load(REPO, STUDY).claims
        if isinstance(claim.decided_by, Ratio | Level) and claim.id in article
    }
    assert len(claimed) >= 5
    assert claimed == {name: article[name] for name in claimed}


def test_numbers_of_the_prose_have_ids_of_their_own():
    ids = [(row["study"], row["id"]) for row in prose()]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for _, name in ids)


def test_a_value_of_the_prose_is_what_its_figure_says():
    for row in prose():
        assert row["unit"] and row["what"] and row["where"]
        assert row["qualifier"] in QUALIFIERS
        if row["unit"] == "version":
            assert row["value"] == ""
        else:
            assert Decimal(row["value"]) == numeral(row["figure"]), row["id"]


def test_no_sentence_of_an_article_is_here():
    """Chinese stands in numerals only, and in the articles' titles and authors."""
    for file in FILES:
        for row in cells(file):
            for column, cell in row.items():
                if column != "figure":
                    assert not re.search(r"[\u3000-\u9fff]", cell), f"{file}: {column}"
    assert max(len(row["figure"]) for row in prose()) <= 10


# What the articles' own arithmetic says of the transcription: a row in a wrong place breaks it.


def test_the_wal_latencies_add_up_to_the_totals():
    totals = published.read(REPO, "remote_wal", "wal_latency_total")
    point = ["workload", "concurrency"]
    summed = published.read(REPO, "remote_wal", "wal_latency").group_by(point).agg(pl.sum("writes"))
    assert totals.select(*point, "writes").sort(point).equals(summed.sort(point))
    writes = published.read(REPO, "remote_wal", "wal").select(*point, writes="wal_writes")
    assert writes.sort(point).equals(summed.sort(point))


def test_the_wal_tables_repeat_the_throughputs():
    point = ["workload", "concurrency"]
    repeated = published.read(REPO, "remote_wal", "wal").select(*point, "tps")
    measured = published.read(REPO, "remote_wal", "throughput").filter(
        pl.col("engine") == "he3db", pl.col("workload") != "oltp_point_select"
    )
    assert repeated.sort(point).equals(measured.select(*point, "tps").sort(point))


@pytest.mark.parametrize(
    ("table", "key"), [("read", "script"), ("mixed", "point_selects")], ids=["read", "mixed"]
)
def test_the_gains_follow_from_the_throughputs(table, key):
    """The article cuts the third decimal off and does not round."""
    qps = {
        (row["variant"], row["rows_per_table"], row[key], row["concurrency"]): Decimal(row["qps"])
        for row in cells(f"cached_tables/{table}.csv")
    }
    differ = set()
    for row in cells(f"cached_tables/{table}_gain.csv"):
        point = (row["rows_per_table"], row[key], row["concurrency"])
        gain = (qps["cached", *point] / qps["plain", *point] - 1) * 100
        if gain.quantize(Decimal("0.01"), ROUND_DOWN) != Decimal(row["gain_percent"]):
            differ.add(point)
    assert differ == WRONG_GAINS[table]


def test_a_cell_of_three_numbers_is_taken_apart():
    for row in cells("spec_tree/results.csv"):
        parts = [row["latency_p99_ms"], row["latency_p999_ms"], row["throughput_max_per_s"]]
        assert row["cell"] == ("/".join(parts) if any(parts) else "N/A")


# The dictionary


def test_the_dictionary_is_what_the_files_have():
    assert dictionary.differences(REPO) == []
    made = dictionary.counted(REPO)
    assert made == {name: cells(name) for name in ("sources.csv", "columns.csv")}


@pytest.mark.parametrize(
    ("old", "new", "differing"),
    [
        (
            ",0.506,1.452,28320,0.506/1.452/28320\n",
            ",,1.452,28320,/1.452/28320\n",
            [
                "columns.csv: spec_tree/results.csv latency_p99_ms:"
                " type decimal, filled 24, sum 379.537"
            ],
        ),
        (
            "postgres,default,spec_tree,false,10,0.506,1.452,28320,0.506/1.452/28320\n",
            "",
            [
                "sources.csv: spec_tree/results.csv: rows 27",
                "columns.csv: spec_tree/results.csv engine: type text, filled 27",
            ],
        ),
        (
            "concurrency",
            "connections",
            [
                "columns.csv: spec_tree/results.csv connections: type int, filled 28, sum 1330",
                "columns.csv: spec_tree/results.csv concurrency: not there",
            ],
        ),
    ],
    ids=["a cell", "a row", "a column"],
)
def test_what_the_dictionary_says_otherwise_is_named_and_counted_anew(copy, old, new, differing):
    path = published.folder(copy) / "spec_tree" / "results.csv"
    path.write_text(path.read_text().replace(old, new, 1))
    found = dictionary.differences(copy)
    assert [one for one in found if one in differing] == differing
    dictionary.write(copy)
    assert dictionary.differences(copy) == []
    assert published.read(copy, "spec_tree", "results").height > 0


def test_writing_the_dictionary_leaves_what_is_right(copy):
    before = {path: path.read_bytes() for path in published.folder(copy).glob("*.csv")}
    assert dictionary.write(copy) == []
    assert before == {path: path.read_bytes() for path in published.folder(copy).glob("*.csv")}


def test_a_new_table_is_described_but_for_what_only_its_author_knows(copy):
    folder = published.folder(copy)
    with (folder / "articles.csv").open("a") as stream:
        stream.write("compression,005,,,\n")
    (folder / "compression").mkdir()
    lines = ["id,what,value,unit,qualifier,figure,where,engine,variant,workload,concurrency"]
    lines.append("lz4_gain,gain of lz4,21.5,%,exact,21.5,results,postgres,lz4,,")
    (folder / "compression/numbers.csv").write_text("\n".join(lines) + "\n")
    (folder / "compression/size.csv").write_text(
        "variant,wal_mib,kept\nlz4,1.5,true\noff,3.25,true\n"
    )
    left = dictionary.write(copy)
    assert left == [
        "sources.csv: compression/size.csv: where",
        "sources.csv: compression/numbers.csv: where",
        *(
            f"columns.csv: compression/size.csv {cell}"
            for cell in (
                *("variant: kind", "variant: what", "wal_mib: kind", "wal_mib: what"),
                *("wal_mib: unit", "kept: kind", "kept: what"),
            )
        ),
    ]
    described = published.columns(copy).filter(file="compression/size.csv")
    assert described.select("column", "type", "filled", "sum").rows() == [
        ("variant", "text", 2, None),
        ("wal_mib", "decimal", 2, "4.75"),
        ("kept", "bool", 2, None),
    ]
    # the prose's numbers are described as every study's
    assert published.number(copy, "compression", "lz4_gain") == 21.5
    assert published.tables(copy, "compression") == ["size", "numbers"]


def test_a_table_of_an_unknown_article_or_with_words_for_numbers_is_refused(copy):
    folder = published.folder(copy)
    path = folder / "spec_tree" / "results.csv"
    path.write_text(path.read_text().replace("28320,", "fast,", 1))
    with pytest.raises(
        BenchlabError, match=r"results\.csv: column throughput_max_per_s has a cell"
    ):
        dictionary.counted(copy)
    (folder / "nobodys").mkdir()
    with pytest.raises(BenchlabError, match=r"articles\.csv names no study 'nobodys'"):
        dictionary.counted(copy)


# The module


def test_numbers_are_all_cells_that_have_one():
    numbers = published.numbers(REPO)
    assert len(numbers) == sum(int(row["filled"]) for row in COLUMNS if row["kind"] == "value")
    assert (
        numbers.select("study", "table", "metric", "unit", "value").null_count().sum_horizontal()[0]
        == 0
    )
    one = numbers.filter(study="spec_tree", table="results", metric="latency_p999_ms", row=1)
    assert one.drop("row").row(0, named=True) == {
        "study": "spec_tree",
        "table": "results",
        "engine": "postgres",
        "variant": "default",
        "workload": "spec_tree",
        "concurrency": 10,
        "factors": '{"partitioned": false}',
        "metric": "latency_p999_ms",
        "unit": "ms",
        "value": 1.452,
    }


def test_a_number_of_the_prose_has_its_id_and_its_own_unit():
    found = published.numbers(REPO).filter(metric="tidb_tuned_peak_write_only")
    assert found.select("table", "engine", "unit", "value").rows() == [
        ("numbers", "tidb", "transactions/s", 2000.0)
    ]


def test_an_unknown_name_is_answered_with_the_choices():
    with pytest.raises(UnknownName, match=r"'tpch'; choose one of: cached_tables, .*, tpcc"):
        published.tables(REPO, "tpch")
    with pytest.raises(
        UnknownName, match=r"spec_tree 'result'; choose one of: environment, numbers, results"
    ):
        published.read(REPO, "spec_tree", "result")


@pytest.fixture
def copy(tmp_path: Path) -> Repo:
    """A checkout whose published numbers may be spoilt."""
    shutil.copytree(FOLDER, tmp_path / "data" / "published")
    return Repo(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("28320,", "fast,", "fast"),
        ("latency_p99_ms", "latency_p99_us", "columns.csv names .*latency_p99_ms"),
    ],
    ids=["no number", "another column"],
)
def test_a_file_unlike_its_description_is_refused(copy, old, new, message):
    path = published.folder(copy) / "spec_tree" / "results.csv"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(BenchlabError, match=f"results.csv: .*{message}") as refused:
        published.read(copy, "spec_tree", "results")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_gone_is_named(copy):
    (published.folder(copy) / "spec_tree" / "results.csv").unlink()
    with pytest.raises(BenchlabError, match=r"results\.csv"):
        published.read(copy, "spec_tree", "results")
