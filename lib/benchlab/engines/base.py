"""The interface of an engine in benchlab; its other half is the Ansible role of the same name.

The role installs, starts, stops and tunes. This module talks to a running server: its version, the
settings in effect, its counters, the size of the dataset, and what can be set only by SQL. The clients
of both protocols are thin. :class:`Engine` states what an engine must provide; one contract test checks
all engines.
"""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
import psycopg
import pymysql
from psycopg.rows import dict_row
from pydantic import (
    AliasChoices,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from benchlab.engines.plans import Access
from benchlab.engines.waits import Wait
from benchlab.errors import DatasetError, EngineError
from benchlab.study import Dataset, Scalar
from benchlab.study.roles import PRIMARY

#: Columns of an engine's checkpoints, in Unix microseconds; ``end_us`` is null if one has not ended.
CHECKPOINTS = {"begin_us": pl.Int64, "end_us": pl.Int64}

#: Start of the name of a counter that is the size of a table on disk.
TABLE_BYTES = "table_bytes."

_CONNECT_TIMEOUT_S = 10

#: How long a server may be silent. Its longest statements, such as an index of a large table, take
#: minutes; one that hangs never answers.
_SILENT_S = 3600

#: Runs a statement on a connection that is held open, and returns its rows.
Ask = Callable[..., list[dict[str, Any]]]

#: Reads the counters that each service prints for Prometheus: node → service → page.
Pages = Callable[[], Mapping[str, Mapping[str, str]]]

_BYTES = TypeAdapter(ByteSize)
_TRUE, _FALSE = {"on", "true", "yes", "1"}, {"off", "false", "no", "0"}

#: PostgreSQL's units of time (documentation, 20.1.1), in seconds. A minute is ``min``, not ``m``.
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(us|ms|s|min|h|d)")


class Endpoint(BaseModel):
    """Address of a server, and the user to connect as. The password never leaves memory."""

    model_config = ConfigDict(frozen=True)

    host: str
    port: int
    user: str
    password: str = Field("", repr=False)
    database: str = "sbtest"


class EngineSetting(BaseModel):
    """One setting: the requested value, and the one that the server reports."""

    model_config = ConfigDict(frozen=True)

    name: str
    # records before version 5 call it `asked`
    requested: Annotated[str | None, Field(validation_alias=AliasChoices("requested", "asked"))]
    effective: str | None
    unit: str | None = None
    source: str | None = None

    @property
    def took_effect(self) -> bool:
        """Whether the effective value equals the requested one, whatever unit each is written in."""
        if self.requested is None:
            return True
        # a time without a unit is in the server's own unit; a size without one is in bytes throughout
        # benchlab
        requested = canonical(self.requested, self.unit if self.unit in _SECONDS else None)
        return self.effective is not None and requested == canonical(self.effective, self.unit)


def without_effect(engine: str, settings: Iterable[EngineSetting]) -> str | None:
    """Describe the first setting that did not take effect, in one line; ``None`` if all did.

    Args:
        engine: its name, for the message.
        settings: see :meth:`Engine.settings`.
    """
    for setting in settings:
        if not setting.took_effect:
            unit = f" {setting.unit}" if setting.unit else ""
            reported = (
                "knows no such setting"
                if setting.effective is None
                else f"reports {setting.effective}"
            )
            return (
                f"{engine}: setting {setting.name} did not take effect:"
                f" requested {setting.requested}, the server {reported}{unit}"
            )
    return None


def canonical(value: str, unit: str | None = None) -> str | float:
    """Convert a setting's value to one form: sizes in bytes, times in seconds, switches as 0/1.

    Any other value is text, in lower case.

    ``unit`` is the server's own (PostgreSQL: ``8kB``, ``MB``, ``s``). Without one, a suffix of the
    value counts (``64MB``, ``1G``). Sizes are always in powers of 1024, as in databases.
    """
    text = str(value).strip().lower()
    if text in _TRUE and unit is None:
        return 1.0
    if text in _FALSE and unit is None:
        return 0.0
    try:
        number = float(text)
    except ValueError:
        if duration := _DURATION.fullmatch(text):
            return float(duration[1]) * _SECONDS[duration[2]]
        size = _binary_size(text)
        return float(size) if size is not None else text
    if unit is None or number < 0:  # a negative number is a switch, as -1 is "no limit"
        return number
    return number * (_SECONDS.get(unit) or _binary_size(unit) or 1)


def _binary_size(text: str) -> int | None:
    """Bytes of a size such as ``8kB``, ``64MB`` or ``2G``; ``None`` if it is not a size."""
    letters = text.lower().removesuffix("ib").removesuffix("b")
    if letters and letters[-1] in "kmgtp":
        digits = letters[:-1] or "1"
        try:
            return int(_BYTES.validate_python(f"{digits}{letters[-1]}ib"))
        except ValidationError:
            return None
    return None


class Engine(ABC):
    """A running server of one engine.

    Class attributes:
        name: its name in studies, roles and tables.
        protocol: protocol of its clients, which also decides their dialect of SQL.
        admin_user: user with which benchlab and the load connect.
        pool: name of the setting that sizes its buffer pool; empty if no single setting does.
        kept_settings: names of the settings that a data directory keeps from its first start. A later
            start cannot make them smaller.
        durability_settings: names of the settings that decide which committed transactions a crash may
            lose. They are recorded of every run, requested or not.
        layout_settings: names of the settings that decide how a load lays out the data, for instance in
            regions. Variants that differ in one of them have datasets of their own.
        ranges: setting → least and greatest value that the server takes, if it cuts off others.
        indexes_first: whether a load is faster if the indexes are there before the rows.
        page_bytes: bytes that it reads from the disk in one random read; 0 if unknown.
        log_folder: folder of its log in the data directory, which can be moved to a separate disk;
            empty if the engine has no such folder.
        waits_query: a light query for what each session of the load does now, or for how many sessions
            do the same; empty if the engine does not report it. ``{own}`` stands for the ids of the
            sessions that are not the load's.
        standbys_query: a light query for how far each standby has come; empty if the engine has no
            standbys. See :mod:`benchlab.observers.replication` for its columns.
        nodes: roles of the nodes on which its Ansible role can set it up.
        stops_at_once: whether its nodes are stopped all at once, because they need each other to stop.
            Otherwise they are stopped one after the other, so that the standbys have everything that
            the first one sent.
        schema: SQL expression for the name of the schema or database that holds the tables.
        table_states_query: a query for the state of each table, which a write changes for the table's
            readers. It returns a row per table with ``name`` and ``state``; empty if tables have no
            such state.
    """

    name: ClassVar[str]
    protocol: ClassVar[Literal["mysql", "postgres"]]
    standbys_query: ClassVar[str] = ""
    nodes: ClassVar[tuple[str, ...]] = (PRIMARY,)
    stops_at_once: ClassVar[bool] = False
    schema: ClassVar[str]
    admin_user: ClassVar[str]
    pool: ClassVar[str] = ""
    kept_settings: ClassVar[tuple[str, ...]] = ()
    durability_settings: ClassVar[tuple[str, ...]] = ()
    layout_settings: ClassVar[tuple[str, ...]] = ()
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    indexes_first: ClassVar[bool] = False
    page_bytes: ClassVar[int] = 0
    log_folder: ClassVar[str] = ""
    waits_query: ClassVar[str] = ""
    table_states_query: ClassVar[str] = ""

    def __init__(self, endpoint: Endpoint, reach: Callable[[], Endpoint] | None = None):
        """Take the server's address for the load, and for this process if that differs."""
        self.endpoint = endpoint
        self._reach = reach or (lambda: endpoint)
        self._own_sessions: set[int] = set()

    @property
    def reached(self) -> Endpoint:
        """Address at which this process reaches the server."""
        return self._reach()

    def query(self, sql: str, parameters: tuple = ()) -> list[dict[str, Any]]:
        """Run one statement, commit it, and return its rows.

        Raises:
            EngineError: the server refused it or cannot be reached; the message is the first line of
                the client's error message.
        """
        with self.asking() as ask:
            return ask(sql, parameters)

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """Hold one connection open, and yield a function that runs statements on it like :meth:`query`.

        Raises:
            EngineError: see :meth:`query`.
        """
        with self._connected() as connection:
            cursor = connection.cursor()

            def ask(sql: str, parameters: tuple = ()) -> list[dict[str, Any]]:
                cursor.execute(sql, parameters or None)
                return list(cursor.fetchall()) if cursor.description else []

            yield ask

    def copy(self, table: str, rows: pl.DataFrame, binary: Collection[str] = ()) -> None:
        """Load rows into a table in a separate transaction; see :meth:`copy_in`."""
        with self._connected() as connection:
            self.copy_in(connection, table, rows, binary)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a connection of the protocol's client in a transaction, and commit it at the end.

        Raises:
            EngineError: the server refused something or cannot be reached. Nothing is committed then.
        """
        with self._connected() as connection:
            connection.cursor().execute("BEGIN")
            yield connection
            connection.cursor().execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            with self._connect(self.reached) as connection:
                session = self._session_id(connection)
                self._own_sessions.add(session)
                try:
                    yield connection
                finally:
                    self._own_sessions.discard(session)
        except (psycopg.Error, pymysql.MySQLError) as error:
            # PyMySQL puts the error's number before its message
            said = str(error.args[-1] if error.args else "").strip() or type(error).__name__
            code = (
                error.sqlstate if isinstance(error, psycopg.Error) else next(iter(error.args), None)
            )
            raise EngineError(f"{self.name}: {said.splitlines()[0]}", code) from error

    @abstractmethod
    def _connect(self, endpoint: Endpoint) -> Any:
        """Return a new connection that commits every statement and returns rows as dictionaries."""

    @abstractmethod
    def _session_id(self, connection: Any) -> int:
        """Return the server's id of a connection's session."""

    @abstractmethod
    def copy_in(
        self, connection: Any, table: str, rows: pl.DataFrame, binary: Collection[str] = ()
    ) -> None:
        """Load rows into a table with the server's bulk load, in a connection's transaction.

        Args:
            connection: see :meth:`transaction`.
            table: name of the table.
            rows: columns are named as in the table. No text may contain a tab, a line break or a
                backslash.
            binary: columns of bytes, given in hex.

        Raises:
            EngineError: see :meth:`query`; or the server did not take exactly these rows.
        """

    @abstractmethod
    def version(self) -> str:
        """Return the version that the server reports, digits first."""

    @abstractmethod
    def effective_settings(self, names: list[str]) -> list[EngineSetting]:
        """Return the values of ``names`` that the server reports; names unknown to it are left out.

        ``requested`` is ``None`` in all of them.
        """

    @abstractmethod
    def counters(self) -> dict[str, float]:
        """Return the engine's cumulative counters and gauges, names prefixed by their view."""

    def followers(self) -> int:
        """Return how many servers on other nodes follow this one right now."""
        return 0

    @abstractmethod
    def prewarm(self, dataset: Dataset) -> None:
        """Read every table once, into the caches that a long run would have filled."""

    @abstractmethod
    def table_bytes(self) -> dict[str, int]:
        """Return the size of each table on disk, indexes included, as the server reports it."""

    def sizes(self) -> dict[str, float]:
        """Return counters with the bytes of the dataset and of each table on disk, indexes included."""
        tables = {name: float(size) for name, size in self.table_bytes().items()}
        return {
            "dataset_bytes": sum(tables.values()),
            **{f"{TABLE_BYTES}{name}": size for name, size in tables.items()},
        }

    @abstractmethod
    def explain(self, statement: str) -> str:
        """Return the plan of a query as the server's JSON, with what each step did, if known."""

    @staticmethod
    def accesses(plan: str) -> list[Access]:
        """Return how a plan of :meth:`explain` read each table; empty if the query is not run."""
        del plan
        return []

    @abstractmethod
    def settle(self) -> None:
        """Bring a freshly loaded dataset into the state in which it is kept (statistics, merges)."""

    @abstractmethod
    def analyze(self) -> None:
        """Update the statistics of a freshly loaded dataset, with the rights of the tables' owner."""

    def tables(self) -> set[str]:
        """Return the names of the tables in the connected database."""
        rows = self.query(
            "SELECT table_name AS name FROM information_schema.tables"
            f" WHERE table_schema = {self.schema}"
        )
        return {row["name"] for row in rows}

    def background_cycles(self, ask: Ask, pages: Pages) -> float | None:
        """Return how many cycles of its background work the server has counted.

        A cycle is work that recurs while a workload writes: from checkpoint to checkpoint, from flush
        to flush, or once around a log of fixed size. The number includes the current cycle as a
        fraction, or it is a whole number: that of the cycles begun
        (:func:`benchlab.gate.steady.cycles_between`). ``None``: the server does not report it.

        Args:
            ask: runs a statement on the server.
            pages: reads what its services print, for an engine that does not report this by SQL.
        """
        del ask, pages
        return None

    @classmethod
    def checkpoints(cls, log: str) -> pl.DataFrame | str:
        """Return the checkpoints of a run (:data:`CHECKPOINTS`), or why they are not known.

        Args:
            log: what the server logged since it was started for the run.
        """
        del log
        return f"{cls.name} reports no begin and end of checkpoints"

    def sample_sessions(self, ask: Ask) -> list[dict[str, Any]]:
        """Return what the sessions do now, as the server reports it; ``ask`` runs a statement.

        Sessions that this object holds, such as those of observers, are left out: they would count as
        clients that wait.
        """
        return ask(self.waits_query.format(own=", ".join(map(str, tuple(self._own_sessions)))))

    @classmethod
    def wait(cls, row: Mapping[str, Any]) -> tuple[Wait, str, int] | None:
        """Map a row of :meth:`sample_sessions` to class and name of the wait, and number of sessions.

        ``None``: the session does not belong to the load.
        """
        raise NotImplementedError(f"{cls.name} has no waits_query")

    @classmethod
    def shortcoming(cls, version: str) -> str | None:
        """Return why a server of this version does not represent the engine; ``None`` if it does.

        Args:
            version: as :meth:`version` returns it.
        """
        del version
        return None

    def tune(self, requested: Mapping[str, Scalar]) -> None:
        """Set those settings of a variant that the server takes only by SQL.

        The engine's Ansible role sets the others. Call this after every start, with the dataset loaded.

        Raises:
            EngineError: the server refused one.
        """
        del requested

    def settings(self, requested: Mapping[str, Scalar]) -> list[EngineSetting]:
        """Return every requested setting with its effective value; ``None`` if it is unknown.

        The settings of durability that nobody requested follow, with ``requested`` as ``None``.
        """
        also = [name for name in self.durability_settings if name not in requested]
        found = {one.name: one for one in self.effective_settings([*requested, *also])}
        return [
            found.get(name, EngineSetting(name=name, requested=None, effective=None)).model_copy(
                update={"requested": self.render(value)}
            )
            for name, value in requested.items()
        ] + [found[name] for name in also if name in found]

    @classmethod
    def render(cls, value: Scalar) -> str:
        """Return a value as the engine's configuration expects it; by default sizes are whole bytes."""
        if isinstance(value, bool):
            return "on" if value else "off"
        return str(value)


class _PostgresConnection(psycopg.Connection[dict[str, Any]]):
    """A connection that gives up a statement after :data:`_SILENT_S`.

    The server's own ``statement_timeout`` does not help if the server hangs.
    """

    def wait(self, gen: Any, **how: Any) -> Any:
        try:
            return super().wait(gen, **{"timeout": _SILENT_S, **how})
        except psycopg.errors._WaitTimeout as error:
            self.close()  # an answer that comes later would be taken for that of another statement
            raise psycopg.OperationalError(f"timed out after {_SILENT_S} s") from error


class PostgresProtocol(Engine):
    """A server that speaks PostgreSQL's protocol."""

    protocol = "postgres"
    schema = "current_schema()"

    def _connect(self, endpoint: Endpoint) -> psycopg.Connection[dict[str, Any]]:
        return _PostgresConnection.connect(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password,
            dbname=endpoint.database,
            connect_timeout=_CONNECT_TIMEOUT_S,
            autocommit=True,
            row_factory=dict_row,
        )

    def _session_id(self, connection: psycopg.Connection) -> int:
        return connection.info.backend_pid

    def explain(self, statement: str) -> str:
        """See :meth:`Engine.explain`; the query is run for it."""
        (row,) = self.query(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}")
        return json.dumps(row["QUERY PLAN"], indent=1)

    def copy_in(
        self,
        connection: psycopg.Connection,
        table: str,
        rows: pl.DataFrame,
        binary: Collection[str] = (),
    ) -> None:
        """See :meth:`Engine.copy_in`."""
        encoded = rows.with_columns(pl.format(r"\\x{}", name).alias(name) for name in binary)
        names = ", ".join(rows.columns)
        with connection.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            copy.write(_lines(encoded))


class MySQLProtocol(Engine):
    """A server that speaks MySQL's protocol.

    Class attributes:
        session: first statement of each connection of this process, but not of those of the load.
        repeated_errors: codes of errors that ask a client to repeat its transaction, beyond MySQL's
            own (deadlock, lock wait, changed record).
    """

    protocol = "mysql"
    schema = "DATABASE()"
    session: ClassVar[str | None] = None
    repeated_errors: ClassVar[tuple[int, ...]] = ()

    def _connect(self, endpoint: Endpoint) -> pymysql.Connection:
        return pymysql.connect(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password,
            database=endpoint.database,
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_SILENT_S,
            write_timeout=_SILENT_S,
            autocommit=True,
            local_infile=True,
            init_command=self.session,
            cursorclass=pymysql.cursors.DictCursor,
        )

    def _session_id(self, connection: pymysql.Connection) -> int:
        return connection.thread_id()

    def explain(self, statement: str) -> str:
        """See :meth:`Engine.explain`; the query is not run for it."""
        ((plan,),) = (row.values() for row in self.query(f"EXPLAIN FORMAT=JSON {statement}"))
        return plan

    def analyze(self) -> None:
        """See :meth:`Engine.analyze`."""
        for name in sorted(self.tables()):
            self.query(f"ANALYZE TABLE {name}")

    def copy_in(
        self,
        connection: pymysql.Connection,
        table: str,
        rows: pl.DataFrame,
        binary: Collection[str] = (),
    ) -> None:
        """See :meth:`Engine.copy_in`; the client reads the rows from a file, here one in memory."""
        names = ", ".join(f"@{name}" if name in binary else name for name in rows.columns)
        decoded = ", ".join(f"{name} = UNHEX(@{name})" for name in binary)
        with os.fdopen(os.memfd_create("benchlab-rows"), "wb") as file:
            file.write(_lines(rows))
            file.flush()
            taken = connection.cursor().execute(
                f"LOAD DATA LOCAL INFILE '/proc/self/fd/{file.fileno()}' INTO TABLE {table}"
                f" CHARACTER SET utf8mb4 ({names}){' SET ' if binary else ''}{decoded}"
            )
        # LOCAL turns most errors into warnings (documentation of MySQL, LOAD DATA). OceanBase counts
        # the rows that it left out, too
        if taken != len(rows):
            raise EngineError(f"{self.name}: {table} took {taken} of {len(rows)} rows")


def require_sysbench(dataset: Dataset) -> None:
    """Check that a dataset has sysbench's tables, whose names and columns a prewarm needs to know.

    Raises:
        DatasetError: it has others.
    """
    if dataset.kind != "sysbench_oltp":
        raise DatasetError(
            f"this engine prewarms the tables of sysbench only, not of {dataset.kind}"
        )


def _lines(rows: pl.DataFrame) -> bytes:
    """Return the rows as lines of columns separated by tabs; ``\\N`` is null."""
    return rows.write_csv(
        separator="\t",
        include_header=False,
        quote_style="never",
        datetime_format="%Y-%m-%d %H:%M:%S",
        null_value=r"\N",
    ).encode()
