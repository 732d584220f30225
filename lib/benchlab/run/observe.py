"""Observers: the programs that watch a run on one node, started together and stopped together.

They run under the target's agent, which ends them when the pipe to it closes. So they also end when
benchlab itself is killed; and after a limit, since a lost connection may close no pipe. Their command
lines are in the modules of the parsers of their output.
"""

import io
import json
import math
import os
import select
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from benchlab.agent.observe import BEGUN, REPORT
from benchlab.errors import ParseError
from benchlab.observers import COUNTERS, FOLDED, OBSERVERS, log_trace, perf
from benchlab.observers.log_trace import LogTrace
from benchlab.raw.record import RunFolder
from benchlab.study.roles import is_database
from benchlab.target import Node
from benchlab.target.host import AGENT, kill
from benchlab.target.session import Session

#: The agent gives observers 30 s to begin.
_BEGIN_TIMEOUT_S = 30 + 30

#: The agent gives an observer 10 s to end, and the program that reads its output 120 s.
_STOP_TIMEOUT_S = 10 + 120 + 30

#: Time before, between and after the stages of a load, such as for the counters.
_MARGIN_S = 600


class Observers:
    """The observers of one run on one node; they are started by the creation of the object."""

    def __init__(self, node: Node, observers: dict, longest_s: float):
        self._node = node.name
        self._has_begun = False
        # no pipe: the agent would wait if it were full, as nobody reads it meanwhile
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._agent = node.popen(
            *AGENT,
            "observe",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        specification = json.dumps(
            {"longest_s": longest_s, "observers": _specification(observers)}
        ).encode()
        with suppress(BrokenPipeError):  # the captures then say why the agent did not start
            self._agent.stdin.write(specification + b"\n")
            self._agent.stdin.flush()

    def wait(self) -> None:
        """Wait until all of them watch, or until the agent has given up waiting for one."""
        with suppress(TimeoutError):
            self._has_begun = self._sent(_BEGIN_TIMEOUT_S).read(len(BEGUN)) == BEGUN

    def stop(self) -> None:
        """Stop watching; return at once, while the agent still gathers the captures."""
        with suppress(BrokenPipeError):
            self._agent.stdin.close()

    def collect(self, folder: RunFolder) -> None:
        """Write every capture of stopped observers into the run's folder.

        If an observer failed, only its own capture is lost. Its name and its message are kept in the
        node's ``observers.json``.
        """
        with self._agent.stdout, self._errors:
            try:
                captures, failed = self._received(folder)
            except (TimeoutError, subprocess.TimeoutExpired):
                kill(self._agent)
                captures, failed = {}, {"agent": "observers did not end in time"}
        for name, content in captures.items():
            folder.write(name, content, self._node)
        if failed:
            folder.write_json(REPORT, failed, self._node)

    def _received(self, folder: RunFolder) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return what :func:`_captures` does, once the agent has ended; nothing of a cut archive.

        Raises:
            TimeoutError, subprocess.TimeoutExpired: the agent neither sends anything nor ends.
        """
        sent = self._sent(_STOP_TIMEOUT_S)
        if not self._has_begun:
            sent.read(len(BEGUN))
        try:
            captures, failed = _captures(sent, folder)
        except tarfile.TarError as error:
            captures, failed = {}, {"agent": str(error)}
        while sent.read(io.DEFAULT_BUFFER_SIZE):
            pass  # the archive's padding, or the rest of one that is damaged
        self._agent.wait(_STOP_TIMEOUT_S)  # only then has it said all
        if "agent" in failed:
            self._errors.seek(0)
            failed["agent"] += f": {self._errors.read().decode(errors='replace')[-2000:]}"
        return captures, failed

    def _sent(self, timeout_s: float) -> "_Sent":
        return _Sent(self._agent.stdout, timeout_s)


@dataclass(frozen=True)
class _Sent:
    """What an agent sends, read as it comes: perf's text of a long run has a gigabyte."""

    pipe: IO[bytes]
    timeout_s: float
    """Longest time in which nothing may come."""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most ``size``; none at the end.

        Raises:
            TimeoutError: nothing came.
        """
        if not select.select([self.pipe], [], [], self.timeout_s)[0]:
            raise TimeoutError
        # not by the pipe's own buffer, of which select() does not know
        return os.read(self.pipe.fileno(), size)


def watch(session: Session, log_latency: bool, longest_s: float) -> list[Observers]:
    """Watch every node that a run uses.

    Args:
        session: the engine.
        log_latency: whether system calls to the primary's log are traced.
        longest_s: how long the load may take; observers that nobody stops end some time after that.
    """

    def observers(node: Node) -> dict:
        if not any(map(is_database, session.roles[node.name])):
            return COUNTERS
        if not log_latency or node != session.primary:
            return OBSERVERS
        return OBSERVERS | {
            log_trace.NAME: LogTrace(session.engine_name, session.engine.log_folder)
        }

    longest_s += _MARGIN_S
    return [Observers(node, observers(node), longest_s) for node in used(session)]


def used(session: Session) -> list[Node]:
    """Return the nodes that a run uses."""
    return [node for node in session.deployment.nodes if node.name in session.roles]


def _specification(observers: dict) -> list[dict]:
    return [
        {
            "file": name,
            "command": list(module.COMMAND),
            "begun": getattr(module, "BEGUN", ""),
            "then": list(getattr(module, "THEN", ())),
            "environment": dict(module.ENVIRONMENT),
            "stop_signal": module.STOP_SIGNAL,
        }
        for name, module in observers.items()
    ]


def _captures(sent: _Sent, folder: RunFolder) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the captures of an archive as they are kept, and observer → how it failed.

    Raises:
        TarError: the archive is cut.
        TimeoutError: its rest does not come.
    """
    captures: dict[str, bytes] = {}
    failed: dict[str, str] = {}
    with tarfile.open(fileobj=sent, mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if member.name == REPORT:
                failed |= json.load(content)
            elif member.name == "perf.script":
                try:
                    captures[FOLDED] = _folded(content, folder)
                except ParseError as error:
                    failed[member.name] = str(error)
            else:
                captures[member.name] = content.read()
    return captures, failed


def _folded(script: IO[bytes], folder: RunFolder) -> bytes:
    begin, end = folder.phases.get("measure", (-math.inf, math.inf))
    lines = (line.decode(errors="replace") for line in script)
    return perf.fold(lines, begin=begin, end=end).encode()
