"""The two tables in each dialect of SQL.

A dialect is that of a protocol: ``mysql`` or ``postgres``. PostgreSQL lacks some types of the article's
statements and has the nearest ones: ``bytea`` for ``binary(16)``, ``smallint`` for ``tinyint``.
"""

from benchlab.workloads.spec_tree import generate
from benchlab.workloads.spec_tree.dataset import SpecTree

_ID = {"mysql": "binary(16)", "postgres": "bytea"}
_SMALL = {"mysql": "tinyint", "postgres": "smallint"}

#: Columns that hold an id.
IDS = {
    "specification": ("entity_id", "revision_id"),
    "spec_relationship": ("parent_entity_id", "child_entity_id"),
}


def tables(dialect: str, dataset: SpecTree) -> list[str]:
    """Return the statements that make the empty tables, partitioned by operator if requested."""
    id_, small = _ID[dialect], _SMALL[dialect]
    columns = {
        "specification": (
            "start_time timestamp(0) NOT NULL, end_time timestamp(0) NOT NULL,"
            f" entity_id {id_} NOT NULL, revision_id {id_} NOT NULL,"
            f" operator_name varchar(64) NOT NULL, psr_type {small} NOT NULL,"
            " name varchar(64) NOT NULL, description varchar(2048) NOT NULL, properties json NOT NULL,"
            " PRIMARY KEY (operator_name, entity_id, revision_id)"
        ),
        "spec_relationship": (
            f"operator_name varchar(64) NOT NULL, parent_entity_id {id_} NOT NULL,"
            f" child_entity_id {id_} NOT NULL,"
            " PRIMARY KEY (operator_name, parent_entity_id, child_entity_id)"
        ),
    }
    statements = []
    for table, definition in columns.items():
        operators = generate.operator_names(dataset) if dataset.partitioned else []
        clause, further = _PARTITIONS[dialect](table, operators) if operators else ("", [])
        statements += [f"CREATE TABLE {table} ({definition}){clause}", *further]
    return statements


def indexes() -> list[str]:
    """Return the statements that make the article's indexes beside the primary keys."""
    return [
        "CREATE INDEX spec_relationship_p ON spec_relationship (operator_name, parent_entity_id)",
        "CREATE INDEX spec_relationship_c ON spec_relationship (operator_name, child_entity_id)",
    ]


def _partitions_of_mysql(table: str, operators: list[str]) -> tuple[str, list[str]]:
    parts = ", ".join(f"PARTITION p{n} VALUES IN ('{name}')" for n, name in enumerate(operators))
    return f" PARTITION BY LIST COLUMNS (operator_name) ({parts})", []


def _partitions_of_postgres(table: str, operators: list[str]) -> tuple[str, list[str]]:
    return " PARTITION BY LIST (operator_name)", [
        f"CREATE TABLE {table}_p{n} PARTITION OF {table} FOR VALUES IN ('{name}')"
        for n, name in enumerate(operators)
    ]


_PARTITIONS = {"mysql": _partitions_of_mysql, "postgres": _partitions_of_postgres}
