"""Make the reference result set, and what rests on it: notebooks' outputs, a picture, simulations."""

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from benchlab import notebooks, store
from benchlab.claims import stored
from benchlab.errors import StoreError
from benchlab.repo import Repo
from benchlab.report import charts, points, theme
from benchlab.simulation import stored as simulation
from benchlab.store import Store, export, results

#: The picture on the README's first page.
PICTURE = Path("paper") / "write_only.svg"

#: What it shows: study and workload.
_DRAWN = ("postgres_vs_tidb", "oltp_write_only")


def make(repo: Repo, console: Console) -> None:
    """Replace ``data/reference`` by runs of this checkout's store, and :func:`renew` what rests on it.

    Raises:
        StoreError: the store has no run that counts.
    """
    with store.open_store(repo.store) as own:
        stored.write(repo, own)
        profiles = take(own, repo.reference)
    renew(repo, console, profiles)
    for name, profile in profiles.items():
        console.print(f"{repo.reference}: {name}, profile {profile}")


def renew(repo: Repo, console: Console, measured: Collection[str] | None = None) -> None:
    """Make anew what rests on the reference: verdicts, picture, notebooks, simulations.

    The analysis notebooks are executed on it in place, so that nbval holds them to it. What the paper
    says of intervals and verdicts is simulated from its spreads, which takes minutes a study.

    Args:
        repo: the checkout.
        console: for people who watch.
        measured: studies of which alone to simulate; ``None``: all, and the gate.
    """
    judge_again(repo, repo.reference)
    _draw(repo)
    for path in [
        *sorted((repo.notebooks / "analysis").glob("*.ipynb")),
        repo.notebooks / "explore.ipynb",
    ]:
        with console.status(f"executing {path.name}"):
            notebooks.execute_in_place(path)
    with console.status("simulating intervals, verdicts and the gate"):
        simulation.simulate(repo, measured)


def take(own: Store, folder: Path) -> dict[str, str]:
    """Replace a reference result set by each study's runs of its largest profile; return which it is.

    A study of which the store has no run that counts stays as it was.

    Raises:
        StoreError: the store has no run that counts; the folder stays as it is.
    """
    profiles = {}
    for name in results.studies(own):
        with suppress(StoreError):  # none of its runs counts
            profiles[name] = results.largest_profile(own, name)
    if not profiles:
        raise StoreError("no run counts: `benchlab status` says why")
    draft = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    own.export(draft, profiles)
    export.keep(folder, draft, measured=profiles)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
    return profiles


def judge_again(repo: Repo, folder: Path) -> None:
    """Judge all studies of a reference: those that were not measured again, too, as this code does."""
    with store.open_any(folder) as shipped:
        verdicts = stored.verdicts(repo, shipped, results.studies(shipped))
    export.replace(folder, "verdict", verdicts)


def _draw(repo: Repo) -> None:
    name, workload = _DRAWN
    with store.open_any(repo.reference) as reference, theme.enable():
        rerun = results.open_rerun(repo, reference, name)
        measured = points.points(rerun).filter(envelope="main")
        charts.throughput(rerun.study, measured, workload).save(repo.root / PICTURE)
