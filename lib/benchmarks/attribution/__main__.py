"""Hold attribution to runs whose bottleneck was made on purpose: `make bench-attribution`.

It prints each method's answer for every case, and the method's confusion matrix. A case that an
intervention leaves unclear is run again with twice the blocks, and the second answer counts. Names of
cases as arguments run only those cases, ``--method`` only that method. ``--keep FOLDER`` keeps the
files of each run that its method reads, in the form that the tests use.

The runs are stored in ``data/attribution`` and are not repeated: an interrupted bench continues, and
changed rules are tested on the same runs. Nothing else may run on the machine.
"""

import argparse
import os
from collections import Counter, defaultdict
from pathlib import Path

from benchlab import repo
from benchlab.repo import Repo
from benchlab.study.resources import RESOURCES, UNKNOWN
from cases import CASES, Case
from methods import METHODS, Method
from rich.console import Console
from rich.progress import track
from rich.table import Table
from run import Task, keep, run

#: Share of the cases that a method has to decide correctly.
AIM = 0.95


def main() -> None:
    """Run the set and print the methods' tables; exit code 1 if one misses the aim."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these (default: all)")
    parser.add_argument(
        "--method", choices=[method.name for method in METHODS], help="only this (default: both)"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep there what they read")
    options = parser.parse_args()
    if unknown := set(options.cases) - {case.name for case in CASES}:
        parser.error(f"no case {', '.join(sorted(unknown))}")
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    console = Console()
    checkout = repo.find()
    methods = [method for method in METHODS if options.method in (None, method.name)]
    # runs of the labelled set must not count as results of a study
    os.environ["BENCHLAB_DATA"] = str(checkout.data / "attribution")
    tasks = [(case, method) for case in chosen for method in methods]
    decided = _held(checkout, tasks, options.keep, console)
    missed = False
    for method in methods:
        answers = decided[method.name]
        right = sum(answer == method.expected(case.label) for case, answer in answers)
        console.print(_confusion(method, answers))
        console.print(
            f"{method.name}: {right} of {len(answers)} right ({right / len(answers):.0%})"
        )
        missed |= right < AIM * len(answers)
    raise SystemExit(missed)


def _held(
    checkout: Repo, tasks: list[Task], kept: Path | None, console: Console
) -> dict[str, list[tuple[Case, str]]]:
    """Return every method's answers for its cases; print each answer as soon as it is known."""
    decided = defaultdict(list)
    while tasks:
        unclear = []
        records = run(checkout, tasks, console)
        for case, method, record in track(records, "labelled runs", len(tasks), console=console):
            if record.status == "ok":
                answer, why = method.tell(checkout, record)
                if kept:
                    archive = kept / method.folder / f"{case.name}.tar.xz"
                    keep(checkout.raw / record.run_id, method.captures, archive)
            else:
                answer, why = UNKNOWN, f"the run failed: {record.error}"
            expected = method.expected(case.label)
            mark = "right" if answer == expected else f"WRONG, {expected}"
            if answer == UNKNOWN and record.status == "ok" and method.again:
                unclear.append((case, method.again))
                mark = "looked at again, for longer"
            else:
                decided[method.name].append((case, answer))
            console.print(
                f"{case.name}, {method.name}: {answer} ({mark}): {why}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        tasks = unclear
    return decided


def _confusion(method: Method, decided: list[tuple[Case, str]]) -> Table:
    """Return a table with a row per label and a column per answer; right answers are in brackets."""
    counts = Counter((case.label, answer) for case, answer in decided)
    columns = [name for name in method.answers if name in {answer for _, answer in counts}]
    legend = ", ".join(f"{number} {name}" for number, name in enumerate(columns, start=1))
    table = Table(title=f"{method.name}: labels and answers", caption=legend, padding=0)
    table.add_column("label", no_wrap=True)
    for number, _ in enumerate(columns, start=1):
        table.add_column(str(number), justify="right")
    for label in [name for name in RESOURCES if name in {label for label, _ in counts}]:
        cells = []
        for answer in columns:
            count = str(counts[label, answer] or "·")
            cells.append(f"({count})" if answer == method.expected(label) else count)
        table.add_row(label, *cells)
    return table


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("stopped; the runs that ended are kept") from None
