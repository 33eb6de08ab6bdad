"""A listening socket that behaves as the kubelet's: plain bind and listen, and a stale file when the process ends."""

import asyncio
import contextlib
import socket
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

_CHUNK: Final = 65536


class Front:
    """``kubelet.sock``, in front of a gRPC server that listens elsewhere.

    gRPC's own servers remove their socket file when they stop; the kubelet leaves it behind, and whoever dials it
    then is refused.  It also makes the file with ``bind`` and listens a moment later, so that a watcher may dial too
    early: ``listen_delay`` (seconds) makes that moment as long as wanted.
    """

    def __init__(self, path: Path, backend: str, *, listen_delay: float = 0.0) -> None:
        self._path = path
        self._backend = backend
        self._listen_delay = listen_delay
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Bind, wait, listen."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket = listener
        listener.bind(str(self._path))
        if self._listen_delay:
            await asyncio.sleep(self._listen_delay)
        listener.listen()
        self._spawn(self._accept(listener))

    async def close(self) -> None:
        """Stop listening and drop every connection; the file stays."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            self._spawn(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        backend = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with connection, backend, contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_connect(backend, self._backend)
            await asyncio.gather(_pump(connection, backend), _pump(backend, connection))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy one direction until its end, or that of the connection, then end the other socket's input too."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while chunk := await loop.sock_recv(source, _CHUNK):
            await loop.sock_sendall(sink, chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def leave_stale_socket(path: Path) -> None:
    """Leave the file of a socket on which nobody listens, as a kubelet that died does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))


def wipe_sockets(directory: Path) -> None:
    """Remove every socket directly in a directory, also through a symlink; everything else stays."""
    for path in directory.iterdir():
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(path.stat().st_mode):
                path.unlink()
