"""A PostgreSQL that nobody provisioned: the installed server, with data and a port of its own."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg
from conftest import ETC, unused_port, wait_for

USER = "nobody"


class ThrowawayPostgres:
    """A server of an unprivileged user; it ends with the block, or with these tests."""

    owner = "owner"

    def __init__(self, folder: Path, access: str = "host all owner 127.0.0.1/32 trust\n"):
        """Make its data and start it.

        Args:
            folder: an empty folder that other users may enter.
            access: its pg_hba.conf.
        """
        self.folder = folder
        variants = json.loads((ETC / "engines/postgres.json").read_text())["variants"]
        self._programs = Path(variants["default"]["services"][0]["start"][0]).parent
        self._as_user = ("setpriv", "--pdeathsig", "KILL", f"--reuid={USER}", "--clear-groups")
        self.port = unused_port()
        shutil.chown(folder, USER)
        initdb = ("initdb", "-D", folder / "data", "-U", self.owner, "--auth=trust", "--no-sync")
        subprocess.run(self._command(*initdb), cwd="/", capture_output=True, check=True)
        (folder / "data/pg_hba.conf").write_text(access)
        self.start()

    def __enter__(self) -> "ThrowawayPostgres":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, also after :meth:`kill`."""
        settings = f"-c port={self.port} -c unix_socket_directories= -c listen_addresses=127.0.0.1"
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                self._command("postgres", "-D", self.folder / "data", *settings.split()),
                cwd="/",
                stdout=log,
                stderr=log,
            )
        wait_for(self._answers, "PostgreSQL")

    def run(self, statement: str) -> list[tuple]:
        """Run a statement as the server's owner; return its rows."""
        where = f"postgresql://{self.owner}@127.0.0.1:{self.port}/postgres"
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """Kill all of its processes at once, if it runs."""
        if self.process.poll() is not None:
            return  # its id may be another process's by now
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def _command(self, program: str, *arguments: object) -> list[object]:
        return [*self._as_user, self._programs / program, *arguments]

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with suppress(psycopg.OperationalError):
            return bool(self.run("SELECT 1"))
        return False
