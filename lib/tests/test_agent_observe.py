"""The observers' keeper, with programs that say how they were run in place of observers."""

import io
import json
import os
import select
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from benchlab.agent import observe
from benchlab.agent.config import DISK_LIMITS
from conftest import wait_for

LIBRARY = Path(__file__).parents[1]

#: Prints how it is scheduled and its pid, then waits for the signal that stops it.
SAYS = ("sh", "-c", 'chrt --pid $$; echo "pid $$"; exec sleep 60')

pytestmark = pytest.mark.root


def observer(file: str, *command: str, begun: str = "", then: tuple[str, ...] = ()) -> dict:
    return {
        "file": file,
        "command": command,
        "begun": begun,
        "then": then,
        "environment": {},
        "stop_signal": "SIGTERM",
    }


@pytest.fixture
def agent(tmp_path, tmp_path_factory):
    """Start an agent that observes with these, its captures below ``tmp_path``, its home."""
    started = []
    etc = tmp_path_factory.mktemp("etc")
    unlimited = dict.fromkeys(("cores", "memory_bytes", *DISK_LIMITS))
    envelope = {"image": "/none", "image_bytes": 1, "mount": "/none", "enforce": False, **unlimited}
    (etc / "envelope.json").write_text(json.dumps({"home": str(tmp_path), **envelope}))

    def start(*observers: dict, longest_s: float = 600) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchlab.agent", "--etc", str(etc), "observe"],
            env={**os.environ, "PYTHONPATH": str(LIBRARY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        requested = {"longest_s": longest_s, "observers": observers}
        process.stdin.write(json.dumps(requested).encode() + b"\n")
        process.stdin.flush()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def said(folder: Path, file: str, text: str) -> str:
    """What an observer has written, as soon as ``text`` is in it."""
    return wait_for(
        lambda: next(
            (found for path in folder.glob(f"*/{file}") if text in (found := path.read_text())), ""
        ),
        f"{text!r} in {file}",
    )


def captures(process: subprocess.Popen) -> dict[str, str]:
    archive, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    with tarfile.open(fileobj=io.BytesIO(archive.removeprefix(observe.BEGUN))) as tar:
        return {one.name: tar.extractfile(one).read().decode() for one in tar.getmembers()}


def test_captures_come_when_the_pipe_closes(agent, tmp_path):
    process = agent(observer("first", *SAYS), observer("second", "sh", "-c", "echo done; sleep 60"))
    said(tmp_path, "first", "pid")
    said(tmp_path, "second", "done")
    found = captures(process)
    assert set(found) == {"first", "second"}
    assert found["second"] == "done\n"
    assert list(tmp_path.iterdir()) == []


def test_the_agent_says_when_all_have_begun(agent, tmp_path):
    slow = ("sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo now; exec sleep 60")
    process = agent(observer("quick", *SAYS), observer("slow", *slow, begun="now"))
    said(tmp_path, "quick", "pid")
    assert not select.select([process.stdout], [], [], 0)[0]
    (tmp_path / "go").touch()
    assert process.stdout.readline() == observe.BEGUN
    assert captures(process)["slow"] == "now\n"


def test_an_observer_that_ends_at_once_is_not_waited_for(agent):
    process = agent(observer("ends", "sh", "-c", "exit 3", begun="never"))
    assert process.stdout.readline() == observe.BEGUN
    assert "exit code 3" in captures(process)["observers.json"]


def test_observers_keep_their_time_and_what_follows_takes_turns(agent, tmp_path):
    follows = ("sh", "-c", "cat folded.first; echo; chrt --pid $$")
    process = agent(observer("watched", *SAYS), observer("folded", *SAYS, then=follows))
    said(tmp_path, "watched", "pid")
    said(tmp_path, "folded.first", "pid")
    found = captures(process)
    before, _, after = found["folded"].partition("\n\n")
    assert "SCHED_FIFO" in found["watched"]
    assert "SCHED_FIFO" in before
    assert "SCHED_OTHER" in after


def test_what_an_observer_failed_of_is_reported_beside_the_captures_of_the_others(agent, tmp_path):
    process = agent(
        observer("good", *SAYS),
        observer("bad", "sh", "-c", "echo half; echo no such device >&2; exit 3"),
        observer("absent", "no-such-observer"),
        observer("unread", "no-such-observer", then=("no-such-reader",)),
    )
    said(tmp_path, "good", "pid")
    said(tmp_path, "bad", "half")
    said(tmp_path, "absent.err", "no-such-observer")
    found = captures(process)
    assert set(found) == {"good", "bad", "observers.json"}
    report = json.loads(found["observers.json"])
    assert report["bad"] == "exit code 3: no such device"
    assert report["absent"].startswith("exit code 127: ")
    assert "no-such-observer: No such file" in report["absent"]
    assert report["unread"].startswith("exit code 127: ")
    assert "no-such-reader: No such file" in report["unread"]


def test_what_follows_an_observer_and_does_not_end_costs_its_capture_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(observe, "THEN_TIMEOUT_S", 0.1)
    ended = observe._Observer(
        "folded",
        tmp_path / "folded.first",
        b"",
        ["sleep", "60"],
        dict(os.environ),
        signal.SIGTERM,
        None,
    )
    report = {}
    observe._finish(ended, 0, tmp_path, report)
    assert report == {"folded": "sleep did not end in 0.1 s"}
    assert not (tmp_path / "folded").exists()


def test_nothing_follows_an_observer_whose_captures_nobody_reads(agent, tmp_path):
    process = agent(observer("folded", *SAYS, then=("touch", f"{tmp_path}/followed")))
    said(tmp_path, "folded.first", "pid")
    process.stdout.close()
    process.stdin.close()
    process.stdout = process.stdin = None
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert list(tmp_path.iterdir()) == []


def test_observers_that_nobody_stops_end_after_a_limit(agent, tmp_path):
    """As after a lost connection: the pipes stay open, and nobody reads or writes."""
    process = agent(observer("watched", *SAYS, then=("touch", f"{tmp_path}/read")), longest_s=2)
    pid = int(said(tmp_path, "watched.first", "pid").split()[-1])
    assert process.wait(30) != 0
    assert not Path(f"/proc/{pid}").exists()
    assert "nobody stopped the observers in 2 s" in process.stderr.read().decode()
    assert process.stdout.read() == observe.BEGUN
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_is_killed_takes_its_observers_along(agent, tmp_path):
    process = agent(observer("watched", *SAYS))
    pid = int(said(tmp_path, "watched", "pid").split()[-1])
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the observer's end")
