"""Run observers at the same time until standard input ends, then return their captures.

The caller writes one JSON line, ``{"longest_s", "observers"}``, the latter a list of
``{"file", "command": argv, "begun", "then": argv, "environment": {...}, "stop_signal"}``, and keeps
the pipe open as long as it observes. An observer has begun when its output has the text ``begun``; the
agent prints an empty line when all have. When the pipe closes, which it also does if the caller is
killed, the observers are stopped, and a tar archive of the captures goes to standard output. With
``then`` the capture is the output of that second program, which runs in the same folder after the first
has ended.

A lost connection may leave the pipe open. So observers are stopped after ``longest_s``, too. Then
nobody waits for their captures, and none are sent.

Observers have real-time priority (``system.use_realtime_scheduling``), and none outlives the agent.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .config import AgentError
from .system import (
    DIE_WITH_PARENT,
    ends_within,
    use_normal_scheduling,
    use_realtime_scheduling,
    wait_until,
)

#: An observer that has not begun by then may begin late, or never: its capture shows which.
BEGIN_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
THEN_TIMEOUT_S = 120.0

#: Printed when every observer has begun.
BEGUN = b"\n"

#: File of the archive that says which observers failed, and how; absent if none failed.
REPORT = "observers.json"


@dataclass
class _Observer:
    file: str
    output: Path
    begun: bytes
    then: list[str]
    environment: dict[str, str]
    stop_signal: int
    process: subprocess.Popen[bytes]

    def has_begun(self) -> bool:
        """Return whether it has printed what it prints when it observes, or has ended."""
        if not self.begun or self.process.poll() is not None:
            return True
        return self.begun in self.output.read_bytes()


def observe(home: Path, source: BinaryIO, target: BinaryIO) -> None:
    """Observe until ``source`` ends, then write the archive to ``target``.

    Captures lie in ``home`` until then: /tmp may be memory, and perf's text of a long run is large.
    """
    requested = json.loads(source.readline())
    wanted = requested["observers"]
    folder = Path(tempfile.mkdtemp(prefix="observe-", dir=home))
    report: dict[str, str] = {}
    try:
        use_realtime_scheduling()
        observers = [one for entry in wanted if (one := _start(entry, folder, report))]
        # a signal to the whole group must not end the agent before the observers
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        wait_until(lambda: all(one.has_begun() for one in observers), BEGIN_TIMEOUT_S)
        target.write(BEGUN)
        target.flush()
        stopped = ends_within(source.fileno(), requested["longest_s"])
        for one in observers:
            one.process.send_signal(one.stop_signal)
        codes = [_ended(one.process) for one in observers]
        if not stopped:
            raise AgentError(f"observe: nobody stopped the observers in {requested['longest_s']} s")
        if not _is_read(target):  # the run was aborted, and what follows may take minutes
            return
        for one, code in zip(observers, codes, strict=True):
            _finish(one, code, folder, report)
        if report:
            (folder / REPORT).write_text(json.dumps(report, indent=1))
        names = {entry["file"] for entry in wanted} | {REPORT}
        _archive(folder, names, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_read(target: BinaryIO) -> bool:
    """Return whether the other end of a pipe or socket is open."""
    poll = select.poll()
    poll.register(target, 0)  # it always reports POLLERR and POLLHUP
    return not poll.poll(0)


def _start(entry: dict[str, Any], folder: Path, report: dict[str, str]) -> _Observer | None:
    environment = {**os.environ, **entry["environment"]}
    output = folder / (f"{entry['file']}.first" if entry["then"] else entry["file"])
    try:
        with output.open("wb") as stdout, (folder / f"{entry['file']}.err").open("wb") as stderr:
            process = subprocess.Popen(
                [*DIE_WITH_PARENT, *entry["command"]],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        report[entry["file"]] = f"{entry['command'][0]}: {error.strerror}"
        return None
    number = signal.Signals[entry["stop_signal"]]
    begun = entry["begun"].encode()
    return _Observer(entry["file"], output, begun, entry["then"], environment, number, process)


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _finish(one: _Observer, code: int, folder: Path, report: dict[str, str]) -> None:
    if one.then:
        use_normal_scheduling()  # it may compute for seconds, and the load has ended
        try:
            code = _then(one, folder)
        except subprocess.TimeoutExpired:
            (folder / one.file).unlink()
            report[one.file] = f"{one.then[0]} did not end in {THEN_TIMEOUT_S:g} s"
            return
    if code not in (0, -one.stop_signal, 128 + one.stop_signal):
        said = (folder / f"{one.file}.err").read_text(errors="replace").strip()
        report[one.file] = f"exit code {code}: {said[-500:]}"


def _then(one: _Observer, folder: Path) -> int:
    with (
        (folder / one.file).open("wb") as stdout,
        (folder / f"{one.file}.err").open("ab") as stderr,
    ):
        return subprocess.run(
            [*DIE_WITH_PARENT, *one.then],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=folder,
            env=one.environment,
            timeout=THEN_TIMEOUT_S,
            check=False,
        ).returncode


def _archive(folder: Path, names: set[str], target: BinaryIO) -> None:
    with tarfile.open(fileobj=target, mode="w|") as archive:
        for path in sorted(folder.iterdir()):
            if path.name in names and path.stat().st_size:
                archive.add(path, arcname=path.name)
    target.flush()
