"""Clients that mean no good, at every socket of a daemon at once; run as a program of its own.

A thousand connections a socket that are held open without a word, and a few clients each that send noise, that begin
as the protocol wants it and then crawl, and that announce or send far more than anybody needs.
"""

import asyncio
import random
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

CROWD: Final = 1000
"""Connections a socket that are held open; whoever is refused or cut off tries again."""

FEW: Final = 4
"""Clients of each other kind a socket."""

_PAUSE: Final = 0.1
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS: Final = struct.pack(">I", 0)[1:] + b"\x04\x00" + struct.pack(">I", 0)
_HUGE: Final = 8 * 1024 * 1024
_WHOLE: Final = 5.0
"""Seconds that a client goes on at most before it begins anew."""

Address: TypeAlias = "tuple[str, int] | str"
Client: TypeAlias = Callable[[socket.socket], Awaitable[None]]


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[socket.socket]:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        await asyncio.get_running_loop().sock_connect(client, address)
        yield client


async def _silent(client: socket.socket) -> None:
    """Say nothing until cut off."""
    await asyncio.get_running_loop().sock_recv(client, 1)


async def _noisy(client: socket.socket) -> None:
    """Send noise."""
    await asyncio.get_running_loop().sock_sendall(client, random.randbytes(random.randrange(1, 20_000)))


async def _slow(client: socket.socket) -> None:
    """Begin as is right, one byte after the other."""
    for byte in _PREFACE + _SETTINGS:
        await asyncio.get_running_loop().sock_sendall(client, bytes((byte,)))
        await asyncio.sleep(_PAUSE)


async def _announcing(client: socket.socket) -> None:
    """Open stream after stream, each with a message that is announced to be huge, and never send it."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, _PREFACE + _SETTINGS)
    head = b"\x83\x86\x44\x12/memif.v1.Memif/Xyz\x41\x01x\x40\x02te\x08trailers\x5f\x10application/grpc"
    for stream in range(1, 2000, 2):
        headers = struct.pack(">I", len(head))[1:] + b"\x01\x04" + struct.pack(">I", stream) + head
        message = struct.pack(">BI", 0, 2**31 - 1) + random.randbytes(4000)
        data = struct.pack(">I", len(message))[1:] + b"\x00\x00" + struct.pack(">I", stream) + message
        await loop.sock_sendall(client, headers + data)


async def _large(client: socket.socket) -> None:
    """Send more than anybody needs, after the words with which both protocols begin."""
    opening = random.choice((_PREFACE + _SETTINGS, b"GET / HTTP/1.1\r\nHost: x\r\nX: "))
    await asyncio.get_running_loop().sock_sendall(client, opening + b"x" * _HUGE)


async def _again(address: Address, client: Client) -> None:
    """Be such a client again and again."""
    while True:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(None if client is _silent else _WHOLE), _connected(address) as connection:
                await client(connection)
        await asyncio.sleep(random.uniform(_PAUSE, 2 * _PAUSE))


async def flood(addresses: list[Address]) -> None:
    """Molest every address until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        for address in addresses:
            for client in (_noisy, _slow, _announcing, _large):
                for _ in range(FEW):
                    tasks.create_task(_again(address, client))
            for number in range(CROWD):
                tasks.create_task(_again(address, _silent))
                if number % 50 == 0:
                    await asyncio.sleep(0.01)
        print("flooding", flush=True)  # noqa: T201 -- what the test waits for


if __name__ == "__main__":
    asyncio.run(
        flood(
            [(each.rpartition(":")[0], int(each.rpartition(":")[2])) if ":" in each else each for each in sys.argv[1:]]
        )
    )
