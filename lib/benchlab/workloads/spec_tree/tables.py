"""Load the tables in bulk, check an engine's answers, and describe the tables to the driver."""

import json
from collections.abc import Mapping
from pathlib import Path

from benchlab.engines import Engine
from benchlab.errors import DatasetError
from benchlab.study import Scalar, Workload
from benchlab.target.session import Session
from benchlab.workloads.base import Tables
from benchlab.workloads.spec_tree import answers, generate, query, schema
from benchlab.workloads.spec_tree.dataset import SpecTree

#: Number of queries that every engine answers before anything is timed.
CHECKED = 1000

#: Number of different parameters that a load draws from.
_PARAMETERS = 10_000


class SpecTreeTables(Tables[SpecTree]):
    """See :class:`~benchlab.workloads.base.Tables`."""

    def load(self, session: Session, jobs: int) -> None:
        """See :meth:`Tables.load`; one operator at a time, the indexes last."""
        del jobs  # 71,000 rows
        engine = session.engine
        for statement in schema.tables(engine.protocol, self.dataset):
            engine.query(statement)
        for tree in generate.trees(self.dataset):
            for table, rows in (
                ("specification", generate.specifications(self.dataset, tree)),
                ("spec_relationship", generate.relationships(self.dataset, tree)),
            ):
                engine.copy(table, rows, schema.IDS[table])
        for statement in schema.indexes():
            engine.query(statement)

    def check(self, engine: Engine, kept: Path) -> None:
        """See :meth:`Tables.check`: compares :data:`CHECKED` answers with the generated rows."""
        expected = answers.expected(self.dataset)
        with engine.asking() as ask:
            for parameters in query.parameters(self.dataset, CHECKED):
                generated = expected(parameters)
                statement = query.filled_in(engine.protocol, parameters)
                answered = query.canonical(ask(statement))
                if answered != generated:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    both = {"parameters": parameters, "generated": generated, "answered": answered}
                    kept.write_text(json.dumps(both, indent=1))
                    raise DatasetError(
                        f"{engine.name} answers {len(answered)} rows for {', '.join(parameters)},"
                        f" other than the {len(generated)} that were loaded: see {kept}"
                    )

    def options(self) -> Mapping[str, Scalar]:
        """See :meth:`Tables.options`."""
        names = {"statement": "statement.sql", "parameters": "parameters.tsv"}
        return {option: str(self.folder / name) for option, name in names.items()}

    def script(self, name: str) -> str:
        """See :meth:`Tables.script`; our own, beside this module."""
        return str(self.folder / f"{name}.lua")

    def files(self, engine: Engine) -> Mapping[str, bytes]:
        """See :meth:`Tables.files`."""
        lines = ("\t".join(one) for one in query.parameters(self.dataset, _PARAMETERS))
        return {
            "spec_tree.lua": Path(__file__).with_name("spec_tree.lua").read_bytes(),
            "statement.sql": query.statement(engine.protocol).encode() + b"\n",
            "parameters.tsv": "".join(f"{line}\n" for line in lines).encode(),
        }

    def example_query(self, engine: Engine, workload: Workload) -> str:
        """See :meth:`Tables.example_query`."""
        (first,) = query.parameters(self.dataset, 1)
        hint = str(workload.options.get("hint", ""))
        return query.filled_in(engine.protocol, first, hint)


TABLES = SpecTreeTables
