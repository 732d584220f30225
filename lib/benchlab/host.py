"""Run commands on a host of the target: on this machine, or over ssh with the user's own client."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from benchlab.errors import TargetError

#: The system's own Python, whatever is first in a user's path.
AGENT = ("/usr/bin/python3", "-I", "/usr/local/lib/benchlab/benchlab_agent")


class Host(BaseModel):
    """One host, and how it is reached. Commands run as root."""

    model_config = ConfigDict(frozen=True)

    name: str
    address: str = "127.0.0.1"
    connection: Literal["local", "ssh"] = "local"
    user: str | None = None
    port: int = 22
    key_file: str | None = None

    def argv(self, *command: str) -> list[str]:
        """Return the argument vector that runs ``command`` as root on this host."""
        if self.connection == "local":
            return [*_sudo(os.geteuid()), *command]
        destination = f"{self.user}@{self.address}" if self.user else self.address
        key = ["-i", self.key_file] if self.key_file else []
        # one connection for all commands of a process: a handshake per command would cost more
        # than most of the commands do
        socket = Path(tempfile.gettempdir()) / f"benchlab-ssh-{os.getuid()}-%C"
        return [
            *("ssh", "-p", str(self.port), *key, "-o", "BatchMode=yes"),
            *("-o", "ControlMaster=auto", "-o", f"ControlPath={socket}", "-o", "ControlPersist=60"),
            destination,
            shlex.join([*(() if self.user == "root" else ("sudo", "-n")), *command]),
        ]

    def run(self, *command: str, stdin: bytes | None = None, timeout_s: float = 600) -> bytes:
        """Run a command to its end and return what it printed.

        Raises:
            TargetError: it failed; the message is the last line that it wrote to its error output.
        """
        done = subprocess.run(
            self.argv(*command), input=stdin, capture_output=True, timeout=timeout_s, check=False
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            last = said[-1] if said else f"exit code {done.returncode}"
            raise TargetError(f"{self.name}: {command[0]}: {last}")
        return done.stdout

    def popen(self, *command: str, **streams) -> subprocess.Popen:
        """Start a command and return its process on this side."""
        return subprocess.Popen(self.argv(*command), **streams)

    def agent(self, *command: str, timeout_s: float = 600) -> bytes:
        """Run the target's agent; see :mod:`benchlab.agent`."""
        return self.run(*AGENT, *command, timeout_s=timeout_s)

    def provisioned(self) -> bool:
        """Whether the agent is there."""
        try:
            self.run("test", "-e", AGENT[-1])
        except TargetError:
            return False
        return True

    def read(self, path: str | Path) -> bytes:
        """Return the content of a file of the host."""
        if self.connection == "local" and os.access(path, os.R_OK):
            return Path(path).read_bytes()
        return self.run("cat", str(path))


def _sudo(uid: int) -> tuple[str, ...]:
    return () if uid == 0 else ("sudo", "-n")
