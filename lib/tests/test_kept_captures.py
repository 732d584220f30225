"""What of a node's captures is kept in a run's folder if some of them cannot be used."""

import io
import json
import subprocess
import tarfile
import tracemalloc
from types import SimpleNamespace

import pytest
from benchlab.raw.record import RunFolder
from benchlab.run import observe
from conftest import ALONE, DATA

SCRIPT = (DATA / "perf" / "script.txt").read_bytes()


def archive(captures: dict[str, bytes]) -> bytes:
    """The captures as the agent sends them: in the order of their names."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w|") as tar:
        for name, content in sorted(captures.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


#: An agent: begins, waits until its input is closed, then sends an archive ($1) and says more ($2).
WELL = 'echo; cat >/dev/null; cat "$1"; cat "$2" >&2'


@pytest.fixture
def kept(checkout, at_sixteen, tmp_path):
    """Keep what an agent, a shell's script, sends of an archive; returns file → content."""

    def keep(sent: bytes, said: bytes = b"", agent: str = WELL) -> dict[str, bytes]:
        paths = tmp_path / "sent", tmp_path / "said"
        for path, content in zip(paths, (sent, said), strict=True):
            path.write_bytes(content)
        argv = ("sh", "-c", agent, "sh", *map(str, paths))
        node = SimpleNamespace(
            name="localhost", popen=lambda *command, **streams: subprocess.Popen(argv, **streams)
        )
        folder = RunFolder(checkout.raw, at_sixteen, "local", ALONE)
        observers = observe.Observers(node, {}, 60)
        observers.wait()
        observers.stop()
        observers.collect(folder)
        assert observers._agent.wait(30) is not None
        return {path.name: path.read_bytes() for path in folder.path.iterdir()}

    return keep


def test_stacks_are_folded_and_the_rest_is_kept_as_it_is(kept):
    found = kept(archive({"perf.script": SCRIPT, "sample.jsonl": b"{}\n"}))
    assert set(found) == {"perf.folded", "sample.jsonl"}
    assert found["sample.jsonl"] == b"{}\n"
    assert found["perf.folded"]


def test_stacks_that_are_cut_cost_no_other_capture(kept):
    reported = {"iostat.json": "exit code 1: no such device"}
    found = kept(
        archive(
            {
                "observers.json": json.dumps(reported).encode(),
                "perf.script": SCRIPT[: len(SCRIPT) // 2],
                "sample.jsonl": b"{}\n",
            }
        )
    )
    assert set(found) == {"observers.json", "sample.jsonl"}
    failed = json.loads(found["observers.json"])
    assert failed.keys() == {"iostat.json", "perf.script"}
    assert failed["perf.script"].startswith("perf script")


def test_only_a_newline_ends_a_line_of_perf(kept):
    script = b"a\x0bb\r\xff  1/1  [000]  1.5: cpu-clock: \n\tff f\x85\x1c\xe2 (/c)\n\n"
    found = kept(archive({"perf.script": script}))
    assert found == {"perf.folded": "a\x0bb\r\ufffd;f\ufffd\x1c\ufffd 1\n".encode()}


def test_the_text_of_perf_is_not_held(kept):
    times = 50
    once, sent = kept(archive({"perf.script": SCRIPT})), archive({"perf.script": SCRIPT * times})
    tracemalloc.start()
    found = kept(sent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(sent) / 4
    counts = [line.rpartition(b" ") for line in once["perf.folded"].splitlines()]
    wanted = [b"%s %d" % (stack, times * int(count)) for stack, _, count in counts]
    assert found["perf.folded"].splitlines() == wanted


def test_an_archive_that_is_cut_is_reported_with_what_the_agent_said(kept):
    whole = archive({"iostat.json": b"{}", "sample.jsonl": b"{}\n" * 10_000})
    found = kept(whole[:20_000], b"agent: killed")
    assert found.keys() == {"observers.json"}
    failed = json.loads(found["observers.json"])
    assert failed == {"agent": "unexpected end of data: agent: killed"}
    for agent in (WELL, 'cat "$2" >&2; exit 1'):
        failed = json.loads(kept(b"", b"no agent", agent)["observers.json"])
        assert failed == {"agent": "empty file: no agent"}


@pytest.mark.parametrize("sent", [0, 512 + 100, 20_000])
def test_an_agent_that_stops_sending_and_does_not_end_is_killed(kept, monkeypatch, sent):
    monkeypatch.setattr(observe, "_STOP_TIMEOUT_S", 0.2)
    whole = archive({"iostat.json": b"{}", "sample.jsonl": b"{}\n" * 10_000})
    found = kept(whole[:sent], b"unread", 'echo; cat "$1"; exec sleep 600')
    assert found.keys() == {"observers.json"}
    assert json.loads(found["observers.json"]) == {"agent": "observers did not end in time"}


def test_an_agent_that_sends_all_and_does_not_end_is_killed(kept, monkeypatch):
    monkeypatch.setattr(observe, "_STOP_TIMEOUT_S", 0.2)
    whole = archive({"iostat.json": b"{}"})
    found = kept(whole, agent='echo; cat "$1"; exec sleep 600 >&-')
    assert json.loads(found["observers.json"]) == {"agent": "observers did not end in time"}


def test_an_agent_that_begins_late_is_not_waited_for_and_its_captures_are_kept(kept, monkeypatch):
    monkeypatch.setattr(observe, "_BEGIN_TIMEOUT_S", 0.1)
    found = kept(archive({"iostat.json": b"{}"}), agent=f"cat >/dev/null; {WELL}")
    assert found == {"iostat.json": b"{}"}


def test_an_agent_that_says_much_ends(kept):
    said = b"much\n" * 100_000  # more than a pipe holds
    assert kept(archive({"iostat.json": b"{}"}), said) == {"iostat.json": b"{}"}
