"""The terminals' side of HTTP/1.1: connections that are kept, each with one request at a time."""

import asyncio
import socket
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

from benchlab.errors import RunFailed
from benchlab.workloads.tpcc.dataset import TYPES


class Client(Protocol):
    """The user of a connection."""

    def connected(self, connection: "Connection") -> None:
        """Take the connection, which is established."""

    def answered(self, status: int, body: bytes) -> None:
        """Take the answer to a request."""

    def garbled(self) -> None:
        """Learn that something other than an answer came, and that the connection is closed."""

    def broken(self) -> None:
        """Learn that the other side closed the connection, or that it broke."""


class Connection(asyncio.Protocol):
    """One connection.

    A parser is made for each answer (1 µs) and dropped after it. Of ten thousand connections, only
    the few whose terminals wait for an answer need a parser.
    """

    __slots__ = ("_body", "_client", "_is_whole", "_parser", "_transport")

    def __init__(self, client: Client):
        self._client: Client | None = client
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._body = b""
        self._is_whole = False

    def request(self, message: bytes) -> None:
        """Send a request, after the one before was answered."""
        self._parser = HttpResponseParser(self)
        self._transport.write(message)

    def close(self) -> None:
        """Close it; its client gets no more calls."""
        self._client = None
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See :class:`asyncio.Protocol`."""
        self._transport = transport
        self._client.connected(self)

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        client = self._client
        if client is None:
            return
        parser = self._parser
        try:
            if parser is None:
                raise HttpParserError("an answer that nothing was asked for")
            parser.feed_data(data)
        except HttpParserError:
            self.close()
            client.garbled()
            return
        if self._is_whole:
            body, self._body, self._is_whole, self._parser = self._body, b"", False, None
            client.answered(parser.get_status_code(), body)

    def connection_lost(self, error: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        del error  # which one makes no difference to a terminal
        client, self._client, self._parser = self._client, None, None
        if client is not None:
            client.broken()

    def on_body(self, part: bytes) -> None:
        """Take a part of the body (called by the parser)."""
        self._body += part

    def on_message_complete(self) -> None:
        """Note that the answer is whole (called by the parser)."""
        self._is_whole = True


@dataclass(frozen=True)
class Server:
    """The application server."""

    host: str
    port: int

    @classmethod
    def at(cls, url: str) -> "Server":
        """Return the server at a URL.

        Raises:
            RunFailed: the URL is not of the form http://host:port.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or 80
        except ValueError:  # the port is not valid
            host, port = None, 0
        has_more = parts.path not in ("", "/") or parts.query or parts.fragment
        if host is None or parts.scheme != "http" or has_more:
            raise RunFailed(f"the application server's URL {url!r} is not http://host:port")
        return cls(host, port)

    async def address(self) -> tuple[str, int]:
        """Look up its numeric address, once for thousands of connections.

        Raises:
            RunFailed: it has no address.
        """
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise RunFailed(f"the application server {self.host!r}: {error}") from error
        return found[0][4][:2]


class Messages:
    """Requests to an application server, as they are sent.

    Attributes:
        menus: requests that choose a transaction from the menu, one for each of :data:`TYPES`.
    """

    def __init__(self, server: Server):
        bracketed = f"[{server.host}]" if ":" in server.host else server.host
        end = f" HTTP/1.1\r\nHost: {bracketed}:{server.port}\r\n"
        self.menus = tuple(f"GET /api/menu/{name}{end}\r\n".encode() for name in TYPES)
        self._heads = tuple(
            f"POST /api/{name}{end}Content-Type: application/json\r\n".encode() for name in TYPES
        )

    def filled(self, number: int, body: bytes) -> bytes:
        """Return the request with the filled input screen.

        Args:
            number: index of its type in :data:`TYPES`.
            body: input of the transaction, as JSON.
        """
        return b"%bContent-Length: %d\r\n\r\n%b" % (self._heads[number], len(body), body)
