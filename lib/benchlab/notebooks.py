"""Execute notebooks: with parameters into a copy, or in place."""

from pathlib import Path
from typing import Any, TextIO

import nbformat
import papermill
from nbclient import NotebookClient

#: A kernel warns of its own port at every start and calls its shutdown an error.
_ARGUMENTS = ["--log-level=CRITICAL"]


def execute_copy(
    template: Path,
    executed: Path,
    parameters: dict[str, Any],
    root: Path,
    stdout: TextIO | None = None,
) -> None:
    """Execute a notebook with parameters through papermill; the executed copy is kept.

    Args:
        template: the notebook; it stays as it is.
        executed: where the copy goes.
        parameters: replace the defaults of the cell tagged ``parameters``.
        root: working directory of the kernel.
        stdout: gets what the cells print, as they print it.

    Raises:
        papermill.PapermillExecutionError: a cell failed; the copy shows where.
        nbclient.exceptions.DeadKernelError: the kernel died.
    """
    executed.parent.mkdir(parents=True, exist_ok=True)
    papermill.execute_notebook(
        template,
        executed,
        parameters=parameters,
        cwd=root,
        kernel_name="python3",
        progress_bar=False,
        stdout_file=stdout,
        extra_arguments=_ARGUMENTS,
    )


def execute_in_place(path: Path) -> None:
    """Execute a notebook with the defaults of its parameters cell, and store its outputs in it."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        extra_arguments=_ARGUMENTS,
    ).execute()
    nbformat.write(notebook, path)
