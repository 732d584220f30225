"""Load generators: run to their end, read along, killed when they hang."""

import subprocess
import sys

import pytest
from benchlab.run import process

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

    def on_line(line: bytes) -> None:
        seen.append(line)
        (tmp_path / "seen").touch()

    argv = [sys.executable, "-c", ASKS, str(tmp_path / "seen")]
    done = process.run(argv, b"a\nb", 60, on_line)
    assert seen == [b"started\n", b"a\n", b"b"]
    assert done.stdout == b"started\na\nb"
    assert (done.stderr, done.returncode) == (b"ended\n", 3)


def test_one_that_hangs_is_killed_and_what_it_said_is_kept():
    argv = [sys.executable, "-c", 'import time; print("started", flush=True); time.sleep(600)']
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        process.run(argv, b"", 1, lambda line: None)
    assert expired.value.stdout in (b"started\n", b"")  # of a machine too busy to start Python


def test_one_that_cannot_be_started_is_told():
    with pytest.raises(FileNotFoundError):
        process.run(["/no/such/program"], b"", 1, lambda line: None)
