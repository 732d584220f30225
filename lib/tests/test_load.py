"""Load generators: run to their end, read along, killed when they hang."""

import os
import signal
import subprocess
import sys
import threading
from unittest.mock import Mock

import pytest
from benchlab.run.process import Program, TimedOut, run

#: Prints a line, and the next one only when something comes of the first.
ASKS = """
import os, sys
print("started", flush=True)
while not os.path.exists(sys.argv[1]):
    pass
print(sys.stdin.read(), end="")
print("ended", file=sys.stderr)
sys.exit(3)
"""


def test_every_line_is_seen_as_it_comes_and_all_is_kept(tmp_path):
    seen = []

    def on_line(number: int, line: bytes) -> None:
        assert number == 0
        seen.append(line)
        (tmp_path / "seen").touch()

    argv = [sys.executable, "-c", ASKS, str(tmp_path / "seen")]
    (done,) = run([Program(argv, b"a\nb")], 60, on_line)
    assert seen == [b"started\n", b"a\n", b"b"]
    assert done.stdout == b"started\na\nb"
    assert (done.stderr, done.returncode) == (b"ended\n", 3)


def test_one_that_hangs_is_killed_and_what_it_said_is_kept():
    ends, hangs = Program(["echo", "done"]), Program(["sh", "-c", "echo started; exec sleep 600"])
    with pytest.raises(TimedOut) as late:
        run([ends, hangs], 5, lambda number, line: None)
    ended, killed = late.value.ended
    assert (ended.stdout, ended.returncode, ended.was_killed) == (b"done\n", 0, False)
    assert (killed.stdout, killed.was_killed) == (b"started\n", True)


def test_one_that_cannot_be_started_is_reported():
    with pytest.raises(FileNotFoundError):
        run([Program(["/no/such/program"])], 1, lambda number, line: None)


def test_programs_run_beside_each_other():
    """Each ends only when the other one has begun."""
    seen: dict[int, list[bytes]] = {0: [], 1: []}
    both = threading.Event()
    waits = 'import sys; print("started", flush=True); sys.exit(len(sys.stdin.read()))'

    def on_line(number: int, line: bytes) -> None:
        seen[number].append(line)
        if all(seen.values()):
            both.set()

    ended = run([Program([sys.executable, "-c", waits])] * 2, 60, on_line)
    assert both.is_set()
    assert [done.returncode for done in ended] == [0, 0]
    assert [done.stdout for done in ended] == [b"started\n"] * 2


def test_when_one_fails_the_others_are_killed():
    hangs = Program([sys.executable, "-c", "import time; time.sleep(600)"])
    fails = Program([sys.executable, "-c", "import sys; sys.exit(3)"])
    ended = run([hangs, fails], 60, lambda number, line: None)
    assert [done.returncode for done in ended] == [-signal.SIGKILL, 3]
    assert [done.was_killed for done in ended] == [True, False]


def test_a_program_of_roots_is_ended_by_sudo(tmp_path, monkeypatch):
    """Root's sudo cannot be killed by the user who started it."""
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nshift\necho "$@" >"$0.said"\nexec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(subprocess.Popen, "kill", Mock(side_effect=PermissionError))
    with pytest.raises(TimedOut) as late:
        run([Program(["sleep", "60"])], 0.2, lambda number, line: None)
    (ended,) = late.value.ended
    assert (ended.returncode, ended.was_killed) == (-signal.SIGKILL, True)
    assert (tmp_path / "sudo.said").read_text().startswith("kill -KILL ")
