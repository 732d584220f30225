"""Questions that are asked of a server again and again."""

import json
from contextlib import contextmanager

import pytest
from benchlab.errors import EngineError, TargetError
from benchlab.observers.poll import Poll, answers
from benchlab.run import ready
from conftest import wait_for


class Server:
    """A server that gives these answers one after the other, then the last one; counts connections."""

    def __init__(self, *given: int | Exception):
        self.given, self.connections = list(given), 0

    @contextmanager
    def asking(self):
        self.connections += 1
        yield self.answer

    def answer(self) -> int:
        one = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        if isinstance(one, Exception):
            raise one
        return one


def test_a_question_that_fails_is_not_the_last_one():
    server = Server(1, EngineError("tidb: timed out"), 2)
    poll = Poll(server, 0.01, lambda ask: {"cycles": ask()})
    wait_for(lambda: poll.latest == {"cycles": 2}, "the answer after the error")
    capture = poll.stop().decode()
    kept = [json.loads(line) for line in capture.splitlines()]
    assert [one.get("cycles") for one in kept[:3]] == [1, None, 2]
    assert kept[1]["error"] == "tidb: timed out"
    assert server.connections == 2
    found = [value for _, value in answers(capture, "background", "", lambda one: one["cycles"])]
    assert found[:2] == [1, 2]


def test_what_cannot_be_taken_down_does_not_hide_why_it_is(monkeypatch):
    calls = []

    def take_down(on: object) -> None:
        calls.append(on)
        if len(calls) == 2:
            raise TargetError("cgroups still in use")

    monkeypatch.setattr(ready, "take_down", take_down)
    with pytest.raises(EngineError, match="no such server") as raised, ready._taken_down("here"):
        raise EngineError("no such server")
    assert raised.value.__notes__ == ["cgroups still in use"]
    assert len(calls) == 2
