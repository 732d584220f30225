"""A curve whose dataset is to the buffer pool otherwise than in the article decides nothing."""

import json

import polars as pl
import pytest
from benchlab import study
from benchlab.gate.similar import dissimilar, is_similar
from benchlab.plan import Trial
from benchlab.report import gate, similitude, why
from conftest import CAPTURES, STUDY, edited_study, judged, rerun
from hypothesis import given
from hypothesis import strategies as st

MIB = 1 << 20

#: The article's ratio is 20 GB to 8 GiB, a quarter of its machine's memory.
ARTICLE = 20e9 / (8 << 30)
DATASET = 600e6

TUNED, DEFAULT = (
    {"engine": "postgres", "variant": variant, "workload": "oltp_write_only"}
    for variant in ("tuned", "default")
)
RUNS = {
    tuple(TUNED.values()): {16: [198.0, 200.0, 202.0]},
    tuple(DEFAULT.values()): {16: [99.0, 100.0, 101.0]},
}
SIZE = {"metric": "dataset_bytes"}


@pytest.mark.parametrize(
    ("article", "here", "similar"),
    [
        (3.2, 3.2, True),
        (3.2, 4.7, True),
        (3.2, 4.9, False),
        (3.2, 2.2, True),
        (3.2, 0.86, False),
        # all fits, whatever room is left
        (0.9, 0.01, True),
        # all fits there, and here not
        (0.5, 1.1, False),
        (0.9, 1.1, True),
    ],
)
def test_ratios_are_similar_within_a_factor_or_if_all_fits(article, here, similar):
    assert is_similar(article, here) == similar


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_neither_side_of_a_ratio_is_preferred(article, here):
    assert is_similar(article, here) == is_similar(here, article)
    assert is_similar(article, article)


@pytest.fixture
def sized(measured):
    """A rerun whose servers report these pools, by variant, and a dataset of 600 MB."""

    def measure(pools: dict[str, int], directory: float = DATASET):
        def also(trial: Trial) -> dict[str, bytes]:
            pool = {
                "name": "shared_buffers",
                "requested": "",
                "effective": str(pools[trial.point.variant] // 8192),
                "unit": "8kB",
            }
            sizes = {"pg_database_size": DATASET, "data_dir_bytes": directory}
            counters = json.dumps(sizes).encode()
            return {
                "settings.json": json.dumps([pool]).encode(),
                "counters-begin.json": counters,
                "counters-end.json": counters,
            }

        return rerun(measured(RUNS, also=also))

    return measure


ALIKE, SMALL = {"tuned": 256 * MIB, "default": 256 * MIB}, {"tuned": 256 * MIB, "default": 32 * MIB}
FOUND = "dataset : buffer pool is 17.9 here and 2.33 in the article"


def test_the_pool_that_a_server_reports_decides_variant_by_variant(sized):
    assert dissimilar(sized(ALIKE)) == {}
    assert f"{DATASET / (32 * MIB):.1f} here and {ARTICLE:.2f} in" in FOUND
    assert dissimilar(sized(SMALL)) == {("postgres", "default"): FOUND}


def test_what_is_unknown_is_no_reason(measured, sized, checkout):
    assert dissimilar(rerun(measured(RUNS, also=lambda _: CAPTURES))) == {}
    with edited_study(checkout) as spec:
        del spec["article"]["dataset_bytes"]
    assert study.load(checkout, STUDY).article.dataset_bytes is None
    assert dissimilar(sized(SMALL)) == {}


def test_a_size_that_may_count_the_data_directory_is_similar_by_either_reading(sized, checkout):
    path = checkout.studies / f"{STUDY}.yml"
    text = path.read_text()
    path.write_text(
        text.replace("  dataset_bytes:", "  dataset_counted: unknown\n  dataset_bytes:")
    )
    directory = 9e9  # as a pool of 4 GB would be in the article
    assert dissimilar(sized(SMALL, directory)) == {
        (
            "postgres",
            "default",
        ): f"{FOUND}; data directory : buffer pool is 268 here and 2.33 in the article"
    }
    assert dissimilar(sized(SMALL, directory=2 * 32 * MIB)) == {}
    found = similitude.similitude(sized(SMALL, directory=2 * 32 * MIB))
    rows = found.filter(pl.col("quantity").str.starts_with("data directory : buffer pool")).rows()
    assert sorted(row[1:3] for row in rows) == [
        (pytest.approx(ARTICLE), 0.25),
        (pytest.approx(ARTICLE), 2.0),
    ], found


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        ({"test": "above", "of": TUNED, "over": DEFAULT}, "not testable here"),
        ({"test": "bound", "of": DEFAULT, "at": "all", "by": ["memory"]}, "not testable here"),
        ({"test": "limit", "of": TUNED, "at": "all", "least": 100, "unit": "/s"}, "reproduced"),
        # a size is what it is
        (
            {"test": "ratio", "of": TUNED | SIZE, "over": DEFAULT | SIZE, "at": 64, "value": 1},
            "reproduced",
        ),
    ],
)
def test_no_verdict_rests_on_a_curve_that_is_not_similar(checkout, sized, test, verdict):
    found = sized(SMALL)
    one = judged(checkout, found, test, kind="order")
    assert one.verdict == verdict
    if verdict == "not testable here":
        assert one.reason == f"postgres default oltp_write_only: {FOUND}"
        gate = why.runs(found, one).filter(pl.col("curve").str.contains("default"))["gate"]
        assert all(said.endswith(FOUND) for said in gate)


def test_a_server_that_nobody_scales_is_not_held_against_those_that_are(measured, checkout):
    with edited_study(checkout) as spec:
        spec["engines"]["tidb"]["external"] = "TIDB_DSN"
    external = {("tidb", "default", "oltp_write_only"): {16: [99.0, 100.0, 101.0]}}
    alone = dissimilar(rerun(measured(external)))
    assert alone == {}
    found = dissimilar(rerun(measured(RUNS | external)))
    assert found == {
        (
            "tidb",
            "default",
        ): "profile standard scales the others and not TiDB, which somebody else runs"
    }


def test_such_a_curve_is_one_row_of_what_did_not_pass(sized):
    of_rerun = sized(SMALL)
    (row,) = gate.table(of_rerun).filter(check="similar").rows(named=True)
    assert row == {
        "curve": of_rerun.study.curve_label("postgres", "default"),
        **dict.fromkeys(("workload", "envelope", "concurrency")),
        **{"check": "similar", "runs": "3 of 3", "found": FOUND},
    }
