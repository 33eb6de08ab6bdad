"""The dataplane's side of the conversation, message by message, without the socket."""

import hmac
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final, assert_never

from adapters.memif import rings
from adapters.memif.codec import (
    CLIENT_TO_SERVER,
    VERSION,
    Ack,
    AddRegion,
    AddRing,
    Connect,
    Connected,
    Disconnect,
    Hello,
    Init,
    Message,
    Mode,
    secret_field,
)
from adapters.memif.connection import Received
from domain.errors import MemifError
from domain.secret import Secret

MAX_REGION: Final = 15
"""The highest index of a region; each costs a descriptor until the link ends."""

MAX_RING: Final = 15
"""The highest index of a ring in either direction; likewise."""


class Turned(MemifError):
    """The client is turned away; the text is the reason that it is told, and never leaves the package otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One memif interface that a server offers.

    Attributes:
        id: unique on its socket.
        secret: that a client must know, ``None`` if none is asked for.
        mode: what it carries.
        name: the server's own, for people.
    """

    id: int
    secret: Secret | None
    mode: Mode = Mode.ETHERNET
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse a secret that no client could send."""
        secret_field(self.secret)


class Handshake:
    """What one client has said so far, and what it has given us.

    Each interface has one client: the first that knows its secret holds it until :meth:`close`.

    Args:
        interfaces: by id.
        holders: who holds an interface, by id; shared by all conversations of a server.
    """

    def __init__(self, interfaces: Mapping[int, Interface], holders: "MutableMapping[int, Handshake]") -> None:
        self._interfaces = interfaces
        self._holders = holders
        self._regions: dict[int, tuple[int, int]] = {}
        self._rings: dict[int, list[int]] = {0: [], CLIENT_TO_SERVER: []}
        self.interface: Interface | None = None
        """The one that the client holds."""
        self.peer = ""
        """How the client calls itself."""
        self.peer_interface: str | None = None
        """How it calls its end of the link, once the link is agreed on."""

    @staticmethod
    def hello(name: str) -> Hello:
        """Return the first word."""
        return Hello(
            name=name,
            max_region=MAX_REGION,
            max_server_to_client=MAX_RING,
            max_client_to_server=MAX_RING,
            max_log2_ring_size=rings.MAX_LOG2_RING_SIZE,
        )

    def answer(self, received: Received) -> Message:
        """Take what came and return the answer; a descriptor is ours from now on, whatever happens.

        Raises:
            Turned: the conversation is over, for the reason in the text.
        """
        try:
            answer = self._answer(received.message, received.descriptor)
        except rings.Unbelievable as error:
            self._close(received.descriptor)
            raise Turned(str(error)) from error
        except Turned:
            self._close(received.descriptor)
            raise
        if not isinstance(received.message, AddRegion | AddRing):
            self._close(received.descriptor)
        return answer

    def close(self) -> None:
        """Close every descriptor and let go of the interface; closing twice is fine."""
        for memory, _ in self._regions.values():
            os.close(memory)
        for interrupt in (*self._rings[0], *self._rings[CLIENT_TO_SERVER]):
            os.close(interrupt)
        self._regions.clear()
        self._rings = {0: [], CLIENT_TO_SERVER: []}
        if self.interface is not None and self._holders.get(self.interface.id) is self:
            del self._holders[self.interface.id]

    def _answer(self, message: Message, descriptor: int | None) -> Message:
        if isinstance(message, Init) != (self.interface is None) or self.peer_interface is not None:
            raise Turned("unexpected message")
        match message:
            case Init():
                return self._init(message)
            case AddRegion():
                return self._add_region(message, descriptor)
            case AddRing():
                return self._add_ring(message, descriptor)
            case Connect():
                return self._connect(message)
            case Ack() | Hello() | Connected() | Disconnect():
                raise Turned("unexpected message")
            case _:
                assert_never(message)

    def _init(self, message: Init) -> Message:
        """Judge in VPP's order and in its words, which people look for in the documentation."""
        if message.version != VERSION:
            raise Turned("unsupported version")
        interface = self._interfaces.get(message.id)
        if interface is None:
            raise Turned("unmatched interface id")
        if interface.id in self._holders:
            raise Turned("already connected")
        if message.mode != interface.mode:
            raise Turned("mode mismatch")
        if interface.secret is not None:
            if message.secret is None:
                raise Turned("secret required")
            if not hmac.compare_digest(secret_field(message.secret), secret_field(interface.secret)):
                raise Turned("incorrect secret")
        self.interface = interface
        self.peer = message.name
        self._holders[interface.id] = self
        return Ack()

    def _add_region(self, message: AddRegion, descriptor: int | None) -> Message:
        if descriptor is None:
            raise Turned("the region's descriptor is missing")
        if message.index != len(self._regions):
            raise Turned("unexpected region index")
        if message.index > MAX_REGION:
            raise Turned("too many regions")
        rings.check_region(descriptor, message.size)
        self._regions[message.index] = (descriptor, message.size)
        return Ack()

    def _add_ring(self, message: AddRing, descriptor: int | None) -> Message:
        known = self._rings[message.flags & CLIENT_TO_SERVER]
        if descriptor is None:
            raise Turned("the ring's interrupt descriptor is missing")
        if message.private_header:
            raise Turned("private headers are not supported")
        if message.index != len(known):
            raise Turned("unexpected ring index")
        if message.index > MAX_RING:
            raise Turned("too many rings")
        rings.check_ring(message, self._regions)
        known.append(descriptor)
        return Ack()

    def _connect(self, message: Connect) -> Message:
        if not all(self._rings.values()):
            raise Turned("a ring is missing: each direction takes one")
        self.peer_interface = message.interface
        return Connected(self.interface.name if self.interface is not None else "")

    @staticmethod
    def _close(descriptor: int | None) -> None:
        if descriptor is not None:
            os.close(descriptor)
