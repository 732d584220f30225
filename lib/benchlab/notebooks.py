"""Execute notebooks: with parameters into a copy, or in place."""

import logging
from pathlib import Path
from typing import Any, TextIO

from benchlab.errors import NotebookError

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
        NotebookError: a cell failed, or the kernel died.
    """
    # two seconds to import, which most commands do not need
    import papermill
    from nbclient.exceptions import DeadKernelError

    executed.parent.mkdir(parents=True, exist_ok=True)
    try:
        papermill.execute_notebook(
            template,
            executed,
            parameters=parameters,
            cwd=root,
            kernel_name="python3",
            progress_bar=False,
            stdout_file=stdout,
            extra_arguments=_ARGUMENTS,
            # on Ctrl-C, or the cell that is under way would go on for seconds
            shutdown_kernel="immediate",
        )
    except KeyboardInterrupt:
        # the kernel dies of it, too, and the task left waiting for it would print that at the end
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise
    except (papermill.PapermillExecutionError, DeadKernelError) as error:
        cause = getattr(error, "evalue", None) or error
        raise NotebookError(f"{template.name} broke off: {' '.join(str(cause).split())}") from error


def execute_in_place(path: Path) -> None:
    """Execute a notebook with the defaults of its parameters cell, and store its outputs in it."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        extra_arguments=_ARGUMENTS,
    ).execute()
    nbformat.write(notebook, path)
