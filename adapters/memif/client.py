"""The client's end of the control channel: what an application in a pod does, and the probe, which stops half-way."""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from adapters.memif import rings
from adapters.memif.codec import (
    VERSION,
    Ack,
    AddRegion,
    Connect,
    Connected,
    Disconnect,
    Hello,
    Init,
    Message,
    Mode,
    spelled,
)
from adapters.memif.connection import Connection
from adapters.memif.dial import dial
from adapters.memif.errors import ChannelUnusable, Malformed, NotMemif, PeerClosed, Refused, VersionMismatch
from domain.secret import Secret

NAME: Final = "memif-device-plugin"
"""How we call ourselves to peers."""

PATIENCE: Final = 5.0
"""Seconds that a peer has for each answer."""

_EVENTFD: Final = os.EFD_CLOEXEC | os.EFD_NONBLOCK

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe found out.

    Attributes:
        hello: how the peer calls itself, the versions it speaks and its limits, in its own words.
        refusal: why it did not accept interface id, mode and secret, in its own words, which are not ours and differ
            between programs; ``None`` if it did.
    """

    hello: Hello
    refusal: str | None

    @property
    def accepted(self) -> bool:
        """Whether interface id, mode and secret were accepted."""
        return self.refusal is None


async def probe(
    path: str,
    *,
    interface: int = 1,
    secret: Secret | None = None,
    mode: Mode = Mode.ETHERNET,
    patience: float = PATIENCE,
) -> Probed:
    """Ask the peer that listens on a socket who it is, and whether it would accept a client, and take leave.

    For that moment the interface is occupied: its real client is told "already connected" if it comes just then, and
    tries again by itself.  Whether that may be, the caller must know.

    Args:
        path: of the control socket.
        interface: its id; ours are 1 to the number of devices.
        secret: ``None`` to give none.
        mode: what the interface carries.
        patience: seconds for each answer; there are three.

    Raises:
        ChannelUnusable: one of its kinds, each with its cure; but a refusal is an answer here.
        Unencodable: id or secret have no form in the protocol.
    """
    connection = await dial(path, patience=patience)
    farewell = "the probe gives up"
    try:
        hello = await _greet(connection, path)
        try:
            await _ask(connection, _init(interface, secret, mode), Ack, path)
        except Refused as refused:
            return Probed(hello=hello, refusal=refused.reason)
        farewell = "the probe is done"
        return Probed(hello=hello, refusal=None)
    finally:
        connection.part(farewell)


class Link:
    """A link that is up until either end hangs up; it carries nothing.

    As an asynchronous context manager it is closed at the end.
    """

    def __init__(self, connection: Connection, *, hello: Hello, peer_interface: str, descriptors: list[int]) -> None:
        self._connection = connection
        self._descriptors = descriptors
        self.hello = hello
        """The peer's first word."""
        self.peer_interface = peer_interface
        """How the peer calls its end."""

    @property
    def up(self) -> bool:
        """Whether the peer is still there and has not hung up."""
        return self._connection.open

    async def ended(self) -> str:
        """Wait until the peer hangs up, and return its reason; empty if it gave none."""
        with suppress(PeerClosed, Malformed):
            while True:
                received = await self._connection.receive(endless=True)
                if isinstance(received.message, Disconnect):
                    return received.message.text
        return ""

    def close(self) -> None:
        """Say DISCONNECT and let go of the shared memory; closing twice is fine."""
        self._connection.part("the client ends")
        _close(self._descriptors)

    async def __aenter__(self) -> Self:
        """Nothing to do: the link is up already."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        self.close()


async def connect(
    path: str,
    *,
    interface: int = 1,
    secret: Secret | None = None,
    mode: Mode = Mode.ETHERNET,
    name: str = "",
    patience: float = PATIENCE,
) -> Link:
    """Bring a link up in the client's role, with the smallest memory that is a whole link.

    Args:
        path: of the control socket.
        interface: its id.
        secret: ``None`` to give none.
        mode: what the interface carries.
        name: ours for the interface, for people.
        patience: seconds for each answer.

    Raises:
        Refused: the peer says no, and why.
        ChannelUnusable: one of its other kinds, each with its cure.
        Unencodable: id or secret have no form in the protocol.
        OSError: the system is out of memory or descriptors.
    """
    connection = await dial(path, patience=patience)
    descriptors: list[int] = []
    try:
        hello = await _greet(connection, path)
        await _ask(connection, _init(interface, secret, mode), Ack, path)
        shared = rings.share()
        descriptors.append(shared.memory)
        await _ask(connection, AddRegion(0, shared.size), Ack, path, shared.memory)
        for ring in shared.rings:
            interrupt = os.eventfd(0, _EVENTFD)
            descriptors.append(interrupt)
            await _ask(connection, ring, Ack, path, interrupt)
        connected = await _ask(connection, Connect(name or f"memif{interface}"), Connected, path)
    except BaseException:
        connection.part("the client gives up")
        _close(descriptors)
        raise
    return Link(connection, hello=hello, peer_interface=connected.interface, descriptors=descriptors)


def _init(interface: int, secret: Secret | None, mode: Mode) -> Init:
    return Init(id=interface, mode=mode, secret=secret, name=NAME)


async def _greet(connection: Connection, path: str) -> Hello:
    hello = await _hear(connection, Hello, path)
    if not hello.lowest <= VERSION <= hello.highest:
        connection.part("incompatible protocol version")
        raise VersionMismatch(
            f"{hello.name!r} at {path} speaks memif {spelled(hello.lowest)} to {spelled(hello.highest)}, and we speak"
            f" {spelled(VERSION)}; VPP, DPDK and libmemif of the last years all speak 2.0: update the dataplane",
            lowest=hello.lowest,
            highest=hello.highest,
        )
    return hello


async def _ask(
    connection: Connection, message: Message, expected: type[M], path: str, descriptor: int | None = None
) -> M:
    # A peer that is gone may have said why before.
    with suppress(PeerClosed):
        await connection.send(message, descriptor)
    return await _hear(connection, expected, path)


async def _hear(connection: Connection, expected: type[M], path: str) -> M:
    try:
        message = (await connection.receive()).message
    except Malformed as error:
        raise _no_memif(path, str(error)) from error
    if isinstance(message, expected):
        return message
    if isinstance(message, Disconnect):
        raise Refused(
            f"the peer at {path} refuses: it says '{message.text}'; compare interface id, mode and secret with what it"
            " was told, and look at its log",
            reason=message.text,
            code=message.code,
        )
    raise _no_memif(path, f"{type(message).__name__} where {expected.__name__} belongs")


def _no_memif(path: str, fault: str) -> ChannelUnusable:
    return NotMemif(
        f"what listens on {path} does not speak the memif protocol as it should: it sent {fault}; find out what it is"
        " with 'ss -xlp'"
    )


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
