"""Build the paper and the reader's copies of the analysis notebooks from the store."""

from rich.console import Console

from benchlab import notebooks, store
from benchlab.claims import stored
from benchlab.errors import StoreError
from benchlab.repo import Repo
from benchlab.report import manuscript, paper
from benchlab.report.paper import Built
from benchlab.store import ingest


def publish(repo: Repo, console: Console) -> Built:
    """Write ``paper/build``: the paper in HTML and PDF, and every analysis notebook executed.

    Raises:
        StoreError: there is no run to report.
        BenchlabError: the manuscript asks for something that does not exist.
    """
    for reason in ingest.ingest_new(repo).damaged.values():
        console.print(f"not in the paper, damaged: {reason}")
    with store.open_store(repo.store) as own:
        stored.write(repo, own)
        reference = _reference(repo)
        with console.status("building the paper"):
            made = manuscript.content(repo, own, reference)
            built = paper.build(
                repo.root / "paper" / "paper.md",
                made.context,
                made.figures,
                made.tables,
                repo.build,
            )
    profiles = {one["study"]: one["profile"] for one in made.context["studies"]}
    for notebook in sorted((repo.notebooks / "analysis").glob("*.ipynb")):
        given = {}
        if "profile" in notebooks.parameters(
            notebook
        ):  # that of the published numbers reads no runs
            study = notebook.stem.partition("-")[2].replace("-", "_")
            if study not in profiles:
                continue
            given = {"source": "store", "profile": profiles[study]}
        with console.status(f"executing {notebook.name} on your own runs"):
            notebooks.execute_copy(notebook, repo.build / notebook.name, given, repo.root)
    return built


def _reference(repo: Repo) -> store.Store | None:
    try:
        return store.open_any(repo.reference)
    except StoreError:
        return None  # a checkout without it, as while the reference itself is being made
