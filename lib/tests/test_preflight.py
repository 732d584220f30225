"""Preflight: what is missing is said before anything is started, with how much of it is needed."""

import pytest
from benchlab.errors import TargetError
from benchlab.plan.envelope import Envelope
from benchlab.target import Target, preflight
from benchlab.target.host import Host

GIB = 1 << 30

ENVELOPE = Envelope(
    name="main",
    cores=2,
    memory_bytes=GIB,
    read_bytes_per_s=None,
    write_bytes_per_s=None,
    read_iops=None,
    write_iops=None,
    disk_bytes=6 * GIB,
    enforce=True,
)
TARGET = Target(
    name="local", server=Host(name="db1"), client=Host(name="db1"), instance=None, enforce=True
)
ENOUGH = {"nproc": b"2\n", "sh": b"%d\n" % (10 * GIB), "memory_kib": 1_572_864}


def answer(monkeypatch, **said) -> None:
    """Make the server answer as told; whatever else it is asked fails the test."""
    said = ENOUGH | {"true": b""} | said

    def run(self: Host, command: str, *_: str) -> bytes:
        if isinstance(said[command], Exception):
            raise said[command]
        return said[command]

    monkeypatch.setattr(Host, "run", run)
    meminfo = f"MemTotal:  {said['memory_kib']} kB\nMemFree:  1 kB\n".encode()
    monkeypatch.setattr(Host, "read", lambda self, path: {"/proc/meminfo": meminfo}[path])


def test_a_host_with_just_enough_passes(monkeypatch):
    answer(monkeypatch)
    preflight.check(TARGET, ENVELOPE)


def test_what_benchlab_occupies_already_counts_as_there(monkeypatch):
    answer(monkeypatch, sh=b"%d\n%d\n" % (3 * GIB, 7 * GIB))
    preflight.check(TARGET, ENVELOPE)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"nproc": b"1\n"}, "db1: the profile needs 2 cores, there are 1"),
        (
            {"memory_kib": 1_048_576},
            "db1: the profile needs 1.5 GiB of memory, 1.0 GiB are there",
        ),
        (
            {"sh": b"%d\n%d\n" % (GIB, 4 * GIB)},
            "db1: the profile needs 10.0 GiB of disk, 5.0 GiB are there",
        ),
        (
            {"true": TargetError("db1: sudo: a password is required")},
            "db1: root is needed, directly or by sudo without a password"
            " (db1: sudo: a password is required)",
        ),
    ],
)
def test_what_is_missing_is_named(monkeypatch, said, message):
    answer(monkeypatch, **said)
    with pytest.raises(TargetError) as error:
        preflight.check(TARGET, ENVELOPE)
    assert str(error.value) == message
