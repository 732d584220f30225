"""Settings: requested and reported values are compared by meaning, not spelling."""

import pytest
from benchlab.engines import ENGINES, EngineSetting
from benchlab.engines.base import Endpoint, canonical
from hypothesis import given
from hypothesis import strategies as st

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# bytes of a unit → how servers and people write it
SPELLINGS = {
    KIB: ("kB", "KB", "K", "k", "KiB"),
    MIB: ("MB", "M", "m", "MiB"),
    GIB: ("GB", "G", "g", "GiB"),
}


def setting(requested: str | None, effective: str | None, unit: str | None = None) -> EngineSetting:
    return EngineSetting(name="a", requested=requested, effective=effective, unit=unit)


@given(st.integers(1, 1 << 20), st.sampled_from(sorted(SPELLINGS)), st.data())
def test_a_size_means_the_same_in_every_spelling(count, unit, data):
    spelling = data.draw(st.sampled_from(SPELLINGS[unit]))
    assert canonical(f"{count}{spelling}") == count * unit
    assert canonical(str(count), spelling) == count * unit
    assert canonical(str(count * unit)) == count * unit


@given(st.integers(1, 1 << 16), st.integers(-3, 3))
def test_postgres_reports_a_size_in_its_own_unit(mib, off):
    """``pg_settings`` has shared_buffers in pages of 8 kB, max_wal_size in MB."""
    assert setting(f"{mib}MB", str(mib * 128 + off), "8kB").took_effect == (off == 0)
    assert setting(f"{mib}MB", str(mib + off), "MB").took_effect == (off == 0)


@given(
    st.sampled_from(sorted(ENGINES)),
    st.integers(0, 1 << 46) | st.integers(0, 1 << 20).map(MIB.__mul__),
)
def test_every_engine_writes_a_number_so_that_it_still_means_the_same(engine, value):
    assert canonical(ENGINES[engine].render(value)) == value


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("value", [True, False])
def test_every_engine_writes_switches_that_compare(engine, value):
    rendered = ENGINES[engine].render(value)
    spellings = {True: ("on", "True", "ON", "1", "yes"), False: ("off", "False", "OFF", "0", "no")}
    assert all(setting(rendered, spelling).took_effect for spelling in spellings[value])
    assert not any(setting(rendered, spelling).took_effect for spelling in spellings[not value])


@pytest.mark.parametrize(
    ("requested", "effective", "unit"),
    [
        ("fdatasync", "fdatasync", None),
        ("ERROR", "error", None),
        ("1100", "1100", None),
        ("0.9", "0.90", None),
        ("8kB", "1", "8kB"),
        ("96MiB", "100663296", None),
        ("2147483648", "2G", None),
        ("10s", "10s", None),
        ("5min", "300", "s"),
        ("300", "300", "s"),
        ("200", "200", "ms"),
        ("2s", "2000", "ms"),
        (None, "anything", None),
    ],
)
def test_took_effect(requested, effective, unit):
    assert setting(requested, effective, unit).took_effect


@pytest.mark.parametrize(
    ("requested", "effective", "unit"),
    [
        ("fdatasync", "fsync", None),
        ("warning", "error", None),
        ("1100", "100", None),
        ("on", "off", None),
        ("1GB", "1024", None),
        ("1GB", "1024", "kB"),
        ("5min", "300", "ms"),
        # a number of bytes that PostgreSQL took for one of pages
        ("16384", "16384", "8kB"),
        # the server does not know the setting
        ("on", None, None),
    ],
)
def test_did_not_take_effect(requested, effective, unit):
    assert not setting(requested, effective, unit).took_effect


def test_a_setting_that_the_server_does_not_know_is_shown_and_has_not_taken_effect(monkeypatch):
    engine = ENGINES["postgres"](Endpoint(host="127.0.0.1", port=1, user="a"))
    known = EngineSetting(name="max_wal_size", requested=None, effective="32", unit="MB")
    monkeypatch.setattr(engine, "effective_settings", lambda names: [known])
    requested = {"max_wal_size": 32 * MIB, "max_wall_size": 32 * MIB}
    found = engine.settings(requested)
    assert [(one.name, one.requested, one.took_effect) for one in found] == [
        ("max_wal_size", "32MB", True),
        ("max_wall_size", "32MB", False),
    ]


def test_settings_of_durability_are_recorded_whether_requested_or_not(monkeypatch):
    engine = ENGINES["mysql"](Endpoint(host="127.0.0.1", port=1, user="a"))
    server = {"log_bin": "OFF", "sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}
    asked = []

    def effective(names: list[str]) -> list[EngineSetting]:
        asked.extend(names)
        return [
            EngineSetting(name=name, requested=None, effective=value)
            for name, value in server.items()
        ]

    monkeypatch.setattr(engine, "effective_settings", effective)
    found = engine.settings({"log_bin": False})
    assert sorted(asked) == sorted(engine.durability_settings)
    assert [(one.name, one.requested, one.effective, one.took_effect) for one in found] == [
        ("log_bin", "off", "OFF", True),
        # one that this server does not have is left out
        ("innodb_flush_log_at_trx_commit", None, "1", True),
        ("sync_binlog", None, "1", True),
    ]
