"""Load the warehouses, check them, and describe them to the driver."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from benchlab.engines import Engine
from benchlab.errors import DatasetError
from benchlab.observers.outcomes import Outcome
from benchlab.study import Scalar, Workload
from benchlab.target.session import Session
from benchlab.workloads.base import MESSAGE_LIMIT, Tables
from benchlab.workloads.tpcc import conditions, load, rules, verify
from benchlab.workloads.tpcc.dataset import Tpcc
from benchlab.workloads.tpcc.transactions import PROCEDURES, procedures_sql, view_sql


class Warehouses(Tables[Tpcc]):
    """See :class:`~benchlab.workloads.base.Tables`."""

    goes_on = True
    checks_after_load = True

    def load(self, session: Session, jobs: int) -> None:
        """See :meth:`Tables.load`."""
        load.load(session.engine, self.dataset, jobs, _free_bytes(session))

    def check(self, engine: Engine, kept: Path) -> None:
        """See :meth:`Tables.check`: the population (clause 4.3.3) and the consistency conditions."""
        with engine.asking() as ask:
            c_load = load.made_with(self.dataset).constants
            found = [*verify.outcomes(ask, self.dataset, c_load), *conditions.outcomes(ask)]
        failed = [one for one in found if not one.passed]
        if failed:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps([asdict(one) for one in found], indent=1))
            first = f"{failed[0].check}: {failed[0].answer}"[:MESSAGE_LIMIT]
            raise DatasetError(
                f"{engine.name}: {len(failed)} of {len(found)} checks of TPC-C's population failed,"
                f" the first: {first}; see {kept}"
            )

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """See :meth:`Tables.prepare`: the procedures of this checkout, or the view."""
        statements: list[str] = []
        if workload.options["form"] == PROCEDURES:
            statements += procedures_sql(engine.name)
        if workload.options["joined"]:
            statements += view_sql(engine.name)
        with engine.asking() as ask:
            for statement in statements:
                ask(statement)

    def options(self) -> Mapping[str, Scalar]:
        """See :meth:`Tables.options`: how many warehouses, and C-Run of NURand (clause 2.1.6.1).

        C-Run is drawn from the dataset's seed, so that all runs on the dataset ask for the same names.
        """
        c_load = load.made_with(self.dataset).constants
        c_run = rules.run_constants(self.dataset.seed, c_load)
        return {
            "warehouses": self.dataset.warehouses,
            **{name.replace("_", "-"): value for name, value in asdict(c_run).items()},
        }

    def outcomes(self, check: str, engine: Engine) -> Iterator[Outcome]:
        """See :meth:`Tables.outcomes`: ``consistency``, the conditions of clause 3.3.2."""
        if check == "consistency":
            return _consistency(engine)
        return super().outcomes(check, engine)

    def cardinalities(self, engine: Engine) -> Mapping[str, int]:
        """See :meth:`Tables.cardinalities`."""
        return load.cardinalities(engine)

    def outcomes_after_load(self, engine: Engine) -> Iterator[Outcome]:
        """See :meth:`Tables.outcomes_after_load`: the conditions of clause 3.3.2.

        Before a load they hold: a dataset is kept only if it has passed :meth:`check`.
        """
        return conditions.outcomes_after_a_load(engine.query)


def _consistency(engine: Engine) -> Iterator[Outcome]:
    with engine.asking() as ask:
        yield from conditions.outcomes(ask)


def _free_bytes(session: Session) -> int | None:
    """Return the free bytes on the disk of the server's data; ``None`` for an external server."""
    if session.found.external:
        return None
    return int(
        session.primary.run("df", "-B1", "--output=avail", str(session.data_dir)).split()[-1]
    )


TABLES = Warehouses
