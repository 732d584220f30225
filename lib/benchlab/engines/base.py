"""The contract of an engine on benchlab's side; its other half is the Ansible role of the same name.

The role installs, starts, stops and tunes. The module here talks to a running server: its version, the
settings in effect, its counters, the size of the dataset, and what can be set by SQL alone. Both
protocols' clients are thin; what an engine must bring is stated in :class:`Engine` and tested for all
of them by one contract test.
"""

import json
import re
import tempfile
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
from benchlab.errors import EngineError
from benchlab.study import Dataset, Scalar
from benchlab.study.roles import PRIMARY

#: An engine's checkpoints; ``end_us`` null: not ended. Unix microseconds.
CHECKPOINTS = {"begin_us": pl.Int64, "end_us": pl.Int64}

_CONNECT_TIMEOUT_S = 10

#: Runs a statement on a connection that is held open, and returns its rows.
Ask = Callable[..., list[dict[str, Any]]]

#: Reads the counters that each service prints for Prometheus: node → service → page.
Pages = Callable[[], Mapping[str, Mapping[str, str]]]

_BYTES = TypeAdapter(ByteSize)
_TRUE, _FALSE = {"on", "true", "yes", "1"}, {"off", "false", "no", "0"}

#: PostgreSQL's units of time (documentation, 20.1.1), in seconds. Its minute is no ``m``.
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(us|ms|s|min|h|d)")


class Endpoint(BaseModel):
    """Where a server answers, and as which user. The password never leaves memory."""

    model_config = ConfigDict(frozen=True)

    host: str
    port: int
    user: str
    password: str = ""
    database: str = "sbtest"


class EngineSetting(BaseModel):
    """One setting: the requested value, and the one that the server reports."""

    model_config = ConfigDict(frozen=True)

    name: str
    # a record of before version 5 names it `asked`
    requested: Annotated[str | None, Field(validation_alias=AliasChoices("requested", "asked"))]
    effective: str | None
    unit: str | None = None
    source: str | None = None

    @property
    def took_effect(self) -> bool:
        """Whether the effective value is the requested one, in whatever unit each is written."""
        if self.requested is None:
            return True
        # a bare time is in the server's own unit, while a bare size is in bytes throughout benchlab
        requested = canonical(self.requested, self.unit if self.unit in _SECONDS else None)
        return self.effective is not None and requested == canonical(self.effective, self.unit)


def without_effect(engine: str, settings: Iterable[EngineSetting]) -> str | None:
    """Return which setting did not take effect, in a line; ``None`` if all did.

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
    """Bring a setting's value into one form: sizes in bytes, times in seconds, switches as 0/1.

    What is none of these is text, in lower case.

    ``unit`` is the server's own (PostgreSQL: ``8kB``, ``MB``, ``s``); without one, a suffix within
    the value counts (``64MB``, ``1G``), always in powers of 1024 as databases have it.
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
    return number * (_SECONDS.get(unit) or _binary_size(unit) or 1) if unit else number


def _binary_size(text: str) -> int | None:
    """Bytes of a size such as ``8kB``, ``64MB`` or ``2G``; ``None`` if it is no size."""
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
        name: as in studies, roles and tables.
        protocol: what its clients speak, and so the dialect of SQL that they write.
        pool: name of the setting that sizes its buffer pool; empty where no one setting does.
        kept_settings: names of those that a data directory keeps from its first start, so that no
            later start can make them smaller.
        page_bytes: what it reads of the disk at a time, at random; 0 where that is not known.
        log_folder: its log's in the data directory, which may be moved to a disk of its own; empty
            where it has none that can.
        waits_query: a light query for what each session of the load does right now, or how many do
            so; empty where the engine does not report that.
        standbys_query: a light query for how far each standby is; empty where the engine has none. See
            :mod:`benchlab.observers.replication` for its columns.
        nodes: roles of the nodes that its Ansible role can set it up on.
        stops_at_once: whether its nodes need each other to stop, too, and so are stopped at once; else
            one after the other, so that the standbys have all that the first sent.
        schema: SQL for the name of what holds the tables.
        table_states_query: the state of each table that a write changes for its readers, a row each
            with ``name`` and ``state``; empty where a table has none.
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
    page_bytes: ClassVar[int] = 0
    log_folder: ClassVar[str] = ""
    waits_query: ClassVar[str] = ""
    table_states_query: ClassVar[str] = ""

    def __init__(self, endpoint: Endpoint, reach: Callable[[], Endpoint] | None = None):
        """Know where the load finds the server, and where this process does if that is elsewhere."""
        self.endpoint = endpoint
        self._reach = reach or (lambda: endpoint)

    @property
    def reached(self) -> Endpoint:
        """Where this process finds the server."""
        return self._reach()

    def query(self, sql: str, parameters: tuple = ()) -> list[dict[str, Any]]:
        """Run one statement, committed by itself, and return its rows.

        Raises:
            EngineError: the server refused it or is not there; the message is the first line of its.
        """
        with self.asking() as ask:
            return ask(sql, parameters)

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """Hold one connection open; what is given runs statements on it as :meth:`query` does.

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
        """Bring rows into a table by the server's bulk load, a transaction by itself.

        Args:
            table: name.
            rows: columns as the table names them. No text may hold a tab, a line's end or a backslash.
            binary: columns that hold bytes, here in hex.

        Raises:
            EngineError: see :meth:`query`.
        """
        with self._connected() as connection:
            self._copy(connection, table, rows, binary)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Hold a connection of the protocol's client in a transaction, which is committed at the end.

        Raises:
            EngineError: the server refused something or is not there. Nothing is committed then.
        """
        with self._connected() as connection:
            connection.cursor().execute("BEGIN")
            yield connection
            connection.cursor().execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            with self._connect(self.reached) as connection:
                yield connection
        except (psycopg.Error, pymysql.MySQLError) as error:
            # PyMySQL's message stands behind a number
            said = str(error.args[-1] if error.args else "").strip() or type(error).__name__
            code = (
                error.sqlstate if isinstance(error, psycopg.Error) else next(iter(error.args), None)
            )
            raise EngineError(f"{self.name}: {said.splitlines()[0]}", code) from error

    @abstractmethod
    def _connect(self, endpoint: Endpoint) -> Any:
        """Return a new connection that commits every statement and gives rows as dictionaries."""

    @abstractmethod
    def _copy(
        self, connection: Any, table: str, rows: pl.DataFrame, binary: Collection[str]
    ) -> None:
        """See :meth:`copy`."""

    @abstractmethod
    def version(self) -> str:
        """Return the version that the server reports, digits first."""

    @abstractmethod
    def effective_settings(self, names: list[str]) -> list[EngineSetting]:
        """Return the values of ``names`` that the server reports, without names that it does not know.

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
    def dataset_bytes(self) -> int:
        """Return the size of the dataset on disk, indexes included, as the server reports it."""

    @abstractmethod
    def explain(self, statement: str) -> str:
        """Return the plan of a query as the server's JSON, with what each step did, if known."""

    @staticmethod
    def accesses(plan: str) -> list[Access]:
        """Return how a plan of :meth:`explain` read each table; nothing where the query is not run."""
        del plan
        return []

    @abstractmethod
    def settle(self) -> None:
        """Bring a freshly loaded dataset into the state in which it is kept (statistics, merges)."""

    @abstractmethod
    def analyze(self) -> None:
        """Bring the statistics of a freshly loaded dataset up to date, as the tables' owner may."""

    def tables(self) -> set[str]:
        """Return the names of the tables in the database that is connected to."""
        rows = self.query(
            "SELECT table_name AS name FROM information_schema.tables"
            f" WHERE table_schema = {self.schema}"
        )
        return {row["name"] for row in rows}

    def background_cycles(self, ask: Ask, pages: Pages) -> float | None:
        """Return how many cycles of its background work the server has ever gone through.

        A cycle is what comes back by itself while a workload writes: from checkpoint to checkpoint,
        from flush to flush, once around a log of fixed size. With what is under way as a part of one,
        or as a whole number of those begun (:func:`benchlab.gate.steady.spanned`). ``None``: the
        server does not report it.

        Args:
            ask: the server.
            pages: reads what its services print, for an engine whose SQL does not tell.
        """
        del ask, pages
        return None

    @classmethod
    def checkpoints(cls, log: str) -> pl.DataFrame | str:
        """Return the checkpoints of a run (:data:`CHECKPOINTS`), or why nothing tells them.

        Args:
            log: what the server logged since it was started for the run.
        """
        del log
        return f"{cls.name} reports no begin and end of checkpoints"

    def sample_sessions(self, ask: Ask) -> list[dict[str, Any]]:
        """Return what the sessions do now, as the server reports it; ``ask`` runs a statement."""
        return ask(self.waits_query)

    @classmethod
    def wait(cls, row: Mapping[str, Any]) -> tuple[Wait, str, int] | None:
        """Fold one row of :meth:`sample_sessions`: class, the engine's name of the wait, sessions.

        ``None`` is for a session that is not the load's.
        """
        raise NotImplementedError(f"{cls.name} has no waits_query")

    @classmethod
    def shortcoming(cls, version: str) -> str | None:
        """Return what keeps a server of this version from standing for the engine, if anything does.

        Args:
            version: as :meth:`version` gives it.
        """
        del version
        return None

    def tune(self, requested: Mapping[str, Scalar]) -> None:
        """Set those of a variant's settings that the server takes by SQL alone.

        Its role sets the others. To be called after every start, with the dataset loaded.

        Raises:
            EngineError: the server refused one.
        """
        del requested

    def settings(self, requested: Mapping[str, Scalar]) -> list[EngineSetting]:
        """Return every requested setting with its effective value; unknown ones have none."""
        found = {setting.name: setting for setting in self.effective_settings(list(requested))}
        return [
            found.get(name, EngineSetting(name=name, requested=None, effective=None)).model_copy(
                update={"requested": self.render(value)}
            )
            for name, value in requested.items()
        ]

    @classmethod
    def render(cls, value: Scalar) -> str:
        """Write a value as the engine's configuration wants it; sizes are whole bytes here."""
        if isinstance(value, bool):
            return "on" if value else "off"
        return str(value)


class PostgresProtocol(Engine):
    """A server that speaks PostgreSQL's protocol."""

    protocol = "postgres"
    schema = "current_schema()"

    def _connect(self, endpoint: Endpoint) -> psycopg.Connection[dict[str, Any]]:
        return psycopg.connect(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password,
            dbname=endpoint.database,
            connect_timeout=_CONNECT_TIMEOUT_S,
            autocommit=True,
            row_factory=dict_row,
        )

    def explain(self, statement: str) -> str:
        """See :meth:`Engine.explain`; the query is run for it."""
        (row,) = self.query(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}")
        return json.dumps(row["QUERY PLAN"], indent=1)

    def _copy(
        self,
        connection: psycopg.Connection,
        table: str,
        rows: pl.DataFrame,
        binary: Collection[str],
    ) -> None:
        encoded = rows.with_columns(pl.format(r"\\x{}", name).alias(name) for name in binary)
        names = ", ".join(rows.columns)
        with connection.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            copy.write(_lines(encoded))


class MySQLProtocol(Engine):
    """A server that speaks MySQL's protocol.

    Class attributes:
        session: a statement that connections from here begin with, those of the load not.
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
            autocommit=True,
            local_infile=True,
            init_command=self.session,
            cursorclass=pymysql.cursors.DictCursor,
        )

    def explain(self, statement: str) -> str:
        """See :meth:`Engine.explain`; the query is not run for it."""
        ((plan,),) = (row.values() for row in self.query(f"EXPLAIN FORMAT=JSON {statement}"))
        return plan

    def analyze(self) -> None:
        """See :meth:`Engine.analyze`."""
        for name in sorted(self.tables()):
            self.query(f"ANALYZE TABLE {name}")

    def _copy(
        self,
        connection: pymysql.Connection,
        table: str,
        rows: pl.DataFrame,
        binary: Collection[str],
    ) -> None:
        names = ", ".join(f"@{name}" if name in binary else name for name in rows.columns)
        decoded = ", ".join(f"{name} = UNHEX(@{name})" for name in binary)
        with tempfile.NamedTemporaryFile(prefix="benchlab-rows-") as file:
            file.write(_lines(rows))
            file.flush()
            connection.cursor().execute(
                f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {table} CHARACTER SET utf8mb4"
                r" FIELDS TERMINATED BY '\t' ESCAPED BY '' LINES TERMINATED BY '\n'"
                f" ({names}){' SET ' if binary else ''}{decoded}"
            )


def _lines(rows: pl.DataFrame) -> bytes:
    """Return a line a row, columns between tabs."""
    return rows.write_csv(
        separator="\t",
        include_header=False,
        quote_style="never",
        datetime_format="%Y-%m-%d %H:%M:%S",
    ).encode()
