"""Peers of the memif protocol for tests: raw ones that say whatever a test wants, and the count of what may leak."""

import array
import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.memif.codec import SIZE, Message, decode, encode
from domain.secret import Secret

SECRET: Final = Secret("TheRightSecret00001")
WRONG: Final = Secret("AnotherSecret000002")
SHORT: Final = 0.25
"""Seconds of patience where the peer is meant to be silent."""


@dataclass(frozen=True, slots=True)
class Raw:
    """One end of a SEQPACKET connection that keeps no rules."""

    sock: socket.socket

    async def send(self, data: Message | bytes, *descriptors: int) -> None:
        """Send a message, or any bytes, with any descriptors."""
        octets = data if isinstance(data, bytes) else encode(data)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.sock.sendmsg([octets], rights, socket.MSG_NOSIGNAL)

    async def receive(self) -> Message | None:
        """Return the next message, ``None`` at the end."""
        try:
            data = await asyncio.get_running_loop().sock_recv(self.sock, SIZE + 1)
        except ConnectionResetError:  # said once, before what was sent last
            data = await asyncio.get_running_loop().sock_recv(self.sock, SIZE + 1)
        return decode(data) if data else None


@contextlib.contextmanager
def workdir() -> Iterator[str]:
    """A directory with a path that leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="mif", dir="/tmp") as path:
        yield path


@contextlib.contextmanager
def bound(path: str, kind: int = socket.SOCK_SEQPACKET, *, queue: int | None = 4) -> Iterator[socket.socket]:
    """A socket at a path; it listens unless there is no queue."""
    with socket.socket(socket.AF_UNIX, kind) as sock:
        sock.setblocking(False)  # noqa: FBT003 -- the library's form
        sock.bind(path)
        if queue is not None:
            sock.listen(queue)
        yield sock


def link(place: str, target: str) -> None:
    """Put a symbolic link somewhere."""
    Path(place).symlink_to(target)


def touch(place: str) -> None:
    """Put a file somewhere."""
    Path(place).touch()


def left_behind(path: str) -> None:
    """Leave a socket whose process has ended."""
    with bound(path):
        pass


@contextlib.asynccontextmanager
async def playing(path: str, play: Callable[[Raw], Awaitable[None]]) -> AsyncIterator[None]:
    """A server that does with its first client whatever a test wants, then hangs up; its errors fail the test."""

    async def serve(listener: socket.socket) -> None:
        sock, _ = await asyncio.get_running_loop().sock_accept(listener)
        with sock:
            await play(Raw(sock))

    with bound(path) as listener:
        serving = asyncio.create_task(serve(listener))
        try:
            yield
            async with asyncio.timeout(5):
                await serving
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


@contextlib.contextmanager
def calling(path: str) -> Iterator[Raw]:
    """A client that keeps no rules."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.setblocking(False)  # noqa: FBT003 -- the library's form
        sock.connect(path)
        yield Raw(sock)


def descriptors() -> frozenset[tuple[int, str]]:
    """Return what this process has open: each descriptor and what it is of.

    Compare with ``<=``: what earlier tests left to the garbage collector may go at any time.
    """
    found = set()
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 -- no paths wanted
        with contextlib.suppress(FileNotFoundError):  # the one by which the list was read
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))  # noqa: PTH115 -- likewise
    return frozenset(found)


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Fail if descriptors or tasks are left that were not there before."""
    tasks, before = asyncio.all_tasks(), descriptors()
    yield

    assert asyncio.all_tasks() - tasks <= {asyncio.current_task()}
    assert descriptors() <= before
