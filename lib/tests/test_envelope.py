"""The envelope: an instance type made smaller keeps its proportions."""

import pytest
from benchlab import study, target
from benchlab.plan import Planner
from benchlab.plan.envelope import resolve
from benchlab.study import PROFILES, EnvelopeSpec
from conftest import STUDY
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture
def spec(checkout):
    return study.load(checkout, STUDY)


@pytest.fixture
def instance(checkout, spec):
    return target.instance_type(checkout, spec.instance)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("rule", "speed", "headroom"), [("main", 1, 3), ("as_sold", 1, 1), ("faster_disk", 4, 3)]
)
def test_disk_per_core_is_the_articles(spec, instance, profile, rule, speed, headroom):
    found = resolve(spec, spec.profile(profile), instance, rule, enforce=True, engines=[])
    for bandwidth in (found.read_bytes_per_s, found.write_bytes_per_s):
        assert bandwidth / found.cores == pytest.approx(speed * 140e6 / 8)
    for iops in (found.read_iops, found.write_iops):
        assert iops / found.cores == pytest.approx(speed * headroom * 4800 / 8)
    assert (found.name, found.enforce) == (rule, True)


def test_a_disk_without_stated_limits_has_none(spec, instance):
    without = instance.model_copy(update={"disk_bytes_per_s": None, "disk_iops": None})
    found = resolve(spec, spec.profile("quick"), without, "main", enforce=True, engines=[])
    limits = (found.read_bytes_per_s, found.write_bytes_per_s, found.read_iops, found.write_iops)
    assert limits == (None, None, None, None)
    assert found.cores == 2


def test_a_profile_without_an_envelope_is_the_whole_instance(spec, instance):
    found = resolve(spec, spec.profile("paper"), instance, "as_sold", enforce=False, engines=[])
    assert (found.cores, found.memory_bytes, found.disk_bytes) == (8, 32 << 30, 100 << 30)
    assert (found.read_bytes_per_s, found.write_iops) == (140_000_000, 4800)
    assert not found.enforce


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0.5, 64))
def test_the_disk_follows_the_cores_and_memory_does_not(spec, instance, cores):
    sized = EnvelopeSpec.model_validate({"cores": cores, "memory": "1GiB", "disk": "4GiB"})
    profile = spec.profile("quick").model_copy(update={"envelope": sized})
    found = resolve(spec, profile, instance, "as_sold", enforce=True, engines=[])
    for limit, per_core in ((found.write_bytes_per_s, 140e6 / 8), (found.read_iops, 4800 / 8)):
        # whole numbers, and never more than the instance type has
        assert cores * per_core - 1 - 1e-6 <= limit <= cores * per_core + 1e-6
    assert (found.memory_bytes, found.disk_bytes) == (1 << 30, 4 << 30)


@pytest.mark.parametrize(
    ("profile", "engines", "fixed"),
    [
        ("quick", ["postgres"], 0),
        ("quick", ["tidb"], 512 << 20),
        ("quick", ["postgres", "tidb"], 512 << 20),
        ("paper", ["tidb"], 0),  # the instance type is as large as it is
    ],
)
def test_an_engine_has_its_fixed_memory_where_memory_is_scaled(
    spec, instance, profile, engines, fixed
):
    tidb = spec.engines["tidb"].model_copy(update={"fixed_memory": 512 << 20})
    spec = spec.model_copy(update={"engines": {**spec.engines, "tidb": tidb}})
    found = resolve(spec, spec.profile(profile), instance, "main", True, engines)
    assert found.memory_limit_bytes == found.memory_bytes + fixed
    assert found.memory_bytes == (32 << 30 if profile == "paper" else 1 << 30)
    assert ("fixed_memory_bytes" in found.model_dump()) is bool(fixed)


@pytest.mark.parametrize(("profile", "scaled"), [("standard", True), ("paper", False)])
def test_a_run_has_the_memory_of_its_connections_where_memory_is_scaled(
    spec, instance, profile, scaled
):
    """A connection takes as much on every scale, so the envelope grows with their number."""
    postgres = spec.engines["postgres"].model_copy(update={"connection_memory": 2 << 20})
    spec = spec.model_copy(update={"engines": {**spec.engines, "postgres": postgres}})
    planner = Planner(spec, profile, instance, dict.fromkeys(spec.engines, "1"))
    trials = [trial for batch in planner.closed_loops() for trial in batch.trials]
    for trial in trials:
        of_postgres, within = trial.point.engine == "postgres", trial.point.envelope
        added = trial.point.concurrency * (2 << 20) if scaled and of_postgres else 0
        assert within.connections_memory_bytes == added
        assert within.memory_limit_bytes - within.fixed_memory_bytes == within.memory_bytes + added
        assert ("connections_memory_bytes" in within.model_dump()) is bool(added)
    most = max(spec.profile(profile).concurrency)
    largest = resolve(spec, spec.profile(profile), instance, "main", True, ["postgres"], most)
    assert largest.connections_memory_bytes == (most * (2 << 20) if scaled else 0)
