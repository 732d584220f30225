"""Study files: what stands in them is resolved or refused, with file and line."""

import re

import pytest
from benchlab import study, target
from benchlab.errors import StudyError, UnknownName
from benchlab.study import OfMemory
from conftest import STUDY
from hypothesis import given
from hypothesis import strategies as st

MIB = 1 << 20

# what is replaced by what, and what the message must name; the line is that of the replacement
MISTAKES = {
    "wrong type": ("warmup_s: 1", "warmup_s: soon", "profiles.smoke.warmup_s", "integer"),
    "wrong size": ("memory: 1GiB", "memory: 1XiB", "profiles.smoke.envelope.memory"),
    "not positive": ("concurrency: [1, 4]", "concurrency: [0, 4]", "greater than 0"),
    "unknown key": ("trials: 1", "trails: 1", "'trails'", "trials, warmup_s"),
    "unknown key within a value": ("{of_memory: 0.25}", "{of_memry: 0.25}", "'of_memry'"),
    "key twice": ("start: read_in", "start: read_in\n    start: cold", "duplicate key"),
    "unknown profile": ("  smoke:", "  smoek:", "'smoke', 'quick', 'standard' or 'paper'"),
    "unknown start": ("start: read_in", "start: warm", "'cold' or 'read_in'"),
    "unknown engine in the matrix": (
        "engines: [postgres, tidb, oceanbase]",
        "engines: [postgres, tdib, oceanbase]",
        "engine 'tdib'",
        "oceanbase, postgres, tidb",
    ),
    "unknown variant in the matrix": (
        "variants: [default, tuned]",
        "variants: [default, tunde]",
        "variant 'tunde'",
        "default, tuned",
    ),
    "unknown workload in the matrix": (
        "workloads: [oltp_write_only, oltp_insert, oltp_point_select]",
        "workloads: [oltp_read_only]",
        "workload 'oltp_read_only'",
    ),
    "unknown envelope in the matrix": ("envelope: as_sold", "envelope: sold", "as_sold, main"),
    "unknown variant to load": ("load_variant: tuned", "load_variant: tuend", "default, tuned"),
    "engine of an override": (
        "      postgres:\n        init: {wal_segsize_mb: 1}",
        "      postgrs:\n        init: {wal_segsize_mb: 1}",
        "engine 'postgrs'",
    ),
    "engine of a told number": (
        "{engine: tidb, variant: default, workload: oltp_write_only, concurrency: 128}",
        "{engine: tdib, variant: default, workload: oltp_write_only, concurrency: 128}",
        "engine 'tdib'",
    ),
    "told number without concurrency": (
        ", workload: oltp_write_only, concurrency: 128}",
        ", workload: oltp_write_only}",
        "concurrency is missing",
    ),
    "bad indentation": ("    label: TiDB", "\tlabel: TiDB", "cannot start any token"),
    "undefined alias": ("overrides: *scaled", "overrides: *sacled", "undefined alias 'sacled'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_file_and_line(checkout, mistake):
    right, wrong, *named = MISTAKES[mistake]
    path = checkout.studies / f"{STUDY}.yml"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    changed = wrong.count("\n") if mistake == "key twice" else 0
    line = text[: text.index(right)].count("\n") + 1 + changed
    with pytest.raises(StudyError) as error:
        study.load(checkout, STUDY)
    message = str(error.value)
    assert message.startswith(f"{path}:{line}: ")
    assert "\n" not in message
    for part in named:
        assert part in message


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"\xff\xfe\x00", b"\x00", b"study: a: b"])
def test_a_file_that_is_no_study_at_all_is_one_line(checkout, content):
    (checkout.studies / "odd.yml").write_bytes(content)
    with pytest.raises(StudyError, match=r"odd\.yml:1: ") as error:
        study.load(checkout, "odd")
    assert "\n" not in str(error.value)


def test_a_copied_study_must_take_its_own_name(checkout):
    text = (checkout.studies / f"{STUDY}.yml").read_text()
    (checkout.studies / "mine.yml").write_text(text)
    with pytest.raises(StudyError, match="'mine'"):
        study.load(checkout, "mine")
    (checkout.studies / "mine.yml").write_text(
        re.sub("^study: .*", "study: mine", text, flags=re.M)
    )
    assert study.load(checkout, "mine").study == "mine"


def test_every_study_of_the_checkout_loads_and_its_instance_has_an_inventory(checkout):
    assert STUDY in study.names(checkout)
    for name in study.names(checkout):
        spec = study.load(checkout, name)
        assert target.instance_type(checkout, spec.instance).name == spec.instance
        for profile in study.PROFILES:
            assert spec.profile(profile).trials
    with pytest.raises(UnknownName, match=rf"unknown study 'nosuch'; choose one of: .*{STUDY}"):
        study.load(checkout, "nosuch")


@given(st.floats(1e-6, 4), st.integers(256 * MIB, 1 << 42), st.integers(256 * MIB, 1 << 42))
def test_a_share_of_memory_is_whole_mib_and_grows_with_it(share, memory, other):
    size = OfMemory(of_memory=share).resolve(memory)
    assert size % MIB == 0
    assert size == MIB or share * memory - MIB <= size <= share * memory
    smaller, larger = sorted((memory, other))
    assert OfMemory(of_memory=share).resolve(smaller) <= OfMemory(of_memory=share).resolve(larger)
