"""Points and tables, on a store whose throughputs are set by hand."""

import inspect
import json
from collections.abc import Callable
from types import SimpleNamespace

import polars as pl
import pytest
from benchlab import stats, study, target
from benchlab.drivers.sysbench import output as sysbench_output
from benchlab.errors import NoRuns, UnknownName
from benchlab.observers import background
from benchlab.plan import Trial, selected
from benchlab.raw import folders
from benchlab.report import (
    charts,
    evidence,
    gate,
    noise,
    points,
    published_beside,
    settings,
    similitude,
    theme,
    waits,
)
from benchlab.store import ingest, open_store, results
from benchlab.store.results import Rerun
from benchlab.studies import postgres_vs_tidb
from conftest import CAPTURES, MEASURED, MEASURED_PROFILE, STUDY, editable, planned, rerun

PROFILE = MEASURED_PROFILE

#: What a run of PostgreSQL leaves for the tables.
POSTGRES = CAPTURES | {
    "settings.json": json.dumps(
        [
            {"name": "max_wal_size", "requested": "32MB", "effective": "32", "unit": "MB"},
            {"name": "shared_buffers", "requested": "256MB", "effective": "32768", "unit": "8kB"},
        ]
    ).encode(),
    "counters-begin.json": b'{"pg_database_size": 6e8, "pg_stat_wal.wal_bytes": 1e6,'
    b' "pg_stat_wal.wal_fpi": 0, "pg_stat_bgwriter.checkpoints_timed": 1,'
    b' "pg_stat_bgwriter.checkpoints_req": 10}',
    "counters-end.json": b'{"pg_database_size": 7e8, "pg_stat_wal.wal_bytes": 9e6,'
    b' "pg_stat_wal.wal_fpi": 100, "pg_stat_bgwriter.checkpoints_timed": 2,'
    b' "pg_stat_bgwriter.checkpoints_req": 13}',
}


DEFAULT = ("postgres", "default", "oltp_write_only")
TUNED = ("postgres", "tuned", "oltp_write_only")


def test_a_curve_has_the_name_that_the_study_gives_its_engine(measured, checkout):
    path = checkout.studies / f"{STUDY}.yml"
    text = path.read_text()
    assert "label: PostgreSQL\n" in text
    path.write_text(text.replace("label: PostgreSQL\n", "label: Elephant\n"))
    store = measured({DEFAULT: {1: [50.0]}, TUNED: {1: [60.0]}})
    found = points.points(rerun(store))
    assert found["curve"].to_list() == ["Elephant, default", "Elephant, tuned"]
    domain = "Elephant, default", "Elephant, tuned"
    spec = study.load(checkout, STUDY)
    chart = json.dumps(charts.throughput(spec, found, "oltp_write_only").to_dict(), sort_keys=True)
    assert json.dumps(domain) in chart
    assert "PostgreSQL" not in chart


@pytest.mark.parametrize(
    "chart",
    [lambda *drawn: charts.throughput(*drawn, "oltp_write_only"), charts.envelopes],
    ids=["throughput", "envelopes"],
)
@pytest.mark.parametrize(("high", "top"), [(120.0, None), (900.0, 120.0)])
def test_an_interval_far_above_all_points_is_cut_and_marked(measured, checkout, chart, high, top):
    store = measured({DEFAULT: {1: [50.0]}, TUNED: {1: [60.0]}})
    wide = pl.when(pl.col("tps") == 50).then(high).alias("tps_high")
    found = points.points(rerun(store)).with_columns(wide, tps_low=20.0)
    spec = study.load(checkout, STUDY)
    lines = chart(spec, found).to_dict()["vconcat"][0]
    assert lines["layer"][1]["encoding"]["y"]["field"] == "tps_low"
    assert lines["layer"][1]["encoding"]["y2"]["field"] == "drawn_high"
    marks = [one for one in lines["layer"] if one["mark"].get("shape") == "triangle-up"]
    assert [one["encoding"]["y"]["datum"] for one in marks] == ([] if top is None else [top])
    domain = lines["layer"][0]["encoding"]["y"]["scale"].get("domain")
    assert domain == (None if top is None else [0, top])


def test_the_main_envelope_is_solid_in_the_colour_of_the_engine(measured, checkout):
    main = points.points(rerun(measured({DEFAULT: {1: [50.0]}})))
    both = pl.concat([main.with_columns(envelope=pl.lit("as_sold")), main])
    drawn = charts.envelopes(study.load(checkout, STUDY), both).to_dict()
    line = drawn["vconcat"][0]["layer"][0]["encoding"]
    assert line["strokeDash"]["scale"]["domain"] == ["main", "as_sold"]
    assert line["strokeDash"]["scale"]["range"][0] == theme.DASHES["default"]
    assert line["color"]["scale"]["range"] == [theme.style("postgres").color]


def test_a_run_that_did_not_pass_is_shown_only_where_none_did(measured):
    def passed(trial: Trial) -> bool:
        return trial.point.concurrency == 4 and trial.number != 2

    store = measured({DEFAULT: {1: [50.0, 51.0], 4: [100.0, 110.0, 120.0]}}, passed=passed)
    store.connection.execute(
        "INSERT INTO engine_wait BY NAME SELECT run_id, measure_end AS t, 'log' AS wait_class,"
        " trial::VARCHAR AS wait, 1 AS sessions FROM run"
    )
    found = rerun(store)
    bound = evidence.evidence(found, "postgres", "oltp_write_only")
    assert bound.select("concurrency", "trial", "gate passed").rows() == [
        (1, 1, "no"),
        (1, 2, "no"),
        (4, 1, "yes"),
        (4, 3, "yes"),
    ]
    of_point = waits.table(found).select("concurrency", "wait", "share", "gate passed")
    assert of_point.rows() == [(4, "1", 0.5, "yes"), (4, "3", 0.5, "yes")]


def test_a_point_is_the_median_of_the_trials_that_count(measured):
    store = measured({DEFAULT: {1: [50.0], 4: [300.0, 100.0, 110.0], 16: [7.0, None, 9.0]}})
    found = points.points(rerun(store)).rows_by_key("concurrency", named=True, unique=True)
    shown = {
        threads: (row["n"], row["tps"], row["tps_low"], row["tps_high"])
        for threads, row in found.items()
    }
    three, two = stats.median([300.0, 100.0, 110.0]), stats.median([7.0, 9.0])
    assert shown == {
        1: (1, 50.0, None, None),
        4: (3, 110.0, three.low, three.high),
        16: (2, 8.0, two.low, two.high),
    }
    printed = sysbench_output.summary(CAPTURES["sysbench.out"].decode())
    # sysbench prints the percentile of the same histogram, by interpolation within a bucket
    assert found[4]["p99_us"] == pytest.approx(printed["latency_percentile_ms"] * 1000, rel=0.02)
    assert points.not_counted(rerun(store))["runs"].to_list() == [1]


def test_a_trial_that_was_repeated_counts_once_and_as_it_ended_last(checkout, measured, close_run):
    store = measured({DEFAULT: {4: [100.0, 110.0, 120.0]}})
    again = checkout.raw / store.runs(trial=1)["run_id"][0]
    close_run("failed", "it died", trial=folders.read(again).trial)
    store.close()
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        row = points.points(rerun(store)).row(0, named=True)
    assert (row["n"], row["tps"]) == (2, 115.0)


def test_planned_trials_without_a_run_are_named(checkout, close_run):
    plan = planned(checkout)
    plan.save(checkout)
    of_postgres = [one for one in plan.trials if one.point.engine == "postgres"]
    close_run(trial=of_postgres[0])
    close_run("failed", "it died", trial=of_postgres[1])
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        found = (
            points.not_counted(rerun(store, "quick")).group_by("status").agg(pl.col("runs").sum())
        )
    assert dict(found.iter_rows()) == {"failed": 1, "not run": len(plan.trials) - 2}


# Targets: a trial has the same key on all of them


def test_results_are_those_of_one_target(measured):
    measured({DEFAULT: {1: [10.0, 20.0, 60.0], 4: [30.0]}}, target="lab")
    measured({DEFAULT: {1: [100.0, 110.0]}})
    # the last run was on the other target again, but does not count
    store = measured({DEFAULT: {4: [None]}}, target="lab")

    def medians(**named: str) -> dict[int, tuple[int, float]]:
        rows = points.points(rerun(store, **named)).iter_rows(named=True)
        return {row["concurrency"]: (row["n"], row["tps"]) for row in rows}

    assert medians() == medians(target="local") == {1: (2, 105.0)}
    assert medians(target="lab") == {1: (3, 20.0)}
    assert points.overview(rerun(store))["runs"].to_list() == ["2 ok"]
    assert points.overview(rerun(store, target="lab"))["runs"].to_list() == ["3 ok, 1 failed"]
    assert points.not_counted(rerun(store)).is_empty()
    assert points.not_counted(rerun(store, target="lab"))["runs"].to_list() == [1]
    assert points.cost_table(rerun(store))["tps"].to_list() == [105.0]
    assert points.cost_table(rerun(store, target="lab"))["tps"].to_list() == [20.0]
    with pytest.raises(UnknownName, match="unknown target 'nosuch'; choose one of: lab, local"):
        points.points(rerun(store, target="nosuch"))


def test_the_largest_profile_of_a_target_is_shown_although_another_target_has_a_larger_one(
    checkout, measured
):
    measured({DEFAULT: {1: [100.0, 105.0]}})
    store = measured({DEFAULT: {1: [10.0]}}, target="lab")
    store.connection.execute("UPDATE run SET profile = 'quick' WHERE target = 'lab'")
    assert rerun(store, None).profile == MEASURED_PROFILE
    assert rerun(store, None, target="lab").profile == "quick"
    store.connection.execute("UPDATE run SET study = 'spec_tree' WHERE target = 'lab'")
    assert results.find_rerun(checkout, store, STUDY, target_name="lab") is None


def test_a_profile_counts_by_the_last_runs_of_its_trials(measured):
    measured({DEFAULT: {1: [100.0, 105.0]}})
    store = measured({DEFAULT: {1: [None, None]}})
    with pytest.raises(NoRuns, match="no run of study postgres_vs_tidb counts"):
        rerun(store, None)


def test_a_target_on_which_nothing_counts_is_shown_if_there_is_no_other(measured):
    store = measured({DEFAULT: {1: [None]}}, target="lab")
    assert points.points(rerun(store)).is_empty()
    assert points.not_counted(rerun(store))["runs"].to_list() == [1]


def of_a_rerun(module: object) -> dict[str, Callable]:
    """Every function that reads the results of a rerun."""
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and "rerun" in inspect.signature(function).parameters
    }


def test_every_table_is_of_one_target(checkout, measured):
    """Each shows the same of a target whether or not there are others."""
    others = {
        "engine": "postgres",
        "workload": "oltp_write_only",
        "concurrency": 1,
        "metrics": ["tps"],
    }
    functions = {}
    for module in (points, settings, evidence, similitude, postgres_vs_tidb):
        functions |= of_a_rerun(module)
    assert {"points", "cost_table", "similitude", "parameters", "checkpoints"} <= set(functions)

    def everything(store) -> dict[str, object]:
        shown, one = {}, rerun(store, target="lab")
        for name, function in functions.items():
            taken = inspect.signature(function).parameters
            arguments = {key: value for key, value in others.items() if key in taken}
            found = function(one, **arguments)
            shown[name] = found.rows() if isinstance(found, pl.DataFrame) else found
        return shown

    runs = {DEFAULT: {1: [10.0, 20.0, 60.0]}, TUNED: {1: [40.0]}}
    before = everything(measured(runs, target="lab", also=lambda _: POSTGRES))
    assert before["similitude"]
    assert everything(measured({DEFAULT: {1: [900.0, 901.0, 902.0]}})) == before


# Tables


def schemas(one: Rerun) -> dict[str, dict[str, pl.DataType]]:
    frames = {
        "points": points.points(one),
        "overview": points.overview(one),
        "not_counted": points.not_counted(one),
        "costs": points.cost_table(one),
        "similitude": postgres_vs_tidb.similitude(one),
        "checkpoints": postgres_vs_tidb.checkpoints(one),
        "evidence": evidence.evidence(one, "postgres", "oltp_write_only"),
        "gate": gate.table(one),
    }
    return {name: dict(frame.schema) for name, frame in frames.items()}


def first_trials(checkout, **names: str) -> dict[str, object]:
    """Envelope → first trial of a curve, in the order of the study."""
    lists = {name: [value] for name, value in names.items()}
    chosen = selected(
        study.load(checkout, STUDY), planned(checkout, STUDY, PROFILE).batches, **lists
    )
    trials = [trial for batch in chosen for trial in batch.trials]
    return {trial.point.envelope.name: trial for trial in reversed(trials)}


def test_without_runs_there_are_the_same_columns(checkout, close_run):
    trials = first_trials(checkout, engines="postgres", workloads="oltp_write_only")
    ingest.ingest_new(checkout)
    spec = study.load(checkout, STUDY)
    instance = target.instance_type(checkout, spec.instance)
    with open_store(checkout.store) as store:
        empty = schemas(Rerun(store, spec, instance, PROFILE, "local"))
    close_run(trial=trials["main"], **POSTGRES)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        assert schemas(rerun(store)) == empty
        assert not postgres_vs_tidb.similitude(rerun(store)).is_empty()


def test_a_build_is_named_by_twelve_digits_of_its_commit(checkout, close_run):
    close_run(trial=first_trials(checkout, engines="tidb", variants="default")["main"], **POSTGRES)
    ingest.ingest_new(checkout)
    commit = "36a9810441ca0e496cbd22064af274b3be771081"
    with editable(checkout.store) as store:
        store.connection.execute(
            "UPDATE engine_setting SET requested = NULL, unit = NULL, effective = ?",
            [f"6.0.0 {commit}"],
        )
        shown = settings.parameters(rerun(store), "tidb")["default"]
    assert set(shown) == {f"6.0.0 {commit[:12]}"}


def test_an_engine_of_which_nothing_counts_has_a_column_for_every_variant(checkout, close_run):
    for variant in ("tuned", "default"):
        trials = first_trials(checkout, engines="tidb", variants=variant)
        close_run("refused", "no build of it", trial=trials["main"])
    trials = first_trials(checkout, engines="postgres", variants="default")
    close_run(trial=trials["main"], **POSTGRES)
    trials = first_trials(checkout, engines="postgres", variants="tuned")
    close_run("failed", "it died", trial=trials["main"])
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        tidb = settings.parameters(rerun(store), "tidb")
        assert tidb.is_empty()
        assert tidb.columns == ["setting", "default", "tuned"]
        assert settings.parameters(rerun(store), "postgres").rows() == [
            ("max_wal_size", "32MB → 32 MB", None),
            ("shared_buffers", "256MB → 32768 × 8kB", None),
        ]


def test_similitude_is_that_of_the_main_envelope(checkout, close_run):
    trials = first_trials(
        checkout, engines="postgres", variants="default", workloads="oltp_write_only"
    )
    main, as_sold = (trials[name].point.envelope for name in ("main", "as_sold"))
    assert main.write_iops != as_sold.write_iops
    close_run(trial=trials["as_sold"], **POSTGRES)  # the first of all
    close_run(trial=trials["main"], **POSTGRES)
    ingest.ingest_new(checkout)
    spec = study.load(checkout, STUDY)
    with open_store(checkout.store) as store:
        found = postgres_vs_tidb.similitude(rerun(store))
    (row,) = found.filter(quantity="disk operations per core (1/s)").rows(named=True)
    assert row["here"] == main.write_iops / main.cores
    assert row["note"] == spec.envelopes["main"].why.strip()


def test_cores_are_compared_by_the_cpu_time_of_a_transaction(checkout, close_run):
    """The article's: eight busy cores at its peak of 1,600 transactions/s."""
    trials = first_trials(
        checkout, engines="postgres", variants="tuned", workloads="oltp_write_only"
    )
    close_run(trial=trials["main"], **POSTGRES)
    ingest.ingest_new(checkout)
    label = "CPU time of a tuned write_only transaction, PostgreSQL (ms)"
    with editable(checkout.store) as store:
        assert (
            label not in postgres_vs_tidb.similitude(rerun(store))["quantity"]
        )  # none passed the gate
        store.connection.execute("UPDATE gate SET passed = true")
        found = postgres_vs_tidb.similitude(rerun(store))
        (run,) = rerun(store).metrics.rows(named=True)
    (row,) = found.filter(quantity=label).rows(named=True)
    assert row["article"] == 5
    percent = run["engine_cpu_percent"] + run["client_cpu_percent"]  # no kernel threads were seen
    cores = run["limit_cores"] * percent / 100
    assert row["here"] == pytest.approx(1e3 * cores / run["tps"])
    with editable(checkout.store) as store:
        store.connection.execute("UPDATE gate SET passed = true")
        store.connection.execute("DELETE FROM os_sample")
        assert label not in postgres_vs_tidb.similitude(rerun(store))["quantity"]


def test_what_tuning_does_is_said_beside_other_variants(measured):
    at = {"default": 100.0, "tuned": 250.0, "no_full_pages": 120.0}
    found = rerun(measured({("postgres", one, "oltp_write_only"): {16: [at[one]]} for one in at}))
    source = SimpleNamespace(rerun=found, measured=points.points(found))
    effect = postgres_vs_tidb.section(source).context["effect"]
    assert (effect["concurrency"], effect["ratio"]) == (16, 2.5)
    assert effect["bound"].keys() <= {"default", "tuned"}


@pytest.mark.parametrize(
    ("starts", "checkpoints", "between"),
    [((1.0, 2.5, 4.0), 4, 2.27), ((0.5, 5.0), 1, 6.8), ((3.0,), None, None), ((), None, None)],
)
def test_checkpoints_come_as_often_as_from_the_first_to_the_last_start(
    checkout, close_run, starts, checkpoints, between
):
    """8 MB of WAL in 5.3 s, and starts in it at these seconds, whatever comes before and after."""
    begin, end = MEASURED
    counted = {begin - 1: 7, begin + 0.1: 11, end + 0.1: 99}
    counted |= {begin + at: number for number, at in enumerate(starts, 12)}
    lines = [json.dumps({"t": t, "cycles": counted[t]}) for t in sorted(counted)]
    trials = first_trials(checkout, engines="postgres", workloads="oltp_write_only")
    captured = {background.NAME: "\n".join([*lines, ""]).encode()}
    close_run(trial=trials["main"], **POSTGRES, **captured)
    ingest.ingest_new(checkout)
    with open_store(checkout.store) as store:
        (row,) = postgres_vs_tidb.checkpoints(rerun(store)).rows(named=True)
    assert row["checkpoints"] == checkpoints
    assert (row["WAL (MB)"], row["WAL per checkpoint (MB)"]) == (8, between)


def test_noise_is_a_factor_with_a_cap(measured):
    quiet, wild = [100.0, 101.0], {4: [5.0, 500.0], 16: [900.0, 7.0], 256: [6.0, 800.0]}
    found = noise.table(rerun(measured({DEFAULT: {1: quiet, 4: quiet}, TUNED: wild})))
    one, other = found.rows(named=True)
    assert one["noise"].startswith("×\N{NO-BREAK SPACE}1.")
    assert one["do runs agree"] == "yes"
    assert other["noise"].startswith(">\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10")
    assert other["trials for 2 %"] == ">\N{NO-BREAK SPACE}1,000"
    assert other["do runs agree"] == "no"


def test_one_pair_of_runs_does_not_show_that_they_differ(measured):
    (found,) = noise.table(rerun(measured({DEFAULT: {1: [100.0, 104.0]}}))).rows(named=True)
    assert found["noise"] == "×\N{NO-BREAK SPACE}1.65"  # exp(12.7 * 0.04): Student's t of one pair
    assert found["do runs agree"] == "too few pairs"


def test_a_dataset_of_another_scale_is_noted_beside_the_articles(measured):
    one = rerun(measured({DEFAULT: {1: [50.0]}}))
    point = {
        "curve": "a",
        "engine": "postgres",
        "variant": "default",
        "workload": "oltp_write_only",
    }
    numbers = {"clients": 1, "concurrency": 1, "article": 2e10, "here": 1e9, "ratio": 0.05}
    rows = [
        {**point, **numbers, "metric": metric, "valid": True} for metric in ("tps", "dataset_bytes")
    ]
    notes = published_beside.table(one, pl.DataFrame(rows))["note"].to_list()
    assert notes[0] == ""
    assert "rows per table 10,000,000 there" in notes[1]
    assert "note" not in published_beside.table(one, pl.DataFrame(rows[:1])).columns


def test_a_chart_beside_the_article_is_of_a_curve():
    point = {"engine": "postgres", "variant": "default", "workload": "oltp_write_only"}
    rows = [
        {**point, "metric": metric, "clients": clients}
        for metric, most in (("tps", 2), ("p99_us", 1), ("dataset_bytes", 2))
        for clients in range(most)
    ]
    assert published_beside.charted(pl.DataFrame(rows)) == ["tps"]


def test_curves_stand_beside_each_other_within_reach_of_their_concurrency():
    curves = [f"curve {number}" for number in range(8)]
    shown = pl.DataFrame(
        [{"curve": curve, "concurrency": at} for curve in curves for at in (16, 20, 1024)]
    )
    # an axis of one concurrency goes from half to twice of it
    for rows, reach in ((shown, 1.05), (shown.filter(concurrency=16), 1.2)):
        at = charts.dodged(rows, 170)
        assert at["at"].n_unique() == len(at)
        factors = (at["at"] / at["concurrency"]).to_list()
        assert all(1 / reach < one < reach for one in factors)
    alone = charts.dodged(shown.filter(curve="curve 0"), 170)
    assert alone["at"].to_list() == [16, 20, 1024]


def test_the_overview_fits_a_page(measured):
    store = measured({DEFAULT: {1: [5.0], 4: [None], 16: [5.0], 32: [5.0, 6.0]}, TUNED: {4: [1.0]}})
    # as far as any profile goes
    store.connection.execute("UPDATE run SET concurrency = 1024 WHERE concurrency = 32")
    store.connection.execute("UPDATE run SET workload = 'oltp_point_select', engine = 'oceanbase'")
    found = points.overview(rerun(store))
    assert found.select("variant", "clients", "trials", "runs").rows() == [
        ("default", "1–1024", 2, "4 ok, 1 failed"),
        ("tuned", "4", 1, "1 ok"),
    ]
    with pl.Config(tbl_width_chars=100):
        printed = str(found)
    # no column hidden, no word broken
    for word in (*found.columns, "seekdb", "oltp_point_select", "1–1024", "4 ok, 1 failed"):
        assert word in printed
