"""What the articles derive, worked out again: by known values, and against what they tell."""

import polars as pl
import pytest
from benchlab.claims import published
from benchlab.repo import Repo
from benchlab.report import audits, manuscript
from benchlab.report.paper import build
from benchlab.report.paper.charts import specification
from benchlab.studies import cached_tables, remote_wal, spec_tree, tpcc
from conftest import ROOT

REPO = Repo(ROOT)


def test_every_table_is_listed_with_its_numbers():
    listed = audits.tables(REPO)
    assert len(listed) == len(published.sources(REPO))
    assert listed["numbers"].sum() == len(published.numbers(REPO))


def test_gains_that_do_not_follow_were_worked_out_with_the_other_table():
    """The rest of the 80 come out to the last digit."""
    ratios = cached_tables.ratios(REPO)
    assert len(ratios) == 80
    wrong = ratios.filter(pl.col("published") != pl.col("found"))
    assert len(wrong) == 5
    assert wrong.filter(pl.col("published") == pl.col("other")).select(
        "rows_per_table", "workload", "concurrency"
    ).rows() == [
        (5000, "10 point selects", 8),
        (5000, "40 point selects", 64),
        (5000, "640 point selects", 64),
    ]


def test_a_summary_of_ratios_lies_within_them():
    summary = cached_tables.summary(REPO)
    assert len(summary) == 16
    for row in summary.iter_rows(named=True):
        assert row["least"] <= row["geometric_mean"] <= row["greatest"]
    best = summary.filter(rows_per_table=5000, workload="oltp_point_select")
    assert best["ratio_of_peaks"].item() == pytest.approx(33962 / 7639, rel=0.01)


def test_peaks_are_the_greatest_of_their_curves():
    peaks = remote_wal.peaks(REPO)
    assert peaks.select("workload", "postgres", "he3db_peak_at").unique().height == 7
    one = peaks.filter(workload="oltp_insert", postgres="sync_standby").row(0, named=True)
    assert (one["he3db_peak"], one["he3db_peak_at"]) == (56665.19, 256)
    assert one["ratio_of_peaks"] == 0.795
    assert one["ratio_at_512"] == 0.799


def test_the_articles_mean_wal_concurrency_comes_out():
    shape = remote_wal.wal_shape(REPO)
    assert len(shape) == 18
    assert shape["concurrency_found"].to_list() == shape["concurrency_published"].to_list()
    assert shape["share"].is_between(0, 1).all()
    first = shape.filter(workload="oltp_insert", concurrency=16).row(0, named=True)
    assert (first["wal_ms"], first["transaction_ms"], first["share"]) == (0.559, 5.75, 0.1)


def test_correlations_have_intervals_around_them():
    found = remote_wal.wal_correlations(REPO)
    assert len(found) == 3 * 7
    assert set(found["n"]) == {6}
    for how in ("pearson", "spearman"):
        for row in found.iter_rows(named=True):
            assert -1 <= row[f"{how}_low"] <= row[how] <= row[f"{how}_high"] <= 1
    writes = found.filter(workload="oltp_read_write", metric="wal_writes").row(0, named=True)
    assert (writes["pearson"], writes["spearman"]) == (0.994, 1.0)


def test_littles_law_holds_at_10_connections_and_nowhere_else():
    law = spec_tree.article_law(REPO)
    assert len(law) == 25
    assert law.filter("fits")["connections"].to_list() == [10] * 7
    assert law.filter(~pl.col("fits"))["connections"].min() == 40
    assert (law["busy"] <= law["connections"]).all()


def test_ratios_with_a_missing_side_are_missing():
    ratios = {row["ratio"]: row for row in spec_tree.article_ratios(REPO).iter_rows(named=True)}
    assert ratios["PostgreSQL : MariaDB tuned, not partitioned"]["of the peaks"] == 1.5
    mariadb = ratios["MariaDB, partitioned : not"]
    assert (mariadb["10"], mariadb["40"], mariadb["of the peaks"]) == (426.0, None, None)


def test_the_chain_from_terminals_to_efficiency():
    chain = {row["what"]: row for row in tpcc.chain(REPO).iter_rows(named=True)}
    assert chain["warehouses, of ten terminals each"]["found"] == 4_794_240
    assert chain["cap of a warehouse"]["found"] == chain["cap of a warehouse"]["published"] == 12.86
    assert chain["efficiency"]["found"] == 98.74
    assert chain["cores : processor, Oracle's storage"]["found"] == 12
    assert chain["warehouses : RTE clients"]["found"] == 4994
    assert chain["that on a data node"]["found"] == 2.35
    assert chain["tpmC : data nodes"]["found"] == 298_431


def test_audits_are_shown_contradictions_first_with_both_values():
    shown = audits.audits(REPO)
    verdicts = shown["verdict"].to_list()
    assert verdicts == sorted(verdicts)
    assert (
        shown.select("study", "claim", "published", "found").null_count().sum_horizontal().item()
        == 0
    )
    cores = shown.filter(pl.col("claim").str.contains("X5670")).row(0, named=True)
    assert (cores["published"], cores["found"]) == ("2,328 cores", "1,164 cores")
    year = shown.filter(pl.col("claim").str.contains("shared-nothing")).row(0, named=True)
    assert (year["published"], year["found"]) == ("2019", "2000")
    cap = shown.filter(pl.col("claim").str.starts_with("Keying")).row(0, named=True)
    assert (cap["published"], cap["found"]) == ("12.86 tpmC/warehouse", "12.8633 tpmC/warehouse")
    summary = audits.audit_summary(REPO, shown)
    assert summary["audits"].sum() == len(shown)
    assert (summary["reproduced"] + summary["not reproduced"] == summary["audits"]).all()


def test_the_paper_has_a_table_of_audits_per_article(tmp_path):
    listed, tables = manuscript.audited(REPO)
    assert [one["study"] for one in listed] == published.articles(REPO)["study"].to_list()
    for one in listed:
        table = tables[one["table"]]
        assert table.columns == ["claim", "published", "found", "verdict"]
        assert len(table) == one["audits"]
        assert (table["verdict"] == "not reproduced").sum() == one["not_reproduced"]
    assert (
        "(Intel, Xeon X5670" in tables["audit-tpcc"].filter(published="2,328 cores")["found"].item()
    )
    # the section as it stands in the manuscript
    text = (ROOT / "paper" / "paper.md").read_text()
    section = text[text.index("# Are the articles right") :].partition("{% if simulated %}")[0]
    path = tmp_path / "paper.md"
    path.write_text(f"---\ntitle: T\n---\n\n{section}")
    built = build(path, {"audits": listed}, {}, tables, tmp_path / "build")
    html = built.html.read_text()
    for name in tables:
        assert f'id="tab-{name}"' in html
    assert built.pdf.read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize(
    ("chart", "curves"),
    [
        (cached_tables.gains, 80),
        (remote_wal.throughput, 66),
        (spec_tree.article_throughput, 25),
    ],
)
def test_a_chart_has_every_published_point(chart, curves):
    spec = specification("chart", chart(REPO))
    assert sum(len(rows) for rows in spec["datasets"].values()) == curves
