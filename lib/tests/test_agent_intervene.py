"""The agent's intervention on recorded trees: what is in force in each block, and put back always."""

import json
import os
import signal
from collections.abc import Callable, Iterator

import pytest
from benchlab.agent.config import AgentError
from benchlab.agent.envelope import Envelope
from benchlab.agent.intervene import intervene
from test_agent_envelope import Host

BEFORE = {
    "cores": 2.0,
    "read_bytes_per_s": 35_000_000,
    "write_bytes_per_s": 30_000_000,
    "read_iops": 2400,
    "write_iops": None,
}
_LONG_S = 600  # a block that is never waited for


@pytest.fixture(params=["cgroup_v1", "cgroup_v2"])
def envelope(request, tmp_path) -> Envelope:
    envelope = Host(tmp_path, request.param).envelope()
    envelope.set_rates(BEFORE)
    return envelope


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """The agent ends after an intervention; this process goes on."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    yield
    os.sched_setscheduler(0, policy, parameters)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Output:
    """What the agent prints, with what was in force as it printed that."""

    def __init__(self, envelope: Envelope, after: Callable[[int], object] = lambda count: None):
        self.envelope, self.after = envelope, after
        self.lines: list[dict] = []
        self.rates: list[dict] = []

    def write(self, text: str) -> None:
        if text.strip():
            self.lines.append(json.loads(text))
            self.rates.append(in_force(self.envelope))
            self.after(len(self.lines))

    def flush(self) -> None:
        pass


def in_force(envelope: Envelope) -> dict:
    # what v1's kernel takes for no limit, a recorded file keeps as 0
    return {name: value or None for name, value in envelope.rates().items()}


def block(limit: str | None = None, factor: float = 0.8, duration_s: float = 0.01) -> dict:
    return {"limit": limit, "factor": factor, "duration_s": duration_s}


def run(
    envelope: Envelope, out: Output, *blocks: dict, sent: bytes = b"begin\n", close=False
) -> None:
    """Carry out a schedule; the caller keeps the pipe open, or closes it after what it sent."""
    reading, writing = os.pipe()
    os.write(writing, json.dumps(blocks).encode() + b"\n" + sent)
    try:
        if close:
            os.close(writing)
        intervene(envelope, reading, out)
    finally:
        os.close(reading)
        if not close:
            os.close(writing)


def test_one_limit_is_lowered_at_a_time(envelope):
    out = Output(envelope)
    lowered = ("cores", "write_bytes_per_s", "read_bytes_per_s", "read_iops")
    run(envelope, out, *(block(limit) for name in lowered for limit in (None, name)))
    header, *printed = out.lines
    assert {name: value or None for name, value in header["header"]["limits"].items()} == BEFORE
    assert [line["limit"] for line in printed] == [
        limit for name in lowered for limit in (None, name)
    ]
    for line, rates in zip(printed, out.rates[1:], strict=True):
        name = line["limit"]
        wanted = {**BEFORE, name: BEFORE[name] * 0.8} if name else BEFORE
        assert rates == wanted
        assert line["value"] == (wanted[name] if name else None)
    times = [time for line in printed for time in (line["begin_s"], line["end_s"])]
    assert times == sorted(times)
    assert in_force(envelope) == BEFORE


def test_nothing_is_lowered_before_the_caller_says_so(envelope):
    out = Output(envelope)
    run(envelope, out, block("cores", duration_s=_LONG_S), sent=b"", close=True)
    assert len(out.lines) == 1
    assert out.rates == [BEFORE]
    assert in_force(envelope) == BEFORE


def test_limits_are_put_back_when_the_caller_is_gone(envelope):
    out = Output(envelope)
    run(envelope, out, block("cores"), block("read_iops", duration_s=_LONG_S), close=True)
    # the block that did not come to its end is not printed
    assert len(out.lines) <= 2
    assert in_force(envelope) == BEFORE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_limits_are_put_back_on_a_signal(envelope, number):
    out = Output(envelope, lambda count: os.kill(os.getpid(), number) if count == 2 else None)
    with pytest.raises(AgentError, match=f"stopped by {number.name}"):
        run(envelope, out, block("cores"), block("read_iops", duration_s=_LONG_S))
    assert in_force(envelope) == BEFORE


def test_limits_that_somebody_else_set_meanwhile_are_left_alone(envelope):
    theirs = {**BEFORE, "cores": 1.0}
    out = Output(envelope, lambda count: count == 2 and envelope.set_rates(theirs))
    with pytest.raises(AgentError, match="somebody else changed the limits"):
        run(envelope, out, block("cores"), block("read_iops"))
    assert in_force(envelope) == theirs


def test_an_envelope_taken_down_meanwhile_stays_down(envelope, monkeypatch):
    def down(count: int) -> None:
        if count == 2:
            monkeypatch.setattr(envelope.cgroups, "exists", lambda: False)
            monkeypatch.setattr(envelope, "set_rates", lambda rates: pytest.fail("set"))
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(envelope, Output(envelope, down), block("cores"), block())


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([block("write_iops")], "write_iops cannot be lowered: no such limit is in force"),
        ([block("memory_bytes")], "no schedule on standard input: no limit to lower"),
        ([block("cores", factor=1.5)], "no limit to lower"),
        ([block("cores", factor=0)], "no limit to lower"),
        ([block("cores", duration_s=0)], "no duration"),
        ([{"limit": "cores"}], "no schedule"),
        ([1], "no schedule"),
    ],
)
def test_a_schedule_that_cannot_be_carried_out_is_refused_at_once(envelope, blocks, said):
    out = Output(envelope)
    with pytest.raises(AgentError, match=said):
        run(envelope, out, *blocks)
    assert out.lines == []
    assert in_force(envelope) == BEFORE


def test_without_a_quota_the_hosts_cores_are_the_limit(envelope):
    envelope.set_rates({**BEFORE, "cores": None})
    out = Output(envelope)
    run(envelope, out, block("cores", factor=0.5))
    assert out.lines[0]["header"]["limits"]["cores"] == os.cpu_count()
    assert out.rates[1]["cores"] == os.cpu_count() / 2
    assert in_force(envelope)["cores"] is None


def test_the_next_limits_put_the_cpu_back_after_a_killed_intervention(envelope):
    envelope.set_rates({**BEFORE, "cores": 1.6})
    assert envelope.limit(on=True)["changed"] is True
    assert in_force(envelope) == BEFORE
