"""What the agent reads of other processes and of mounts, whatever their names; how it runs programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchlab.agent.config import AgentError
from benchlab.agent.disk import mounts_at
from benchlab.agent.system import describe, process, processes_of, run
from conftest import wait_for

#: The kernel cuts a name after 15 bytes, here within its last letter.
CUT = "длинное".encode() + "й".encode()[:1]


def test_a_process_whose_name_is_cut_within_a_letter_is_seen(tmp_path):
    folder = tmp_path / "4711"
    folder.mkdir()
    (folder / "comm").write_bytes(CUT + b"\n")
    (folder / "status").write_bytes(b"Name:\t" + CUT + b"\nUid:\t7\t7\t7\t7\n")
    (folder / "stat").write_bytes(b"4711 (" + CUT + b") S 1" + b" 0" * 15 + b" 1 0 99\n")
    (found,) = processes_of(tmp_path, 7)
    assert (found.pid, found.parent, found.start_ticks) == (4711, 1, 99)
    assert processes_of(tmp_path, 8) == []
    assert describe(tmp_path, 4711) == "pid 4711 (длинное\N{REPLACEMENT CHARACTER})"


def test_a_mount_without_a_source_is_seen(tmp_path):
    (tmp_path / "self").mkdir()
    line = b"36 35 98:0 / /mnt/\xd0 rw,noatime shared:1 - tmpfs  rw,size=1k\n"
    (tmp_path / "self/mountinfo").write_bytes(line + line.replace(b"/\xd0", b"/data"))
    (found,) = mounts_at(tmp_path, Path("/mnt/data"))
    assert (found.source, found.type, found.options) == ("", "tmpfs", "rw,noatime,rw,size=1k")


def test_a_program_ends_with_the_agent_that_runs_it(tmp_path):
    """A copy that went on would keep the file system mounted."""
    script = f"echo $$ > {tmp_path}/begun; mv {tmp_path}/begun {tmp_path}/pid; exec sleep 60"
    program = f"from benchlab.agent.system import run; run('sh', '-c', {script!r})"
    agent = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    wait_for((tmp_path / "pid").exists, "the program")
    agent.kill()
    agent.wait()
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: process(Path("/proc"), pid) is None, "its end")


def test_why_a_program_did_not_run_is_one_line():
    with pytest.raises(AgentError, match=r"^no-such-program is not installed on this host$"):
        run("no-such-program", "-x")
    with pytest.raises(AgentError, match=r"^sh -c echo no >&2; exit 3: exit code 3: no$"):
        run("sh", "-c", "echo no >&2; exit 3")
