"""Runs in which limits were lowered: in the store, out of the curves, beside the evidence."""

import polars as pl
import pytest
import vl_convert
from benchlab.attribution.elasticity import Answer
from benchlab.errors import BenchlabError, StoreError
from benchlab.raw import folders
from benchlab.report import intervention_charts, interventions, points
from benchlab.store import ingest, open_store
from benchlab.store.results import largest_profile
from benchlab.study.intervention import LimitBlocks
from conftest import CAPTURES, DATA, STUDY, editable, rerun
from polars.testing import assert_frame_equal

REQUESTED = LimitBlocks(resources=("cpu", "write_bandwidth"), block_s=4, blocks=4)
FILES = CAPTURES | {
    "sysbench.out": (DATA / "intervene" / "sysbench.txt").read_bytes(),
    "blocks.jsonl": (DATA / "intervene" / "blocks.jsonl").read_bytes(),
}


@pytest.fixture
def intervened(at_sixteen):
    """A trial of write_only at 16 threads, with and without an intervention."""
    return at_sixteen, at_sixteen.model_copy(update={"intervention": REQUESTED})


def test_its_blocks_and_elasticities_are_in_the_store(checkout, close_run, intervened):
    record = close_run(trial=intervened[1], **FILES)
    assert folders.read(checkout.raw / record.run_id) == record
    assert ingest.ingest_new(checkout).damaged == {}
    with open_store(checkout.store) as store:
        assert len(store.table("intervention_block", record.run_id)) == 17
        found = store.table("elasticity", record.run_id)
        assert sorted(found["resource"]) == ["CPU", "disk write bandwidth"]
        (run,) = store.runs().rows(named=True)
        assert LimitBlocks.model_validate_json(run["intervention"]) == REQUESTED
        assert not store.table("attribution", record.run_id).is_empty()
        # from the store as from the raw files
        stored = interventions.stored(store, record.run_id)
        raw = interventions.read(checkout.raw, record)
        for one, other in zip(vars(stored).values(), vars(raw).values(), strict=True):
            # a table has no order of its own
            assert_frame_equal(
                one, other, check_row_order=False, check_column_order=False, check_dtypes=False
            )


def test_it_is_no_trial_of_a_curve(checkout, close_run, intervened):
    plain, lowered = intervened
    close_run(trial=plain)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        alone = points.points(rerun(store, "quick")), points.cost_table(rerun(store, "quick"))
        assert interventions.answers(rerun(store, "quick")).is_empty()
    close_run("failed", "it died", trial=lowered)
    close_run(trial=lowered, **FILES)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        both = points.points(rerun(store, "quick")), points.cost_table(rerun(store, "quick"))
        assert len(store.runs()) == 3
        assert len(rerun(store, "quick").interventions) == 1
        assert points.not_counted(rerun(store, "quick")).is_empty()
    assert all(one.equals(other) for one, other in zip(alone, both, strict=True))


def test_a_store_of_such_runs_alone_has_no_curves(checkout, close_run, intervened):
    close_run(trial=intervened[1], **FILES)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        assert rerun(store, "quick").runs.is_empty()
        with pytest.raises(StoreError, match="no run of study"):
            largest_profile(store, STUDY)


def test_a_run_that_was_cut_is_unclear(checkout, close_run, intervened):
    text = FILES["blocks.jsonl"]
    for end in (0, 100, 700):
        record = close_run(trial=intervened[1], **FILES | {"blocks.jsonl": text[:end]})
        tables = ingest.rows(checkout.raw / record.run_id)
        assert set(tables["elasticity"]["answer"]) == {Answer.UNCLEAR}
    assert not interventions.read(checkout.raw, record).blocks.is_empty()
    empty = close_run(trial=intervened[1], **FILES | {"blocks.jsonl": b""})
    with pytest.raises(BenchlabError, match="no block came to its end"):
        interventions.read(checkout.raw, empty)


def test_a_run_that_failed_is_reported_with_its_reason(checkout, close_run, intervened):
    record = close_run("failed", "intervention broke off: it died", trial=intervened[1])
    with pytest.raises(BenchlabError, match="failed: intervention broke off: it died"):
        interventions.read(checkout.raw, record)


@pytest.mark.parametrize(
    ("evidence", "answers", "intervention", "agree"),
    [
        (["CPU of the engine"], {"CPU": Answer.BINDS}, "CPU", "yes"),
        (["CPU of the client"], {"CPU": Answer.MORE_THAN_PROPORTIONAL}, "CPU", "yes"),
        (["disk write bandwidth"], {"CPU": Answer.BINDS}, "CPU", "no"),
        (
            ["disk write bandwidth"],
            {"disk write bandwidth": Answer.DOES_NOT, "CPU": Answer.DOES_NOT},
            "none that was lowered",
            "no",
        ),
        (["CPU of the engine"], {"CPU": Answer.UNCLEAR}, "unclear", "unclear"),
        (["CPU of the engine"], {"CPU": Answer.IN_PART}, "CPU in part", "unclear"),
        (["memory"], {"CPU": Answer.DOES_NOT}, "none that was lowered", "not contradicted"),
        ([], {"CPU": Answer.DOES_NOT}, "none that was lowered", "unclear"),
        ([], {"CPU": Answer.BINDS}, "CPU", "unclear"),
        (
            ["disk write bandwidth"],
            {"disk write bandwidth": Answer.NOT_TESTABLE, "CPU": Answer.DOES_NOT},
            "none that was lowered",
            "not contradicted",
        ),
    ],
)
def test_evidence_and_intervention_side_by_side(
    checkout, close_run, intervened, evidence, answers, intervention, agree
):
    record = close_run(trial=intervened[1], **FILES)
    ingest.ingest_new(checkout)
    with editable(checkout.store) as store:
        for table in ("attribution", "elasticity"):
            store.connection.execute(f"DELETE FROM {table}")
        for name in evidence:
            store.connection.execute(
                "INSERT INTO attribution BY NAME SELECT ? AS run_id, ? AS resource, true AS binds,"
                " '' AS evidence",
                [record.run_id, name],
            )
        for name, answer in answers.items():
            store.connection.execute(
                "INSERT INTO elasticity BY NAME SELECT ? AS run_id, ? AS resource, 4 AS blocks,"
                " ? AS answer",
                [record.run_id, name, str(answer)],
            )
        (row,) = interventions.answers(rerun(store, "quick")).rows(named=True)
    assert row["by evidence"] == (", ".join(evidence) or "unknown")
    assert row["by intervention"] == intervention
    assert row["agree"] == agree
    assert row["blocks"] == "4 blocks of 4 s at 80 %"


def test_used_resources_are_reported_for_baseline_blocks_and_for_lowered_ones(
    checkout, close_run, intervened
):
    record = close_run(trial=intervened[1], **FILES)
    ingest.ingest_new(checkout)
    # of each resource: in the blocks of none, and in its own
    cores, bytes_per_s = {None: 1.5, "CPU": 1.2}, {None: 30e6, "disk write bandwidth": 24e6}
    tps = {None: 1000, "CPU": 600, "disk write bandwidth": 800}
    with editable(checkout.store) as store:
        store.connection.execute("DELETE FROM os_sample")
        (node,) = store.table("node", record.run_id).filter(role="db.primary")["node"]
        samples = [
            # the first second of a block is of the limit before
            (block["begin_s"] + second, subject, metric, value if second > 1 else 1e9)
            for block in store.table("intervention_block", record.run_id).iter_rows(named=True)
            for second in range(1, int(block["end_s"] - block["begin_s"]) + 1)
            for subject, metric, value in (
                ("engine", "cpu_us_per_s", 1e6 * cores.get(block["resource"], 9) - 0.2e6),
                ("client", "cpu_us_per_s", 0.2e6),
                ("disk", "write_bytes_per_s", bytes_per_s.get(block["resource"], 9)),
            )
        ]
        store.connection.executemany(
            "INSERT INTO os_sample BY NAME SELECT ? AS t, ? AS subject, ? AS metric, ? AS value,"
            f" 'sample' AS observer, '{record.run_id}' AS run_id, '{node}' AS node",
            samples,
        )
        for name, value in tps.items():
            store.connection.execute(
                "UPDATE intervention_block SET tps = ? WHERE resource IS NOT DISTINCT FROM ?",
                [value, name],
            )
        found = interventions.used(rerun(store, "quick"))
        for none in (0, None):
            store.connection.execute(
                "UPDATE intervention_block SET tps = ? WHERE resource = 'CPU'", [none]
            )
            (left,) = interventions.used(rerun(store, "quick"))["resource"]
            assert left == "disk write bandwidth"
    assert found.select("resource", "used", "a transaction takes").rows() == [
        ("disk write bandwidth", "30.0 → 24.0 MB/s", "30.0 → 30.0 kB"),
        ("CPU", "1.50 → 1.20 cores", "1,500 → 2,000 µs"),
    ]
    assert found["limit"].to_list()[1] == "2.00 → 1.60 cores"


def test_charts_have_every_block_and_limit(checkout, close_run, intervened):
    record = close_run(trial=intervened[1], **FILES)
    found = interventions.read(checkout.raw, record)
    over_time = intervention_charts.over_time(found).to_dict()
    sizes = sorted(len(rows) for rows in over_time["datasets"].values())
    assert sizes == [8, 17, len(found.seconds)]
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        chart = intervention_charts.elasticities(
            interventions.elasticities(rerun(store, "quick"))
        ).to_dict()
    (rows,) = chart["datasets"].values()
    assert {row["point"] for row in rows} == {"PostgreSQL, default, write_only ×16"}
    assert {row["resource"] for row in rows} == {"CPU", "disk write bandwidth"}


def test_a_chart_without_a_block_that_counts_can_be_drawn():
    numbers = dict.fromkeys(("elasticity", "low", "high"), None)
    row = {"point": "×16", "resource": "CPU", **numbers, "blocks": 0, "answer": "unclear"}
    found = pl.DataFrame([row], schema_overrides=dict.fromkeys(numbers, pl.Float64))
    chart = intervention_charts.elasticities(found).to_dict()
    assert vl_convert.vegalite_to_png(chart).startswith(b"\x89PNG")
