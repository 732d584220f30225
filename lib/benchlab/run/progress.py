"""Progress of a sweep: one line per finished run, a bar with the time left, what is being done."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

#: What the run notebook's lines begin with; see :mod:`benchlab.run.batch`.
RUN_LINE = "run "


class SweepProgress:
    """A bar measured in seconds of planned work. A context manager; also a text stream for papermill.

    papermill hands on what the notebook's cells print; the lines that close a run are shown and
    move the bar.
    """

    def __init__(self, console: Console, seconds: list[float]):
        """Show a bar for runs that take so many seconds each, in their order."""
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
        """Say what is being done."""
        self._progress.update(self._task, description=text)

    def finished(self, line: str, runs: int = 1) -> None:
        """Show the line of finished runs and move the bar by what they were planned to take."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        self._progress.advance(self._task, sum(self._left[:runs]))
        del self._left[:runs]

    def write(self, text: str) -> int:
        """Take what a notebook cell printed."""
        for line in text.splitlines():
            if line.startswith(RUN_LINE):
                self.finished(line.removeprefix(RUN_LINE))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""
