"""Build the paper and the reader's copies of the analysis notebooks from the store."""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchlab import notebooks, store, study
from benchlab.claims import stored
from benchlab.claims.judge import Judgement
from benchlab.errors import BenchlabError, NoRuns
from benchlab.repo import Repo
from benchlab.report import manuscript, paper
from benchlab.report.paper import Built, charts
from benchlab.report.sections import Content
from benchlab.store import ingest, results


def publish(repo: Repo, console: Console) -> Built:
    """Write ``paper/build``: the paper in HTML and PDF, and every analysis notebook executed.

    Sections and notebooks are made in parallel, in as many processes as there are cores.

    Raises:
        NoRuns: there is no run to report.
        BenchlabError: the manuscript asks for something that does not exist, or a notebook fails.
    """
    for reason in ingest.ingest_new(repo).damaged.values():
        console.print(f"not in the paper, damaged: {reason}")
    with console.status("judging every claim"), store.open_store(repo.store) as own:
        names = manuscript.counted(repo, own)
        stored.write(repo, own)
        profiles = {name: results.largest_profile(own, name) for name in names}
    copies = _copies(repo, profiles)
    with _progress(console) as progress, _pool() as pool:
        bar = progress.add_task("building the paper", total=len(names) + len(copies) + 1)

        def begin(what: str, task: Callable, *arguments: Any) -> Future:
            def ended(_: Future) -> None:
                progress.update(bar, advance=1, description=what)

            future = pool.submit(_task, task, repo, *arguments)
            future.add_done_callback(ended)
            return future

        sections = {name: begin(f"section of {name}", _section, name) for name in names}
        executed = [begin(copy, _notebook, copy, *of_copy) for copy, of_copy in copies.items()]
        try:
            made = {name: section.result() for name, section in sections.items()}
            with store.open_store(repo.store) as own:
                content = manuscript.whole(repo, own, made)
            built = paper.build(
                repo.root / "paper" / "paper.md",
                content.context,
                content.figures,
                content.tables,
                repo.build,
            )
            progress.update(bar, advance=1, description="paper")
            for one in executed:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return built


def _pool() -> ProcessPoolExecutor:
    # not forked: a fork would copy the locks of Polars and DuckDB without the threads that hold them
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=spawn)


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)


def _task(task: Callable, *arguments: Any) -> Any:
    """Run a task in a process of the pool; turn its error into one that can be sent back."""
    try:
        return task(*arguments)
    except BenchlabError as error:
        raise BenchlabError(str(error)) from None


def _section(repo: Repo, name: str) -> tuple[Content, list[Judgement]]:
    """Make one study's section with its charts drawn."""
    with store.open_store(repo.store) as own, _reference(repo) as reference:
        content, judged = manuscript.section(repo, own, reference, name)
        content.figures = {
            figure: charts.draw(figure, chart) for figure, chart in content.figures.items()
        }
    return content, judged


def _copies(repo: Repo, profiles: dict[str, str]) -> dict[str, tuple[Path, dict[str, str]]]:
    """Return the name of every copy to execute → its notebook and parameters.

    Args:
        repo: the checkout.
        profiles: study → profile of the reader's runs. A study without its own analysis notebook gets
            a copy of the general one.
    """
    copies, left = {}, dict(profiles)
    for name, path in analyses(repo).items():
        if name in left:
            copies[path.name] = path, {"source": "store", "profile": left.pop(name)}
        elif name not in study.names(repo):
            copies[path.name] = path, {}  # about the published numbers, which need no runs
    for name, profile in left.items():
        given = {"study": name, "source": "store", "profile": profile}
        copies[f"{name.replace('_', '-')}.ipynb"] = repo.notebooks / "study.ipynb", given
    return copies


def analyses(repo: Repo) -> dict[str, Path]:
    """Return the subject of each analysis notebook (a study, or the published numbers) → its path."""
    return {
        path.stem.partition("-")[2].replace("-", "_"): path
        for path in sorted((repo.notebooks / "analysis").glob("*.ipynb"))
    }


def _notebook(repo: Repo, copy: str, template: Path, given: dict[str, str]) -> None:
    """Execute a copy of an analysis notebook on the reader's runs."""
    notebooks.execute_copy(template, repo.build / copy, given, repo.root)


def _reference(repo: Repo) -> AbstractContextManager[store.Store | None]:
    try:
        return store.open_any(repo.reference)
    except NoRuns:
        # a checkout without it, such as one in which the reference is being made
        return nullcontext()
