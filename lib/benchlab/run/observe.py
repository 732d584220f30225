"""Observers: the programs that watch a run on one node, started together and stopped together.

They run under the target's agent, which ends them when the pipe to it closes. So they also end when
benchlab itself is killed. Their command lines are in the modules of the parsers of their output.
"""

import io
import json
import math
import select
import subprocess
import tarfile
from contextlib import suppress

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


class Observers:
    """The observers of one run on one node; they are started by the creation of the object."""

    def __init__(self, node: Node, observers: dict):
        self._node = node.name
        self._agent = node.popen(
            *AGENT,
            "observe",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        specification = json.dumps(_specification(observers)).encode()
        with suppress(BrokenPipeError):  # the captures then say why the agent did not start
            self._agent.stdin.write(specification + b"\n")
            self._agent.stdin.flush()

    def wait(self) -> None:
        """Wait until all of them watch, or until the agent has given up waiting for one."""
        output = self._agent.stdout
        if select.select([output], [], [], _BEGIN_TIMEOUT_S)[0]:
            output.readline()

    def stop(self) -> None:
        """Stop watching; return at once, while the agent still gathers the captures."""
        with suppress(BrokenPipeError):
            self._agent.stdin.close()
        self._agent.stdin = None  # or communicate() would try to flush it

    def collect(self, folder: RunFolder) -> None:
        """Write every capture of stopped observers into the run's folder.

        If an observer failed, only its own capture is lost. Its name and its message are kept in the
        node's ``observers.json``.
        """
        try:
            archive, errors = self._agent.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            kill(self._agent)
            archive, errors = b"", b"observers did not end in time"
        _keep(archive.removeprefix(BEGUN), errors, folder, self._node)


def watch(session: Session, log_latency: bool) -> list[Observers]:
    """Watch every node that a run uses.

    Args:
        session: the engine.
        log_latency: whether system calls to the primary's log are traced.
    """

    def observers(node: Node) -> dict:
        if not any(map(is_database, session.roles[node.name])):
            return COUNTERS
        if not log_latency or node != session.primary:
            return OBSERVERS
        return OBSERVERS | {
            log_trace.NAME: LogTrace(session.engine_name, session.engine.log_folder)
        }

    return [Observers(node, observers(node)) for node in used(session)]


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


def _keep(archive: bytes, errors: bytes, folder: RunFolder, node: str) -> None:
    failed: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar.getmembers():
                content = tar.extractfile(member).read()
                if member.name == REPORT:
                    failed |= json.loads(content)
                elif member.name == "perf.script":
                    try:
                        folder.write(FOLDED, _folded(content, folder), node)
                    except ParseError as error:
                        failed[member.name] = str(error)
                else:
                    folder.write(member.name, content, node)
    except tarfile.TarError as error:
        failed["agent"] = f"{error}: {errors.decode(errors='replace')[-2000:]}"
    if failed:
        folder.write_json(REPORT, failed, node)


def _folded(script: bytes, folder: RunFolder) -> bytes:
    begin, end = folder.phases.get("measure", (-math.inf, math.inf))
    return perf.fold(script.decode(errors="replace"), begin=begin, end=end).encode()
