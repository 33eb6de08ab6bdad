"""A small dataplane's end of the control channel: it listens, agrees on links, and never looks at a packet.

For the demo and for tests; on a node this is what VPP does.
"""

import asyncio
import errno
import os
import socket
import stat
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from adapters.memif.codec import Connected, Disconnect
from adapters.memif.connection import Connection, readable
from adapters.memif.errors import Malformed, PeerClosed, PeerSilent, PlaceTaken
from adapters.memif.handshake import Handshake, Interface, Turned

MODE: Final = 0o775
"""Of the socket: what VPP's comes to, which binds under umask 002.  To connect takes write permission."""

_TYPE: Final = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK

_BACKLOG: Final = 16
_CONVERSATIONS: Final = 64
"""How many clients are served at a time; more wait in the listener's queue."""

_REMEMBERED: Final = 100

_PAUSE: Final = 0.1
"""Seconds before the next attempt when the system has no descriptor left for a client."""


class MemifServer:
    """Listens on one socket for any number of interfaces, each for one client at a time.

    As an asynchronous context manager it listens from beginning to end.  Whatever a client does, it harms only
    itself: it is told why it is turned away, its descriptors are closed, and the next one is served.

    Args:
        path: of the socket; its directory must exist.
        interfaces: that are offered on it.
        name: of the program, for people.
        patience: seconds that a client has until its link is up.
    """

    def __init__(
        self, path: str, interfaces: Iterable[Interface], *, name: str = "memif-device-plugin", patience: float = 5.0
    ) -> None:
        self._path = path
        self._interfaces = {interface.id: interface for interface in interfaces}
        self._name = name
        self._patience = patience
        self._holders: dict[int, Handshake] = {}
        self._room = asyncio.Semaphore(_CONVERSATIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self.turned: deque[str] = deque(maxlen=_REMEMBERED)
        """Why clients were turned away, the latest last: the words that they were told."""

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            PlaceTaken: the socket cannot be made where it belongs.
        """
        self._listener = _listening(self._path)
        self._accepting = asyncio.create_task(self._accept(self._listener))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Hang up on everybody.  The socket stays as a dead one, as VPP leaves it; the next server replaces it."""
        tasks = [task for task in (self._accepting, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        for end in ends:
            if end is not None and not isinstance(end, asyncio.CancelledError):
                raise end  # a fault of ours: clients cause none

    @property
    def links(self) -> dict[int, str]:
        """The interfaces whose link is up, by id, and how the client calls its end."""
        return {
            number: holder.peer_interface
            for number, holder in sorted(self._holders.items())
            if holder.peer_interface is not None
        }

    async def until(self, holds: Callable[["MemifServer"], bool]) -> None:
        """Wait until something is true, which is looked at whenever a client comes up or goes."""
        while not holds(self):
            await self._changed.wait()

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._room.acquire()
            await readable(listener)
            try:
                sock, _ = listener.accept()
            except OSError:
                # The client went away again, or no descriptor is left; others may go and leave us one.
                self._room.release()
                await asyncio.sleep(_PAUSE)
                continue
            task = asyncio.create_task(self._serve(sock))
            self._tasks.add(task)
            task.add_done_callback(partial(self._served, sock))

    def _served(self, sock: socket.socket, task: asyncio.Task[None]) -> None:
        sock.close()  # for a task that was cancelled before it began
        self._tasks.discard(task)
        self._room.release()

    async def _serve(self, sock: socket.socket) -> None:
        connection = Connection(sock, peer=f"a client of {self._path}", patience=self._patience)
        handshake = Handshake(self._interfaces, self._holders)
        try:
            async with asyncio.timeout(self._patience):
                agreed = await self._agree(connection, handshake)
            if agreed:
                await self._hold(connection)
        except Turned as reason:
            self._turn(connection, str(reason))
        except Malformed:
            self._turn(connection, "malformed message")
        except (PeerSilent, TimeoutError):
            self._turn(connection, "the handshake took too long")
        except PeerClosed:
            pass
        except asyncio.CancelledError:
            connection.part("the dataplane ends")
            raise
        finally:
            connection.close()
            handshake.close()
            self._tell()

    async def _agree(self, connection: Connection, handshake: Handshake) -> bool:
        """Go through the handshake, and tell whether a link came of it: a probe leaves half-way."""
        await connection.send(handshake.hello(self._name))
        while True:
            received = await connection.receive(keep=True)
            if isinstance(received.message, Disconnect):
                return False
            answer = handshake.answer(received)
            if isinstance(answer, Connected):
                self._tell()
                await connection.send(answer)
                return True
            await connection.send(answer)

    async def _hold(self, connection: Connection) -> None:
        """Wait until the client hangs up, which is all that it may do once the link is up."""
        received = await connection.receive(endless=True)
        if not isinstance(received.message, Disconnect):
            raise Turned("unexpected message")

    def _turn(self, connection: Connection, reason: str) -> None:
        self.turned.append(reason)
        connection.part(reason)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _listening(path: str) -> socket.socket:
    """Return a listening socket in the place of none, or of one on which nobody listens any more."""
    sock = socket.socket(socket.AF_UNIX, _TYPE)
    try:
        _make_room(path)
        sock.bind(path)
        _set_mode(path)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise PlaceTaken(
            f"cannot listen on {path}: {error.strerror or error}; its directory must exist and be ours to write to, and"
            " the path must be shorter than 108 bytes"
        ) from error
    except PlaceTaken:
        sock.close()
        raise
    return sock


def _make_room(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise PlaceTaken(f"{path} is no socket and is left alone; find out who made it, and remove it")
    with socket.socket(socket.AF_UNIX, _TYPE) as caller:
        answer = caller.connect_ex(path)
    if answer == errno.ECONNREFUSED:
        Path(path).unlink()
    elif answer != errno.ENOENT:
        raise PlaceTaken(f"somebody lives at {path} already; find it with 'ss -xlp', and stop it or use another path")


def _set_mode(path: str) -> None:
    # Not by a umask: that is the whole process's, and other threads make files.  Not by name: by then it may be a link.
    made = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        Path(f"/proc/self/fd/{made}").chmod(MODE)
    finally:
        os.close(made)
