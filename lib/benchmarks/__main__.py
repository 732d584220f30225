"""Measure benchlab itself, as ratios within one run: `make bench`.

The parts measure where the time of a rerun goes, what a sweep costs compared with a shell loop, what
the observers cost the engine that they watch, how much faster loads are than single INSERTs, what the
Lua driver costs compared with the query that it sends, and what queries cost in a store of 10,000 runs
and 10⁸ rows compared with a small one.

For TPC-C they measure how fast warehouses are loaded, how many terminals a core drives, and how much
CPU the application server takes.

A simulation shows how often intervals cover the truth, how many verdicts are wrong, how often two
reruns agree, and what the gate lets pass. Its results are kept in ``data/simulated`` for the paper.

Absolute times mean nothing on a shared machine, so both sides of a ratio are measured alternately on
the same one. Names of parts as arguments select these parts only.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import bulk_load
import coverage
import lua_driver
import observer_cost
import store_queries
import sweep_cost
import sysbench_load
import time_shares
import tpcc_load
import tpcc_terminals
import tpcc_was
from benchlab import repo, study
from benchlab.errors import ProvisionError
from benchlab.plan import Batch, Trial
from benchlab.repo import Repo
from benchlab.run import dataset, planning
from benchlab.run.planning import Selection
from benchlab.run.ready import ready
from benchlab.study import DEFAULT_ENVELOPE
from benchlab.target import Provisioned
from benchlab.target.session import Session
from rich.console import Console
from table import Row, table

SWEPT = Selection(
    "postgres_vs_tidb",
    profile="standard",
    engines=["postgres"],
    variants=["default"],
    workloads=["oltp_write_only"],
)
QUERIED = Selection(
    "spec_tree",
    profile="standard",
    engines=["postgres", "mysql", "mariadb"],
    variants=["tuned"],
    workloads=["spec_tree"],
)
TABLES = Selection(
    "postgres_vs_tidb",
    profile="smoke",
    engines=["postgres", "tidb"],
    variants=["default"],
    workloads=["oltp_point_select"],
)
TRACED = Selection(
    "remote_wal",
    profile="quick",
    engines=["remote_log"],
    variants=["local"],
    workloads=["oltp_insert"],
)
LOADED = Selection(
    "tpcc", profile="smoke", engines=["postgres"], variants=["default"], workloads=["tpcc_scaled"]
)


def main() -> None:
    """Measure on this machine and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(PARTS)}")
    parts = parser.parse_args().parts
    if unknown := set(parts) - PARTS.keys():
        parser.error(f"no part {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    console = Console()
    checkout = repo.find()
    # what is measured here is benchlab; its runs must not count as results of a study
    with tempfile.TemporaryDirectory(prefix="benchlab-bench-") as data:
        os.environ["BENCHLAB_DATA"] = data
        rows = []
        for name in parts or PARTS:
            try:
                for row in PARTS[name](checkout, console):
                    rows.append(row)  # rows before an engine that is not available stay
            except ProvisionError as error:
                console.print(f"{name}: {error}")
    console.print(table(rows))


def _time_shares(checkout: Repo, console: Console) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="benchlab-bench-") as folder:
        yield from time_shares.measure(checkout, Path(folder) / "clone")


def _sweep_cost(checkout: Repo, console: Console) -> Iterator[Row]:
    with _loaded(checkout, SWEPT, console) as (found, trials, _):
        spec = study.load(checkout, SWEPT.study)
        yield sweep_cost.measure(checkout, SWEPT, spec, found, trials, console)


def _observer_cost(checkout: Repo, console: Console) -> Iterator[Row]:
    with _loaded(checkout, SWEPT, console) as (_, trials, session):
        yield observer_cost.measure(session, trials[0], observer_cost.ALL)


def _trace_cost(checkout: Repo, console: Console) -> Iterator[Row]:
    with _loaded(checkout, TRACED, console, "remote_log") as (_, trials, session):
        yield observer_cost.measure(session, trials[0], observer_cost.trace(session))


def _bulk_load(checkout: Repo, console: Console) -> Iterator[Row]:
    for engine in QUERIED.engines:
        with _loaded(checkout, QUERIED, console, engine) as (_, trials, session):
            point = trials[0].point
            session.cold(point.variant, restore=f"empty-{point.init_key}")
            yield bulk_load.measure(session.engine, point.dataset)
            session.stop()


def _sysbench_load(checkout: Repo, console: Console) -> Iterator[Row]:
    for engine in TABLES.engines:
        with _loaded(checkout, TABLES, console, engine) as (_, trials, session):
            yield from sysbench_load.measure(session, trials[0].point, console)
            session.stop()


def _lua_driver(checkout: Repo, console: Console) -> Iterator[Row]:
    for engine in QUERIED.engines:
        with _loaded(checkout, QUERIED, console, engine) as (_, trials, session):
            yield from lua_driver.measure(session, trials[0].point)
            session.stop()


def _tpcc_load(checkout: Repo, console: Console) -> Iterator[Row]:
    with _loaded(checkout, LOADED, console) as (_, trials, session):
        point = trials[0].point
        session.cold(point.variant, restore=f"empty-{point.init_key}")
        yield from tpcc_load.measure(session.engine, console)


#: Parts in the order in which they are measured.
PARTS: dict[str, Callable[[Repo, Console], Iterator[Row]]] = {
    "time_shares": _time_shares,  # first: nothing is measured yet
    "sweep_cost": _sweep_cost,
    "observer_cost": _observer_cost,
    "trace_cost": _trace_cost,
    "bulk_load": _bulk_load,
    "sysbench_load": _sysbench_load,
    "lua_driver": _lua_driver,
    "tpcc_load": _tpcc_load,
    "tpcc_terminals": tpcc_terminals.measure,
    "tpcc_was": tpcc_was.measure,
    "store_queries": store_queries.measure,
    "coverage": coverage.measure,
}


@contextmanager
def _loaded(
    checkout: Repo, selection: Selection, console: Console, engine: str = "postgres"
) -> Iterator[tuple[Provisioned, list[Trial], Session]]:
    """Provide a target with a selection's dataset in an engine: target, trials and session."""

    spec = study.load_rerun(checkout, selection.study)

    def batches() -> list[Batch]:
        of_selection = selection.part(spec, planning.planned(checkout, selection, spec))
        return [
            one
            for one in of_selection
            if (one.engine, one.trial) == (engine, 1) and not (one.is_open or one.intervention)
        ]

    with ready(checkout, selection, spec, batches(), console) as found:
        if reason := found.engines[engine].refused:
            raise ProvisionError(f"{engine}: {reason}")
        # only now are versions known, and so the keys of datasets
        trials = [
            trial
            for batch in batches()
            for trial in batch.trials
            if trial.point.envelope.name == DEFAULT_ENVELOPE
        ]
        point, session = trials[0].point, Session(found, engine)
        session.bring_up()
        load_variant = spec.engines[engine].load_variant
        dataset.ensure(session, point, load_variant, checkout.answers, console.print)
        yield found, trials, session


if __name__ == "__main__":
    main()
