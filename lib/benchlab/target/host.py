"""Run commands on a host of the target: on this machine, or over the user's own ssh client."""

import os
import shlex
import socket
import subprocess
import tempfile
import weakref
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from benchlab.agent.system import DIE_WITH_PARENT
from benchlab.errors import TargetError

#: Run with the system's own Python, not with the first one of the user's path.
AGENT = ("/usr/bin/python3", "-I", "/usr/local/lib/benchlab/benchlab_agent")

#: Timeout of what copies a data directory of hundreds of GB, and of what waits until that has ended.
COPY_TIMEOUT_S = 6 * 3600

#: Configuration that the agent needs; role ``envelope`` writes it on every host.
_ENVELOPE = "/etc/benchlab/envelope.json"

#: Exit code of ssh itself if an error keeps it from running the command (ssh(1), EXIT STATUS).
_SSH_FAILED = 255

#: ssh's last line if the local port of a tunnel is taken (OpenSSH's ssh.c).
_PORT_TAKEN = "Could not request local forwarding."
_PORTS_TRIED = 5

#: sudo cannot pass SIGKILL on, so what it runs is killed with it.
_SUDO = ("sudo", "-n", *DIE_WITH_PARENT)

#: ssh notices within a minute that a host is gone, and never asks for a password.
_SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15")


class Unreachable(TargetError):
    """A host that ssh cannot connect to."""


class NoRoot(TargetError):
    """A host on which this user cannot become root."""


class Host(BaseModel):
    """One host, and how it is reached. Commands run as root."""

    model_config = ConfigDict(frozen=True)

    name: str
    address: str = "127.0.0.1"
    """Address that ssh connects to."""
    peer_address: str = "127.0.0.1"
    """Address that the target's other nodes connect to."""
    connection: Literal["local", "ssh"] = "local"
    user: str | None = None
    port: int = 22
    key_file: str | None = None
    ssh_arguments: tuple[str, ...] = ()

    def argv(self, *command: str) -> list[str]:
        """Return the argument vector that runs ``command`` as root on this host."""
        if self.connection == "local":
            return [*(() if os.geteuid() == 0 else _SUDO), *command]
        # one connection for all commands: a handshake per command would cost more than most do
        shared = ("ControlMaster=auto", f"ControlPath={_sockets()}/%C", "ControlPersist=60")
        sudo = () if self.user == "root" else ("sudo", "-n")
        return [*self._ssh(*shared), self._destination, shlex.join([*sudo, *command])]

    def run(self, *command: str, stdin: bytes | None = None, timeout_s: float = 600) -> bytes:
        """Run a command to its end and return what it printed.

        Raises:
            Unreachable: ssh did not connect to the host; the message ends with ssh's reason.
            NoRoot: this user may not run it as root.
            TargetError: it did not end in time, or it failed; the message ends with the last line of
                its error output.
        """
        argv = self.argv(*command)
        try:
            done = run_to_end(argv, stdin, timeout_s)
        except FileNotFoundError as error:
            if argv[0] == "sudo":
                raise self._no_root("sudo: not installed") from error
            raise TargetError(f"{self.name}: {argv[0]}: not installed") from error
        except subprocess.TimeoutExpired as error:
            raise TargetError(
                f"{self.name}: {self._said(command)}: did not end within {timeout_s:g} s"
            ) from error
        if done.returncode:
            last = _last_line(done.stderr, done.returncode)
            if self.connection == "ssh" and done.returncode == _SSH_FAILED:
                raise Unreachable(f"{self.name}: not reachable over ssh: {last}")
            if last.startswith("sudo: "):
                raise self._no_root(last)
            program = "benchlab-agent" if command[: len(AGENT)] == AGENT else command[0]
            reason = last.removeprefix(f"{program}: ")
            raise TargetError(f"{self.name}: {program}: {reason}")
        return done.stdout

    def popen(self, *command: str, **streams) -> subprocess.Popen:
        """Start a command and return the local process: sudo, ssh or the command itself."""
        return subprocess.Popen(self.argv(*command), **streams)

    def agent(self, *command: str, timeout_s: float = 600) -> bytes:
        """Run the target's agent; see :mod:`benchlab.agent`."""
        return self.run(*AGENT, *command, timeout_s=timeout_s)

    @staticmethod
    def _said(command: tuple[str, ...]) -> str:
        """Return how a message names a command: the program, or what the agent was to do."""
        if command[: len(AGENT)] == AGENT:
            return " ".join(("agent", *command[len(AGENT) :][:3]))
        return command[0]

    def provisioned(self) -> bool:
        """Whether the host has the agent and its configuration.

        Raises:
            TargetError: the host cannot be checked.
        """
        script = '[ -e "$1" ] && [ -e "$2" ] && echo yes || echo no'
        return self.run("sh", "-c", script, "sh", AGENT[-1], _ENVELOPE) == b"yes\n"

    def read(self, path: str | Path) -> bytes:
        """Return the content of a file on the host."""
        if self.connection == "local" and os.access(path, os.R_OK):
            return Path(path).read_bytes()
        return self.run("cat", str(path))

    def write(self, path: Path, content: bytes) -> None:
        """Write a file on the host; its folder is made if it does not exist."""
        script = 'mkdir -p "$1" && cat > "$1/$2"'
        self.run("sh", "-c", script, "sh", str(path.parent), path.name, stdin=content)

    def empty(self, folder: Path) -> None:
        """Make an empty folder on the host; an existing folder is deleted first."""
        self.run("sh", "-c", 'rm -rf "$1" && mkdir -p "$1"', "sh", str(folder))

    def fetch(self, folder: Path, to: Path) -> list[Path]:
        """Copy a folder of the host to a local folder; return the copied files, sorted by name.

        Raises:
            TargetError: the files cannot be read, or not be written here.
        """
        unpack = ("tar", "-C", str(to), "--no-same-owner", "-x")
        with self.popen("tar", "-C", str(folder), "-c", ".", stdout=subprocess.PIPE) as sent:
            received = subprocess.run(
                unpack, stdin=sent.stdout, stderr=subprocess.PIPE, check=False
            )
        if sent.returncode:  # then what was received is no archive, either
            raise TargetError(f"{self.name}: {folder} cannot be read")
        if received.returncode:
            first = received.stderr.decode(errors="replace").partition("\n")[0]  # then tar goes on
            raise TargetError(f"{to}: {first}")
        return sorted(path for path in to.iterdir() if path.is_file())

    def tunnel(self, address: str, port: int) -> "Tunnel":
        """Open a connection from this machine to an address that this host can connect to.

        Raises:
            Unreachable: ssh did not connect to the host.
        """
        if self.connection == "local":
            return Tunnel(address, port)
        # ssh accepts no port 0, and another program may take a free port before ssh does
        for _ in range(_PORTS_TRIED):
            tunnel, said = self._open_tunnel(address, port, _unused_port())
            if tunnel is not None:
                return tunnel
            if _PORT_TAKEN not in said:
                break
        raise Unreachable(f"{self.name}: no way over ssh to {address}:{port}: {said}")

    def _open_tunnel(self, address: str, port: int, local: int) -> tuple["Tunnel | None", str]:
        """Return the tunnel from a local port, or why ssh did not open it."""
        way = f"127.0.0.1:{local}:{address}:{port}"
        # its own connection: a shared one would keep the tunnel open as long as others use it
        alone = ("ControlPath=none", "ExitOnForwardFailure=yes")
        with tempfile.TemporaryFile() as errors:
            ssh = subprocess.Popen(
                # ends, like the observers, when its input pipe is closed, also by a kill -9
                [*self._ssh(*alone), "-L", way, self._destination, "echo open; exec cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            if ssh.stdout.readline():
                return Tunnel("127.0.0.1", local, ssh), ""
            ssh.wait()
            errors.seek(0)
            return None, _last_line(errors.read(), ssh.returncode)

    def _no_root(self, said: str) -> NoRoot:
        return NoRoot(
            f"{self.name}: root is needed, directly or by sudo without a password ({said})"
        )

    @property
    def _destination(self) -> str:
        return f"{self.user}@{self.address}" if self.user else self.address

    def _ssh(self, *options: str) -> list[str]:
        key = ["-i", self.key_file] if self.key_file else []
        named = [word for option in (*_SSH_OPTIONS, *options) for word in ("-o", option)]
        return ["ssh", "-p", str(self.port), *key, *named, *self.ssh_arguments]


class Tunnel:
    """A local address that leads to an address behind a host; open while this object exists."""

    def __init__(self, address: str, port: int, ssh: subprocess.Popen | None = None):
        self.address, self.port, self._ssh = address, port, ssh
        if ssh is not None:
            # Popen keeps itself and the pipe alive as long as its process lives
            weakref.finalize(self, ssh.stdin.close)

    @property
    def closed(self) -> bool:
        """Whether the connection was lost."""
        return self._ssh is not None and self._ssh.poll() is not None


def run_to_end(
    argv: list[str], stdin: bytes | None, timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Run a local process of :meth:`Host.argv` to its end.

    It is killed, below sudo, too, if it takes longer or if this process is interrupted.

    Raises:
        FileNotFoundError: there is no such program.
        subprocess.TimeoutExpired: it took longer.
    """
    pipe = subprocess.PIPE
    # without input ssh in the background would stop at the terminal's
    given = subprocess.DEVNULL if stdin is None else pipe
    with subprocess.Popen(argv, stdin=given, stdout=pipe, stderr=pipe) as process:
        try:
            printed, said = process.communicate(stdin, timeout=timeout_s)
        except BaseException:
            kill(process)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, printed, said)


def kill(process: subprocess.Popen) -> None:
    """Kill a process that :meth:`Host.popen` started, and what it runs as root on this machine."""
    try:
        process.kill()
    except PermissionError:  # some versions of sudo are wholly root's
        subprocess.run(["sudo", "-n", "kill", "-KILL", str(process.pid)], check=False)


@cache
def _sockets() -> Path:
    """Return the folder of ssh's sockets, for this user only: a socket gives access to its host."""
    folder = Path(tempfile.gettempdir()) / f"benchlab-ssh-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise TargetError(f"{folder} belongs to another user; it must be yours or not there")
    return folder


def _last_line(errors: bytes, code: int) -> str:
    """Return why a program failed: the last line of its error output, or its exit code.

    sudo warns in each call if the host's name does not resolve, and then goes on.
    """
    said = [
        line
        for line in errors.decode(errors="replace").strip().splitlines()
        if not line.startswith("sudo: unable to resolve host")
    ]
    return said[-1] if said else f"exit code {code}"


def _unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]
