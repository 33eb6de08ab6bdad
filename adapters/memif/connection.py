"""A control channel: messages, with a descriptor now and then, over a connected SEQPACKET socket on the event loop."""

import array
import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from adapters.memif.codec import SIZE, Disconnect, Message, decode, encode
from adapters.memif.errors import Malformed, PeerClosed, PeerSilent

_INT: Final = array.array("i").itemsize
_CONTROL: Final = socket.CMSG_SPACE(_INT)
"""Room for the one descriptor that a message may carry; the system closes what does not fit and says so."""

_FLAGS: Final = socket.MSG_CMSG_CLOEXEC
"""A descriptor that a peer sends is never inherited by a program that we start."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message, and the descriptor that came with it; who receives it closes it."""

    message: Message
    descriptor: int | None = None


class Connection:
    """One end of a control channel; takes the socket over.

    One task receives and one sends, which may be the same.

    Args:
        sock: connected.
        peer: says in errors who is at the other end.
        patience: seconds that the peer has for each message, to send it or to take it.
    """

    def __init__(self, sock: socket.socket, *, peer: str, patience: float) -> None:
        sock.settimeout(0)
        self._sock = sock
        self._peer = peer
        self._patience = patience
        self._waits: dict[asyncio.Future[None], Callable[[int], object]] = {}
        self._reset = False
        self.unwanted = 0
        """Messages with descriptors that nobody asked for; they never became ours."""

    async def send(self, message: Message, descriptor: int | None = None) -> None:
        """Send a message, with a descriptor that stays the caller's.

        Raises:
            PeerSilent: the peer takes nothing.
            PeerClosed: it is gone; what it said before may still be received.
            Unencodable: the message has no form on the wire.
        """
        data = encode(message)
        rights = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        loop = asyncio.get_running_loop()
        async with self._in_time(f"took no {type(message).__name__}", self._patience):
            while True:
                try:
                    self._sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)
                except (BlockingIOError, InterruptedError):
                    await self._until(loop.add_writer, loop.remove_writer)
                except OSError as error:
                    raise self._closed() from error
                else:
                    return

    async def receive(self, *, keep: bool = False, endless: bool = False) -> Received:
        """Return the next message.

        Args:
            keep: hand a descriptor over that comes with it; otherwise the system is told to drop it.
            endless: wait as long as it takes.

        Raises:
            PeerSilent: nothing came in time.
            PeerClosed: the peer hung up.
            Malformed: what came is no message; the channel is of no more use.
        """
        loop = asyncio.get_running_loop()
        async with self._in_time("said nothing", None if endless else self._patience):
            while True:
                try:
                    return self._receive(keep=keep)
                except (BlockingIOError, InterruptedError):
                    await self._until(loop.add_reader, loop.remove_reader)
                except ConnectionResetError as error:
                    # The peer hung up without reading all we sent.  The system says so once, and before what the
                    # peer said last, which may be the reason.
                    if self._reset:
                        raise self._closed() from error
                    self._reset = True
                except OSError as error:
                    raise self._closed() from error

    @property
    def open(self) -> bool:
        """Whether the peer is still there and has said nothing that waits to be received."""
        try:
            self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def part(self, text: str, code: int = 0) -> None:
        """Say DISCONNECT if the peer can still be told, and close; closing twice is fine."""
        with suppress(OSError):
            self._sock.send(encode(Disconnect(code, text)), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self.close()

    def close(self) -> None:
        """Close the socket; whoever waits for it is told that it is closed."""
        descriptor = self._sock.fileno()
        for future, unwatch in self._waits.items():
            unwatch(descriptor)  # before its number can be another's
            if not future.done():
                future.set_exception(PeerClosed(f"the channel with {self._peer} was closed on our side"))
        self._waits.clear()
        self._sock.close()

    def _receive(self, *, keep: bool) -> Received:
        data, ancillary, flags, _ = self._sock.recvmsg(SIZE + 1, _CONTROL if keep else 0, _FLAGS)
        descriptors = _descriptors(ancillary)
        try:
            message = self._judged(data, descriptors, cut=bool(flags & socket.MSG_CTRUNC), keep=keep)
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return Received(message, *descriptors)

    def _judged(self, data: bytes, descriptors: list[int], *, cut: bool, keep: bool) -> Message:
        if not data:
            # An empty packet cannot be told from the end, and is no message either.
            raise self._closed()
        if len(data) > SIZE:
            raise Malformed(f"a message of more than {SIZE} bytes")
        if cut and not keep:
            self.unwanted += 1
        elif cut or len(descriptors) > 1:
            raise Malformed("a message with more than one descriptor, or with one that this process has no room for")
        return decode(data)

    @asynccontextmanager
    async def _in_time(self, fault: str, seconds: float | None) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise PeerSilent(
                f"{self._peer} {fault} within {seconds:g} s; it hangs or is overloaded, or something else than a memif"
                " dataplane listens there: look at it with 'ss -xlp', and at its log"
            ) from error

    async def _until(
        self, watch: Callable[[int, Callable[[], None]], object], unwatch: Callable[[int], object]
    ) -> None:
        future = asyncio.get_running_loop().create_future()
        descriptor = self._sock.fileno()
        watch(descriptor, partial(_wake, future))
        self._waits[future] = unwatch
        try:
            await future
        finally:
            if self._waits.pop(future, None) is not None:
                unwatch(descriptor)

    def _closed(self) -> PeerClosed:
        return PeerClosed(
            f"{self._peer} closed the channel without saying why; VPP does so for a protocol version that it does not"
            " speak, and any peer does when it ends: look at its log"
        )


async def readable(sock: socket.socket) -> None:
    """Wait until a socket has something to read or to accept; nothing is taken from it."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    descriptor = sock.fileno()
    loop.add_reader(descriptor, partial(_wake, future))
    try:
        await future
    finally:
        loop.remove_reader(descriptor)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % _INT])
    return found.tolist()
