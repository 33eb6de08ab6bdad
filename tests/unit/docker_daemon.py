"""A daemon that speaks just enough of Docker's API, and misbehaves on request."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

CAPTURES: Final = Path(__file__).parents[1] / "captures"

PATIENCE: Final = 20.0
"""Seconds until something that is awaited counts as not coming."""


def captured(name: str) -> list[dict[str, object]]:
    """Return a recorded answer of Docker's."""
    answer = json.loads((CAPTURES / name).read_text())
    assert isinstance(answer, list)
    return answer


def container(
    number: int = 1,
    *,
    state: str = "running",
    labels: Mapping[str, object] | None = None,
    mounts: Iterable[Mapping[str, object]] = (),
    uid: str = "uid-1",
    namespace: str = "telco",
    name: str = "cnf",
    inside: str = "app",
) -> dict[str, object]:
    """Return an entry of Docker's list, of a pod's container."""
    return {
        "Id": f"{number:064x}",
        "Names": [f"/k8s_{inside}_{name}_{namespace}_{uid}_0"],
        "State": state,
        "Labels": {
            "io.kubernetes.container.name": inside,
            "io.kubernetes.docker.type": "container",
            "io.kubernetes.pod.name": name,
            "io.kubernetes.pod.namespace": namespace,
            "io.kubernetes.pod.uid": uid,
            **(labels or {}),
        },
        "Mounts": list(mounts),
    }


class Daemon:
    """What listens on a socket; the attributes may be changed while it does.

    Attributes:
        path: of the socket.
        api: the version of the API that it offers, ``None`` for no word of it.
        containers: what it lists.
        answers: raw bytes by path, without the version, in place of what it would answer.
        asked: the paths and queries of the requests that came.
        breaks_off: close the connection after one of the raw answers.
        dribbles: send the list a byte at a time, and never all of it.
        on_list: called before the list is answered.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.api: str | None = "1.41"
        self.containers: list[dict[str, object]] = []
        self.answers: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.breaks_off = False
        self.dribbles = False
        self.on_list: Callable[[], None] | None = None
        self.connections: set[_Connection] = set()
        self._waiting: list[tuple[_Connection, str]] = []
        self._hangs = False
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Connection(self), self.path)

    async def stop(self) -> None:
        """End as a killed process does: its connections break, and its socket file stays."""
        if self._server is not None:
            self._server.close()
        for each in tuple(self.connections):
            each.transport.abort()
        await self.until(lambda: not self.connections)

    def hang(self) -> None:
        """Take connections and requests, and answer nothing."""
        self._hangs = True

    def go_on(self) -> None:
        """Answer again, also what was asked meanwhile."""
        self._hangs = False
        waiting, self._waiting = self._waiting, []
        for connection, target in waiting:
            self._answer(connection, target)

    def emit(self, piece: bytes) -> None:
        """Send a piece to whoever follows the events."""
        for each in self._followers():
            each.transport.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def end_events(self) -> None:
        """End the events as HTTP wants it."""
        for each in self._followers():
            each.transport.write(b"0\r\n\r\n")

    def cut_events(self) -> None:
        """Break the connections on which events are followed."""
        for each in self._followers():
            each.transport.abort()

    def asked_for(self, path: str) -> list[str]:
        """Return the requests for a path, whatever the API's version."""
        return [each for each in self.asked if _unversioned(each) == path]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so of this daemon."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def changed(self) -> None:
        """Look again at what is waited for; for the connections."""
        self._changed.set()

    def ask(self, connection: "_Connection", target: str) -> None:
        """Take a request; for the connections."""
        self.asked.append(target)
        if self._hangs:
            self._waiting.append((connection, target))
        else:
            self._answer(connection, target)
        self.changed()

    def _followers(self) -> list["_Connection"]:
        return [each for each in self.connections if each.follows]

    def _answer(self, connection: "_Connection", target: str) -> None:
        path = _unversioned(target)
        if path == "/containers/json" and self.on_list is not None:
            self.on_list()
        if path in self.answers:
            connection.transport.write(self.answers[path])
            if self.breaks_off:
                connection.transport.close()
        elif path == "/_ping":
            offered = {} if self.api is None else {"Api-Version": self.api}
            connection.transport.write(response(b"OK", headers=offered))
        elif path == "/version":
            connection.transport.write(response(b'{"Version": "20.10.24", "ApiVersion": "1.41"}'))
        elif path == "/containers/json":
            whole = response(json.dumps(self.containers).encode())
            connection.dribble(whole) if self.dribbles else connection.transport.write(whole)
        elif path == "/events":
            connection.follows = True
            connection.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
        else:
            connection.transport.write(response(b'{"message": "page not found"}', status="404 Not Found"))


class _Connection(asyncio.Protocol):
    """One connection of somebody who asks."""

    transport: asyncio.Transport

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._received = b""
        self.follows = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._daemon.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._daemon.ask(self, head.split()[1].decode())

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._daemon.connections.discard(self)
        self._daemon.changed()

    def dribble(self, data: bytes) -> None:
        if data[1:] and not self.transport.is_closing():
            self.transport.write(data[:1])
            asyncio.get_running_loop().call_later(0.02, self.dribble, data[1:])


def response(body: bytes, *, status: str = "200 OK", headers: Mapping[str, str] | None = None) -> bytes:
    """Return an answer of HTTP."""
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def _unversioned(target: str) -> str:
    path = target.partition("?")[0]
    return f"/{path.split('/', 2)[2]}" if path.startswith("/v1.") else path


@asynccontextmanager
async def a_daemon(name: str = "docker.sock") -> AsyncIterator[Daemon]:
    """Run one on a socket of its own, of a certain name."""
    with tempfile.TemporaryDirectory(prefix="docker-", dir="/tmp") as directory:
        daemon = Daemon(f"{directory}/{name}")
        await daemon.start()
        try:
            yield daemon
        finally:
            await daemon.stop()
