"""Make the reference result set, and what is stored of it: notebooks' outputs, the README's picture."""

import shutil
from pathlib import Path

from rich.console import Console

from benchlab import notebooks, store
from benchlab.claims import stored
from benchlab.repo import Repo
from benchlab.report import charts, points, theme
from benchlab.store import results

#: The picture on the README's first page.
PICTURE = Path("paper") / "write_only.svg"


def make(repo: Repo, console: Console) -> None:
    """Replace ``data/reference`` by the largest profile's runs of this checkout's store.

    The raw captures are left out for their size; everything derived from them is there. The analysis
    notebooks are executed on it in place, so that nbval holds them to it.

    Raises:
        StoreError: the store has no run that counts.
    """
    with store.open_store(repo.store) as own:
        stored.write(repo, own)
        profile = results.largest_profile(own, "postgres_vs_tidb")
        shutil.rmtree(repo.reference, ignore_errors=True)
        own.export(repo.reference, profile, raw=False)
    _draw(repo, profile)
    for path in [
        *sorted((repo.notebooks / "analysis").glob("*.ipynb")),
        repo.notebooks / "explore.ipynb",
    ]:
        with console.status(f"executing {path.name}"):
            notebooks.execute_in_place(path)
    console.print(f"{repo.reference}: profile {profile}")


def _draw(repo: Repo, profile: str) -> None:
    with store.open_any(repo.reference) as reference, theme.enable():
        rerun = results.open_rerun(repo, reference, "postgres_vs_tidb", profile)
        measured = points.points(rerun).filter(envelope="main")
        charts.throughput(measured, "oltp_write_only").save(repo.root / PICTURE)
