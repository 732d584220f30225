"""Connections to the database, each ready for a transaction.

There are as many connections as transactions may run at a time, so no transaction waits for one here.
If the database is lost, requests for a connection fail at once. When it is back, connections are, too.
"""

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

import aiomysql
import msgspec
import psycopg
import psycopg_pool
import pymysql

from benchlab.drivers.tpcc.was import LOST
from benchlab.errors import EngineError

#: Isolation levels (SQL-92), as options name them. An engine itself refuses levels that it lacks.
ISOLATIONS = ("read-committed", "repeatable-read", "serializable")

#: Longest time to open one connection, longest time to open all connections of a pool at the start, and
#: pause between attempts to reach a database that was lost.
_CONNECT_S, _FILL_S, _PAUSE_S = 5, 60, 0.2

#: A host that has lost its power sends nothing. After ``_IDLE_S`` the kernel probes it, every
#: ``_INTERVAL_S``, ``_COUNT`` times, before its connections count as lost.
_IDLE_S, _INTERVAL_S, _COUNT = 5, 2, 3

_log = logging.getLogger(__name__)


class Connection(Protocol):
    """The part of a connection that both database drivers have in common."""

    @property
    def closed(self) -> bool:
        """Whether it can no longer be used."""


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Address and user of the database. Secret: it has the password."""

    host: str
    port: int
    user: str
    password: str
    database: str

    def __str__(self) -> str:
        """Return the part that may be shown."""
        return f"{self.database} on {self.host}:{self.port}"

    __repr__ = __str__


class Database(ABC):
    """A pool of connections."""

    @abstractmethod
    async def open(self) -> None:
        """Fill the pool.

        Raises:
            EngineError: the database does not answer, or refuses such a connection.
        """

    @abstractmethod
    async def acquire(self) -> Connection:
        """Take a connection; it is in no transaction and starts transactions at the isolation level.

        Raises:
            EngineError, psycopg.Error, pymysql.MySQLError: there is none, because the database is lost.
        """

    @abstractmethod
    async def release(self, connection: Connection) -> None:
        """Give a connection back, also if it is broken."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""


class PostgresDatabase(Database):
    """PostgreSQL, with psycopg's own pool.

    psycopg's pool itself replaces single connections that were lost, at intervals that double. If the
    server is lost, this pool would be late when the server is back. So it is closed, and a new one is
    opened as soon as the server answers.
    """

    def __init__(self, address: Address, size: int, isolation: str) -> None:
        self._address, self._size = address, size
        self._level = isolation.replace("-", " ")
        self._pool: psycopg_pool.AsyncConnectionPool | None = None
        #: Connection in use → its pool, which may have been closed since.
        self._taken: dict[psycopg.AsyncConnection, psycopg_pool.AsyncConnectionPool] = {}
        self._lost: str | None = None
        self._recovery: asyncio.Task[None] | None = None
        # the pool would log each attempt; this class logs what matters
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)

    async def open(self) -> None:
        """See :meth:`Database.open`."""
        try:
            await self._probe()  # the pool itself would not report what is wrong
            self._pool = await self._opened()
        except psycopg.Error as error:
            raise EngineError(f"postgres: {self._address}: {_line(error)}") from error

    async def acquire(self) -> psycopg.AsyncConnection:
        """See :meth:`Database.acquire`."""
        if self._lost is not None:
            raise EngineError(self._lost)
        try:
            pool = self._pool
            connection = await pool.getconn()
            self._taken[connection] = pool
            return connection
        except psycopg_pool.PoolClosed:
            raise EngineError(self._lost or "the database was lost") from None

    async def release(self, connection: psycopg.AsyncConnection) -> None:
        """See :meth:`Database.release`."""
        if connection.closed and not (self._recovery and not self._recovery.done()):
            self._recovery = asyncio.create_task(self._recover())
        await self._taken.pop(connection).putconn(connection)

    async def close(self) -> None:
        """See :meth:`Database.close`."""
        if self._recovery:
            self._recovery.cancel()
        await self._pool.close()

    async def _opened(self) -> psycopg_pool.AsyncConnectionPool:
        """Return a new pool with all its connections open."""
        pool = psycopg_pool.AsyncConnectionPool(
            kwargs=self._parameters(),
            configure=self._configure,
            min_size=self._size,
            max_size=self._size,
            max_lifetime=float("inf"),  # no reconnects within a measurement
            timeout=_CONNECT_S,
            open=False,
        )
        await pool.open(wait=True, timeout=_FILL_S)
        return pool

    def _parameters(self) -> dict[str, str | int | bool]:
        """Return the parameters of psycopg's connections."""
        return {
            "host": self._address.host,
            "port": self._address.port,
            "user": self._address.user,
            "password": self._address.password,
            "dbname": self._address.database,
            "application_name": "tpcc-was",
            "connect_timeout": _CONNECT_S,
            "autocommit": True,
            "keepalives_idle": _IDLE_S,
            "keepalives_interval": _INTERVAL_S,
            "keepalives_count": _COUNT,
        }

    async def _configure(self, connection: psycopg.AsyncConnection) -> None:
        # set for the session, so that a procedure that is called outside a transaction has it, too
        await connection.execute(
            "SELECT set_config('default_transaction_isolation', %s, false)", [self._level]
        )

    async def _probe(self) -> None:
        """Raise psycopg.Error unless the server takes a connection."""
        connection = await psycopg.AsyncConnection.connect(**self._parameters())
        await connection.close()

    async def _recover(self) -> None:
        """Find out whether only connections or the server was lost, and recover."""
        while True:
            try:
                await self._probe()
                if self._lost is None:
                    await self._pool.check()  # other connections may be lost, too
                    return
                self._pool = await self._opened()
            except psycopg.Error as error:
                if self._lost is None:
                    self._lost = f"{LOST}{_line(error)}"
                    _log.warning("%s: %s", self._address, self._lost)
                    await self._pool.close()  # requests that wait for a connection fail, too
                await asyncio.sleep(_PAUSE_S)
            else:
                self._lost = None
                _log.warning("%s: the database is back", self._address)
                return


class MySQLDatabase(Database):
    """MySQL and engines with its protocol, with aiomysql's own pool.

    aiomysql's pool drops lost connections and opens new ones when a connection is requested. If it
    cannot open one, the server counts as lost, until one can be opened again.
    """

    def __init__(self, address: Address, size: int, isolation: str) -> None:
        self._address, self._size = address, size
        self._level = isolation.replace("-", " ").upper()
        self._pool: aiomysql.Pool | None = None
        #: Connections that the kernel probes at the times of this module.
        self._probed: WeakSet[aiomysql.Connection] = WeakSet()
        self._lost: str | None = None
        self._recovery: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """See :meth:`Database.open`."""
        try:
            async with asyncio.timeout(_FILL_S):
                self._pool = await aiomysql.create_pool(
                    minsize=1,  # with more, the first request after a loss would wait for all of them
                    maxsize=self._size,
                    host=self._address.host,
                    port=self._address.port,
                    user=self._address.user,
                    password=self._address.password,
                    db=self._address.database,
                    charset="utf8mb4",
                    autocommit=True,
                    init_command=f"SET SESSION TRANSACTION ISOLATION LEVEL {self._level}",
                    connect_timeout=_CONNECT_S,
                )
                taken = [await self._taken() for _ in range(self._size)]
        except TimeoutError:
            raise EngineError(
                f"{self._address}: no {self._size} connections within {_FILL_S} s"
            ) from None
        except (pymysql.MySQLError, OSError) as error:
            raise EngineError(f"{self._address}: {_line(error)}") from error
        for connection in taken:
            await self._pool.release(connection)

    async def acquire(self) -> aiomysql.Connection:
        """See :meth:`Database.acquire`."""
        if self._lost is not None:
            raise EngineError(self._lost)
        try:
            return await self._taken()
        except pymysql.MySQLError as error:
            self._lose(error)
            raise

    async def release(self, connection: aiomysql.Connection) -> None:
        """See :meth:`Database.release`."""
        await self._pool.release(connection)

    async def close(self) -> None:
        """See :meth:`Database.close`."""
        if self._recovery:
            self._recovery.cancel()
        self._pool.terminate()
        await self._pool.wait_closed()

    async def _taken(self) -> aiomysql.Connection:
        """Take a connection from the pool, which may be new."""
        connection = await self._pool.acquire()
        if connection not in self._probed:
            # aiomysql turns on the kernel's probes, but has no option for their times, which are hours
            end = connection._writer.transport.get_extra_info("socket")
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL_S)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _COUNT)
            self._probed.add(connection)
        return connection

    def _lose(self, error: pymysql.MySQLError) -> None:
        """Let requests fail at once until the server takes connections again."""
        if self._lost is None:
            self._lost = f"{LOST}{_line(error)}"
            _log.warning("%s: %s", self._address, self._lost)
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        while self._lost is not None:
            await asyncio.sleep(_PAUSE_S)
            with suppress(pymysql.MySQLError):
                await self._pool.release(await self._taken())
                self._lost = None
        _log.warning("%s: the database is back", self._address)


def database(engine: str, address: Address, size: int, isolation: str) -> Database:
    """Return the pool for an engine, not yet open.

    Args:
        engine: name of the engine, as in studies.
        address: address of its server.
        size: number of connections.
        isolation: one of :data:`ISOLATIONS`.
    """
    kind = PostgresDatabase if engine == "postgres" else MySQLDatabase
    return kind(address, size, isolation)


def _line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]
