"""The server: one request, one page, the end of the connection."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from errno import EADDRINUSE
from http import HTTPStatus
from typing import Any, Final, Never, TypeAlias

from adapters.http import messages
from adapters.http.messages import END, LONGEST_HEAD, METHODS, BadRequest, Page, Request
from domain.ports.reports import Reports

Make: TypeAlias = Callable[[], Awaitable[Page]]
"""Makes a page anew for each request."""

MOST: Final = 64
"""Connections at a time.  When there are more, the oldest have had their turn: an honest client says what it wants at
once, has its page in milliseconds and is gone."""

_WAITING: Final = 1024
"""Connections that the kernel holds for us meanwhile: those without a place try again after seconds."""

_PIECE: Final = 4096
_LAST_WORDS: Final = 64 * 1024
"""Bytes that are still read of a client after its answer: to close on what it says would take the answer from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds.

    Attributes:
        turn: that each connection has before it may have to make room for another.
        request: that a client has for its whole request.
        page: that a page may take.
        response: that a client has for taking it.
        farewell: for the client to close the connection.
        retry: between two attempts to listen, or to accept a connection, that fail.
    """

    turn: float = 0.05
    request: float = 5.0
    page: float = 5.0
    response: float = 5.0
    farewell: float = 1.0
    retry: float = 1.0


@dataclass(frozen=True, slots=True)
class _Connection:
    socket: socket.socket
    began: float


class HttpServer:
    """Serves pages under their paths.

    An address that is taken is no error, because active and standby process of a node may share it: it is reported
    once and tried again until it is free.  The same goes for one that cannot be had for another reason, loudly.

    Args:
        address: host (address, or name of one) and port, of which 0 is any free one; ``None`` = serve nothing.
        pages: by path.
    """

    def __init__(
        self,
        *,
        address: tuple[str, int] | None,
        pages: Mapping[str, Make],
        reports: Reports,
        times: Times | None = None,
    ) -> None:
        self._address = address
        self._pages = pages
        self._reports = reports
        self._times = times or Times()
        self._open: dict[asyncio.Task[None], _Connection] = {}
        self._left = asyncio.Event()
        self.port: int | None = None
        """On which it listens, ``None`` while it does not."""

    async def run(self) -> None:
        """Serve until cancelled, or end at once if there is nothing to serve."""
        if self._address is None:
            return
        host, port = self._address
        async with self._listening(host, port) as listeners, asyncio.TaskGroup() as tasks:
            self.port = listeners[0].getsockname()[1]
            self._reports.note("serving HTTP", address=_shown(host, self.port), paths=sorted(self._pages))
            for listener in listeners:
                tasks.create_task(self._accept(listener), name="HTTP")

    @asynccontextmanager
    async def _listening(self, host: str, port: int) -> AsyncIterator[list[socket.socket]]:
        """Listen as soon as that can be had; afterwards no connection is left."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close)
            listeners = await self._had(host, port)
            for listener in listeners:
                stack.callback(listener.close)
            yield listeners

    async def _had(self, host: str, port: int) -> list[socket.socket]:
        told = None
        while True:
            try:
                return await _listen(host, port)
            except OSError as error:
                if error.errno != told:
                    told = error.errno
                    self._tell(_shown(host, port), error)
            await asyncio.sleep(self._times.retry)

    def _tell(self, address: str, error: OSError) -> None:
        if error.errno == EADDRINUSE:
            self._reports.note("the address for HTTP is taken; waiting until it is free", address=address)
            return
        self._reports.warn(
            "HTTP is not served",
            address=address,
            reason=error.strerror,
            cure="set http.listen to an address of this node and a port that we may use, or to null",
        )

    async def _accept(self, listener: socket.socket) -> Never:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:  # no descriptor is left, say; those that wait can wait a little longer
                self._reports.warn("an HTTP connection cannot be accepted", reason=os.strerror(error.errno or 0))
                await asyncio.sleep(self._times.retry)
                continue
            try:
                await self._room()
            except BaseException:
                connection.close()
                raise
            task = asyncio.create_task(self._converse(connection), name="HTTP connection")
            self._open[task] = _Connection(connection, loop.time())
            task.add_done_callback(self._ended)

    async def _room(self) -> None:
        """Wait until there is room for one more connection, and make some when the oldest has had its turn."""
        loop = asyncio.get_running_loop()
        while len(self._open) >= MOST:
            oldest, connection = next(iter(self._open.items()))
            left = connection.began + self._times.turn - loop.time()
            if left <= 0:
                oldest.cancel()
            self._left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left if left > 0 else None):
                    await self._left.wait()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._open.pop(task).socket.close()
        self._left.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._reports.warn("an HTTP connection failed", fault=type(error).__name__)

    async def _close(self) -> None:
        for task in self._open:
            task.cancel()
        while self._open:
            self._left.clear()
            await self._left.wait()

    async def _converse(self, connection: socket.socket) -> None:
        with suppress(OSError, TimeoutError):  # the client is gone, or neither speaks nor reads
            response = await self._response(connection)
            if response is None:
                return
            async with asyncio.timeout(self._times.response):
                await asyncio.get_running_loop().sock_sendall(connection, response)
            connection.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(self._times.farewell):
                await _hear_out(connection)

    async def _response(self, connection: socket.socket) -> bytes | None:
        """Return what a client is answered; ``None`` if it says nothing, as one that looks whether somebody listens."""
        try:
            request = await self._request(connection)
        except BadRequest as refused:
            return messages.encode(messages.refusal(refused), head_only=False)
        if request is None:
            return None
        return messages.encode(await self._page(request), head_only=request.method == "HEAD")

    async def _request(self, connection: socket.socket) -> Request | None:
        loop, said = asyncio.get_running_loop(), bytearray()
        try:
            async with asyncio.timeout(self._times.request):
                while END not in said and (piece := await loop.sock_recv(connection, _PIECE)):
                    said += piece
                    if len(said) > LONGEST_HEAD:
                        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too long")
        except TimeoutError as error:
            if not said:
                return None
            raise BadRequest(HTTPStatus.REQUEST_TIMEOUT, "the request did not come in time") from error
        return messages.parse(bytes(said)) if said else None

    async def _page(self, request: Request) -> Page:
        make = self._pages.get(request.path)
        if make is None:
            return messages.told(HTTPStatus.NOT_FOUND, f"there is nothing here; try {' '.join(sorted(self._pages))}")
        if request.method not in METHODS:
            allowed = ", ".join(METHODS)
            return messages.told(HTTPStatus.METHOD_NOT_ALLOWED, f"only {allowed}", {"Allow": allowed})
        try:
            async with asyncio.timeout(self._times.page):
                return await make()
        except Exception as error:  # noqa: BLE001 -- the last door: a page that cannot be made must not end the daemon
            self._reports.warn("a page could not be made", path=request.path, fault=type(error).__name__)
            return messages.told(HTTPStatus.INTERNAL_SERVER_ERROR, "this page could not be made; see the daemon's log")


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of a host, or on none.

    Raises:
        OSError: one of them cannot be had.
    """
    async with AsyncExitStack() as stack:
        listeners = []
        for family, kind, protocol, _, address in await _addresses(host, port):
            listener = stack.enter_context(socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(_WAITING)
            listeners.append(listener)
        stack.pop_all()
        return listeners


async def _addresses(host: str, port: int) -> Sequence[tuple[int, int, int, str, Any]]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:  # a name, then; it may have to be asked for, which takes time
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _hear_out(connection: socket.socket) -> None:
    loop, left = asyncio.get_running_loop(), _LAST_WORDS
    while left > 0 and (piece := await loop.sock_recv(connection, _PIECE)):
        left -= len(piece)


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
