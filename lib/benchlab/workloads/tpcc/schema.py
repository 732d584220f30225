"""SQL of the nine tables of TPC-C (clause 1.3), and of three tables for the state of a load.

Columns have the standard's names in lower case, and its types. The SQL is generic; a :class:`Dialect`
has what differs for an engine, each with its reason. Foreign keys are not declared: the standard asks
for unique primary keys (clause 1.5.1), and that the transactions keep rows consistent (clause 3.3).
HISTORY has no primary key (clause 1.3.1), and no engine needs one: engines that cluster rows by it use
a hidden number.
"""

from dataclasses import dataclass

from benchlab.errors import UnknownName


@dataclass(frozen=True)
class Dialect:
    """How an engine's SQL differs from the SQL of the others."""

    date_and_time: str
    name: str
    """Type of a customer's names. Customers are sorted by them, so all engines need the same order."""
    table: str = ""
    """SQL after the columns of a table."""
    key: str = ""
    """SQL after the columns of a primary key."""
    key_first: bool = True
    """Whether primary keys are made before the rows are loaded: the engine stores rows in the order of
    the key, so a later key would write them all again. Otherwise the key is made from the loaded rows,
    which is faster."""
    before_indexes: str | None = None
    """First statement of a connection that makes indexes."""


#: MySQL's ``timestamp`` ends in 2038; clause 1.3.1 asks for dates until 2100. A binary collation
#: distinguishes upper from lower case, and is TiDB's default already.
_MYSQL = Dialect(
    date_and_time="datetime",
    name="varchar(16)",
    table=" DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin",
)

DIALECTS = {
    # the default order of text depends on the database's locale; indexes of several tables are made at
    # once already, and parallel workers within each would take two fifths more CPU time
    "postgres": Dialect(
        date_and_time="timestamp",
        name='varchar(16) COLLATE "C"',
        key_first=False,
        before_indexes="SET max_parallel_maintenance_workers = 0",
    ),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "oceanbase": _MYSQL,
    # without this, some versions cluster rows only by keys of one integer
    "tidb": Dialect(_MYSQL.date_and_time, _MYSQL.name, _MYSQL.table, key=" CLUSTERED"),
}


@dataclass(frozen=True)
class Table:
    """A table: its columns with their generic types, and its primary key."""

    columns: dict[str, str]
    key: tuple[str, ...] = ()


_ADDRESS = {
    "street_1": "varchar(20)",
    "street_2": "varchar(20)",
    "city": "varchar(20)",
    "state": "char(2)",
    "zip": "char(9)",
}
#: Placeholders for types of the dialect.
_DATE_AND_TIME, _NAME = "{date_and_time}", "{name}"

#: Tables in the order of clause 1.3. Numbers have at least as many digits as it asks for.
TABLES = {
    "warehouse": Table(
        {
            "w_id": "integer",
            "w_name": "varchar(10)",
            **{f"w_{part}": type_ for part, type_ in _ADDRESS.items()},
            "w_tax": "numeric(4, 4)",
            "w_ytd": "numeric(12, 2)",
        },
        ("w_id",),
    ),
    "district": Table(
        {
            "d_id": "smallint",
            "d_w_id": "integer",
            "d_name": "varchar(10)",
            **{f"d_{part}": type_ for part, type_ in _ADDRESS.items()},
            "d_tax": "numeric(4, 4)",
            "d_ytd": "numeric(12, 2)",
            "d_next_o_id": "integer",
        },
        ("d_w_id", "d_id"),
    ),
    "customer": Table(
        {
            "c_id": "integer",
            "c_d_id": "smallint",
            "c_w_id": "integer",
            "c_first": _NAME,
            "c_middle": "char(2)",
            "c_last": _NAME,
            **{f"c_{part}": type_ for part, type_ in _ADDRESS.items()},
            "c_phone": "char(16)",
            "c_since": _DATE_AND_TIME,
            "c_credit": "char(2)",
            "c_credit_lim": "numeric(12, 2)",
            "c_discount": "numeric(4, 4)",
            "c_balance": "numeric(12, 2)",
            "c_ytd_payment": "numeric(12, 2)",
            "c_payment_cnt": "smallint",
            "c_delivery_cnt": "smallint",
            "c_data": "varchar(500)",
        },
        ("c_w_id", "c_d_id", "c_id"),
    ),
    "history": Table(
        {
            "h_c_id": "integer",
            "h_c_d_id": "smallint",
            "h_c_w_id": "integer",
            "h_d_id": "smallint",
            "h_w_id": "integer",
            "h_date": _DATE_AND_TIME,
            "h_amount": "numeric(6, 2)",
            "h_data": "varchar(24)",
        }
    ),
    "new_order": Table(
        {"no_o_id": "integer", "no_d_id": "smallint", "no_w_id": "integer"},
        ("no_w_id", "no_d_id", "no_o_id"),
    ),
    "orders": Table(
        {
            "o_id": "integer",
            "o_d_id": "smallint",
            "o_w_id": "integer",
            "o_c_id": "integer",
            "o_entry_d": _DATE_AND_TIME,
            "o_carrier_id": "smallint NULL",
            "o_ol_cnt": "smallint",
            "o_all_local": "smallint",
        },
        ("o_w_id", "o_d_id", "o_id"),
    ),
    "order_line": Table(
        {
            "ol_o_id": "integer",
            "ol_d_id": "smallint",
            "ol_w_id": "integer",
            "ol_number": "smallint",
            "ol_i_id": "integer",
            "ol_supply_w_id": "integer",
            "ol_delivery_d": f"{_DATE_AND_TIME} NULL",
            "ol_quantity": "smallint",
            "ol_amount": "numeric(6, 2)",
            "ol_dist_info": "char(24)",
        },
        ("ol_w_id", "ol_d_id", "ol_o_id", "ol_number"),
    ),
    "item": Table(
        {
            "i_id": "integer",
            "i_im_id": "integer",
            "i_name": "varchar(24)",
            "i_price": "numeric(5, 2)",
            "i_data": "varchar(50)",
        },
        ("i_id",),
    ),
    "stock": Table(
        {
            "s_i_id": "integer",
            "s_w_id": "integer",
            "s_quantity": "smallint",
            **{f"s_dist_{number:02}": "char(24)" for number in range(1, 11)},
            "s_ytd": "integer",
            "s_order_cnt": "smallint",
            "s_remote_cnt": "smallint",
            "s_data": "varchar(50)",
        },
        ("s_w_id", "s_i_id"),
    ),
}

#: Table → column with the warehouse that a row belongs to; the rows of ITEM belong to none.
WAREHOUSE_OF = {
    name: next(column for column in (f"{prefix}_w_id", f"{prefix}_id") if column in table.columns)
    for name, table in TABLES.items()
    if (prefix := next(iter(table.columns)).partition("_")[0]) != "i"
}

#: Tables of the state of a load: what the rows were made with, in one row; the warehouses that are
#: loaded completely (0: the items); and how many rows each table had after the load, so that a run
#: needs no scan, which would fill the caches.
STATE = {
    "tpcc_load": Table(
        {
            "seed": "bigint",
            "warehouses": "integer",
            "c_last": "smallint",
            "c_id": "smallint",
            "ol_i_id": "smallint",
        },
        ("seed",),
    ),
    "tpcc_loaded": Table({"w_id": "integer"}, ("w_id",)),
    "tpcc_rows": Table({"table_name": "varchar(16)", "row_count": "bigint"}, ("table_name",)),
}

#: Secondary indexes: for the customers with a last name in the order of their first names (clauses
#: 2.5.2.2 and 2.6.2.2), and for a customer's last order (clause 2.6.2.2).
_INDEXES = {
    "customer": {"customer_by_name": ("c_w_id", "c_d_id", "c_last", "c_first")},
    "orders": {"orders_by_customer": ("o_w_id", "o_d_id", "o_c_id", "o_id")},
}

_BY_SIZE = (
    *("order_line", "stock", "customer", "orders", "history", "new_order", "item"),
    *("district", "warehouse"),
)


def dialect(engine: str) -> Dialect:
    """Return an engine's dialect.

    Raises:
        UnknownName: the engine has none.
    """
    if engine not in DIALECTS:
        raise UnknownName("dialect of TPC-C", engine, DIALECTS)
    return DIALECTS[engine]


def tables(engine: str) -> list[str]:
    """Return the statements that make the empty tables, those of the load's state first.

    A table that exists already stays as it is.

    Raises:
        UnknownName: the engine has no dialect.
    """
    of_engine = dialect(engine)
    state = [_create(name, table, of_engine, True) for name, table in STATE.items()]
    return state + [
        _create(name, table, of_engine, of_engine.key_first) for name, table in TABLES.items()
    ]


def indexes(engine: str) -> dict[str, dict[str, str]]:
    """Return the indexes to make on loaded rows: table → index → statement, the largest tables first.

    The indexes of one table cannot be made at the same time.

    Raises:
        UnknownName: the engine has no dialect.
    """
    of_engine = dialect(engine)
    made: dict[str, dict[str, str]] = {name: {} for name in _BY_SIZE}
    for name, of_table in made.items():
        if (key := TABLES[name].key) and not of_engine.key_first:
            of_table[f"{name}_pkey"] = (
                f"ALTER TABLE {name} ADD CONSTRAINT {name}_pkey"
                f" PRIMARY KEY ({', '.join(key)}){of_engine.key}"
            )
        for index, columns in _INDEXES.get(name, {}).items():
            of_table[index] = f"CREATE INDEX {index} ON {name} ({', '.join(columns)})"
    return {name: of_table for name, of_table in made.items() if of_table}


def _create(name: str, table: Table, of_engine: Dialect, with_key: bool) -> str:
    lines = [
        f"{column} {_type(type_, of_engine)}{'' if type_.endswith('NULL') else ' NOT NULL'}"
        for column, type_ in table.columns.items()
    ]
    if table.key and with_key:
        lines.append(f"PRIMARY KEY ({', '.join(table.key)}){of_engine.key}")
    return f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(lines)}){of_engine.table}"


def _type(type_: str, of_engine: Dialect) -> str:
    return type_.format(date_and_time=of_engine.date_and_time, name=of_engine.name)
