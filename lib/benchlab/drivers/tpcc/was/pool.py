"""Connections to the database, ready for a transaction each.

There are as many as transactions may run at a time, so nobody waits for one here. Where the database is
lost, whoever asks for a connection hears of it at once; when it is back, so are the connections.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Protocol

import aiomysql
import msgspec
import psycopg
import psycopg_pool
import pymysql

from benchlab.drivers.tpcc.was import LOST
from benchlab.errors import EngineError

#: Isolation levels (SQL-92), as options name them. Which of them an engine takes, it says itself.
ISOLATIONS = ("read-committed", "repeatable-read", "serializable")

#: How long a connection may take to come about, all of a pool's at the start, and the pause between
#: attempts to reach a database that was lost.
_CONNECT_S, _FILL_S, _PAUSE_S = 5, 60, 0.2

#: A host that has lost its power says nothing: after so many seconds it is asked, every so many
#: seconds, so often, before its connections count as lost.
_KEEPALIVES = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}

_log = logging.getLogger(__name__)


class Connection(Protocol):
    """What both drivers' connections have."""

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the database is, and as whom it is used. Secret: it has the password."""

    host: str
    port: int
    user: str
    password: str
    database: str

    def __str__(self) -> str:
        """Return what of it may be shown."""
        return f"{self.database} on {self.host}:{self.port}"

    __repr__ = __str__


class Database(ABC):
    """A pool of connections."""

    @abstractmethod
    async def open(self) -> None:
        """Fill the pool.

        Raises:
            EngineError: the database does not answer, or takes no such connection.
        """

    @abstractmethod
    async def acquire(self) -> Connection:
        """Take a connection, which is in no transaction and begins them at the isolation level.

        Raises:
            EngineError, psycopg.Error, pymysql.MySQLError: there is none, since the database is lost.
        """

    @abstractmethod
    async def release(self, connection: Connection) -> None:
        """Give a connection back, whatever has become of it."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""


class PostgresDatabase(Database):
    """PostgreSQL, by psycopg's own pool.

    That replaces connections that were lost, at intervals which double. It is left alone with a single
    one. Where the server is lost, though, it would be late when it is back: then it is given up, and a
    new one is opened as soon as the server answers.
    """

    def __init__(self, address: Address, size: int, isolation: str) -> None:
        self._address, self._size = address, size
        self._level = isolation.replace("-", " ")
        self._pool: psycopg_pool.AsyncConnectionPool | None = None
        #: Connection that is in use → the pool that it is of, which may have been given up since.
        self._taken: dict[psycopg.AsyncConnection, psycopg_pool.AsyncConnectionPool] = {}
        self._lost: str | None = None
        self._recovery: asyncio.Task[None] | None = None
        # it would report each attempt; what matters of them is reported here
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)

    async def open(self) -> None:
        """See :meth:`Database.open`."""
        try:
            await self._probe()  # the pool itself would not say what is amiss
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
        """Return a pool that is full."""
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
        """Return what psycopg connects with."""
        return {
            "host": self._address.host,
            "port": self._address.port,
            "user": self._address.user,
            "password": self._address.password,
            "dbname": self._address.database,
            "application_name": "tpcc-was",
            "connect_timeout": _CONNECT_S,
            "autocommit": True,
            **_KEEPALIVES,
        }

    async def _configure(self, connection: psycopg.AsyncConnection) -> None:
        # the session's: a procedure that is called outside of a transaction has it, too
        await connection.execute(
            "SELECT set_config('default_transaction_isolation', %s, false)", [self._level]
        )

    async def _probe(self) -> None:
        """Raise psycopg.Error unless the server takes a connection."""
        connection = await psycopg.AsyncConnection.connect(**self._parameters())
        await connection.close()

    async def _recover(self) -> None:
        """Find out whether a connection or the server was lost, and mend it."""
        while True:
            try:
                await self._probe()
                if self._lost is None:
                    await self._pool.check()  # others may have been lost with it
                    return
                self._pool = await self._opened()
            except psycopg.Error as error:
                if self._lost is None:
                    self._lost = f"{LOST}{_line(error)}"
                    _log.warning("%s: %s", self._address, self._lost)
                    await self._pool.close()  # who waits for a connection hears of it, too
                await asyncio.sleep(_PAUSE_S)
            else:
                self._lost = None
                _log.warning("%s: the database is back", self._address)
                return


class MySQLDatabase(Database):
    """MySQL and what speaks its protocol, by aiomysql's own pool.

    That drops the connections that were lost and makes new ones when they are asked for.
    """

    def __init__(self, address: Address, size: int, isolation: str) -> None:
        self._address, self._size = address, size
        self._level = isolation.replace("-", " ").upper()
        self._pool: aiomysql.Pool | None = None

    async def open(self) -> None:
        """See :meth:`Database.open`."""
        try:
            self._pool = await aiomysql.create_pool(
                minsize=1,  # after a loss, whoever asks first would have to wait for all of them
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
            taken = [await self._pool.acquire() for _ in range(self._size)]
        except (pymysql.MySQLError, OSError) as error:
            raise EngineError(f"{self._address}: {_line(error)}") from error
        for connection in taken:
            await self._pool.release(connection)

    async def acquire(self) -> aiomysql.Connection:
        """See :meth:`Database.acquire`."""
        return await self._pool.acquire()

    async def release(self, connection: aiomysql.Connection) -> None:
        """See :meth:`Database.release`."""
        await self._pool.release(connection)

    async def close(self) -> None:
        """See :meth:`Database.close`."""
        self._pool.terminate()
        await self._pool.wait_closed()


def database(engine: str, address: Address, size: int, isolation: str) -> Database:
    """Return the pool for an engine, not yet open.

    Args:
        engine: as in studies.
        address: of its server.
        size: connections.
        isolation: one of :data:`ISOLATIONS`.
    """
    kind = PostgresDatabase if engine == "postgres" else MySQLDatabase
    return kind(address, size, isolation)


def _line(error: Exception) -> str:
    """Return the first line of what an error says."""
    return str(error).strip().partition("\n")[0]
