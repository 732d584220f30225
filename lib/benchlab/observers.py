"""Observers: the programs that watch a run on the server, started together and stopped together.

They run under the target's agent, which ends them when the pipe to it closes; so they are gone too
when benchlab itself is killed. Their command lines stand beside the parsers of what they print.
"""

import io
import json
import subprocess
import tarfile

from benchlab.capture import RunFolder
from benchlab.errors import ParseError
from benchlab.host import AGENT, Host
from benchlab.parse import iostat, mpstat, perf, pidstat, sample, vmstat

#: File in the run's folder → module with the command and the parser of what it prints.
OBSERVERS = {
    "iostat.json": iostat,
    "mpstat.json": mpstat,
    "pidstat.txt": pidstat,
    "vmstat.txt": vmstat,
    "sample.jsonl": sample,
    "perf.script": perf,
}

#: Kept instead of the text it is folded from, which is a hundred times as large.
FOLDED = "perf.folded"

_STOP_TIMEOUT_S = 60


class Observers:
    """The observers of one run, watching since they were made."""

    def __init__(self, server: Host):
        self._agent = server.popen(
            *AGENT,
            "observe",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._agent.stdin.write(json.dumps(_specification()).encode() + b"\n")
        self._agent.stdin.flush()

    def stop(self) -> None:
        """Stop watching; returns at once, while the agent still gathers the captures."""
        self._agent.stdin.close()
        self._agent.stdin = None  # or communicate() would try to flush it

    def discard(self) -> None:
        """Stop watching and throw the captures away."""
        self.stop()
        self._agent.communicate(timeout=_STOP_TIMEOUT_S)

    def collect(self, folder: RunFolder) -> None:
        """Keep every capture in the run's folder.

        An observer that failed costs its own capture only: which one, and what it said, is kept in
        ``observers.json``, for attribution to see.
        """
        try:
            archive, errors = self._agent.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._agent.kill()
            archive, errors = b"", b"observers did not end in time"
        _keep(archive, errors, folder)


def _specification() -> list[dict]:
    return [
        {
            "file": name,
            "command": list(module.COMMAND),
            "then": list(getattr(module, "THEN", ())),
            "environment": dict(module.ENVIRONMENT),
            "stop_signal": module.STOP_SIGNAL,
        }
        for name, module in OBSERVERS.items()
    ]


def _keep(archive: bytes, errors: bytes, folder: RunFolder) -> None:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar.getmembers():
                content = tar.extractfile(member).read()
                if member.name == "perf.script":
                    folder.write(FOLDED, perf.fold(content.decode(errors="replace")).encode())
                else:
                    folder.write(member.name, content)
    except (tarfile.TarError, ParseError) as error:
        said = errors.decode(errors="replace")[-2000:]
        folder.write_json("observers.json", {"agent": f"{error}: {said}"})
