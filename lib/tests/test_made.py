"""When a run makes the hosts of a lab, and when it uses those that are there."""

from types import SimpleNamespace

import pytest
from benchlab import target
from benchlab.errors import TargetError
from benchlab.target import lab


@pytest.fixture
def done(monkeypatch) -> list[str]:
    """What was done to the lab, in order."""
    calls: list[str] = []
    monkeypatch.setattr(lab.Lab, "up", lambda self, on, tied: calls.append(f"up {on.name} {tied}"))
    monkeypatch.setattr(lab.Lab, "down", lambda self: calls.append("down"))
    return calls


def hosts(monkeypatch, *found: tuple[str, int | None]) -> None:
    """Let the lab have these hosts; one without a process is what a killed lab left."""
    there = [SimpleNamespace(name=name, pid=pid) for name, pid in found]
    monkeypatch.setattr(lab.Lab, "hosts", property(lambda self: there))


def used(checkout, name: str, done: list[str]) -> list[str]:
    """Use a target; return what was done."""
    with lab.made(target.load(checkout, name), lambda: done.append("install")):
        done.append("used")
    return done


def test_a_target_that_is_no_lab_is_used_as_it_is(checkout, done):
    assert used(checkout, "local", done) == ["used"]


def test_hosts_are_made_of_what_is_installed_before_and_then_gone(checkout, done, monkeypatch):
    hosts(monkeypatch, ("db1", None))
    expected = ["down", "install", "up lab-standby True", "used", "down"]
    assert used(checkout, "lab-standby", done) == expected


def test_hosts_that_are_up_stay_up(checkout, done, monkeypatch):
    hosts(monkeypatch, ("db1", 7), ("db2", 8), ("load1", 9))
    assert used(checkout, "lab-standby", done) == ["used"]


def test_hosts_of_another_inventory_are_not_used(checkout, done, monkeypatch):
    hosts(monkeypatch, ("db1", 7), ("db2", 8), ("app1", 9))
    with pytest.raises(
        TargetError, match=r"other hosts than those of lab-standby \(app1, db1, db2\)"
    ):
        used(checkout, "lab-standby", done)
    assert done == []


def test_hosts_are_gone_after_an_error_too(checkout, done, monkeypatch):
    hosts(monkeypatch)
    with (
        pytest.raises(ZeroDivisionError),
        lab.made(target.load(checkout, "lab-standby"), lambda: None),
    ):
        raise ZeroDivisionError
    assert done[-1] == "down"
