"""Without root: JupyterLab, the notebooks and every command, as a conda, venv or Binder user has them.

Such a user owns the checkout or may only read it, cannot become root and reaches no engine. Under root
the tests turn into ``nobody``, with an environment of the locked packages that it may read; under
anybody else they are that user.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT, repository_files, wait_for

NOTEBOOKS = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("notebooks/analysis/*.ipynb"), *ROOT.glob("notebooks/*.ipynb")]
)

#: A sudo as it answers those who may not use it.
_SUDO = "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"

_NEEDS_ROOT = (
    "benchlab: localhost: root is needed, directly or by sudo without a password"
    " (sudo: a password is required)\n"
)


@dataclass(frozen=True)
class User:
    """A user without root, in a checkout."""

    prefix: tuple[str, ...]
    """Of every command, to be this user."""
    environment: dict[str, str]
    checkout: Path

    def start(self, *command: str, **streams) -> subprocess.Popen:
        """Start a command in the checkout."""
        return subprocess.Popen(
            [*self.prefix, *command],
            cwd=self.checkout,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            text=True,
            **streams,
        )

    def run(self, *command: str) -> tuple[int, str, str]:
        """Run a command in the checkout to its end; return its exit code, output and error output."""
        process = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that any user may enter, other than pytest's own."""
    with tempfile.TemporaryDirectory(prefix="benchlab-unprivileged-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def owner(folder: Path) -> User:
    """A user who owns a checkout as it is cloned."""
    checkout, home, sudo = folder / "checkout", folder / "home", folder / "bin" / "sudo"
    for path in repository_files():
        copy = checkout / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    home.mkdir()
    sudo.parent.mkdir()
    sudo.write_text(_SUDO)
    sudo.chmod(0o755)
    prefix, programs = (), Path(sys.executable).parent
    if os.geteuid() == 0:
        for path in (home, checkout, *checkout.rglob("*")):
            shutil.chown(path, "nobody", "nogroup")
        prefix = (
            "setpriv",
            "--reuid=nobody",
            "--regid=nogroup",
            "--clear-groups",
            "--no-new-privs",
        )
        programs = _environment(folder / "venv", checkout)
    environment = {
        "HOME": str(home),
        "PATH": f"{sudo.parent}:{programs}:/usr/bin:/bin",
        "PYTHONPATH": str(checkout / "lib"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "LANG": "C.UTF-8",
        "COLUMNS": "300",
    }
    return User(prefix, environment, checkout)


@pytest.fixture(scope="module")
def reader(owner: User, folder: Path) -> User:
    """The same user with a checkout that may only be read."""
    checkout = folder / "read-only"
    shutil.copytree(owner.checkout, checkout)
    shutil.rmtree(checkout / "data" / "store", ignore_errors=True)
    for path in (checkout, *checkout.rglob("*")):  # root's, or else this user's own
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield replace(
        owner,
        checkout=checkout,
        environment=owner.environment | {"PYTHONPATH": str(checkout / "lib")},
    )
    for path in (checkout, *checkout.rglob("*")):
        path.chmod(0o755)


def _environment(venv: Path, checkout: Path) -> Path:
    """Make an environment of the locked packages; return where its programs are.

    Of the system's Python: that of this process may lie where only root gets to.
    """
    uv, python = Path(sys.executable).with_name("uv"), venv / "bin" / "python"
    install = [uv, "pip", "install", "-q", "--python", python]
    for command in (
        [uv, "venv", "-q", "--python", "/usr/bin/python3", venv],
        [*install, "--require-hashes", "-r", checkout / "requirements.lock"],
        [*install, "--no-deps", "--no-build-isolation", "-e", checkout],
    ):
        subprocess.run(command, check=True)
    return python.parent


def test_the_user_is_nobody_special(owner):
    code, out, _ = owner.run("sh", "-c", "id -u; grep CapEff /proc/self/status; sudo -n true")
    uid, capabilities = out.splitlines()
    assert code == 1
    assert int(uid) != 0
    assert int(capabilities.split()[1], 16) == 0


@pytest.mark.parametrize("whose", ["owner", "reader"])
def test_the_reference_opens_with_one_import(whose, request):
    script = "import benchlab; print(len(benchlab.open('reference').runs(status='ok')))"
    user = request.getfixturevalue(whose)
    code, out, err = user.run("python", "-c", script)
    assert (code, err) == (0, "")
    assert int(out) > 100


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(owner, name):
    _executes(owner, name)


def test_a_notebook_runs_in_a_checkout_that_may_only_be_read(reader):
    _executes(reader, "notebooks/explore.ipynb")


def _executes(user: User, name: str) -> None:
    executed = Path(user.environment["HOME"]) / f"{user.checkout.name}-{Path(name).name}"
    code, _, err = user.run("jupyter", "execute", name, f"--output={executed}")
    assert code == 0, err
    cells = [cell for cell in nbformat.read(executed, 4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert sum(bool(cell.outputs) for cell in cells) > len(cells) / 2


def test_jupyterlab_starts(owner):
    runtime = Path(owner.environment["JUPYTER_RUNTIME_DIR"])
    command = ("jupyter", "lab", "--no-browser", "--port=0", "notebooks/explore.ipynb")
    server = owner.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:

        def written() -> dict | None:
            assert server.poll() is None
            for path in runtime.glob("jpserver-*.json"):
                with suppress(json.JSONDecodeError):  # it is being written
                    return json.loads(path.read_text())
            return None

        there = wait_for(written, "JupyterLab")
        assert there["hostname"] == "localhost"

        def status(path: str) -> int | None:
            request = urllib.request.Request(
                there["url"] + path, headers={"Authorization": f"token {there['token']}"}
            )
            # it says where it is before it listens
            with suppress(urllib.error.URLError):
                return urllib.request.urlopen(request, timeout=60).status
            return None

        wait_for(lambda: status("api/status"), "JupyterLab to answer")
        for path in ("api/status", "api/contents/explore.ipynb?content=0", "lab"):
            assert status(path) == 200
    finally:
        server.terminate()
        server.wait(60)


#: Command → exit code and a part of what it says, on standard output or, of an error, as one line.
COMMANDS = {
    "--help": (0, ""),
    "plan postgres_vs_tidb": (0, " runs, "),
    "verdicts tpcc": (0, " not testable here\n"),
    "status": (0, ""),
    "noise spec_tree": (1, "run `benchlab run spec_tree`\n"),
    "paper": (1, "benchlab: no run counts; run `benchlab run`\n"),
    "run postgres_vs_tidb": (1, _NEEDS_ROOT),
    "teardown": (1, _NEEDS_ROOT),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works_or_says_in_one_line_why_not(owner, command):
    code, said = COMMANDS[command]
    assert said in _answers(owner, command, code)


def test_the_doctor_names_what_is_missing(owner):
    assert "root is needed, directly or by sudo" in _answers(owner, "doctor", 0)


def test_a_checkout_that_may_only_be_read_says_so(reader):
    assert "data/store cannot be written: Permission denied" in _answers(reader, "verdicts tpcc", 1)
    assert _answers(reader, "plan postgres_vs_tidb", 0)


def test_data_may_lie_elsewhere(reader):
    data = {"BENCHLAB_DATA": f"{reader.environment['HOME']}/data"}
    elsewhere = replace(reader, environment=reader.environment | data)
    assert "tpcc: " in _answers(elsewhere, "verdicts tpcc", 0)


def _answers(user: User, command: str, expected: int) -> str:
    code, out, err = user.run("benchlab", *command.split())
    assert code == expected, err
    assert err.count("\n") == expected  # one line of an error, and no traceback
    return err if expected else out
