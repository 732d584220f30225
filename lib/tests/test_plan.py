"""The plan: every trial once, interleaved, and recognised again by its content alone."""

import itertools
import json
import math
import statistics
from collections import Counter
from dataclasses import replace

import pytest
from benchlab import study, target
from benchlab.drivers.tpcc import options as tpcc_options
from benchlab.errors import BenchlabError, StudyError, TargetError, UnknownName
from benchlab.plan import (
    AS_FOUND,
    Batch,
    Plan,
    Planner,
    Point,
    Trial,
    content_key,
    init_key,
    selected,
    settings_of,
)
from benchlab.plan import plan as plans
from benchlab.plan.batch import BATCH_TRIALS
from benchlab.repo import Repo
from benchlab.run import planning
from benchlab.run.planning import Selection
from benchlab.study import PROFILES, LogDisk, OpenLoop
from benchlab.study.intervention import LimitBlocks
from benchlab.target import provision
from benchlab.target.provisioned import versions_after
from conftest import DATA, ROOT, STUDY
from conftest import planned as plan_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def trials(batches: list[Batch]) -> list[Trial]:
    return [trial for batch in batches for trial in batch.trials]


@pytest.mark.parametrize("profile", PROFILES)
def test_every_trial_of_the_matrix_is_planned_once(checkout, batches, profile):
    spec = study.load(checkout, STUDY)
    requested = [
        (*combination, block.envelope, concurrency, number)
        for block in spec.matrix
        if profile in block.profiles
        for combination in itertools.product(block.engines, block.variants, block.workloads)
        for concurrency in block.concurrency or spec.profiles[profile].concurrency
        for number in range(1, spec.profiles[profile].trials + 1)
    ]
    planned = trials(batches(profile))
    assert Counter(requested) == Counter(
        (
            *(trial.point.engine, trial.point.variant, trial.point.workload_name),
            *(trial.point.envelope.name, trial.point.concurrency, trial.number),
        )
        for trial in planned
    )
    assert len({trial.key for trial in planned}) == len(planned)
    # nor do two of them draw the same keys of the tables
    assert len({trial.seed for trial in planned}) == len(planned)
    assert all(0 < trial.seed < 2**31 for trial in planned)  # 0: sysbench takes the time of day


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_runs_are_in_a_random_order_across_curves(batches, seed):
    planned = batches("paper", seed=seed)
    # every trial once, whatever the seed, and all of one number before the next
    keys = Counter(trial.key for trial in trials(planned))
    assert keys == Counter(trial.key for trial in trials(batches("paper")))
    numbers = [trial.number for trial in trials(planned)]
    assert numbers == sorted(numbers)
    assert set(numbers) == {1, 2, 3}
    for batch in planned:
        assert {(one.point.engine, one.number) for one in batch.trials} == {
            (batch.engine, batch.trial)
        }
        assert 0 < len(batch.trials) <= BATCH_TRIALS
    assert len({batch.name for batch in planned}) == len(planned)
    # what the machine goes through during a batch is shared by many curves
    curves = [len({one.point.curve for one in batch.trials}) for batch in planned]
    assert statistics.median(curves) >= 4
    # and every trial has an order of its own
    orders = {tuple(one.point.key for one in trials(planned) if one.number == n) for n in (1, 2, 3)}
    assert len(orders) == 3


def test_batches_are_no_more_than_the_trials_need(batches):
    planned = batches("paper")
    for number, engine in itertools.product((1, 2, 3), ("postgres", "tidb", "oceanbase")):
        sizes = [len(one.trials) for one in planned if (one.trial, one.engine) == (number, engine)]
        assert len(sizes) == math.ceil(sum(sizes) / BATCH_TRIALS)
        assert max(sizes) - min(sizes) <= 1


def test_the_order_follows_from_the_seed_alone(batches):
    def order(**options) -> list[str]:
        return [
            f"{batch.name} {trial.point.curve} {trial.point.concurrency}"
            for batch in batches(**options)
            for trial in batch.trials
        ]

    assert order() == order()
    assert order(seed=2) != order()
    # so what `plan` shows before provisioning is what runs after it
    versions = {"postgres": "15.18", "tidb": "7.1.1", "oceanbase": "1.4.0.0"}
    assert order(versions=versions) == order()


def test_a_selection_is_a_part_of_the_whole(batches):
    part = batches("standard", engines=["postgres"], variants=["tuned"], workloads=["oltp_insert"])
    whole = batches("standard")
    # in the order of the whole; what is empty then is left out
    curve = ("postgres", "tuned", "oltp_insert", "main")
    assert trials(part) == [one for one in trials(whole) if one.point.curve == curve]
    assert [batch.name for batch in part] == [
        batch.name for batch in whole if any(one.point.curve == curve for one in batch.trials)
    ]
    assert 0 < len(part) < len(whole)


@pytest.mark.parametrize(
    ("kind", "choices"),
    [
        ("engine", "oceanbase, postgres, tidb"),
        ("variant", "default, more_clients, no_full_pages, tuned"),
        ("workload", "oltp_insert, oltp_point_select, oltp_write_only"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_the_choices(batches, kind, choices):
    with pytest.raises(UnknownName) as error:
        batches(**{f"{kind}s": ["nosuch"]})
    assert str(error.value) == f"unknown {kind} 'nosuch'; choose one of: {choices}"


CHANGES = {
    "study": "another",
    "engine": "another",
    "role": "another",
    "nodes": ("db.primary", "db.standby"),
    "variant": "another",
    "engine_version": "15.19",
    "role_vars": {"postgres_version": "16"},
    "init": {"wal_segsize_mb": 2},
    "settings": {"max_wal_size": 1 << 30},
    "log_disk": LogDisk(write_delay_ms=1),
    "log_latency": True,
    "workload_name": "another",
    "concurrency": 65,
    "warmup_s": 3,
    "measure_s": 7,
    "longest_s": 60,
    "transactions_per_client": 10_000,
    "share_of_peak": 0.5,
    "start": "cold",
    "dataset_reset": "none",
}
DEEP = {
    "workload": {"options": {"rand-type": "special"}},
    "dataset": {"rows_per_table": 250001},
    "envelope": {"write_iops": 2399},
}


def test_a_point_is_another_one_when_anything_of_it_changes(batches):
    point = batches("smoke", engines=["postgres"], workloads=["oltp_insert"])[0].trials[0].point
    assert CHANGES.keys() | DEEP.keys() == set(Point.model_fields)
    changes = CHANGES | {
        name: getattr(point, name).model_copy(update=update) for name, update in DEEP.items()
    }
    keys = {point.model_copy(update={name: value}).key for name, value in changes.items()}
    assert len(keys | {point.key}) == len(changes) + 1
    # while what is only written differently is the same
    assert Point.model_validate_json(point.model_dump_json()).key == point.key
    turned = dict(reversed(point.settings.items()))
    assert point.model_copy(update={"settings": turned}).key == point.key


def test_a_point_contains_the_options_that_its_workload_does_not_set(checkout, monkeypatch):
    def points() -> dict[str, Point]:
        planned = trials(planner(checkout, "smoke", "tpcc").closed_loops())
        return {trial.point.key: trial.point for trial in planned}

    before = points()
    for point in before.values():
        requested = study.load(checkout, "tpcc").workloads[point.workload_name].options
        assert requested.items() <= point.workload.options.items()
        assert point.workload.options["isolation"] == (
            "repeatable-read" if point.engine in ("postgres", "tidb") else "serializable"
        )
    # so with another default it is another point
    monkeypatch.setitem(tpcc_options._OF_ENGINE["postgres"], "isolation", "serializable")
    changed = before.keys() - points().keys()
    assert changed == {key for key, point in before.items() if point.engine == "postgres"} != set()


# Interventions


def planner(checkout, profile: str, name: str = STUDY, **options) -> Planner:
    spec = study.load(checkout, name)
    instance = target.instance_type(checkout, spec.instance)
    return Planner(spec, profile, instance, dict.fromkeys(spec.engines, "1.0"), **options)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_studys_interventions_are_planned_last(checkout, profile):
    spec = study.load(checkout, STUDY)
    listed = [one for one in spec.interventions if profile in one.profiles]
    planned = planner(checkout, profile).interventions()
    assert [(*one.curve, one.concurrency) for one in listed] == [
        (*batch.trials[0].point.curve[:3], batch.trials[0].point.concurrency) for batch in planned
    ]
    for batch, one in zip(planned, listed, strict=True):
        (trial,) = batch.trials
        of_profile = spec.profiles[profile].intervention
        assert trial.intervention.resources == (one.resources or of_profile.resources)
        assert trial.intervention.factor == of_profile.factor
        assert trial.point.measure_s > trial.intervention.duration_s
        assert batch.name == "-".join([*one.curve, "trial1", "intervention16"])
    whole = plan_of(checkout, STUDY, profile).batches
    intervened = [batch.name for batch in whole if batch.intervention]
    assert intervened == [batch.name for batch in whole[-len(planned) :]]
    assert intervened == [batch.name for batch in planned]


def test_interventions_are_selected_as_curves_are(checkout):
    quick = planner(checkout, "quick")
    lowered = quick.interventions()
    (one,) = selected(quick.study, lowered, workloads=["oltp_point_select"])
    assert one.trials[0].point.workload_name == "oltp_point_select"
    assert selected(quick.study, lowered, engines=["oceanbase"]) == []
    with pytest.raises(UnknownName, match="variant 'nosuch'"):
        selected(quick.study, lowered, variants=["nosuch"])


# Open loops


@pytest.fixture
def open_loops(checkout):
    """Plan the first study with its point_select at shares of the peak, too."""
    planner_ = planner(checkout, "paper")
    block = OpenLoop(
        engines=["postgres"],
        variants=["default", "tuned"],
        workloads=["oltp_point_select"],
        concurrency=16,
        shares=[0.5, 0.8, 0.95],
    )
    spec = planner_.study.model_copy(update={"open_loops": [block]})
    return replace(planner_, study=spec).open_loops


def test_open_loops_run_at_every_share_of_the_peak_in_every_trial(open_loops):
    planned = open_loops()
    assert [batch.name for batch in planned] == [f"postgres-trial{n}-open1" for n in (1, 2, 3)]
    for batch in planned:
        assert batch.is_open
        assert Counter(
            (one.point.variant, one.point.share_of_peak) for one in batch.trials
        ) == Counter(itertools.product(("default", "tuned"), (0.5, 0.8, 0.95)))
        assert {trial.point.concurrency for trial in batch.trials} == {16}
    assert len({trial.key for trial in trials(planned)}) == 2 * 3 * 3


@pytest.mark.parametrize("name", study.names(Repo(ROOT)))
@pytest.mark.parametrize("profile", PROFILES)
def test_open_loops_come_after_all_closed_ones(checkout, name, profile):
    kinds = [
        (one.intervention is not None, one.is_open)
        for one in plan_of(checkout, name, profile).batches
    ]
    assert kinds == sorted(kinds)


def test_a_block_has_a_warm_up_and_a_length_of_its_own(checkout):
    def lengths(name, workload):
        found = trials(planner(checkout, "standard", name).closed_loops())
        return {
            (one.point.warmup_s, one.point.longest_s)
            for one in found
            if one.point.workload_name == workload
        }

    assert lengths("cached_tables", "oltp_read_only_5000") == {(5, 60)}
    assert lengths("cached_tables", "oltp_read_write_640_5000") == {(20, 420)}
    assert lengths("postgres_vs_tidb", "oltp_insert") == {(120, 240)}


def test_only_a_closed_loop_ends_with_a_number_of_transactions(checkout):
    paper = planner(checkout, "paper", "spec_tree")
    closed, others = paper.closed_loops(), [*paper.open_loops(), *paper.interventions()]
    assert {one.point.transactions_per_client for one in trials(closed)} == {10_000}
    assert {one.point.transactions_per_client for one in trials(others)} == {None}


@pytest.mark.parametrize("name", study.names(Repo(ROOT)))
def test_a_run_restores_the_snapshot_that_provisioning_keeps(checkout, name):
    planned = planner(checkout, "smoke", name)
    limits = trials(planned.closed_loops())[0].point.envelope
    provisioned = {
        one["engine"]: one["init_key"]
        for one in provision.variables(
            planned.study, "smoke", limits, sorted(planned.study.engines)
        )["benchlab_engines"]
    }
    ours = [one.point for one in trials(planned.closed_loops()) if one.point.start != AS_FOUND]
    for point in ours:
        assert point.init_key == provisioned[point.engine]


def test_a_log_disk_that_cannot_shrink_has_a_data_directory_of_its_own():
    def key(engine: str, **settings: int) -> str:
        return init_key(engine, None, ("primary",), {}, {}, settings)

    small = key("oceanbase", log_disk_size=2 << 30, memory_budget=1 << 30)
    assert key("oceanbase", log_disk_size=4 << 30, memory_budget=1 << 30) != small
    # a setting that any start can change is none of it
    assert key("oceanbase", log_disk_size=2 << 30, memory_budget=3 << 30) == small
    assert key("postgres", max_wal_size=1) == key("postgres", max_wal_size=2)


def test_limits_that_are_not_in_force_are_not_planned(checkout):
    paper = planner(checkout, "paper", enforce=False)
    for batch in paper.interventions():
        assert batch.intervention.resources == ("cpu",)
    with pytest.raises(TargetError, match=r"no limit is in force .* choose one of: cpu"):
        paper.intervention(
            paper.study.interventions[0],
            LimitBlocks(resources=("read_iops",), block_s=4, blocks=4),
        )


def test_a_trial_with_an_intervention_is_another_one(batches):
    trial = batches()[0].trials[0]
    requested = [
        LimitBlocks(block_s=4, blocks=2),
        LimitBlocks(block_s=5, blocks=2),
        LimitBlocks(block_s=4, blocks=3),
        LimitBlocks(block_s=4, blocks=2, factor=0.7),
        LimitBlocks(block_s=4, blocks=2, resources=("cpu",)),
    ]
    intervened = [trial.model_copy(update={"intervention": one}) for one in requested]
    assert len({one.key for one in (trial, *intervened)}) == len(requested) + 1
    for one in (trial, *intervened):
        again = Trial.model_validate_json(one.model_dump_json())
        assert again == one
        assert again.key == one.key


def test_keys_and_records_of_other_trials_are_what_they_were(batches):
    """Runs that were made before there were interventions are still theirs."""
    trial = batches()[0].trials[0]
    assert set(json.loads(trial.model_dump_json())) == {"point", "number", "profile"}
    assert trial.key == content_key([trial.point.key, trial.number])


def test_points_of_older_runs_are_what_they_were(batches):
    """What came later is said of the points only that have it."""
    point = json.loads(batches()[0].trials[0].point.model_dump_json())
    assert not {"role", "share_of_peak", "transactions_per_client"} & point.keys()
    assert set(point["workload"]) == {
        "driver",
        "script",
        "writes",
        "options",
        "tolerated_error_share",
    }
    assert set(point["dataset"]) == {"kind", "tables", "rows_per_table"}


def test_profile_is_no_part_of_a_trial_but_its_number_is(batches):
    trial = batches()[0].trials[0]
    assert trial.model_copy(update={"profile": "standard"}).key == trial.key
    assert trial.model_copy(update={"number": 2}).key != trial.key


def test_variants_of_an_engine_share_a_dataset_unless_it_is_laid_out_otherwise(batches):
    datasets = {}
    for trial in trials(batches("smoke")):
        datasets.setdefault(trial.point.engine, set()).add(trial.point.dataset_key)
    # a load lays out TiDB's regions by a setting that its variants differ in
    assert {engine: len(keys) for engine, keys in datasets.items()} == (
        dict.fromkeys(datasets, 1) | {"tidb": 2}
    )
    assert len(set.union(*datasets.values())) == len(datasets) + 1
    point = batches(engines=["postgres"])[0].trials[0].point
    for name in ("engine_version", "init", "role_vars"):
        assert point.model_copy(update={name: CHANGES[name]}).dataset_key != point.dataset_key
    other = {"dataset": point.dataset.model_copy(update=DEEP["dataset"])}
    assert point.model_copy(update=other).dataset_key != point.dataset_key


def test_a_value_that_the_server_would_cut_off_is_refused(checkout):
    path = checkout.studies / "cached_tables.yml"
    path.write_text(
        path.read_text().replace("tidb_table_cache_lease: 10", "tidb_table_cache_lease: 11")
    )
    message = "tidb, cached_lease_10: tidb_table_cache_lease is 11, and the server takes 1 to 10"
    with pytest.raises(StudyError, match=message):
        plan_of(checkout, "cached_tables", "standard")


def test_only_writers_have_their_dataset_restored(batches):
    resets = {(t.point.workload_name, t.point.dataset_reset) for t in trials(batches("smoke"))}
    assert resets == {
        ("oltp_write_only", "restore"),
        ("oltp_insert", "restore"),
        ("oltp_point_select", "none"),
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_sizes_keep_the_articles_share_of_memory(checkout, batches, profile):
    """Table 1 and 2 of the article: 8 GB, 1 GB and 20 GB on a machine of 32 GB."""
    spec = study.load(checkout, STUDY)
    for variant, wal_of_memory in (("default", 1 / 32), ("tuned", 20 / 32)):
        found = batches(profile, engines=["postgres"], variants=[variant])[0].trials[0].point
        memory = found.envelope.memory_bytes
        assert found.settings["shared_buffers"] == memory / 4
        assert found.settings["max_wal_size"] == memory * wal_of_memory
        assert found.settings == settings_of(spec, profile, "postgres", variant, memory)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_scaled_size_is_the_same_on_every_scale(checkout, profile):
    plan = plan_of(checkout, "spec_tree", profile)
    pool, mib = "innodb_buffer_pool_size", 1 << 20
    sizes = {
        trial.point.engine: trial.point.settings[pool]
        for trial in plan.trials
        if pool in trial.point.settings and trial.point.variant == "default"
    }
    assert sizes == {"mysql": 28 * mib, "mariadb": 35 * mib}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choice=st.data())
def test_what_is_left_is_the_plan_without_what_is_done(batches, choice):
    batch = batches(engines=["postgres"])[0]
    done = choice.draw(st.sets(st.sampled_from(sorted(batch.keys))))
    rest = batch.without(done | {"the key of something else"})
    left = rest.trials if rest else ()
    assert left == tuple(trial for trial in batch.trials if trial.key not in done)
    assert (rest is None) == (done == batch.keys)
    assert rest is None or rest.name == batch.name


def test_a_plan_gives_the_trials_of_a_batch_in_the_order_of_their_keys(checkout):
    plan = plan_of(checkout)
    batch = plan.batches[1]
    keys = [trial.key for trial in batch.trials]
    assert plan.batch(keys) == batch
    assert plan.batch(keys[::-1]).trials == batch.trials[::-1]
    assert plan.batch(keys[1:2]).trials == batch.trials[1:2]
    assert plan.batch() == plan.batches[0]
    with pytest.raises(UnknownName, match="unknown trials"):
        plan.batch([keys[0], plan.batches[0].trials[0].key])


def test_a_plan_is_written_once_and_read_again(checkout):
    plan = plan_of(checkout)
    assert plan.save(checkout) == plan
    assert plans.read(checkout, plan.id) == plan
    # worked out again and found to be the same
    again = plan_of(checkout)
    assert again.planned > plan.planned
    assert again.save(checkout) == plan
    other = plan_of(checkout, profile="smoke").save(checkout)
    assert plans.ids(checkout) == [plan.id, other.id]
    assert plans.last(checkout) == other.id
    with pytest.raises(UnknownName, match=f"unknown plan 'nosuch'; choose one of: {plan.id}"):
        plans.read(checkout, "nosuch")


def test_a_plan_from_before_batches_and_prewarming_had_their_names_is_read(checkout):
    text = (DATA / "record_4" / "plan.json").read_text()
    assert text.count('"read_in"') == 2
    assert '"curves"' in text
    checkout.plans.mkdir(parents=True)
    (checkout.plans / "earlier.json").write_text(text)
    plan = plans.read(checkout, "earlier")
    # with the keys that benchlab gave these definitions when it had renamed them
    assert [trial.key for trial in plan.trials] == ["7b1d0ab6803f21ac", "bbc0deab94fa678c"]
    assert [trial.intervention is None for trial in plan.trials] == [True, False]
    assert [plan.batch([trial.key]).trials for trial in plan.trials] == [
        (one,) for one in plan.trials
    ]
    # written down again, it is one of today's
    again = plan.model_dump_json()
    assert '"curves"' not in again
    assert Plan.model_validate_json(again) == plan


@pytest.mark.parametrize("text", ["", "{}", '{"study": 1}'])
def test_a_file_that_is_no_plan_is_named(checkout, text):
    plan = plan_of(checkout).save(checkout)
    path = checkout.plans / f"{plan.id}.json"
    path.write_text(text)
    with pytest.raises(BenchlabError, match=f"{path}: no plan: "):
        plans.read(checkout, plan.id)


def test_a_rerun_does_only_what_is_missing(checkout, close_run):
    selection = Selection(STUDY, engines=["postgres"])
    spec = study.load(checkout, STUDY)

    def planned() -> list[Batch]:
        return selection.part(spec, planning.planned(checkout, selection, spec))

    ok, failed, refused, *others = trials(planned())
    close_run("ok", trial=ok)
    close_run("failed", "it died", trial=failed)
    close_run("refused", "no build", trial=refused)
    killed = checkout.raw / "20260101T000000.000000-00000000"
    killed.mkdir()
    left = trials(planning.left(checkout, selection, planned()))
    assert [trial.key for trial in left] == [trial.key for trial in (failed, *others)]
    # what was refused may be available by now
    retried = trials(planning.left(checkout, replace(selection, retry_refused=True), planned()))
    assert [one.key for one in retried] == [one.key for one in (failed, refused, *others)]
    # another version of the engine is another experiment, even if it was wiped since
    software = spec.engines["postgres"].software("postgres")
    known = {"deployment": target.load(checkout, "local"), "hosts": {}, "engines": {}}
    target.Provisioned(**known, last_versions={software: "15.18"}).save(checkout)
    assert len(trials(planning.left(checkout, selection, planned()))) == len(
        [ok, failed, refused, *others]
    )
    close_run("ok", trial=trials(planned())[0])
    assert len(trials(planning.left(checkout, selection, planned()))) == len(
        [failed, refused, *others]
    )


def test_an_engine_has_a_version_for_each_study_that_asks_for_another(checkout):
    here = {name: study.load(checkout, name).engines for name in ("spec_tree", "tpcc")}
    known = {}
    for name, version in (("spec_tree", "13.4"), ("tpcc", "15.18")):
        specs = {"postgres": here[name]["postgres"]}
        found = {"postgres": target.EngineFound(engine="postgres", version=version)}
        known = versions_after(known, specs, found)
    # refused for the moment: its runs were of the version that it had
    refused = {"postgres": target.EngineFound(engine="postgres", version="none", refused="down")}
    known = versions_after(known, here["tpcc"], refused)
    deployment = target.load(checkout, "local")
    after = target.Provisioned(deployment=deployment, hosts={}, engines={}, last_versions=known)
    versions = {name: after.versions(engines) for name, engines in here.items()}
    assert versions["spec_tree"]["postgres"] == "13.4"
    assert versions["tpcc"]["postgres"] == "15.18"
    assert versions["tpcc"]["mysql"] == "unknown"


def test_a_point_of_two_blocks_runs_once(checkout):
    planner_ = planner(checkout, "quick")
    first, *others = planner_.study.matrix
    twice = planner_.study.model_copy(update={"matrix": [first, first, *others]})
    once = trials(planner_.closed_loops())
    assert trials(replace(planner_, study=twice).closed_loops()) == once
