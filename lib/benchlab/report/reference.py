"""Make the reference result set and what depends on it: notebook outputs, a picture, simulations."""

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import polars as pl
from rich.console import Console

from benchlab import notebooks, store, study
from benchlab.claims import reruns, stored
from benchlab.errors import NoRuns
from benchlab.repo import Repo
from benchlab.report import charts, points, theme
from benchlab.simulation import stored as simulation
from benchlab.store import Store, export, ingest, results
from benchlab.study import DEFAULT_ENVELOPE

#: The picture on the README's first page.
PICTURE = Path("paper") / "write_only.svg"

#: Study and workload that the picture shows.
_DRAWN = ("postgres_vs_tidb", "oltp_write_only")


def make(repo: Repo, console: Console) -> None:
    """Replace ``data/reference`` by runs of this checkout's store, then :func:`renew` the rest.

    The verdicts of the reruns that are replaced are recorded; see :mod:`benchlab.claims.reruns`.

    Raises:
        NoRuns: the store has no counted run.
    """
    with store.open_store(repo.store) as own:
        stored.write(repo, own)
        reruns.record_replaced(repo, own)
        profiles = take(own, repo.reference)
    renew(repo, console, profiles)
    for name, profile in profiles.items():
        console.print(f"{repo.reference}: {name}, profile {profile}")


def renew(repo: Repo, console: Console, measured: Collection[str] | None = None) -> None:
    """Make again what depends on the runs of the reference.

    That is attribution, gate, verdicts, a picture, notebook outputs and simulations. The analysis
    notebooks are executed on the reference in place, so that nbval compares them with it. What the
    paper says about intervals and verdicts is simulated from the reference's spreads, which takes
    minutes per study.

    Args:
        repo: the checkout.
        console: shows the progress.
        measured: only these studies are simulated; ``None``: all studies, and the gate.
    """
    conclude_again(repo, repo.reference)
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
    """Replace a reference result set by the store's runs; return study → profile of these runs.

    The runs of a study are those of its largest profile. A study without a counted run in the store
    stays as it was.

    Raises:
        NoRuns: the store has no counted run; the folder stays as it is.
    """
    profiles = {}
    for name in results.studies(own):
        with suppress(NoRuns):  # none of its runs counts
            profiles[name] = results.largest_profile(own, name)
    if not profiles:
        raise NoRuns("no run counts: `benchlab status` says why")
    draft = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    own.export(draft, profiles)
    export.keep(folder, draft, measured=profiles)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
    return profiles


def conclude_again(repo: Repo, folder: Path) -> None:
    """Make attribution and gate of all runs of a reference with this code, from what it has of them."""
    with store.open_any(folder) as shipped:
        loads = shipped.runs(status="ok").drop_nulls("measured_s")
        of_runs = {
            table: shipped.sql(
                f'FROM "{table}" SEMI JOIN chosen USING (run_id) ORDER BY ALL',
                chosen=loads["run_id"],
            ).partition_by("run_id", as_dict=True)
            for table in ingest.CONCLUDED_FROM
        }
    found = []
    for run_id, name, workload in loads.select("run_id", "study", "workload").iter_rows():
        tables = {table: runs[run_id,] for table, runs in of_runs.items() if (run_id,) in runs}
        found.append(ingest.concluded(tables, study.load(repo, name).workloads[workload]))
    for table in ("attribution", "gate"):
        export.replace_of_runs(
            folder, table, pl.concat(one[table] for one in found if table in one)
        )


def judge_again(repo: Repo, folder: Path) -> None:
    """Judge all studies of a reference with this code, also those that were not measured again."""
    with store.open_any(folder) as shipped:
        names = results.studies(shipped)
        verdicts = stored.verdicts(repo, shipped, names)
    export.replace(folder, "claim", stored.claims(repo, names))
    export.replace(folder, "verdict", verdicts)


def _draw(repo: Repo) -> None:
    name, workload = _DRAWN
    with store.open_any(repo.reference) as reference, theme.enable():
        rerun = results.open_rerun(repo, reference, name)
        measured = points.points(rerun).filter(envelope=DEFAULT_ENVELOPE)
        charts.throughput(rerun.study, measured, workload).save(repo.root / PICTURE)
