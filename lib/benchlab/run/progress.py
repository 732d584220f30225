"""Progress of a sweep: one line per finished run, and a bar with the current step and the time left."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

#: Prefix of the run notebook's lines for finished runs; see :mod:`benchlab.run.batch`.
RUN_LINE = "run "


class SweepProgress:
    """A progress bar in seconds of planned work. A context manager, and a text stream for papermill.

    papermill writes the output of the notebook's cells to it. Lines of finished runs are shown and move
    the bar.
    """

    def __init__(self, console: Console, seconds: list[float]):
        """Create a bar for runs; ``seconds`` has the planned time of each, in their order."""
        self._console = console
        self._left = list(seconds)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
        )
        self._task = self._progress.add_task("starting", total=sum(self._left) or 1)

    def __enter__(self) -> "SweepProgress":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, text: str) -> None:
        """Show what is being done."""
        self._progress.update(self._task, description=text)

    def finished(self, line: str, runs: int = 1) -> None:
        """Show the line of finished runs and move the bar by their planned time."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        self._progress.advance(self._task, sum(self._left[:runs]))
        del self._left[:runs]

    def write(self, text: str) -> int:
        """Take output of a notebook cell; show its lines of finished runs."""
        for line in text.splitlines():
            if line.startswith(RUN_LINE):
                self.finished(line.removeprefix(RUN_LINE))
        return len(text)

    def flush(self) -> None:
        """Do nothing: no text is buffered."""
