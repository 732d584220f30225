"""Execute notebooks: with parameters into a copy, or in place."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from traitlets.config import Config

from benchlab.errors import NotebookError

#: A kernel logs an error at its shutdown.
_ARGUMENTS = ["--log-level=CRITICAL"]

_START_TIMEOUT_S = 300


def execute_copy(
    template: Path,
    executed: Path,
    parameters: dict[str, Any],
    root: Path,
    stdout: TextIO | None = None,
) -> None:
    """Execute a notebook with parameters through papermill, and keep the executed copy.

    Args:
        template: the notebook; it is not changed.
        executed: path of the copy.
        parameters: replace the defaults of the cell tagged ``parameters``.
        root: working directory of the kernel.
        stdout: receives what the cells print, while they run.

    Raises:
        NotebookError: a cell failed, the kernel died or did not start, or the copy cannot be written.
    """
    # the import takes two seconds, and most commands do not need it
    import papermill

    executed.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _sockets() as config:
            papermill.execute_notebook(
                template,
                executed,
                parameters=parameters,
                cwd=root,
                kernel_name="python3",
                progress_bar=False,
                stdout_file=stdout,
                extra_arguments=_ARGUMENTS,
                # a dataset may be copied meanwhile
                start_timeout=_START_TIMEOUT_S,
                # for Ctrl-C: otherwise the running cell would continue for seconds
                shutdown_kernel="immediate",
                config=config,
            )
    except KeyboardInterrupt:
        # the kernel ends, too; the task that still waits for it would print an error at exit
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise
    # RuntimeError: the kernel died, or did not start; OSError: the copy cannot be written
    except (papermill.PapermillExecutionError, RuntimeError, OSError) as error:
        cause = getattr(error, "evalue", None) or error
        raise NotebookError(f"{template.name} broke off: {' '.join(str(cause).split())}") from error


def execute_in_place(path: Path) -> None:
    """Execute a notebook with the defaults of its parameters cell, and store its outputs in it."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with _sockets() as config:
        NotebookClient(
            notebook,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
            record_timing=False,
            extra_arguments=_ARGUMENTS,
            config=config,
        ).execute()
    nbformat.write(notebook, path)


@contextmanager
def _sockets() -> Iterator[Config]:
    """Let the kernel be reached through sockets in a folder of its own.

    A TCP port that was free can be taken before the kernel binds it, for example by a connection of an
    engine's server. The client of such a kernel waits for its heartbeat forever.
    """
    with TemporaryDirectory(prefix="benchlab-kernel-") as folder:
        yield Config(
            KernelManager={"transport": "ipc", "connection_file": f"{folder}/connection.json"}
        )
