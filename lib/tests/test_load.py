"""Load generators: run to their end, read along, killed when they hang."""

import signal
import subprocess
import sys
import threading

import pytest
from benchlab.run.process import Program, run

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
    argv = [sys.executable, "-c", 'import time; print("started", flush=True); time.sleep(600)']
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        run([Program(argv)], 1, lambda number, line: None)
    assert expired.value.stdout in (b"started\n", b"")  # of a machine too busy to start Python


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
