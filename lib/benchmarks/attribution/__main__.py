"""Hold attribution to runs whose bottleneck was made on purpose: `make bench-attribution`.

Prints what each method says of every case, and its confusion matrix. ``--keep FOLDER`` also keeps the
captures, as the tests have them; names of cases as arguments run only those.
"""

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
from benchlab import ingest, repo
from benchlab.attribution import RESOURCES, UNKNOWN
from benchlab.attribution import binding as bound_by
from benchlab.capture import Record
from benchlab.repo import Repo
from cases import CASES, Case
from rich.console import Console
from rich.table import Table
from run import keep, run

#: Share of the cases that a method has to tell right.
AIM = 0.95


def by_evidence(repo: Repo, record: Record) -> tuple[str, str]:
    """What the captures say, with the evidence."""
    found: pl.DataFrame = ingest.rows(repo.raw / record.run_id)["attribution"]
    answer = bound_by(found)
    rows = found.filter(pl.col("resource") == answer)
    return answer, rows["evidence"][0] if len(rows) else found["evidence"][0]


#: Method → what it says of a run, and why.
METHODS: dict[str, Callable[[Repo, Record], tuple[str, str]]] = {"evidence": by_evidence}


def main() -> None:
    """Run the set and print both tables; exit code 1 if a method misses the aim."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these (default: all)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the captures there")
    asked = parser.parse_args()
    if unknown := set(asked.cases) - {case.name for case in CASES}:
        parser.error(f"no case {', '.join(sorted(unknown))}")
    chosen = [case for case in CASES if not asked.cases or case.name in asked.cases]
    console = Console()
    checkout = repo.find()
    told: dict[str, list[tuple[Case, str]]] = {method: [] for method in METHODS}
    with tempfile.TemporaryDirectory(prefix="benchlab-attribution-") as data:
        # runs of the labelled set must not count as results of a study
        os.environ["BENCHLAB_DATA"] = data
        for case, record in run(checkout, chosen, console):
            if record.status != "ok":
                console.print(f"[red]{case.name}: {record.error}[/red]")
            for method, ask in METHODS.items():
                answer, why = (
                    ask(checkout, record) if record.status == "ok" else (UNKNOWN, "the run failed")
                )
                told[method].append((case, answer))
                mark = "right" if answer == case.label else f"WRONG, {case.label}"
                console.print(
                    f"{case.name}, {method}: {answer} ({mark}): {why}",
                    highlight=False,
                    soft_wrap=True,
                )
            if asked.keep and record.status == "ok":
                keep(checkout, case, record, asked.keep)
    missed = False
    for method, answers in told.items():
        right = sum(answer == case.label for case, answer in answers)
        console.print(_confusion(method, answers))
        console.print(f"{method}: {right} of {len(answers)} right ({right / len(answers):.0%})")
        missed |= right < AIM * len(answers)
    raise SystemExit(missed)


def _confusion(method: str, answers: list[tuple[Case, str]]) -> Table:
    counts = Counter((case.label, answer) for case, answer in answers)
    named = {name for pair in counts for name in pair}
    names = [name for name in (*RESOURCES, UNKNOWN) if name in named]
    table = Table(title=f"{method}: rows are labels, columns are answers")
    table.add_column("label")
    for number, _ in enumerate(names, start=1):
        table.add_column(str(number), justify="right")
    for number, label in enumerate(names, start=1):
        cells = [str(counts[label, answer] or "·") for answer in names]
        table.add_row(f"{number} {label}", *cells)
    return table


if __name__ == "__main__":
    main()
